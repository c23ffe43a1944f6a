#include "io/io_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace headrace {
namespace {

constexpr unsigned kMostRefusals = 1000;  // without progress in between
constexpr unsigned kMostWithoutProgress = 2;

// Nothing was done, and it may be next time. Nobody here cancels what is in flight: ECANCELED is
// what io_uring says of a sync when a signal meets the start of the kernel's worker for it.
bool passes(int error) { return error == EINTR || error == EAGAIN || error == ECANCELED; }

std::string error_text(int error) {
  return fmt::format("{} (errno {})", std::system_category().message(error), error);
}

Code code_of(int error) {
  return error == ENOSPC || error == EDQUOT ? Code::out_of_space : Code::io;
}

std::uint32_t alignment_of(const File& file) { return std::max(1U, file.info().alignment); }

}  // namespace

IoSchedule::IoSchedule(const IoQueueOptions& limits)
    : chunk_bytes_(std::clamp<std::size_t>(limits.chunk_bytes, 1, kGiB)),
      most_bytes_(limits.in_flight_bytes),
      most_chunks_(limits.in_flight_chunks) {}

void IoSchedule::add(IoRequests one) {
  IoRequest& added = one.front();
  requests_.splice(requests_.end(), one);
  added.cut = 0;
  added.all_cut = added.size == 0 && added.direction != Direction::sync;
  if (!added.all_cut && added.failure.ok())
    classes_[static_cast<std::size_t>(added.io_class())].push_back(&added);
  end_if_over(added);
}

const Transfer* IoSchedule::next(Nanoseconds now) {
  if (to_send_.empty()) {
    while (cut_next(now)) {
    }
  }
  return to_send_.empty() ? nullptr : &chunks_[to_send_.front()].transfer;
}

void IoSchedule::sent() { to_send_.pop_front(); }

bool IoSchedule::fits(std::size_t bytes) const {
  if (chunks_in_flight_ == 0) return true;  // the only one may be larger than the limit
  return chunks_in_flight_ < most_chunks_ && bytes <= most_bytes_ &&
         bytes_in_flight_ <= most_bytes_ - bytes;
}

// Even: 5 MiB in chunks of at most 2 MiB are three of 1.67 MiB, not two and a rest.
std::size_t IoSchedule::chunk_size(const IoRequest& request) const {
  if (request.size == 0) return 0;
  const std::size_t count = (request.size + chunk_bytes_ - 1) / chunk_bytes_;
  const std::size_t even = (request.size + count - 1) / count;
  return std::min(round_up(even, alignment_of(request.file)), request.size - request.cut);
}

// False: nothing is left to cut, or what comes next does not fit and is waited for: a smaller chunk
// of another class must not overtake it.
bool IoSchedule::cut_next(Nanoseconds now) {
  for (std::size_t step = 0; step < kIoClasses; ++step) {
    const std::size_t mine = (turn_ + step) % kIoClasses;
    if (classes_[mine].empty()) continue;
    IoRequest& request = *classes_[mine].front();
    const std::size_t bytes = chunk_size(request);
    if (!fits(bytes)) return false;
    if (!request.started_at) request.started_at = now;
    cut(request, bytes);
    if (request.all_cut) classes_[mine].pop_front();
    turn_ = (mine + 1) % kIoClasses;
    return true;
  }
  return false;
}

void IoSchedule::cut(IoRequest& request, std::size_t bytes) {
  if (free_.empty()) {
    free_.push_back(chunks_.size());
    chunks_.emplace_back();
  }
  const std::uint64_t slot = free_.back();
  free_.pop_back();
  std::byte* const data = request.data == nullptr ? nullptr : request.data + request.cut;
  chunks_[slot] = {&request,
                   {slot, request.direction, request.file.info().handle,
                    request.offset + request.cut, data, bytes}};
  // By turns they are cut, and each class goes together: of neighbours that come one after the
  // other a kernel makes one request for the drive.
  const auto class_of = [this](std::uint64_t at) { return chunks_[at].request->io_class(); };
  to_send_.insert(std::ranges::upper_bound(to_send_, request.io_class(), {}, class_of), slot);
  request.cut += bytes;
  request.all_cut = request.cut == request.size;
  ++request.in_flight;
  ++chunks_in_flight_;
  bytes_in_flight_ += bytes;
}

void IoSchedule::complete(const Completion& completion) {
  const std::uint64_t slot = completion.token;
  HEADRACE_CHECK(slot < chunks_.size() && chunks_[slot].request != nullptr);
  const Chunk& chunk = chunks_[slot];
  if (completion.result < 0) return refuse(slot, static_cast<int>(-completion.result));
  if (chunk.transfer.direction == Direction::sync) return release(slot);
  const auto moved = static_cast<std::size_t>(completion.result);
  HEADRACE_CHECK(moved <= chunk.transfer.size);
  if (moved < chunk.transfer.size) return shorten(slot, moved);
  chunk.request->moved += moved;
  release(slot);
}

