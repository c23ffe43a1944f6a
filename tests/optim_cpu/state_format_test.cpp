#include "optim_cpu/state_format.h"

#include <limits>

#include "optim_cpu/convert.h"
#include "tests/optim_cpu/shard.h"

namespace headrace {
namespace {

TEST(StateFormat, LayoutsFollowFormatAndParameterType) {
  EXPECT_EQ(layout_of(StateFormat::fp32, ScalarType::bf16), StateLayout::fp32);
  EXPECT_EQ(layout_of(StateFormat::split, ScalarType::bf16), StateLayout::split);
  for (const StateFormat format : {StateFormat::fp32, StateFormat::split}) {
    EXPECT_EQ(layout_of(format, ScalarType::fp16), StateLayout::fp32);
    EXPECT_EQ(layout_of(format, ScalarType::fp32), StateLayout::own_master);
  }
}

TEST(StateFormat, BytesPerElementAreThoseOnDisk) {
  EXPECT_EQ(state_bytes_per_element(StateLayout::fp32), 12u);
  EXPECT_EQ(state_bytes_per_element(StateLayout::split), 10u);
  EXPECT_EQ(state_bytes_per_element(StateLayout::own_master), 8u);
}

// Tiles the state exactly: no byte twice, none left.
TEST(StateFormat, ArraysOfAShardFollowEachOther) {
  for (const ShardKind& c : kShardKinds) {
    const Shard shard(c, kShardElements);
    const StateView first = shard.view(0), last = shard.view(kShardElements);
    const auto* const m = reinterpret_cast<const std::byte*>(first.exp_avg);
    const auto* const v = reinterpret_cast<const std::byte*>(first.exp_avg_sq);
    if (c.layout == StateLayout::own_master) {
      EXPECT_EQ(first.master, nullptr);
      EXPECT_EQ(m, shard.state.data());
    } else {
      EXPECT_EQ(first.master, shard.state.data());
      EXPECT_EQ(last.master, m);
    }
    EXPECT_EQ(reinterpret_cast<const std::byte*>(last.exp_avg), v);
    EXPECT_EQ(reinterpret_cast<const std::byte*>(last.exp_avg_sq),
              shard.state.data() + shard.state.size());
  }
}

TEST(StateFormat, ZeroedMemoryIsAStateOfZeros) {
  for (const ShardKind& c : kShardKinds) {
    for (const float master : Shard(c, kShardElements).masters()) EXPECT_EQ(master, 0);
  }
}

float with_one_nan(float value) { return value == value ? value : std::bit_cast<float>(kNanBits); }

// Any bits: NaNs, infinities and the carry of bits + 0x8000 into the exponent among them.
TEST(StateFormat, MastersComeBackExactly) {
  Random random = seeded();
  for (const ShardKind& c : kShardKinds) {
    const Shard shard(c, kShardElements);
    const Array values = any_bits(kShardElements, ScalarType::fp32, random);
    const std::span<const float> wanted(values.floats(), kShardElements);
    shard.set(wanted, 0);
    const std::vector<float> got = shard.masters();
    for (std::size_t i = 0; i < got.size(); ++i) {
      const float expected = with_one_nan(wanted[i]);
      EXPECT_EQ(std::bit_cast<std::uint32_t>(got[i]), std::bit_cast<std::uint32_t>(expected));
      const Array rounding(4);
      set_element(rounding, c.param, 0, expected);
      EXPECT_EQ(std::memcmp(shard.param_at(i), rounding.data(), size_of(c.param)), 0);
    }
  }
}

TEST(StateFormat, AParameterWrittenIsTheMaster) {
  Random random = seeded();
  for (const ShardKind& c : kShardKinds) {
    const Shard shard(c, kShardElements);
    const Array values = normal_array(kShardElements, c.param, 1, random);
    set_param(c.layout, shard.view(0), shard.param_at(0), c.param, values.data(), kShardElements);
    EXPECT_EQ(shard.param, values);
    const std::vector<float> got = shard.masters();
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_EQ(got[i], float_at(values.data(), c.param, i));
  }
}

TEST(StateFormat, AWindowTouchesItselfAlone) {
  Random random = seeded();
  constexpr std::size_t kBegin = 517, kCount = 333;  // aligned to nothing
  for (const ShardKind& c : kShardKinds) {
    const Shard shard(c, kShardElements);
    const Array all = normal_array(kShardElements, ScalarType::fp32, 1, random);
    shard.set({all.floats(), kShardElements}, 0);
    const std::vector<float> ones(kCount, 1.0f);
    shard.set(ones, kBegin);
    const std::vector<float> got = shard.masters();
    for (std::size_t i = 0; i < kShardElements; ++i) {
      const bool inside = i >= kBegin && i < kBegin + kCount;
      EXPECT_EQ(got[i], inside ? 1.0f : all.floats()[i]) << i;
      EXPECT_EQ(shard.view(0).exp_avg[i], 0);
      EXPECT_EQ(shard.view(0).exp_avg_sq[i], 0);
    }
  }
}

TEST(StateFormat, NothingIsALegalCount) {
  for (const ShardKind& c : kShardKinds) {
    master_from(c.layout, {}, nullptr, {});
    set_master(c.layout, {}, nullptr, c.param, {});
    set_param(c.layout, {}, nullptr, c.param, nullptr, 0);
  }
}

}  // namespace
}  // namespace headrace
