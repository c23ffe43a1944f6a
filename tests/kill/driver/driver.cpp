// kill_driver FOLDER STEPS: trains the small model with its state on the drive, from the checkpoint
// in FOLDER on where there is one, saves after each step, and says so: "step 3", "saved 3". At the
// end: "hash ..." of all state.
#include <cstdio>
#include <cstdlib>

#include "tests/runtime/small_model.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;
using namespace small;

void say(const char* what, std::uint64_t number) {
  std::printf("%s %llu\n", what, static_cast<unsigned long long>(number));
  std::fflush(stdout);
}

Status run(const fs::path& folder, int steps) {
  HEADRACE_ASSIGN(const auto platform, Platform::open({.io = IoBackend::posix}));
  HEADRACE_ASSIGN(const auto engine,
                  Engine::open(*platform, options_of({.place = Place::nvme}, folder)));
  HEADRACE_TRY(build(*engine));
  const fs::path checkpoint = folder / "checkpoint";
  if (fs::exists(checkpoint)) HEADRACE_TRY(engine->load(checkpoint).status());
  for (int i = static_cast<int>(engine->steps_of(kBig).value()); i < steps; ++i) {
    HEADRACE_TRY(train(*engine, i, i + 1));
    say("step", static_cast<std::uint64_t>(i) + 1);
    HEADRACE_TRY(engine->save(checkpoint));
    say("saved", static_cast<std::uint64_t>(i) + 1);
  }
  HEADRACE_ASSIGN(const std::uint64_t all, hash(*engine));
  say("hash", all);
  return {};
}

}  // namespace
}  // namespace headrace

int main(int count, char** arguments) {
  if (count != 3) return 2;
  const headrace::Status how = headrace::run(arguments[1], std::atoi(arguments[2]));
  if (!how.ok()) std::fprintf(stderr, "kill_driver: %s\n", how.to_string().c_str());
  return how.ok() ? 0 : 1;
}
