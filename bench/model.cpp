#include "bench/model.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include <fmt/format.h>

namespace headrace::bench {
namespace {

constexpr Nanoseconds kQuiet = std::chrono::milliseconds(20);
constexpr Nanoseconds kPatience = std::chrono::seconds(60);
constexpr const char* kPause = "pause";

// Bits of a bf16 number between 2^-9 and 2^-8, of either sign.
std::uint16_t gradient_bits(std::uint32_t& random) {
  random = random * 1664525 + 1013904223;
  return static_cast<std::uint16_t>((random >> 16 & 0x807f) | 0x3b00);
}

float weight(std::uint32_t& random) {
  random = random * 1664525 + 1013904223;
  return static_cast<float>(static_cast<std::int32_t>(random)) * 0x1p-34F;
}

// Time in which something was in flight.
Nanoseconds disk_busy(const Stats& stats) {
  Nanoseconds busy{0};
  for (const Usage& usage : stats.resources)
    if (usage.name.starts_with("nvme")) busy += usage.busy;
  return busy;
}

}  // namespace

std::function<void(std::string_view)> collector(std::shared_ptr<Messages> messages) {
  return [messages = std::move(messages)](std::string_view text) {
    const std::lock_guard lock(messages->mutex);
    messages->texts.emplace_back(text);
  };
}

void append(std::vector<std::string>& to, Messages& messages) {
  const std::lock_guard lock(messages.mutex);
  to.insert(to.end(), messages.texts.begin(), messages.texts.end());
}

std::string_view name_of(StateFormat format) noexcept {
  return format == StateFormat::fp32 ? "fp32" : "split";
}

double bytes_per_parameter(StateFormat format) noexcept {
  return 2 * static_cast<double>(state_bytes_per_element(layout_of(format, ScalarType::bf16)));
}

double seconds_of(Nanoseconds time) noexcept { return std::chrono::duration<double>(time).count(); }

std::uint64_t unit_elements(std::uint64_t state_bytes, unsigned units, StateFormat format) {
  const std::uint64_t bytes = state_bytes_per_element(layout_of(format, ScalarType::bf16)) * units;
  return round_up((state_bytes + bytes - 1) / bytes, kShardElements);
}

// Room for the weights of one unit, too.
Result<Pages> Model::allocate_gradient(const ModelOptions& options) {
  HEADRACE_ASSIGN(Pages pages, Pages::allocate(options.unit_elements * sizeof(float)));
  std::ranges::fill(pages.bytes(), std::byte{0});  // touched, before anybody counts
  return pages;
}

Model::Model(Platform& platform, std::unique_ptr<Engine> engine, ConstMemView gradient,
             double max_norm)
    : platform_(&platform),
      engine_(std::move(engine)),
      gradient_(gradient),
      max_norm_(max_norm),
      pause_(platform.device().open_stream(kPause)) {}

Result<Model> Model::open_dry(Platform& platform, const ModelOptions& options,
                              ConstMemView gradient) {
  HEADRACE_ASSIGN(std::unique_ptr<Engine> engine, Engine::open(platform, options.engine));
  Model model(platform, std::move(engine), gradient, options.max_norm);
  HEADRACE_TRY(model.add_units(options));
  HEADRACE_TRY(model.engine_->seal());
  return model;
}

Result<Model> Model::open(Platform& platform, const ModelOptions& options, const Pages& gradient) {
  const std::size_t bytes = options.unit_elements * sizeof(std::uint16_t);
  HEADRACE_CHECK(gradient.bytes().size() >= 2 * bytes);
  HEADRACE_ASSIGN(Model model, open_dry(platform, options,
                                        ConstMemView(ConstBytes(gradient.bytes().first(bytes)))));
  HEADRACE_TRY(model.write_weights(gradient.as<float>().first(options.unit_elements)));
  std::uint32_t random = 1;
  for (std::uint16_t& bits : gradient.as<std::uint16_t>()) bits = gradient_bits(random);
  return model;
}

Status Model::add_units(const ModelOptions& options) {
  const ScalarType kept = options.accumulates ? ScalarType::fp32 : ScalarType::bf16;
  for (unsigned unit = 0; unit < options.units; ++unit) {
    HEADRACE_ASSIGN(const TensorId tensor, engine_->add({.name = fmt::format("unit {}", unit),
                                                         .unit = UnitId(unit),
                                                         .group = GroupId(0),
                                                         .count = options.unit_elements,
                                                         .param = ScalarType::bf16,
                                                         .grad = kept,
                                                         .trainable = true,
                                                         .alias_of = {}}));
    tensors_.push_back(tensor);
  }
  return {};
}

Status Model::write_weights(std::span<float> buffer) {
  std::uint32_t random = 2;
  for (const TensorId tensor : tensors_) {
    for (float& value : buffer) value = weight(random);
    HEADRACE_TRY(engine_->write(tensor, Kind::master, {0, buffer.size()},
                                view_of(std::span<const float>(buffer))));
  }
  return {};
}

Event Model::put_gradient(unsigned unit, Event after) {
  return engine_->put_grad(tensors_[unit], gradient_, ScalarType::bf16, std::move(after));
}

Status Model::put_gradients() {
  std::vector<Event> put;
  for (unsigned unit = units(); unit-- > 0;) put.push_back(put_gradient(unit));
  return engine_->wait(Event::all(put));
}

Result<StepReport> Model::step() {
  const std::array groups{AdamW{.weight_decay = 0.01}};
  HEADRACE_ASSIGN(StepReport report, engine_->step({.by_group = groups, .max_norm = max_norm_}));
  if (!report.applied) return Status(Code::invalid, "the step was skipped: " + report.why);
  return report;
}

// Of everything but the pause.
Nanoseconds Model::busy() const {
  Nanoseconds busy{0};
  for (const Usage& usage : engine_->stats().resources)
    if (usage.name != kPause) busy += usage.busy;
  return busy;
}

// The first gradient fills the slots, which nothing reports: quiet is when nobody is at work.
Status Model::wait_until_quiet() {
  Nanoseconds before{0};
  Nanoseconds now = busy();
  do {
    HEADRACE_TRY(platform_->wait(pause_->occupy(kQuiet, kPause), kPatience));
    before = std::exchange(now, busy());
  } while (now > before);
  return {};
}

Result<StepSample> Model::timed_step() {
  const Nanoseconds put = platform_->clock().now();
  HEADRACE_TRY(put_gradients());
  const Nanoseconds gradients = platform_->clock().now() - put;
  HEADRACE_TRY(wait_until_quiet());
  const Stats before = engine_->stats();
  const Nanoseconds start = platform_->clock().now();
  HEADRACE_ASSIGN(const StepReport report, step());
  HEADRACE_TRY(engine_->wait(report.done));
  const Nanoseconds end = platform_->clock().now();
  const Nanoseconds taken = end - start;
  const Stats after = engine_->stats();
  const Nanoseconds idle = taken - (disk_busy(after) - disk_busy(before));
  return StepSample{seconds_of(taken),
                    seconds_of(gradients),
                    after.nvme_read_bytes - before.nvme_read_bytes,
                    after.nvme_written_bytes - before.nvme_written_bytes,
                    std::max(0.0, seconds_of(idle)),
                    start,
                    end};
}

}  // namespace headrace::bench
