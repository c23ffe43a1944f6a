#include "runtime/checkpoint_folder.h"

#include <fmt/format.h>

#include <mutex>
#include <utility>

namespace headrace {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kNewManifestName = "manifest.new";
constexpr Nanoseconds kSyncPerByte{10};  // a slow drive writes 100 MB/s
constexpr int kSaveRaces = 100;          // saves that may end while the folder is opened

// Files and folders by way of one queue.
struct Access {
  Platform& platform;
  IoQueue& queue;
  CheckpointOptions options;

  IoEngine& engine() const { return queue.folders(); }
  IoTag tag(const char* name) const { return {.owner = options.owner, .name = name, .check = {}}; }
  Status wait(const Event& event) const { return platform.wait(event, options.deadline); }

  Status sync(const File& file, std::uint64_t bytes) const {
    const auto longer = kSyncPerByte * static_cast<std::int64_t>(bytes);
    const Nanoseconds timeout =
        longer < kForever - options.deadline ? options.deadline + longer : kForever;
    return platform.wait(queue.sync(file, {}, tag("sync checkpoint")), timeout);
  }

  Status remove_if_there(const fs::path& path) const {
    HEADRACE_ASSIGN(const Entry entry, engine().look(path));
    return entry == Entry::nothing ? Status() : engine().remove(path);
  }
};

using FileBytes = std::unique_ptr<std::vector<std::byte>>;

// What a request may still use is kept until the process ends.
void keep(FileBytes bytes) {
  static std::mutex mutex;
  static auto* const kept = new std::vector<FileBytes>;
  const std::lock_guard lock(mutex);
  kept->push_back(std::move(bytes));
}

// The bytes of a file on their way. Past a deadline they stay with the request.
class Buffer {
 public:
  explicit Buffer(std::vector<std::byte> bytes)
      : bytes_(std::make_unique<std::vector<std::byte>>(std::move(bytes))) {}
  std::vector<std::byte>& bytes() const { return *bytes_; }
  Status wait(const Access& access, const Event& event) {
    const Status how = access.wait(event);
    if (!event.done()) keep(std::move(bytes_));
    return how;
  }

 private:
  FileBytes bytes_;
};

Status write_file(const Access& access, const fs::path& path, std::vector<std::byte> bytes) {
  const std::uint64_t size = bytes.size();
  FileSpec spec{.path = path, .mode = FileMode::create, .size = size, .direct = false};
  HEADRACE_ASSIGN(const File file, access.queue.open_file(spec));
  Buffer buffer(std::move(bytes));
  HEADRACE_TRY(buffer.wait(
      access, access.queue.write(file, 0, buffer.bytes(), {}, access.tag("write manifest"))));
  return access.sync(file, size);
}

Result<File> open_to_read(const Access& access, const fs::path& path) {
  return access.queue.open_file({.path = path, .mode = FileMode::read_only, .direct = false});
}

Result<Manifest> read_manifest(const Access& access, const fs::path& path) {
  HEADRACE_ASSIGN(const File file, open_to_read(access, path));
  const std::uint64_t size = file.info().size;
  if (size > kMaxManifestFileBytes)
    return Status(Code::corrupt,
                  fmt::format("{} has {}, a manifest at most {}", path.string(), format_bytes(size),
                              format_bytes(kMaxManifestFileBytes)));
  Buffer buffer{std::vector<std::byte>(size)};
  HEADRACE_TRY(buffer.wait(
      access, access.queue.read(file, 0, buffer.bytes(), {}, access.tag("read manifest"))));
  return parse(buffer.bytes(), path.string());
}

// To rename to a folder it needs a name of its own.
Status check_name(const fs::path& folder) {
  if (folder.has_filename() && folder.filename() != "." && folder.filename() != "..") return {};
  return Status(Code::invalid,
                fmt::format("\"{}\" has no name of its own: give a folder below", folder.string()));
}

fs::path parent_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

Status not_a_checkpoint(const fs::path& folder, std::string_view what) {
  return Status(Code::invalid,
                fmt::format("{} {}: give a checkpoint's own folder", folder.string(), what));
}

Status check_folder(const Access& access, const fs::path& folder) {
  HEADRACE_ASSIGN(const Entry entry, access.engine().look(folder));
  if (entry == Entry::nothing) return not_a_checkpoint(folder, "does not exist");
  if (entry != Entry::folder) return not_a_checkpoint(folder, "is not a folder, or is a link");
  HEADRACE_ASSIGN(const Entry manifest, access.engine().look(folder / kManifestName));
  if (manifest == Entry::nothing) return not_a_checkpoint(folder, "has no manifest");
  return {};
}

// Shared: no save writes over it meanwhile.
Result<File> open_data(const Access& access, const fs::path& path, const Manifest& manifest) {
  HEADRACE_ASSIGN(
      File file, access.queue.open_file({.path = path, .mode = FileMode::shared, .direct = false}));
  if (file.info().size == manifest.data_bytes) return file;
  return Status(Code::corrupt,
                fmt::format("{} has {} bytes, the manifest says {}: use another checkpoint, or a "
                            "copy of this one",
                            path.string(), file.info().size, manifest.data_bytes));
}

}  // namespace

