// Saving and loading by the engine: from any placement to any other, with the same bits, and with
// the run that goes on as if it had not stopped.
#include "runtime/checkpoint.h"

#include <algorithm>
#include <fstream>

#include "tests/support/temporary_folder.h"
#include "tests/runtime/checkpoint_files.h"
#include "tests/runtime/faulty_model.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;
using namespace small;
using std::chrono::seconds;

std::vector<std::byte> some_bytes(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7);
  return bytes;
}

// An engine that has been somewhere else: other weights, other moments, other frozen values.
std::unique_ptr<Engine> strayed(Platform& platform, EngineOptions options) {
  auto engine = Engine::open(platform, std::move(options)).value();
  EXPECT_TRUE(build(*engine).ok());
  EXPECT_TRUE(train(*engine, 40, 42).ok());
  const auto other = values(700, 99);
  EXPECT_TRUE(engine->write(kFrozen, Kind::master, {0, 700}, view_of(std::span(other))).ok());
  return engine;
}

// The values of the third tensor.
Result<std::vector<float>> third_of(Engine& engine, std::uint64_t count) {
  std::vector<float> found(count);
  HEADRACE_TRY(engine.read(TensorId{2}, Kind::master, {0, count}, view_of(std::span(found))));
  return found;
}

struct Stop {
  Setting setting;
  std::uint64_t shard_bytes;
  int slots;
};

