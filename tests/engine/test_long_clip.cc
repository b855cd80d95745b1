// Memory does not grow with the clip.
#include <gtest/gtest.h>
#include <unistd.h>

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

TEST(LongClip, NeedsNoMoreMemoryAfter900FramesThanAfter60) {
  const test::TinyModel model;
  SessionOptions options;
  options.offload_mode = OffloadMode::Resident;
  int delivered = 0;
  SessionCallbacks callbacks;
  callbacks.frame = [&](const NormalView&) { ++delivered; };
  const auto session = make_stream_session(model.open(), options, callbacks);
  const auto frames = test::random_frames(7, {64, 64}, 1);
  double early = 0;
  double peak = 0;
  for (int i = 0; i < 900; ++i) {
    session->push(test::view_of(frames[i % frames.size()]));
    if (i < 60) early = std::max(early, resident_megabytes());
    peak = std::max(peak, resident_megabytes());
  }
  session->finish();
  EXPECT_EQ(delivered, 900);
  EXPECT_LE(peak, 1.05 * early) << "after 60 frames " << early << " MB";
  const LiveCounts most = session->stats().peak;
  EXPECT_LE(most.frames, 24);
  EXPECT_LE(most.latents, 24);
  EXPECT_LE(most.normals, 28);
}

}  // namespace
}  // namespace normalcrafter
