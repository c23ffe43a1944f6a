#include "examples/train_gpt/options.h"

#include <gtest/gtest.h>

#include "examples/train_gpt/sizes.h"

namespace train_gpt {
namespace {

using headrace::StateFormat;
using headrace::StateHome;

Options run(const std::vector<std::string>& arguments) {
  const CommandLine line = parse(arguments);
  EXPECT_TRUE(line.run) << line.text;
  return line.run.value_or(Options{});
}

std::string refusal(const std::vector<std::string>& arguments) {
  const CommandLine line = parse(arguments);
  EXPECT_FALSE(line.run);
  EXPECT_EQ(line.exit_code, 2);
  return line.text;
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(OptionsTest, WithoutArgumentsTheDefaultsStand) {
  const Options options = run({});
  EXPECT_EQ(options.data, HEADRACE_SOURCE_DIR);
  EXPECT_EQ(options.shape.layers, 12U);
  EXPECT_EQ(options.shape.width, 384U);
  EXPECT_EQ(options.shape.context, 128U);
  EXPECT_EQ(options.shape.batch, 4U);
  EXPECT_EQ(options.blas_threads, 2U);
  EXPECT_EQ(options.state, StateHome::automatic);
  EXPECT_FALSE(options.dram_bytes);
}

TEST(OptionsTest, EveryOptionIsTaken) {
  const Options o = run({"--data",       "d",    "--steps",      "7",    "--seed",         "8",
                         "--state",      "dram", "--dram",       "1MiB", "--format",       "fp32",
                         "--slots",      "3",    "--threads",    "1",    "--blas-threads", "4",
                         "--accumulate", "5",    "--layers",     "2",    "--width",        "128",
                         "--context",    "16",   "--batch",      "6",    "--lr",           "0.01",
                         "--save",       "s",    "--save-every", "9",    "--resume",       "r",
                         "--export",     "e",    "--trace",      "t",    "--json",         "j"});
  EXPECT_EQ(o.data, "d");
  EXPECT_EQ(o.steps, 7U);
  EXPECT_EQ(o.seed, 8U);
  EXPECT_EQ(o.state, StateHome::dram);
  EXPECT_EQ(o.dram_bytes, std::uint64_t{1} << 20U);
  EXPECT_EQ(o.format, StateFormat::fp32);
  EXPECT_EQ(o.slots, 3U);
  EXPECT_EQ(o.threads, 1U);
  EXPECT_EQ(o.blas_threads, 4U);
  EXPECT_EQ(o.accumulate, 5U);
  EXPECT_EQ(o.shape.layers, 2U);
  EXPECT_EQ(o.shape.width, 128U);
  EXPECT_EQ(o.shape.context, 16U);
  EXPECT_EQ(o.shape.batch, 6U);
  EXPECT_EQ(o.learning_rate, 0.01);
  EXPECT_EQ(o.save, "s");
  EXPECT_EQ(o.save_every, 9U);
  EXPECT_EQ(o.resume, "r");
  EXPECT_EQ(o.export_file, "e");
  EXPECT_EQ(o.trace, "t");
  EXPECT_EQ(o.json, "j");
}

TEST(OptionsTest, OfAnOptionGivenTwiceTheLastCounts) {
  const std::vector<std::string> names = {
      "--steps",  "--seed",  "--slots",   "--threads", "--blas-threads", "--accumulate",
      "--layers", "--width", "--context", "--batch",   "--save-every"};
  for (const std::string& name : names) {
    EXPECT_TRUE(parse({name, "64", "--save", "s", name, "128"}).run) << name;
  }
  EXPECT_EQ(run({"--steps", "5", "--steps", "6"}).steps, 6U);
  EXPECT_EQ(run({"--data", "a", "--data", "b"}).data, "b");
  EXPECT_EQ(run({"--state", "nonsense", "--state", "nvme:x"}).state, StateHome::nvme);
  EXPECT_EQ(run({"--format", "fp32", "--format", "split"}).format, StateFormat::split);
  EXPECT_EQ(run({"--dram", "1", "--dram", "2"}).dram_bytes, 2U);
  EXPECT_EQ(run({"--lr", "0.1", "--lr", "0.2"}).learning_rate, 0.2);
  EXPECT_EQ(run({"--save", "a", "--save", "b"}).save, "b");
  EXPECT_EQ(run({"--resume", "a", "--resume", "b"}).resume, "b");
  EXPECT_EQ(run({"--export", "a", "--export", "b"}).export_file, "b");
  EXPECT_EQ(run({"--trace", "a", "--trace", "b"}).trace, "b");
  EXPECT_EQ(run({"--json", "a", "--json", "b"}).json, "b");
}

TEST(OptionsTest, NvmeTakesOneFolderOrSeveral) {
  EXPECT_EQ(run({"--state", "nvme:/a"}).nvme_folders, std::vector<std::filesystem::path>{"/a"});
  EXPECT_EQ(run({"--state", "nvme:/a,/b c"}).nvme_folders,
            (std::vector<std::filesystem::path>{"/a", "/b c"}));
}

TEST(OptionsTest, AnUnknownStateNamesTheAllowedOnes) {
  for (const char* state : {"ram", "nvme", "nvme:", "nvme:a,,b", "nvme:a,", "DRAM", ""}) {
    const std::string text = refusal({"--state", state});
    EXPECT_TRUE(contains(text, "dram, hbm, nvme:FOLDER[,FOLDER] and auto")) << text;
  }
}

TEST(OptionsTest, WrongValuesAreRefusedByName) {
  EXPECT_TRUE(contains(refusal({"--format", "bf16"}), "fp32 and split"));
  EXPECT_TRUE(contains(refusal({"--steps", "0"}), "--steps"));
  EXPECT_TRUE(contains(refusal({"--steps", "-3"}), "--steps"));
  EXPECT_TRUE(contains(refusal({"--steps", "ten"}), "--steps"));
  EXPECT_TRUE(contains(refusal({"--steps", "010"}), "--steps"));
  EXPECT_TRUE(contains(refusal({"--steps", "99999999999999999999"}), "--steps"));
  EXPECT_TRUE(contains(refusal({"--width", "100"}), "multiple of 64"));
  EXPECT_TRUE(contains(refusal({"--layers", "2000000"}), "largest"));
  EXPECT_TRUE(contains(refusal({"--lr", "nan"}), "--lr"));
  EXPECT_TRUE(contains(refusal({"--lr", "-1"}), "--lr"));
  EXPECT_TRUE(contains(refusal({"--dram", "64 apples"}), "64MiB"));
  EXPECT_TRUE(contains(refusal({"--slots", "1"}), "--slots"));
  EXPECT_TRUE(contains(refusal({"--save-every", "5"}), "--save FOLDER"));
  EXPECT_TRUE(contains(refusal({"--stat", "dram"}), "--stat"));
  EXPECT_TRUE(contains(refusal({"stray"}), "stray"));
}

TEST(OptionsTest, HelpShowsAnExample) {
  const CommandLine line = parse({"--help"});
  EXPECT_FALSE(line.run);
  EXPECT_EQ(line.exit_code, 0);
  EXPECT_TRUE(contains(line.text, "Example:"));
  EXPECT_TRUE(contains(line.text, "--blas-threads"));
  EXPECT_TRUE(contains(parse({"--version"}).text, "train_gpt 0."));
}

TEST(SizesTest, BinaryAndDecimalUnitsAreExact) {
  EXPECT_EQ(parse_size("0").value(), 0U);
  EXPECT_EQ(parse_size("4096").value(), 4096U);
  EXPECT_EQ(parse_size("64MiB").value(), std::uint64_t{64} << 20U);
  EXPECT_EQ(parse_size("1e9").value(), 1'000'000'000U);
  EXPECT_EQ(parse_size("1.5GB").value(), 1'500'000'000U);
  EXPECT_EQ(parse_size("1.5KiB").value(), 1536U);
  EXPECT_EQ(parse_size("2TiB").value(), std::uint64_t{2} << 40U);
}

TEST(SizesTest, WhatIsNoSizeIsRefused) {
  for (const char* text : {"", "MiB", "-1", "1.5", "1mib", "1 MiB", "1e30", "nan", "inf", "12x"}) {
    EXPECT_FALSE(parse_size(text).ok()) << text;
  }
}

}  // namespace
}  // namespace train_gpt
