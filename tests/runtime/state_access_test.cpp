// Reading and writing the state of single tensors on every tier, against a model of it in the
// test's own memory.
#include "runtime/state_access.h"

#include <algorithm>
#include <random>

#include "optim_cpu/convert.h"
#include "tests/runtime/small_model.h"

namespace headrace {
namespace {

using namespace small;
using Values = std::vector<float>;

class StateAccess : public testing::TestWithParam<Setting> {
 protected:
  void SetUp() override {
    Ground ground(GetParam().ground);
    if (const std::string why = ground.missing(); !why.empty()) GTEST_SKIP() << why;
  }
};

INSTANTIATE_TEST_SUITE_P(Everywhere, StateAccess, testing::ValuesIn(settings()),
                         [](const auto& at) { return name_of(at.param); });

Values rounded(const Values& from, ScalarType type) {
  Values to(from.size());
  std::vector<std::byte> narrow(from.size() * size_of(type));
  convert(narrow.data(), type, std::as_bytes(std::span(from)).data(), ScalarType::fp32, from.size(),
          Team{});
  convert(std::as_writable_bytes(std::span(to)).data(), ScalarType::fp32, narrow.data(), type,
          to.size(), Team{});
  return to;
}

// What a tensor must hold. Parameters as fp32, which holds them exactly.
struct Model {
  explicit Model(TensorId id) : tensor(id), type(spec(id).param), trainable(spec(id).trainable) {
    const std::uint64_t count = spec(id).count;
    for (Values* values : {&kinds[0], &kinds[1], &kinds[2], &kinds[3]}) values->resize(count);
    set(Kind::master, 0, small::values(count, 77 + index_of(id)));
  }

  // As Engine::write says; `from` is already rounded for param.
  void set(Kind kind, std::uint64_t begin, const Values& from) {
    const auto at = static_cast<std::ptrdiff_t>(begin);
    const auto into = [&](Kind k, const Values& what) {
      std::ranges::copy(what, kinds[index_of(k)].begin() + at);
    };
    into(kind, from);
    if (kind == Kind::param) into(Kind::master, from);
    if (kind != Kind::master) return;
    into(Kind::param, rounded(from, type));
    if (!trainable) into(Kind::master, rounded(from, type));
  }

