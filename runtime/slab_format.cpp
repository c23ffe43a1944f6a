#include "runtime/slab_format.h"

#include <fmt/format.h>

#include <array>
#include <cstring>

#include "runtime/checksum.h"

namespace headrace {
namespace {

constexpr std::uint64_t kHeaderMagic = 0x42414c5352485249;  // "IRHRSLAB"
constexpr std::uint64_t kRecordMagic = 0x544d4d4352485249;  // "IRHRCMMT"
constexpr std::uint64_t kVersion = 1;
constexpr std::size_t kHeaderWords = 15;  // the last one is the checksum

std::uint64_t sum_of(std::span<const std::uint64_t> words) {
  return checksum(std::as_bytes(words));
}

// Reads words one after the other; past the end they are 0, and over() is true.
class Reader {
 public:
  explicit Reader(std::span<const std::uint64_t> words) : words_(words) {}
  std::uint64_t next() {
    over_ |= at_ == words_.size();
    return over_ ? 0 : words_[at_++];
  }
  bool over() const { return over_; }

 private:
  std::span<const std::uint64_t> words_;
  std::size_t at_ = 0;
  bool over_ = false;
};

Status other(std::string_view where, std::string_view what, std::uint64_t wanted,
             std::uint64_t found) {
  return Status(Code::invalid,
                fmt::format("{}: it holds another model, or the same with other settings: {} is {} "
                            "there and {} here. Open it as it was made, or remove the file and "
                            "load a checkpoint",
                            where, what, found, wanted));
}

}  // namespace

std::vector<std::byte> serialize(const SlabHeader& header) {
  const SlabIdentity& id = header.identity;
  std::array<std::uint64_t, kHeaderWords> words = {
      kHeaderMagic, kVersion, header.slab, header.index, header.boot, header.pid, id.parameters,
      id.tensors,   id.model, id.format,   id.shards,    id.space,    id.layout,  id.paths};
  words.back() = sum_of(std::span(words).first(kHeaderWords - 1));
  std::vector<std::byte> bytes(kSlabHeaderBytes);
  std::memcpy(bytes.data(), words.data(), sizeof(words));
  return bytes;
}

Result<SlabHeader> parse_slab_header(ConstBytes bytes, std::string_view where) {
  std::array<std::uint64_t, kHeaderWords> words{};
  if (bytes.size() < sizeof(words))
    return Status(Code::corrupt, fmt::format("{}: its header is cut off", where));
  std::memcpy(words.data(), bytes.data(), sizeof(words));
  if (words == decltype(words){})
    return Status(Code::unavailable, fmt::format("{}: nothing was written there yet", where));
  if (words[0] != kHeaderMagic)
    return Status(Code::corrupt,
                  fmt::format("{} is not a headrace slab: choose another folder", where));
  if (words.back() != sum_of(std::span(words).first(kHeaderWords - 1)))
    return Status(Code::corrupt, fmt::format("{}: its header is damaged: remove the file, and load "
                                             "a checkpoint",
                                             where));
  Reader in(words);
  in.next();
  if (const std::uint64_t version = in.next(); version != kVersion)
    return Status(Code::corrupt, fmt::format("{}: version {}, this is a headrace for version {}",
                                             where, version, kVersion));
  SlabHeader header;
  SlabIdentity& id = header.identity;
  for (std::uint64_t* field :
       {&header.slab, &header.index, &header.boot, &header.pid, &id.parameters, &id.tensors,
        &id.model, &id.format, &id.shards, &id.space, &id.layout, &id.paths})
    *field = in.next();
  return header;
}

Status check_same(const SlabIdentity& wanted, const SlabIdentity& found, std::string_view where) {
  const std::array<std::pair<std::string_view, std::uint64_t SlabIdentity::*>, 8> fields = {{
      {"the number of parameters", &SlabIdentity::parameters},
      {"the number of tensors", &SlabIdentity::tensors},
      {"the checksum of the tensors' names, types, units and groups", &SlabIdentity::model},
      {"the state format", &SlabIdentity::format},
      {"the number of shards", &SlabIdentity::shards},
      {"the number of folders", &SlabIdentity::paths},
      {"the space in bytes", &SlabIdentity::space},
      {"the checksum of the shards' places", &SlabIdentity::layout},
  }};
  for (const auto& [name, field] : fields)
    if (wanted.*field != found.*field) return other(where, name, wanted.*field, found.*field);
  return {};
}

std::vector<std::uint64_t> serialize(const CommitRecord& record) {
  std::vector<std::uint64_t> words = {kRecordMagic, record.sequence, record.steps, record.skipped,
                                      record.shards.size()};
  for (const CommittedShard& shard : record.shards) {
    words.insert(words.end(), {shard.generation, shard.epoch, shard.stored ? 1U : 0U});
    words.insert(words.end(), shard.sums.begin(), shard.sums.end());
    words.insert(words.end(), shard.counts.begin(), shard.counts.end());
  }
  words.push_back(sum_of(words));
  return words;
}

std::uint64_t record_words(std::span<const ShardShape> shards) {
  std::uint64_t words = 6;
  for (const ShardShape& shard : shards) words += 3 + shard.blocks + shard.segments;
  return words;
}

Result<CommitRecord> parse_record(std::span<const std::uint64_t> words,
                                  std::span<const ShardShape> shards) {
  const std::uint64_t size = record_words(shards);
  const Status bad(Code::corrupt, "not a whole commit record");
  if (words.size() < size || words[0] != kRecordMagic) return bad;
  if (words[size - 1] != sum_of(words.first(size - 1))) return bad;
  Reader in(words.first(size - 1));
  in.next();
  CommitRecord record{.sequence = in.next(), .steps = in.next(), .skipped = in.next()};
  if (in.next() != shards.size()) return bad;
  for (const ShardShape& shape : shards) {
    CommittedShard& shard = record.shards.emplace_back();
    shard.generation = in.next();
    shard.epoch = in.next();
    shard.stored = in.next() != 0;
    if (shard.generation > 1) return bad;
    for (std::size_t i = 0; i < shape.blocks; ++i) shard.sums.push_back(in.next());
    for (std::size_t i = 0; i < shape.segments; ++i) shard.counts.push_back(in.next());
  }
  if (in.over()) return bad;
  return record;
}

}  // namespace headrace
