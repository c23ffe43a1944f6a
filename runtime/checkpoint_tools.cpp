#include "runtime/checkpoint_tools.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <tbb/global_control.h>
#include <tbb/info.h>
#include <tbb/parallel_pipeline.h>
#include <tbb/task_arena.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>

#include "runtime/checkpoint_format.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;

constexpr int kOpenFlags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
constexpr int kTokensPerThread = 2;  // one is read while one is hashed
constexpr int kMaxThreads = 1024;
constexpr int kSaveRaces = 100;  // saves that may end while the folder is opened

Status failure(Code code, std::string_view action, const fs::path& path, int error) {
  return Status(code, fmt::format("cannot {} {}: {}", action, path.string(), std::strerror(error)));
}

// An open descriptor and its name. Move-only.
class Source {
 public:
  Source(int descriptor, fs::path path) : descriptor_(descriptor), path_(std::move(path)) {}
  Source(Source&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)), path_(std::move(other.path_)) {}
  Source& operator=(Source&&) = delete;
  ~Source() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  int descriptor() const noexcept { return descriptor_; }
  const fs::path& path() const noexcept { return path_; }

  // Of a regular file.
  Result<std::uint64_t> size() const {
    struct stat facts {};
    if (::fstat(descriptor_, &facts) != 0) return failure(Code::io, "look at", path_, errno);
    if (!S_ISREG(facts.st_mode))
      return Status(Code::invalid, fmt::format("{} is not a regular file", path_.string()));
    return static_cast<std::uint64_t>(facts.st_size);
  }

  // All of `to`, from `offset`.
  Status read(std::uint64_t offset, Bytes to) const {
    while (!to.empty()) {
      const ssize_t got = ::pread(descriptor_, to.data(), to.size(), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return failure(Code::io, fmt::format("read offset {} of", offset), path_, errno);
      if (got == 0)
        return Status(Code::corrupt, fmt::format("{} ends at {}", path_.string(), offset));
      offset += static_cast<std::uint64_t>(got);
      to = to.subspan(static_cast<std::size_t>(got));
    }
    return {};
  }

 private:
  int descriptor_;
  fs::path path_;
};

Result<Source> open_folder(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), kOpenFlags | O_DIRECTORY);
  if (descriptor >= 0) return Source(descriptor, folder);
  if (errno == ENOTDIR || errno == ELOOP)
    return Status(Code::invalid, fmt::format("{} is not a folder, or is a link: give the "
                                             "checkpoint's own folder",
                                             folder.string()));
  if (errno == ENOENT)
    return Status(Code::invalid, fmt::format("{} does not exist: give a checkpoint's own folder",
                                             folder.string()));
  return failure(Code::io, "open", folder, errno);
}

// None: there is no such file.
Result<std::optional<Source>> open_in(const Source& folder, std::string_view name) {
  const fs::path path = folder.path() / name;
  const int descriptor = ::openat(folder.descriptor(), std::string(name).c_str(), kOpenFlags);
  if (descriptor >= 0) return std::optional<Source>(Source(descriptor, path));
  if (errno == ENOENT) return std::optional<Source>();
  if (errno == ELOOP)
    return Status(Code::invalid,
                  fmt::format("{} is a link: links are not followed", path.string()));
  return failure(Code::io, "open", path, errno);
}

Result<Manifest> read_manifest(const Source& folder) {
  HEADRACE_ASSIGN(const std::optional<Source> file, open_in(folder, kManifestName));
  if (!file)
    return Status(Code::invalid, fmt::format("{} has no manifest: it is not a checkpoint of "
                                             "headrace",
                                             folder.path().string()));
  HEADRACE_ASSIGN(const std::uint64_t size, file->size());
  if (size > kMaxManifestFileBytes)
    return Status(Code::corrupt,
                  fmt::format("{} has {}, a manifest at most {}", file->path().string(),
                              format_bytes(size), format_bytes(kMaxManifestFileBytes)));
  std::vector<std::byte> bytes(size);
  HEADRACE_TRY(file->read(0, bytes));
  return parse(bytes, file->path().string());
}

// A manifest and the data that it speaks of.
struct Checkpoint {
  Manifest manifest;
  Source data;
};