Result<IoQueue*> queue_of_checkpoint(Platform& platform, const fs::path& folder) {
  std::error_code gone;
  if (fs::exists(folder, gone)) return platform.queue_for(folder);
  const fs::path parent = parent_of(without_slash(folder));
  if (!platform.simulated() && !fs::exists(parent, gone))
    return invalid(
        fmt::format("checkpoint {}: the folder {} does not exist: create it first, or "
                    "choose another place",
                    folder.string(), parent.string()));
  return platform.queue_for(parent);
}

// One save, from its leftovers to its commit.
struct CheckpointWriter::Save {
  Save(const Access& by, fs::path where)
      : access(by),
        folder(std::move(where)),
        staging(parent_of(folder) / fmt::format(".{}.saving", folder.filename().string())) {}

  const Access access;
  const fs::path folder;
  const fs::path staging;
  FolderLock lock;  // of place(); the folder keeps it when it is renamed
  std::uint64_t planned_bytes = 0;
  std::uint64_t generation = 1;
  bool first = true;  // there is no checkpoint yet
  File data;
  // What to remove when it fails.
  bool folder_made = false;
  bool data_made = false;
  bool manifest_made = false;
  bool visible = false;  // it is the folder's checkpoint, or may be

  ~Save();
  const fs::path& place() const { return first ? staging : folder; }
  fs::path data_path() const { return place() / data_name(generation); }
  fs::path manifest_path() const { return place() / (first ? kManifestName : kNewManifestName); }

  Status start(const Manifest& plan);
  Result<bool> is_first() const;
  Result<bool> make_staging();
  Status remove_staging();
  Status lock_place();
  Status find_generation();
  Status take_empty_folder();
  Status remove_leftovers();
  Status check_space(const Manifest& plan);
  Status take_spare();
  Status make_data();
  Status open_data(FileMode mode, bool direct);
  Status publish(Manifest manifest);
  Status replace(const fs::path& from, const fs::path& to);
  void keep_last();
};

CheckpointWriter::Save::~Save() {
  if (visible) return;
  data = File();
  const auto remove = [&](const fs::path& path) {
    // A failure leaves what the next save removes.
    static_cast<void>(access.engine().remove(path).ok());
  };
  if (manifest_made) remove(manifest_path());
  if (data_made) remove(data_path());
  if (folder_made) remove(staging);
}

Status CheckpointWriter::Save::start(const Manifest& plan) {
  planned_bytes = plan.data_bytes;
  HEADRACE_TRY(lock_place());
  HEADRACE_TRY(find_generation());
  HEADRACE_TRY(remove_leftovers());
  HEADRACE_TRY(take_spare());
  if (data) return {};
  HEADRACE_TRY(check_space(plan));
  return make_data();
}

// What the last save but one wrote, or a killed one: its space need not be found again, and is
// written faster than new space. Another save's reader keeps it, as does who gave it another name.
Status CheckpointWriter::Save::take_spare() {
  if (first) return {};  // staging is new
  HEADRACE_ASSIGN(const Entry entry, access.engine().look(data_path()));
  if (entry == Entry::nothing) return {};
  if (entry == Entry::file) {
    const Status how = open_data(FileMode::overwrite, access.options.direct);
    if (how.code() != Code::unavailable && how.code() != Code::locked) return how;
  }
  return access.engine().remove(data_path());
}

