// The corpus, through the entries that are fuzzed: some of it is accepted, some refused, and all of
// it is survived.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <string>

#include "tests/fuzz/entries.h"

namespace headrace::fuzz {
namespace {

namespace fs = std::filesystem;
using Entry = std::function<bool(ConstBytes)>;

std::vector<std::string> corpus(const std::string& name) {
  std::vector<std::string> inputs;
  for (const auto& file :
       fs::directory_iterator(HEADRACE_SOURCE_DIR "/tests/fuzz/corpus/" + name)) {
    std::ifstream stream(file.path(), std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  }
  return inputs;
}

bool run(const Entry& entry, const std::string& input) {
  return entry(std::as_bytes(std::span(input)));
}

// Each input, and a few of its relatives, so that the test looks a little further than the files.
void run_corpus(const std::string& name, const Entry& entry) {
  const auto seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  int accepted = 0, refused = 0;
  for (std::string input : corpus(name)) {
    ++(run(entry, input) ? accepted : refused);
    for (int relative = 0; relative < 50 && !input.empty(); ++relative) {
      input[random() % input.size()] ^= static_cast<char>(1 << random() % 8);
      run(entry, input);
    }
  }
  EXPECT_GT(accepted, 0);
  EXPECT_GT(refused, 0);
}

TEST(Fuzz, Manifests) { run_corpus("manifest", manifest); }
TEST(Fuzz, Checkpoints) { run_corpus("checkpoint", checkpoint); }
TEST(Fuzz, Sizes) { run_corpus("sizes", sizes); }
TEST(Fuzz, CommandLines) { run_corpus("command_line", command_line); }

}  // namespace
}  // namespace headrace::fuzz
