#include "runtime/checkpoint_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_set>

namespace headrace {
namespace {

static_assert(std::endian::native == std::endian::little, "the files are little-endian");

constexpr std::uint64_t kMagic = 0x4543'4152'4441'4548;  // "HEADRACE"
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kRecordBytes = 24;  // of a tensor, before its name and checksums

constexpr std::size_t kHeaderSumOffset = 56;  // in the header: its own checksum
constexpr std::uint64_t kBlockBytes = kBlockElements * sizeof(float);

// The first 64 bytes of the file, as they lie there.
struct Header {
  std::uint64_t magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t tensors = 0;
  std::uint64_t body_bytes = 0;
  std::uint64_t user_bytes = 0;
  std::uint64_t generation = 0;
  std::uint64_t data_bytes = 0;
  std::uint64_t body_checksum = 0;
  std::uint64_t header_checksum = 0;
};
static_assert(sizeof(Header) == kHeaderBytes);

// One tensor, as it lies in the body.
struct Record {
  std::uint64_t count = 0;
  std::uint64_t step = 0;
  std::uint32_t name_bytes = 0;
  std::uint8_t param = 0;  // 0 fp32, 1 bf16, 2 fp16
  std::uint8_t trainable = 0;
  std::uint16_t zero = 0;
};
static_assert(sizeof(Record) == kRecordBytes);

template <class... Args>
Status corrupt(fmt::format_string<Args...> text, Args&&... args) {
  return Status(Code::corrupt, fmt::format(text, std::forward<Args>(args)...) +
                                   "; use another checkpoint, or a copy of this one");
}

// What is left to read of the body.
class Cursor {
 public:
  explicit Cursor(ConstBytes bytes) : left_(bytes) {}
  std::size_t left() const noexcept { return left_.size(); }
  // The next `size` bytes, which must be there.
  ConstBytes take(std::size_t size) {
    HEADRACE_CHECK(size <= left_.size());
    const ConstBytes taken = left_.first(size);
    left_ = left_.subspan(size);
    return taken;
  }
  template <class T>
  T take_as() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }

