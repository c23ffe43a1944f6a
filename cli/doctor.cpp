#include "cli/doctor.h"

#include <fmt/format.h>

#include "cli/disk_facts.h"
#include "cli/machine_facts.h"
#include "cli/outcome.h"

namespace headrace::cli {
namespace {

std::string conclusion(std::span<const Fact> facts, const std::filesystem::path& scratch) {
  switch (worst(facts)) {
    case Verdict::ok:
      break;
    case Verdict::warn:
      return "headrace works here; each -> would make it better.\n";
    case Verdict::fail:
      return "headrace cannot work here yet: see -> below each [fail].\n";
  }
  return fmt::format("All is well. Next: headrace bench step --scratch {}\n", scratch.string());
}

}  // namespace

std::vector<Fact> examine(const DoctorOptions& options) {
  std::vector<Fact> facts = machine_facts();
  for (Fact& fact : disk_facts(options.scratch)) facts.push_back(std::move(fact));
  return facts;
}

int run_doctor(const DoctorOptions& options) {
  const std::vector<Fact> facts = examine(options);
  const std::string text = fmt::format("headrace {}\n{}{}", HEADRACE_VERSION, text_of(facts),
                                       conclusion(facts, options.scratch));
  const int shown = show("doctor", options.json, text, json_of(facts));
  if (shown != kFine) return shown;
  return worst(facts) == Verdict::fail ? kLacking : kFine;
}

}  // namespace headrace::cli
