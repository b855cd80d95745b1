#include "stream/frame_run.h"

#include <vector>

namespace normalcrafter {

void FrameRun::append(const at::Tensor& batch) {
  for (std::int64_t i = 0; i < batch.size(0); ++i)
    frames_.push_back(batch.select(0, i).clone(at::MemoryFormat::Contiguous));
}

void FrameRun::repeat_last(std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i)
    frames_.push_back(frames_.back().clone(at::MemoryFormat::Contiguous));
}

void FrameRun::overwrite(std::int64_t first, const at::Tensor& batch) {
  for (std::int64_t i = 0; i < batch.size(0); ++i)
    frames_.at(first - begin_ + i) = batch.select(0, i).clone(at::MemoryFormat::Contiguous);
}

at::Tensor FrameRun::copy(FrameRange range) const {
  const auto begin = frames_.begin() + (range.begin - begin_);
  return at::stack(std::vector<at::Tensor>(begin, begin + range.size()));
}

void FrameRun::drop_before(std::int64_t frame) {
  while (begin_ < frame && !frames_.empty()) {
    frames_.pop_front();
    ++begin_;
  }
}

}  // namespace normalcrafter
