// The JSON of every command: the only file of cli/ that sees the JSON library.
#include <nlohmann/json.hpp>

#include "cli/fact.h"
#include "cli/plan.h"
#include "cli/stress.h"

namespace headrace::cli {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const Fact& fact) {
  Json values = Json::object();
  for (const auto& [key, value] : fact.values) {
    std::visit([&values, &key = key](const auto& content) { values[key] = content; }, value);
  }
  return {{"name", fact.name},
          {"verdict", name_of(fact.verdict)},
          {"text", fact.text},
          {"next", fact.next},
          {"values", values}};
}

Json model_of(const PlanReport& report) {
  const PlanOptions& options = report.options;
  return {{"parameters", options.parameters},
          {"padded_parameters", report.stats.padded_parameters},
          {"units", options.units},
          {"shards", report.stats.shards},
          {"nvme_shards", report.stats.nvme_shards},
          {"format", bench::name_of(options.format)},
          {"micro_batches", options.micro_batches}};
}

Json machine_of(const PlanOptions& options) {
  return {{"measured", !options.measure.empty()},
          {"nvme_read_bytes_per_second", options.nvme_read},
          {"nvme_write_bytes_per_second", options.nvme_write},
          {"nvme_mixed_bytes_per_second",
           options.nvme_mixed > 0 ? Json(options.nvme_mixed) : Json(nullptr)},
          {"update_bytes_per_second", options.update}};
}

Json bytes_of(const HeldBytes& held) {
  return {{"hbm", {{"state", held.hbm_state}, {"parameters", held.device_params}}},
          {"dram",
           {{"slots", held.slots},
            {"state", held.dram_state},
            {"parameters", held.params},
            {"gradients", held.gradients},
            {"checkpoint_blocks", held.staging}}},
          {"nvme", {{"state", held.nvme_state}}}};
}

Json step_of(const PlanReport& report) {
  return {{"seconds", report.step_seconds},
          {"best_seconds", report.best_seconds},
          {"forward_seconds", report.parts.forward},
          {"backward_seconds", report.parts.backward},
          {"update_alone_seconds", report.parts.update},
          {"io_alone_seconds", report.parts.io},
          {"hidden_share", report.hidden},
          {"limited_by", report.limit.resource},
          {"limit_busy_share", report.limit.busy}};
}

Json nvme_of(const PlanReport& report) {
  const bool used = report.written_bytes > 0;
  return {{"read_bytes_per_step", report.read_bytes},
          {"written_bytes_per_step", report.written_bytes},
          {"written_bytes_per_day", used ? written_a_day(report) : 0.0},
          {"rated_endurance_bytes", report.options.rated_endurance},
          {"days_of_endurance", used ? Json(days_of_endurance(report)) : Json(nullptr)}};
}

std::string dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string json_of(const PlanReport& report) {
  return dump({{"schema", "headrace.plan/1"},
               {"version", HEADRACE_VERSION},
               {"model", model_of(report)},
               {"machine", machine_of(report.options)},
               {"placement", report.stats.placement},
               {"bytes", bytes_of(report.stats.held)},
               {"step", step_of(report)},
               {"hiding",
                {{"dram_share", report.hiding_share},
                 {"dram_bytes", report.hiding_bytes},
                 {"step_seconds", report.hiding_seconds},
                 {"limited_by", report.hiding_limit.resource}}},
               {"nvme", nvme_of(report)}});
}

std::string json_of(std::span<const Fact> facts) {
  Json json = {{"schema", "headrace.doctor/1"},
               {"version", HEADRACE_VERSION},
               {"verdict", name_of(worst(facts))}};
  json["facts"] = Json::array();
  for (const Fact& fact : facts) json["facts"].push_back(to_json(fact));
  return dump(json);
}

std::string json_of(const bench::StressSummary& summary) {
  const Json json = {
      {"schema", "headrace.stress/1"},
      {"seed", summary.seed},
      {"seconds", summary.seconds},
      {"rounds", summary.rounds},
      {"operations", summary.operations},
      {"steps", summary.steps},
      {"read_bytes", summary.read_bytes},
      {"written_bytes", summary.written_bytes},
      {"compared_bytes", summary.compared_bytes},
      {"faults", summary.faults},
      {"survived", summary.survived},
      {"reported", summary.reported},
      {"recovered", summary.recovered},
      {"reopened", summary.reopened},
      {"slowest", {{"operation", summary.slowest}, {"seconds", summary.slowest_seconds}}},
      {"stopped", summary.stopped},
      {"wrong", summary.wrong}};
  return json.dump(2) + "\n";
}

}  // namespace headrace::cli
