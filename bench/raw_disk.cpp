#include "bench/raw_disk.h"

#include <liburing.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "bench/huge_pages.h"
#include "bench/raw_file.h"

namespace headrace::bench {
namespace {

using SteadyClock = std::chrono::steady_clock;

Status check(const RawDiskOptions& options) {
  const std::uint64_t block = options.block_bytes;
  if (block == 0 || block % kSector != 0 || block > kGiB) {
    return {Code::invalid,
            fmt::format("blocks of {} B: take a multiple of 4096 up to 1GiB", block)};
  }
  if (options.file_bytes % block != 0 || options.file_bytes < 2 * block) {
    return {Code::invalid,
            fmt::format("a file of {} B for blocks of {} B: take a multiple, 2 at least",
                        options.file_bytes, block)};
  }
  if (options.in_flight == 0 || options.in_flight > 1024) {
    return {Code::invalid, fmt::format("{} blocks in flight: take 1 to 1024", options.in_flight)};
  }
  return {};
}

// A ring that frees itself; its address does not change.
class Ring {
 public:
  // The kernels' flags, best first.
  Status open(unsigned entries) {
    constexpr unsigned kAlways = IORING_SETUP_SUBMIT_ALL | IORING_SETUP_CLAMP;
    constexpr std::array<unsigned, 4> kLadder{
        kAlways | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
            IORING_SETUP_TASKRUN_FLAG,
        kAlways | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_COOP_TASKRUN, IORING_SETUP_COOP_TASKRUN,
        0};
    int error = 0;
    for (const unsigned flags : kLadder) {
      error = -io_uring_queue_init(entries, &ring_, flags);
      if (error == 0) return open_ = true, Status();
    }
    return {Code::unavailable, fmt::format("io_uring is refused: {}; allow it to measure the disk",
                                           std::generic_category().message(error))};
  }

  Ring() = default;
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  ~Ring() {
    if (!open_) return;
    if (buffers_) io_uring_unregister_buffers(&ring_);
    if (file_) io_uring_unregister_files(&ring_);
    io_uring_queue_exit(&ring_);
  }

  bool register_buffers(const std::vector<iovec>& buffers) {
    return buffers_ = io_uring_register_buffers(&ring_, buffers.data(),
                                                static_cast<unsigned>(buffers.size())) == 0;
  }
  bool register_file(int descriptor) {
    return file_ = io_uring_register_files(&ring_, &descriptor, 1) == 0;
  }
  bool buffers() const { return buffers_; }
  bool file() const { return file_; }
  io_uring* get() { return &ring_; }

 private:
  io_uring ring_{};
  bool open_ = false;
  bool buffers_ = false;
  bool file_ = false;
};

// One buffer, and the block that moves through it.
struct Transfer {
  Bytes buffer;
  std::uint64_t block = 0;
  std::uint64_t done = 0;  // bytes of it that have moved
  bool write = false;
};

}  // namespace

struct RawDisk::Loop {
  // constant after open
  RawDiskOptions options;
  std::uint64_t blocks = 0;
  RawFile file;
  Pages pattern;  // what every block holds but for its marks
  Pages memory;   // the buffers of all transfers
  std::vector<std::string> notes;
  Ring ring;
  // changed by measure
  std::vector<Transfer> transfers;
  std::vector<unsigned> idle;         // of transfers
  std::vector<std::uint64_t> writes;  // of each block
  std::vector<bool> moving;           // each block: in flight, so that no two writes of it race
  std::uint64_t queued = 0;           // blocks of the running measurement
  Status failure;                     // the first of it

  Loop(const RawDiskOptions& chosen, RawFile opened, Pages random, Pages buffers)
      : options(chosen),
        blocks(chosen.file_bytes / chosen.block_bytes),
        file(std::move(opened)),
        pattern(std::move(random)),
        memory(std::move(buffers)),
        writes(blocks, 0),
        moving(blocks, false) {}

