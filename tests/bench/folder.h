// A temporary folder of a test, removed with the object; it must be empty by then.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace headrace::bench {

class Folder {
 public:
  Folder() {
    std::string name = std::filesystem::temp_directory_path() / "headrace-bench-XXXXXX";
    path_ = mkdtemp(name.data());
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { EXPECT_TRUE(std::filesystem::remove(path_)) << path_ << " is not empty"; }

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace headrace::bench
