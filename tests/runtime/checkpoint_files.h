// Checkpoints written with plain files, for tests of what reads them.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "runtime/checkpoint_format.h"

namespace headrace {

inline CheckpointTensor tensor_of(std::string name, std::uint64_t count, bool trainable) {
  CheckpointTensor tensor;
  tensor.name = std::move(name);
  tensor.param = ScalarType::bf16;
  tensor.trainable = trainable;
  tensor.count = count;
  return tensor;
}

// A manifest of a few tensors of several blocks, and none, and their data, seeded.
struct SampleCheckpoint {
  Manifest manifest;
  std::vector<std::byte> data;
};

inline SampleCheckpoint sample_checkpoint(std::uint64_t seed) {
  SampleCheckpoint sample;
  sample.manifest =
      plan_manifest({tensor_of("wte", kBlockElements + 77, true), tensor_of("empty", 0, true),
                     tensor_of("ln", 5, true), tensor_of("frozen", kBlockElements + 1, false)},
                    std::vector<std::byte>(100, std::byte{42}))
          .value();
  sample.data.resize(sample.manifest.data_bytes);
  std::mt19937_64 random(seed);
  for (CheckpointTensor& tensor : sample.manifest.tensors) {
    tensor.step = seed;
    for (std::size_t kind = 0; kind < tensor.kinds(); ++kind) {
      const Bytes run = Bytes(sample.data).subspan(tensor.offsets[kind], tensor.run_bytes());
      for (std::size_t at = 0; at < run.size(); at += 4) {
        const auto value = static_cast<std::uint32_t>(random());
        std::memcpy(&run[at], &value, sizeof(value));
      }
      RunChecksums sums(tensor.checksums[kind]);
      sums.update(run);
      sums.finish();
    }
  }
  return sample;
}

inline void write_bytes(const std::filesystem::path& file, ConstBytes bytes) {
  std::ofstream stream(file, std::ios::binary);
  stream.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  ASSERT_TRUE(stream.good()) << file;
}

inline void write_checkpoint(const std::filesystem::path& folder, const SampleCheckpoint& sample) {
  std::filesystem::create_directory(folder);
  write_bytes(folder / data_name(sample.manifest.generation), sample.data);
  write_bytes(folder / kManifestName, serialize(sample.manifest));
}

// Flips one bit of a file in place.
inline void flip_byte(const std::filesystem::path& file, std::uint64_t offset) {
  std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
  stream.seekg(static_cast<std::streamoff>(offset));
  const char before = static_cast<char>(stream.get());
  stream.seekp(static_cast<std::streamoff>(offset));
  stream.put(static_cast<char>(before ^ 0x10));
  ASSERT_TRUE(stream.good()) << file << " at " << offset;
}

}  // namespace headrace
