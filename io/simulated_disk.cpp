#include "io/simulated_disk.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace headrace {
namespace {

namespace fs = std::filesystem;

// "/a/b": from the root, without dots or a slash at the end.
std::string name_of(const fs::path& path) {
  std::string name = (fs::path("/") / path).lexically_normal().string();
  if (name.size() > 1 && name.ends_with('/')) name.pop_back();
  return name;
}

std::string parent_of(const std::string& name) { return fs::path(name).parent_path().string(); }
std::string leaf_of(const std::string& name) { return fs::path(name).filename().string(); }

bool must_exist(FileMode mode) { return only_reads(mode) || mode == FileMode::overwrite; }
bool locks(FileMode mode) {
  return mode == FileMode::create || mode == FileMode::exclusive || mode == FileMode::overwrite;
}

Status failure(const char* verb, const std::string& name, int error) {
  return Status(error == ENOSPC ? Code::out_of_space : Code::io,
                fmt::format("cannot {} {}: {} (errno {})", verb, name,
                            std::system_category().message(error), error));
}

}  // namespace

void SimulatedDisk::make_folders(const fs::path& folder) {
  for (std::string name = name_of(folder); !folders_.contains(name); name = parent_of(name))
    folders_[name] = ++last_id_;
  if (log_) log_power();
}

Result<OpenFile> SimulatedDisk::open(const FileSpec& spec) {
  const std::string name = name_of(spec.path);
  const bool unnamed = spec.mode == FileMode::scratch;
  const bool there = names_.contains(name);
  std::shared_ptr<Content> content;
  OpenFile opened;
  if (must_exist(spec.mode) || (spec.mode == FileMode::exclusive && there)) {
    if (!there) return failure("open", name, ENOENT);
    content = names_.at(name);
    HEADRACE_TRY(lock(content, spec));
    if (spec.mode == FileMode::overwrite && content->size != spec.size)
      return Status(Code::unavailable, fmt::format("{} has another size", name));
    opened.existed = !only_reads(spec.mode);
  } else {
    HEADRACE_ASSIGN(content, make(name, spec));
  }
  opened.handle = next_handle_++;
  opened.size = content->size;
  opened.alignment = std::max({1U, spec.alignment, spec.direct ? alignment_ : 1U});
  opened.direct = spec.direct;
  opened.name = unnamed ? fmt::format("scratch file in {}", name) : name;
  open_[opened.handle] = {std::move(content), opened.alignment, spec.mode};
  return opened;
}

Result<std::shared_ptr<SimulatedDisk::Content>> SimulatedDisk::make(const std::string& name,
                                                                    const FileSpec& spec) {
  const bool unnamed = spec.mode == FileMode::scratch;
  if (!folders_.contains(unnamed ? name : parent_of(name)))
    return failure("create a file in", name, ENOENT);
  if (!unnamed && look(name) != Entry::nothing) return failure("create", name, EEXIST);
  if (spec.size > free_bytes())
    return Status(Code::out_of_space,
                  fmt::format("{} asked of the simulated disk, {} are free",
                              format_bytes(spec.size), format_bytes(free_bytes())));
  auto content = std::make_shared<Content>();
  resize(*content, spec.size);
  if (unnamed) return content;
  content->id = ++last_id_;
  names_[name] = content;
  if (log_) log_->make_file(folders_.at(parent_of(name)), leaf_of(name), content->id, spec.size);
  return content;
}

// As flock: what locks keeps all others out, what shares those that lock; the rest does not ask.
Status SimulatedDisk::lock(const std::shared_ptr<Content>& content, const FileSpec& spec) const {
  const auto keeps_out = [&](const Open& open) {
    if (open.content != content) return false;
    if (spec.mode == FileMode::shared) return locks(open.mode);
    return locks(spec.mode) && (locks(open.mode) || open.mode == FileMode::shared);
  };
  if (std::ranges::none_of(open_, [&](const auto& open) { return keeps_out(open.second); }))
    return {};
  return Status(Code::locked, fmt::format("{} is in use by another engine", name_of(spec.path)));
}

