#include "frame_range.h"

namespace normalcrafter::convert {
namespace {

// Containers round timestamps, Matroska to a millisecond: a frame at 1.9997 s is the one of 2 s.
constexpr std::int64_t kRounding = 500'000;

bool in_frames(const Amount& amount) {
  return amount.unit == Amount::Unit::Frames;
}

}  // namespace

bool FrameRange::has_started(std::int64_t time) const {
  if (inside_ > 0) return true;
  return in_frames(request_.start) ? seen_ >= request_.start.value
                                   : time + kRounding >= request_.start.value;
}

bool FrameRange::has_ended(std::int64_t time) const {
  if (!request_.length) return false;
  return in_frames(*request_.length) ? inside_ >= request_.length->value
                                     : time - begin_ + kRounding >= request_.length->value;
}

FrameRange::Verdict FrameRange::judge(std::optional<std::int64_t> time) {
  time_ = time.value_or(time_);
  if (!has_started(time_)) {
    ++seen_;
    return Verdict::Skip;
  }
  if (inside_ == 0) begin_ = time_;
  if (has_ended(time_)) return Verdict::End;
  return inside_++ < request_.skip ? Verdict::Skip : Verdict::Pass;
}

}  // namespace normalcrafter::convert
