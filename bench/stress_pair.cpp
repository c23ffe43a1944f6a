#include "bench/stress_pair.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "bench/model.h"

namespace headrace::bench {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPool = 1 << 21;
constexpr std::uint64_t kMostElements = 1 << 20;  // of one tensor
constexpr std::uint64_t kStateBytesPerElement = 12;
constexpr double kMaxNorm = 10, kGradScale = 4;

const std::array kHyper = {AdamW{1e-3, 0.9, 0.95, 1e-8, 0.1, true},
                           AdamW{3e-4, 0.9, 0.999, 1e-8, 0.0, true}};

StepOptions step_options() {
  return {.by_group = kHyper, .max_norm = kMaxNorm, .grad_scale = kGradScale};
}

std::size_t bytes_of(const TensorSpec& spec, Kind kind) {
  return kind == Kind::param ? size_of(spec.param) : sizeof(float);
}

const char* name_of_home(ParamHome home) {
  return home == ParamHome::dram ? "dram" : home == ParamHome::hbm ? "hbm" : "streamed";
}

}  // namespace

StressPair::StressPair(std::vector<fs::path> folders, std::uint64_t seed)
    : folders_(std::move(folders)), random_(seed) {
  std::uniform_real_distribution<float> sign(-1.0F, 1.0F), decade(-4.0F, 0.0F);
  pool_.reserve(kPool);
  while (pool_.size() < kPool) pool_.push_back(sign(random_) * std::pow(10.0F, decade(random_)));
}