void SimulatedDisk::resize(Content& content, std::uint64_t size) const {
  content.size = size;
  if (keeps_) content.bytes.resize(size);
}

void SimulatedDisk::close(int handle) { open_.erase(handle); }

std::int64_t SimulatedDisk::misfit(const Open& open, std::uint64_t offset,
                                   ConstBytes memory) const {
  const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
  return (offset | memory.size() | address) % open.alignment == 0 ? 0 : -EINVAL;
}

std::int64_t SimulatedDisk::read(int handle, std::uint64_t offset, Bytes to) const {
  const auto at = open_.find(handle);
  if (at == open_.end()) return -EBADF;
  if (const std::int64_t error = misfit(at->second, offset, to); error != 0) return error;
  const Content& content = *at->second.content;
  if (offset >= content.size) return 0;
  const std::size_t size = std::min(to.size(), content.size - offset);
  if (size > 0 && keeps_) std::memcpy(to.data(), content.bytes.data() + offset, size);
  return static_cast<std::int64_t>(size);
}

std::int64_t SimulatedDisk::write(int handle, std::uint64_t offset, ConstBytes from) {
  const auto at = open_.find(handle);
  if (at == open_.end()) return -EBADF;
  if (const std::int64_t error = misfit(at->second, offset, from); error != 0) return error;
  Content& content = *at->second.content;
  if (const std::uint64_t end = offset + from.size(); end > content.size) {
    if (end - content.size > free_bytes()) return -ENOSPC;
    resize(content, end);
  }
  if (!from.empty() && keeps_) std::memcpy(content.bytes.data() + offset, from.data(), from.size());
  if (log_ && content.id != 0) log_->write(content.id, offset, from);
  return static_cast<std::int64_t>(from.size());
}

Status SimulatedDisk::make_folder(const fs::path& folder) {
  const std::string name = name_of(folder);
  if (!folders_.contains(parent_of(name))) return failure("make folder", name, ENOENT);
  if (look(name) != Entry::nothing) return failure("make folder", name, EEXIST);
  folders_[name] = ++last_id_;
  if (log_) log_->make_folder(folders_.at(parent_of(name)), leaf_of(name), last_id_);
  return {};
}

bool SimulatedDisk::has_children(const std::string& folder) const {
  const auto inside = [&](const std::string& name) {
    return name != folder && parent_of(name) == folder;
  };
  const auto entry_inside = [&](const auto& entry) { return inside(entry.first); };
  return std::ranges::any_of(folders_, entry_inside) || std::ranges::any_of(names_, entry_inside);
}

Status SimulatedDisk::rename(const fs::path& from, const fs::path& to) {
  const std::string old_name = name_of(from);
  const std::string new_name = name_of(to);
  if (!folders_.contains(parent_of(new_name))) return failure("rename to", new_name, ENOENT);
  const Entry entry = look(old_name);
  if (entry == Entry::nothing) return failure("rename", old_name, ENOENT);
  const DiskId old_folder = folders_.at(parent_of(old_name));
  const DiskId new_folder = folders_.at(parent_of(new_name));
  HEADRACE_TRY(entry == Entry::file ? rename_file(old_name, new_name)
                                    : rename_folder(old_name, new_name));
  if (log_) log_->rename(old_folder, leaf_of(old_name), new_folder, leaf_of(new_name));
  return {};
}

Status SimulatedDisk::rename_file(const std::string& from, const std::string& to) {
  if (look(to) == Entry::folder) return failure("rename to", to, EISDIR);
  auto moved = names_.extract(from);
  names_[to] = std::move(moved.mapped());
  return {};
}

