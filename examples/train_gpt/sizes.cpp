#include "examples/train_gpt/sizes.h"

#include <array>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

namespace train_gpt {
namespace {

struct Unit {
  std::string_view name;
  double bytes;
};

constexpr std::array<Unit, 10> kUnits = {{{"", 1},
                                          {"B", 1},
                                          {"kB", 1e3},
                                          {"MB", 1e6},
                                          {"GB", 1e9},
                                          {"TB", 1e12},
                                          {"KiB", 0x1p10},
                                          {"MiB", 0x1p20},
                                          {"GiB", 0x1p30},
                                          {"TiB", 0x1p40}}};

}  // namespace

headrace::Result<std::uint64_t> parse_size(std::string_view text) {
  double number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view suffix(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
  for (const Unit& unit : kUnits) {
    if (error != std::errc() || suffix != unit.name) continue;
    const double bytes = number * unit.bytes;
    if (bytes >= 0 && bytes <= 0x1p53 && bytes == std::floor(bytes)) {
      return static_cast<std::uint64_t>(bytes);
    }
  }
  return headrace::Status(headrace::Code::invalid,
                          fmt::format("\"{}\" is no size: a number and one of kB MB GB TB KiB MiB "
                                      "GiB TiB, such as 64MiB or 1e9",
                                      text));
}

}  // namespace train_gpt
