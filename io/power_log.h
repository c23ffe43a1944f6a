// PowerLog: what a simulated disk was told since it was last in order, and what of it is on the
// drive for certain: from these, what a power cut leaves.
//
// What was written to a file is safe once the file is synced; what happened to a name (made,
// renamed, removed) once its folder is. Of all else a seed decides: it is done, or not, in any
// order, and writes are torn at sectors of 512 bytes. Of one simulated disk; one thread. Keeps a
// copy of every byte written, so it is for short runs.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "io/bytes.h"

namespace headrace {

using DiskId = std::uint64_t;  // of a file or a folder, for good
constexpr DiskId kRootFolder = 1;
constexpr std::size_t kSectorBytes = 512;

struct DiskTree {
  std::map<DiskId, std::map<std::string, DiskId>> folders;  // entries by name
  std::map<DiskId, std::vector<std::byte>> files;           // named ones
};

class PowerLog {
 public:
  explicit PowerLog(DiskTree safe) : safe_(std::move(safe)) {}

  void make_folder(DiskId in, std::string name, DiskId folder);
  void make_file(DiskId in, std::string name, DiskId file, std::uint64_t size);
  void rename(DiskId from, std::string old_name, DiskId to, std::string new_name);
  void remove(DiskId in, std::string name);
  void write(DiskId file, std::uint64_t offset, ConstBytes bytes);
  void sync_file(DiskId file);
  void sync_folder(DiskId folder);

  DiskTree cut(std::uint64_t seed) const;

 private:
  enum class Kind : std::uint8_t { make, rename, remove };
  struct NameChange {
    Kind kind = Kind::make;
    DiskId folder = 0, to_folder = 0;
    std::string name, new_name;
    DiskId made = 0;
    bool safe = false;
  };
  struct Write {
    DiskId file = 0;
    std::uint64_t offset = 0;
    std::vector<std::byte> bytes;  // none: the file is made as large as `offset`
    bool safe = false;
  };
  static void apply(const NameChange& change, DiskTree& tree);
  static void apply(const Write& write, std::uint64_t torn_by, DiskTree& tree);
  void choose_names(std::mt19937_64& random, DiskTree& tree) const;
  void choose_writes(std::mt19937_64& random, DiskTree& tree) const;

  const DiskTree safe_;
  std::vector<NameChange> names_;
  std::vector<Write> writes_;
};

}  // namespace headrace
