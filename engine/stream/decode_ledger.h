// Which frames have been decoded, in which chunks.
#pragma once

#include <cstdint>
#include <vector>

#include "stream/window_schedule.h"

namespace normalcrafter {

/// Hands out each frame of a clip once, in chunks aligned to its first frame: the decoder is
/// temporal, so a chunk's bounds change the result and must not depend on when frames are settled.
class DecodeLedger {
 public:
  /// `chunk` >= 1 frames.
  explicit DecodeLedger(int chunk) : chunk_(chunk) {}

  /// The full chunks among the first `settled` frames that were not taken before.
  std::vector<FrameRange> take(std::int64_t settled);

  /// All that is left of a clip of `frames` frames; the last chunk may be shorter.
  std::vector<FrameRange> finish(std::int64_t frames);

 private:
  int chunk_;
  std::int64_t taken_ = 0;
};

}  // namespace normalcrafter
