#include "tests/fuzz/entries.h"

#include <array>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "bench/sizes.h"
#include "examples/train_gpt/options.h"
#include "examples/train_gpt/sizes.h"
#include "io/check.h"
#include "io/simulated_engine.h"
#include "runtime/checkpoint_format.h"
#include "runtime/engine.h"
#include "tests/runtime/manifest_bytes.h"

namespace headrace::fuzz {
namespace {

using ByteVector = std::vector<std::byte>;

void check_told(const Status& why) { HEADRACE_CHECK(!why.ok() && !why.message().empty()); }

// What is accepted says exactly what the bytes say.
bool parses(const ByteVector& bytes) {
  const Result<Manifest> manifest = parse(bytes, "fuzz");
  if (!manifest.ok()) {
    check_told(manifest.status());
    return false;
  }
  HEADRACE_CHECK(serialize(*manifest) == bytes);
  return true;
}

void seal(ByteVector& bytes) {
  if (bytes.size() < kHeaderBytes) return;
  seal_body(bytes);
  seal_header(bytes);
}

constexpr const char* kFolder = "/run/checkpoint";

std::vector<TensorSpec> specs() {
  return {{.name = "table", .count = 700},
          {.name = "norm", .count = 20, .param = ScalarType::fp32},
          {.name = "frozen", .count = 50, .trainable = false}};
}

// One engine for all inputs, on a drive that each of them is put on.
class Loader {
 public:
  Loader() {
    disk_->make_folders(kFolder);
    SimulationOptions options;
    options.wrap_engine = [disk = disk_](std::unique_ptr<IoEngine>, Clock& clock) {
      return simulated_engine(disk, {}, clock);
    };
    platform_ = Platform::simulate(std::move(options));
    engine_ = Engine::open(*platform_, {.state = StateHome::dram, .threads = 1}).value();
    for (const TensorSpec& spec : specs()) HEADRACE_CHECK(engine_->add(spec).ok());
    HEADRACE_CHECK(engine_->seal().ok());
    hash_ = engine_->state_hash().value();
  }

  bool load(const ByteVector& manifest, ConstBytes data) {
    std::uint64_t generation = 1;
    if (manifest.size() >= kHeaderBytes) generation = get(manifest, kGenerationAt);
    const std::array names = {std::string(kManifestName), data_name(generation)};
    write(names[0], manifest);
    write(names[1], data);
    const Status how = engine_->load(kFolder).status();
    if (!how.ok()) check_told(how);
    // Never half loaded: then it would be poisoned, or another one.
    const std::uint64_t before = std::exchange(hash_, engine_->state_hash().value());
    HEADRACE_CHECK(how.ok() || hash_ == before);
    for (const std::string& name : names) HEADRACE_CHECK(disk_->remove(path(name)).ok());
    return how.ok();
  }

 private:
  static std::filesystem::path path(const std::string& name) {
    return std::filesystem::path(kFolder) / name;
  }
  void write(const std::string& name, ConstBytes bytes) {
    const FileSpec spec{.path = path(name), .mode = FileMode::create, .direct = false};
    const OpenFile file = disk_->open(spec).value();
    HEADRACE_CHECK(disk_->write(file.handle, 0, bytes) == static_cast<std::int64_t>(bytes.size()));
    disk_->close(file.handle);
  }

  const std::shared_ptr<SimulatedDisk> disk_ = std::make_shared<SimulatedDisk>(64 * kMiB, 4096);
  std::unique_ptr<Platform> platform_;
  std::unique_ptr<Engine> engine_;
  std::uint64_t hash_ = 0;  // of its state
};

template <class Value>
bool is_size(const Result<Value>& parsed) {
  if (!parsed.ok()) check_told(parsed.status());
  HEADRACE_CHECK(!parsed.ok() || *parsed <= ~std::uint64_t{0} >> 1);
  return parsed.ok();
}

std::string text_of(ConstBytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

bool manifest(ConstBytes input) {
  ByteVector bytes(input.begin(), input.end());
  const bool as_it_stands = parses(bytes);
  seal(bytes);
  return parses(bytes) || as_it_stands;
}

bool checkpoint(ConstBytes input) {
  static Loader loader;
  std::uint32_t size = 0;
  if (input.size() < sizeof(size)) return false;
  std::memcpy(&size, input.data(), sizeof(size));
  input = input.subspan(sizeof(size));
  const ConstBytes front = input.first(std::min<std::size_t>(size, input.size()));
  ByteVector bytes(front.begin(), front.end());
  if (size % 2 == 1) seal(bytes);
  return loader.load(bytes, input.subspan(front.size()));
}

bool sizes(ConstBytes input) {
  const std::string text = text_of(input);
  const bool size = is_size(parse_size(text));
  const bool count = is_size(parse_count(text));
  return is_size(train_gpt::parse_size(text)) || size || count;
}

bool command_line(ConstBytes input) {
  std::vector<std::string> arguments;
  const std::string text = text_of(input);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    arguments.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  const train_gpt::CommandLine line = train_gpt::parse(arguments);
  if (line.run) return true;
  HEADRACE_CHECK(!line.text.empty() && (line.exit_code == 0 || line.exit_code == 2));
  return false;
}

}  // namespace headrace::fuzz
