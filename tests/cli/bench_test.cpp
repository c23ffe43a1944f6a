#include "cli/bench.h"

#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <string>
#include <utility>

#include "tests/cli/command.h"
#include "tests/support/temporary_folder.h"

namespace headrace::cli {
namespace {

TEST(BenchStep, WhatIsNotGivenIsAsTheBenchmarkHasIt) {
  const bench::StepBenchOptions usual;
  const bench::StepBenchOptions options = step_bench_options({.scratch = "/x"});
  EXPECT_EQ(options.folder, "/x");
  EXPECT_EQ(options.formats, usual.formats);
  EXPECT_EQ(options.state_bytes, usual.state_bytes);
  EXPECT_EQ(options.dram_bytes, usual.dram_bytes);
  EXPECT_EQ(options.max_norm, usual.max_norm);
  const bench::TrainBenchOptions training = train_bench_options({.scratch = "/x"});
  EXPECT_EQ(training.state_bytes, bench::TrainBenchOptions().state_bytes);
  EXPECT_EQ(training.slots, 3);
}

TEST(BenchStep, WhatIsGivenCountsMoreThanQuick) {
  BenchStepOptions given{.quick = true, .formats = {StateFormat::fp32}, .state_bytes = kMiB};
  given.slots = 7;
  given.max_norm = 0;
  const bench::StepBenchOptions options = step_bench_options(given);
  EXPECT_EQ(options.formats, std::vector{StateFormat::fp32});
  EXPECT_EQ(options.state_bytes, kMiB);
  EXPECT_EQ(options.rounds, bench::quick_step_bench().rounds);
  EXPECT_EQ(options.slots, 7);
  EXPECT_EQ(options.max_norm, 0);
  EXPECT_EQ(train_bench_options(given).state_bytes, kMiB);
}

TEST(BenchStep, MeasuresAndWritesJson) {
  const TemporaryFolder folder;
  const std::string json = folder.path() / "step.json";
  const Outcome outcome = headrace(
      "bench step --quick --size 6MiB --dram 2MiB --shard 256KiB --rounds 1 "
      "--format split --scratch " +
      folder.path().string() + " --json " + json);
  if (outcome.code == 3) GTEST_SKIP() << outcome.output;
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_TRUE(contains(outcome.output, "step.split")) << outcome.output;
  EXPECT_FALSE(contains(outcome.output, "step.fp32")) << outcome.output;
  std::ifstream file(json);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_TRUE(contains(text, "\"schema\": \"headrace.bench/1\"")) << text;
  EXPECT_TRUE(contains(text, "\"name\": \"bytes.split\",\n      \"value\": 20.0,")) << text;
}

TEST(BenchStep, WrongUseIsTwoAndNamesTheOption) {
  const auto refused = [](const std::string& arguments, const std::string& name) {
    const Outcome outcome = headrace("bench step " + arguments);
    EXPECT_EQ(outcome.code, 2) << arguments << ": " << outcome.output;
    EXPECT_TRUE(contains(outcome.output, name)) << outcome.output;
  };
  refused("--size many", "--size");
  refused("--dram -3", "--dram");
  refused("--format fp8", "--format");
  refused("--slots two", "--slots");
  refused("--rounds 0", "--rounds");
  refused("--units 0", "--units");
  refused("--scratch /no/such/folder", "--scratch");
  refused("--no-such-option", "--no-such-option");
  refused("--slots 1", "slots");
  refused("--max-norm -1", "max_norm");
}

TEST(BenchStep, ABudgetThatCannotWorkIsThreeWithTheSum) {
  const TemporaryFolder folder;
  const Outcome outcome =
      headrace("bench step --quick --size 6MiB --dram 1MiB --shard 1MiB --scratch " +
               folder.path().string());
  EXPECT_EQ(outcome.code, 3) << outcome.output;
  EXPECT_TRUE(contains(outcome.output, "4 slots of ")) << outcome.output;
}

TEST(BenchHtml, IsAPageOfTheRows) {
  const TemporaryFolder folder;
  const std::string page = folder.path() / "overhead.html";
  const Outcome outcome = headrace("bench overhead --shards 20 --rounds 1 --html " + page);
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_TRUE(contains(outcome.output, "overhead.dram.20")) << outcome.output;
  std::ifstream file(page);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_TRUE(contains(text, "<h1>headrace bench overhead</h1>")) << text;
  EXPECT_TRUE(contains(text, "<th>overhead.dram.20</th>")) << text;
  EXPECT_TRUE(contains(text, "<svg")) << text;
  EXPECT_TRUE(text.ends_with("</html>\n"));
}

TEST(BenchHtml, OfAStepShowsItsLastOneOverTime) {
  const TemporaryFolder folder;
  const std::string page = folder.path() / "step.html";
  const Outcome outcome = headrace(
      "bench step --quick --size 6MiB --dram 2MiB --shard 256KiB --rounds 1 "
      "--format split --scratch " +
      folder.path().string() + " --html " + page);
  if (outcome.code == 3) GTEST_SKIP() << outcome.output;
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  std::ifstream file(page);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_TRUE(contains(text, "One step over time")) << text;
  for (const char* name : {"load", "update", "store"})
    EXPECT_TRUE(contains(text, "class=\"strong\">" + std::string(name) + "</text>")) << text;
}

TEST(BenchTrace, OfFilesAndOfCopiesHoldsWhatHeadraceDid) {
  const TemporaryFolder folder;
  const std::string place = " --scratch " + folder.path().string();
  const std::array runs{
      std::pair{"bench io --size 1MiB --block 64KiB --depth 2 --seconds 0.01 --rounds 1 --no-bound",
                "bench-io"},
      std::pair{"bench copy --quick --size 1MiB --bytes 2MiB --rounds 1", "copy"}};
  for (const auto& [command, queue] : runs) {
    const std::string trace = folder.path() / "trace.json";
    const Outcome outcome = headrace(command + place + " --trace " + trace);
    if (outcome.code == 3) GTEST_SKIP() << outcome.output;
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    std::ifstream file(trace);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    EXPECT_TRUE(contains(text, "traceEvents")) << command << text.substr(0, 1000);
    EXPECT_TRUE(contains(text, queue)) << command << text.substr(0, 1000);
  }
}

// Before anything is measured.
TEST(BenchFiles, OneThatCannotBeWrittenIsTwoAndNamed) {
  for (const char* option : {"--html", "--json"}) {
    const Outcome outcome = headrace("bench overhead --shards 20 --rounds 1 " +
                                     std::string(option) + " /no/such/folder/x");
    EXPECT_EQ(outcome.code, 2) << outcome.output;
    EXPECT_TRUE(contains(outcome.output, option)) << outcome.output;
    EXPECT_TRUE(contains(outcome.output, "cannot write /no/such/folder/x: choose another FILE"))
        << outcome.output;
    EXPECT_FALSE(contains(outcome.output, "of bound")) << outcome.output;
  }
}

}  // namespace
}  // namespace headrace::cli
