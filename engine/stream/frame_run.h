// The tensors of consecutive frames.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <deque>

#include "stream/window_schedule.h"

namespace normalcrafter {

/// One tensor a frame, each owning its memory and not a view of a batch, so that what size() counts
/// is what is held.
class FrameRun {
 public:
  std::int64_t end() const { return begin_ + size(); }
  std::int64_t size() const { return static_cast<std::int64_t>(frames_.size()); }

  /// The tensor of a frame that is held.
  const at::Tensor& operator[](std::int64_t frame) const { return frames_.at(frame - begin_); }
  /// Adds the next frame's tensor, which becomes the run's own.
  void push_back(at::Tensor frame) { frames_.push_back(std::move(frame)); }

  /// Adds the next frames: batch [n,...], copied.
  void append(const at::Tensor& batch);
  /// Adds the last frame's tensor so many times more, copied.
  void repeat_last(std::int64_t count);
  /// Replaces the frames from `first` on: batch [n,...], copied.
  void overwrite(std::int64_t first, const at::Tensor& batch);
  /// [n,...], contiguous, in memory of its own: matrix kernels may round differently with the
  /// alignment, which the position within a longer tensor would change.
  at::Tensor copy(FrameRange range) const;

  /// Frees the frames below `frame`.
  void drop_before(std::int64_t frame);

 private:
  std::deque<at::Tensor> frames_;
  std::int64_t begin_ = 0;
};

}  // namespace normalcrafter
