// A contract between our own parts: when it is broken, that is a bug of ours, and the process ends
// with a message, in every build. Wrong arguments of a user are never checked with this.
#pragma once

namespace headrace {

[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace headrace

#define HEADRACE_CHECK(condition) \
  ((condition) ? void() : ::headrace::check_failed(#condition, __FILE__, __LINE__))
