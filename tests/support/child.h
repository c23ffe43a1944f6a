// A child process that runs some code and tells its parent; started while the parent is still free
// of threads, or to see what a fork of a running library does.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "io/check.h"

namespace headrace {

class Child {
 public:
  // `tell` sends a line to the parent; what `body` returns is the last one. A child that hangs is
  // killed by its alarm after so many seconds; 0: it has none.
  using Tell = std::function<void(const std::string&)>;
  explicit Child(const std::function<std::string(const Tell&)>& body, unsigned seconds = 100) {
    int ends[2];
    HEADRACE_CHECK(::pipe(ends) == 0);
    pid_ = ::fork();
    HEADRACE_CHECK(pid_ >= 0);
    if (pid_ == 0) {
      ::alarm(seconds);
      const Tell tell = [to = ends[1]](const std::string& text) {
        const std::string line = text + "\n";
        if (::write(to, line.data(), line.size()) != static_cast<ssize_t>(line.size())) ::_exit(2);
      };
      tell(body(tell));
      ::_exit(0);
    }
    ::close(ends[1]);
    from_ = ends[0];
  }
  ~Child() {
    if (pid_ > 0) kill();
    ::close(from_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  // The next line; "" when there is none any more. Lines hold no line breaks.
  std::string line() {
    std::string text;
    for (char next = 0; ::read(from_, &next, 1) == 1 && next != '\n';) text += next;
    return text;
  }
  // All that is left; "" when the child did not end well.
  std::string rest() {
    std::string text;
    char part[512];
    for (ssize_t n = 0; (n = ::read(from_, part, sizeof part)) > 0;)
      text.append(part, static_cast<std::size_t>(n));
    return end() == 0 ? text : "";
  }
  void kill() {
    ::kill(pid_, SIGKILL);
    static_cast<void>(end());
  }

 private:
  int end() {
    int how = 0;
    HEADRACE_CHECK(::waitpid(pid_, &how, 0) == pid_);
    pid_ = 0;
    return how;
  }

  pid_t pid_ = 0;
  int from_ = -1;
};

}  // namespace headrace
