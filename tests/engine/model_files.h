// Files for the tests of model reading, built from literal bytes.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <string_view>

#include "normalcrafter/error.h"

namespace normalcrafter::testing {

/// A directory of its own, removed with everything in it.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "normalcrafter-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp: " + name);
    path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  std::string path(const std::string& name = {}) const {
    return name.empty() ? path_.string() : (path_ / name).string();
  }
  /// Writes a file, its folders too, and gives its path.
  std::string write(const std::string& name, std::string_view content) const {
    const auto file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << content;
    return file.string();
  }

 private:
  std::filesystem::path path_;
};

/// A safetensors file's bytes. `length` other than the header's lies about it.
inline std::string safetensors(std::string_view header, std::string_view data,
                               std::uint64_t length) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes.append(header).append(data);
}
inline std::string safetensors(std::string_view header, std::string_view data = {}) {
  return safetensors(header, data, header.size());
}

/// The Error that `action` throws; fails the test when it throws none.
template <typename Action>
Error error_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return {ErrorCode::Settings, ""};
}

/// Expects an error of that code whose message holds every one of `parts`.
template <typename Action, typename... Parts>
void expect_error(ErrorCode code, Action&& action, const Parts&... parts) {
  const Error error = error_of(action);
  EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << error.what();
  for (const std::string_view part : std::initializer_list<std::string_view>{parts...}) {
    EXPECT_NE(std::string_view(error.what()).find(part), std::string_view::npos)
        << "no " << part << " in: " << error.what();
  }
}

}  // namespace normalcrafter::testing
