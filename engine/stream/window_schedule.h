// Which windows a clip has, and what each of them settles.
#pragma once

#include <cstdint>
#include <vector>

#include "normalcrafter/options.h"

namespace normalcrafter {

/// Frames [begin, end) of a clip, counted from its first frame.
struct FrameRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
  friend bool operator==(const FrameRange&, const FrameRange&) = default;
};

/// Pieces of `size` >= 1 frames counted from the range's begin, the last one shorter.
std::vector<FrameRange> split(FrameRange range, int size);

/// One evaluation of the UNet.
struct Window {
  std::int64_t number = 0;  ///< within the clip, from 0
  FrameRange frames;        ///< may run past the clip's last frame, which is repeated then
  std::int64_t fresh = 0;   ///< the first frame that no earlier window had: the previous one's end

  /// Frames whose encodings this window brings; those past the clip's last frame are its copies.
  /// Batches are cut from here, so that they depend on the windows alone and not on how the frames
  /// arrive.
  FrameRange fresh_frames() const { return {fresh, frames.end}; }
  FrameRange overlap() const { return {frames.begin, fresh}; }
  friend bool operator==(const Window&, const Window&) = default;
};

/// Hands out a clip's windows in order as its frames arrive: starts 0, step, 2*step, ... and, at
/// the clip's end, one that completes it.
class WindowSchedule {
 public:
  /// 1 <= step <= window.
  WindowSchedule(int window, int step, TailMode tail);

  /// The next `count` regular windows once all their frames are among the first `frames`; else
  /// none.
  std::vector<Window> take(std::int64_t frames, int count);

  /// All windows that are left when the clip ends after `frames` >= 1 frames.
  std::vector<Window> finish(std::int64_t frames);

  /// Frames below this number are touched by no later window, whatever the clip's length: the next
  /// one may be the anchored tail, which starts at least one frame after the last window, or, when
  /// the tail repeats frames, a regular one.
  std::int64_t settled() const;

 private:
  std::int64_t next_start() const { return number_ * step_; }
  Window take_at(std::int64_t start);

  std::int64_t window_;
  std::int64_t step_;
  TailMode tail_;
  std::int64_t number_ = 0;  // windows handed out
  std::int64_t end_ = 0;     // the last window's end
};

}  // namespace normalcrafter
