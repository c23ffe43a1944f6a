// Code that runs in a child process in which some system calls are refused, as a container's
// profile would.
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "io/check.h"

namespace headrace {

struct Refusal {
  long call = 0;  // SYS_...
  int error = 1;
  int argument = -1;       // >= 0: refused only when this argument...
  std::uint32_t bits = 0;  // ...has all of these bits
};

// For the rest of this process; cannot be undone.
inline void refuse(const Refusal& refusal) {
  const auto number = static_cast<std::uint32_t>(refusal.call);
  const auto answer = SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(refusal.error);
  const auto argument = static_cast<std::uint32_t>(
      offsetof(seccomp_data, args) + 8 * static_cast<std::size_t>(std::max(0, refusal.argument)));
  const std::uint32_t bits = refusal.argument < 0 ? 0 : refusal.bits;
  std::vector<sock_filter> code{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 4),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument),
      BPF_STMT(BPF_ALU | BPF_AND | BPF_K, bits),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, bits, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, answer),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  HEADRACE_CHECK(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  HEADRACE_CHECK(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

// What `body` returns, run in a child with these calls refused. "" when the child did not end well.
inline std::string in_child(const std::vector<Refusal>& refusals,
                            const std::function<std::string()>& body) {
  int ends[2];
  HEADRACE_CHECK(::pipe(ends) == 0);
  const pid_t child = ::fork();
  HEADRACE_CHECK(child >= 0);
  if (child == 0) {
    for (const Refusal& refusal : refusals) refuse(refusal);
    const std::string text = body();
    const bool sent = ::write(ends[1], text.data(), text.size()) == ssize_t(text.size());
    ::_exit(sent ? 0 : 1);
  }
  ::close(ends[1]);
  std::string text;
  char part[512];
  for (ssize_t n = 0; (n = ::read(ends[0], part, sizeof part)) > 0;)
    text.append(part, static_cast<std::size_t>(n));
  ::close(ends[0]);
  int how = 0;
  HEADRACE_CHECK(::waitpid(child, &how, 0) == child);
  return how == 0 ? text : "";
}

}  // namespace headrace