void StressPair::choose_machine() {
  constexpr std::array<std::uint64_t, 5> kShards = {128 * kKiB, 333'333, kMiB, 3 * kMiB, 8 * kMiB};
  options_.format = pick(2) == 0 ? StateFormat::fp32 : StateFormat::split;
  options_.slots = static_cast<int>(2 + pick(5));
  options_.shard_bytes = kShards[pick(kShards.size())];
  options_.params = static_cast<ParamHome>(pick(3));
  options_.nvme_paths = folders_;
  if (pick(3) == 0) options_.nvme_paths.resize(1);
  options_.deadline = std::chrono::seconds(120);
  options_.state = StateHome::nvme;
  if (pick(4) == 0) {
    options_.durability = Durability::reusable;
  } else if (pick(2) == 0) {  // some of it on every tier
    options_.state = StateHome::automatic;
    options_.dram_bytes =
        static_cast<std::uint64_t>(options_.slots) * (options_.shard_bytes + 64 * kKiB) +
        pick(8 * kMiB);
    options_.hbm_bytes = pick(8 * kMiB);
  }
}

void StressPair::choose_model(std::uint64_t state_bytes) {
  constexpr std::array kTypes = {ScalarType::bf16, ScalarType::fp16, ScalarType::fp32};
  const std::uint64_t units = 2 + pick(5);
  std::uint64_t left = std::max<std::uint64_t>(state_bytes / kStateBytesPerElement, 1024);
  for (std::uint64_t i = 0; i < 3 * units && left > 0; ++i) {
    TensorSpec spec;
    spec.name = fmt::format("tensor {}", i);
    spec.unit = UnitId{static_cast<std::uint32_t>(i % units)};
    spec.group = GroupId{static_cast<std::uint32_t>(pick(kHyper.size()))};
    const std::uint64_t most = pick(3) == 0 ? 1000 : kMostElements;
    spec.count = std::min(left, pick(most) + (i == 0 ? 1 : 0));
    spec.param = kTypes[pick(kTypes.size())];
    spec.trainable = i == 0 || pick(6) != 0;
    left -= spec.count;
    specs_.push_back(std::move(spec));
  }
}

Result<std::unique_ptr<StressPair>> StressPair::open(std::vector<fs::path> folders,
                                                     std::uint64_t state_bytes,
                                                     std::uint64_t seed) {
  std::unique_ptr<StressPair> pair(new StressPair(std::move(folders), seed));
  pair->choose_machine();
  pair->choose_model(state_bytes);
  PlatformOptions options;
  options.io = pair->pick(4) == 0 ? IoBackend::posix : IoBackend::automatic;
  options.queue.chunk_bytes = (256 * kKiB) << pair->pick(5);
  options.wrap_engine = [script = pair->script_](std::unique_ptr<IoEngine> inner, Clock& clock) {
    return faulty_engine(std::move(inner), script, &clock);
  };
  const EngineOptions& engine = pair->options_;
  pair->words_ = fmt::format(
      "{} tensors, format {}, {} slots, shards of {}, parameters {}, {} folders, {}, {}",
      pair->specs_.size(), name_of(engine.format), engine.slots, format_bytes(engine.shard_bytes),
      name_of_home(engine.params), engine.nvme_paths.size(),
      engine.state == StateHome::nvme ? "all on NVMe" : "on every tier",
      engine.durability == Durability::reusable ? "reusable" : "scratch");
  HEADRACE_ASSIGN(pair->platform_, Platform::open(std::move(options)));
  HEADRACE_ASSIGN(pair->calm_, Platform::open());
  HEADRACE_ASSIGN(pair->tested_, pair->open_engine(*pair->platform_, engine));
  HEADRACE_ASSIGN(pair->reference_, pair->open_engine(*pair->calm_, {.format = StateFormat::fp32,
                                                                     .state = StateHome::dram,
                                                                     .threads = 1}));
  HEADRACE_TRY(pair->write_weights(*pair->tested_));
  HEADRACE_TRY(pair->write_weights(*pair->reference_));
  return pair;
}

Result<std::unique_ptr<Engine>> StressPair::open_engine(Platform& platform,
                                                        const EngineOptions& options) {
  HEADRACE_ASSIGN(std::unique_ptr<Engine> engine, Engine::open(platform, options));
  for (const TensorSpec& spec : specs_) HEADRACE_TRY(engine->add(spec).status());
  HEADRACE_TRY(engine->seal());
  return engine;
}

Status StressPair::write_weights(Engine& engine) {
  for (std::uint32_t t = 0; t < specs_.size(); ++t) {
    const auto weights = std::span<const float>(pool_).subspan(t, specs_[t].count);
    HEADRACE_TRY(engine.write(TensorId{t}, Kind::master, {0, weights.size()}, view_of(weights)));
  }
  return {};
}

// `windows`: where in the pool each tensor's gradient begins; past its end: none.
Status StressPair::put(Engine& engine, const std::vector<std::size_t>& windows, bool overflow) {
  std::vector<Event> ends;
  std::vector<float> bad;
  for (std::uint32_t t = 0; t < specs_.size(); ++t) {
    if (windows[t] >= kPool) continue;
    std::span<const float> window =
        std::span<const float>(pool_).subspan(windows[t], specs_[t].count);
    if (overflow && bad.empty() && !window.empty()) {
      bad.assign(window.begin(), window.end());
      bad[bad.size() / 2] = std::numeric_limits<float>::infinity();
      window = bad;
    }
    ends.push_back(engine.put_grad(TensorId{t}, view_of(window), ScalarType::fp32));
  }
  Status first;
  for (const Event& end : ends)
    if (const Status how = engine.wait(end); first.ok()) first = how;
  return first;
}

Verdict StressPair::step() {
  const bool overflow = pick(12) == 0;
  for (std::uint64_t batches = 1 + pick(2); batches > 0; --batches) {
    std::vector<std::size_t> windows;
    for (const TensorSpec& spec : specs_)
      windows.push_back(spec.trainable && pick(4) != 0 ? pick(kPool - spec.count) : kPool);
    if (const Status how = put(*tested_, windows, overflow); !how.ok()) return {how};
    if (const Status how = put(*reference_, windows, overflow); !how.ok()) return {how};
  }
  const Result<StepReport> report = tested_->step(step_options());
  if (!report.ok()) return {report.status()};
  const Result<StepReport> wanted = reference_->step(step_options());
  if (!wanted.ok()) return {wanted.status()};
  if (report->applied != wanted->applied || report->grad_norm != wanted->grad_norm ||
      report->bad_index != wanted->bad_index)
    return {{},
            fmt::format("a step was {} with norm {}, and {} with norm {} in memory",
                        report->applied ? "applied" : "skipped", report->grad_norm,
                        wanted->applied ? "applied" : "skipped", wanted->grad_norm)};
  // At times the next operation comes while the update runs.
  return {pick(3) == 0 ? tested_->wait(report->done) : Status()};
}

Range StressPair::some(const TensorSpec& spec) {
  const std::uint64_t begin = pick(spec.count + 1);
  return {begin, pick(spec.count - begin + 1)};
}

Verdict StressPair::compare(std::size_t tensor, Kind kind, Range range) {
  const TensorId id{static_cast<std::uint32_t>(tensor)};
  const std::size_t size = range.count * bytes_of(specs_[tensor], kind);
  std::vector<std::byte> found(size), wanted(size);
  if (const Status how = tested_->read(id, kind, range, MemView(Bytes(found))); !how.ok())
    return {how};
  if (const Status how = reference_->read(id, kind, range, MemView(Bytes(wanted))); !how.ok())
    return {how};
  compared_ += size;
  if (found == wanted) return {};
  const auto at = std::ranges::mismatch(found, wanted).in1 - found.begin();
  return {
      {},
      fmt::format("{} of \"{}\" differs from the reference at element {}", headrace::name_of(kind),
                  specs_[tensor].name,
                  range.begin + static_cast<std::uint64_t>(at) / bytes_of(specs_[tensor], kind))};
}

Verdict StressPair::read() {
  const std::size_t tensor = pick(specs_.size());
  const Kind kind = static_cast<Kind>(pick(kStateKinds + 1));
  const bool moment = kind == Kind::exp_avg || kind == Kind::exp_avg_sq;
  return compare(tensor, moment && !specs_[tensor].trainable ? Kind::param : kind,
                 some(specs_[tensor]));
}

Verdict StressPair::write() {
  const std::size_t tensor = pick(specs_.size());
  const TensorSpec& spec = specs_[tensor];
  const TensorId id{static_cast<std::uint32_t>(tensor)};
  const Kind kind = spec.trainable ? static_cast<Kind>(pick(kStateKinds)) : Kind::master;
  const Range range = some(spec);
  const auto values = std::span<const float>(pool_).subspan(pick(kPool - range.count), range.count);
  std::vector<float> squares(values.begin(), values.end());
  if (kind == Kind::exp_avg_sq)
    for (float& value : squares) value *= value;
  const ConstMemView from = view_of(std::span<const float>(squares));
  if (const Status how = tested_->write(id, kind, range, from); !how.ok()) return {how};
  return {reference_->write(id, kind, range, from)};
}

Verdict StressPair::lease() {
  const UnitId unit = specs_[pick(specs_.size())].unit;
  Result<Lease> lease = tested_->acquire(unit);
  if (!lease.ok()) return {lease.status()};
  if (const Status how = tested_->wait(lease->ready()); !how.ok()) return {how};
  lease->release();
  for (std::size_t t = 0; t < specs_.size(); ++t) {
    if (specs_[t].unit != unit) continue;
    Verdict verdict = compare(t, Kind::param, {0, specs_[t].count});
    if (!verdict.status.ok() || !verdict.wrong.empty()) return verdict;
  }
  return {};
}

Verdict StressPair::compare_all() {
  for (std::size_t t = 0; t < specs_.size(); ++t)
    for (std::size_t kind = 0; kind <= kStateKinds; ++kind) {
      const bool moment = kind == 1 || kind == 2;
      if (moment && !specs_[t].trainable) continue;
      Verdict verdict = compare(t, static_cast<Kind>(kind), {0, specs_[t].count});
      if (!verdict.status.ok() || !verdict.wrong.empty()) return verdict;
    }
  return {};
}

Verdict StressPair::reopen() {
  if (Verdict all = compare_all(); !all.status.ok() || !all.wrong.empty()) return all;
  if (const Status how = tested_->drop_gradients(); !how.ok()) return {how};
  if (const Status how = reference_->drop_gradients(); !how.ok()) return {how};
  tested_.reset();
  Result<std::unique_ptr<Engine>> again = open_engine(*platform_, options_);
  if (!again.ok()) return begin_anew(again.status());
  tested_ = std::move(again).value();
  if (!tested_->stats().reopened) return {{}, "the slab was not taken up"};
  return compare_all();
}

// An engine for the last checkpoint to be loaded into.
Verdict StressPair::begin_anew(const Status& why) {
  script_->clear();
  std::error_code gone;
  for (const fs::path& folder : folders_) fs::remove(folder / "headrace.slab", gone);
  Result<std::unique_ptr<Engine>> anew = open_engine(*platform_, options_);
  if (!anew.ok()) return {{}, "no new engine: " + anew.status().to_string()};
  tested_ = std::move(anew).value();
  return {why};
}

Verdict StressPair::save(const fs::path& folder) { return {tested_->save(folder)}; }

Verdict StressPair::load(const fs::path& folder) {
  if (const auto loaded = tested_->load(folder); !loaded.ok()) return {loaded.status()};
  return {reference_->load(folder).status()};
}

}  // namespace headrace::bench
