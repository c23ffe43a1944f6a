// Saves that end at any of their calls, on a simulated drive.
#include "runtime/checkpoint_folder.h"

#include "tests/runtime/failing_engine.h"
#include "tests/runtime/saved_checkpoint.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;

// On the simulated drive; its calls are recorded, and fail when told to.
class CheckpointCalls : public testing::Test {
 protected:
  CheckpointCalls() {
    SimulationOptions options;
    options.disk_bytes = 16 * kMiB;
    options.wrap_engine = [this](std::unique_ptr<IoEngine> inner, Clock&) {
      return std::make_unique<FailingEngine>(std::move(inner), script_);
    };
    platform_ = Platform::simulate(options);
    queue_ = platform_->queue_for("/disk").value();
  }

  Status save_number(std::uint64_t number) {
    return save(*platform_, *queue_, folder_, small_checkpoint(number));
  }
  std::optional<std::uint64_t> number() { return number_of(*platform_, *queue_, folder_); }
  Entry entry(const fs::path& path) { return queue_->folders().look(path).value(); }
  std::uint64_t free_space() { return queue_->folders().free_bytes("/disk").value(); }

  // A fresh folder with `saves` whole checkpoints, one after the other.
  void prepare(std::uint64_t saves);
  // From `saves` whole checkpoints on, the next save fails at each of its calls, as `how` says;
  // then the folder is looked at, and saved to once more.
  void fail_at_every_call(std::uint64_t saves, const FailureScript& how);
  void fail_at(std::size_t call, std::uint64_t saves, const FailureScript& how);
  std::uint64_t number_in_folder();  // saves that were whole there, this one too
  // The folder after a save that failed.
  void expect_absent_or_whole(std::uint64_t saves, const std::string& at);

  const std::shared_ptr<FailureScript> script_ = std::make_shared<FailureScript>();
  std::unique_ptr<Platform> platform_;
  IoQueue* queue_ = nullptr;
  int runs_ = 0;
  fs::path folder_;
};

TEST_F(CheckpointCalls, AFirstSaveIsMadeAsideAndRenamedWhenAllOfItIsOnTheDrive) {
  prepare(0);
  ASSERT_TRUE(save_number(1).ok());
  const std::vector<std::string> calls = {"make folder .ckpt.saving",
                                          "create data-0000000000000001",
                                          "write data-0000000000000001",
                                          "write data-0000000000000001",
                                          "write data-0000000000000001",
                                          "write data-0000000000000001",
                                          "sync data-0000000000000001",
                                          "create manifest",
                                          "write manifest",
                                          "sync manifest",
                                          "sync folder .ckpt.saving",
                                          "rename to ckpt",
                                          "sync folder run0"};
  EXPECT_EQ(script_->calls, calls);
  EXPECT_EQ(number(), 1u);
}

TEST_F(CheckpointCalls, ALaterSaveReplacesTheManifestAndKeepsTheOldDataForTheNextOne) {
  prepare(1);
  const std::uint64_t free = free_space();
  ASSERT_TRUE(save_number(2).ok());
  const std::vector<std::string> calls = {"create data-0000000000000002",
                                          "write data-0000000000000002",
                                          "write data-0000000000000002",
                                          "write data-0000000000000002",
                                          "write data-0000000000000002",
                                          "sync data-0000000000000002",
                                          "create manifest.new",
                                          "write manifest.new",
                                          "sync manifest.new",
                                          "sync folder ckpt",
                                          "rename to manifest",
                                          "sync folder ckpt",
                                          "rename to data-0000000000000003"};
  EXPECT_EQ(script_->calls, calls);
  EXPECT_EQ(number(), 2u);
  EXPECT_EQ(free_space(), free - small_checkpoint(2).manifest.data_bytes);
}

