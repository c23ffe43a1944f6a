#include "io/io_queue.h"

#include <fmt/format.h>

#include <algorithm>

#include "io/io_driver.h"

namespace headrace {
namespace {

constexpr std::uint64_t kMostOffset = std::uint64_t{1} << 62;  // off_t, with room for sums

Status check_arguments(const IoRequest& request) {
  const OpenFile& file = request.file.info();
  const std::uint64_t alignment = std::max(1U, file.alignment);
  const std::uint64_t end = request.offset + request.size;
  if (end < request.offset || end > kMostOffset)
    return Status(Code::invalid, request.describe() + ": beyond any file's end");
  if (file.fixed_size && end > file.size)
    return Status(Code::invalid, fmt::format("{}: the file has {}", request.describe(), file.size));
  const auto address = reinterpret_cast<std::uintptr_t>(request.data);
  if (request.size > 0 && (request.offset | request.size | address) % alignment != 0)
    return Status(Code::invalid, fmt::format("{}, memory at {:#x}: not all multiples of {}",
                                             request.describe(), address, alignment));
  return {};
}

// Wrong arguments are reported when the memory is free again, too: `after` may still use it.
Event refused(Status why, const Event& after) {
  return Event::all({Event::failed(std::move(why)), after.over()});
}

}  // namespace

IoQueue::IoQueue(std::unique_ptr<Driver> driver) : driver_(std::move(driver)) {}
IoQueue::~IoQueue() = default;

Result<std::unique_ptr<IoQueue>> IoQueue::open(std::unique_ptr<IoEngine> engine,
                                               IoQueueOptions options) {
  auto driver = std::make_unique<Driver>(std::move(engine), std::move(options), false);
  HEADRACE_TRY(driver->start());
  return std::unique_ptr<IoQueue>(new IoQueue(std::move(driver)));
}

Result<std::unique_ptr<IoQueue>> IoQueue::open_manual(std::unique_ptr<IoEngine> engine,
                                                      IoQueueOptions options) {
  HEADRACE_CHECK(options.clock != nullptr);
  auto driver = std::make_unique<Driver>(std::move(engine), std::move(options), true);
  HEADRACE_TRY(driver->start());
  return std::unique_ptr<IoQueue>(new IoQueue(std::move(driver)));
}

Result<File> IoQueue::open_file(const FileSpec& spec) {
  HEADRACE_ASSIGN(OpenFile open, driver_->engine()->open_file(spec));
  open.fixed_size = spec.mode == FileMode::scratch;
  return File(std::move(open),
              [engine = driver_->engine()](const OpenFile& file) { engine->close_file(file); });
}

Event IoQueue::queue(Direction direction, const File& file, std::uint64_t offset, Bytes memory,
                     Event after, IoTag tag) {
  if (!file) return refused(Status(Code::invalid, name() + ": no file"), after);
  IoRequests one = driver_->new_request();
  IoRequest& request = one.front();
  request.direction = direction;
  request.file = file;
  request.offset = offset;
  request.data = memory.data();
  request.size = memory.size();
  request.tag = std::move(tag);
  if (Status why = check_arguments(request); !why.ok()) return refused(std::move(why), after);
  request.after = std::move(after);
  return driver_->queue(std::move(one));
}

Event IoQueue::read(const File& file, std::uint64_t offset, Bytes to, Event after, IoTag tag) {
  return queue(Direction::read, file, offset, to, std::move(after), std::move(tag));
}

Event IoQueue::write(const File& file, std::uint64_t offset, ConstBytes from, Event after,
                     IoTag tag) {
  tag.check = nullptr;
  const Bytes bytes(const_cast<std::byte*>(from.data()), from.size());  // only read
  return queue(Direction::write, file, offset, bytes, std::move(after), std::move(tag));
}

Event IoQueue::sync(const File& file, Event after, IoTag tag) {
  tag.check = nullptr;
  return queue(Direction::sync, file, 0, {}, std::move(after), std::move(tag));
}

Event IoQueue::register_memory(Bytes memory) {
  return driver_->queue_call([memory](IoEngine& engine) { return engine.register_memory(memory); });
}

Event IoQueue::unregister_memory(Bytes memory) {
  return driver_->queue_call([memory](IoEngine& engine) {
    engine.unregister_memory(memory);
    return Status();
  });
}

void IoQueue::cancel(Owner owner) { driver_->cancel(owner); }
IoEngine& IoQueue::folders() noexcept { return *driver_->engine(); }
const std::string& IoQueue::name() const noexcept { return driver_->name(); }
Usage IoQueue::usage() const { return driver_->usage(); }
std::string IoQueue::describe() const { return driver_->describe(); }
bool IoQueue::can_pump() const { return driver_->can_pump(); }
bool IoQueue::pump() { return driver_->pump(); }
Nanoseconds IoQueue::due() const { return driver_->due(); }

}  // namespace headrace
