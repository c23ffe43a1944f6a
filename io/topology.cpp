#include "io/topology.h"

#include <fmt/format.h>
#include <hwloc.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>

namespace headrace {
namespace {

using Hwloc =
    std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, decltype(&hwloc_topology_destroy)>;
using CpuSet = std::unique_ptr<hwloc_bitmap_s, decltype(&hwloc_bitmap_free)>;

CpuSet cpu_set(const std::vector<int>& cpus) {
  CpuSet set(hwloc_bitmap_alloc(), &hwloc_bitmap_free);
  for (const int cpu : cpus) hwloc_bitmap_set(set.get(), static_cast<unsigned>(cpu));
  return set;
}

Status failure(std::string_view what) {
  return {Code::unavailable, fmt::format("hwloc: {}: {}", what, std::strerror(errno))};
}

Status configure(hwloc_topology_t topology, const TopologyOptions& options) {
  if (options.synthetic.empty()) {
    const unsigned long flags =
        HWLOC_TOPOLOGY_FLAG_IS_THISSYSTEM | HWLOC_TOPOLOGY_FLAG_RESTRICT_TO_CPUBINDING;
    return hwloc_topology_set_flags(topology, flags) == 0 ? Status() : failure("flags");
  }
  if (hwloc_topology_set_synthetic(topology, options.synthetic.c_str()) == 0) return {};
  return {Code::invalid, fmt::format("no synthetic topology: \"{}\"", options.synthetic)};
}

Result<Hwloc> load(const TopologyOptions& options) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return failure("init");
  Hwloc topology(raw, &hwloc_topology_destroy);
  HEADRACE_TRY(configure(raw, options));
  if (hwloc_topology_load(raw) != 0) return failure("reading the machine's topology");
  if (options.allowed_cpus.empty()) return topology;
  if (hwloc_topology_restrict(raw, cpu_set(options.allowed_cpus).get(), 0) != 0) {
    return Status(Code::invalid, "none of the allowed CPUs is in the topology");
  }
  return topology;
}

std::vector<int> members(hwloc_const_bitmap_t set) {
  std::vector<int> cpus;
  for (int cpu = hwloc_bitmap_first(set); cpu >= 0; cpu = hwloc_bitmap_next(set, cpu))
    cpus.push_back(cpu);
  return cpus;
}

// Physical cores of the set; where cores are not known, each CPU counts as one.
int cores_in(hwloc_topology_t topology, hwloc_const_bitmap_t set) {
  int count = 0;
  for (hwloc_obj_t core = nullptr;
       (core = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_CORE, core));) {
    if (hwloc_bitmap_intersects(core->cpuset, set)) ++count;
  }
  return count > 0 ? count : std::max(0, hwloc_bitmap_weight(set));
}

NumaNode node_of(hwloc_topology_t topology, hwloc_obj_t found) {
  return {.index = static_cast<int>(found->os_index),
          .cpus = members(found->cpuset),
          .cores = cores_in(topology, found->cpuset),
          .memory_bytes = found->attr->numanode.local_memory};
}

}  // namespace

std::vector<int> Topology::cpus() const {
  std::vector<int> all;
  for (const NumaNode& node : nodes) all.insert(all.end(), node.cpus.begin(), node.cpus.end());
  std::ranges::sort(all);
  return all;
}

Result<Topology> find_topology(const TopologyOptions& options) {
  HEADRACE_ASSIGN(const Hwloc loaded, load(options));
  Topology topology;
  for (hwloc_obj_t node = nullptr;
       (node = hwloc_get_next_obj_by_type(loaded.get(), HWLOC_OBJ_NUMANODE, node));) {
    topology.nodes.push_back(node_of(loaded.get(), node));
  }
  std::ranges::sort(topology.nodes, {}, &NumaNode::index);
  topology.cores = cores_in(loaded.get(), hwloc_topology_get_topology_cpuset(loaded.get()));
  return topology;
}

Status bind_thread(const NumaNode& node) {
  if (node.cpus.empty()) {
    return {Code::invalid,
            fmt::format("NUMA node {} has no CPU that this process may use", node.index)};
  }
  HEADRACE_ASSIGN(const Hwloc loaded, load({}));
  if (hwloc_set_cpubind(loaded.get(), cpu_set(node.cpus).get(), HWLOC_CPUBIND_THREAD) == 0)
    return {};
  return failure(
      fmt::format("binding to the {} CPUs of NUMA node {}", node.cpus.size(), node.index));
}

}  // namespace headrace
