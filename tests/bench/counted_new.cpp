// In a file of its own: g++ takes a deallocation that it inlines for one that does not match.
#include "tests/bench/counted_new.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace headrace::bench {
namespace {

std::atomic<std::uint64_t> made{0};

}  // namespace

std::uint64_t allocations_made() noexcept { return made; }

}  // namespace headrace::bench

// Sanitizers have their own, which they want all of.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
void* operator new(std::size_t size) {
  ++headrace::bench::made;
  if (void* const memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
#endif
