// The number of frames held, against a schedule played through frame by frame.
#include "latency.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace normalcrafter {
namespace {

/// Greatest difference between the last frame that had arrived and a frame that leaves then.
int played(const SessionOptions& options) {
  int held = 0;
  int windows = 0;
  int left = 0;
  int final = 0;
  for (int arrived = 0; arrived < 2000; ++arrived) {
    const int last = (windows + options.windows_per_pass - 1) * options.step_size;
    if (arrived + 1 < last + options.window_size) continue;
    windows += options.windows_per_pass;
    final = last + (options.tail_mode == TailMode::Repeat ? options.step_size : 1);
    const int chunk = options.vae_decode_chunk_size;
    for (; left < final / chunk * chunk; ++left) held = std::max(held, arrived - left);
  }
  return held;
}

TEST(FramesHeld, IsWhatTheScheduleHoldsForAllSmallOptions) {
  for (const TailMode tail : {TailMode::Anchored, TailMode::Repeat}) {
    for (int window = 1; window <= 8; ++window) {
      for (int step = 1; step <= window; ++step) {
        for (int chunk = 1; chunk <= 5; ++chunk) {
          for (int per_pass = 1; per_pass <= 3; ++per_pass) {
            SessionOptions options;
            options.tail_mode = tail;
            options.window_size = window;
            options.step_size = step;
            options.vae_decode_chunk_size = chunk;
            options.windows_per_pass = per_pass;
            ASSERT_EQ(frames_held(options), played(options))
                << "window " << window << " step " << step << " chunk " << chunk << " per pass "
                << per_pass << " tail " << static_cast<int>(tail);
          }
        }
      }
    }
  }
}

TEST(FramesHeld, IsTwentyFiveForThePublishedOptions) {
  EXPECT_EQ(frames_held(SessionOptions{}), 25);
}

TEST(SaturatedTimes, AreExactUntilTheyAreLongerThanAnyStream) {
  EXPECT_EQ(saturated_product(25, 40), 1000u);
  EXPECT_EQ(saturated_product(0, G_MAXUINT64), 0u);
  EXPECT_EQ(saturated_sum(3, 4), 7u);
  const GstClockTime most = saturated_product(G_MAXUINT, G_MAXUINT64 / 2);
  EXPECT_GT(most, GstClockTime{3600} * 24 * 365 * GST_SECOND);
  EXPECT_LT(saturated_sum(most, saturated_sum(most, G_MAXUINT64)), GST_CLOCK_TIME_NONE);
}

}  // namespace
}  // namespace normalcrafter
