#include "cli/outcome.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <system_error>

namespace headrace::cli {
namespace {

int code_of(const Status& status) {
  switch (status.code()) {
    case Code::ok:
      return kFine;
    case Code::invalid:
      return kUsage;
    case Code::out_of_memory:
    case Code::out_of_space:
    case Code::unavailable:
      return kLacking;
    case Code::cancelled:
      return kInterrupted;
    default:
      return kWrong;
  }
}

bool write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  return file.good();
}

}  // namespace

int fail(std::string_view command, const Status& why) {
  fmt::print(stderr, "headrace {}: {}\n", command, why.to_string());
  return code_of(why);
}

std::string cannot_write(const std::string& file) {
  if (file == "-") return "";
  std::error_code ignored;
  const std::filesystem::path path(file);
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  const bool there = std::filesystem::exists(path, ignored);
  const bool can =
      there ? !std::filesystem::is_directory(path, ignored) && ::access(path.c_str(), W_OK) == 0
            : ::access(folder.c_str(), W_OK | X_OK) == 0;
  return can ? "" : fmt::format("cannot write {}: choose another FILE", file);
}

int keep(std::string_view command, std::string_view option, const std::filesystem::path& file,
         const std::string& text) {
  if (file.empty() || write(file, text)) return kFine;
  fmt::print(stderr, "headrace {}: cannot write {}: choose another {} FILE\n", command,
             file.string(), option);
  return kUsage;
}

int show(std::string_view command, const std::filesystem::path& json_file, const std::string& text,
         const std::string& json) {
  fmt::print("{}", json_file == "-" ? json : text);
  return json_file == "-" ? kFine : keep(command, "--json", json_file, json);
}

}  // namespace headrace::cli
