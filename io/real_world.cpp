#include <sys/stat.h>

#include <fmt/format.h>

#include <cerrno>
#include <system_error>

#include "io/world.h"

namespace headrace {
namespace {

class RealWorld : public World {
 public:
  RealWorld(const PlatformOptions& options, WorldParts parts)
      : backend_(options.io),
        uring_(options.uring),
        wrap_engine_(options.wrap_engine),
        dry_(options.dry),
        parts_(std::move(parts)) {}

  std::unique_ptr<Lane> make_lane(LaneOptions options) override {
    options.dry = dry_;
    std::unique_ptr<Lane> lane = Lane::threaded(complete(std::move(options), parts_));
    parts_.lanes->add(*lane);
    return lane;
  }

  Result<std::uint64_t> drive_of(const std::filesystem::path& folder) override {
    struct stat found = {};
    if (::stat(folder.c_str(), &found) != 0)
      return Status(Code::io, fmt::format("folder {}: {}", folder.string(),
                                          std::system_category().message(errno)));
    if (!S_ISDIR(found.st_mode))
      return Status(Code::invalid, fmt::format("{} is not a folder", folder.string()));
    return std::uint64_t{found.st_dev};
  }

  Result<std::unique_ptr<IoQueue>> open_queue(IoQueueOptions options) override {
    options.dry = dry_;
    if (backend_ == IoBackend::posix) return open_on(posix_engine(), std::move(options));
    Result<std::unique_ptr<IoQueue>> queue = open_uring(options);
    if (queue.ok() || backend_ == IoBackend::uring) return queue;
    parts_.say(
        fmt::format("reading and writing with threads, since io_uring cannot be used here: {}",
                    queue.status().message()));
    return open_on(posix_engine(), std::move(options));
  }

  Status wait(const Event& event, Nanoseconds timeout) override {
    const Nanoseconds deadline = deadline_after(parts_.clock.now(), timeout);
    const auto inbox = std::make_shared<Inbox>();
    std::size_t open = event.notify(inbox, 0);
    for (std::vector<std::uint64_t> ended; open > 0; open -= ended.size()) {
      if (!inbox->wait_until(deadline)) {
        inbox->close();
        return Status(Code::timeout, fmt::format("not over after {:.3f} s",
                                                 std::chrono::duration<double>(timeout).count()));
      }
      inbox->take(ended);
    }
    return {};
  }

 private:
  Result<std::unique_ptr<IoQueue>> open_uring(IoQueueOptions options) {
    HEADRACE_ASSIGN(std::unique_ptr<IoEngine> engine, uring_engine(uring_));
    return open_on(std::move(engine), std::move(options));
  }

  Result<std::unique_ptr<IoQueue>> open_on(std::unique_ptr<IoEngine> engine,
                                           IoQueueOptions options) {
    if (wrap_engine_) engine = wrap_engine_(std::move(engine), parts_.clock);
    return IoQueue::open(std::move(engine), std::move(options));
  }

  const IoBackend backend_;
  const UringOptions uring_;
  const EngineWrapper wrap_engine_;
  const bool dry_;
  const WorldParts parts_;
};

}  // namespace

std::unique_ptr<World> real_world(const PlatformOptions& options, WorldParts parts) {
  return std::make_unique<RealWorld>(options, std::move(parts));
}

}  // namespace headrace