const std::array kStops = {
    Stop{{GroundKind::simulated, Place::dram, StateFormat::fp32}, 64 * kKiB, 2},
    Stop{{GroundKind::simulated, Place::nvme, StateFormat::split}, 100'001, 5},
    Stop{{GroundKind::simulated, Place::nvme, StateFormat::fp32}, 30'000, 2},
    Stop{{GroundKind::simulated, Place::hbm, StateFormat::split}, 1, 3},
    Stop{{GroundKind::simulated, Place::mixed, StateFormat::split}, 48 * kKiB, 3},
};

EngineOptions options_at(const Stop& place, const fs::path& folder) {
  EngineOptions options = options_of(place.setting, folder);
  options.shard_bytes = place.shard_bytes;
  options.slots = place.slots;
  options.threads = place.slots % 3 + 1;
  return options;
}

// Saves in the shadow of the third step, loads elsewhere, and goes on on both sides.
void expect_goes_on(Engine& from, Engine& to, const fs::path& folder) {
  const auto extra = some_bytes(12'345);
  ASSERT_TRUE(train(from, 0, 3).ok());
  const Status saved = from.save(folder, extra);
  ASSERT_TRUE(saved.ok()) << saved.to_string();
  ASSERT_TRUE(put(to, kBig, 3).ok());  // dropped by the load
  const Result<std::vector<std::byte>> loaded = to.load(folder);
  ASSERT_TRUE(loaded.ok()) << loaded.status().to_string();
  EXPECT_EQ(*loaded, extra);
  EXPECT_FALSE(to.step(step_options()).value().applied);
  EXPECT_EQ(to.state_hash().value(), from.state_hash().value());
  EXPECT_EQ(hash(to).value(), hash(from).value());
  EXPECT_EQ(small::steps_of(to), small::steps_of(from));
  for (Engine* engine : {&from, &to}) ASSERT_TRUE(train(*engine, 3, 5).ok());
  EXPECT_EQ(hash(to).value(), hash(from).value());
}

TEST(Checkpoint, GoesFromAnyPlacementToAnyOtherAndOn) {
  for (const Stop& here : kStops)
    for (const Stop& there : kStops) {
      SCOPED_TRACE(small::name_of(here.setting) + " to " + small::name_of(there.setting));
      const auto platform = Platform::simulate();
      const auto from = Engine::open(*platform, options_at(here, "/disk0")).value();
      ASSERT_TRUE(build(*from).ok());
      const auto to = strayed(*platform, options_at(there, "/disk1"));
      expect_goes_on(*from, *to, "/disk0/checkpoint");
    }
}

TEST(Checkpoint, GoesThroughRealDrivesToo) {
  for (const GroundKind kind : {GroundKind::posix, GroundKind::uring}) {
    Ground ground(kind);
    if (!ground.missing().empty()) continue;
    const EngineOptions options = options_of({kind, Place::nvme}, ground.folder(0));
    const auto from = Engine::open(ground.platform(), options).value();
    ASSERT_TRUE(build(*from).ok());
    Ground other(GroundKind::posix);
    const auto to = strayed(other.platform(), options_of({.place = Place::dram}, ""));
    expect_goes_on(*from, *to, ground.root() / "checkpoint");
  }
}

TEST(Checkpoint, ASlashAtTheEndOfANewFolderChangesNothing) {
  const TemporaryFolder folder;
  const auto platform = Platform::open().value();
  const auto engine = Engine::open(*platform, {.state = StateHome::dram}).value();
  ASSERT_TRUE(build(*engine).ok());
  const Status saved = engine->save(folder.path() / "new" / "");
  ASSERT_TRUE(saved.ok()) << saved.to_string();
  EXPECT_TRUE(engine->load(folder.path() / "new").ok());
}

// Tensors of many blocks of the file, cut by shards of some megabytes: with four slots one is the
// save's to load into, one is cut into blocks.
TEST(Checkpoint, LargeShardsPassThroughTheSlotsToo) {
  const auto with = [](int slots, StateHome state) {
    EngineOptions options{.state = state, .shard_bytes = 2 * kMiB + 5'000, .slots = slots};
    if (state == StateHome::nvme) options.nvme_paths = {"/disk0"};
    options.threads = 1;
    return options;
  };
  const auto platform = Platform::simulate();
  const auto open = [&](const EngineOptions& options) {
    auto engine = Engine::open(*platform, options).value();
    EXPECT_TRUE(engine->add({.name = "big", .count = 900'003}).ok());
    EXPECT_TRUE(engine->add({.name = "norm", .count = 77, .param = ScalarType::fp32}).ok());
    EXPECT_TRUE(engine->add({.name = "frozen", .count = 300'001, .trainable = false}).ok());
    EXPECT_TRUE(engine->seal().ok());
    return engine;
  };
  const auto from = values(900'003, 5), other = values(300'001, 6);
  for (const int slots : {2, 4}) {
    const auto engine = open(with(slots, StateHome::nvme));
    for (const Kind kind : {Kind::master, Kind::exp_avg, Kind::exp_avg_sq})
      ASSERT_TRUE(engine->write(TensorId{0}, kind, {0, 900'003}, view_of(std::span(from))).ok());
    ASSERT_TRUE(
        engine->write(TensorId{2}, Kind::master, {0, 300'001}, view_of(std::span(other))).ok());
    const Status how = engine->save("/disk0/checkpoint");
    ASSERT_TRUE(how.ok()) << how.to_string();
    const auto there = open(with(2, StateHome::dram));
    ASSERT_TRUE(there->load("/disk0/checkpoint").ok());
    EXPECT_EQ(there->state_hash().value(), engine->state_hash().value()) << slots;
    EXPECT_EQ(third_of(*there, 300'001).value(), third_of(*engine, 300'001).value());
  }
}

TEST(Checkpoint, SavingAndLoadingAllocateNothing) {
  const auto platform = Platform::simulate();
  const auto engine = strayed(*platform, options_of({.place = Place::nvme}, "/disk0"));
  const std::uint64_t held = platform->device().use(Home::host).peak;
  ASSERT_TRUE(engine->save("/disk0/checkpoint").ok());
  ASSERT_TRUE(engine->load("/disk0/checkpoint").ok());
  EXPECT_EQ(platform->device().use(Home::host).peak, held);
}

// On the simulated platform device memory can be looked at.
TEST(Checkpoint, LeasesShowWhatWasLoaded) {
  for (const ParamHome params : {ParamHome::dram, ParamHome::hbm, ParamHome::streamed}) {
    const auto platform = Platform::simulate();
    EngineOptions options = options_of({.place = Place::nvme}, "/disk0");
    options.params = params;
    const auto engine = Engine::open(*platform, options).value();
    ASSERT_TRUE(build(*engine).ok());
    ASSERT_TRUE(engine->save("/disk0/checkpoint").ok());
    const auto expected = bytes_of(*engine, kTable, Kind::param).value();
    const auto frozen = bytes_of(*engine, kFrozen, Kind::param).value();
    const auto other = strayed(*platform, options);
    for (const std::uint32_t unit : {0U, 1U, 3U})
      ASSERT_TRUE(other->wait(other->acquire(UnitId{unit}).value().ready()).ok());
    ASSERT_TRUE(other->load("/disk0/checkpoint").ok());
    for (const auto& [tensor, bytes] :
         {std::pair(kTable, expected), std::pair(kTied, expected), std::pair(kFrozen, frozen)}) {
      const Lease lease = other->acquire(spec(tensor).unit).value();
      ASSERT_TRUE(other->wait(lease.ready()).ok());
      const ConstMemView seen = lease.param(tensor);
      EXPECT_TRUE(std::ranges::equal(std::span(seen.data, seen.size), bytes));
    }
  }
}

TEST(Checkpoint, ExtraBytesHaveALimit) {
  const Running running({.place = Place::dram});
  EXPECT_TRUE(running->save("/disk0/checkpoint", some_bytes(kMiB)).ok());
  EXPECT_EQ(running->load("/disk0/checkpoint").value().size(), kMiB);
  EXPECT_EQ(running->save("/disk0/checkpoint", some_bytes(kMiB + 1)).code(), Code::invalid);
  EXPECT_EQ(running->load("/disk0/checkpoint").value().size(), kMiB);
  EXPECT_TRUE(running->save("/disk0/checkpoint").ok());
  EXPECT_TRUE(running->load("/disk0/checkpoint").value().empty());
}

// A tensor changed, left out or added: what the message must name.
struct OtherModel {
  const char* what;
  std::function<void(std::vector<TensorSpec>&)> change;
  const char* mention;
};

TEST(Checkpoint, ACheckpointOfAnotherModelIsRefusedAndChangesNothing) {
  const OtherModel others[] = {
      {"count", [](auto& all) { all[1].count = 301; }, "norm"},
      {"type", [](auto& all) { all[4].param = ScalarType::bf16; }, "half"},
      {"name", [](auto& all) { all[3].name = "large"; }, "large"},
      {"frozen", [](auto& all) { all[4].trainable = false; }, "half"},
      {"one more", [](auto& all) { all.push_back({.name = "more", .count = 5}); }, "more"},
      {"one less", [](auto& all) { all.pop_back(), all.pop_back(); }, "tensors"},
  };
  const auto platform = Platform::simulate();
  const auto saved = strayed(*platform, options_of({.place = Place::dram}, ""));
  ASSERT_TRUE(saved->save("/disk0/checkpoint").ok());
  for (const OtherModel& other : others) {
    const auto engine =
        Engine::open(*platform, options_of({.place = Place::nvme}, "/disk0")).value();
    std::vector<TensorSpec> all = specs();
    other.change(all);
    for (const TensorSpec& spec : all) ASSERT_TRUE(engine->add(spec).ok());
    ASSERT_TRUE(engine->seal().ok());
    const std::uint64_t before = engine->state_hash().value();
    const Status how = engine->load("/disk0/checkpoint").status();
    EXPECT_EQ(how.code(), Code::invalid) << other.what << ": " << how.to_string();
    EXPECT_NE(how.message().find(other.mention), std::string_view::npos) << how.to_string();
    EXPECT_EQ(engine->state_hash().value(), before) << other.what;
  }
}

// Groups, units, kept gradient types and aliases are the program's own business.
TEST(Checkpoint, UnitsGroupsAndOrderMayDiffer) {
  const auto platform = Platform::simulate();
  const auto saved = strayed(*platform, options_of({.place = Place::dram}, ""));
  ASSERT_TRUE(saved->save("/disk0/checkpoint").ok());
  const auto engine = Engine::open(*platform, options_of({.place = Place::nvme}, "/disk0")).value();
  std::vector<TensorSpec> all = specs();
  all.pop_back();  // the alias
  std::ranges::reverse(all);
  for (TensorSpec& spec : all) {
    spec.unit = UnitId{7};
    spec.group = GroupId{0};
    ASSERT_TRUE(engine->add(spec).ok());
  }
  ASSERT_TRUE(engine->seal().ok());
  ASSERT_TRUE(engine->load("/disk0/checkpoint").ok());
  std::vector<float> big(30'000);
  const TensorId there{static_cast<std::uint32_t>(all.size()) - 1 - index_of(kBig)};
  ASSERT_TRUE(engine->read(there, Kind::exp_avg, {0, 30'000}, view_of(std::span(big))).ok());
  EXPECT_EQ(big, floats_of(*saved, kBig, Kind::exp_avg).value());
  EXPECT_EQ(engine->steps_of(there).value(), 2u);
}

// In the master, a moment, a frozen tensor, and the manifest.
TEST(Checkpoint, AFlippedByteIsCorruptAndChangesNothing) {
  const TemporaryFolder folder;
  const fs::path checkpoint = folder.path() / "checkpoint";
  const auto platform = Platform::open({.io = IoBackend::posix}).value();
  const auto saved = strayed(*platform, options_of({.place = Place::dram}, ""));
  ASSERT_TRUE(saved->save(checkpoint).ok());
  const auto engine = strayed(*platform, options_of({.place = Place::dram}, ""));
  ASSERT_TRUE(train(*engine, 7, 8).ok());
  const std::uint64_t before = hash(*engine).value();
  const fs::path data = checkpoint / data_name(1);
  const std::pair<fs::path, std::uint64_t> places[] = {
      {data, 0},                 // table's master
      {data, 20'480 + 5},        // its exp_avg
      {data, 73'728 + 100},      // the frozen tensor
      {data, 77'824 + 119'999},  // the last byte of big's master
      {checkpoint / kManifestName, 100}};
  for (const auto& [file, offset] : places) {
    flip_byte(file, offset);
    const Status how = engine->load(checkpoint).status();
    EXPECT_EQ(how.code(), Code::corrupt) << file << " at " << offset << ": " << how.to_string();
    EXPECT_EQ(hash(*engine).value(), before) << file << " at " << offset;
    flip_byte(file, offset);
  }
  EXPECT_TRUE(engine->load(checkpoint).ok());
  EXPECT_EQ(hash(*engine).value(), hash(*saved).value());
}

}  // namespace
}  // namespace headrace
