#include "bench/report_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace headrace::bench {
namespace {

using Json = nlohmann::json;  // sorted: looking up keys stays fast in an object of very many

constexpr std::string_view kSchema = "headrace.bench/1";
constexpr std::size_t kDeepest = 32;  // a report is 4 deep

// An object of the file and what it is called in messages: "rows[3]", or nothing for the whole.
struct Object {
  const Json& json;
  std::string name;

  std::string path_of(std::string_view key) const {
    return name.empty() ? std::string(key) : fmt::format("{}.{}", name, key);
  }
};

Result<const Json*> field(const Object& object, std::string_view key) {
  if (!object.json.is_object()) return invalid(fmt::format("{} is not an object", object.name));
  const auto found = object.json.find(key);
  if (found == object.json.end()) return invalid(fmt::format("{} is missing", object.path_of(key)));
  return &*found;
}

// Text that does no harm on a terminal.
bool plain(std::string_view text) {
  return std::none_of(text.begin(), text.end(),
                      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

Result<std::string> text_field(const Object& object, std::string_view key) {
  HEADRACE_ASSIGN(const Json* found, field(object, key));
  const auto* text = found->get_ptr<const std::string*>();
  if (text == nullptr) return invalid(fmt::format("{} is not text", object.path_of(key)));
  if (!plain(*text))
    return invalid(fmt::format("{} has control characters in it", object.path_of(key)));
  return *text;
}

Result<double> number_of(const Json& json, const std::string& path) {
  if (!json.is_number()) return invalid(fmt::format("{} is not a number", path));
  const auto number = json.get<double>();
  if (number < 0) return invalid(fmt::format("{} is below 0", path));
  return number;
}

Result<double> number_field(const Object& object, std::string_view key) {
  HEADRACE_ASSIGN(const Json* found, field(object, key));
  return number_of(*found, object.path_of(key));
}

Result<double> number_or_null(const Object& object, std::string_view key) {
  HEADRACE_ASSIGN(const Json* found, field(object, key));
  if (found->is_null()) return 0.0;
  return number_of(*found, object.path_of(key));
}

// Reports older than the field have none.
Result<double> cpu_field(const Object& object) {
  constexpr std::string_view key = "cpu_seconds_per_gb";
  if (!object.json.contains(key)) return 0.0;
  return number_or_null(object, key);
}

template <class Integer>
Result<Integer> integer_field(const Object& object, std::string_view key) {
  HEADRACE_ASSIGN(const Json* found, field(object, key));
  const bool small =
      found->is_number_unsigned() &&
      std::cmp_less_equal(found->get<std::uint64_t>(), std::numeric_limits<Integer>::max());
  if (!small) return invalid(fmt::format("{} is not a whole number", object.path_of(key)));
  return found->get<Integer>();
}

Result<std::vector<double>> numbers_field(const Object& row, std::string_view key) {
  HEADRACE_ASSIGN(const Json* found, field(row, key));
  if (!found->is_array()) return invalid(fmt::format("{} is not a list", row.path_of(key)));
  std::vector<double> numbers;
  for (std::size_t i = 0; i < found->size(); ++i) {
    if ((*found)[i].is_null()) continue;
    HEADRACE_ASSIGN(const double number,
                    number_of((*found)[i], fmt::format("{}[{}]", row.path_of(key), i)));
    numbers.push_back(number);
  }
  return numbers;
}

// Reports older than the field have none.
Result<std::vector<double>> later_numbers_field(const Object& row, std::string_view key) {
  if (!row.json.contains(key)) return std::vector<double>();
  return numbers_field(row, key);
}

Result<Machine> machine_of(const Object& object) {
  Machine machine;
  HEADRACE_ASSIGN(machine.cpu, text_field(object, "cpu"));
  HEADRACE_ASSIGN(machine.cores, integer_field<int>(object, "cores"));
  HEADRACE_ASSIGN(machine.memory_bytes, integer_field<std::uint64_t>(object, "memory_bytes"));
  HEADRACE_ASSIGN(machine.kernel, text_field(object, "kernel"));
  HEADRACE_ASSIGN(machine.disk, text_field(object, "disk"));
  HEADRACE_ASSIGN(machine.file_system, text_field(object, "file_system"));
  HEADRACE_ASSIGN(machine.date, text_field(object, "date"));
  HEADRACE_ASSIGN(machine.version, text_field(object, "version"));
  HEADRACE_ASSIGN(machine.compiler, text_field(object, "compiler"));
  return machine;
}

Result<Row> row_of(const Object& object) {
  Row row;
  HEADRACE_ASSIGN(row.name, text_field(object, "name"));
  HEADRACE_ASSIGN(row.value, number_field(object, "value"));
  HEADRACE_ASSIGN(row.unit, text_field(object, "unit"));
  HEADRACE_ASSIGN(row.bound, number_or_null(object, "bound"));
  HEADRACE_ASSIGN(row.ratio, number_or_null(object, "ratio"));
  HEADRACE_ASSIGN(row.spread, number_or_null(object, "spread"));
  HEADRACE_ASSIGN(row.cpu, cpu_field(object));
  HEADRACE_ASSIGN(row.samples, numbers_field(object, "samples"));
  HEADRACE_ASSIGN(row.values, later_numbers_field(object, "values"));
  HEADRACE_ASSIGN(row.bounds, later_numbers_field(object, "bounds"));
  return row;
}

Result<std::vector<Row>> rows_of(const Object& report) {
  HEADRACE_ASSIGN(const Json* found, field(report, "rows"));
  if (!found->is_array()) return invalid("rows is not a list");
  std::vector<Row> rows;
  std::set<std::string> names;
  for (std::size_t i = 0; i < found->size(); ++i) {
    const std::string name = fmt::format("rows[{}]", i);
    HEADRACE_ASSIGN(Row row, row_of({(*found)[i], name}));
    if (!names.insert(row.name).second)
      return invalid(fmt::format("{}.name is there twice: {}", name, row.name));
    rows.push_back(std::move(row));
  }
  return rows;
}

Result<ReportFile> report_of(const Json& json) {
  if (json.is_discarded()) return invalid("is not JSON");
  if (!json.is_object()) return invalid("is JSON, but not an object");
  const Object report{json, ""};
  HEADRACE_ASSIGN(const std::string schema, text_field(report, "schema"));
  if (schema != kSchema)
    return invalid(fmt::format("schema is \"{}\", not \"{}\"", schema.substr(0, 60), kSchema));
  ReportFile file;
  HEADRACE_ASSIGN(const Json* machine, field(report, "machine"));
  HEADRACE_ASSIGN(file.machine, machine_of({*machine, "machine"}));
  HEADRACE_ASSIGN(file.rows, rows_of(report));
  return file;
}

Result<std::string> content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return invalid(fmt::format("cannot be opened: {}", std::generic_category().message(errno)));
  std::string text(kLargestReport + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || (file.fail() && !file.eof())) return invalid("cannot be read");
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kLargestReport)
    return invalid(fmt::format("is larger than {} bytes: not a report", kLargestReport));
  return text;
}

// How deep arrays and objects lie in one another. The parser's time grows with the square of it.
std::size_t depth_of(std::string_view text) {
  std::size_t depth = 0, deepest = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (quoted && text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      quoted = !quoted;
    } else if (!quoted && (text[i] == '[' || text[i] == '{')) {
      deepest = std::max(deepest, ++depth);
    } else if (!quoted && (text[i] == ']' || text[i] == '}') && depth > 0) {
      --depth;
    }
  }
  return deepest;
}

Result<ReportFile> read(const std::filesystem::path& path) {
  HEADRACE_ASSIGN(const std::string text, content_of(path));
  if (depth_of(text) > kDeepest) return invalid("is nested too deeply: not a report");
  return report_of(Json::parse(text, nullptr, false));
}

}  // namespace

Result<ReportFile> read_report(const std::filesystem::path& path) {
  Result<ReportFile> report = read(path);
  return report.ok() ? report : Result<ReportFile>(report.status().with(path.string()));
}

}  // namespace headrace::bench
