// Whatever is got wrong is told with a code and a message that names the thing, the numbers and the
// next step; and nothing has changed.
#include <map>
#include <sstream>

#include "tests/bad_input/tables.h"
#include "tests/cli/command.h"
#include "tests/support/temporary_folder.h"

namespace headrace::bad_input {
namespace {

namespace fs = std::filesystem;
using namespace small;

void expect_told(std::string_view text, const Mentions& mentions, const std::string& what) {
  for (const std::string& word : mentions)
    EXPECT_NE(text.find(word), std::string_view::npos)
        << what << " does not mention '" << word << "': " << text;
}

TEST(BadInput, TheTablesAreLong) {
  const std::size_t in_process =
      calls().size() + configurations().size() + places().size() + tensors().size();
  EXPECT_GE(in_process, 80u);
  EXPECT_GE(command_lines().size(), 70u);
}

std::string told(const Stats& stats) {
  std::ostringstream text;
  text << stats.steps << ' ' << stats.skipped_steps << ' ' << stats.shards << ' '
       << stats.held.dram() << ' ' << stats.held.nvme_state << ' ' << stats.placement;
  return text.str();
}

// Between the gradients and the step everything goes wrong; what comes out is what comes out of an
// engine of which nothing wrong was asked.
TEST(BadInput, WrongCallsAreRefusedAndChangeNothing) {
  const Setting setting{GroundKind::simulated, Place::mixed, StateFormat::split};
  const Running misused(setting), spared(setting);
  for (const Running* running : {&misused, &spared}) {
    ASSERT_TRUE(train(**running, 0, 2).ok());
    ASSERT_TRUE(put_all(**running, 2).ok());
  }
  const std::uint64_t before = hash(*misused).value();
  const std::string stats = told(misused->stats());
  for (const Wrong& wrong : calls()) {
    expect_refused(wrong, *misused);
    ASSERT_EQ(hash(*misused).value(), before) << wrong.what;
    ASSERT_EQ(told(misused->stats()), stats) << wrong.what;
  }
  for (const Running* running : {&misused, &spared})
    ASSERT_TRUE((*running)->step(step_options()).value().applied);
  EXPECT_EQ(hash(*misused).value(), hash(*spared).value());
}

// Refused when it is opened, or when it is sealed.
Status come_to_be(Platform& platform, const EngineOptions& options) {
  HEADRACE_ASSIGN(const std::unique_ptr<Engine> engine, Engine::open(platform, options));
  HEADRACE_TRY(add_all(*engine));
  const Status how = engine->seal();
  EXPECT_EQ(engine->stats().held.dram(), 0u);
  EXPECT_EQ(engine->acquire(UnitId{0}).status().code(), Code::invalid);
  return how;
}

void expect_refused(Platform& platform, const Configuration& wrong, EngineOptions options) {
  wrong.change(options);
  const Status how = come_to_be(platform, options);
  EXPECT_EQ(how.code(), wrong.code) << wrong.what << ": " << how.to_string();
  expect_told(how.message(), wrong.mentions, wrong.what);
  EXPECT_EQ(platform.device().use(Home::host).used, 0u) << wrong.what;
  EXPECT_EQ(platform.device().use(Home::device).used, 0u) << wrong.what;
}

TEST(BadInput, WrongConfigurationsAreRefusedAndTakeNothing) {
  for (const Configuration& wrong : configurations()) {
    const auto platform = Platform::simulate();
    IoEngine& disk = platform->queue_for("/disk0").value()->folders();
    const std::uint64_t free = disk.free_bytes("/disk0").value();
    expect_refused(*platform, wrong, options_of({.place = Place::nvme}, "/disk0"));
    EXPECT_EQ(disk.free_bytes("/disk0").value(), free) << wrong.what;
  }
}

// What a folder holds, by name.
std::map<std::string, std::uintmax_t> content_of(const fs::path& folder) {
  std::map<std::string, std::uintmax_t> all;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    all[entry.path()] = entry.is_regular_file() ? entry.file_size() : 0;
  return all;
}

// See CommandLine.
struct Surroundings {
  Surroundings() {
    std::string text;
    for (int i = 0; i < 300; ++i) text += "line " + std::to_string(i * 7919 % 1000) + "\n";
    folder.write("text.txt", text);
    folder.write("other/something", "else");
    fs::create_directory_symlink(folder.path() / "other", folder.path() / "link");
  }
  const TemporaryFolder folder;
};

TEST(BadInput, PlacesThatCannotHoldStateAreRefusedAndLeftAlone) {
  const Surroundings surroundings;
  const auto before = content_of(surroundings.folder.path());
  for (const Configuration& wrong : places()) {
    const auto platform = Platform::open({.io = IoBackend::posix}).value();
    expect_refused(*platform, wrong,
                   options_of({.place = Place::nvme}, surroundings.folder.path()));
    EXPECT_EQ(content_of(surroundings.folder.path()), before) << wrong.what;
  }
}

TEST(BadInput, WrongTensorsAreRefusedAndNotAdded) {
  const auto platform = Platform::simulate();
  const auto engine = Engine::open(*platform, {}).value();
  ASSERT_TRUE(engine->add({.name = "first", .count = 10}).ok());
  for (const BadTensor& wrong : tensors()) {
    const Status how = engine->add(wrong.spec).status();
    EXPECT_EQ(how.code(), Code::invalid) << wrong.spec.name;
    expect_told(how.message(), wrong.mentions, wrong.spec.name);
  }
  EXPECT_EQ(engine->add({.name = "second"}).value(), TensorId{1});
}

TEST(BadInput, WrongCommandLinesAreRefusedAndWriteNothing) {
  const Surroundings surroundings;
  const auto before = content_of(surroundings.folder.path());
  for (const CommandLine& line : command_lines()) {
    const bool tool = line.program == Program::headrace;
    const std::string command = std::string("cd ") + surroundings.folder.path().string() + " && " +
                                HEADRACE_BINARY_DIR +
                                (tool ? "/headrace " : "/examples/train_gpt ") + line.arguments;
    const cli::Outcome outcome = cli::run(command);
    EXPECT_EQ(outcome.code, line.exit_code) << line.arguments << ": " << outcome.output;
    expect_told(outcome.output, line.mentions, line.arguments);
    EXPECT_EQ(content_of(surroundings.folder.path()), before) << line.arguments;
  }
}

}  // namespace
}  // namespace headrace::bad_input
