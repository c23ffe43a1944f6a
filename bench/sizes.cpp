#include "bench/sizes.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <system_error>

#include <fmt/format.h>

namespace headrace {
namespace {

constexpr std::uint64_t kLargest = (std::uint64_t{1} << 63) - 1;

struct Unit {
  std::string_view name;  // in lower case
  std::uint64_t factor;
};

constexpr std::uint64_t power(std::uint64_t base, int exponent) {
  return exponent == 0 ? 1 : base * power(base, exponent - 1);
}

constexpr std::array<Unit, 14> kByteUnits{{{"", 1},
                                           {"b", 1},
                                           {"k", power(1024, 1)},
                                           {"m", power(1024, 2)},
                                           {"g", power(1024, 3)},
                                           {"t", power(1024, 4)},
                                           {"kib", power(1024, 1)},
                                           {"mib", power(1024, 2)},
                                           {"gib", power(1024, 3)},
                                           {"tib", power(1024, 4)},
                                           {"kb", power(1000, 1)},
                                           {"mb", power(1000, 2)},
                                           {"gb", power(1000, 3)},
                                           {"tb", power(1000, 4)}}};
constexpr std::array<Unit, 5> kCountUnits{{{"", 1},
                                           {"k", power(1000, 1)},
                                           {"m", power(1000, 2)},
                                           {"b", power(1000, 3)},
                                           {"t", power(1000, 4)}}};

// What is read, for messages, and the units it may have.
struct Kind {
  std::string_view name;
  std::string_view examples;
  std::string_view whole;
  std::span<const Unit> units;
};
constexpr Kind kSize{"size", "64KiB, 96MiB, 1.5GB or 1e9", "a whole number of bytes", kByteUnits};
constexpr Kind kCount{"number", "7e9, 1.5B or 350M", "a whole number", kCountUnits};

Status refused(const Kind& kind, std::string_view text, std::string_view why) {
  return {Code::invalid,
          fmt::format("{} \"{}\" {}: write {}", kind.name, text, why, kind.examples)};
}

// 0 when there is no such unit.
std::uint64_t factor_of(const Kind& kind, std::string_view name) {
  while (name.starts_with(' ')) name.remove_prefix(1);
  std::string lower;
  for (const char letter : name) {
    lower += letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  }
  for (const Unit& unit : kind.units) {
    if (unit.name == lower) return unit.factor;
  }
  return 0;
}

Result<std::uint64_t> whole(const Kind& kind, std::string_view text, long double number) {
  if (number > static_cast<long double>(kLargest)) return refused(kind, text, "is too large");
  if (number != std::floor(number))
    return refused(kind, text, fmt::format("is not {}", kind.whole));
  return static_cast<std::uint64_t>(number);
}

Result<std::uint64_t> parse(const Kind& kind, std::string_view text) {
  const char* const end = text.data() + text.size();
  double number = 0;
  const auto [after, problem] = std::from_chars(text.data(), end, number);
  if (problem == std::errc::result_out_of_range) return refused(kind, text, "is too large");
  if (problem != std::errc() || !std::isfinite(number))
    return refused(kind, text, "is not a number");
  if (std::signbit(number)) return refused(kind, text, "is negative");
  const std::uint64_t unit = factor_of(kind, {after, static_cast<std::size_t>(end - after)});
  if (unit == 0) return refused(kind, text, "has an unknown unit");
  std::uint64_t exact = 0;
  const auto digits = std::from_chars(text.data(), after, exact);
  const bool all_digits = digits.ec == std::errc() && digits.ptr == after;
  const long double factor = all_digits ? static_cast<long double>(exact) : number;
  return whole(kind, text, factor * static_cast<long double>(unit));
}

}  // namespace

Result<std::uint64_t> parse_size(std::string_view text) { return parse(kSize, text); }
Result<std::uint64_t> parse_count(std::string_view text) { return parse(kCount, text); }

}  // namespace headrace
