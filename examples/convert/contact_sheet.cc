#include "contact_sheet.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "output_file.h"
#include "picture_files.h"

namespace normalcrafter::convert {
namespace {

constexpr int kColumns = 6;
constexpr int kWidth = 240;
constexpr int kGap = 4;

void paste(const Picture& picture, int left, int top, Picture& sheet) {
  const std::size_t row = 3 * static_cast<std::size_t>(picture.width);
  for (int y = 0; y < picture.height; ++y) {
    const auto from = picture.pixels.begin() + static_cast<std::ptrdiff_t>(y * row);
    const std::ptrdiff_t to = 3 * (std::ptrdiff_t{top + y} * sheet.width + left);
    std::copy_n(from, row, sheet.pixels.begin() + to);
  }
}

}  // namespace

bool FrameChoice::takes(std::int64_t number) {
  if (number >= 2 * count_ * stride_) stride_ *= 2;
  return number % stride_ == 0;
}

std::vector<std::int64_t> spread(const std::vector<std::int64_t>& numbers, std::size_t count) {
  if (numbers.size() <= count) return numbers;
  std::vector<std::int64_t> chosen;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t last = numbers.size() - 1;
    chosen.push_back(numbers[count == 1 ? 0 : (i * last + (count - 1) / 2) / (count - 1)]);
  }
  return chosen;
}

Picture lay_out(const std::vector<std::vector<Picture>>& columns) {
  Picture sheet{kGap, 0, {}};
  for (const auto& column : columns) {
    int height = kGap;
    for (const Picture& picture : column) height += picture.height + kGap;
    sheet.height = std::max(sheet.height, height);
    sheet.width += column.front().width + kGap;
  }
  sheet.pixels.assign(3 * static_cast<std::size_t>(sheet.width) * sheet.height, std::byte{255});
  int left = kGap;
  for (const auto& column : columns) {
    int top = kGap;
    for (const Picture& picture : column) {
      paste(picture, left, top, sheet);
      top += picture.height + kGap;
    }
    left += column.front().width + kGap;
  }
  return sheet;
}

struct ContactSheet::Shared {
  std::mutex mutex;
  FrameChoice choice{kColumns};
  std::map<std::int64_t, std::vector<Picture>> columns;  ///< by frame: input, normals, lit

  void forget_others() {
    std::erase_if(columns, [this](const auto& item) { return item.first % choice.stride() != 0; });
  }
};

ContactSheet::ContactSheet(std::string path, const Light& light)
    : shared_(std::make_unique<Shared>()), path_(std::move(path)), light_(light) {}

ContactSheet::~ContactSheet() = default;

bool ContactSheet::wants_input(std::int64_t number) {
  const std::lock_guard lock(shared_->mutex);
  const bool wanted = shared_->choice.takes(number);
  shared_->forget_others();
  return wanted;
}

void ContactSheet::add_input(std::int64_t number, const Picture& picture) {
  Picture small = shrink(picture, kWidth);
  const std::lock_guard lock(shared_->mutex);
  shared_->columns[number].push_back(std::move(small));
}

void ContactSheet::write(const NormalFrame& frame) {
  const std::int64_t number = next_++;
  {
    const std::lock_guard lock(shared_->mutex);
    if (shared_->columns.count(number) == 0) return;
  }
  Picture normals = shrink(as_colours(frame), kWidth);
  Picture lit = shrink(relight(frame, light_), kWidth);
  const std::lock_guard lock(shared_->mutex);
  const auto column = shared_->columns.find(number);
  if (column == shared_->columns.end()) return;
  column->second.push_back(std::move(normals));
  column->second.push_back(std::move(lit));
}

void ContactSheet::finish() {
  std::vector<std::int64_t> whole;
  for (const auto& [number, column] : shared_->columns) {
    if (column.size() == 3) whole.push_back(number);
  }
  if (whole.empty()) return;
  std::vector<std::vector<Picture>> columns;
  for (const std::int64_t number : spread(whole, kColumns))
    columns.push_back(shared_->columns[number]);
  OutputFile file(path_);
  write_png(file, lay_out(columns).view(), false, {});
  file.close();
}

}  // namespace normalcrafter::convert
