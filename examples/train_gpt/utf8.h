// UTF-8 as Unicode 15, table 3-7 defines it: no overlong forms, no surrogates, nothing past
// U+10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace train_gpt {

// Bytes of the well-formed character at the front; 0 if there is none.
std::size_t character_length(std::span<const std::uint8_t> bytes);

bool well_formed(std::span<const std::uint8_t> bytes);

// For a terminal: '?' for every byte that belongs to no character and for control characters other
// than line feed and tab.
std::string printable(std::span<const std::uint8_t> bytes);

}  // namespace train_gpt
