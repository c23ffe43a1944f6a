// Includes only ever point down, and third-party headers stay in the few files that
// docs/architecture.md names for them. Reads every #include of the project.
#include "tests/tree.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <regex>
#include <set>

namespace headrace::tree {
namespace {

struct Include {
  std::string text;  // what stands between the quotes or the angles
  bool quoted;
};

std::vector<Include> includes_of(const Source& source) {
  static const std::regex pattern(R"(^\s*#\s*include\s*([<"])([^>"]+)[>"])");
  std::vector<Include> found;
  for (const std::string& line : lines_of(source.text)) {
    std::smatch match;
    if (std::regex_search(line, match, pattern)) found.push_back({match[2], match[1] == "\""});
  }
  return found;
}

// What each folder may include of the project, beside itself.
const std::map<std::string, std::set<std::string>>& allowed_folders() {
  static const std::map<std::string, std::set<std::string>> table = {
      {"optim_cpu", {}},
      {"io", {}},
      {"tiers", {"io"}},
      {"runtime", {"tiers", "io", "optim_cpu"}},
      {"bench", {"runtime", "tiers", "io", "optim_cpu"}},
      {"cli", {"bench", "runtime", "tiers", "io", "optim_cpu"}},
      {"examples", {}},  // kPublicHeaders only
      {"tests", {"examples", "cli", "bench", "runtime", "tiers", "io", "optim_cpu"}},
  };
  return table;
}

const std::set<std::string> kPublicHeaders = {"runtime/engine.h", "runtime/headrace.h"};

// A third-party library: how its headers begin, and the sources that may include them. At most
// `limit` of the sources that match one pattern do.
struct Library {
  std::string prefix;
  std::vector<std::string> patterns;
  std::size_t limit;
};

const std::vector<Library>& libraries() {
  static const std::vector<Library> table = {
      {"hwy/", {R"(optim_cpu/\w+\.cpp)"}, 2},
      {"omp.h", {R"(optim_cpu/\w+\.cpp)"}, 3},
      {"liburing", {R"(io/uring_\w+\.cpp)", R"(bench/\w+\.cpp)"}, 1},
      {"emmintrin.h", {R"(bench/stream_floor\.cpp)"}, 1},
      {"hwloc", {R"(io/topology\.cpp)"}, 1},
      {"xxh", {R"(runtime/checksum\.cpp)"}, 1},
      {"tbb/", {R"(runtime/checkpoint_tools\.cpp)"}, 1},
      {"oneapi/", {R"(runtime/checkpoint_tools\.cpp)"}, 1},
      {"CLI/", {R"(cli/\w+\.cpp)", R"(examples/train_gpt/\w+\.cpp)"}, 2},
      {"nlohmann/",
       {R"(cli/\w+\.cpp)", R"(bench/report\.cpp)", R"(bench/report_file\.cpp)",
        R"(examples/train_gpt/\w+\.cpp)"},
       1},
      {"cblas", {R"(examples/train_gpt/\w+\.cpp)"}, 1},
      {"fmt/", {R"(.*\.cpp|tests/.*)"}, 1000},
      {"gtest/", {R"(tests/.*)"}, 1000},
  };
  return table;
}

const Library* library_of(const Include& include) {
  for (const Library& library : libraries()) {
    if (include.text.starts_with(library.prefix)) return &library;
  }
  return nullptr;
}

// A header of the language or of the operating system.
bool system_header(const std::string& header) {
  static const std::regex pattern(
      R"(\w+|(sys|linux|asm|net|netinet)/\w+(/\w+)?\.h|)"
      R"((unistd|fcntl|sched|pthread|signal|dirent|poll|errno|mntent|dlfcn|malloc|stdlib|cxxabi)\.h)");
  return std::regex_match(header, pattern);
}

std::string first_part(const std::string& path) { return path.substr(0, path.find('/')); }

// Why this include may not be, or nothing.
std::optional<std::string> refusal(const Source& source, const Include& include) {
  if (const Library* library = library_of(include)) {
    if (source.header() && source.folder() != "tests")
      return "a third-party header in a header of ours";
    for (const std::string& pattern : library->patterns) {
      if (std::regex_match(source.path, std::regex(pattern))) return std::nullopt;
    }
    return "this library belongs into other files";
  }
  if (!include.quoted) {
    if (system_header(include.text)) return std::nullopt;
    return "neither a system header nor a library that the table names";
  }
  const std::string target = first_part(include.text);
  if (target == include.text || !allowed_folders().contains(target))
    return "project includes are from the root";
  if (target == source.folder() || allowed_folders().at(source.folder()).contains(target))
    return std::nullopt;
  if (source.folder() == "examples" && kPublicHeaders.contains(include.text)) return std::nullopt;
  return "points up, or past the public headers";
}

TEST(Layering, EveryIncludePointsDown) {
  for (const Source& source : sources()) {
    for (const Include& include : includes_of(source)) {
      const auto why = refusal(source, include);
      EXPECT_FALSE(why) << source.path << " includes " << include.text << ": " << why.value_or("");
    }
  }
}

TEST(Layering, EachLibraryStaysInItsFewFiles) {
  std::map<std::string, std::set<std::string>> users;  // by library and pattern
  for (const Source& source : sources()) {
    for (const Include& include : includes_of(source)) {
      const Library* library = library_of(include);
      if (library == nullptr) continue;
      for (const std::string& pattern : library->patterns) {
        if (!std::regex_match(source.path, std::regex(pattern))) continue;
        auto& files = users[library->prefix + " in " + pattern];
        files.insert(source.path);
        EXPECT_LE(files.size(), library->limit)
            << include.text << " in one file more: " << source.path;
      }
    }
  }
}

TEST(Layering, OwnHeaderComesFirst) {
  const std::vector<Source> all = sources();
  for (const Source& source : all) {
    if (source.header()) continue;
    const std::string own = source.path.substr(0, source.path.size() - 4) + ".h";
    if (std::ranges::find(all, own, &Source::path) == all.end()) continue;
    const std::vector<Include> includes = includes_of(source);
    ASSERT_FALSE(includes.empty()) << source.path;
    EXPECT_EQ(includes.front().text, own) << "in " << source.path;
  }
}

TEST(Layering, RefusesWhatItShould) {
  const Source tier{"tiers/tier.cpp", ""};
  const Source header{"io/topology.h", ""};
  EXPECT_TRUE(refusal(tier, {"runtime/engine.h", true}));
  EXPECT_TRUE(refusal(tier, {"optim_cpu/dtype.h", true}));
  EXPECT_TRUE(refusal(tier, {"tier.h", true}));
  EXPECT_TRUE(refusal(tier, {"hwloc.h", false}));
  EXPECT_TRUE(refusal(tier, {"boost/any.hpp", false}));
  EXPECT_TRUE(refusal(header, {"hwloc.h", false}));
  EXPECT_TRUE(refusal(header, {"fmt/format.h", false}));
  EXPECT_TRUE(refusal({"examples/train_gpt/main.cpp", ""}, {"runtime/shard.h", true}));
  EXPECT_FALSE(refusal({"examples/train_gpt/main.cpp", ""}, {"runtime/engine.h", true}));
  EXPECT_FALSE(refusal({"io/topology.cpp", ""}, {"hwloc.h", false}));
  EXPECT_FALSE(refusal(tier, {"io/status.h", true}));
  EXPECT_FALSE(refusal(tier, {"sys/stat.h", false}));
  EXPECT_EQ(includes_of({"x.cpp", "// #include <a>\n #  include \"io/b.h\"\n"}).size(), 1u);
}

}  // namespace
}  // namespace headrace::tree
