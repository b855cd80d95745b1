// Which of the source's frames are converted.
#pragma once

#include <cstdint>
#include <optional>

#include "amount.h"

namespace normalcrafter::convert {

struct RangeRequest {
  Amount start;                  ///< left out at the beginning
  std::optional<Amount> length;  ///< from the first frame after `start`; nothing: all
  std::int64_t skip = 0;         ///< frames after `start` that are left out as well (ResumePlan)
};

/// Judges the source's frames one after the other.
class FrameRange {
 public:
  enum class Verdict { Skip, Pass, End };

  explicit FrameRange(const RangeRequest& request) : request_(request) {}

  /// `time`: of the frame, from the source's beginning, in nanoseconds; nothing if it has none,
  /// which then counts as that of the frame before.
  Verdict judge(std::optional<std::int64_t> time);

 private:
  bool has_started(std::int64_t time) const;
  bool has_ended(std::int64_t time) const;

  RangeRequest request_;
  std::int64_t seen_ = 0;    ///< frames before the range
  std::int64_t inside_ = 0;  ///< frames of the range so far, those skipped included
  std::int64_t begin_ = 0;   ///< time of the range's first frame
  std::int64_t time_ = 0;    ///< time of the last frame judged
};

}  // namespace normalcrafter::convert
