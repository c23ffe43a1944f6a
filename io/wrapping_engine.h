// WrappingEngine: what engines share that change what another one does: whatever they do not change
// is passed on, and completions can be held back until a time.
//
// In real time a wait ends when the next held completion is due. In virtual time nothing blocks,
// and due() says when to come back.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "io/io_engine.h"

namespace headrace {

class WrappingEngine : public IoEngine {
 public:
  // A null clock: real time.
  WrappingEngine(std::unique_ptr<IoEngine> inner, Clock* clock)
      : inner_(std::move(inner)), clock_(clock == nullptr ? &own_clock_ : clock) {}

  Status start(int wake_fd) override { return inner_->start(wake_fd); }
  bool stop(Nanoseconds at_most) override { return inner_->stop(at_most); }
  void wait(std::vector<Completion>& completions, Nanoseconds at_most) final;
  Nanoseconds due() const final;
  Status register_memory(Bytes memory) override { return inner_->register_memory(memory); }
  void unregister_memory(Bytes memory) override { inner_->unregister_memory(memory); }

  Result<OpenFile> open_file(const FileSpec& spec) override { return inner_->open_file(spec); }
  void close_file(const OpenFile& file) override { inner_->close_file(file); }
  Status make_folder(const std::filesystem::path& folder) override {
    return inner_->make_folder(folder);
  }
  Status rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    return inner_->rename(from, to);
  }
  Status sync_folder(const std::filesystem::path& folder) override {
    return inner_->sync_folder(folder);
  }
  Status remove(const std::filesystem::path& file_or_empty_folder) override {
    return inner_->remove(file_or_empty_folder);
  }
  Result<Entry> look(const std::filesystem::path& path) override { return inner_->look(path); }
  Result<std::uint64_t> free_bytes(const std::filesystem::path& folder) override {
    return inner_->free_bytes(folder);
  }
  Result<FolderLock> lock_folder(const std::filesystem::path& folder) override {
    return inner_->lock_folder(folder);
  }

 protected:
  IoEngine& inner() const noexcept { return *inner_; }
  Nanoseconds now() const noexcept { return clock_->now(); }
  // Handed out by wait() once it is due.
  void hold(const Completion& completion, Nanoseconds due);

 private:
  // What the inner engine has completed; ends in hold(), or in nothing.
  virtual void completed(const Completion& completion) = 0;

  struct Held {
    Nanoseconds due;
    std::uint64_t order;  // of two that are due at once, the first held goes first
    Completion completion;
    bool operator>(const Held& other) const noexcept {
      return std::pair(due, order) > std::pair(other.due, other.order);
    }
  };
  Nanoseconds next_due() const;
  bool hand_out(std::vector<Completion>& completions);

  Clock own_clock_;
  const std::unique_ptr<IoEngine> inner_;
  Clock* const clock_;
  // touched only by the driver
  std::vector<Held> held_;  // a heap, the first one due in front
  std::uint64_t next_order_ = 0;
  std::vector<Completion> from_inner_;
};

}  // namespace headrace