Status CheckpointWriter::Save::make_data() {
  return open_data(FileMode::create, access.options.direct);
}

Status CheckpointWriter::Save::open_data(FileMode mode, bool direct) {
  const FileSpec spec{.path = data_path(), .mode = mode, .size = planned_bytes, .direct = direct};
  HEADRACE_ASSIGN(data, access.queue.open_file(spec));
  data_made = true;
  if (data.info().alignment <= kRunAlignment) return {};
  data = File();
  if (mode == FileMode::create) HEADRACE_TRY(access.engine().remove(data_path()));
  return open_data(mode, false);
}

Result<bool> CheckpointWriter::Save::is_first() const {
  HEADRACE_ASSIGN(const Entry entry, access.engine().look(folder));
  if (entry == Entry::nothing) return true;
  if (entry != Entry::folder) return not_a_checkpoint(folder, "is not a folder, or is a link");
  HEADRACE_ASSIGN(const Entry manifest, access.engine().look(folder / kManifestName));
  return manifest == Entry::nothing;
}

// False: it is there, left by a killed save, or in use by another one.
Result<bool> CheckpointWriter::Save::make_staging() {
  HEADRACE_ASSIGN(const Entry entry, access.engine().look(staging));
  if (entry == Entry::folder) return false;
  if (entry != Entry::nothing) return not_a_checkpoint(staging, "is not a folder, or is a link");
  const Status made = access.engine().make_folder(staging);
  if (made.ok()) return true;
  HEADRACE_ASSIGN(const Entry now, access.engine().look(staging));  // another save's, just made
  if (now == Entry::folder) return false;
  return made;
}

// Once more when another save has begun or ended since it was looked.
Status CheckpointWriter::Save::lock_place() {
  for (int race = 0; race < kSaveRaces; ++race) {
    HEADRACE_ASSIGN(first, is_first());
    const Result<bool> made = first ? make_staging() : false;
    if (!made.ok()) return made.status();
    Result<FolderLock> locked = access.engine().lock_folder(place());
    HEADRACE_ASSIGN(const Entry there, access.engine().look(place()));
    HEADRACE_ASSIGN(const bool still_first, is_first());
    if (there == Entry::nothing || still_first != first) continue;
    if (!locked.ok()) return locked.status();
    if (first && !*made) {
      HEADRACE_TRY(remove_staging());
      continue;
    }
    lock = std::move(*locked);
    folder_made = first;
    return {};
  }
  return Status(Code::unavailable, "it is saved to all the time: save in another folder");
}

Status CheckpointWriter::Save::find_generation() {
  if (first) return take_empty_folder();
  Result<Manifest> last = read_manifest(access, folder / kManifestName);
  if (!last.ok()) return last.status().with("the checkpoint there cannot be replaced");
  generation = last->generation + 1;
  return {};
}

// A folder without a manifest must be empty, and does not count: it appears again when it is whole.
Status CheckpointWriter::Save::take_empty_folder() {
  HEADRACE_ASSIGN(const Entry entry, access.engine().look(folder));
  if (entry == Entry::nothing) return {};
  if (access.engine().remove(folder).ok()) return {};
  return not_a_checkpoint(folder, "holds something else");
}

// The only names that a killed save can have left, but for its data.
Status CheckpointWriter::Save::remove_leftovers() {
  if (first) return {};  // staging is new
  HEADRACE_TRY(access.remove_if_there(folder / kNewManifestName));
  return access.remove_if_there(folder / data_name(generation - 2));
}

Status CheckpointWriter::Save::remove_staging() {
  HEADRACE_TRY(access.remove_if_there(staging / kManifestName));
  HEADRACE_TRY(access.remove_if_there(staging / data_name(1)));
  return access.engine().remove(staging);
}

Status CheckpointWriter::Save::check_space(const Manifest& plan) {
  const fs::path& there = first ? parent_of(folder) : folder;
  HEADRACE_ASSIGN(const std::uint64_t free, access.engine().free_bytes(there));
  const std::uint64_t manifest = serialized_bytes(plan);
  if (planned_bytes + manifest <= free) return {};
  return Status(Code::out_of_space,
                fmt::format("needs {} ({} and a manifest of {}), {} are free: free space, or save "
                            "in a folder on another drive",
                            format_bytes(planned_bytes + manifest), format_bytes(planned_bytes),
                            format_bytes(manifest), format_bytes(free)));
}

