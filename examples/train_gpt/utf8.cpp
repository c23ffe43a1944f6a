#include "examples/train_gpt/utf8.h"

namespace train_gpt {
namespace {

struct Lead {
  std::size_t length = 0;
  std::uint8_t second_from = 0x80, second_to = 0xBF;
};

Lead lead(std::uint8_t byte) {
  if (byte < 0x80) return {1};
  if (byte < 0xC2) return {};
  if (byte < 0xE0) return {2};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {};
}

bool control(std::span<const std::uint8_t> character) {
  const std::uint8_t byte = character[0];
  if (byte == '\n' || byte == '\t') return false;
  // C1 controls are U+0080 to U+009F: C2 80 to C2 9F.
  return byte < 0x20 || byte == 0x7F || (byte == 0xC2 && character[1] < 0xA0);
}

}  // namespace

std::size_t character_length(std::span<const std::uint8_t> bytes) {
  if (bytes.empty()) return 0;
  const auto [length, from, to] = lead(bytes[0]);
  if (bytes.size() < length) return 0;
  if (length > 1 && (bytes[1] < from || bytes[1] > to)) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if (bytes[i] < 0x80 || bytes[i] > 0xBF) return 0;
  }
  return length;
}

bool well_formed(std::span<const std::uint8_t> bytes) {
  while (!bytes.empty()) {
    const std::size_t length = character_length(bytes);
    if (length == 0) return false;
    bytes = bytes.subspan(length);
  }
  return true;
}

std::string printable(std::span<const std::uint8_t> bytes) {
  std::string text;
  while (!bytes.empty()) {
    const std::size_t length = character_length(bytes);
    const bool shown = length > 0 && !control(bytes.first(length));
    if (shown) {
      text.append(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length));
    } else {
      text += '?';
    }
    bytes = bytes.subspan(length > 0 ? length : 1);
  }
  return text;
}

}  // namespace train_gpt
