// What the contract suites run over: the engines, and ways to drive one by hand.
#pragma once

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "io/faults.h"
#include "io/io_engine.h"

namespace headrace {

// Aligned for direct transfers.
class AlignedBytes {
 public:
  explicit AlignedBytes(std::size_t size)
      : size_(size), data_(static_cast<std::byte*>(::operator new(size, kAlignment))) {
    std::memset(data_, 0, size);
  }
  AlignedBytes(const AlignedBytes&) = delete;
  AlignedBytes& operator=(const AlignedBytes&) = delete;
  ~AlignedBytes() { ::operator delete(data_, kAlignment); }

  Bytes span() const noexcept { return {data_, size_}; }
  std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }

  void fill(std::uint64_t seed) const {
    std::mt19937_64 random(seed);
    for (std::size_t at = 0; at < size_; at += 8) {
      const std::uint64_t value = random();
      std::memcpy(data_ + at, &value, std::min<std::size_t>(8, size_ - at));
    }
  }

 private:
  static constexpr std::align_val_t kAlignment{4096};
  std::size_t size_;
  std::byte* data_;
};

inline bool same(ConstBytes a, ConstBytes b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size()) == 0;
}

struct EngineKind {
  std::string name;
  std::function<Result<std::unique_ptr<IoEngine>>()> make;
};

inline std::vector<EngineKind> engine_kinds() {
  return {
      {"uring", [] { return uring_engine(); }},
      {"uring_plain", [] { return uring_engine({.entries = 8, .register_buffers = false}); }},
      {"posix", [] { return Result(posix_engine()); }},
      {"posix_one_thread", [] { return Result(posix_engine({.threads = 1})); }},
      {"faulty_uring",
       []() -> Result<std::unique_ptr<IoEngine>> {
         HEADRACE_ASSIGN(auto inner, uring_engine());
         return faulty_engine(std::move(inner), std::make_shared<FaultScript>());
       }},
      {"rate_limited_posix",
       [] {
         return Result(rate_limited_engine(posix_engine(), {.read_bytes_per_second = 4'000'000'000,
                                                            .write_bytes_per_second = 0}));
       }},
  };
}

// An engine that the test itself drives.
class DrivenEngine {
 public:
  explicit DrivenEngine(std::unique_ptr<IoEngine> engine)
      : engine_(std::move(engine)), wake_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    started_ = engine_->start(wake_fd_);
  }
  ~DrivenEngine() {
    EXPECT_TRUE(engine_->stop(kForever));
    ::close(wake_fd_);
  }
  DrivenEngine(const DrivenEngine&) = delete;
  DrivenEngine& operator=(const DrivenEngine&) = delete;

  IoEngine* operator->() const { return engine_.get(); }
  const Status& started() const { return started_; }
  int wake_fd() const { return wake_fd_; }

  // Submits all, and gives the results in the order of `transfers`.
  std::vector<std::int64_t> run(std::vector<Transfer> transfers) {
    std::vector<std::int64_t> results(transfers.size());
    std::vector<Completion> completions;
    std::size_t sent = 0;
    for (std::size_t ended = 0; ended < transfers.size();) {
      while (sent < transfers.size()) {
        transfers[sent].token = sent;
        if (!engine_->submit(transfers[sent])) break;
        ++sent;
      }
      completions.clear();
      engine_->wait(completions, kForever);
      for (const Completion& completion : completions) {
        results.at(completion.token) = completion.result;
        ++ended;
      }
    }
    return results;
  }
  std::int64_t run_one(const Transfer& transfer) { return run({transfer}).front(); }

 private:
  std::unique_ptr<IoEngine> engine_;
  int wake_fd_;
  Status started_;
};

}  // namespace headrace
