#include "sequence.h"

#include <algorithm>
#include <cctype>
#include <regex>
#include <set>
#include <system_error>

#include "failure.h"

namespace normalcrafter::convert {
namespace {

namespace fs = std::filesystem;

bool is_digit(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}

/// The run of digits at `at`, without leading zeros, and where it ends.
std::string digits(const std::string& text, std::size_t& at) {
  std::size_t begin = at;
  while (at < text.size() && is_digit(text[at])) ++at;
  while (begin + 1 < at && text[begin] == '0') ++begin;
  return text.substr(begin, at - begin);
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator file(folder, error), end; !error && file != end;
       file.increment(error))
    names.push_back(file->path().filename().string());
  if (error) throw Failure(Status::InputMissing, folder.string() + ": " + error.message());
  return names;
}

bool is_picture(const fs::path& file) {
  static const std::set<std::string> endings = {".png", ".jpg", ".jpeg", ".webp", ".exr",
                                                ".bmp", ".tif", ".tiff", ".jp2",  ".j2k",
                                                ".ppm", ".pgm", ".pnm",  ".tga",  ".gif"};
  std::string ending = file.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return endings.count(ending) > 0 && file.filename().string()[0] != '.';
}

}  // namespace

std::optional<Pattern> Pattern::parse(const std::string& path) {
  Pattern pattern;
  pattern.text_ = path;
  const fs::path whole(path);
  pattern.folder_ = whole.parent_path();
  const std::string name = whole.filename().string();
  static const std::regex conversion(R"(%(?:%|(0?)(\d{0,2})d))");
  bool found = false;
  for (std::size_t at = 0; at < name.size();) {
    std::smatch match;
    std::string& side = found ? pattern.after_ : pattern.before_;
    if (name[at] != '%') {
      side += name[at++];
      continue;
    }
    const bool is_known =
        std::regex_search(name.begin() + static_cast<std::ptrdiff_t>(at), name.end(), match,
                          conversion, std::regex_constants::match_continuous);
    const bool is_number = is_known && match[0] != "%%";
    if (!is_known || (is_number && found)) {
      throw Failure(Status::Usage, path +
                                       ": a numbered name has one %d, %5d or %05d in its last "
                                       "part; a percent sign is written %%");
    }
    if (is_number) {
      found = true;
      pattern.fill_ = match[1].length() > 0 ? '0' : ' ';
      pattern.width_ = match[2].length() > 0 ? std::stoul(match[2]) : 0;
    } else {
      side += '%';
    }
    at += static_cast<std::size_t>(match.length());
  }
  if (!found) return std::nullopt;
  return pattern;
}

std::string without_number(const std::string& path) {
  const fs::path whole(path);
  std::string name = whole.filename().string();
  for (std::size_t at = 0; (at = name.find("%%", at)) != std::string::npos; ++at) name.erase(at, 1);
  return (whole.parent_path() / name).string();
}

fs::path Pattern::file(std::int64_t number) const {
  std::string text = std::to_string(number);
  if (text.size() < width_) text.insert(0, width_ - text.size(), fill_);
  return folder_ / (before_ + text + after_);
}

std::optional<std::int64_t> Pattern::number(const std::string& name) const {
  if (name.size() <= before_.size() + after_.size() || name.rfind(before_, 0) != 0)
    return std::nullopt;
  const std::string middle =
      name.substr(before_.size(), name.size() - before_.size() - after_.size());
  const std::size_t begin = middle.find_first_not_of(' ');
  if (begin == std::string::npos || middle.size() - begin > 18) return std::nullopt;
  if (!std::all_of(middle.begin() + static_cast<std::ptrdiff_t>(begin), middle.end(), is_digit))
    return std::nullopt;
  const std::int64_t number = std::stoll(middle.substr(begin));
  // Only what file() would write: with %05d "7" is another file.
  if (file(number).filename() != name) return std::nullopt;
  return number;
}

std::vector<std::int64_t> Pattern::present() const {
  std::vector<std::int64_t> numbers;
  for (const std::string& name : names_in(folder_.empty() ? "." : folder_)) {
    if (const auto number = this->number(name)) numbers.push_back(*number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

std::int64_t run_from(const std::vector<std::int64_t>& numbers, std::int64_t first) {
  std::int64_t count = 0;
  for (auto number = std::lower_bound(numbers.begin(), numbers.end(), first);
       number != numbers.end() && *number == first + count; ++number)
    ++count;
  return count;
}

bool natural_less(const std::string& a, const std::string& b) {
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() && j < b.size()) {
    if (is_digit(a[i]) && is_digit(b[j])) {
      const std::string left = digits(a, i);
      const std::string right = digits(b, j);
      if (left.size() != right.size()) return left.size() < right.size();
      if (left != right) return left < right;
    } else if (a[i] != b[j]) {
      return a[i] < b[j];
    } else {
      ++i;
      ++j;
    }
  }
  if (i == a.size() && j == b.size()) return a < b;  // "1" and "01"
  return i == a.size();
}

PictureList list_pictures(const Pattern& pattern) {
  const std::vector<std::int64_t> numbers = pattern.present();
  if (numbers.empty()) throw Failure(Status::InputMissing, pattern.text() + ": no such file");
  PictureList list{{}, numbers.front()};
  const std::int64_t count = run_from(numbers, numbers.front());
  if (count < static_cast<std::int64_t>(numbers.size())) {
    throw Failure(Status::InputMissing,
                  pattern.file(numbers.front() + count).string() + " is missing, though " +
                      pattern.file(numbers[static_cast<std::size_t>(count)]).string() +
                      " is there");
  }
  for (const std::int64_t number : numbers) list.files.push_back(pattern.file(number));
  return list;
}

PictureList list_pictures(const fs::path& folder) {
  std::vector<std::string> names = names_in(folder);
  std::sort(names.begin(), names.end(), natural_less);
  PictureList list;
  std::error_code ignored;
  for (const std::string& name : names) {
    if (is_picture(name) && fs::is_regular_file(folder / name, ignored))
      list.files.push_back(folder / name);
  }
  if (list.files.empty())
    throw Failure(Status::InputMissing, folder.string() + ": a folder without pictures");
  return list;
}

}  // namespace normalcrafter::convert
