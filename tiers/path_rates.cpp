#include "tiers/path_rates.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>

#include "tiers/tier.h"

namespace headrace {
namespace {

constexpr std::uint64_t kRequestBytes = 2 * kMiB;
constexpr int kRounds = 4;  // each file is written and read so many times
constexpr double kEqual = 0.1;
constexpr double kParts = 64;

// One path: its file, its memory, and when its transfers were over.
struct Probe {
  Piece file;
  Bytes memory;
  std::shared_ptr<Nanoseconds> end = std::make_shared<Nanoseconds>(0);
};

void fill(Bytes memory, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (std::size_t at = 0; at + sizeof(std::uint64_t) <= memory.size(); at += 512) {
    const std::uint64_t word = random();  // of each sector: enough that no drive stores it for less
    std::copy_n(reinterpret_cast<const std::byte*>(&word), sizeof(word), memory.data() + at);
  }
}

// All of it once: the halves of the memory take turns, so that reads and writes mix.
Event transfer(const Probe& probe, bool first_half_writes, const Event& after) {
  std::vector<Event> ends;
  const std::size_t half = probe.memory.size() / 2;
  for (std::size_t at = 0; at < probe.memory.size(); at += kRequestBytes) {
    const Bytes part = probe.memory.subspan(at, std::min(kRequestBytes, probe.memory.size() - at));
    const bool writes = (at < half) == first_half_writes;
    ends.push_back(writes ? probe.file.queue->write(*probe.file.file, at, part, after)
                          : probe.file.queue->read(*probe.file.file, at, part, after));
  }
  return Event::all(ends);
}

Event measure(Platform& platform, const Probe& probe) {
  Event done;
  for (int round = 0; round < kRounds; ++round) done = transfer(probe, round % 2 == 0, done.over());
  return platform.copy_lane().run({.body =
                                       [end = probe.end, &platform] {
                                         *end = platform.clock().now();
                                         return Status();
                                       },
                                   .name = "measure"},
                                  done);
}

}  // namespace

Result<std::vector<double>> measure_paths(Platform& platform,
                                          std::span<const std::filesystem::path> folders,
                                          const NvmeOptions& options, std::uint64_t bytes,
                                          Nanoseconds deadline) {
  const std::uint64_t each = round_up(bytes, 2 * kRequestBytes);
  std::vector<Stripes> files;  // one of each path
  for (const std::filesystem::path& folder : folders) {
    HEADRACE_ASSIGN(Stripes file,
                    Stripes::open(platform, {&folder, 1}, each,
                                  {.direct = options.direct, .alignment = options.alignment}));
    files.push_back(std::move(file));
  }
  HEADRACE_ASSIGN(const std::unique_ptr<Tier> memory, Tier::dram(platform, each * files.size()));
  const Bytes all = memory->memory().bytes();
  std::vector<Probe> probes;
  for (std::size_t k = 0; k < files.size(); ++k) {
    probes.push_back({files[k].pieces(0, each).front(), all.subspan(k * each, each)});
    fill(probes.back().memory, k);
  }
  const Nanoseconds start = platform.clock().now();
  std::vector<Event> ends;
  for (const Probe& probe : probes) ends.push_back(measure(platform, probe));
  const Event over = Event::all(ends);
  const Status how = platform.wait(over, deadline);
  if (!over.done()) memory->abandon();
  HEADRACE_TRY(how);
  std::vector<double> rates;
  for (const Probe& probe : probes) {
    const std::chrono::duration<double> taken = *probe.end - start;
    rates.push_back(kRounds * static_cast<double>(each) / std::max(taken.count(), 1e-9));
  }
  return rates;
}

std::vector<unsigned> shares_of(std::span<const double> rates) {
  const double sum = std::accumulate(rates.begin(), rates.end(), 0.0);
  const double mean = sum / static_cast<double>(rates.size());
  const auto [least, most] = std::ranges::minmax_element(rates);
  if (*least >= (1 - kEqual) * mean && *most <= (1 + kEqual) * mean)
    return std::vector<unsigned>(rates.size(), 1);
  std::vector<unsigned> shares;
  unsigned common = 0;
  for (const double rate : rates) {
    shares.push_back(std::max(1U, static_cast<unsigned>(std::lround(kParts * rate / sum))));
    common = std::gcd(common, shares.back());
  }
  for (unsigned& share : shares) share /= common;
  return shares;
}

}  // namespace headrace