  TensorId tensor;
  ScalarType type;
  bool trainable;
  std::array<Values, 4> kinds;
};

Status write(Engine& engine, const Model& model, Kind kind, std::uint64_t begin,
             const Values& from) {
  const ScalarType type = kind == Kind::param ? model.type : ScalarType::fp32;
  std::vector<std::byte> bytes(from.size() * size_of(type));
  convert(bytes.data(), type, std::as_bytes(std::span(from)).data(), ScalarType::fp32, from.size(),
          Team{});
  return engine.write(model.tensor, kind, {begin, from.size()}, ConstMemView(ConstBytes(bytes)));
}

Values read(Engine& engine, TensorId tensor, ScalarType type, Kind kind, Range range) {
  const ScalarType given = kind == Kind::param ? type : ScalarType::fp32;
  std::vector<std::byte> bytes(range.count * size_of(given));
  const Status how = engine.read(tensor, kind, range, MemView(Bytes(bytes)));
  EXPECT_TRUE(how.ok()) << how.to_string();
  Values values(range.count);
  convert(std::as_writable_bytes(std::span(values)).data(), ScalarType::fp32, bytes.data(), given,
          range.count, Team{});
  return values;
}

Values part_of(const Model& model, Kind kind, Range range) {
  const auto begin = model.kinds[index_of(kind)].begin() + static_cast<std::ptrdiff_t>(range.begin);
  return {begin, begin + static_cast<std::ptrdiff_t>(range.count)};
}

std::vector<Kind> kinds_of(const Model& model) {
  if (!model.trainable) return {Kind::master, Kind::param};
  return {Kind::master, Kind::exp_avg, Kind::exp_avg_sq, Kind::param};
}

void expect_all(Engine& engine, const std::vector<Model>& models) {
  for (const Model& model : models)
    for (const Kind kind : kinds_of(model)) {
      const Range all{0, spec(model.tensor).count};
      EXPECT_EQ(read(engine, model.tensor, model.type, kind, all), model.kinds[index_of(kind)])
          << spec(model.tensor).name << " " << name_of(kind);
    }
}

std::vector<Model> models_of_all() {
  std::vector<Model> models;
  for (std::uint32_t t = 0; t < kTensors; ++t)
    if (!spec(TensorId{t}).alias_of) models.emplace_back(TensorId{t});
  return models;
}

// Random ranges of random kinds, most of them across shards' borders.
TEST_P(StateAccess, WhatIsWrittenIsReadBackAndNothingElseChanges) {
  const std::uint64_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  const Running running(GetParam());
  std::vector<Model> models = models_of_all();
  expect_all(*running, models);
  for (int round = 0; round < 60; ++round) {
    Model& model = models[random() % models.size()];
    const std::vector<Kind> kinds = kinds_of(model);
    const Kind kind = kinds[random() % kinds.size()];
    const std::uint64_t count = spec(model.tensor).count;
    const std::uint64_t begin = random() % (count + 1);
    const Range range{begin, random() % (count - begin + 1)};
    if (random() % 2 == 0) {
      EXPECT_EQ(read(*running, model.tensor, model.type, kind, range), part_of(model, kind, range));
      continue;
    }
    Values from = values(range.count, random());
    if (kind == Kind::param) from = rounded(from, model.type);
    ASSERT_TRUE(write(*running, model, kind, range.begin, from).ok());
    model.set(kind, range.begin, from);
  }
  expect_all(*running, models);
}

TEST_P(StateAccess, AnAliasIsItsRoot) {
  const Running running(GetParam());
  const Values other = values(5'000, 4);
  ASSERT_TRUE(running->write(kTied, Kind::master, {0, 5'000}, view_of(std::span(other))).ok());
  EXPECT_EQ(floats_of(*running, kTable, Kind::master).value(), other);
  EXPECT_EQ(bytes_of(*running, kTable, Kind::param).value(),
            bytes_of(*running, kTied, Kind::param).value());
}

// The slots are filled when the first gradient arrives; a write after it makes them old.
TEST_P(StateAccess, AWriteBetweenGradientAndStepIsSeenByTheUpdate) {
  const Running running(GetParam()), plain({.place = Place::dram});
  for (const Running* each : {&running, &plain}) {
    ASSERT_TRUE(train(**each, 0, 1).ok());
    ASSERT_TRUE(put_all(**each, 1).ok());
    for (const TensorId tensor : {kTable, kNorm, kBig}) {
      const Values other = values(200, index_of(tensor));
      ASSERT_TRUE((*each)->write(tensor, Kind::master, {50, 200}, view_of(std::span(other))).ok());
    }
    ASSERT_TRUE((*each)->step(step_options()).value().applied);
  }
  EXPECT_EQ(hash(*running).value(), hash(*plain).value());
}

// Values between two bf16 or fp16 ones, and what a tie becomes.
TEST(StateAccessBits, MastersAreExactAndParametersTheirRounding) {
  const float tie = 1.00390625F;          // 1 + 2^-8: half way between two bf16
  const float half_tie = 1.00048828125F;  // 1 + 2^-11: half way between two fp16
  for (const StateFormat format : {StateFormat::fp32, StateFormat::split}) {
    const Running running({GroundKind::simulated, Place::nvme, format});
    const Values masters = {tie, -tie, std::nextafter(tie, 0.0F), 1e-42F, 3e38F, half_tie};
    for (const TensorId tensor : {kTable, kHalf, kNorm}) {
      ASSERT_TRUE(running->write(tensor, Kind::master, {7, 6}, view_of(std::span(masters))).ok());
      EXPECT_EQ(read(*running, tensor, spec(tensor).param, Kind::master, {7, 6}), masters);
    }
    const Values wide = read(*running, kTable, ScalarType::bf16, Kind::param, {7, 6});
    EXPECT_EQ(wide[0], 1.0078125F);  // away from zero
    EXPECT_EQ(wide[1], -1.0078125F);
    EXPECT_EQ(wide[2], 1.0F);
    const Values half = read(*running, kHalf, ScalarType::fp16, Kind::param, {7, 6});
    EXPECT_EQ(half[5], 1.0F);  // to even
    EXPECT_EQ(half[4], std::numeric_limits<float>::infinity());
    EXPECT_EQ(read(*running, kNorm, ScalarType::fp32, Kind::param, {7, 6}), masters);
  }
}

TEST(StateAccessBits, AParameterWrittenIsTheMasterToTheLastBit) {
  for (const StateFormat format : {StateFormat::fp32, StateFormat::split}) {
    const Running running({GroundKind::simulated, Place::nvme, format});
    ASSERT_TRUE(train(*running, 0, 2).ok());  // masters with low bits
    Model table(kTable);
    const Values from = rounded(values(3'000, 8), ScalarType::bf16);
    ASSERT_TRUE(write(*running, table, Kind::param, 1'000, from).ok());
    EXPECT_EQ(read(*running, kTable, ScalarType::bf16, Kind::master, {1'000, 3'000}), from);
  }
}

// An infinity stays one, and a NaN stays a NaN.
TEST(StateAccessBits, NonFiniteValuesSurvive) {
  const Running running({GroundKind::simulated, Place::nvme, StateFormat::split});
  const float infinity = std::numeric_limits<float>::infinity();
  const Values masters = {infinity, -infinity, std::numeric_limits<float>::quiet_NaN()};
  ASSERT_TRUE(running->write(kBig, Kind::master, {0, 3}, view_of(std::span(masters))).ok());
  for (const Kind kind : {Kind::master, Kind::param}) {
    const Values back = read(*running, kBig, ScalarType::bf16, kind, {0, 3});
    EXPECT_EQ(back[0], infinity);
    EXPECT_EQ(back[1], -infinity);
    EXPECT_TRUE(std::isnan(back[2]));
  }
}

TEST(StateAccessLeases, AWriteUnderALeaseIsRefusedNamingTheUnit) {
  const Running running({GroundKind::simulated, Place::nvme, StateFormat::split});
  const auto one = values(1, 1);
  const auto written = [&](TensorId tensor) {
    return running->write(tensor, Kind::master, {0, 1}, view_of(std::span(one)));
  };
  const std::uint64_t before = hash(*running).value();
  {
    const Lease lease = running->acquire(UnitId{3}).value();  // holds an alias of unit 0's table
    for (const TensorId tensor : {kTable, kTied}) {
      const Status how = written(tensor);
      EXPECT_EQ(how.code(), Code::invalid);
      EXPECT_NE(how.message().find("unit 3"), std::string_view::npos) << how.to_string();
    }
    EXPECT_EQ(hash(*running).value(), before);
    EXPECT_TRUE(written(kNorm).ok());  // unit 0 itself is not leased
    EXPECT_TRUE(floats_of(*running, kTable, Kind::master).ok());
  }
  EXPECT_TRUE(written(kTable).ok());
}

TEST(StateAccessLeases, AFrozenTensorIsNotWrittenUnderALease) {
  const Running running({GroundKind::simulated, Place::nvme, StateFormat::split});
  const Lease lease = running->acquire(UnitId{1}).value();
  const auto one = values(1, 1);
  EXPECT_EQ(running->write(kFrozen, Kind::master, {0, 1}, view_of(std::span(one))).code(),
            Code::invalid);
}

}  // namespace
}  // namespace headrace
