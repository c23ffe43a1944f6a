#include "examples/train_gpt/trainer.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "examples/train_gpt/progress.h"
#include "examples/train_gpt/record.h"
#include "examples/train_gpt/safetensors.h"
#include "examples/train_gpt/sample.h"
#include "examples/train_gpt/schedule.h"

namespace train_gpt {
namespace {

using headrace::Nanoseconds;
using headrace::Result;
using headrace::Stats;
using headrace::Status;
using headrace::Usage;

constexpr double kMaxNorm = 1.0;
constexpr double kWeightDecay = 0.1;

double seconds(Nanoseconds time) { return std::chrono::duration<double>(time).count(); }

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::array<headrace::AdamW, 2> hyperparameters(double rate) {
  headrace::AdamW decay;
  decay.lr = rate;
  decay.beta2 = 0.95;
  decay.weight_decay = kWeightDecay;
  headrace::AdamW no_decay = decay;
  no_decay.weight_decay = 0;
  return {decay, no_decay};  // in the order of Group
}

// Busy time, since `before`, of the resources whose name begins like this.
double busy_since(const std::vector<Usage>& before, const std::vector<Usage>& now,
                  std::string_view prefix) {
  double longest = 0;
  for (const Usage& usage : now) {
    if (!usage.name.starts_with(prefix)) continue;
    const auto old = std::ranges::find(before, usage.name, &Usage::name);
    const Nanoseconds from = old == before.end() ? Nanoseconds(0) : old->busy;
    longest = std::max(longest, seconds(usage.busy - from));
  }
  return longest;
}

std::uint64_t usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return static_cast<std::uint64_t>(CPU_COUNT(&set));
}

bool cores_are_shared(const Options& options) {
  const std::uint64_t cpus = usable_cpus();
  const std::uint64_t team = options.threads == 0 ? cpus : options.threads;
  return options.blas_threads + team > cpus;
}

std::uint64_t peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

std::span<const std::uint8_t> as_bytes(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()};
}

}  // namespace

Trainer::Trainer(headrace::Platform& platform, const Options& options, const Text& text)
    : platform_(platform), options_(options), text_(text), model_(options.shape) {
  report_.options = options;
  report_.text_bytes = text.size();
}

Result<std::unique_ptr<Trainer>> Trainer::open(headrace::Platform& platform, const Options& options,
                                               const Text& text) {
  HEADRACE_TRY(text.long_enough(options.shape.context));
  set_blas_threads(static_cast<int>(options.blas_threads));
  std::unique_ptr<Trainer> trainer(new Trainer(platform, options, text));
  HEADRACE_ASSIGN(trainer->hosted_, HostedModel::open(platform, options));
  if (options.resume.empty()) {
    HEADRACE_TRY(trainer->hosted_->initialise(options.seed));
  } else {
    HEADRACE_TRY(trainer->resume().with("--resume " + options.resume.string()));
  }
  return trainer;
}

Status Trainer::resume() {
  HEADRACE_ASSIGN(const std::vector<std::byte> extra, hosted_->engine().load(options_.resume));
  const auto bytes = as_bytes(extra);
  HEADRACE_ASSIGN(const RunRecord saved, from_text(std::string(bytes.begin(), bytes.end())));
  HEADRACE_TRY(same_run(saved, record_of(options_, text_.fingerprint(), 0)));
  report_.first_step = saved.step + 1;
  return {};
}

