// A manifest's fields as bytes, for those who change them: where they lie is in
// docs/nvme_layout.md.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "io/check.h"
#include "runtime/checksum.h"

namespace headrace {

inline constexpr std::size_t kVersionAt = 8, kTensorsAt = 12, kBodyBytesAt = 16, kUserBytesAt = 24,
                             kGenerationAt = 32, kDataBytesAt = 40, kBodySumAt = 48,
                             kHeaderSumAt = 56, kBodyAt = 64;

template <class T>
void put(std::vector<std::byte>& bytes, std::size_t at, T value) {
  HEADRACE_CHECK(at + sizeof(T) <= bytes.size());
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

inline std::uint64_t get(const std::vector<std::byte>& bytes, std::size_t at) {
  std::uint64_t value = 0;
  HEADRACE_CHECK(at + sizeof(value) <= bytes.size());
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

// Makes the checksums right again, as somebody would who means harm.
inline void seal_body(std::vector<std::byte>& bytes) {
  const std::uint64_t size =
      std::min<std::uint64_t>(get(bytes, kBodyBytesAt), bytes.size() - kBodyAt);
  put(bytes, kBodySumAt, checksum(ConstBytes(bytes).subspan(kBodyAt, size)));
}
inline void seal_header(std::vector<std::byte>& bytes) {
  put(bytes, kHeaderSumAt, checksum(ConstBytes(bytes).first(kHeaderSumAt)));
}

}  // namespace headrace
