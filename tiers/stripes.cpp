#include "tiers/stripes.h"

#include <fmt/format.h>

#include <algorithm>

#include "io/check.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 60;
constexpr unsigned kMostShare = 1024;
constexpr std::uint64_t kMostStripeBytes = std::uint64_t{1} << 40;

Status wrong(const fs::path& folder, std::string_view why) {
  return Status(Code::invalid, fmt::format("tier nvme: {} {}", folder.string(), why));
}

// Of real folders only: a simulated disk has its own.
Status check_folder(const fs::path& folder) {
  std::error_code error;
  const fs::path plain = folder.has_filename() ? folder : folder.parent_path();  // "a/" is "a"
  switch (fs::symlink_status(plain, error).type()) {
    case fs::file_type::directory:
      return {};
    case fs::file_type::not_found:
      return wrong(folder, fmt::format("does not exist: mkdir -p -m 700 {}", folder.string()));
    case fs::file_type::symlink:
      return wrong(folder, "is a link, and links are not followed: name the folder it points to");
    case fs::file_type::none:
      return wrong(folder, fmt::format("cannot be looked at: {}", error.message()));
    default:
      return wrong(folder, "is not a folder: name one on the drive to be used");
  }
}

Status no_space(const fs::path& folder, std::uint64_t capacity, std::uint64_t share,
                std::uint64_t free, std::size_t paths) {
  const std::string part = paths == 1 ? "" : fmt::format(", {} of it", format_bytes(share));
  return Status(Code::out_of_space,
                fmt::format("tier nvme needs {} of scratch{} in {}, {} free there: free space, ask "
                            "for less, or add a path on another drive",
                            format_bytes(capacity), part, folder.string(), format_bytes(free)));
}

Status check_arguments(std::span<const fs::path> paths, std::uint64_t capacity,
                       const NvmeOptions& options) {
  if (paths.empty()) return Status(Code::invalid, "tier nvme needs at least one folder");
  if (capacity > kMostBytes)
    return Status(Code::invalid, fmt::format("tier nvme of {} B: ask for less", capacity));
  const auto bad = [](unsigned share) { return share == 0 || share > kMostShare; };
  if (!options.shares.empty() && options.shares.size() != paths.size())
    return Status(Code::invalid, fmt::format("{} shares for {} folders: give one for each",
                                             options.shares.size(), paths.size()));
  if (const auto at = std::ranges::find_if(options.shares, bad); at != options.shares.end())
    return Status(Code::invalid,
                  fmt::format("a share of {}: give 1 to {}, and leave out a folder that is not to "
                              "be used",
                              *at, kMostShare));
  if (options.stripe_bytes == 0 || options.stripe_bytes > kMostStripeBytes)
    return Status(Code::invalid,
                  fmt::format("stripes of {} B: 2 MiB are usual", options.stripe_bytes));
  return {};
}

std::string not_direct(const fs::path& folder) {
  return fmt::format(
      "tier nvme: {} has no direct I/O: its bytes pass through the page cache, and "
      "rates measured there are not a drive's",
      folder.string());
}

// What the file system of `folder` asks for: told by an empty file.
Result<std::uint32_t> alignment_in(IoQueue& queue, const fs::path& folder,
                                   const NvmeOptions& options) {
  FileSpec spec;
  spec.path = folder;
  spec.direct = options.direct;
  spec.alignment = options.alignment;
  HEADRACE_ASSIGN(const File probe, queue.open_file(spec));
  return probe.info().alignment;
}

Result<File> reserve(IoQueue& queue, const fs::path& folder, std::uint64_t size,
                     const NvmeOptions& options) {
  FileSpec spec;
  spec.path = folder;
  spec.size = size;
  spec.direct = options.direct;
  spec.alignment = options.alignment;
  if (!options.file_name.empty()) {
    spec.path /= options.file_name;
    spec.mode = FileMode::exclusive;
  }
  return queue.open_file(spec);
}

Result<bool> exists(IoQueue& queue, const fs::path& folder, const NvmeOptions& options) {
  if (options.file_name.empty()) return false;
  HEADRACE_ASSIGN(const Entry entry, queue.folders().look(folder / options.file_name));
  return entry != Entry::nothing;
}

}  // namespace

