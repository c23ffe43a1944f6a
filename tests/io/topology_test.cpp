#include "io/topology.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <numeric>
#include <thread>

namespace headrace {
namespace {

std::vector<int> range(int begin, int end) {
  std::vector<int> numbers(static_cast<std::size_t>(end - begin));
  std::iota(numbers.begin(), numbers.end(), begin);
  return numbers;
}

std::vector<int> allowed_now() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(static_cast<unsigned>(cpu), &set)) cpus.push_back(cpu);
  }
  return cpus;
}

Topology synthetic(std::string text, std::vector<int> allowed) {
  auto found = find_topology({.synthetic = std::move(text), .allowed_cpus = std::move(allowed)});
  EXPECT_TRUE(found.ok()) << found.status().to_string();
  return found.ok() ? *found : Topology{};
}

TEST(Topology, TwoSocketsAreTwoNodesWithTheirCpus) {
  const Topology topology = synthetic("pack:2 [numa(memory=68719476736)] core:4 pu:2", {});
  ASSERT_EQ(topology.nodes.size(), 2u);
  EXPECT_EQ(topology.nodes[0].index, 0);
  EXPECT_EQ(topology.nodes[1].index, 1);
  EXPECT_EQ(topology.nodes[0].cpus, range(0, 8));
  EXPECT_EQ(topology.nodes[1].cpus, range(8, 16));
  EXPECT_EQ(topology.nodes[1].cores, 4);
  EXPECT_EQ(topology.nodes[1].memory_bytes, 68'719'476'736u);
  EXPECT_EQ(topology.cores, 8);
  EXPECT_EQ(topology.cpus(), range(0, 16));
}

TEST(Topology, CpusThatAreNotAllowedAreLeftOut) {
  const Topology topology = synthetic("pack:2 [numa] core:4 pu:2", {1, 2, 3, 9});
  ASSERT_EQ(topology.nodes.size(), 2u);
  EXPECT_EQ(topology.nodes[0].cpus, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(topology.nodes[0].cores, 2);
  EXPECT_EQ(topology.nodes[1].cpus, std::vector<int>{9});
  EXPECT_EQ(topology.nodes[1].cores, 1);
  EXPECT_EQ(topology.cores, 3);
}

TEST(Topology, ANodeMayBeLeftWithoutCpus) {
  const Topology topology = synthetic("pack:2 [numa] core:2 pu:1", {0, 1});
  ASSERT_EQ(topology.nodes.size(), 2u);
  EXPECT_TRUE(topology.nodes[1].cpus.empty());
  EXPECT_EQ(topology.nodes[1].cores, 0);
  EXPECT_EQ(topology.cpus(), range(0, 2));
}

TEST(Topology, NonsenseIsInvalid) {
  EXPECT_EQ(find_topology({.synthetic = "two big sockets"}).status().code(), Code::invalid);
  EXPECT_EQ(find_topology({.synthetic = "core:2 pu:1", .allowed_cpus = {7}}).status().code(),
            Code::invalid);
}

TEST(Topology, ThisMachineHasExactlyTheCpusOfTheAffinityMask) {
  const auto topology = find_topology();
  ASSERT_TRUE(topology.ok()) << topology.status().to_string();
  EXPECT_EQ(topology->cpus(), allowed_now());
  EXPECT_GE(topology->cores, 1);
  EXPECT_LE(static_cast<std::size_t>(topology->cores), topology->cpus().size());
  ASSERT_FALSE(topology->nodes.empty());
  EXPECT_GT(topology->nodes[0].memory_bytes, 0u);
}

TEST(Topology, BindingMovesTheCallingThreadOnly) {
  const std::vector<int> before = allowed_now();
  const int last = before.back();
  std::thread([last] {
    const Status bound = bind_thread({.cpus = {last}});
    EXPECT_TRUE(bound.ok()) << bound.to_string();
    EXPECT_EQ(allowed_now(), std::vector<int>{last});
  }).join();
  EXPECT_EQ(allowed_now(), before);
}

TEST(Topology, BindingToNoCpuIsRefused) {
  const Status refused = bind_thread({.index = 3});
  EXPECT_EQ(refused.code(), Code::invalid);
  EXPECT_NE(refused.message().find("node 3"), std::string_view::npos) << refused.to_string();
}

}  // namespace
}  // namespace headrace
