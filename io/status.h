// Status: how something went. Result<T>: a value, or why there is none.
//
// Every fallible call of headrace returns one of the two (or an Event, which ends with a Status).
// Both are values: copyable, and safe to read from any thread. Neither may be dropped silently.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "io/check.h"

namespace headrace {

enum class Code : std::uint8_t {
  ok,
  invalid,        // the caller's arguments, or the order of the calls
  out_of_memory,  // a budget or the machine has too little DRAM or HBM
  out_of_space,   // a file system has too little room
  io,             // the operating system reported an error
  corrupt,        // bytes are not what was written
  device,         // a device call failed
  timeout,        // a wait ended before the work did
  unavailable,    // not on this machine, or not now
  locked,         // somebody else holds it
  poisoned,       // an earlier failure left the engine without a whole model
  cancelled,      // dropped before it started
};

// "invalid", "out_of_memory", ...
std::string_view name_of(Code code) noexcept;

class [[nodiscard]] Status {
 public:
  Status() noexcept = default;  // well
  Status(Code code, std::string message);

  bool ok() const noexcept { return failure_ == nullptr; }
  Code code() const noexcept { return ok() ? Code::ok : failure_->code; }
  std::string_view message() const noexcept;

  // The same failure, with what the caller knows in front: "shard 17: <message>". Well stays well.
  Status with(std::string_view context) const;

  // "io: shard 17: ..." or "ok".
  std::string to_string() const;

 private:
  struct Failure {
    Code code;
    std::string message;
  };
  std::shared_ptr<const Failure> failure_;
};

// The caller's mistake: Code::invalid.
Status invalid(std::string message);

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : content_(std::in_place_index<0>, std::move(value)) {}
  Result(Status why) : content_(std::in_place_index<1>, std::move(why)) {
    HEADRACE_CHECK(!std::get<1>(content_).ok());
  }

  bool ok() const noexcept { return content_.index() == 0; }
  Status status() const { return ok() ? Status() : std::get<1>(content_); }

  // The value; calling it on a failure is a bug.
  T& value() & { return checked(); }
  const T& value() const& { return const_cast<Result*>(this)->checked(); }
  T&& value() && { return std::move(checked()); }
  T& operator*() & { return checked(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(checked()); }
  T* operator->() { return &checked(); }
  const T* operator->() const { return &value(); }

 private:
  T& checked() {
    HEADRACE_CHECK(ok());
    return std::get<0>(content_);
  }
  std::variant<T, Status> content_;
};

}  // namespace headrace

// Returns from the calling function when `expression`, a Status, is not well.
#define HEADRACE_TRY(expression)                                                  \
  do {                                                                            \
    if (::headrace::Status headrace_status = (expression); !headrace_status.ok()) \
      return headrace_status;                                                     \
  } while (false)

// Declares or assigns `target` from a Result, or returns its Status.
#define HEADRACE_ASSIGN(target, expression) \
  HEADRACE_ASSIGN_AS(HEADRACE_JOIN(headrace_result_, __LINE__), target, expression)
#define HEADRACE_ASSIGN_AS(result, target, expression) \
  auto result = (expression);                          \
  if (!result.ok()) return result.status();            \
  target = std::move(result).value()
#define HEADRACE_JOIN(a, b) HEADRACE_JOIN_NOW(a, b)
#define HEADRACE_JOIN_NOW(a, b) a##b
