#include "bench/sizes.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <string>
#include <system_error>

#include <fmt/format.h>

namespace headrace {
namespace {

constexpr std::uint64_t kLargest = (std::uint64_t{1} << 63) - 1;

struct Unit {
  std::string_view name;
  std::uint64_t bytes;
};

constexpr std::uint64_t power(std::uint64_t base, int exponent) {
  return exponent == 0 ? 1 : base * power(base, exponent - 1);
}

constexpr std::array<Unit, 14> kUnits{{{"", 1},
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

Status refused(std::string_view text, std::string_view why) {
  return {Code::invalid,
          fmt::format("size \"{}\" {}: write 64KiB, 96MiB, 1.5GB or 1e9", text, why)};
}

// 0 when there is no such unit.
std::uint64_t unit_bytes(std::string_view name) {
  while (name.starts_with(' ')) name.remove_prefix(1);
  std::string lower;
  for (const char letter : name) {
    lower += letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  }
  for (const Unit& unit : kUnits) {
    if (unit.name == lower) return unit.bytes;
  }
  return 0;
}

Result<std::uint64_t> whole_bytes(std::string_view text, long double bytes) {
  if (bytes > static_cast<long double>(kLargest)) return refused(text, "is too large");
  if (bytes != std::floor(bytes)) return refused(text, "is not a whole number of bytes");
  return static_cast<std::uint64_t>(bytes);
}

}  // namespace

Result<std::uint64_t> parse_size(std::string_view text) {
  const char* const end = text.data() + text.size();
  double number = 0;
  const auto [after, problem] = std::from_chars(text.data(), end, number);
  if (problem == std::errc::result_out_of_range) return refused(text, "is too large");
  if (problem != std::errc() || !std::isfinite(number)) return refused(text, "is not a number");
  if (std::signbit(number)) return refused(text, "is negative");
  const std::uint64_t unit = unit_bytes({after, static_cast<std::size_t>(end - after)});
  if (unit == 0) return refused(text, "has an unknown unit");
  std::uint64_t exact = 0;
  const auto digits = std::from_chars(text.data(), after, exact);
  const bool all_digits = digits.ec == std::errc() && digits.ptr == after;
  const long double factor = all_digits ? static_cast<long double>(exact) : number;
  return whole_bytes(text, factor * static_cast<long double>(unit));
}

}  // namespace headrace