void IoSchedule::refuse(std::uint64_t slot, int error) {
  Chunk& chunk = chunks_[slot];
  if (passes(error)) {
    if (!chunk.request->failure.ok()) return release(slot);
    if (++chunk.refused < kMostRefusals) return to_send_.push_back(slot);
  }
  const Transfer& transfer = chunk.transfer;
  fail(slot, Status(code_of(error),
                    fmt::format("{} of {} at {}, {} bytes: {}", name_of(transfer.direction),
                                chunk.request->file.info().name, transfer.offset, transfer.size,
                                error_text(error))));
}

void IoSchedule::shorten(std::uint64_t slot, std::size_t moved) {
  Chunk& chunk = chunks_[slot];
  Transfer& transfer = chunk.transfer;
  const std::string& name = chunk.request->file.info().name;
  const std::size_t advance = round_down(moved, alignment_of(chunk.request->file));
  chunk.without_progress = advance == 0 ? chunk.without_progress + 1 : 0;
  chunk.refused = 0;
  // A part of a block, and again: only the end of a file does that.
  const bool no_more = moved == 0 || chunk.without_progress == kMostWithoutProgress;
  if (no_more && transfer.direction == Direction::read)
    return fail(slot, Status(Code::corrupt,
                             fmt::format("{} ends at {}, {} bytes before what was to be read: it "
                                         "was truncated, or is not the file that was written",
                                         name, transfer.offset + moved, transfer.size - moved)));
  if (chunk.without_progress == kMostWithoutProgress)
    return fail(slot, Status(Code::io, fmt::format("{} of {} at {}, {} bytes: {} moved, twice",
                                                   name_of(transfer.direction), name,
                                                   transfer.offset, transfer.size, moved)));
  chunk.request->moved += advance;
  bytes_in_flight_ -= advance;
  transfer.offset += advance;
  transfer.data += advance;
  transfer.size -= advance;
  if (chunk.request->failure.ok())
    to_send_.push_back(slot);
  else
    release(slot);
}

void IoSchedule::fail(std::uint64_t slot, Status why) {
  const Chunk& chunk = chunks_[slot];
  IoRequest& request = *chunk.request;
  if (request.fail(std::move(why), chunk.transfer.offset)) stop(request);
  release(slot);
}

// Nothing more of it is sent. Does not end it. False: all of it was sent already.
bool IoSchedule::stop(IoRequest& request) {
  const auto uncut = std::erase(classes_[static_cast<std::size_t>(request.io_class())], &request);
  const auto unsent = std::erase_if(to_send_, [&](std::uint64_t slot) {
    if (chunks_[slot].request != &request) return false;
    bytes_in_flight_ -= chunks_[slot].transfer.size;
    --chunks_in_flight_;
    --request.in_flight;
    chunks_[slot].request = nullptr;
    free_.push_back(slot);
    return true;
  });
  return uncut + unsent > 0;
}

void IoSchedule::release(std::uint64_t slot) {
  IoRequest& request = *chunks_[slot].request;
  bytes_in_flight_ -= chunks_[slot].transfer.size;
  --chunks_in_flight_;
  --request.in_flight;
  chunks_[slot].request = nullptr;
  free_.push_back(slot);
  end_if_over(request);
}

void IoSchedule::end_if_over(IoRequest& request) {
  if (request.in_flight > 0 || (request.failure.ok() && !request.all_cut)) return;
  ended_.splice(ended_.end(), requests_, request.self);
}

void IoSchedule::drop(std::optional<Owner> owner, const Status& why) {
  for (auto at = requests_.begin(); at != requests_.end();) {
    IoRequest& request = *at++;  // it may end, and go
    if ((owner && request.tag.owner != *owner) || !request.failure.ok()) continue;
    if (!stop(request)) continue;
    request.failure = why;
    end_if_over(request);
  }
}

IoRequests IoSchedule::take_ended() { return take(ended_, ended_.begin()); }

IoRequests IoSchedule::abandon() { return std::exchange(requests_, {}); }

const IoRequest* IoSchedule::front() const {
  const auto in_flight = std::ranges::find_if(
      requests_, [](const IoRequest& request) { return request.in_flight > 0; });
  if (in_flight != requests_.end()) return &*in_flight;
  return requests_.empty() ? nullptr : &requests_.front();
}

}  // namespace headrace