TEST_F(CheckpointCalls, AThirdSaveWritesOverTheDataOfTheFirst) {
  prepare(2);
  const std::uint64_t free = free_space();
  ASSERT_TRUE(save_number(3).ok());
  EXPECT_EQ(script_->calls.front(), "overwrite data-0000000000000003");
  EXPECT_EQ(script_->calls.back(), "rename to data-0000000000000004");
  EXPECT_EQ(number(), 3u);
  EXPECT_EQ(free_space(), free);
}

TEST_F(CheckpointCalls, DataOfAnotherSizeIsNotWrittenOver) {
  prepare(2);
  const SampleCheckpoint other = sample_checkpoint(3);
  ASSERT_TRUE(save(*platform_, *queue_, folder_, other).ok());
  EXPECT_EQ(script_->calls.at(1), "remove data-0000000000000003");
  EXPECT_EQ(script_->calls.at(2), "create data-0000000000000003");
  const CheckpointReader reader = CheckpointReader::open(*platform_, *queue_, folder_).value();
  std::vector<std::byte> data(reader.manifest().data_bytes);
  ASSERT_TRUE(platform_->wait(queue_->read(reader.data(), 0, data), kForever).ok());
  EXPECT_EQ(data, other.data);
}

void CheckpointCalls::expect_absent_or_whole(std::uint64_t saves, const std::string& at) {
  const std::optional<std::uint64_t> found = number();
  if (saves > 0 || found) {
    EXPECT_TRUE(found == saves || found == saves + 1) << at << ": save " << found.value_or(0);
  } else {
    EXPECT_EQ(entry(folder_), Entry::nothing) << at;
  }
}

std::uint64_t CheckpointCalls::number_in_folder() {
  return CheckpointReader::open(*platform_, *queue_, folder_)->manifest().generation;
}

void CheckpointCalls::prepare(std::uint64_t saves) {
  const fs::path run = fmt::format("/disk/run{}", runs_++);
  script_->reset();
  folder_ = run / "ckpt";
  ASSERT_TRUE(platform_->queue_for(run).ok());
  for (std::uint64_t number = 1; number <= saves; ++number) ASSERT_TRUE(save_number(number).ok());
  script_->reset();
}

void CheckpointCalls::fail_at(std::size_t call, std::uint64_t saves, const FailureScript& how) {
  const std::uint64_t free = free_space();
  prepare(saves);
  *script_ = how;
  script_->first = call;
  const Status failed = save_number(saves + 1);
  const std::string at = fmt::format("call {}, {}", call, script_->calls.at(call));
  script_->reset();
  EXPECT_TRUE(failed.ok() || failed.message().find("ckpt") != std::string_view::npos) << at;
  expect_absent_or_whole(saves, at);
  ASSERT_TRUE(save_number(9).ok()) << at;
  EXPECT_EQ(number(), 9u) << at;
  const Manifest whole = small_checkpoint(9).manifest;  // and nothing is left of the failed save
  const bool spare = number_in_folder() > 1;
  EXPECT_EQ(free - free_space(), (spare ? 2 : 1) * whole.data_bytes + serialized_bytes(whole))
      << at;
}

void CheckpointCalls::fail_at_every_call(std::uint64_t saves, const FailureScript& how) {
  prepare(saves);
  ASSERT_TRUE(save_number(saves + 1).ok());
  const std::size_t calls = script_->calls.size();
  EXPECT_GT(calls, 10u);
  for (std::size_t call = 0; call < calls; ++call) fail_at(call, saves, how);
}

TEST_F(CheckpointCalls, KilledAnywhereInAFirstSaveTheFolderIsAbsentOrWhole) {
  fail_at_every_call(0, {});
}
TEST_F(CheckpointCalls, KilledAnywhereInASecondSaveTheFolderIsWhole) { fail_at_every_call(1, {}); }
TEST_F(CheckpointCalls, KilledAnywhereInAThirdSaveTheFolderIsWhole) { fail_at_every_call(2, {}); }
TEST_F(CheckpointCalls, KilledAnywhereInAFourthSaveTheFolderIsWhole) { fail_at_every_call(3, {}); }