  Status start();
  void prepare_buffers();
  void take_notes();
  std::uint64_t next_block(Direction direction) const;
  bool can_queue(Direction direction) const;
  void queue(Direction direction);
  void submit(unsigned index);
  void complete(unsigned index, int result);
  void finish(unsigned index);
  Status run(Direction direction, std::uint64_t count);
  Status compare(std::uint64_t block);
};

void RawDisk::Loop::prepare_buffers() {
  fill_random(pattern.bytes().first(options.block_bytes), options.seed);
  for (unsigned index = 0; index < options.in_flight; ++index) {
    const Bytes buffer = memory.bytes().subspan(index * options.block_bytes, options.block_bytes);
    std::memcpy(buffer.data(), pattern.bytes().data(), buffer.size());
    transfers.push_back({.buffer = buffer});
    idle.push_back(index);
  }
}

void RawDisk::Loop::take_notes() {
  const std::string folder = options.folder.string();
  if (options.direct && !file.direct()) {
    notes.push_back(fmt::format(
        "{} has no direct access: these are rates of the page cache, not of a disk", folder));
  }
  if (!memory.huge()) notes.emplace_back("no huge pages for the raw disk loop: it may be slow");
  if (!ring.buffers()) notes.emplace_back("buffers could not be registered: more CPU per byte");
  if (!ring.file()) notes.emplace_back("the file could not be registered: more CPU per request");
}

Status RawDisk::Loop::start() {
  prepare_buffers();
  HEADRACE_TRY(ring.open(options.in_flight));
  std::vector<iovec> buffers;
  for (const Transfer& transfer : transfers) {
    buffers.push_back({transfer.buffer.data(), transfer.buffer.size()});
  }
  ring.register_buffers(buffers);
  ring.register_file(file.descriptor());
  take_notes();
  return run(Direction::write, blocks);
}

std::uint64_t RawDisk::Loop::next_block(Direction direction) const {
  if (direction != Direction::mixed) return queued % blocks;
  const std::uint64_t half = blocks / 2;
  return queued % 2 * half + queued / 2 % half;
}

bool RawDisk::Loop::can_queue(Direction direction) const {
  return failure.ok() && !idle.empty() && !moving[next_block(direction)];
}

void RawDisk::Loop::queue(Direction direction) {
  const unsigned index = idle.back();
  idle.pop_back();
  Transfer& transfer = transfers[index];
  transfer.block = next_block(direction);
  transfer.done = 0;
  transfer.write =
      direction == Direction::write || (direction == Direction::mixed && queued % 2 == 1);
  if (transfer.write) put_marks(transfer.buffer, {transfer.block, ++writes[transfer.block]});
  moving[transfer.block] = true;
  ++queued;
  submit(index);
}

void RawDisk::Loop::submit(unsigned index) {
  const Transfer& transfer = transfers[index];
  io_uring_sqe* const entry = io_uring_get_sqe(ring.get());
  HEADRACE_CHECK(entry != nullptr);  // as many entries as transfers
  std::byte* const at = transfer.buffer.data() + transfer.done;
  const auto size = static_cast<unsigned>(transfer.buffer.size() - transfer.done);
  const std::uint64_t offset = transfer.block * options.block_bytes + transfer.done;
  const int target = ring.file() ? 0 : file.descriptor();
  const int slot = static_cast<int>(index);
  if (ring.buffers()) {
    transfer.write ? io_uring_prep_write_fixed(entry, target, at, size, offset, slot)
                   : io_uring_prep_read_fixed(entry, target, at, size, offset, slot);
  } else {
    transfer.write ? io_uring_prep_write(entry, target, at, size, offset)
                   : io_uring_prep_read(entry, target, at, size, offset);
  }
  if (ring.file()) entry->flags |= IOSQE_FIXED_FILE;
  entry->user_data = index;
}

void RawDisk::Loop::complete(unsigned index, int result) {
  Transfer& transfer = transfers[index];
  if (result > 0) transfer.done += static_cast<unsigned>(result);
  if (result > 0 && transfer.done < transfer.buffer.size()) return submit(index);
  if (result <= 0 && failure.ok()) {
    failure = {result < 0 ? Code::io : Code::corrupt,
               fmt::format("{} of block {} in {}: {}", transfer.write ? "write" : "read",
                           transfer.block, options.folder.string(),
                           result < 0 ? std::generic_category().message(-result) : "end of file")};
  }
  finish(index);
}

void RawDisk::Loop::finish(unsigned index) {
  const Transfer& transfer = transfers[index];
  idle.push_back(index);
  moving[transfer.block] = false;
  if (transfer.write || !failure.ok()) return;
  const Mark wanted{transfer.block, writes[transfer.block]};
  if (mark_at(transfer.buffer, 0) == wanted &&
      mark_at(transfer.buffer, transfer.buffer.size() / kSector - 1) == wanted) {
    return;
  }
  failure = {Code::corrupt,
             fmt::format("block {} in {} was read back with the bytes of another write",
                         transfer.block, options.folder.string())};
}

// Everything that the kernel was given has come back when this returns, on failure too.
Status RawDisk::Loop::run(Direction direction, std::uint64_t count) {
  queued = 0;
  failure = {};
  while (true) {
    while (queued < count && can_queue(direction)) queue(direction);
    if (idle.size() == transfers.size()) return failure;
    const int submitted = io_uring_submit_and_wait(ring.get(), 1);
    HEADRACE_CHECK(submitted >= 0 || submitted == -EINTR || submitted == -EAGAIN);
    io_uring_cqe* completion = nullptr;
    while (io_uring_peek_cqe(ring.get(), &completion) == 0) {
      const auto index = static_cast<unsigned>(completion->user_data);
      const int result = completion->res;
      io_uring_cqe_seen(ring.get(), completion);
      complete(index, result);
    }
  }
}

Status RawDisk::Loop::compare(std::uint64_t block) {
  const Bytes found = transfers.front().buffer;
  const Bytes wanted = pattern.bytes().first(options.block_bytes);
  put_marks(wanted, {block, writes[block]});
  for (std::size_t done = 0; done < found.size();) {
    const ssize_t moved = pread(file.descriptor(), found.data() + done, found.size() - done,
                                static_cast<off_t>(block * options.block_bytes + done));
    if (moved <= 0) return {Code::io, fmt::format("block {} cannot be read back", block)};
    done += static_cast<std::size_t>(moved);
  }
  if (std::memcmp(found.data(), wanted.data(), found.size()) == 0) return {};
  return {Code::corrupt,
          fmt::format("block {} in {} is not what was written", block, options.folder.string())};
}

RawDisk::RawDisk(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}
RawDisk::RawDisk(RawDisk&&) noexcept = default;
RawDisk& RawDisk::operator=(RawDisk&&) noexcept = default;
RawDisk::~RawDisk() = default;

Result<RawDisk> RawDisk::open(const RawDiskOptions& options) {
  HEADRACE_TRY(check(options));
  HEADRACE_ASSIGN(RawFile file,
                  RawFile::create(options.folder, options.file_bytes, options.direct));
  HEADRACE_ASSIGN(Pages pattern, Pages::allocate(options.block_bytes));
  HEADRACE_ASSIGN(Pages memory, Pages::allocate(options.block_bytes * options.in_flight));
  auto loop =
      std::make_unique<Loop>(options, std::move(file), std::move(pattern), std::move(memory));
  HEADRACE_TRY(loop->start());
  return RawDisk(std::move(loop));
}

Result<RawSample> RawDisk::measure(Direction direction, std::uint64_t bytes) {
  const std::uint64_t block = loop_->options.block_bytes;
  std::uint64_t count = round_up(bytes, block) / block;
  if (direction == Direction::mixed) count = round_up(count, 2);
  const auto start = SteadyClock::now();
  HEADRACE_TRY(loop_->run(direction, count));
  const std::chrono::duration<double> taken = SteadyClock::now() - start;
  RawSample sample{.seconds = taken.count()};
  const std::uint64_t reads = direction == Direction::read    ? count
                              : direction == Direction::mixed ? count / 2
                                                              : 0;
  sample.read_bytes = reads * block;
  sample.written_bytes = (count - reads) * block;
  return sample;
}

Status RawDisk::verify() {
  for (std::uint64_t block = 0; block < loop_->blocks; ++block) {
    HEADRACE_TRY(loop_->compare(block));
  }
  return {};
}

bool RawDisk::direct() const noexcept { return loop_->file.direct(); }

const std::vector<std::string>& RawDisk::notes() const noexcept { return loop_->notes; }

}  // namespace headrace::bench
