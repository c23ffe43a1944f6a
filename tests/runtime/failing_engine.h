// An IoEngine that counts and names every call that changes a drive, and from a chosen one on
// fails: as if the process had been killed there, or the drive had gone.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "io/io_engine.h"

namespace headrace {

// Shared by a test and its engine; a simulated platform's, so one thread.
struct FailureScript {
  std::size_t first = std::numeric_limits<std::size_t>::max();  // the first call to fail
  std::size_t count = std::numeric_limits<std::size_t>::max();  // how many fail
  bool after_the_fact = false;  // the first one to fail is done all the same
  std::vector<std::string> calls;

  enum class Fate { done, failed, done_and_failed };
  Fate next(std::string call) {
    const std::size_t index = calls.size();
    calls.push_back(std::move(call));
    if (index < first || index - first >= count) return Fate::done;
    return after_the_fact && index == first ? Fate::done_and_failed : Fate::failed;
  }
  void reset() { *this = FailureScript(); }
};

class FailingEngine : public IoEngine {
 public:
  FailingEngine(std::unique_ptr<IoEngine> inner, std::shared_ptr<FailureScript> script)
      : inner_(std::move(inner)), script_(std::move(script)) {}

  std::string describe() const override { return "failing " + inner_->describe(); }
  Status start(int wake_fd) override { return inner_->start(wake_fd); }
  bool stop(Nanoseconds at_most) override { return inner_->stop(at_most); }
  bool submit(const Transfer& transfer) override {
    if (transfer.direction == Direction::read) return inner_->submit(transfer);
    const char* verb = transfer.direction == Direction::sync ? "sync" : "write";
    const auto fate = script_->next(fmt::format("{} {}", verb, names_[transfer.handle]));
    if (fate == FailureScript::Fate::done) return inner_->submit(transfer);
    failed_.push_back({transfer.token, -EIO});
    return true;
  }
  void wait(std::vector<Completion>& completions, Nanoseconds at_most) override {
    completions.insert(completions.end(), failed_.begin(), failed_.end());
    inner_->wait(completions, failed_.empty() ? at_most : Nanoseconds(0));
    failed_.clear();
  }
  Nanoseconds due() const override { return failed_.empty() ? inner_->due() : Nanoseconds(0); }

  Result<OpenFile> open_file(const FileSpec& spec) override {
    if (spec.mode == FileMode::read_only || spec.mode == FileMode::shared)
      return inner_->open_file(spec);
    const std::string name = spec.path.filename().string();
    const auto fate =
        script_->next((spec.mode == FileMode::overwrite ? "overwrite " : "create ") + name);
    if (fate == FailureScript::Fate::failed) return failure();
    HEADRACE_ASSIGN(const OpenFile open, inner_->open_file(spec));
    names_[open.handle] = name;
    if (fate == FailureScript::Fate::done) return open;
    inner_->close_file(open);
    return failure();
  }
  void close_file(const OpenFile& file) override { inner_->close_file(file); }
  Status make_folder(const std::filesystem::path& folder) override {
    return judged("make folder", folder, [&] { return inner_->make_folder(folder); });
  }
  Status rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    return judged("rename to", to, [&] { return inner_->rename(from, to); });
  }
  Status sync_folder(const std::filesystem::path& folder) override {
    return judged("sync folder", folder, [&] { return inner_->sync_folder(folder); });
  }
  Status remove(const std::filesystem::path& path) override {
    return judged("remove", path, [&] { return inner_->remove(path); });
  }
  Result<Entry> look(const std::filesystem::path& path) override { return inner_->look(path); }
  Result<std::uint64_t> free_bytes(const std::filesystem::path& folder) override {
    return inner_->free_bytes(folder);
  }
  Result<FolderLock> lock_folder(const std::filesystem::path& folder) override {
    return inner_->lock_folder(folder);
  }

 private:
  static Status failure() { return Status(Code::io, "the drive is gone, says the test"); }
  template <class Call>
  Status judged(const char* verb, const std::filesystem::path& path, Call call) {
    const auto fate = script_->next(fmt::format("{} {}", verb, path.filename().string()));
    if (fate == FailureScript::Fate::failed) return failure();
    const Status how = call();
    return fate == FailureScript::Fate::done ? how : failure();
  }

  const std::unique_ptr<IoEngine> inner_;
  const std::shared_ptr<FailureScript> script_;
  std::map<int, std::string> names_;  // of files, by handle
  std::vector<Completion> failed_;
};

}  // namespace headrace
