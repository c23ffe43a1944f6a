#include "runtime/checksum.h"

#include <xxhash.h>
#if defined(__x86_64__) && __has_include(<xxh_x86dispatch.h>)
#include <xxh_x86dispatch.h>  // the same values, with the best instructions of this machine
#endif

#include <new>

namespace headrace {

std::uint64_t checksum(ConstBytes bytes) noexcept {
  return XXH3_64bits(bytes.data(), bytes.size());
}

struct StreamingChecksum::State {
  State() : hash(XXH3_createState()) {
    if (hash == nullptr) throw std::bad_alloc();
  }
  ~State() { XXH3_freeState(hash); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  XXH3_state_t* const hash;
};

StreamingChecksum::StreamingChecksum() : state_(std::make_unique<State>()) { reset(); }
StreamingChecksum::StreamingChecksum(StreamingChecksum&&) noexcept = default;
StreamingChecksum& StreamingChecksum::operator=(StreamingChecksum&&) noexcept = default;
StreamingChecksum::~StreamingChecksum() = default;

void StreamingChecksum::reset() { XXH3_64bits_reset(state_->hash); }

void StreamingChecksum::update(ConstBytes bytes) {
  if (!bytes.empty()) XXH3_64bits_update(state_->hash, bytes.data(), bytes.size());
}

std::uint64_t StreamingChecksum::digest() const { return XXH3_64bits_digest(state_->hash); }

}  // namespace headrace