Status Trainer::train(const TrainerHooks& hooks) {
  ProgressLine line(STDERR_FILENO);
  const Stats before = hosted_->engine().stats();
  other_reads_ = before.nvme_read_bytes;
  other_writes_ = before.nvme_written_bytes;
  report_.last_step = report_.first_step - 1;
  while (report_.last_step < options_.steps && !report_.interrupted) {
    const std::uint64_t step = report_.last_step + 1;
    HEADRACE_TRY(train_step(step).with(fmt::format("step {}", step)));
    report_.last_step = step;
    report_.interrupted = hooks.interrupted && hooks.interrupted();
    const double took = step_seconds_.back();
    const double tokens = static_cast<double>(options_.shape.rows() * options_.accumulate);
    line.show({step, options_.steps, report_.losses.back().loss, tokens / took, took,
               exposed_seconds_.back()});
    const bool last = step == options_.steps || report_.interrupted;
    if (!last && options_.save_every > 0 && step % options_.save_every == 0) {
      const Status saved = save(step);
      if (!saved.ok()) fmt::print(stderr, "train_gpt: step {}: {}\n", step, saved.message());
    }
  }
  return settle();
}

Status Trainer::save_last() { return options_.save.empty() ? Status() : save(report_.last_step); }

Status Trainer::train_step(std::uint64_t step) {
  const Nanoseconds begin = now(), waited = hosted_->waited();
  double loss = 0;
  for (std::uint64_t micro = 0; micro < options_.accumulate; ++micro) {
    HEADRACE_ASSIGN(const double part, micro_batch({options_.seed, step, micro}));
    loss += part / static_cast<double>(options_.accumulate);
  }
  const Nanoseconds called = now();
  HEADRACE_TRY(update(step));
  report_.losses.push_back({step, loss});
  step_seconds_.push_back(seconds(now() - begin));
  exposed_seconds_.push_back(seconds(hosted_->waited() - waited + (now() - called)));
  return {};
}

Result<double> Trainer::micro_batch(BatchPlace place) {
  batch_ = random_batch(text_.training(), options_.shape, place);
  model_.start(batch_.tokens);
  HEADRACE_TRY(hosted_->forward(model_));
  const double loss = model_.loss(batch_.targets);
  HEADRACE_TRY(hosted_->backward(model_, 1.0F / static_cast<float>(options_.accumulate)));
  return loss;
}

Status Trainer::update(std::uint64_t step) {
  const double rate = learning_rate(options_.learning_rate, step);
  const auto groups = hyperparameters(rate);
  headrace::StepOptions step_options;
  step_options.by_group = groups;
  step_options.max_norm = kMaxNorm;
  if (step == options_.steps) usage_at_step_ = hosted_->engine().stats().resources;
  step_called_ = now();
  HEADRACE_ASSIGN(const headrace::StepReport done, hosted_->engine().step(step_options));
  updated_ = done.done;
  if (!done.applied) fmt::print(stderr, "train_gpt: step {} was skipped: {}\n", step, done.why);
  return {};
}

// After the last step nothing else runs: its update is measured alone.
Status Trainer::settle() {
  HEADRACE_TRY(hosted_->engine().wait(updated_));
  const Stats stats = hosted_->engine().stats();
  report_.nvme_read_bytes = stats.nvme_read_bytes - other_reads_;
  report_.nvme_written_bytes = stats.nvme_written_bytes - other_writes_;
  if (usage_at_step_.empty()) return {};
  StepParts& parts = report_.parts;
  report_.update_seconds = seconds(now() - step_called_);
  parts.update = busy_since(usage_at_step_, stats.resources, "optimizer");
  if (stats.nvme_shards == 0) return {};
  const double slots = static_cast<double>(options_.slots);
  parts.early_read = std::min(1.0, slots / static_cast<double>(stats.nvme_shards));
  const double rest = busy_since(usage_at_step_, stats.resources, "nvme");
  parts.io = parts.early_read < 1 ? rest / (1 - parts.early_read) : rest;
  return {};
}

Status Trainer::save(std::uint64_t step) {
  headrace::Engine& engine = hosted_->engine();
  HEADRACE_TRY(engine.wait(updated_));
  const Stats before = engine.stats();
  const std::string text = to_text(record_of(options_, text_.fingerprint(), step));
  HEADRACE_TRY(engine.save(options_.save, std::as_bytes(std::span(text)))
                   .with("--save " + options_.save.string()));
  const Stats after = engine.stats();
  other_reads_ += after.nvme_read_bytes - before.nvme_read_bytes;
  other_writes_ += after.nvme_written_bytes - before.nvme_written_bytes;
  return {};
}

