// Bytes with a home: MemView borrows, Memory owns.
//
// Host bytes can be read and written by any code. Device bytes are touched only by a Stream of
// their device: the address is a name, and following it on the host faults.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "io/bytes.h"
#include "io/check.h"

namespace headrace {

enum class Home : std::uint8_t { host, device };

struct MemView {
  std::byte* data = nullptr;
  std::size_t size = 0;
  Home home = Home::host;

  MemView() = default;
  MemView(std::byte* bytes, std::size_t count, Home where)
      : data(bytes), size(count), home(where) {}
  MemView(Bytes host) : data(host.data()), size(host.size()) {}

  // [offset, offset + length), which must lie inside.
  MemView sub(std::size_t offset, std::size_t length) const {
    HEADRACE_CHECK(offset <= size && length <= size - offset);
    return {data + offset, length, home};
  }
  // Host memory only.
  Bytes bytes() const {
    HEADRACE_CHECK(home == Home::host);
    return {data, size};
  }
};

struct ConstMemView {
  const std::byte* data = nullptr;
  std::size_t size = 0;
  Home home = Home::host;

  ConstMemView() = default;
  ConstMemView(const std::byte* bytes, std::size_t count, Home where)
      : data(bytes), size(count), home(where) {}
  ConstMemView(const MemView& view) : data(view.data), size(view.size), home(view.home) {}
  ConstMemView(ConstBytes host) : data(host.data()), size(host.size()) {}
  // Host memory only.
  ConstBytes bytes() const {
    HEADRACE_CHECK(home == Home::host);
    return {data, size};
  }
};

// Any contiguous range of plain values, as a view on its bytes.
template <class T>
MemView view_of(std::span<T> values) {
  return MemView(std::as_writable_bytes(values));
}
template <class T>
ConstMemView view_of(std::span<const T> values) {
  return ConstMemView(std::as_bytes(values));
}

// Move-only; moved-from is empty. Gives its bytes back when destroyed.
class Memory {
 public:
  Memory() = default;
  // `give_back` runs once, on destruction, unless abandoned.
  Memory(MemView view, std::function<void(MemView)> give_back)
      : view_(view), give_back_(std::move(give_back)) {}
  Memory(Memory&& other) noexcept { swap(other); }
  Memory& operator=(Memory&& other) noexcept {
    Memory taken(std::move(other));
    swap(taken);
    return *this;
  }
  ~Memory() {
    if (give_back_) give_back_(view_);
  }

  const MemView& view() const noexcept { return view_; }
  std::size_t size() const noexcept { return view_.size; }
  // Never given back: the kernel or a device may still write there.
  void abandon() noexcept;

 private:
  void swap(Memory& other) noexcept {
    std::swap(view_, other.view_);
    std::swap(give_back_, other.give_back_);
  }
  MemView view_;
  std::function<void(MemView)> give_back_;
};

}  // namespace headrace
