#include "cli/machine_facts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string_view>

#include "bench/huge_pages.h"
#include "bench/machine.h"
#include "io/bytes.h"
#include "io/io_engine.h"
#include "optim_cpu/team.h"

namespace headrace::cli {
namespace {

constexpr std::uint64_t kLeastMemory = 256 * kMiB;
constexpr std::uint64_t kLittleMemory = 2 * kGiB;
constexpr std::uint64_t kEnoughMemlock = kGiB;
constexpr int kCapIpcLock = 14;  // linux/capability.h
constexpr const char* kHugePages = "/sys/kernel/mm/transparent_hugepage/enabled";

std::string line_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The value of "Key:  value" in /proc/self/status.
std::string status_value(std::string_view key) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key)) return line.substr(std::min(line.size(), key.size() + 2));
  }
  return {};
}

bool has_capability(int number) {
  std::uint64_t effective = 0;
  std::istringstream(status_value("CapEff")) >> std::hex >> effective;
  return (effective >> number & 1) != 0;
}

Cpu read_cpu(const Topology& topology) {
  Cpu cpu{.model = bench::this_machine(".").cpu, .topology = topology, .quota = cgroup_cpus()};
  for (const std::int64_t target : available_targets()) cpu.targets.push_back(target_name(target));
  return cpu;
}

bool huge_pages_granted() {
  auto pages = bench::Pages::allocate(4 * kMiB);
  if (!pages.ok()) return false;
  std::ranges::fill(pages->bytes(), std::byte{1});
  return pages->huge();
}

// Sets up a ring and gives it back; this thread is its driver.
Status try_uring(std::string& description) {
  HEADRACE_ASSIGN(const std::unique_ptr<IoEngine> engine, uring_engine());
  const int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  Status started = engine->start(wake);
  if (started.ok()) {
    description = engine->describe();
    engine->stop(std::chrono::seconds(1));
  }
  close(wake);
  return started;
}

UringState read_uring() {
  UringState state;
  const std::string setting = line_of("/proc/sys/kernel/io_uring_disabled");
  state.disabled = setting.empty() ? 0 : std::atoi(setting.c_str());
  state.filtered = status_value("Seccomp") == "2";
  state.opened = try_uring(state.engine);
  return state;
}

std::string cores_of(const Topology& topology) {
  return fmt::format("{} hardware thread(s) on {} core(s)", topology.cpus().size(), topology.cores);
}

// Why io_uring was refused and what helps.
std::string uring_advice(const UringState& uring) {
  if (uring.disabled != 0) return "as root: sysctl kernel.io_uring_disabled=0";
  if (uring.filtered)
    return "a container profile refuses it: run the container with a seccomp profile that allows "
           "io_uring";
  return "use a kernel with io_uring (5.11 or newer)";
}

}  // namespace

Fact cpu_fact(const Cpu& cpu) {
  const std::string best = cpu.targets.empty() ? "none" : cpu.targets.front();
  Fact fact{.name = "cpu",
            .text = fmt::format("{}, {}, {}", cpu.model, cores_of(cpu.topology), best),
            .values = {{"model", cpu.model},
                       {"threads", std::uint64_t{cpu.topology.cpus().size()}},
                       {"cores", static_cast<std::uint64_t>(cpu.topology.cores)},
                       {"simd", best}}};
  if (cpu.quota) fact.values.emplace_back("quota_cpus", *cpu.quota);
  if (cpu.targets.size() < 2) {
    fact.verdict = Verdict::warn;
    fact.text += ": no vector instructions with FMA, the update is several times slower";
    fact.next = "use a machine with AVX2 or newer";
  } else if (cpu.quota && *cpu.quota < static_cast<double>(cpu.topology.cpus().size())) {
    fact.verdict = Verdict::warn;
    fact.text += fmt::format("; the cgroup grants {:.2f} CPUs' time", *cpu.quota);
    fact.next = fmt::format("--threads {}", std::max(1, static_cast<int>(*cpu.quota)));
  }
  return fact;
}

Fact numa_fact(const Topology& topology) {
  std::vector<std::string> nodes;
  bool bare = false;
  for (const NumaNode& node : topology.nodes) {
    nodes.push_back(fmt::format("node {}: {} CPU(s), {}", node.index, node.cpus.size(),
                                format_bytes(node.memory_bytes)));
    bare = bare || node.cpus.empty();
  }
  Fact fact{.name = "numa",
            .text = fmt::format("{}", fmt::join(nodes, "; ")),
            .values = {{"nodes", std::uint64_t{topology.nodes.size()}}}};
  if (bare) {
    fact.verdict = Verdict::warn;
    fact.next =
        "a node has memory but no CPU of ours: widen the CPU set, or keep state on the other nodes";
  }
  return fact;
}

