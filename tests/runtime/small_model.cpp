#include "tests/runtime/small_model.h"

#include <cmath>
#include <random>

#include "runtime/checksum.h"

namespace headrace::small {
namespace {

using enum ScalarType;

TensorSpec tensor(const char* name, std::uint32_t unit, std::uint32_t group, std::uint64_t count,
                  ScalarType param) {
  TensorSpec spec;
  spec.name = name;
  spec.unit = UnitId{unit};
  spec.group = GroupId{group};
  spec.count = count;
  spec.param = param;
  return spec;
}

constexpr std::array kPlaces = {Place::dram, Place::hbm, Place::nvme, Place::mixed};

Result<std::unique_ptr<Engine>> open_built(Ground& ground, EngineOptions options) {
  HEADRACE_ASSIGN(std::unique_ptr<Engine> engine,
                  Engine::open(ground.platform(), std::move(options)));
  HEADRACE_TRY(build(*engine));
  return engine;
}

}  // namespace

std::vector<TensorSpec> specs() {
  std::vector<TensorSpec> all = {
      tensor("table", 0, 0, 5'000, bf16), tensor("norm", 0, 1, 300, fp32),
      tensor("frozen", 1, 0, 700, fp16),  tensor("big", 1, 0, 30'000, bf16),
      tensor("half", 2, 0, 2'500, fp16),  tensor("empty", 2, 0, 0, bf16),
      tensor("once", 2, 1, 1'000, bf16),  tensor("tied", 3, 0, 5'000, bf16),
  };
  all[index_of(kFrozen)].trainable = false;
  all[index_of(kOnce)].grad = bf16;
  all[index_of(kTied)].alias_of = kTable;
  return all;
}

std::vector<TensorId> with_state() { return {kTable, kNorm, kBig, kHalf, kEmpty, kOnce}; }

std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const StateFormat format : {StateFormat::fp32, StateFormat::split})
    for (const Place place : kPlaces) all.push_back({GroundKind::simulated, place, format});
  all.push_back({GroundKind::posix, Place::hbm, StateFormat::split});
  all.push_back({GroundKind::posix, Place::nvme, StateFormat::fp32});
  all.push_back({GroundKind::posix, Place::mixed, StateFormat::split});
  all.push_back({GroundKind::uring, Place::nvme, StateFormat::split});
  return all;
}

std::string name_of(const Setting& setting) {
  constexpr const char* kGroundNames[] = {"simulated", "posix", "uring"};
  constexpr const char* kPlaceNames[] = {"dram", "hbm", "nvme", "mixed"};
  return std::string(kGroundNames[static_cast<int>(setting.ground)]) + "_" +
         kPlaceNames[static_cast<int>(setting.place)] +
         (setting.format == StateFormat::fp32 ? "_fp32" : "_split");
}

EngineOptions options_of(const Setting& setting, const std::filesystem::path& folder) {
  EngineOptions options;
  options.format = setting.format;
  options.shard_bytes = kShardBytes;
  options.slots = 3;
  options.threads = 1;
  if (setting.place == Place::dram) options.state = StateHome::dram;
  if (setting.place == Place::hbm) options.state = StateHome::hbm;
  if (setting.place == Place::nvme) options.state = StateHome::nvme;
  if (setting.place >= Place::nvme) options.nvme_paths = {folder};
  if (setting.place == Place::mixed) {  // slots of 48 KiB, and the first shards
    options.dram_bytes = 3 * 48 * kKiB + 100 * kKiB;
    options.hbm_bytes = 100 * kKiB;
  }
  return options;
}

std::vector<float> values(std::uint64_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> sign(-1.0F, 1.0F), decade(-3.0F, 0.0F);
  std::vector<float> made(count);
  for (float& value : made) value = sign(random) * std::pow(10.0F, decade(random));
  return made;
}

std::vector<float> gradient(TensorId tensor, std::uint64_t seed) {
  return values(spec(tensor).count, 1000 * seed + index_of(tensor) + 1);
}

Status add_all(Engine& engine) {
  for (const TensorSpec& spec : specs()) HEADRACE_TRY(engine.add(spec).status());
  return {};
}

Status build(Engine& engine) {
  HEADRACE_TRY(add_all(engine));
  HEADRACE_TRY(engine.seal());
  return write_weights(engine);
}

Status build_equal(Engine& engine, std::uint32_t units, std::uint64_t count) {
  for (std::uint32_t unit = 0; unit < units; ++unit) {
    TensorSpec spec;
    spec.name = "unit" + std::to_string(unit);
    spec.unit = UnitId{unit};
    spec.count = count;
    HEADRACE_TRY(engine.add(spec).status());
  }
  return engine.seal();
}

Status write_weights(Engine& engine) {
  for (std::uint32_t t = 0; t < kTensors; ++t) {
    if (spec(TensorId{t}).alias_of) continue;
    const std::vector<float> weights = values(spec(TensorId{t}).count, 77 + t);
    HEADRACE_TRY(engine.write(TensorId{t}, Kind::master, {0, weights.size()},
                              view_of(std::span<const float>(weights))));
  }
  return {};
}

Status put(Engine& engine, TensorId tensor, std::uint64_t seed) {
  const std::vector<float> source = gradient(tensor, seed);
  return engine.wait(
      engine.put_grad(tensor, view_of(std::span<const float>(source)), ScalarType::fp32));
}

Status put_all(Engine& engine, std::uint64_t seed) {
  for (std::uint32_t t = kTensors; t-- > 0;)
    if (spec(TensorId{t}).trainable) HEADRACE_TRY(put(engine, TensorId{t}, seed));
  return {};
}

StepOptions step_options() {
  StepOptions options;
  options.by_group = kGroups;
  options.max_norm = 5;
  return options;
}

Status train(Engine& engine, int from, int to) {
  for (int number = from; number < to; ++number) {
    HEADRACE_TRY(put_all(engine, static_cast<std::uint64_t>(number)));
    HEADRACE_ASSIGN(const StepReport report, engine.step(step_options()));
    if (!report.applied) return Status(Code::invalid, "a step was skipped: " + report.why);
  }
  return {};
}

std::size_t element_bytes(TensorId tensor, Kind kind) {
  return kind == Kind::param ? size_of(spec(tensor).param) : sizeof(float);
}

Result<std::vector<std::byte>> bytes_of(Engine& engine, TensorId tensor, Kind kind) {
  const std::uint64_t count = spec(tensor).count;
  std::vector<std::byte> bytes(count * element_bytes(tensor, kind));
  HEADRACE_TRY(engine.read(tensor, kind, {0, count}, MemView(Bytes(bytes))));
  return bytes;
}

Result<std::vector<float>> floats_of(Engine& engine, TensorId tensor, Kind kind) {
  std::vector<float> read(spec(tensor).count);
  HEADRACE_TRY(engine.read(tensor, kind, {0, read.size()}, view_of(std::span(read))));
  return read;
}

Result<std::uint64_t> hash(Engine& engine) {
  StreamingChecksum sum;
  for (std::uint32_t t = 0; t < kTensors; ++t) {
    for (const Kind kind : {Kind::master, Kind::exp_avg, Kind::exp_avg_sq, Kind::param}) {
      if (!spec(TensorId{t}).trainable && (kind == Kind::exp_avg || kind == Kind::exp_avg_sq))
        continue;
      HEADRACE_ASSIGN(const std::vector<std::byte> bytes, bytes_of(engine, TensorId{t}, kind));
      sum.update(bytes);
    }
  }
  return sum.digest();
}

std::vector<std::uint64_t> steps_of(Engine& engine) {
  std::vector<std::uint64_t> steps;
  for (std::uint32_t t = 0; t < kTensors; ++t)
    steps.push_back(engine.steps_of(TensorId{t}).value());
  return steps;
}

Running::Running(const Setting& setting, EngineWrapper wrap)
    : ground(setting.ground, std::move(wrap)),
      engine(open_built(ground, options_of(setting, ground.folder(0))).value()) {}

Running::Running(const Setting& setting, const std::function<void(EngineOptions&)>& change)
    : ground(setting.ground) {
  EngineOptions options = options_of(setting, ground.folder(0));
  change(options);
  engine = open_built(ground, std::move(options)).value();
}

}  // namespace headrace::small
