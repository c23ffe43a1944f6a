#include "io/io_request.h"

#include <fmt/format.h>

#include <algorithm>

namespace headrace {

const char* name_of(Direction direction) noexcept {
  if (direction == Direction::sync) return "sync";
  return direction == Direction::read ? "read" : "write";
}

std::string IoWork::describe() const {
  if (direction == Direction::sync) return fmt::format("sync of {}", file.info().name);
  return fmt::format("{} of {} at {}, {} bytes", name_of(direction), file.info().name, offset,
                     size);
}

bool IoRequest::fail(Status why, std::uint64_t at) {
  const bool first = failure.ok();
  if (first || at < failed_at) {
    failure = std::move(why);
    failed_at = at;
  }
  return first;
}

IoRequests new_request(EventSource source) {
  IoRequests one;
  one.emplace_back(std::move(source));
  one.front().self = one.begin();
  return one;
}

IoRequests take(IoRequests& from, IoRequests::iterator at) {
  IoRequests one;
  one.splice(one.end(), from, at);
  return one;
}

IoRequests parts_of(IoRequest& whole) {
  IoRequests parts;
  const std::size_t step = whole.tag.check_bytes;
  if (!whole.tag.check || step == 0 || step >= whole.size) return parts;
  for (std::size_t at = 0; at < whole.size; at += step) {
    IoRequests one = new_request(whole.source);
    IoRequest& part = one.front();
    part.direction = whole.direction;
    part.file = whole.file;
    part.offset = whole.offset + at;
    part.size = std::min(step, whole.size - at);
    part.whole = &whole;
    part.id = whole.id;
    part.data = whole.data + at;
    part.tag = {.io_class = whole.tag.io_class,
                .owner = whole.tag.owner,
                .name = whole.tag.name,
                .check = {},  // it is the whole's
                .redo = whole.tag.redo};
    part.queued_at = whole.queued_at;
    parts.splice(parts.end(), one);
  }
  whole.open = parts.size();
  return parts;
}

}  // namespace headrace
