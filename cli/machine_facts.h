// The facts of `headrace doctor` about the machine itself. Each is judged by a pure function of
// what was read, so that tests can play any machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/fact.h"
#include "io/limits.h"
#include "io/status.h"
#include "io/topology.h"

namespace headrace::cli {

std::vector<Fact> machine_facts();

struct Cpu {
  std::string model = {};
  std::vector<std::string> targets = {};  // instruction sets of the optimizer, best first
  Topology topology = {};
  std::optional<double> quota = {};  // of the cgroup, in CPUs
};
Fact cpu_fact(const Cpu& cpu);
Fact numa_fact(const Topology& topology);

struct MemoryState {
  std::uint64_t total_bytes = 0;
  std::uint64_t available_bytes = 0;
  std::optional<MemoryLimit> cgroup = {};
};
Fact memory_fact(const MemoryState& memory);

// `privileged`: the kernel does not apply the limit (CAP_IPC_LOCK).
Fact memlock_fact(std::optional<std::uint64_t> limit_bytes, bool privileged);

// `setting`: the text of transparent_hugepage/enabled; `granted`: whether memory that asked for
// them got some.
Fact huge_page_fact(const std::string& setting, bool granted);

struct UringState {
  Status opened = {};       // by the engine itself
  std::string engine = {};  // what it says of itself when it opened
  int disabled = 0;         // kernel.io_uring_disabled
  bool filtered = false;    // a seccomp filter is in force
};
Fact uring_fact(const UringState& uring);

Fact device_fact();

}  // namespace headrace::cli
