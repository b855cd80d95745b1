// Numbered files and folders of pictures.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace normalcrafter::convert {

/// File names with a number in them, as printf would write it: "frames/in-%05d.png". Only the last
/// part of the path may hold the number; "%%" there is a percent sign.
class Pattern {
 public:
  /// Nothing if `path` holds no number. A Failure (Usage) if it holds what looks like one and is
  /// none: two numbers, or another conversion than %d, %5d and %05d.
  static std::optional<Pattern> parse(const std::string& path);

  std::filesystem::path file(std::int64_t number) const;
  /// The number in this name of a file of the folder; nothing if it is not one of the pattern's.
  std::optional<std::int64_t> number(const std::string& name) const;
  /// The numbers of the files that are there, ascending.
  std::vector<std::int64_t> present() const;
  const std::filesystem::path& folder() const { return folder_; }
  /// As it was parsed.
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  std::filesystem::path folder_;
  std::string before_;
  std::string after_;
  std::size_t width_ = 0;
  char fill_ = ' ';
};

/// A path in which Pattern::parse() found no number: "%%" in its last part is a percent sign.
std::string without_number(const std::string& path);

/// How many of ascending `numbers` follow each other from `first` on.
std::int64_t run_from(const std::vector<std::int64_t>& numbers, std::int64_t first);

/// People's order: numbers in names count by their value, so that 9 is before 10.
bool natural_less(const std::string& a, const std::string& b);

/// Pictures of a sequence to read, in order.
struct PictureList {
  std::vector<std::filesystem::path> files;
  std::int64_t first_number = 0;  ///< the first file's, where the names are a pattern's
};

/// The pattern's files from the lowest number on. A Failure (InputMissing) if there is none, or if
/// one in the middle is missing.
PictureList list_pictures(const Pattern& pattern);
/// The folder's pictures in natural order. A Failure (InputMissing) if there is none.
PictureList list_pictures(const std::filesystem::path& folder);

}  // namespace normalcrafter::convert
