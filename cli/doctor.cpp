#include "cli/doctor.h"

#include <fmt/format.h>

#include <cstdio>
#include <fstream>

#include "cli/disk_facts.h"
#include "cli/machine_facts.h"

namespace headrace::cli {
namespace {

constexpr int kFine = 0, kUsage = 2, kLacking = 3;

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

bool write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  return file.good();
}

}  // namespace

std::vector<Fact> examine(const DoctorOptions& options) {
  std::vector<Fact> facts = machine_facts();
  for (Fact& fact : disk_facts(options.scratch)) facts.push_back(std::move(fact));
  return facts;
}

int run_doctor(const DoctorOptions& options) {
  const std::vector<Fact> facts = examine(options);
  const int code = worst(facts) == Verdict::fail ? kLacking : kFine;
  if (options.json == "-") {
    fmt::print("{}", json_of(facts));
    return code;
  }
  fmt::print("headrace {}\n{}{}", HEADRACE_VERSION, text_of(facts),
             conclusion(facts, options.scratch));
  if (options.json.empty() || write(options.json, json_of(facts))) return code;
  fmt::print(stderr, "headrace doctor: cannot write {}: choose another --json FILE\n",
             options.json.string());
  return kUsage;
}

}  // namespace headrace::cli
