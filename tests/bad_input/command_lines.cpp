#include "tests/bad_input/tables.h"

namespace headrace::bad_input {
namespace {

std::vector<CommandLine> of(Program program, std::vector<CommandLine> lines) {
  for (CommandLine& line : lines) line.program = program;
  return lines;
}

std::vector<CommandLine> plans() {
  const auto plan = [](const std::string& arguments, Mentions mentions, int code = 2) {
    return CommandLine{Program::headrace, "plan " + arguments, code, std::move(mentions)};
  };
  const std::string model = "--params 1e9 ";
  return {
      plan("", {"--params is required"}),
      plan("--params many", {"--params", "\"many\"", "7e9"}),
      plan("--params 0", {"--params is 0", "7e9"}),
      plan("--params -5", {"--params", "\"-5\"", "negative"}),
      plan("--params 1e30", {"--params", "\"1e30\"", "too large"}),
      plan(model + "--dram 64KiBB", {"--dram", "\"64KiBB\"", "64KiB"}),
      plan(model + "--dram 99999999999GiB", {"--dram", "too large"}),
      plan(model + "--dram ''", {"--dram", "\"\""}),
      plan(model + "--endurance -1", {"--endurance", "\"-1\"", "negative"}),
      plan(model + "--format fp8", {"--format", "fp8", "fp32", "split"}),
      plan(model + "--slots 1", {"slots is 1", "2 or more"}),
      plan(model + "--units 0", {"--units is 0", "4096"}),
      plan(model + "--accumulate 0", {"--accumulate is 0", "1000"}),
      plan(model + "--forward nan", {"--forward is nan", "seconds"}),
      plan(model + "--backward -1", {"--backward is -1", "seconds"}),
      plan(model + "--tokens 0", {"--tokens is 0"}),
      plan(model + "--flops inf", {"--flops is inf"}),
      plan(model + "--nvme-bandwidth 1GB,fast", {"--nvme-bandwidth", "\"fast\"", "1.5GB"}),
      plan(model + "--nvme-bandwidth 1GB,2GB,3GB,4GB", {"--nvme-bandwidth", "4 rates", "read"}),
      plan(model + "--nvme-bandwidth 0", {"--nvme-bandwidth", "positive"}),
      plan(model + "--memory-bandwidth 0", {"--memory-bandwidth", "positive"}),
      plan(model + "--measure text.txt", {"--measure", "text.txt"}),
      plan(model + "--json no/where.json", {"no/where.json", "choose another FILE"}),
      plan(model + "--dram 1MiB --shard 1MiB", {"1.05 MB", "4 slots of", "raise the budget"}, 3),
  };
}

std::vector<CommandLine> tools() {
  return of(Program::headrace,
            {
                {{}, "", 2, {"command", "--help"}},
                {{}, "frobnicate", 2, {"\"frobnicate\"", "doctor", "--help"}},
                {{}, "plam --params 1e9", 2, {"\"plam\"", "plan"}},
                {{}, "doctor --no-such", 2, {"--no-such", "--help"}},
                {{}, "doctor --scratch none", 3, {"[fail]", "none", "--scratch FOLDER"}},
                {{}, "check", 2, {"folder is required"}},
                {{}, "check none", 2, {"none", "checkpoint's own folder"}},
                {{}, "check link", 2, {"link", "checkpoint's own folder"}},
                {{}, "check text.txt", 2, {"text.txt is not a folder"}},
                {{}, "check other", 2, {"other has no manifest"}},
                {{}, "check other --threads -1", 2, {"--threads", "-1", "0 to 1024"}},
                {{}, "check other --threads 5000", 2, {"--threads", "5000", "1024"}},
                {{}, "bench", 2, {"bench", "adamw", "step", "--help"}},
                {{}, "bench step --size 1Q", 2, {"--size", "\"1Q\"", "96MiB"}},
                {{}, "bench step --size 0", 2, {"--size is 0", "1GiB"}},
                {{}, "bench step --scratch none", 2, {"--scratch", "none"}},
                {{}, "bench step --scratch text.txt", 2, {"--scratch", "text.txt"}},
                {{}, "bench step --slots two", 2, {"--slots", "two"}},
                {{}, "bench step --units 0", 2, {"--units", "0", "1 to 4096"}},
                {{}, "bench adamw --json", 2, {"--json", "FILE"}},
                {{}, "stress --scratch none", 2, {"--scratch", "none"}},
                {{}, "stress --time 0", 2, {"--time", "0"}},
                {{}, "stress --operations many", 2, {"--operations", "many"}},
                {{}, "stress --size 1Q", 2, {"--size", "\"1Q\"", "96MiB"}},
            });
}

std::vector<CommandLine> trainings() {
  const std::string tiny =
      "--data text.txt --steps 1 --layers 1 --width 64 --context 8 --batch 1 --threads 1 "
      "--blas-threads 1 ";
  return of(
      Program::train_gpt,
      {
          {{}, "--state ram", 2, {"--state ram", "nvme:FOLDER"}},
          {{}, "--state nvme:", 2, {"--state nvme:", "nvme:FOLDER"}},
          {{}, "--stat dram", 2, {"--stat", "--help"}},
          {{}, "--steps 0", 2, {"--steps", "1 or more"}},
          {{}, "--steps 99999999999999999999", 2, {"--steps", "99999999999999999999"}},
          {{}, "--width 100", 2, {"--width 100", "multiple of 64"}},
          {{}, "--layers 2000000", 2, {"--layers 2000000", "1000000"}},
          {{}, "--context 2000000", 2, {"--context 2000000", "1000000"}},
          {{}, "--lr nan", 2, {"--lr nan", "between 0 and 1"}},
          {{}, "--lr -1", 2, {"--lr -1", "between 0 and 1"}},
          {{}, "--dram 64apples", 2, {"--dram", "64apples", "64MiB"}},
          {{}, "--slots 1", 2, {"--slots 1", "2 to 1024"}},
          {{}, "--threads 5000", 2, {"--threads 5000", "1024"}},
          {{}, "--save-every 5", 2, {"--save-every 5", "--save FOLDER"}},
          {{}, "--format bf16", 2, {"--format bf16", "fp32 and split"}},
          {{}, "stray", 2, {"stray", "--help"}},
          {{}, "--data none", 2, {"--data none", "no such file"}},
          {{}, tiny + "--state nvme:none", 2, {"none does not exist", "mkdir -p"}},
          {{}, tiny + "--state nvme:link", 2, {"link is a link", "not followed"}},
          {{}, tiny + "--state nvme:text.txt", 2, {"text.txt is not a folder"}},
          {{}, tiny + "--state nvme:. --dram 1KiB", 3, {"1.02 kB", "4 slots of", "raise"}},
          {{}, tiny + "--state dram --dram 1KiB", 3, {"1.02 kB", "raise the budget"}},
          {{}, tiny + "--resume none", 2, {"--resume none", "does not exist", "own folder"}},
          {{}, tiny + "--resume none/there", 2, {"--resume none/there", "none does not exist"}},
          {{}, tiny + "--resume text.txt", 2, {"text.txt is not a folder"}},
          {{}, tiny + "--resume other", 2, {"other has no manifest", "own folder"}},
          {{}, tiny + "--save none/there", 2, {"none/there", "none is no folder"}},
          {{}, tiny + "--save text.txt", 2, {"text.txt", "not a folder"}},
          {{}, tiny + "--save link", 2, {"link", "a link"}},
          {{}, tiny + "--save other", 2, {"other", "no checkpoint"}},
          {{}, tiny + "--json none/x.json", 2, {"none/x.json", "no folder"}},
          {{}, tiny + "--export other", 2, {"other", "a folder"}},
      });
}

}  // namespace

std::vector<CommandLine> command_lines() {
  std::vector<CommandLine> all = plans();
  for (const std::vector<CommandLine>& more : {tools(), trainings()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace headrace::bad_input
