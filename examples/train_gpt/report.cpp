#include "examples/train_gpt/report.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace train_gpt {
namespace {

using Json = nlohmann::ordered_json;

double over(double a, double b) { return b > 0 ? a / b : 0; }
double as_double(std::uint64_t value) { return static_cast<double>(value); }

double per_parameter_step(const RunReport& report, std::uint64_t bytes) {
  return over(as_double(bytes),
              as_double(report.stats.padded_parameters) * as_double(report.steps()));
}

Json model_json(const RunReport& report) {
  const ModelShape& shape = report.options.shape;
  return {{"layers", shape.layers},
          {"width", shape.width},
          {"heads", shape.heads()},
          {"context", shape.context},
          {"batch", shape.batch},
          {"parameters", report.stats.parameters},
          {"padded_parameters", report.stats.padded_parameters},
          {"padding_share", report.padding_share()}};
}

Json run_json(const RunReport& report) {
  const Options& options = report.options;
  return {{"data", options.data.string()},
          {"text_bytes", report.text_bytes},
          {"seed", options.seed},
          {"first_step", report.first_step},
          {"last_step", report.last_step},
          {"accumulate", options.accumulate},
          {"learning_rate", options.learning_rate},
          {"state", options.state_text},
          {"dram_bytes", options.dram_bytes.value_or(0)},
          {"format", options.format == headrace::StateFormat::split ? "split" : "fp32"},
          {"slots", options.slots},
          {"threads", options.threads},
          {"blas_threads", options.blas_threads},
          {"interrupted", report.interrupted}};
}

Json losses_json(const RunReport& report) {
  Json losses = Json::array();
  for (const StepLoss& loss : report.losses) {
    losses.push_back({{"step", loss.step}, {"loss", loss.loss}});
  }
  return losses;
}

Json bytes_json(const RunReport& report) {
  const headrace::HeldBytes& held = report.stats.held;
  return {{"slots", held.slots},
          {"dram_state", held.dram_state},
          {"hbm_state", held.hbm_state},
          {"nvme_state", held.nvme_state},
          {"parameters", held.params},
          {"device_parameters", held.device_params},
          {"gradients", held.gradients},
          {"staging", held.staging},
          {"activations", report.activation_bytes},
          {"scratch", report.scratch_bytes},
          {"peak_rss", report.peak_rss_bytes}};
}

Json nvme_json(const RunReport& report) {
  const headrace::Stats& stats = report.stats;
  return {
      {"share", over(as_double(stats.nvme_parameters), as_double(stats.padded_parameters))},
      {"read_bytes", report.nvme_read_bytes},
      {"written_bytes", report.nvme_written_bytes},
      {"read_bytes_per_parameter_step", report.read_per_parameter()},
      {"written_bytes_per_parameter_step", report.written_per_parameter()},
      {"bytes_per_parameter_step", report.read_per_parameter() + report.written_per_parameter()},
      {"written_bytes_per_day", report.written_per_day()}};
}

Json time_json(const RunReport& report) {
  const StepParts& parts = report.parts;
  return {{"step", report.step_seconds},
          {"exposed", report.exposed_seconds},
          {"update_alone", report.update_seconds},
          {"forward", parts.forward},
          {"backward", parts.backward},
          {"update", parts.update},
          {"io", parts.io},
          {"early_read_share", parts.early_read},
          {"shared_cores", parts.shared_cores},
          {"best_step", parts.best()}};
}

}  // namespace

double StepParts::best() const {
  const double micro = as_double(accumulate);
  const double compute = forward + (shared_cores ? update : 0);
  const double transfer = io * (1 - early_read) + forward / as_double(units);
  return micro * backward + (micro - 1) * forward + std::max(compute, transfer);
}

double RunReport::tokens_per_second() const {
  return over(as_double(options.shape.rows() * options.accumulate), step_seconds);
}
double RunReport::ratio() const { return over(step_seconds, parts.best()); }
double RunReport::hidden_share() const {
  return update_seconds > 0 ? std::clamp(1 - exposed_seconds / update_seconds, 0.0, 1.0) : 0;
}
double RunReport::read_per_parameter() const { return per_parameter_step(*this, nvme_read_bytes); }
double RunReport::written_per_parameter() const {
  return per_parameter_step(*this, nvme_written_bytes);
}
double RunReport::written_per_day() const {
  constexpr double kDay = 86400;
  return over(over(as_double(nvme_written_bytes), as_double(steps())) * kDay, step_seconds);
}
double RunReport::padding_share() const {
  return over(as_double(stats.padded_parameters) - as_double(stats.parameters),
              as_double(stats.parameters));
}

std::string to_json(const RunReport& report) {
  Json json = {{"schema", "headrace.train/1"},
               {"model", model_json(report)},
               {"run", run_json(report)},
               {"losses", losses_json(report)},
               {"state_hash", fmt::format("{:016x}", report.state_hash)},
               {"bytes", bytes_json(report)},
               {"nvme", nvme_json(report)},
               {"seconds", time_json(report)},
               {"ratio", report.ratio()},
               {"hidden_share", report.hidden_share()},
               {"tokens_per_second", report.tokens_per_second()},
               {"placement", report.stats.placement}};
  json["held_out_loss"] = report.held_out_loss ? Json(*report.held_out_loss) : Json(nullptr);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace train_gpt
