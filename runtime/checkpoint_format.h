// The canonical checkpoint: what its manifest says, and where each tensor lies in its data file.
//
// Byte by byte in docs/nvme_layout.md. Data: for each tensor, each of its state kinds (master;
// exp_avg and exp_avg_sq where trainable) is one run of fp32 values in element order, without
// padding, at the next multiple of kRunAlignment; gaps are zero. Offsets follow from the order and
// the counts, so they are not written down, and cannot lie. Nothing here depends on shards,
// formats or placement. Pure functions, from any thread.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "io/bytes.h"
#include "io/status.h"
#include "optim_cpu/dtype.h"
#include "runtime/checksum.h"
#include "runtime/kinds.h"

namespace headrace {

constexpr std::uint64_t kBlockElements = 256 * kKiB;  // one checksum
constexpr std::uint64_t kRunAlignment = 4096;
constexpr std::size_t kHeaderBytes = 64;  // of the manifest, in every version
constexpr std::uint64_t kMaxUserBytes = kMiB;
constexpr std::uint64_t kMaxManifestBytes = kGiB;
constexpr std::uint64_t kMaxManifestFileBytes = kHeaderBytes + kMaxManifestBytes;
constexpr std::uint64_t kMaxGeneration = std::uint64_t{1} << 62;
constexpr std::uint64_t kMaxElements = std::uint64_t{1} << 48;  // of one tensor
constexpr std::uint64_t kMaxDataBytes = std::uint64_t{1} << 60;
constexpr std::size_t kMaxNameBytes = 4096;

// The files of a checkpoint's folder: the manifest, and the data it speaks of.
inline constexpr std::string_view kManifestName = "manifest";
std::string data_name(std::uint64_t generation);  // "data-000000000000002a"
// "a/b" for "a/b/": with the slash, a link's name would mean what it points to.
std::filesystem::path without_slash(std::filesystem::path folder);

struct CheckpointTensor {
  std::string name;
  ScalarType param = ScalarType::fp32;
  bool trainable = true;
  std::uint64_t count = 0;
  std::uint64_t step = 0;  // updates so far
  // By state kind; of the kinds that the tensor has.
  std::array<std::uint64_t, kStateKinds> offsets{};                 // of the run, in the data file
  std::array<std::vector<std::uint64_t>, kStateKinds> checksums{};  // one per block of the run

  std::size_t kinds() const noexcept { return trainable ? kStateKinds : 1; }
  std::uint64_t run_bytes() const noexcept { return count * sizeof(float); }
  std::uint64_t blocks() const noexcept { return (count + kBlockElements - 1) / kBlockElements; }
  std::uint64_t offset(Kind kind) const noexcept { return offsets[index_of(kind)]; }
  std::vector<std::uint64_t>& sums(Kind kind) noexcept { return checksums[index_of(kind)]; }
};

struct Manifest {
  std::uint64_t generation = 0;  // 1 for a folder's first checkpoint; set by CheckpointWriter
  std::uint64_t data_bytes = 0;
  std::vector<std::byte> user;  // the caller's own, at most kMaxUserBytes
  std::vector<CheckpointTensor> tensors;
};

// UTF-8 without control characters, 1 to kMaxNameBytes bytes: may be a tensor's name.
bool valid_tensor_name(std::string_view name) noexcept;

// Lays the tensors out (offsets, data_bytes) and makes room for their checksums, all 0. Wants name,
// param, trainable, count and step. Code::invalid: a bad or a second name, or sizes past the caps.
Result<Manifest> plan_manifest(std::vector<CheckpointTensor> tensors, std::vector<std::byte> user);

// Bytes of the serialized manifest: known before the checksums are.
std::uint64_t serialized_bytes(const Manifest& manifest) noexcept;
// Little-endian, the header first. What plan_manifest made, checksums filled in.
std::vector<std::byte> serialize(const Manifest& manifest);
// Takes nothing on trust. `where` stands in front of messages.
// Code::corrupt names the field that is wrong; Code::unavailable: from a newer version.
Result<Manifest> parse(ConstBytes bytes, std::string_view where);

// Fills in a run's checksums while its bytes pass by, in order, in any pieces.
class RunChecksums {
 public:
  // `sums` has one place per block of the run, and outlives this.
  explicit RunChecksums(std::vector<std::uint64_t>& sums) : sums_(&sums) {}
  void update(ConstBytes bytes);
  std::uint64_t bytes() const noexcept;  // so far
  // After the last byte.
  void finish();

 private:
  void end_block();
  std::vector<std::uint64_t>* sums_;
  StreamingChecksum block_;
  std::uint64_t in_block_ = 0;  // bytes of the open block
  std::size_t done_ = 0;        // blocks that are over
};

}  // namespace headrace
