#include "examples/train_gpt/options.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "examples/train_gpt/sizes.h"

namespace train_gpt {
namespace {

using headrace::Code;
using headrace::StateFormat;
using headrace::StateHome;
using headrace::Status;

constexpr const char* kAbout =
    "Trains a byte-level GPT on text, with its optimizer state in DRAM, on NVMe, or both.\n";
constexpr const char* kExample =
    "Example:\n"
    "  train_gpt --data book.txt --steps 200 --state nvme:/mnt/disk --dram 64MiB --json run.json\n";

// What CLI11 fills in before it is looked at.
struct Raw {
  std::string state = "auto", format = "split", dram;
};

using Validator = std::string (*)(const std::string&);

std::string whole_number(const std::string& text) {
  const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  const bool octal = text.size() > 1 && text[0] == '0';  // as CLI11 would read it
  return digits && !octal && text.size() < 19 ? "" : fmt::format("\"{}\" is no whole number", text);
}

std::string positive(const std::string& text) {
  if (std::string why = whole_number(text); !why.empty()) return why;
  return text.find_first_not_of('0') == std::string::npos ? "must be 1 or more" : "";
}

template <class T>
void number(CLI::App& app, const char* name, T& into, const char* help, Validator valid) {
  app.add_option(name, into, help)
      ->check(CLI::Validator(valid, ""))
      ->take_last()
      ->capture_default_str()
      ->type_name("N");
}

void path(CLI::App& app, const char* name, std::filesystem::path& into, const char* help,
          const char* kind) {
  app.add_option(name, into, help)->take_last()->type_name(kind);
}

void add_training(CLI::App& app, Options& options) {
  app.add_option("--data", options.data, "text to train on; default: the source tree of headrace")
      ->take_last()
      ->type_name("FILE-OR-FOLDER");
  number(app, "--steps", options.steps, "number of the last step, also after --resume", positive);
  number(app, "--seed", options.seed, "of the starting weights and the batches", whole_number);
  number(app, "--accumulate", options.accumulate, "micro-batches in a step", positive);
  number(app, "--layers", options.shape.layers, "transformer layers", positive);
  number(app, "--width", options.shape.width, "features per position, a multiple of 64", positive);
  number(app, "--context", options.shape.context, "bytes that the model sees", positive);
  number(app, "--batch", options.shape.batch, "sequences in a micro-batch", positive);
  app.add_option("--lr", options.learning_rate,
                 "highest learning rate: warm-up to step 10, then a cosine to a tenth at step 2000")
      ->take_last()
      ->capture_default_str()
      ->type_name("RATE");
  number(app, "--blas-threads", options.blas_threads,
         "of the matrix products; the bits of a run depend on it", positive);
}

void add_state(CLI::App& app, Options& options, Raw& raw) {
  app.add_option("--state", raw.state,
                 "where master weights and moments live; auto: in DRAM as far as --dram goes, "
                 "then in an unnamed file in the current folder")
      ->take_last()
      ->capture_default_str()
      ->type_name("dram|hbm|nvme:FOLDER[,FOLDER]|auto");
  app.add_option("--dram", raw.dram, "DRAM for optimizer state alone: slots, then pinned shards")
      ->take_last()
      ->type_name("SIZE");
  app.add_option("--format", raw.format, "of the state: 12 or 10 bytes a parameter, the same bits")
      ->take_last()
      ->capture_default_str()
      ->type_name("fp32|split");
  number(app, "--slots", options.slots, "pieces of DRAM that the state passes through", positive);
  number(app, "--threads", options.threads, "of the optimizer; 0: all that this process may use",
         whole_number);
}

void add_files(CLI::App& app, Options& options) {
  path(app, "--save", options.save, "checkpoint at the end and on Ctrl-C", "FOLDER");
  number(app, "--save-every", options.save_every, "steps between checkpoints; 0: at the end only",
         whole_number);
  path(app, "--resume", options.resume, "go on from this checkpoint", "FOLDER");
  path(app, "--export", options.export_file, "weights as safetensors, at the end", "FILE");
  path(app, "--trace", options.trace, "Chrome trace of the run, opens in Perfetto", "FILE");
  path(app, "--json", options.json, "everything measured", "FILE");
}

Status set_format(Options& options, const std::string& text) {
  if (text == "fp32") {
    options.format = StateFormat::fp32;
  } else if (text == "split") {
    options.format = StateFormat::split;
  } else {
    return {Code::invalid, fmt::format("--format {}: allowed are fp32 and split", text)};
  }
  return {};
}

Status set_dram(Options& options, const std::string& text) {
  if (text.empty()) return {};
  auto bytes = parse_size(text);
  if (!bytes.ok()) return bytes.status().with("--dram");
  options.dram_bytes = *bytes;
  return {};
}

Status checked(const Options& options) {
  const auto refuse = [](std::string why) { return Status(Code::invalid, std::move(why)); };
  const ModelShape& shape = options.shape;
  if (shape.width % shape.head_width != 0) {
    return refuse(
        fmt::format("--width {}: must be a multiple of {}, the width of an attention head",
                    shape.width, shape.head_width));
  }
  // Far above any machine this runs on; below it no product of two of them leaves 64 bits.
  constexpr std::size_t kMost = 1'000'000;
  struct Limit {
    const char* name;
    std::size_t value, most;
  };
  for (const Limit& limit : {Limit{"--layers", shape.layers, kMost},
                             {"--width", shape.width, kMost},
                             {"--context", shape.context, kMost},
                             {"--batch", shape.batch, kMost},
                             {"--threads", options.threads, 1024},
                             {"--blas-threads", options.blas_threads, 1024}}) {
    if (limit.value > limit.most) {
      return refuse(
          fmt::format("{} {}: past the largest, {}", limit.name, limit.value, limit.most));
    }
  }
  if (!(options.learning_rate > 0 && options.learning_rate < 1)) {
    return refuse(fmt::format("--lr {}: must lie between 0 and 1", options.learning_rate));
  }
  if (options.slots < 2 || options.slots > 1024) {
    return refuse(fmt::format("--slots {}: from 2 to 1024", options.slots));
  }
  if (options.save_every > 0 && options.save.empty()) {
    return refuse(fmt::format("--save-every {}: needs --save FOLDER", options.save_every));
  }
  return {};
}

Status complete(Options& options, const Raw& raw) {
  HEADRACE_TRY(set_state(options, raw.state));
  HEADRACE_TRY(set_format(options, raw.format));
  HEADRACE_TRY(set_dram(options, raw.dram));
  if (options.data.empty()) options.data = HEADRACE_SOURCE_DIR;
  return checked(options);
}

CommandLine usage_error(std::string_view why) {
  return {{}, fmt::format("train_gpt: {}\nRun train_gpt --help for the options.\n", why), 2};
}

}  // namespace

Status set_state(Options& options, const std::string& text) {
  constexpr std::string_view kNvme = "nvme:";
  options.state_text = text;
  options.nvme_folders.clear();
  if (text == "dram" || text == "hbm" || text == "auto") {
    options.state = text == "dram"  ? StateHome::dram
                    : text == "hbm" ? StateHome::hbm
                                    : StateHome::automatic;
    return {};
  }
  const Status refused(
      Code::invalid,
      fmt::format("--state {}: allowed are dram, hbm, nvme:FOLDER[,FOLDER] and auto", text));
  if (!text.starts_with(kNvme)) return refused;
  options.state = StateHome::nvme;
  for (std::string_view rest = std::string_view(text).substr(kNvme.size());;) {
    const std::size_t comma = rest.find(',');
    if (rest.empty() || comma == 0) return refused;
    options.nvme_folders.emplace_back(rest.substr(0, comma));
    if (comma == std::string_view::npos) return {};
    rest.remove_prefix(comma + 1);
  }
}

CommandLine parse(const std::vector<std::string>& arguments) {
  Options options;
  Raw raw;
  CLI::App app(kAbout, "train_gpt");
  app.footer(kExample);
  app.set_version_flag("--version", "train_gpt " HEADRACE_VERSION);
  add_training(app, options);
  add_state(app, options, raw);
  add_files(app, options);
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    return {{}, app.help(), 0};
  } catch (const CLI::CallForVersion& version) {
    return {{}, fmt::format("{}\n", version.what()), 0};
  } catch (const CLI::ParseError& error) {
    return usage_error(error.what());
  }
  if (const Status status = complete(options, raw); !status.ok())
    return usage_error(status.message());
  return {std::move(options), {}, 0};
}

}  // namespace train_gpt
