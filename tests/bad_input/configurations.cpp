#include <filesystem>

#include "tests/bad_input/tables.h"

namespace headrace::bad_input {
namespace {

using Options = EngineOptions;

std::vector<Configuration> wrong_numbers() {
  constexpr Code kWrong = Code::invalid;
  return {
      {"one slot", [](Options& o) { o.slots = 1; }, kWrong, {"slots is 1", "2 or more"}},
      {"no slots", [](Options& o) { o.slots = -4; }, kWrong, {"slots is -4", "2 or more"}},
      {"many slots", [](Options& o) { o.slots = 5000; }, kWrong, {"slots is 5000", "4096"}},
      {"threads", [](Options& o) { o.threads = -1; }, kWrong, {"threads is -1", "0 for every"}},
      {"many threads", [](Options& o) { o.threads = 9999; }, kWrong, {"threads is 9999", "4096"}},
      {"leases", [](Options& o) { o.max_live_leases = 0; }, kWrong, {"max_live_leases is 0", "1"}},
      {"deadline", [](Options& o) { o.deadline = {}; }, kWrong, {"deadline", "0 ns", "60 s"}},
      {"past deadline",
       [](Options& o) { o.deadline = Nanoseconds(-5); },
       kWrong,
       {"deadline", "-5 ns", "60 s"}},
      {"alignment", [](Options& o) { o.nvme_alignment = 3000; }, kWrong, {"3000", "power of two"}},
      {"large alignment",
       [](Options& o) { o.nvme_alignment = 1U << 30; },
       kWrong,
       {"nvme_alignment is 1073741824", "2 MiB"}},
      {"shares",
       [](Options& o) {
         o.nvme_shares = {1, 2, 3};
       },
       kWrong,
       {"nvme_shares has 3 numbers", "for each"}},
      {"SIMD", [](Options& o) { o.simd_target = 12345; }, kWrong, {"12345", "available_targets"}},
      {"format", [](Options& o) { o.format = static_cast<StateFormat>(9); }, kWrong, {"format 9"}},
      {"state", [](Options& o) { o.state = static_cast<StateHome>(9); }, kWrong, {"StateHome 9"}},
      {"params", [](Options& o) { o.params = static_cast<ParamHome>(9); }, kWrong, {"ParamHome 9"}},
  };
}

std::vector<Configuration> budgets_that_cannot_work() {
  return {
      {"no folder", [](Options& o) { o.nvme_paths.clear(); }, Code::invalid, {"nvme_paths"}},
      {"slots", [](Options& o) { o.dram_bytes = 1000; }, Code::out_of_memory, {"1.00 kB", "raise"}},
      {"NVMe", [](Options& o) { o.nvme_bytes = 1000; }, Code::out_of_space, {"1.00 kB", "raise"}},
      {"HBM",
       [](Options& o) {
         o.state = StateHome::hbm;
         o.hbm_bytes = 1000;
       },
       Code::out_of_memory,
       {"HBM budget of 1.00 kB", "raise"}},
      {"DRAM",
       [](Options& o) {
         o.state = StateHome::dram;
         o.dram_bytes = 1000;
       },
       Code::out_of_memory,
       {"DRAM budget of 1.00 kB", "NVMe"}},
      {"nowhere to go",
       [](Options& o) {
         o.state = StateHome::automatic;
         o.nvme_paths.clear();
         o.dram_bytes = 256 * kKiB;
       },
       Code::out_of_memory,
       {"neither DRAM", "add an NVMe folder"}},
  };
}

}  // namespace

std::vector<Configuration> configurations() {
  std::vector<Configuration> all = wrong_numbers();
  for (Configuration& more : budgets_that_cannot_work()) all.push_back(std::move(more));
  return all;
}

// The options' folder holds text.txt and link, as for command lines.
std::vector<Configuration> places() {
  const auto below = [](const char* name) {
    return [name](Options& o) { o.nvme_paths.front() /= name; };
  };
  return {
      {"missing", below("none/there"), Code::invalid, {"none/there does not exist", "mkdir -p"}},
      {"a file", below("text.txt"), Code::invalid, {"text.txt is not a folder"}},
      {"a link", below("link"), Code::invalid, {"link is a link", "not followed"}},
      {"no disk",
       [](Options& o) { o.nvme_paths = {"/proc"}; },
       Code::io,
       {"/proc", "scratch file", "folder"}},
      {"empty", [](Options& o) { o.nvme_paths = {""}; }, Code::invalid, {"nvme"}},
  };
}

std::vector<BadTensor> tensors() {
  constexpr TensorId kFirst{0};
  return {
      {{.name = ""}, {"tensor 1", "name of 1 to 4096 bytes"}},
      {{.name = "line\nbreak"}, {"tensor 1", "without control characters"}},
      {{.name = "\xff\xfe"}, {"tensor 1", "UTF-8"}},
      {{.name = std::string(5000, 'x')}, {"tensor 1", "4096"}},
      {{.name = "first"}, {"\"first\" was added before", "unique"}},
      {{.name = "huge", .count = ~std::uint64_t{0}}, {"huge", "18446744073709551615", "most"}},
      {{.name = "far", .unit = UnitId{~0U}}, {"far", "unit 4294967295", "below 16777216"}},
      {{.name = "group", .group = GroupId{1U << 30}}, {"group 1073741824", "below 16777216"}},
      {{.name = "type", .param = static_cast<ScalarType>(3)}, {"\"type\"", "element type"}},
      {{.name = "grad", .grad = static_cast<ScalarType>(3)}, {"\"grad\"", "element type"}},
      {{.name = "no root", .count = 10, .alias_of = TensorId{7}}, {"tensor 7", "add it first"}},
      {{.name = "count", .count = 9, .alias_of = kFirst}, {"count", "9", "\"first\" with 10"}},
      {{.name = "param", .count = 10, .param = ScalarType::fp16, .alias_of = kFirst},
       {"param", "first", "must be the same"}},
      {{.name = "frozen", .count = 10, .trainable = false, .alias_of = kFirst},
       {"frozen", "first", "must be the same"}},
  };
}

}  // namespace headrace::bad_input
