// Saves a small model through a queue, and tells which save a folder holds.
#pragma once

#include <optional>

#include "runtime/checkpoint_folder.h"
#include "tests/runtime/checkpoint_files.h"

namespace headrace {

// A small model, whose steps and bytes tell which save it is.
inline SampleCheckpoint small_checkpoint(std::uint64_t number) {
  SampleCheckpoint sample;
  sample.manifest =
      plan_manifest({tensor_of("a", 700, true), tensor_of("b", 3, false)}, {}).value();
  sample.data.resize(sample.manifest.data_bytes);
  for (CheckpointTensor& tensor : sample.manifest.tensors) {
    tensor.step = number;
    for (std::size_t kind = 0; kind < tensor.kinds(); ++kind) {
      const Bytes run = Bytes(sample.data).subspan(tensor.offsets[kind], tensor.run_bytes());
      std::ranges::fill(run, static_cast<std::byte>(16 * number + kind));
      RunChecksums sums(tensor.checksums[kind]);
      sums.update(run);
      sums.finish();
    }
  }
  return sample;
}

inline Status write_run(Platform& platform, IoQueue& queue, const File& file, std::uint64_t offset,
                        ConstBytes run) {
  return platform.wait(queue.write(file, offset, run), std::chrono::seconds(60));
}

inline Status write_runs(Platform& platform, IoQueue& queue, const File& file,
                         const SampleCheckpoint& sample) {
  for (const CheckpointTensor& tensor : sample.manifest.tensors)
    for (std::size_t kind = 0; kind < tensor.kinds(); ++kind)
      HEADRACE_TRY(
          write_run(platform, queue, file, tensor.offsets[kind],
                    ConstBytes(sample.data).subspan(tensor.offsets[kind], tensor.run_bytes())));
  return {};
}

inline Status save(Platform& platform, IoQueue& queue, const std::filesystem::path& folder,
                   const SampleCheckpoint& sample) {
  HEADRACE_ASSIGN(CheckpointWriter writer,
                  CheckpointWriter::create(platform, queue, folder, sample.manifest));
  HEADRACE_TRY(write_runs(platform, queue, writer.data(), sample));
  return writer.commit(sample.manifest);
}

// Which save lies there, all of its bytes right. None: no checkpoint.
inline std::optional<std::uint64_t> number_of(Platform& platform, IoQueue& queue,
                                              const std::filesystem::path& folder) {
  const Result<CheckpointReader> reader = CheckpointReader::open(platform, queue, folder);
  if (!reader.ok()) {
    EXPECT_EQ(reader.status().code(), Code::invalid) << reader.status().to_string();
    return std::nullopt;
  }
  const std::uint64_t number = reader->manifest().tensors.at(0).step;
  std::vector<std::byte> data(reader->manifest().data_bytes);
  EXPECT_TRUE(platform.wait(queue.read(reader->data(), 0, data), std::chrono::seconds(60)).ok());
  const SampleCheckpoint expected = small_checkpoint(number);
  EXPECT_EQ(data, expected.data);
  EXPECT_EQ(reader->manifest().tensors.at(1).checksums, expected.manifest.tensors[1].checksums);
  return number;
}

}  // namespace headrace
