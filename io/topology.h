// The CPUs and NUMA nodes that this process may use, and binding a thread to a node.
//
// Plain values, found once at start from any thread; they do not change when the machine's do. A
// machine without NUMA is one node.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/status.h"

namespace headrace {

struct NumaNode {
  int index = 0;                   // the operating system's number
  std::vector<int> cpus = {};      // hardware threads that are allowed, ascending; may be empty
  int cores = 0;                   // physical cores that these belong to
  std::uint64_t memory_bytes = 0;  // of the node, whoever uses it
};

struct Topology {
  std::vector<NumaNode> nodes;  // ascending by index
  int cores = 0;

  std::vector<int> cpus() const;  // of all nodes, ascending
};

struct TopologyOptions {
  std::string synthetic = {};  // hwloc's description, "node:2 core:4 pu:2"; empty: this machine
  std::vector<int> allowed_cpus = {};  // with `synthetic`: all others are not ours; empty: all are
};

// The allowed part: of the cpuset and of this process's affinity mask.
Result<Topology> find_topology(const TopologyOptions& options = {});

// From now on the calling thread, and threads that it starts, run on the node's CPUs.
Status bind_thread(const NumaNode& node);

}  // namespace headrace
