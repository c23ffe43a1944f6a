// Loan: a caller's memory, for as long as the caller waits. What works with it does so through the
// loan; once that is over, when the caller's wait has timed out, the memory is not touched any
// more.
//
// A copy is the same loan. From any thread.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "io/status.h"

namespace headrace {

class Loan {
 public:
  // A task's body that does nothing once the loan is over.
  std::function<Status()> body(std::function<Status()> work) const {
    return [state = state_, work = std::move(work)] {
      const std::lock_guard lock(state->mutex);  // also while it works: end() waits for that
      return state->over ? Status(Code::cancelled, "the caller did not wait for it") : work();
    };
  }
  void end() const {
    const std::lock_guard lock(state_->mutex);
    state_->over = true;
  }

 private:
  struct State {
    std::mutex mutex;
    bool over = false;  // guarded by mutex
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace headrace
