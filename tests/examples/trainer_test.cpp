#include "examples/train_gpt/trainer.h"

#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "tests/examples/model_in_memory.h"
#include "tests/support/temporary_folder.h"

namespace train_gpt {
namespace {

using headrace::Platform;
using headrace::StateFormat;
using headrace::StateHome;
using headrace::TemporaryFolder;

constexpr std::uint64_t kSeed = 3;

const Text& text() {
  static const Text shared(testing::patterned_bytes(4000, kSeed));
  return shared;
}

Options small() {
  Options options;
  options.shape = {.layers = 2, .width = 64, .context = 16, .batch = 2};
  options.steps = 6;
  options.seed = kSeed;
  options.accumulate = 2;
  options.state = StateHome::dram;
  options.blas_threads = 1;
  options.threads = 1;
  return options;
}

// State on NVMe in `folder`, but for the slots.
Options on_nvme(const TemporaryFolder& folder) {
  Options options = small();
  options.state = StateHome::nvme;
  options.nvme_folders = {folder.path()};
  options.slots = 2;
  options.dram_bytes = 256 * headrace::kKiB;
  return options;
}

std::unique_ptr<Platform> platform() {
  auto opened = Platform::open();
  EXPECT_TRUE(opened.ok()) << opened.status().to_string();
  return std::move(opened).value();
}

RunReport run(const Options& options, const TrainerHooks& hooks = {}) {
  const auto machine = platform();
  auto trainer = Trainer::open(*machine, options, text());
  EXPECT_TRUE(trainer.ok()) << trainer.status().to_string();
  if (!trainer.ok()) return {};
  const auto trained = (*trainer)->train(hooks);
  const auto saved = (*trainer)->save_last();
  EXPECT_TRUE(saved.ok()) << saved.to_string();
  EXPECT_TRUE(trained.ok()) << trained.to_string();
  auto report = (*trainer)->report();
  EXPECT_TRUE(report.ok()) << report.status().to_string();
  return report.ok() ? *report : RunReport{};
}

std::vector<double> losses(const RunReport& report) {
  std::vector<double> values;
  for (const StepLoss& loss : report.losses) values.push_back(loss.loss);
  return values;
}

TEST(TrainerTest, StateOnNvmeGivesTheBitsOfStateInMemory) {
  const TemporaryFolder folder;
  const RunReport memory = run(small()), disk = run(on_nvme(folder));
  ASSERT_EQ(memory.losses.size(), 6U);
  EXPECT_EQ(losses(memory), losses(disk));
  EXPECT_EQ(memory.state_hash, disk.state_hash);
  EXPECT_GT(disk.stats.nvme_parameters, 0U);
  EXPECT_EQ(memory.stats.nvme_parameters, 0U);
}

TEST(TrainerTest, BothFormatsGiveTheSameBits) {
  const TemporaryFolder folder;
  Options fp32 = on_nvme(folder);
  fp32.format = StateFormat::fp32;
  EXPECT_EQ(run(small()).state_hash, run(fp32).state_hash);
}

TEST(TrainerTest, NvmeBytesPerParameterAreThoseOfTheFormat) {
  const TemporaryFolder folder;
  for (const auto format : {StateFormat::fp32, StateFormat::split}) {
    Options options = on_nvme(folder);
    options.format = format;
    options.save = folder.path() / "checkpoint";  // what a save moves does not count
    options.save_every = 2;
    const RunReport report = run(options);
    const double share = static_cast<double>(report.stats.nvme_parameters) /
                         static_cast<double>(report.stats.padded_parameters);
    EXPECT_GT(share, 0);
    const double bytes = format == StateFormat::fp32 ? 12 : 10;
    EXPECT_DOUBLE_EQ(report.read_per_parameter(), bytes * share);
    EXPECT_DOUBLE_EQ(report.written_per_parameter(), bytes * share);
  }
}

TEST(TrainerTest, AResumedRunEndsLikeAnUninterruptedOne) {
  const TemporaryFolder folder;
  const RunReport whole = run(small());
  Options first = on_nvme(folder);
  first.steps = 4;
  first.save = folder.path() / "checkpoint";
  const RunReport half = run(first);
  EXPECT_NE(half.state_hash, whole.state_hash);
  Options second = small();
  second.resume = first.save;
  const RunReport rest = run(second);
  ASSERT_EQ(rest.losses.size(), 2U);
  EXPECT_EQ(rest.first_step, 5U);
  EXPECT_EQ(rest.losses.back().loss, whole.losses.back().loss);
  EXPECT_EQ(rest.state_hash, whole.state_hash);
}

TEST(TrainerTest, AnInterruptEndsTheStepAndSaves) {
  const TemporaryFolder folder;
  Options options = small();
  options.save = folder.path() / "checkpoint";
  int asked = 0;
  const RunReport stopped = run(options, {[&] { return ++asked == 3; }});
  EXPECT_TRUE(stopped.interrupted);
  EXPECT_EQ(stopped.last_step, 3U);
  Options rest = small();
  rest.resume = options.save;
  EXPECT_EQ(run(rest).state_hash, run(small()).state_hash);
}

TEST(TrainerTest, ACheckpointThatFailsOnTheWayDoesNotEndTheRun) {
  const TemporaryFolder folder;
  Options options = small();
  options.save = folder.write("a file", "in the way") / "checkpoint";
  options.save_every = 2;
  const auto machine = platform();
  auto trainer = Trainer::open(*machine, options, text());
  ASSERT_TRUE(trainer.ok()) << trainer.status().to_string();
  EXPECT_TRUE((*trainer)->train({}).ok());
  EXPECT_FALSE((*trainer)->save_last().ok());
  EXPECT_EQ((*trainer)->report()->state_hash, run(small()).state_hash);
}

TEST(TrainerTest, AnotherRunsCheckpointIsRefused) {
  const TemporaryFolder folder;
  Options options = small();
  options.steps = 1;
  options.save = folder.path() / "checkpoint";
  run(options);
  Options other = small();
  other.resume = options.save;
  other.seed = kSeed + 1;
  const auto machine = platform();
  const auto refused = Trainer::open(*machine, other, text());
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().to_string().find("give --seed 3"), std::string::npos);
}

TEST(TrainerTest, TrainingLowersTheLossOnHeldOutText) {
  Options options = small();
  options.accumulate = 1;
  options.steps = 60;
  options.learning_rate = 0.01;
  const auto machine = platform();
  auto opened = Trainer::open(*machine, options, text());
  ASSERT_TRUE(opened.ok()) << opened.status().to_string();
  Trainer& trainer = **opened;
  ASSERT_TRUE(trainer.train({}).ok());
  ASSERT_TRUE(trainer.evaluate().ok());
  ASSERT_TRUE(trainer.measure_parts().ok());
  const auto report = trainer.report();
  ASSERT_TRUE(report.ok());
  EXPECT_NEAR(report->losses.front().loss, std::log(256.0), 0.5);
  EXPECT_LT(*report->held_out_loss, 3.5) << "seed " << kSeed;
  EXPECT_GT(report->parts.best(), 0);
  EXPECT_EQ(trainer.sample_text(50)->size(), 50U);
}

TEST(TrainerTest, TheExportHoldsEveryTensorOnce) {
  const TemporaryFolder folder;
  Options options = small();
  options.steps = 1;
  options.export_file = folder.path() / "weights.safetensors";
  const auto machine = platform();
  auto opened = Trainer::open(*machine, options, text());
  ASSERT_TRUE(opened.ok()) << opened.status().to_string();
  ASSERT_TRUE((*opened)->train({}).ok());
  ASSERT_TRUE((*opened)->export_weights().ok());
  std::ifstream file(options.export_file, std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(file), {}};
  std::uint64_t header = 0;
  ASSERT_GT(all.size(), sizeof(header));
  std::memcpy(&header, all.data(), sizeof(header));
  EXPECT_EQ(all.size(), 8 + header + 2 * parameter_count(parameters(options.shape)));
  EXPECT_NE(all.find("\"layer.1.down.bias\""), std::string::npos);
  EXPECT_EQ(all.find("\"head\""), std::string::npos);
}

}  // namespace
}  // namespace train_gpt