// Each line is on the drive before the next one relies on it.
Status CheckpointWriter::Save::publish(Manifest manifest) {
  manifest.generation = generation;
  HEADRACE_TRY(access.sync(data, planned_bytes));
  data = File();  // unlocked before anyone can look for it
  manifest_made = true;
  HEADRACE_TRY(write_file(access, manifest_path(), serialize(manifest)));
  HEADRACE_TRY(access.engine().sync_folder(place()));
  HEADRACE_TRY(first ? replace(staging, folder) : replace(manifest_path(), folder / kManifestName));
  HEADRACE_TRY(access.engine().sync_folder(first ? parent_of(folder) : folder));
  keep_last();
  return {};
}

// A rename that fails may have happened: then what it made visible stays.
Status CheckpointWriter::Save::replace(const fs::path& from, const fs::path& to) {
  visible = true;
  const Status how = access.engine().rename(from, to);
  if (how.ok()) return how;
  const Result<Entry> left = access.engine().look(from);
  visible = !left.ok() || *left == Entry::nothing;
  return how;
}

// Under the name that the next save looks for.
void CheckpointWriter::Save::keep_last() {
  if (first) return;
  const Status how = access.engine().rename(folder / data_name(generation - 1),
                                            folder / data_name(generation + 1));
  if (!how.ok()) access.platform.say(how.with("the next save tries again").message());
}

CheckpointWriter::CheckpointWriter(std::unique_ptr<Save> save) : save_(std::move(save)) {}
CheckpointWriter::CheckpointWriter(CheckpointWriter&&) noexcept = default;
CheckpointWriter::~CheckpointWriter() = default;

Result<CheckpointWriter> CheckpointWriter::create(Platform& platform, IoQueue& queue,
                                                  const fs::path& folder, const Manifest& plan,
                                                  CheckpointOptions options) {
  const fs::path path = without_slash(folder);
  HEADRACE_TRY(check_name(path));
  auto save = std::make_unique<Save>(Access{platform, queue, options}, path);
  HEADRACE_TRY(save->start(plan).with(fmt::format("checkpoint {}", path.string())));
  return CheckpointWriter(std::move(save));
}

const File& CheckpointWriter::data() const noexcept { return save_->data; }

Status CheckpointWriter::commit(Manifest manifest) {
  HEADRACE_CHECK(!save_->manifest_made && manifest.data_bytes == save_->planned_bytes);
  return save_->publish(std::move(manifest))
      .with(fmt::format("checkpoint {}", save_->folder.string()));
}

Result<CheckpointReader> CheckpointReader::open(Platform& platform, IoQueue& queue,
                                                const fs::path& folder, CheckpointOptions options) {
  const Access access{platform, queue, options};
  const fs::path path = without_slash(folder);
  HEADRACE_TRY(check_folder(access, path));
  std::uint64_t tried = 0;
  for (int race = 0; race < kSaveRaces; ++race) {
    HEADRACE_ASSIGN(Manifest manifest, read_manifest(access, path / kManifestName));
    const fs::path data_path = path / data_name(manifest.generation);
    HEADRACE_ASSIGN(const Entry entry, access.engine().look(data_path));
    if (entry != Entry::nothing) {
      Result<File> data = open_data(access, data_path, manifest);
      // Two saves later it has another name, and other bytes.
      HEADRACE_ASSIGN(const Entry now, access.engine().look(data_path));
      if (now == Entry::nothing) continue;
      if (!data.ok()) return data.status();
      return CheckpointReader(std::move(manifest), std::move(*data));
    }
    if (std::exchange(tried, manifest.generation) == manifest.generation)
      return Status(Code::corrupt, fmt::format("{} is missing, the manifest speaks of it: use "
                                               "another checkpoint, or a copy of this one",
                                               data_path.string()));
  }
  return Status(Code::unavailable,
                fmt::format("{} is saved to all the time: load a copy", path.string()));
}

}  // namespace headrace
