// House style that a test can see: sizes, folder READMEs, no sleeping tests, and the one line of
// code that the README points at.
#include "tests/tree.h"

#include <gtest/gtest.h>

#include <map>
#include <regex>

namespace headrace::tree {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kHeaderLines = 150;
constexpr std::size_t kSourceLines = 400;
constexpr std::size_t kReadmeLines = 25;

std::string parent(const std::string& path) { return path.substr(0, path.rfind('/')); }

// The sources of each folder outside of tests.
std::map<std::string, std::vector<std::string>> files_by_folder() {
  std::map<std::string, std::vector<std::string>> found;
  for (const Source& source : sources()) {
    if (source.folder() != "tests") found[parent(source.path)].push_back(source.path);
  }
  return found;
}

bool mentions(const std::string& text, const std::string& stem) {
  return std::regex_search(text, std::regex("\\b" + stem + "\\b"));
}

TEST(House, FilesAreShort) {
  for (const Source& source : sources()) {
    EXPECT_LE(lines_of(source.text).size(), source.header() ? kHeaderLines : kSourceLines)
        << source.path;
  }
}

TEST(House, EachFolderHasAReadmeThatNamesEachFile) {
  const fs::path root = HEADRACE_SOURCE_DIR;
  for (const auto& [folder, files] : files_by_folder()) {
    const std::string readme = read_text(root / folder / "README.md");
    EXPECT_FALSE(readme.empty()) << folder << "/README.md is missing";
    EXPECT_LE(lines_of(readme).size(), kReadmeLines) << folder << "/README.md";
    for (const std::string& file : files) {
      EXPECT_TRUE(mentions(readme, fs::path(file).stem().string()))
          << folder << "/README.md: no line for " << file;
    }
  }
}

TEST(House, NoFolderReadmeNamesAFileThatIsGone) {
  const fs::path root = HEADRACE_SOURCE_DIR;
  const std::regex name(R"((^|[^/\w])(\w+\.(h|cpp))\b)");
  for (const auto& [folder, files] : files_by_folder()) {
    const std::string readme = read_text(root / folder / "README.md");
    for (std::sregex_iterator at(readme.begin(), readme.end(), name), end; at != end; ++at) {
      EXPECT_TRUE(fs::exists(root / folder / (*at)[2].str()))
          << folder << "/README.md: " << (*at)[2];
    }
  }
}

TEST(House, TestsDoNotSleep) {
  const std::regex call(R"(\b(sleep_for|sleep_until|usleep|nanosleep|sleep)\s*\()");
  for (const Source& source : sources()) {
    if (source.folder() != "tests") continue;
    EXPECT_FALSE(std::regex_search(source.text, call)) << source.path;
  }
}

TEST(House, ReadmeShowsTheMinimalExampleWhole) {
  const fs::path root = HEADRACE_SOURCE_DIR;
  EXPECT_NE(read_text(root / "README.md").find(read_text(root / "examples/minimal/main.cpp")),
            std::string::npos);
}

// README.md shows where the step is, as a file and a line.
TEST(House, ReadmeNamesTheLineOfTheStep) {
  const fs::path root = HEADRACE_SOURCE_DIR;
  const std::string readme = read_text(root / "README.md");
  if (readme.empty()) GTEST_SKIP() << "README.md is not written yet";
  std::smatch match;
  ASSERT_TRUE(std::regex_search(readme, match, std::regex(R"(runtime/step\.cpp[:#]L?(\d+))")))
      << "README.md names no line of runtime/step.cpp";
  const std::vector<std::string> lines = lines_of(read_text(root / "runtime/step.cpp"));
  const std::size_t line = std::stoul(match[1]);
  ASSERT_TRUE(line >= 1 && line <= lines.size()) << "runtime/step.cpp has no line " << line;
  EXPECT_NE(lines[line - 1].find("update_all("), std::string::npos)
      << "line " << line << " is: " << lines[line - 1];
}

// docs/reliability.md names, in the last column of its table, tests that exist.
TEST(House, TestsThatThePromisesNameExist) {
  const fs::path root = HEADRACE_SOURCE_DIR;
  std::string tests;
  for (const Source& source : sources())
    if (source.path.starts_with("tests/")) tests += source.text;
  const std::regex name("`([A-Za-z]+)[.A-Za-z*]*`");
  int named = 0;
  for (const std::string& line : lines_of(read_text(root / "docs/reliability.md"))) {
    if (!line.starts_with("| P")) continue;
    const std::string cell = line.substr(line.rfind('|', line.size() - 2));
    for (std::sregex_iterator at(cell.begin(), cell.end(), name), end; at != end; ++at, ++named)
      EXPECT_NE(tests.find((*at)[1].str() + ","), std::string::npos) << (*at)[0] << " in " << line;
  }
  EXPECT_GT(named, 30);
}

}  // namespace
}  // namespace headrace::tree