// No save writes over it meanwhile. False: one does, or has given it to another save already. A
// file system without locks cannot say.
Result<bool> share(const Source& folder, const std::string& name, const Source& data) {
  if (::flock(data.descriptor(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK) return false;
  HEADRACE_ASSIGN(const std::optional<Source> now, open_in(folder, name));
  return now.has_value();
}

Result<Checkpoint> open_checkpoint(const fs::path& path) {
  HEADRACE_ASSIGN(const Source folder, open_folder(path));
  std::uint64_t tried = 0;
  for (int race = 0; race < kSaveRaces; ++race) {
    HEADRACE_ASSIGN(Manifest manifest, read_manifest(folder));
    const std::string name = data_name(manifest.generation);
    HEADRACE_ASSIGN(std::optional<Source> data, open_in(folder, name));
    if (data) {
      HEADRACE_ASSIGN(const bool ours, share(folder, name, *data));
      if (!ours) continue;
      return Checkpoint{std::move(manifest), std::move(*data)};
    }
    if (std::exchange(tried, manifest.generation) == manifest.generation)
      return Status(Code::corrupt, fmt::format("{} is missing, the manifest speaks of it: use "
                                               "another checkpoint, or a copy of this one",
                                               (path / name).string()));
  }
  return Status(Code::unavailable,
                fmt::format("{} is saved to all the time: check a copy", path.string()));
}

Status check_size(const Checkpoint& checkpoint) {
  HEADRACE_ASSIGN(const std::uint64_t size, checkpoint.data.size());
  if (size == checkpoint.manifest.data_bytes) return {};
  return Status(Code::corrupt,
                fmt::format("{} has {} bytes, the manifest says {}: use another "
                            "checkpoint, or a copy of this one",
                            checkpoint.data.path().string(), size, checkpoint.manifest.data_bytes));
}

// A block on its way through the pipeline, with memory that is used again and again.
struct Token {
  std::size_t tensor = 0;
  std::size_t kind = 0;
  std::uint64_t block = 0;
  std::vector<std::byte> memory;
  std::uint64_t found = 0;  // its checksum
  Status how;               // of reading it
};

class Checker {
 public:
  Checker(const Checkpoint& checkpoint, const CheckOptions& options)
      : tensors_(checkpoint.manifest.tensors), data_(checkpoint.data), options_(options) {
    report_.generation = checkpoint.manifest.generation;
    report_.tensors = tensors_.size();
    for (const CheckpointTensor& tensor : tensors_) {
      report_.parameters += tensor.count;
      total_bytes_ += tensor.run_bytes() * tensor.kinds();
    }
  }

  // At most tokens.size() blocks are in the pipeline, and they leave it in order: a token is free
  // when its turn comes again.
  Result<CheckReport> run(int threads) {
    std::vector<Token> tokens(static_cast<std::size_t>(threads * kTokensPerThread));
    const tbb::global_control allow(tbb::global_control::max_allowed_parallelism,
                                    static_cast<std::size_t>(threads));
    tbb::task_arena arena(threads);
    arena.execute([&] { run_pipeline(tokens); });
    if (!failure_.ok()) return failure_;
    return std::move(report_);
  }

 private:
  void run_pipeline(std::vector<Token>& tokens) {
    const auto next = tbb::make_filter<void, Token*>(
        tbb::filter_mode::serial_in_order, [&](tbb::flow_control& flow) {
          Token* token = &tokens[taken_++ % tokens.size()];
          if (!take(*token)) flow.stop();
          return token;
        });
    const auto hash =
        tbb::make_filter<Token*, Token*>(tbb::filter_mode::parallel, [&](Token* token) {
          read(*token);
          return token;
        });
    const auto note = tbb::make_filter<Token*, void>(tbb::filter_mode::serial_in_order,
                                                     [&](Token* token) { judge(*token); });
    tbb::parallel_pipeline(tokens.size(), next & hash & note);
  }

  // The next block in file order. False: there is none, or no reason to go on.
  bool take(Token& token) {
    while (at_.tensor < tensors_.size() && !failed_.load()) {
      const CheckpointTensor& tensor = tensors_[at_.tensor];
      if (at_.block < tensor.blocks() && at_.kind < tensor.kinds()) {
        token.tensor = at_.tensor;
        token.kind = at_.kind;
        token.block = at_.block++;
        return true;
      }
      at_.block = 0;
      if (++at_.kind < tensor.kinds()) continue;
      at_.kind = 0;
      ++at_.tensor;
    }
    return false;
  }

  BadBlock place(const Token& token) const {
    const CheckpointTensor& tensor = tensors_[token.tensor];
    const std::uint64_t begin = token.block * kBlockElements;
    return {tensor.name, static_cast<Kind>(token.kind), begin,
            std::min(begin + kBlockElements, tensor.count),
            tensor.offsets[token.kind] + begin * sizeof(float)};
  }

  void read(Token& token) const {
    const BadBlock block = place(token);
    token.memory.resize((block.end - block.begin) * sizeof(float));
    token.how = data_.read(block.file_offset, token.memory);
    token.found = checksum(token.memory);
  }

  void judge(const Token& token) {
    if (!token.how.ok()) {
      if (failure_.ok()) failure_ = token.how;
      failed_.store(true);
      return;
    }
    ++report_.blocks;
    report_.bytes += token.memory.size();
    if (token.found != tensors_[token.tensor].checksums[token.kind][token.block]) {
      if (report_.bad.size() < options_.listed_blocks) report_.bad.push_back(place(token));
      ++report_.bad_blocks;
    }
    if (options_.progress) options_.progress(report_.bytes, total_bytes_);
  }

  // constant
  const std::vector<CheckpointTensor>& tensors_;
  const Source& data_;
  const CheckOptions& options_;
  std::uint64_t total_bytes_ = 0;
  // touched only by the first filter
  Token at_;  // what comes next
  std::size_t taken_ = 0;
  // touched only by the last filter
  CheckReport report_;
  Status failure_;

  std::atomic<bool> failed_{false};  // the last filter tells the first
};

int threads_of([[maybe_unused]] const CheckOptions& options) {
#ifdef __SANITIZE_THREAD__
  return 1;  // libtbb is not built for ThreadSanitizer, which takes its hand-overs for races
#else
  return options.threads > 0 ? options.threads : std::max(1, tbb::info::default_concurrency());
#endif
}

}  // namespace

Result<CheckReport> check_checkpoint(const fs::path& folder, CheckOptions options) {
  if (options.threads < 0 || options.threads > kMaxThreads)
    return Status(Code::invalid, fmt::format("threads is {}: 0 for every CPU, or up to {}",
                                             options.threads, kMaxThreads));
  const auto start = std::chrono::steady_clock::now();
  HEADRACE_ASSIGN(const Checkpoint checkpoint, open_checkpoint(without_slash(folder)));
  HEADRACE_TRY(check_size(checkpoint));
  HEADRACE_ASSIGN(CheckReport report, Checker(checkpoint, options).run(threads_of(options)));
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace headrace
