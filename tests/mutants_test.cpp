// The patches of tests/mutants, for scripts/mutants: at least twenty, and all of them still apply.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace headrace {
namespace {

namespace fs = std::filesystem;

TEST(Mutants, AllStillApply) {
  const fs::path root = HEADRACE_SOURCE_DIR;
  if (std::system("git --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "there is no git here";
  int patches = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(root / "tests/mutants")) {
    if (entry.path().extension() != ".patch") continue;
    ++patches;
    const std::string command =
        "cd '" + root.string() + "' && git apply --check '" + entry.path().string() + "'";
    EXPECT_EQ(std::system(command.c_str()), 0) << entry.path().filename() << " no longer applies";
  }
  EXPECT_GE(patches, 20);
}

}  // namespace
}  // namespace headrace
