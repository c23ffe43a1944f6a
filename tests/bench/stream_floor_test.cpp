#include "bench/stream_floor.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace headrace::bench {
namespace {

struct alignas(64) Block {
  std::byte bytes[64];
};

// The arrays of one run, with random-looking bytes in them.
struct Streams {
  static constexpr std::size_t kCount = 3 * kSegmentElements;

  Streams() {
    unsigned random = 1;
    for (std::vector<Block>* array : {&master, &exp_avg, &exp_avg_sq, &param, &grad}) {
      array->resize(kCount * 4 / sizeof(Block));
      for (Block& block : *array) {
        for (std::byte& byte : block.bytes) {
          byte = static_cast<std::byte>((random = random * 1664525 + 1013904223) >> 24);
        }
      }
    }
  }

  AdamWRun run(StateLayout layout) {
    AdamWRun made;
    made.layout = layout;
    made.state = {master[0].bytes, reinterpret_cast<float*>(exp_avg[0].bytes),
                  reinterpret_cast<float*>(exp_avg_sq[0].bytes)};
    made.param = param[0].bytes;
    made.grad = grad[0].bytes;
    made.count = kCount;
    return made;
  }

  std::vector<Block> master, exp_avg, exp_avg_sq, param, grad;
};

template <class T>
T element(const std::vector<Block>& array, std::size_t at) {
  T value;
  std::memcpy(&value, array[0].bytes + at * sizeof(T), sizeof value);
  return value;
}

// Elements of `now` that are not `before` xor (grad & flip).
template <class T, class Grad = std::uint16_t>
std::size_t wrong(const std::vector<Block>& now, const std::vector<Block>& before,
                  const std::vector<Block>& grad, std::uint16_t flip) {
  std::size_t count = 0;
  for (std::size_t at = 0; at < Streams::kCount; ++at) {
    const T bits = static_cast<T>(element<Grad>(grad, at) & flip);
    count += element<T>(now, at) != static_cast<T>(element<T>(before, at) ^ bits);
  }
  return count;
}

bool same(const std::vector<Block>& a, const std::vector<Block>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(Block)) == 0;
}

TEST(StreamFloor, CountsTheBytesOfTheUpdate) {
  // fp32: reads grad 2, master, m, v 4 each; writes master, m, v 4 each, the copy 2.
  EXPECT_EQ(stream_bytes_per_element(StateLayout::fp32), 2u + 12 + 12 + 2);
  // split: reads grad 2, high half 2, low half 2, m, v 4 each; writes all of these but the
  // gradient.
  EXPECT_EQ(stream_bytes_per_element(StateLayout::split), 2u + 12 + 12);
  EXPECT_EQ(stream_bytes_per_element(StateLayout::fp32, ScalarType::fp32), 4u + 12 + 12 + 2);
  EXPECT_EQ(stream_bytes_per_element(StateLayout::split, ScalarType::fp32), 4u + 12 + 12);
}

TEST(StreamFloor, Fp32ReadsAndWritesEveryElementOfEveryStream) {
  for (const int threads : {1, 2, 3}) {
    const Streams before;
    Streams now;
    stream_floor(now.run(StateLayout::fp32), 0xffff, {threads});
    EXPECT_EQ(wrong<std::uint32_t>(now.master, before.master, before.grad, 0xffff), 0u);
    EXPECT_EQ(wrong<std::uint32_t>(now.exp_avg, before.exp_avg, before.grad, 0xffff), 0u);
    EXPECT_EQ(wrong<std::uint32_t>(now.exp_avg_sq, before.exp_avg_sq, before.grad, 0xffff), 0u);
    EXPECT_TRUE(same(now.grad, before.grad));
    for (std::size_t at = 0; at < Streams::kCount; ++at) {
      ASSERT_EQ(element<std::uint16_t>(now.param, at),
                element<std::uint32_t>(now.master, at) >> 16);
    }
  }
}

TEST(StreamFloor, SplitReadsAndWritesEveryElementOfEveryStream) {
  for (const int threads : {1, 2, 3}) {
    const Streams before;
    Streams now;
    stream_floor(now.run(StateLayout::split), 0xffff, {threads});
    EXPECT_EQ(wrong<std::uint16_t>(now.master, before.master, before.grad, 0xffff), 0u);
    EXPECT_EQ(wrong<std::uint16_t>(now.param, before.param, before.grad, 0xffff), 0u);
    EXPECT_EQ(wrong<std::uint32_t>(now.exp_avg, before.exp_avg, before.grad, 0xffff), 0u);
    EXPECT_EQ(wrong<std::uint32_t>(now.exp_avg_sq, before.exp_avg_sq, before.grad, 0xffff), 0u);
    EXPECT_TRUE(same(now.grad, before.grad));
  }
}

TEST(StreamFloor, ReadsGradientsOfFp32) {
  for (const StateLayout layout : {StateLayout::fp32, StateLayout::split}) {
    const Streams before;
    Streams now;
    AdamWRun run = now.run(layout);
    run.grad_type = ScalarType::fp32;
    stream_floor(run, 0xffff, {2});
    const auto wrong_moments =
        wrong<std::uint32_t, std::uint32_t>(now.exp_avg, before.exp_avg, before.grad, 0xffff);
    const auto wrong_masters =
        layout == StateLayout::fp32
            ? wrong<std::uint32_t, std::uint32_t>(now.master, before.master, before.grad, 0xffff)
            : wrong<std::uint16_t, std::uint32_t>(now.master, before.master, before.grad, 0xffff);
    EXPECT_EQ(wrong_moments + wrong_masters, 0u);
    EXPECT_TRUE(same(now.grad, before.grad));
  }
}

TEST(StreamFloor, WithoutFlipLeavesWhatIsUpdatedInPlace) {
  const Streams before;
  Streams now;
  stream_floor(now.run(StateLayout::split), 0, {2});
  EXPECT_TRUE(same(now.param, before.param));
  stream_floor(now.run(StateLayout::fp32), 0, {2});
  EXPECT_TRUE(same(now.master, before.master));
  EXPECT_TRUE(same(now.exp_avg, before.exp_avg));
  EXPECT_TRUE(same(now.exp_avg_sq, before.exp_avg_sq));
}

}  // namespace
}  // namespace headrace::bench
