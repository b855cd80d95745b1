#include "stream/window_schedule.h"

#include <algorithm>

namespace normalcrafter {

std::vector<FrameRange> split(FrameRange range, int size) {
  std::vector<FrameRange> pieces;
  for (std::int64_t begin = range.begin; begin < range.end; begin += size)
    pieces.push_back({begin, std::min<std::int64_t>(begin + size, range.end)});
  return pieces;
}

WindowSchedule::WindowSchedule(int window, int step, TailMode tail)
    : window_(window), step_(step), tail_(tail) {}

Window WindowSchedule::take_at(std::int64_t start) {
  const Window window{number_, {start, start + window_}, end_};
  ++number_;
  end_ = window.frames.end;
  return window;
}

std::vector<Window> WindowSchedule::take(std::int64_t frames, int count) {
  std::vector<Window> windows;
  if (next_start() + (count - 1) * step_ + window_ > frames) return windows;
  for (int i = 0; i < count; ++i) windows.push_back(take_at(next_start()));
  return windows;
}

std::vector<Window> WindowSchedule::finish(std::int64_t frames) {
  std::vector<Window> windows;
  while (next_start() + window_ <= frames) windows.push_back(take_at(next_start()));
  if (frames > end_) {
    const bool anchored = tail_ == TailMode::Anchored;
    windows.push_back(
        take_at(anchored ? std::max<std::int64_t>(frames - window_, 0) : next_start()));
  }
  return windows;
}

std::int64_t WindowSchedule::settled() const {
  if (number_ == 0) return 0;
  return end_ - window_ + (tail_ == TailMode::Anchored ? 1 : step_);
}

}  // namespace normalcrafter
