#include "runtime/layout.h"

#include "io/bytes.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace headrace {
namespace {

TensorSpec spec(std::string name, std::uint32_t unit, std::uint64_t count,
                ScalarType param = ScalarType::bf16) {
  TensorSpec made;
  made.name.swap(name);
  made.unit = UnitId{unit};
  made.count = count;
  made.param = param;
  return made;
}

TensorTable random_model(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  TensorTable tensors;
  const auto below = [&](std::uint64_t n) { return random() % n; };
  for (std::uint64_t i = 0, n = 1 + below(30); i < n; ++i) {
    TensorSpec made =
        spec(std::string("t").append(std::to_string(i)), static_cast<std::uint32_t>(below(4)),
             below(5) == 0 ? 0 : below(20'000), static_cast<ScalarType>(below(3)));
    made.group = GroupId{static_cast<std::uint32_t>(below(3))};
    made.trainable = below(5) != 0;
    EXPECT_TRUE(tensors.add(made).ok());
  }
  return tensors;
}

// Every element of every trainable tensor lies in exactly one segment, in order.
void expect_each_element_once(const TensorTable& tensors, const ModelLayout& layout) {
  std::map<std::uint32_t, std::uint64_t> covered;
  for (const ShardSpec& shard : layout.shards)
    for (const Segment& segment : shard.segments) {
      EXPECT_EQ(segment.tensor_begin, covered[index_of(segment.tensor)]);
      EXPECT_GT(segment.count, 0u);
      EXPECT_EQ(segment.padded, round_up(segment.count, kSegmentElements));
      EXPECT_LE(segment.shard_begin + segment.padded, shard.elements);
      covered[index_of(segment.tensor)] += segment.count;
    }
  for (std::uint32_t i = 0; i < tensors.size(); ++i) {
    const TensorSpec& tensor = tensors.all()[i].spec;
    EXPECT_EQ(covered[i], tensor.trainable ? tensor.count : 0);
  }
}

void expect_param_windows(const ModelLayout& layout) {
  for (const ShardSpec& shard : layout.shards)
    for (const Segment& segment : shard.segments) {
      const std::uint64_t width = size_of(shard.param);
      EXPECT_EQ(shard.param_offset + segment.shard_begin * width,
                layout.param_offset[index_of(segment.tensor)] + segment.tensor_begin * width);
    }
}

TEST(Layout, EveryElementLiesInOneSegmentForRandomModels) {
  const std::uint64_t first = std::random_device()();
  std::printf("seed %lu\n", first);
  for (std::uint64_t seed = first; seed < first + 300; ++seed) {
    const TensorTable tensors = random_model(seed);
    for (const std::uint64_t bytes : {std::uint64_t{1}, 70'000ul, 1'000'000ul, ~0ul}) {
      const ModelLayout layout = lay_out(tensors, StateFormat::split, bytes);
      expect_each_element_once(tensors, layout);
      expect_param_windows(layout);
      for (const ShardSpec& shard : layout.shards) {
        EXPECT_EQ(shard.elements % kShardElements, 0u);
        EXPECT_LE(shard.state_bytes, std::max<std::uint64_t>(bytes, 12 * kShardElements));
      }
    }
    if (HasFailure()) FAIL() << "seed " << seed;
  }
}

TEST(Layout, ShardsNeverCrossAUnitOrAGroup) {
  TensorTable tensors;
  ASSERT_TRUE(tensors.add(spec("a", 0, 5000)).ok());
  TensorSpec other = spec("b", 0, 5000);
  other.group = GroupId{1};
  ASSERT_TRUE(tensors.add(other).ok());
  ASSERT_TRUE(tensors.add(spec("c", 1, 5000)).ok());
  const ModelLayout layout = lay_out(tensors, StateFormat::fp32, 32 << 20);
  ASSERT_EQ(layout.shards.size(), 3u);
  for (const ShardSpec& shard : layout.shards) EXPECT_EQ(shard.segments.size(), 1u);
}

TEST(Layout, PiecesOfOneRunAreEqual) {
  TensorTable tensors;
  ASSERT_TRUE(tensors.add(spec("a", 0, 10 * kShardElements)).ok());
  const ModelLayout layout = lay_out(tensors, StateFormat::fp32, 4 * kShardElements * 12);
  ASSERT_EQ(layout.shards.size(), 3u);  // 4 + 4 + 2, not 4 + 4 + 1 + 1
  EXPECT_EQ(layout.shards[0].elements, 4 * kShardElements);
  EXPECT_EQ(layout.shards[2].elements, 2 * kShardElements);
}

TEST(Layout, AnAliasLiesWhereItsRootDoesAndBelongsToItsOwnUnit) {
  TensorTable tensors;
  ASSERT_TRUE(tensors.add(spec("embedding", 0, 3000)).ok());
  ASSERT_TRUE(tensors.add(spec("norm", 1, 10)).ok());
  TensorSpec head = spec("head", 1, 3000);
  head.alias_of = TensorId{0};
  ASSERT_TRUE(tensors.add(head).ok());
  const ModelLayout layout = lay_out(tensors, StateFormat::fp32, 32 << 20);
  EXPECT_EQ(layout.shards.size(), 2u);
  EXPECT_EQ(layout.param_offset[2], layout.param_offset[0]);
  EXPECT_EQ(layout.units[1].shards, (std::vector<std::uint32_t>{0, 1}));
  EXPECT_EQ(layout.units[1].tensors.size(), 2u);
}

TEST(Layout, StateOfOwnMastersTakesEightBytes) {
  TensorTable tensors;
  ASSERT_TRUE(tensors.add(spec("a", 0, kShardElements, ScalarType::fp32)).ok());
  ASSERT_TRUE(tensors.add(spec("b", 0, kShardElements, ScalarType::bf16)).ok());
  ASSERT_TRUE(tensors.add(spec("c", 0, kShardElements, ScalarType::fp16)).ok());
  const ModelLayout layout = lay_out(tensors, StateFormat::split, 32 << 20);
  ASSERT_EQ(layout.shards.size(), 3u);
  EXPECT_EQ(layout.shards[0].state_bytes, 8 * kShardElements);
  EXPECT_EQ(layout.shards[1].state_bytes, 10 * kShardElements);
  EXPECT_EQ(layout.shards[2].state_bytes, 12 * kShardElements);
}

TEST(TensorTable, RefusesWhatDoesNotFit) {
  TensorTable tensors;
  ASSERT_TRUE(tensors.add(spec("a", 0, 10)).ok());
  EXPECT_EQ(tensors.add(spec("a", 0, 10)).status().code(), Code::invalid);
  EXPECT_EQ(tensors.add(spec("", 0, 10)).status().code(), Code::invalid);
  EXPECT_EQ(tensors.add(spec("huge", 0, ~0ull)).status().code(), Code::invalid);
  TensorSpec alias = spec("alias", 0, 11);
  alias.alias_of = TensorId{0};
  EXPECT_EQ(tensors.add(alias).status().code(), Code::invalid);
  alias.count = 10;
  alias.alias_of = TensorId{7};
  EXPECT_EQ(tensors.add(alias).status().code(), Code::invalid);
  EXPECT_EQ(tensors.size(), 1u);
}

TEST(TensorTable, AnAliasOfAnAliasMeansTheSameRoot) {
  TensorTable tensors;
  ASSERT_TRUE(tensors.add(spec("a", 0, 10)).ok());
  TensorSpec alias = spec("b", 0, 10);
  alias.alias_of = TensorId{0};
  ASSERT_TRUE(tensors.add(alias).ok());
  alias.name = "c";
  alias.alias_of = TensorId{1};
  const TensorId c = tensors.add(alias).value();
  EXPECT_EQ(tensors[c].root, TensorId{0});
}

}  // namespace
}  // namespace headrace
