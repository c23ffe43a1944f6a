#include "io/status.h"

#include <fmt/format.h>

#include <array>

namespace headrace {

std::string_view name_of(Code code) noexcept {
  constexpr std::array<std::string_view, 12> kNames = {
      "ok",     "invalid", "out_of_memory", "out_of_space", "io",       "corrupt",
      "device", "timeout", "unavailable",   "locked",       "poisoned", "cancelled"};
  return kNames[static_cast<std::size_t>(code)];
}

Status::Status(Code code, std::string message)
    : failure_(std::make_shared<const Failure>(Failure{code, std::move(message)})) {
  HEADRACE_CHECK(code != Code::ok);
}

std::string_view Status::message() const noexcept {
  return ok() ? std::string_view() : std::string_view(failure_->message);
}

Status Status::with(std::string_view context) const {
  return ok() ? *this : Status(code(), fmt::format("{}: {}", context, message()));
}

Status invalid(std::string message) { return Status(Code::invalid, std::move(message)); }

std::string Status::to_string() const {
  return ok() ? "ok" : fmt::format("{}: {}", name_of(code()), message());
}

}  // namespace headrace
