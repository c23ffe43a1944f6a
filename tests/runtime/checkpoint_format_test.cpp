#include "runtime/checkpoint_format.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>

#include "tests/runtime/manifest_bytes.h"

namespace headrace {
namespace {

std::vector<std::byte> bytes_of(std::string_view text) {
  const ConstBytes bytes = std::as_bytes(std::span(text.data(), text.size()));
  return {bytes.begin(), bytes.end()};
}

CheckpointTensor tensor(std::string name, std::uint64_t count, bool trainable,
                        ScalarType param = ScalarType::bf16) {
  CheckpointTensor made;
  made.name = std::move(name);
  made.param = param;
  made.trainable = trainable;
  made.count = count;
  return made;
}

// wte: 3 kinds of 2 blocks; ln: 3 of 1; frozen: 1 of 1; empty: none.
Manifest sample() {
  std::vector<CheckpointTensor> tensors = {
      tensor("wte", 300'000, true), tensor("ln.weight", 5, true, ScalarType::fp32),
      tensor("frozen", 1000, false, ScalarType::fp16), tensor("empty", 0, true)};
  tensors[0].step = 17;
  Manifest manifest = plan_manifest(std::move(tensors), bytes_of("step 17")).value();
  std::uint64_t sum = 0x1111;
  for (CheckpointTensor& each : manifest.tensors)
    for (auto& run : each.checksums)
      for (std::uint64_t& value : run) value = sum += 0x0101'0101'0101;
  manifest.generation = 9;
  return manifest;
}

// Where the fields of the sample's tensors lie.
constexpr std::size_t kFirstAt = kBodyAt + 7, kCountAt = kFirstAt, kNameBytesAt = kFirstAt + 16,
                      kParamAt = kFirstAt + 20, kTrainableAt = kFirstAt + 21,
                      kZeroAt = kFirstAt + 22, kNameAt = kFirstAt + 24,
                      kSecondAt = kNameAt + 3 + 6 * 8, kSecondNameAt = kSecondAt + 24;

void expect_equal(const Manifest& a, const Manifest& b) {
  EXPECT_EQ(a.generation, b.generation);
  EXPECT_EQ(a.data_bytes, b.data_bytes);
  EXPECT_EQ(a.user, b.user);
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (std::size_t i = 0; i < a.tensors.size(); ++i) {
    const CheckpointTensor &x = a.tensors[i], &y = b.tensors[i];
    EXPECT_EQ(x.name, y.name);
    EXPECT_EQ(x.param, y.param);
    EXPECT_EQ(x.trainable, y.trainable);
    EXPECT_EQ(x.count, y.count);
    EXPECT_EQ(x.step, y.step);
    EXPECT_EQ(x.offsets, y.offsets);
    EXPECT_EQ(x.checksums, y.checksums);
  }
}

TEST(CheckpointFormat, LaysRunsOutWithoutOverlapAtMultiplesOf4096) {
  const Manifest manifest = sample();
  std::uint64_t end = 0;
  for (const CheckpointTensor& each : manifest.tensors) {
    for (std::size_t kind = 0; kind < each.kinds(); ++kind) {
      EXPECT_EQ(each.offsets[kind] % kRunAlignment, 0u);
      EXPECT_GE(each.offsets[kind], end);
      EXPECT_LT(each.offsets[kind], end + kRunAlignment);
      end = each.offsets[kind] + each.run_bytes();
    }
  }
  EXPECT_EQ(manifest.data_bytes, round_up(end, kRunAlignment));
  EXPECT_EQ(manifest.tensors[1].offset(Kind::exp_avg),
            3 * round_up(300'000 * 4, 4096) + kRunAlignment);
  EXPECT_EQ(manifest.tensors[0].checksums[0].size(), 2u);
  EXPECT_TRUE(manifest.tensors[2].checksums[1].empty());
}

TEST(CheckpointFormat, ComesBackAsItWas) {
  const Manifest manifest = sample();
  const std::vector<std::byte> bytes = serialize(manifest);
  EXPECT_EQ(bytes.size(), serialized_bytes(manifest));
  const Result<Manifest> back = parse(bytes, "sample");
  ASSERT_TRUE(back.ok()) << back.status().to_string();
  expect_equal(*back, manifest);
}

TEST(CheckpointFormat, AnEmptyModelIsAModel) {
  const Manifest manifest = plan_manifest({}, {}).value();
  EXPECT_EQ(manifest.data_bytes, 0u);
  const Result<Manifest> back = parse(serialize(manifest), "empty");
  ASSERT_TRUE(back.ok()) << back.status().to_string();
  EXPECT_TRUE(back->tensors.empty());
}

TEST(CheckpointFormat, PlanRefusesWhatCannotBe) {
  EXPECT_EQ(plan_manifest({tensor("", 1, true)}, {}).status().code(), Code::invalid);
  EXPECT_EQ(plan_manifest({tensor("a\nb", 1, true)}, {}).status().code(), Code::invalid);
  EXPECT_EQ(plan_manifest({tensor("a", 1, true), tensor("a", 2, true)}, {}).status().code(),
            Code::invalid);
  EXPECT_EQ(plan_manifest({tensor("a", kMaxElements + 1, true)}, {}).status().code(),
            Code::invalid);
  EXPECT_EQ(plan_manifest({tensor("a", kMaxElements, true)}, {}).status().code(), Code::invalid);
  EXPECT_EQ(plan_manifest({}, std::vector<std::byte>(kMaxUserBytes + 1)).status().code(),
            Code::invalid);
  EXPECT_TRUE(plan_manifest({}, std::vector<std::byte>(kMaxUserBytes)).ok());
}

TEST(CheckpointFormat, NamesAreUtf8WithoutControls) {
  for (const std::string good : {"a", "h.0.attn", "gewicht \xc3\xa4", "\xe2\x82\xac",
                                 "\xf0\x9f\x90\x9f", "\xef\xbf\xbd", "\xf4\x8f\xbf\xbf"})
    EXPECT_TRUE(valid_tensor_name(good)) << good;
  for (const std::string& bad :
       {std::string(), std::string("a\0b", 3), std::string("\x1b[2J"), std::string("\x7f"),
        std::string("\x80"), std::string("\xc3"), std::string("\xc0\xaf"),
        std::string("\xe0\x80\xaf"), std::string("\xed\xa0\x80"), std::string("\xf0\x80\x80\x80"),
        std::string("\xf4\x90\x80\x80"), std::string("\xf8\x88\x80\x80\x80"),
        std::string("\xe2\x82"), std::string("\xc2\x9b"), std::string(4097, 'x')})
    EXPECT_FALSE(valid_tensor_name(bad)) << bad;
}

using Mutation = std::function<void(std::vector<std::byte>&)>;

struct Hostile {
  const char* field;  // named in the message
  Mutation change;
  Code code = Code::corrupt;
};

template <class T>
Mutation set(std::size_t at, T value) {
  return [=](std::vector<std::byte>& bytes) { put(bytes, at, value); };
}
Mutation u8(std::size_t at, int value) { return set(at, static_cast<std::uint8_t>(value)); }
Mutation u16(std::size_t at, int value) { return set(at, static_cast<std::uint16_t>(value)); }
Mutation u32(std::size_t at, std::uint32_t value) { return set(at, value); }
Mutation u64(std::size_t at, std::uint64_t value) { return set(at, value); }

// The second tensor gets the first one's name.
void name_twice(std::vector<std::byte>& bytes) {
  put(bytes, kSecondAt + 16, std::uint32_t{3});
  std::memcpy(bytes.data() + kSecondNameAt, "wte", 3);
  bytes.erase(bytes.begin() + kSecondNameAt + 3, bytes.begin() + kSecondNameAt + 9);
  put(bytes, kBodyBytesAt, get(bytes, kBodyBytesAt) - 6);
}

// One field wrong; every checksum but its own right.
const std::vector<Hostile> kHostileHeaders = {
    {"HEADRACE", u8(0, 'h')},
    {"version is 0", u32(kVersionAt, 0)},
    {"version is 2", u32(kVersionAt, 2), Code::unavailable},
    {"tensors", u32(kTensorsAt, 0xffffffff)},
    {"tensor 4", u32(kTensorsAt, 5)},
    {"body_bytes", u32(kTensorsAt, 3)},
    {"body_bytes", u64(kBodyBytesAt, ~0ull)},
    {"body_bytes", u64(kBodyBytesAt, kMaxManifestBytes + 1)},
    {"body_bytes", [](auto& bytes) { bytes.pop_back(); }},
    {"body_bytes", [](auto& bytes) { bytes.push_back(std::byte{0}); }},
    {"user_bytes", u64(kUserBytesAt, kMaxUserBytes + 1)},
    {"user_bytes", u64(kUserBytesAt, ~0ull)},
    {"generation", u64(kGenerationAt, 0)},
    {"generation", u64(kGenerationAt, kMaxGeneration + 1)},
    {"data_bytes", u64(kDataBytesAt, 4096)},
    {"data_bytes", u64(kDataBytesAt, ~0ull)},
};
const std::vector<Hostile> kHostileRecords = {
    {"count", u64(kCountAt, ~0ull)},
    {"count", u64(kCountAt, kMaxElements)},
    {"data_bytes", u64(kCountAt, 300'000 + 4096)},
    {"name_bytes", u32(kNameBytesAt, 0)},
    {"name_bytes", u32(kNameBytesAt, 4097)},
    {"name_bytes", u32(kNameBytesAt, 0xffffffff)},
    {"param", u8(kParamAt, 3)},
    {"trainable", u8(kTrainableAt, 2)},
    {"zero", u16(kZeroAt, 1)},
    {"name", u8(kNameAt, 0xff)},
    {"name", u8(kNameAt, '\n')},
    {"name wte", name_twice},
};

void expect_refused(const Hostile& each) {
  std::vector<std::byte> bytes = serialize(sample());
  each.change(bytes);
  seal_body(bytes);
  seal_header(bytes);
  const Status status = parse(bytes, "checkpoint/manifest").status();
  EXPECT_EQ(status.code(), each.code) << each.field << ": " << status.to_string();
  EXPECT_NE(status.message().find(each.field), std::string::npos) << status.to_string();
  EXPECT_TRUE(status.message().starts_with("checkpoint/manifest: ")) << status.to_string();
}

TEST(CheckpointFormat, EachHostileFieldIsRefusedByName) {
  for (const Hostile& each : kHostileHeaders) expect_refused(each);
  for (const Hostile& each : kHostileRecords) expect_refused(each);
}

TEST(CheckpointFormat, BothChecksumsAreChecked) {
  std::vector<std::byte> bytes = serialize(sample());
  put(bytes, kGenerationAt, std::uint64_t{10});
  EXPECT_NE(parse(bytes, "m").status().message().find("header_checksum"), std::string::npos);
  seal_header(bytes);
  EXPECT_TRUE(parse(bytes, "m").ok());
  bytes.back() ^= std::byte{1};
  EXPECT_NE(parse(bytes, "m").status().message().find("body_checksum"), std::string::npos);
}

TEST(CheckpointFormat, EveryTruncationIsRefused) {
  const std::vector<std::byte> bytes = serialize(sample());
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_EQ(parse(ConstBytes(bytes).first(size), "m").status().code(), Code::corrupt) << size;
}

TEST(CheckpointFormat, RandomDamageIsRefused) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const std::vector<std::byte> whole = serialize(sample());
  for (int round = 0; round < 500; ++round) {
    std::vector<std::byte> bytes = whole;
    for (std::uint64_t flips = 1 + random() % 4; flips > 0; --flips)
      bytes[random() % bytes.size()] ^= static_cast<std::byte>(1 + random() % 255);
    if (bytes == whole) continue;
    if (random() % 4 == 0) bytes.resize(random() % bytes.size());
    const Code code = parse(bytes, "m").status().code();
    EXPECT_TRUE(code == Code::corrupt || code == Code::unavailable) << round;
  }
}

// Somebody who computes the checksums again gets a typed error, or a manifest that says exactly
// what the bytes say.
TEST(CheckpointFormat, RandomDamageUnderRightChecksumsIsNeverBelievedHalfway) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const std::vector<std::byte> whole = serialize(sample());
  int accepted = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::byte> bytes = whole;
    for (std::uint64_t flips = 1 + random() % 3; flips > 0; --flips)
      bytes[random() % bytes.size()] ^= static_cast<std::byte>(1 + random() % 255);
    seal_body(bytes);
    seal_header(bytes);
    const Result<Manifest> manifest = parse(bytes, "m");
    if (!manifest.ok()) continue;
    ++accepted;
    EXPECT_EQ(serialize(*manifest), bytes) << round;
  }
  EXPECT_GT(accepted, 0);  // a flipped checksum or user byte passes, so the property was tested
}

TEST(CheckpointFormat, RunChecksumsAreThoseOfEachBlock) {
  constexpr std::size_t kBlock = kBlockElements * 4;
  std::vector<std::byte> run(2 * kBlock + 1234);
  std::mt19937_64 random(3);
  for (std::byte& byte : run) byte = static_cast<std::byte>(random());
  const std::vector<std::uint64_t> expected = {checksum(ConstBytes(run).first(kBlock)),
                                               checksum(ConstBytes(run).subspan(kBlock, kBlock)),
                                               checksum(ConstBytes(run).subspan(2 * kBlock))};
  for (const std::size_t piece : {run.size(), kBlock, std::size_t{77'777}}) {
    std::vector<std::uint64_t> sums(3);
    RunChecksums checksums(sums);
    for (std::size_t at = 0; at < run.size(); at += piece)
      checksums.update(ConstBytes(run).subspan(at, std::min(piece, run.size() - at)));
    checksums.finish();
    EXPECT_EQ(sums, expected) << piece;
  }
}

}  // namespace
}  // namespace headrace
