// Two hundred damaged checkpoints: each is refused with a typed error, and the engine that was to
// load it is what it was.
#include <fstream>
#include <iterator>

#include "tests/runtime/checkpoint_files.h"
#include "tests/runtime/manifest_bytes.h"
#include "tests/runtime/small_model.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;
using namespace small;

using ByteVector = std::vector<std::byte>;

#ifdef __SANITIZE_THREAD__
constexpr std::uint64_t kSeeds = 60;
#else
constexpr std::uint64_t kSeeds = 200;
#endif

ByteVector bytes_in(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  const ConstBytes bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// A checkpoint's two files, and where its data's runs lie.
struct Files {
  ByteVector manifest, data;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> runs;
};

class Damage {
 public:
  Damage(const Files& whole, std::uint64_t seed) : whole_(whole), files(whole), random_(seed) {}

  // In the manifest, or in the values of the data; the gaps between these mean nothing.
  void flip() {
    for (std::uint64_t flips = 1 + random_() % 3; flips > 0; --flips)
      any_value() ^= static_cast<std::byte>(1 << random_() % 8);
  }
  void cut() {
    ByteVector& cut = random_() % 2 == 0 ? files.manifest : files.data;
    cut.resize(random_() % cut.size());
  }
  void swap() {
    const std::size_t size = 1 + random_() % 600;
    const auto [run_a, from] = place(size);
    const auto [run_b, to] = place(size);
    std::swap_ranges(&files.data[from], &files.data[from] + size, &files.data[to]);
  }
  // A size or a count as somebody would choose it who means harm, the checksums right.
  void lie() {
    constexpr std::uint64_t kHostile[] = {0,          1,     1ull << 31,  1ull << 48,
                                          1ull << 63, ~0ull, ~0ull - 4095};
    constexpr std::size_t kFields[] = {kTensorsAt, kBodyBytesAt, kUserBytesAt, kDataBytesAt,
                                       kBodyAt,    kBodyAt + 16};  // the first tensor's count, name
    const std::size_t at = kFields[random_() % std::size(kFields)];
    const std::uint64_t value = kHostile[random_() % std::size(kHostile)];
    if (at == kTensorsAt || at == kBodyAt + 16)
      put(files.manifest, at, static_cast<std::uint32_t>(value));
    else
      put(files.manifest, at, value);
    seal_body(files.manifest);
    seal_header(files.manifest);
  }
  bool changed() const { return files.manifest != whole_.manifest || files.data != whole_.data; }

 private:
  // A run that is as long, and a place in it.
  std::pair<std::size_t, std::uint64_t> place(std::size_t size) {
    while (true) {
      const std::size_t run = random_() % files.runs.size();
      const auto [at, length] = files.runs[run];
      if (length >= size) return {run, at + random_() % (length - size + 1)};
    }
  }
  std::byte& any_value() {
    if (random_() % 3 == 0) return files.manifest[random_() % files.manifest.size()];
    return files.data[place(1).second];
  }

  const Files& whole_;

 public:
  Files files;

 private:
  std::mt19937_64 random_;
};

class DamagedCheckpoint : public testing::Test {
 protected:
  DamagedCheckpoint() {
    Engine& engine = *running_;
    EXPECT_TRUE(train(engine, 0, 2).ok());
    EXPECT_TRUE(engine.save(folder_).ok());
    saved_ = hash(engine).value();
    EXPECT_TRUE(train(engine, 20, 21).ok());  // so that a load would show
    before_ = hash(engine).value();
    whole_ = {bytes_in(folder_ / kManifestName), bytes_in(folder_ / data_name(1)), {}};
    const Manifest manifest = parse(whole_.manifest, "manifest").value();
    for (const CheckpointTensor& tensor : manifest.tensors)
      for (std::size_t kind = 0; kind < tensor.kinds(); ++kind)
        if (tensor.count > 0) whole_.runs.emplace_back(tensor.offsets[kind], tensor.run_bytes());
  }

  void write(const Files& files) const {
    write_bytes(folder_ / kManifestName, files.manifest);
    write_bytes(folder_ / data_name(1), files.data);
  }
  void expect_refused(std::uint64_t seed);

  const Running running_{{GroundKind::posix, Place::dram, StateFormat::split}};
  const TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path() / "checkpoint";
  std::uint64_t saved_ = 0, before_ = 0;
  Files whole_;
};

void DamagedCheckpoint::expect_refused(std::uint64_t seed) {
  constexpr void (Damage::*kKinds[])() = {&Damage::flip, &Damage::cut, &Damage::swap, &Damage::lie};
  Damage damage(whole_, seed);
  while (!damage.changed()) (damage.*kKinds[seed % std::size(kKinds)])();
  write(damage.files);
  const Status how = running_->load(folder_).status();
  EXPECT_TRUE(how.code() == Code::corrupt || how.code() == Code::unavailable) << how.to_string();
  EXPECT_FALSE(how.message().empty());
  ASSERT_EQ(hash(*running_).value(), before_) << how.to_string();
}

TEST_F(DamagedCheckpoint, IsRefusedAndChangesNothing) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    ASSERT_NO_FATAL_FAILURE(expect_refused(seed));
  }
  write(whole_);
  ASSERT_TRUE(running_->load(folder_).ok());
  EXPECT_EQ(hash(*running_).value(), saved_);
}

}  // namespace
}  // namespace headrace
