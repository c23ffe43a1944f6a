#include "io/power_log.h"

#include <algorithm>
#include <cstring>

namespace headrace {

void PowerLog::make_folder(DiskId in, std::string name, DiskId folder) {
  names_.push_back({.folder = in, .name = std::move(name), .made = folder});
}

void PowerLog::make_file(DiskId in, std::string name, DiskId file, std::uint64_t size) {
  names_.push_back({.folder = in, .name = std::move(name), .made = file});
  writes_.push_back({.file = file, .offset = size});
}

void PowerLog::rename(DiskId from, std::string old_name, DiskId to, std::string new_name) {
  names_.push_back({.kind = Kind::rename,
                    .folder = from,
                    .to_folder = to,
                    .name = std::move(old_name),
                    .new_name = std::move(new_name)});
}

void PowerLog::remove(DiskId in, std::string name) {
  names_.push_back({.kind = Kind::remove, .folder = in, .name = std::move(name)});
}

void PowerLog::write(DiskId file, std::uint64_t offset, ConstBytes bytes) {
  if (!bytes.empty())
    writes_.push_back({.file = file, .offset = offset, .bytes = {bytes.begin(), bytes.end()}});
}

void PowerLog::sync_file(DiskId file) {
  for (Write& write : writes_) write.safe |= write.file == file;
}

void PowerLog::sync_folder(DiskId folder) {
  for (NameChange& change : names_)
    change.safe |= change.folder == folder || change.to_folder == folder;
}

// What a change speaks of may not have come to be: then it has not either.
void PowerLog::apply(const NameChange& change, DiskTree& tree) {
  auto& entries = tree.folders[change.folder];
  if (change.kind == Kind::make) {
    entries[change.name] = change.made;
    return;
  }
  const auto found = entries.find(change.name);
  if (found == entries.end()) return;
  const DiskId moved = found->second;
  entries.erase(found);
  if (change.kind == Kind::rename) tree.folders[change.to_folder][change.new_name] = moved;
}

// Bit k of `torn_by` decides of the sectors k, k + 64, ...
void PowerLog::apply(const Write& write, std::uint64_t torn_by, DiskTree& tree) {
  std::vector<std::byte>& file = tree.files[write.file];
  if (write.bytes.empty()) file.resize(std::max(file.size(), write.offset));
  for (std::size_t at = 0; at < write.bytes.size();) {
    const std::uint64_t begin = write.offset + at;
    const std::size_t size =
        std::min<std::size_t>(kSectorBytes - begin % kSectorBytes, write.bytes.size() - at);
    if ((torn_by >> (begin / kSectorBytes % 64) & 1) != 0) {
      file.resize(std::max<std::size_t>(file.size(), begin + size));
      std::memcpy(file.data() + begin, write.bytes.data() + at, size);
    }
    at += size;
  }
}

// As a journal leaves them, all up to one of them; or any of them, as nothing forbids.
void PowerLog::choose_names(std::mt19937_64& random, DiskTree& tree) const {
  const bool in_order = random() % 2 == 0;
  std::size_t left = random() % (names_.size() + 1);
  for (const NameChange& change : names_) {
    const bool chosen = in_order ? left > 0 : random() % 2 == 0;
    if (change.safe || chosen) apply(change, tree);
    left -= left > 0 ? 1 : 0;
  }
}

void PowerLog::choose_writes(std::mt19937_64& random, DiskTree& tree) const {
  constexpr std::uint64_t kAll = ~std::uint64_t{0};
  std::vector<const Write*> open;
  for (const Write& write : writes_)
    if (write.safe)
      apply(write, kAll, tree);
    else
      open.push_back(&write);
  std::shuffle(open.begin(), open.end(), random);
  const std::uint64_t lost = random() % 4;  // none, one of four, ...
  for (const Write* write : open) {
    if (random() % 4 < lost) continue;
    apply(*write, random() % 2 == 0 ? kAll : random(), tree);
  }
}

DiskTree PowerLog::cut(std::uint64_t seed) const {
  std::mt19937_64 random(seed);
  DiskTree tree = safe_;
  choose_names(random, tree);
  choose_writes(random, tree);
  return tree;
}

}  // namespace headrace
