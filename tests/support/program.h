// A program that a test starts, reads the lines of, and may kill.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "io/check.h"

namespace headrace {

class Program {
 public:
  enum class Output { read, dropped };

  // `words`: its path, then its arguments. Its standard output is read here, errors are the test's;
  // dropped, neither is seen.
  explicit Program(std::vector<std::string> words, Output output = Output::read) {
    int ends[2];
    HEADRACE_CHECK(::pipe2(ends, O_CLOEXEC) == 0);
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    pid_ = ::fork();
    HEADRACE_CHECK(pid_ >= 0);
    if (pid_ == 0) {
      const int nowhere = ::open("/dev/null", O_RDWR | O_CLOEXEC);
      ::dup2(output == Output::read ? ends[1] : nowhere, STDOUT_FILENO);
      if (output == Output::dropped) ::dup2(nowhere, STDERR_FILENO);
      ::execv(arguments[0], arguments.data());
      ::_exit(127);
    }
    ::close(ends[1]);
    from_ = ends[0];
  }
  ~Program() {
    if (pid_ > 0) {
      kill();
      static_cast<void>(wait());
    }
    ::close(from_);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pid_t pid() const noexcept { return pid_; }
  // The next line, blocking; "" when there is none any more.
  std::string line() const {
    std::string text;
    for (char next = 0; ::read(from_, &next, 1) == 1 && next != '\n';) text += next;
    return text;
  }
  void kill() const { ::kill(pid_, SIGKILL); }
  // The exit code, or minus the signal that ended it.
  int wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
  int from_ = -1;
};

}  // namespace headrace
