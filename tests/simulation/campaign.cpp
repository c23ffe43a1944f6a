#include "tests/simulation/campaign.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <type_traits>

#include "tests/simulation/shrink.h"
#include "tests/support/child.h"

namespace headrace::simulation {
namespace {

constexpr std::size_t kShrinkRuns = 400;
constexpr std::uint64_t kSeedsOfAChild = 1'000, kProgressEvery = 10'000;

// Ends the process, naming the seed, when one seed takes longer than any may in real time: a hang
// is a failure like any other.
class Watch {
 public:
  Watch() : thread_([this] { watch(); }) {}
  ~Watch() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  void begin(std::uint64_t seed) { seed_ = seed; }

 private:
  void watch() {
    std::unique_lock lock(mutex_);
    for (std::uint64_t last = ~seed_.load();;) {
      changed_.wait_for(lock, std::chrono::seconds(120), [this] { return over_; });
      if (over_) return;
      if (last == seed_) {
        std::fprintf(stderr, "seed %llu hangs: simulation_test --seed %llu\n",
                     static_cast<unsigned long long>(last), static_cast<unsigned long long>(last));
        std::abort();
      }
      last = seed_;
    }
  }

  std::atomic<std::uint64_t> seed_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;  // guarded by mutex_
  std::thread thread_;
};

std::atomic<std::uint64_t> current_seed{0};  // for the handler

// A broken contract, or memory that is not there, ends the process: the seed is told first.
void tell_seed(int signal) {
  std::array<char, 80> text{};
  const int size = std::snprintf(
      text.data(), text.size(), "seed %llu ends the process: simulation_test --seed %llu\n",
      static_cast<unsigned long long>(current_seed), static_cast<unsigned long long>(current_seed));
  static_cast<void>(!write(STDERR_FILENO, text.data(), static_cast<std::size_t>(size)));
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

// Counts as they lie, then the failure's text, if any.
std::string sent(const Campaign& campaign) {
  static_assert(std::is_trivially_copyable_v<Counts>);
  return std::string(reinterpret_cast<const char*>(&campaign.counts), sizeof(Counts)) +
         campaign.failure.value_or("");
}

Campaign run_in_child(std::uint64_t first, std::uint64_t count) {
  std::fflush(stdout);
  Child child(
      [&](const Child::Tell&) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        return sent(run_seeds(first, count));
      },
      0);  // a seed that hangs is named by the watch
  const std::string text = child.rest();
  if (text.size() <= sizeof(Counts))
    return {{},
            fmt::format("the child with seeds {} to {} did not end well: simulation_test "
                        "--from {} --seeds {}\n",
                        first, first + count - 1, first, count)};
  Campaign campaign;
  std::memcpy(&campaign.counts, text.data(), sizeof(Counts));
  std::string failure = text.substr(sizeof(Counts), text.size() - sizeof(Counts) - 1);  // its line
  if (!failure.empty()) campaign.failure = std::move(failure);
  return campaign;
}

std::string listed(const Program& program, std::size_t failed_at) {
  std::string text;
  for (std::size_t i = 0; i < program.size(); ++i)
    text += fmt::format("{} {:3}  {}\n", i == failed_at ? ">" : " ", i, to_string(program[i]));
  return text;
}

std::string report(const Machine& machine, const Program& program, const Outcome& outcome) {
  const std::vector<std::size_t> left = shrink(machine, program, kShrinkRuns);
  const Program small = chosen(program, left);
  const Outcome again = run(machine, small);
  std::string numbers;
  for (const std::size_t number : left)
    numbers += fmt::format("{}{}", numbers.empty() ? "" : ",", number);
  return fmt::format(
      "seed {}: at operation {}: {}\n{}{}\nas small as it gets: at operation {}: {}\n{}\nrun it "
      "again: build/release/tests/simulation_test --seed {} --keep {}\n",
      machine.seed, outcome.at, *outcome.violation, to_string(machine), listed(program, outcome.at),
      again.at, again.violation.value_or("it no longer fails"), listed(small, again.at),
      machine.seed, numbers.empty() ? "none" : numbers);
}

}  // namespace

Campaign run_seeds(std::uint64_t first, std::uint64_t count) {
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS}) std::signal(signal, tell_seed);
  Watch watch;
  Campaign campaign;
  for (std::uint64_t seed = first; seed - first < count; ++seed) {
    watch.begin(seed);
    current_seed = seed;
    const Machine machine = random_machine(seed);
    const Program program = random_program(machine);
    const Outcome outcome = run(machine, program);
    campaign.counts += outcome.counts;
    if (!outcome.violation) continue;
    campaign.failure = report(machine, program, outcome);
    break;
  }
  return campaign;
}

Campaign run_seeds_in_children(std::uint64_t first, std::uint64_t count) {
  Campaign campaign;
  for (std::uint64_t done = 0; done < count && !campaign.failure;) {
    const std::uint64_t now = std::min(kSeedsOfAChild, count - done);
    Campaign child = run_in_child(first + done, now);
    done += now;
    campaign.counts += child.counts;
    campaign.failure = std::move(child.failure);
    if (done % kProgressEvery == 0) std::puts(to_string(campaign.counts).c_str());
  }
  return campaign;
}

Campaign run_seed(std::uint64_t seed, const std::vector<std::size_t>& numbers) {
  const Machine machine = random_machine(seed);
  Program program = random_program(machine);
  if (!numbers.empty()) program = chosen(program, numbers);
  const Outcome outcome = run(machine, program);
  Campaign campaign{outcome.counts, std::nullopt};
  if (outcome.violation)
    campaign.failure = fmt::format("at operation {}: {}\n", outcome.at, *outcome.violation) +
                       to_string(machine) + listed(program, outcome.at);
  return campaign;
}

std::string describe(std::uint64_t seed) {
  const Machine machine = random_machine(seed);
  const Program program = random_program(machine);
  return to_string(machine) + listed(program, program.size());
}

}  // namespace headrace::simulation
