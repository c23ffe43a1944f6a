// libFuzzer's way to the entry that the build names.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/entries.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static_cast<void>(headrace::fuzz::HEADRACE_FUZZ_ENTRY(std::as_bytes(std::span(data, size))));
  return 0;
}
