#include "examples/train_gpt/interrupt.h"

#include <csignal>

#include <atomic>

namespace train_gpt {
namespace {

// A signal handler can reach nothing but what is static.
std::atomic<bool> seen = false;
static_assert(std::atomic<bool>::is_always_lock_free);

void note(int) { seen = true; }

}  // namespace

void catch_interrupts() {
  struct sigaction action = {};
  action.sa_handler = note;
  action.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
}

bool interrupted() { return seen; }

}  // namespace train_gpt
