// How a command ends: exit codes, what it prints where, and the file of its JSON.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "io/status.h"

namespace headrace::cli {

// 1: measured but wrong, or regressed; 2: usage; 3: the machine lacks something; 130: Ctrl-C.
constexpr int kFine = 0, kWrong = 1, kUsage = 2, kLacking = 3, kInterrupted = 130;

// Says why on standard error; the exit code.
int fail(std::string_view command, const Status& why);

// Before a command begins, of the FILE of such an option: "" when it can be written, or why not.
std::string cannot_write(const std::string& file);

// Writes a file that an option such as "--json" named, if it named one; the exit code.
int keep(std::string_view command, std::string_view option, const std::filesystem::path& file,
         const std::string& text);

// The text to standard output and the JSON to the file, if there is one; "-": the JSON alone, to
// standard output. The exit code.
int show(std::string_view command, const std::filesystem::path& json_file, const std::string& text,
         const std::string& json);

}  // namespace headrace::cli