Fact memory_fact(const MemoryState& memory) {
  Fact fact{
      .name = "memory",
      .text = fmt::format("{} available of {}", format_bytes(memory.available_bytes),
                          format_bytes(memory.total_bytes)),
      .values = {{"total_bytes", memory.total_bytes}, {"available_bytes", memory.available_bytes}}};
  if (memory.cgroup) {
    fact.text += fmt::format("; limit {} in {}", format_bytes(memory.cgroup->limit_bytes),
                             memory.cgroup->set_by);
    fact.values.emplace_back("cgroup_limit_bytes", memory.cgroup->limit_bytes);
    fact.values.emplace_back("cgroup_limit_file", memory.cgroup->set_by);
  }
  if (memory.available_bytes < kLittleMemory) {
    fact.verdict = memory.available_bytes < kLeastMemory ? Verdict::fail : Verdict::warn;
    fact.next = "free memory, or raise the cgroup's limit";
  }
  return fact;
}

Fact memlock_fact(std::optional<std::uint64_t> limit_bytes, bool privileged) {
  Fact fact{.name = "memlock"};
  if (limit_bytes) fact.values.emplace_back("limit_bytes", *limit_bytes);
  fact.values.emplace_back("applies", limit_bytes.has_value() && !privileged);
  fact.text = limit_bytes ? format_bytes(*limit_bytes) : "no limit";
  if (limit_bytes && privileged) fact.text += ", not applied to this process";
  if (limit_bytes && !privileged && *limit_bytes < kEnoughMemlock) {
    fact.verdict = Verdict::warn;
    fact.text += ": disk buffers beyond it are not registered, which costs CPU time";
    fact.next =
        "ulimit -l unlimited (a service: LimitMEMLOCK=infinity; docker: --ulimit memlock=-1)";
  }
  return fact;
}

Fact huge_page_fact(const std::string& setting, bool granted) {
  Fact fact{.name = "huge pages",
            .text = setting,
            .values = {{"setting", setting}, {"granted", granted}}};
  if (granted) {
    fact.text += ": granted";
    return fact;
  }
  fact.verdict = Verdict::warn;
  fact.text = fmt::format("{}: not granted, disk transfers cost several times the CPU",
                          setting.empty() ? "not in this kernel" : setting);
  fact.next = setting.find("[never]") != std::string::npos
                  ? fmt::format("as root: echo madvise > {}", kHugePages)
                  : "free memory: there may be no whole 2 MiB left";
  return fact;
}

Fact uring_fact(const UringState& uring) {
  Fact fact{.name = "io_uring",
            .values = {{"allowed", uring.opened.ok()},
                       {"sysctl_disabled", static_cast<std::uint64_t>(uring.disabled)},
                       {"seccomp_filter", uring.filtered}}};
  if (uring.opened.ok()) {
    fact.text = uring.engine;
    return fact;
  }
  fact.verdict = Verdict::warn;
  fact.text = fmt::format("threads instead, at more CPU time: {}", uring.opened.message());
  fact.next = uring_advice(uring);
  return fact;
}

Fact device_fact() {
  return {.name = "device",
          .text = "the host device; CUDA is not built in",
          .values = {{"cuda", false}}};
}

std::vector<Fact> machine_facts() {
  std::vector<Fact> facts;
  const auto topology = find_topology();
  if (topology.ok()) {
    facts = {cpu_fact(read_cpu(*topology)), numa_fact(*topology)};
  } else {
    facts = {{Verdict::fail, "cpu", topology.status().to_string(), "mount /proc and /sys", {}}};
  }
  facts.push_back(memory_fact({total_memory_bytes(), available_memory_bytes(), cgroup_memory()}));
  facts.push_back(memlock_fact(memlock_limit_bytes(), has_capability(kCapIpcLock)));
  facts.push_back(huge_page_fact(line_of(kHugePages), huge_pages_granted()));
  facts.push_back(uring_fact(read_uring()));
  facts.push_back(device_fact());
  return facts;
}

}  // namespace headrace::cli