 private:
  ConstBytes left_;
};

template <class T>
void append(std::vector<std::byte>& to, const T* values, std::size_t count) {
  const auto* bytes = reinterpret_cast<const std::byte*>(values);
  to.insert(to.end(), bytes, bytes + count * sizeof(T));
}

// The length of the UTF-8 sequence at the front, 0 when it is none (RFC 3629: no overlong forms,
// no surrogates, at most U+10FFFF).
std::size_t utf8_sequence(std::string_view text) noexcept {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = at(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((at(i) & 0xc0) != 0x80) return 0;
  if ((lead == 0xe0 && at(1) < 0xa0) || (lead == 0xed && at(1) >= 0xa0)) return 0;
  if ((lead == 0xf0 && at(1) < 0x90) || (lead == 0xf4 && at(1) >= 0x90)) return 0;
  return length;
}

// Offsets and data_bytes from the counts, which are within the caps. False: too many bytes.
bool lay_out(Manifest& manifest) {
  std::uint64_t end = 0;
  for (CheckpointTensor& tensor : manifest.tensors) {
    for (std::size_t kind = 0; kind < tensor.kinds(); ++kind) {
      tensor.offsets[kind] = end;
      end += round_up(tensor.run_bytes(), kRunAlignment);
      if (end > kMaxDataBytes) return false;
    }
  }
  manifest.data_bytes = end;
  return true;
}

// The first name that an earlier tensor has too, or nullptr.
const std::string* second_name(const Manifest& manifest) {
  std::unordered_set<std::string_view> names;
  names.reserve(manifest.tensors.size());
  for (const CheckpointTensor& tensor : manifest.tensors)
    if (!names.insert(tensor.name).second) return &tensor.name;
  return nullptr;
}

Header header_of(const Manifest& manifest, ConstBytes body) {
  Header header;
  header.tensors = static_cast<std::uint32_t>(manifest.tensors.size());
  header.body_bytes = body.size();
  header.user_bytes = manifest.user.size();
  header.generation = manifest.generation;
  header.data_bytes = manifest.data_bytes;
  header.body_checksum = checksum(body);
  header.header_checksum = checksum(std::as_bytes(std::span(&header, 1)).first(kHeaderSumOffset));
  return header;
}

void append_tensor(std::vector<std::byte>& body, const CheckpointTensor& tensor) {
  Record record;
  record.count = tensor.count;
  record.step = tensor.step;
  record.name_bytes = static_cast<std::uint32_t>(tensor.name.size());
  record.param = static_cast<std::uint8_t>(tensor.param);
  record.trainable = tensor.trainable ? 1 : 0;
  append(body, &record, 1);
  append(body, tensor.name.data(), tensor.name.size());
  for (std::size_t kind = 0; kind < tensor.kinds(); ++kind) {
    HEADRACE_CHECK(tensor.checksums[kind].size() == tensor.blocks());
    append(body, tensor.checksums[kind].data(), tensor.checksums[kind].size());
  }
}

Status check_header(const Header& header, ConstBytes bytes) {
  if (header.magic != kMagic)
    return corrupt("it does not begin with HEADRACE: not a manifest of headrace");
  const std::uint64_t found = checksum(bytes.first(kHeaderSumOffset));
  if (header.header_checksum != found)
    return corrupt("header_checksum is {:016x}, the header's is {:016x}", header.header_checksum,
                   found);
  if (header.version == 0) return corrupt("version is 0");
  if (header.version > kVersion)
    return Status(Code::unavailable, fmt::format("version is {}, this headrace reads up to {}: "
                                                 "update headrace",
                                                 header.version, kVersion));
  if (header.generation == 0 || header.generation > kMaxGeneration)
    return corrupt("generation is {}, not 1 to {}", header.generation, kMaxGeneration);
  return {};
}

Status check_body(const Header& header, ConstBytes body) {
  if (header.body_bytes > kMaxManifestBytes)
    return corrupt("body_bytes is {}, at most {} are allowed", header.body_bytes,
                   kMaxManifestBytes);
  if (header.body_bytes != body.size())
    return corrupt("body_bytes is {}, but {} follow the header", header.body_bytes, body.size());
  if (const std::uint64_t found = checksum(body); header.body_checksum != found)
    return corrupt("body_checksum is {:016x}, the body's is {:016x}", header.body_checksum, found);
  if (header.user_bytes > kMaxUserBytes || header.user_bytes > body.size())
    return corrupt("user_bytes is {}, the body has {}, at most {} are allowed", header.user_bytes,
                   body.size(), kMaxUserBytes);
  if (header.tensors > (body.size() - header.user_bytes) / kRecordBytes)
    return corrupt("tensors is {}, the body has room for {}", header.tensors,
                   (body.size() - header.user_bytes) / kRecordBytes);
  return {};
}

Status check_record(const Record& record, std::size_t left) {
  if (record.count > kMaxElements)
    return corrupt("count is {}, at most {} are allowed", record.count, kMaxElements);
  if (record.param > 2) return corrupt("param is {}, known are 0 to 2", record.param);
  if (record.trainable > 1) return corrupt("trainable is {}, not 0 or 1", record.trainable);
  if (record.zero != 0) return corrupt("zero is {}", record.zero);
  if (record.name_bytes == 0 || record.name_bytes > kMaxNameBytes || record.name_bytes > left)
    return corrupt("name_bytes is {}, {} bytes are left, at most {} are allowed", record.name_bytes,
                   left, kMaxNameBytes);
  return {};
}

Result<CheckpointTensor> parse_tensor(Cursor& cursor) {
  if (cursor.left() < kRecordBytes)
    return corrupt("its record has {} bytes of {}", cursor.left(), kRecordBytes);
  const auto record = cursor.take_as<Record>();
  HEADRACE_TRY(check_record(record, cursor.left()));
  CheckpointTensor tensor;
  const ConstBytes name = cursor.take(record.name_bytes);
  tensor.name.assign(reinterpret_cast<const char*>(name.data()), name.size());
  if (!valid_tensor_name(tensor.name))
    return corrupt("name is not UTF-8 without control characters");
  tensor.param = static_cast<ScalarType>(record.param);
  tensor.trainable = record.trainable == 1;
  tensor.count = record.count;
  tensor.step = record.step;
  const std::uint64_t sums = tensor.blocks() * tensor.kinds();
  if (sums > cursor.left() / sizeof(std::uint64_t))
    return corrupt("count is {}: it needs {} checksums, {} bytes are left", record.count, sums,
                   cursor.left());
  for (std::size_t kind = 0; kind < tensor.kinds(); ++kind) {
    std::vector<std::uint64_t>& run = tensor.checksums[kind];
    run.resize(tensor.blocks());
    const ConstBytes bytes = cursor.take(run.size() * sizeof(std::uint64_t));
    if (!run.empty()) std::memcpy(run.data(), bytes.data(), bytes.size());
  }
  return tensor;
}

Result<Manifest> parse_body(const Header& header, ConstBytes body) {
  Cursor cursor(body);
  Manifest manifest;
  manifest.generation = header.generation;
  const ConstBytes user = cursor.take(header.user_bytes);
  manifest.user.assign(user.begin(), user.end());
  manifest.tensors.reserve(header.tensors);
  for (std::uint32_t index = 0; index < header.tensors; ++index) {
    Result<CheckpointTensor> tensor = parse_tensor(cursor);
    if (!tensor.ok()) return tensor.status().with(fmt::format("tensor {}", index));
    manifest.tensors.push_back(std::move(tensor).value());
  }
  if (cursor.left() != 0)
    return corrupt("body_bytes is {}, {} of them belong to no tensor", header.body_bytes,
                   cursor.left());
  if (const std::string* name = second_name(manifest))
    return corrupt("two tensors have the name {}", *name);
  if (!lay_out(manifest)) return corrupt("counts: more than {} bytes of data", kMaxDataBytes);
  if (header.data_bytes != manifest.data_bytes)
    return corrupt("data_bytes is {}, the tensors need {}", header.data_bytes, manifest.data_bytes);
  return manifest;
}

Result<Manifest> parse_bytes(ConstBytes bytes) {
  if (bytes.size() < kHeaderBytes)
    return corrupt("{} bytes, the header alone has {}", bytes.size(), kHeaderBytes);
  const auto header = Cursor(bytes).take_as<Header>();
  HEADRACE_TRY(check_header(header, bytes));
  const ConstBytes body = bytes.subspan(kHeaderBytes);
  HEADRACE_TRY(check_body(header, body));
  return parse_body(header, body);
}

Status check_planned(const CheckpointTensor& tensor) {
  if (!valid_tensor_name(tensor.name))
    return invalid(fmt::format("its name must be UTF-8 without control characters, 1 to {} bytes",
                               kMaxNameBytes));
  if (tensor.count > kMaxElements)
    return invalid(fmt::format("{} elements, at most {} are allowed", tensor.count, kMaxElements));
  return {};
}

// What a caller may have got wrong. Lays the manifest out on the way.
Status check_plan(Manifest& manifest) {
  if (manifest.user.size() > kMaxUserBytes)
    return invalid(
        fmt::format("{} bytes of the caller's own, at most {} fit: keep the rest in a "
                    "file of its own",
                    manifest.user.size(), kMaxUserBytes));
  for (std::size_t index = 0; index < manifest.tensors.size(); ++index)
    HEADRACE_TRY(check_planned(manifest.tensors[index]).with(fmt::format("tensor {}", index)));
  if (const std::string* name = second_name(manifest))
    return invalid(fmt::format("two tensors have the name {}", *name));
  if (!lay_out(manifest))
    return invalid(fmt::format("more than {} of data", format_bytes(kMaxDataBytes)));
  if (serialized_bytes(manifest) > kMaxManifestBytes)
    return invalid(fmt::format("a manifest of {}, at most {} are allowed",
                               format_bytes(serialized_bytes(manifest)),
                               format_bytes(kMaxManifestBytes)));
  return {};
}

}  // namespace

std::string data_name(std::uint64_t generation) { return fmt::format("data-{:016x}", generation); }

std::filesystem::path without_slash(std::filesystem::path folder) {
  while (!folder.has_filename() && folder.has_relative_path()) folder = folder.parent_path();
  return folder;
}

bool valid_tensor_name(std::string_view name) noexcept {
  if (name.empty() || name.size() > kMaxNameBytes) return false;
  while (!name.empty()) {
    const std::size_t length = utf8_sequence(name);
    const auto lead = static_cast<unsigned char>(name[0]);
    if (length == 0 || lead < 0x20 || lead == 0x7f) return false;
    if (lead == 0xc2 && static_cast<unsigned char>(name[1]) < 0xa0) return false;  // C1 controls
    name.remove_prefix(length);
  }
  return true;
}

Result<Manifest> plan_manifest(std::vector<CheckpointTensor> tensors, std::vector<std::byte> user) {
  Manifest manifest{1, 0, std::move(user), std::move(tensors)};
  HEADRACE_TRY(check_plan(manifest));
  for (CheckpointTensor& tensor : manifest.tensors)
    for (std::size_t kind = 0; kind < tensor.kinds(); ++kind)
      tensor.checksums[kind].assign(tensor.blocks(), 0);
  return manifest;
}

std::uint64_t serialized_bytes(const Manifest& manifest) noexcept {
  std::uint64_t bytes = kHeaderBytes + manifest.user.size();
  for (const CheckpointTensor& tensor : manifest.tensors)
    bytes += kRecordBytes + tensor.name.size() + tensor.kinds() * tensor.blocks() * 8;
  return bytes;
}

std::vector<std::byte> serialize(const Manifest& manifest) {
  std::vector<std::byte> bytes(kHeaderBytes);
  bytes.reserve(serialized_bytes(manifest));
  append(bytes, manifest.user.data(), manifest.user.size());
  for (const CheckpointTensor& tensor : manifest.tensors) append_tensor(bytes, tensor);
  const Header header = header_of(manifest, ConstBytes(bytes).subspan(kHeaderBytes));
  std::memcpy(bytes.data(), &header, sizeof(header));
  return bytes;
}

Result<Manifest> parse(ConstBytes bytes, std::string_view where) {
  Result<Manifest> manifest = parse_bytes(bytes);
  if (!manifest.ok()) return manifest.status().with(where);
  return manifest;
}

void RunChecksums::update(ConstBytes bytes) {
  while (!bytes.empty()) {
    const std::size_t size = std::min<std::uint64_t>(bytes.size(), kBlockBytes - in_block_);
    block_.update(bytes.first(size));
    in_block_ += size;
    bytes = bytes.subspan(size);
    if (in_block_ == kBlockBytes) end_block();
  }
}

std::uint64_t RunChecksums::bytes() const noexcept { return done_ * kBlockBytes + in_block_; }

void RunChecksums::finish() {
  if (in_block_ != 0) end_block();
  HEADRACE_CHECK(done_ == sums_->size());
}

void RunChecksums::end_block() {
  HEADRACE_CHECK(done_ < sums_->size());
  (*sums_)[done_++] = block_.digest();
  block_.reset();
  in_block_ = 0;
}

}  // namespace headrace
