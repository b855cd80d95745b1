// Memory does not grow with the clip.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "engine_fixture.h"

namespace normalcrafter {
namespace {

double resident_megabytes() {
  std::ifstream statm("/proc/self/statm");
  double total = 0;
  double resident = 0;
  statm >> total >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1e6;
}

// malloc() keeps and gives back what it likes, by some megabytes from window to window. Means of
// many windows show what grows, even one small frame in each.
TEST(LongClip, NeedsNoMoreMemoryInItsLast300FramesThanInItsFirst) {
  const test::TinyModel model;
  SessionOptions options;
  options.offload_mode = OffloadMode::Resident;
  int delivered = 0;
  SessionCallbacks callbacks;
  callbacks.frame = [&](const NormalView&) { ++delivered; };
  const auto session = make_stream_session(model.open(), options, callbacks);
  const auto frames = test::random_frames(7, {64, 64}, 1);
  constexpr int kFrames = 960;
  constexpr int kBegun = 60;  // frames after which all has been in use
  constexpr int kPart = 300;
  double first = 0;
  double last = 0;
  double early_peak = 0;
  double peak = 0;
  for (int i = 0; i < kFrames; ++i) {
    session->push(test::view_of(frames[i % frames.size()]));
    const double now = resident_megabytes();
    peak = std::max(peak, now);
    if (i < kBegun + kPart) early_peak = peak;
    if (i >= kBegun && i < kBegun + kPart) first += now / kPart;
    if (i >= kFrames - kPart) last += now / kPart;
  }
  session->finish();
  EXPECT_EQ(delivered, kFrames);
  EXPECT_LE(last, 1.03 * first) << "megabytes";
  EXPECT_LE(peak, 1.05 * early_peak) << "megabytes";
  const LiveCounts most = session->stats().peak;
  EXPECT_LE(most.frames, 24);
  EXPECT_LE(most.latents, 24);
  EXPECT_LE(most.normals, 28);
}

}  // namespace
}  // namespace normalcrafter
