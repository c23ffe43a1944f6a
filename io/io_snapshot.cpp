#include "io/io_snapshot.h"

#include <fmt/format.h>

#include <chrono>

namespace headrace {

void IoTold::tell(const IoRequest* request) {
  const std::uint64_t other = request == nullptr ? 0 : request->id;
  if (other == id && (id == 0 || request->offset == work.offset)) return;  // a part has the same id
  *this = other == 0 ? IoTold{} : IoTold{other, *request, request->queued_at, request->after};
}

std::string IoSnapshot::describe(const std::string& queue, std::size_t arriving,
                                 Nanoseconds now) const {
  std::string text = fmt::format(
      "queue {} ({}): {} arriving, {} parked, {} started or ready, {} chunks ({}) in "
      "flight",
      queue, engine, arriving, parked, requests, chunks, format_bytes(bytes));
  if (front.id != 0)
    text += fmt::format("; in front, queued {:.3f} s ago: {}",
                        std::chrono::duration<double>(now - front.queued_at).count(),
                        front.work.describe());
  if (parked_front.id != 0)
    text += fmt::format("; parked first: {}, waits for {}", parked_front.work.describe(),
                        parked_front.after.waits_for());
  return text;
}

}  // namespace headrace