TEST_F(CheckpointCalls, OneFailedCallLeavesTheFolderAbsentOrWhole) {
  FailureScript once;
  once.count = 1;
  for (const std::uint64_t saves : {0, 1, 2}) fail_at_every_call(saves, once);
}

TEST_F(CheckpointCalls, ACallThatFailsAfterTheFactLeavesTheFolderAbsentOrWhole) {
  FailureScript late;
  late.after_the_fact = true;
  for (const std::uint64_t saves : {0, 1, 2}) fail_at_every_call(saves, late);
}

TEST_F(CheckpointCalls, AFailedSaveRemovesWhatItWrote) {
  prepare(1);
  const std::uint64_t free = free_space();
  script_->first = 5;  // the sync of the data
  script_->count = 1;
  EXPECT_EQ(save_number(2).code(), Code::io);
  EXPECT_EQ(free_space(), free);
  EXPECT_EQ(number(), 1u);
}

TEST_F(CheckpointCalls, AWriterThatIsDroppedLeavesNothing) {
  prepare(0);
  const std::uint64_t free = free_space();
  {
    const auto writer =
        CheckpointWriter::create(*platform_, *queue_, folder_, small_checkpoint(1).manifest);
    ASSERT_TRUE(writer.ok());
    EXPECT_EQ(entry(folder_.parent_path() / ".ckpt.saving"), Entry::folder);
  }
  EXPECT_EQ(entry(folder_.parent_path() / ".ckpt.saving"), Entry::nothing);
  EXPECT_EQ(entry(folder_), Entry::nothing);
  EXPECT_EQ(free_space(), free);
}

TEST_F(CheckpointCalls, ASaveWithoutRoomFailsBeforeItWritesAndNamesBothSizes) {
  prepare(1);
  const std::uint64_t free = free_space();
  SampleCheckpoint large;
  large.manifest = plan_manifest({tensor_of("a", 5'000'000, false)}, {}).value();
  const Status how = save(*platform_, *queue_, folder_, large);
  EXPECT_EQ(how.code(), Code::out_of_space);
  for (const std::uint64_t bytes : {large.manifest.data_bytes, free})
    EXPECT_NE(how.message().find(format_bytes(bytes)), std::string_view::npos) << how.message();
  EXPECT_TRUE(script_->calls.empty());
  EXPECT_EQ(number(), 1u);
  EXPECT_TRUE(save_number(2).ok());
}

TEST_F(CheckpointCalls, AnOpenCheckpointStaysReadableWhenItIsReplaced) {
  prepare(1);
  const CheckpointReader reader = CheckpointReader::open(*platform_, *queue_, folder_).value();
  for (const std::uint64_t number : {2, 3, 4}) {
    ASSERT_TRUE(save_number(number).ok());
    std::vector<std::byte> data(reader.manifest().data_bytes);
    ASSERT_TRUE(platform_->wait(queue_->read(reader.data(), 0, data), kForever).ok());
    EXPECT_EQ(data, small_checkpoint(1).data) << "after save " << number;
  }
}

TEST_F(CheckpointCalls, AnEmptyModelIsSavedToo) {
  prepare(0);
  const SampleCheckpoint empty{plan_manifest({}, {}).value(), {}};
  ASSERT_TRUE(save(*platform_, *queue_, folder_, empty).ok());
  EXPECT_TRUE(CheckpointReader::open(*platform_, *queue_, folder_)->manifest().tensors.empty());
}

TEST_F(CheckpointCalls, AWaitHasADeadline) {
  prepare(0);
  const Manifest empty = plan_manifest({}, {}).value();
  Result<CheckpointWriter> writer =
      CheckpointWriter::create(*platform_, *queue_, folder_, empty, {.deadline = Nanoseconds(0)});
  ASSERT_TRUE(writer.ok());
  const Status how = writer->commit(empty);
  EXPECT_EQ(how.code(), Code::timeout) << how.to_string();
  EXPECT_FALSE(number());
}

}  // namespace
}  // namespace headrace
