#include "examples/train_gpt/record.h"

#include <array>
#include <charconv>

#include <fmt/format.h>

namespace train_gpt {
namespace {

using headrace::Code;
using headrace::Status;

struct Field {
  std::string_view name;
  std::uint64_t RunRecord::*value;
};

constexpr std::array<Field, 8> kFields = {{{"step", &RunRecord::step},
                                           {"seed", &RunRecord::seed},
                                           {"accumulate", &RunRecord::accumulate},
                                           {"layers", &RunRecord::layers},
                                           {"width", &RunRecord::width},
                                           {"context", &RunRecord::context},
                                           {"batch", &RunRecord::batch},
                                           {"text", &RunRecord::text}}};

Status corrupt(std::string_view line) {
  return {Code::corrupt, fmt::format("not a checkpoint of train_gpt: \"{}\"", line.substr(0, 40))};
}

// "name value" of exactly this field, or nothing.
bool take(std::string_view line, const Field& field, RunRecord& record) {
  if (!line.starts_with(field.name) || line.size() < field.name.size() + 2) return false;
  if (line[field.name.size()] != ' ') return false;
  const char* const end = line.data() + line.size();
  const auto [rest, error] =
      std::from_chars(line.data() + field.name.size() + 1, end, record.*field.value);
  return error == std::errc() && rest == end;
}

}  // namespace

RunRecord record_of(const Options& options, std::uint64_t text_fingerprint, std::uint64_t step) {
  const ModelShape& shape = options.shape;
  return {step,        options.seed,  options.accumulate, shape.layers,
          shape.width, shape.context, shape.batch,        text_fingerprint};
}

std::string to_text(const RunRecord& record) {
  std::string text;
  for (const Field& field : kFields)
    text += fmt::format("{} {}\n", field.name, record.*field.value);
  return text;
}

headrace::Result<RunRecord> from_text(std::string_view text) {
  RunRecord record;
  for (const Field& field : kFields) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    if (end == std::string_view::npos || !take(line, field, record)) return corrupt(line);
    text.remove_prefix(end + 1);
  }
  if (!text.empty()) return corrupt(text);
  return record;
}

Status same_run(const RunRecord& saved, const RunRecord& now) {
  for (const Field& field : kFields) {
    const std::uint64_t before = saved.*field.value, here = now.*field.value;
    if (field.name == "step" || before == here) continue;
    if (field.name == "text") {
      return {Code::invalid,
              "the text is not the one that the checkpoint was trained on: give the same --data, "
              "with the same content"};
    }
    return {Code::invalid,
            fmt::format("the checkpoint was trained with --{0} {1}, this run has {2}: "
                        "give --{0} {1}",
                        field.name, before, here)};
  }
  return {};
}

}  // namespace train_gpt