Result<Stripes> Stripes::open(Platform& platform, std::span<const fs::path> folders,
                              std::uint64_t capacity, const NvmeOptions& options) {
  HEADRACE_TRY(check_arguments(folders, capacity, options));
  Stripes stripes;
  for (const fs::path& folder : folders) {
    if (!platform.simulated()) HEADRACE_TRY(check_folder(folder));
    HEADRACE_ASSIGN(IoQueue* const queue, platform.queue_for(folder));
    HEADRACE_ASSIGN(const std::uint32_t alignment, alignment_in(*queue, folder, options));
    stripes.alignment_ = std::max(stripes.alignment_, alignment);
    const std::size_t path = stripes.paths_.size();
    stripes.paths_.push_back({queue, options.shares.empty() ? 1 : options.shares[path]});
  }
  stripes.take_turns();
  stripes.stripe_bytes_ = round_up(options.stripe_bytes, stripes.alignment_);
  stripes.front_bytes_ = options.front_bytes;
  HEADRACE_TRY(stripes.reserve_all(platform, folders, capacity, options));
  return stripes;
}

// Whoever is furthest behind his share comes next; of equals, the first.
void Stripes::take_turns() {
  unsigned all = 0;
  for (const Path& path : paths_) all += path.share;
  std::vector<unsigned> had(paths_.size());
  for (unsigned turn = 1; turn <= all; ++turn) {
    const auto behind = [&](std::size_t k) {
      return std::int64_t{turn} * paths_[k].share - std::int64_t{had[k]} * all;
    };
    std::size_t next = 0;
    for (std::size_t k = 1; k < paths_.size(); ++k)
      if (behind(k) > behind(next)) next = k;
    turns_.push_back({next, had[next]++});
  }
}

// How many of the first `stripes` are the path's.
std::uint64_t Stripes::stripes_of(std::size_t path, std::uint64_t stripes) const {
  const auto rest = static_cast<std::ptrdiff_t>(stripes % turns_.size());
  const auto mine = [path](const Turn& turn) { return turn.path == path; };
  return stripes / turns_.size() * paths_[path].share +
         static_cast<std::uint64_t>(std::count_if(turns_.begin(), turns_.begin() + rest, mine));
}

Status Stripes::reserve_all(Platform& platform, std::span<const fs::path> folders,
                            std::uint64_t capacity, const NvmeOptions& options) {
  const std::uint64_t step = folders.size() == 1 ? alignment_ : stripe_bytes_;
  const std::uint64_t stripes = (capacity + step - 1) / step;
  for (std::size_t k = 0; k < folders.size(); ++k) {
    IoQueue& queue = *paths_[k].queue;
    const std::uint64_t size = front_bytes_ + stripes_of(k, stripes) * step;
    paths_[k].bytes = size;
    HEADRACE_ASSIGN(const std::uint64_t free, queue.folders().free_bytes(folders[k]));
    HEADRACE_ASSIGN(const bool there, exists(queue, folders[k], options));
    if (!there && free < size) return no_space(folders[k], capacity, size, free, folders.size());
    HEADRACE_ASSIGN(paths_[k].file, reserve(queue, folders[k], size, options));
    if (paths_[k].file.info().direct) continue;
    direct_ = false;
    if (options.direct) platform.say(not_direct(folders[k]));
  }
  return {};
}

std::vector<Piece> Stripes::pieces(std::uint64_t offset, std::uint64_t size) const {
  if (size == 0) return {};
  if (paths_.size() == 1)
    return {{paths_[0].queue, &paths_[0].file, front_bytes_ + offset, 0, size}};
  std::vector<Piece> pieces;
  for (std::uint64_t at = 0; at < size; at += pieces.back().size) {
    const std::uint64_t stripe = (offset + at) / stripe_bytes_;
    const std::uint64_t within = (offset + at) % stripe_bytes_;
    const Turn& turn = turns_[stripe % turns_.size()];
    const Path& path = paths_[turn.path];
    const std::uint64_t before = stripe / turns_.size() * path.share + turn.nth;
    pieces.push_back({path.queue, &path.file, front_bytes_ + before * stripe_bytes_ + within, at,
                      std::min(size - at, stripe_bytes_ - within)});
  }
  return pieces;
}

Piece Stripes::front(std::size_t path) const {
  return {paths_[path].queue, &paths_[path].file, 0, 0, front_bytes_};
}

}  // namespace headrace