Status SimulatedDisk::rename_folder(const std::string& from, const std::string& to) {
  if (look(to) == Entry::file) return failure("rename to", to, ENOTDIR);
  if (from == to) return {};
  if (has_children(to)) return failure("rename to", to, ENOTEMPTY);
  if (to.starts_with(from + "/")) return failure("rename to", to, EINVAL);
  const auto renamed = [&](const std::string& name) {
    const bool inside = name == from || name.starts_with(from + "/");
    return inside ? to + name.substr(from.size()) : name;
  };
  folders_.erase(to);
  std::map<std::string, DiskId> folders;
  for (const auto& [name, id] : folders_) folders[renamed(name)] = id;
  std::map<std::string, std::shared_ptr<Content>> names;
  for (const auto& [name, content] : names_) names[renamed(name)] = content;
  folders_.swap(folders);
  names_.swap(names);
  return {};
}

Status SimulatedDisk::remove(const fs::path& path) {
  const std::string name = name_of(path);
  if (look(name) == Entry::nothing) return failure("remove", name, ENOENT);
  if (has_children(name)) return failure("remove", name, ENOTEMPTY);
  if (names_.erase(name) == 0) folders_.erase(name);
  if (log_) log_->remove(folders_.at(parent_of(name)), leaf_of(name));
  return {};
}

Entry SimulatedDisk::look(const fs::path& path) const {
  const std::string name = name_of(path);
  if (names_.contains(name)) return Entry::file;
  return folders_.contains(name) ? Entry::folder : Entry::nothing;
}

std::uint64_t SimulatedDisk::free_bytes() const {
  std::set<const Content*> kept;
  for (const auto& [name, content] : names_) kept.insert(content.get());
  for (const auto& [handle, open] : open_) kept.insert(open.content.get());
  std::uint64_t used = 0;
  for (const Content* content : kept) used += content->size;
  return used < capacity_ ? capacity_ - used : 0;
}

Result<DiskId> SimulatedDisk::lock_folder(const fs::path& folder) {
  const std::string name = name_of(folder);
  if (!folders_.contains(name)) return failure("lock", name, ENOENT);
  const DiskId id = folders_.at(name);
  if (!locked_.insert(id).second)
    return Status(Code::locked, fmt::format("{} is locked by somebody else", name));
  return id;
}

DiskTree SimulatedDisk::tree() const {
  DiskTree tree;
  for (const auto& [name, id] : folders_) {
    tree.folders[id];
    if (id != kRootFolder) tree.folders[folders_.at(parent_of(name))][leaf_of(name)] = id;
  }
  for (const auto& [name, content] : names_) {
    tree.folders[folders_.at(parent_of(name))][leaf_of(name)] = content->id;
    tree.files[content->id] = content->bytes;
  }
  return tree;
}

void SimulatedDisk::log_power() { log_.emplace(tree()); }

void SimulatedDisk::sync(int handle) {
  const auto at = open_.find(handle);
  if (log_ && at != open_.end()) log_->sync_file(at->second.content->id);
}

void SimulatedDisk::sync_folder(const fs::path& folder) {
  if (log_) log_->sync_folder(folders_.at(name_of(folder)));
}

void SimulatedDisk::cut_power(std::uint64_t seed) {
  HEADRACE_CHECK(log_ && keeps_);
  const DiskTree left = log_->cut(seed);
  open_.clear();
  locked_.clear();
  names_.clear();
  folders_.clear();
  grow(left, kRootFolder, "/");
  log_power();
}

// Takes over the folder of that name, with all that is in it.
void SimulatedDisk::grow(const DiskTree& left, DiskId folder, const std::string& name) {
  folders_[name] = folder;
  const auto entries = left.folders.find(folder);
  if (entries == left.folders.end()) return;
  for (const auto& [leaf, id] : entries->second) {
    const std::string below = (fs::path(name) / leaf).string();
    const auto file = left.files.find(id);
    if (file == left.files.end())
      grow(left, id, below);
    else
      names_[below] = std::make_shared<Content>(Content{id, file->second.size(), file->second});
  }
}

}  // namespace headrace
