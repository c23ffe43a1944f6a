#include "optim_cpu/convert.h"

#include "tests/optim_cpu/samples.h"

namespace headrace {
namespace {

// Odd counts, and enough elements that a team is really used.
constexpr std::size_t kCounts[] = {1, 7, 255, 100'003};
constexpr int kThreads[] = {1, 2, 5};

void expect_converted(const Array& src, ScalarType from, ScalarType to, std::size_t begin,
                      const Team& team) {
  const std::size_t count = src.size() / size_of(from) - begin;
  const Array dst(count * size_of(to)), expected(count * size_of(to));
  convert(dst.data(), to, src.data() + begin * size_of(from), from, count, team);
  for (std::size_t i = 0; i < count; ++i)
    set_element(expected, to, i, float_at(src.data(), from, begin + i));
  if (from == to) std::memcpy(expected.data(), src.data() + begin * size_of(from), dst.size());
  EXPECT_EQ(dst, expected) << name_of(from) << " to " << name_of(to) << ", " << count;
}

TEST(Convert, EveryPairOfTypesAsOneByOne) {
  Random random = seeded();
  for (const std::size_t count : kCounts) {
    for (const ScalarType from : kTypes) {
      const Array src = any_bits(count + 1, from, random);
      for (const ScalarType to : kTypes)
        for (const int threads : kThreads) expect_converted(src, from, to, 1, {.threads = threads});
    }
  }
}

TEST(Convert, AddingIsInFp32) {
  Random random = seeded();
  for (const ScalarType from : kTypes) {
    for (const std::size_t count : kCounts) {
      const Array src = normal_array(count, from, 1, random);
      const Array before = normal_array(count, ScalarType::fp32, 1, random), expected(before);
      for (std::size_t i = 0; i < count; ++i) expected.floats()[i] += float_at(src.data(), from, i);
      for (const int threads : kThreads) {
        const Array sum(before);
        add_gradient(sum.floats(), src.data(), from, count, {.threads = threads});
        EXPECT_EQ(sum, expected) << name_of(from) << ", " << count;
      }
    }
  }
}

TEST(Convert, NothingIsALegalCount) {
  for (const ScalarType type : kTypes) {
    convert(nullptr, ScalarType::fp32, nullptr, type, 0, {.threads = 2});
    add_gradient(nullptr, nullptr, type, 0, {.threads = 2});
  }
}

}  // namespace
}  // namespace headrace