Status Trainer::evaluate() {
  constexpr std::size_t kBatches = 8;
  double total = 0;
  for (std::size_t i = 0; i < kBatches; ++i) {
    batch_ = even_batch(text_.held_out(), options_.shape, i, kBatches);
    model_.start(batch_.tokens);
    HEADRACE_TRY(hosted_->forward(model_));
    total += model_.loss(batch_.targets);
  }
  report_.held_out_loss = total / static_cast<double>(kBatches);
  return {};
}

Status Trainer::measure_parts() {
  constexpr std::size_t kRounds = 3;
  StepParts& parts = report_.parts;
  std::vector<double> forward, backward;
  for (std::size_t round = 0; round < kRounds; ++round) {
    batch_ = random_batch(text_.training(), options_.shape, {options_.seed, 0, round});
    model_.start(batch_.tokens);
    const Nanoseconds begin = now();
    HEADRACE_TRY(hosted_->forward(model_));
    const Nanoseconds between = now();
    model_.loss(batch_.targets);
    HEADRACE_TRY(hosted_->backward(model_, 1));
    forward.push_back(seconds(between - begin));
    backward.push_back(seconds(now() - between));
    HEADRACE_TRY(hosted_->engine().drop_gradients());
  }
  parts.forward = median(forward);
  parts.backward = median(backward);
  parts.accumulate = options_.accumulate;
  parts.units = options_.shape.units();
  parts.shared_cores = cores_are_shared(options_);
  return {};
}

Result<std::vector<std::uint8_t>> Trainer::sample_text(std::size_t count) {
  ModelShape shape = options_.shape;
  shape.batch = 1;
  Model writer(shape);
  const std::size_t prompt = std::max<std::size_t>(1, shape.context / 4);
  return sample(writer, text_.held_out().first(prompt), {.seed = options_.seed, .count = count},
                [this](Model& model) { return hosted_->forward(model); });
}

Status Trainer::export_weights() {
  std::vector<ExportedTensor> tensors;
  std::vector<headrace::TensorId> ids;
  for (std::size_t i = 0; i < hosted_->list().size(); ++i) {
    const Parameter& parameter = hosted_->list()[i];
    if (parameter.alias_of) continue;  // the head is the token embedding
    tensors.push_back({parameter.name, "BF16", parameter.shape, 2 * parameter.count()});
    ids.push_back(hosted_->id(i));
  }
  std::vector<std::byte> bytes;
  const auto content = [&](std::size_t i) -> Result<std::span<const std::byte>> {
    bytes.resize(tensors[i].bytes);
    HEADRACE_TRY(hosted_->engine().read(ids[i], headrace::Kind::param, {0, bytes.size() / 2},
                                        headrace::MemView(headrace::Bytes(bytes))));
    return std::span<const std::byte>(bytes);
  };
  return write_safetensors(options_.export_file, tensors, content).with("--export");
}

Result<RunReport> Trainer::report() {
  HEADRACE_ASSIGN(report_.state_hash, hosted_->engine().state_hash());
  // The first step runs over no update and warms up the machine.
  const auto steady = [](const std::vector<double>& all) {
    return all.size() < 2 ? all : std::vector<double>(all.begin() + 1, all.end());
  };
  report_.stats = hosted_->engine().stats();
  report_.step_seconds = median(steady(step_seconds_));
  report_.exposed_seconds = median(steady(exposed_seconds_));
  report_.activation_bytes = model_.activation_bytes();
  report_.scratch_bytes = hosted_->scratch_bytes();
  report_.peak_rss_bytes = peak_rss_bytes();
  return report_;
}

}  // namespace train_gpt
