#include "tiers/mover.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace headrace {
namespace {

// Over when `after` is, as that may use the memory until then.
Event refused(const Event& after, std::string message) {
  return Event::all({Event::failed(Status(Code::invalid, std::move(message))), after.over()});
}

bool has_path(TierKind from, TierKind to) {
  if (from == TierKind::nvme) return to == TierKind::dram;
  return to != TierKind::nvme || from == TierKind::dram;
}

// Of what is read to be checked, so much is looked at while the rest is still under way. A multiple
// of what a check looks at as one.
constexpr std::uint64_t kCheckedBytes = 2 * kMiB;

std::size_t index(TierKind kind) { return static_cast<std::size_t>(kind); }

IoTag io_tag(Owner owner, const MoveTag& tag) {
  IoTag io;
  io.io_class = tag.io_class;
  io.owner = owner;
  io.name = tag.name;
  io.redo = tag.redo;
  return io;
}

}  // namespace

Mover::Mover(Platform& platform, Owner owner, const std::string& name)
    : platform_(platform),
      owner_(owner),
      up_(platform.device().open_stream(name + " up")),
      down_(platform.device().open_stream(name + " down")) {}

Event Mover::move(const Region& from, const Region& to, Event after, MoveTag tag) {
  if (from.size() != to.size())
    return refused(
        after, fmt::format("a move of {} B to {} B: sizes must be equal", from.size(), to.size()));
  if (from.size() == 0 || from == to) return after;
  const TierKind source = from.tier().kind();
  const TierKind target = to.tier().kind();
  if (!has_path(source, target))
    return refused(after, fmt::format("there is no direct path from {} to {}: move over dram",
                                      name_of(source), name_of(target)));
  bytes_[index(source)][index(target)] += from.size();
  if (source == TierKind::nvme) return read(from, to.view(), after, tag);
  if (target == TierKind::nvme) return write(from.view(), to, after, tag);
  return copy(from.view(), to.view(), std::move(after), tag);
}

Event Mover::read(const Region& from, MemView to, const Event& after, const MoveTag& tag) {
  std::vector<Event> ends;
  for (const Piece& piece : from.tier().stripes().pieces(from.offset(), from.size())) {
    remember(*piece.queue);
    IoTag io = io_tag(owner_, tag);
    io.check_bytes = kCheckedBytes;
    if (tag.check)
      io.check = [check = tag.check, begin = piece.at](std::uint64_t at, ConstBytes bytes) {
        return check(begin + at, bytes);
      };
    ends.push_back(piece.queue->read(*piece.file, piece.file_offset,
                                     to.sub(piece.at, piece.size).bytes(), after, std::move(io)));
  }
  return Event::all(ends);
}

Event Mover::write(MemView from, const Region& to, const Event& after, const MoveTag& tag) {
  std::vector<Event> ends;
  for (const Piece& piece : to.tier().stripes().pieces(to.offset(), to.size())) {
    remember(*piece.queue);
    ends.push_back(piece.queue->write(*piece.file, piece.file_offset,
                                      from.sub(piece.at, piece.size).bytes(), after,
                                      io_tag(owner_, tag)));
  }
  return Event::all(ends);
}

Event Mover::copy(MemView from, MemView to, Event after, const MoveTag& tag) {
  if (to.home == Home::device) return up_->copy(to, from, std::move(after));
  if (from.home == Home::device) return down_->copy(to, from, std::move(after));
  return platform_.copy_lane().run({.body =
                                        [from, to] {
                                          std::memmove(to.data, from.data, to.size);
                                          return Status();
                                        },
                                    .bytes = to.size,
                                    .name = tag.name != nullptr ? tag.name : "move",
                                    .owner = owner_},
                                   std::move(after));
}

void Mover::remember(IoQueue& queue) {
  const std::lock_guard lock(mutex_);
  queues_.insert(&queue);
}

void Mover::cancel() {
  up_->cancel();
  down_->cancel();
  static_cast<void>(platform_.copy_lane().cancel(owner_));
  const std::lock_guard lock(mutex_);
  for (IoQueue* const queue : queues_) queue->cancel(owner_);
}

std::uint64_t Mover::bytes(TierKind from, TierKind to) const noexcept {
  return bytes_[index(from)][index(to)].load();
}

std::vector<Usage> Mover::usage() const { return {up_->usage(), down_->usage()}; }

}  // namespace headrace
