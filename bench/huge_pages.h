// Pages: zeroed anonymous memory on a 2 MiB boundary, huge pages asked for before it is touched.
//
// Owned by one object, moved but not copied. Deliberately apart from io/: the bounds that headrace
// is measured against use none of its own memory.
#pragma once

#include <cstddef>
#include <span>

#include "io/bytes.h"
#include "io/status.h"

namespace headrace::bench {

class Pages {
 public:
  // At least `size` bytes, never zero of them; `out_of_memory` when the system refuses.
  static Result<Pages> allocate(std::size_t size);
  Pages(Pages&& other) noexcept;
  Pages& operator=(Pages&& other) noexcept;
  ~Pages();

  Bytes bytes() const noexcept { return bytes_; }

  // The same bytes as elements of T.
  template <class T>
  std::span<T> as() const noexcept {
    return {reinterpret_cast<T*>(bytes_.data()), bytes_.size() / sizeof(T)};
  }

  // Whether the mapping holds huge pages now. False before the first touch.
  bool huge() const;

 private:
  explicit Pages(Bytes mapping, Bytes bytes) : mapping_(mapping), bytes_(bytes) {}
  void release() noexcept;

  Bytes mapping_;  // as mapped
  Bytes bytes_;    // the aligned part handed out
};

}  // namespace headrace::bench
