// Where an interrupted sequence is taken up again.
#pragma once

#include <cstdint>

namespace normalcrafter::convert {

/// The element's properties that decide which frames are computed together.
struct Windows {
  int window = 14;
  int step = 10;
  int decode_chunk = 4;
};

struct ResumePlan {
  std::int64_t skip = 0;     ///< frames at the clip's beginning that the network does not see again
  std::int64_t discard = 0;  ///< frames after them that are computed and not written
  friend bool operator==(const ResumePlan&, const ResumePlan&) = default;
};

/// The plan for a clip whose first `done` frames are written. The run may have been finished by
/// Ctrl-C: its last frames then come from a window that was anchored at the end, and the decode
/// chunks that this window touched. These are written again. The network starts at a multiple of
/// both step and decode_chunk, so that windows and decode chunks lie as they did, at least
/// `warm_up`
/// >= 0 windows before the first frame that is written, since a window starts from the one before
/// it, and never so late that the rest is shorter than a window: such a clip would be filled up
/// with copies of its last frame.
ResumePlan plan_resume(std::int64_t done, const Windows& windows, int warm_up);

}  // namespace normalcrafter::convert
