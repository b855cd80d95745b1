// Which frames are read, computed and written.
#include <gtest/gtest.h>

#include <vector>

#include "frame_range.h"
#include "picture_feeder.h"
#include "resume_plan.h"
#include "tracker.h"

namespace normalcrafter::convert {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

Amount frames(std::int64_t count) {
  return {Amount::Unit::Frames, count};
}

Amount nanoseconds(std::int64_t time) {
  return {Amount::Unit::Nanoseconds, time};
}

/// The numbers of the frames that pass, of `count` at 25 frames a second, until the end.
std::vector<int> passing(const RangeRequest& request, int count) {
  FrameRange range(request);
  std::vector<int> numbers;
  for (int i = 0; i < count; ++i) {
    const auto verdict = range.judge(i * kSecond / 25);
    if (verdict == FrameRange::Verdict::End) break;
    if (verdict == FrameRange::Verdict::Pass) numbers.push_back(i);
  }
  return numbers;
}

TEST(Range, WithoutBoundsTakesAll) {
  EXPECT_EQ(passing({}, 3), (std::vector{0, 1, 2}));
}

TEST(Range, CountsFrames) {
  EXPECT_EQ(passing({frames(2), frames(3), 0}, 9), (std::vector{2, 3, 4}));
}

TEST(Range, OfTimeTakesFramesThatBeginInIt) {
  EXPECT_EQ(passing({nanoseconds(kSecond / 25 * 2), nanoseconds(kSecond / 25 * 3), 0}, 9),
            (std::vector{2, 3, 4}));
  EXPECT_EQ(passing({nanoseconds(kSecond / 25 * 2 + kSecond / 100), {}, 0}, 5),
            (std::vector{3, 4}));
}

TEST(Range, ForgivesTheRoundingOfContainers) {
  FrameRange range({nanoseconds(2 * kSecond), nanoseconds(kSecond), 0});
  EXPECT_EQ(range.judge(1'999'700'000), FrameRange::Verdict::Pass);
  EXPECT_EQ(range.judge(2'999'800'000), FrameRange::Verdict::End);
}

TEST(Range, CountsSkippedFramesIntoItsLength) {
  EXPECT_EQ(passing({frames(1), frames(5), 2}, 9), (std::vector{3, 4, 5}));
}

TEST(Range, TakesAFrameWithoutATimeForAsLateAsTheOneBefore) {
  FrameRange range({nanoseconds(kSecond), {}, 0});
  EXPECT_EQ(range.judge(0), FrameRange::Verdict::Skip);
  EXPECT_EQ(range.judge(std::nullopt), FrameRange::Verdict::Skip);
  EXPECT_EQ(range.judge(kSecond), FrameRange::Verdict::Pass);
  EXPECT_EQ(range.judge(std::nullopt), FrameRange::Verdict::Pass);
}

// The last 18 frames, a window and a decode chunk, are written again.
TEST(Resume, BeginsAtTheBeginningWhileLittleIsDone) {
  EXPECT_EQ(plan_resume(0, {14, 10, 4}, 3), (ResumePlan{0, 0}));
  EXPECT_EQ(plan_resume(17, {14, 10, 4}, 3), (ResumePlan{0, 0}));
  EXPECT_EQ(plan_resume(48, {14, 10, 4}, 3), (ResumePlan{0, 30}));
}

TEST(Resume, BeginsAtAMultipleOfStepAndChunkBeforeTheWarmUp) {
  EXPECT_EQ(plan_resume(68, {14, 10, 4}, 3), (ResumePlan{20, 30}));
  EXPECT_EQ(plan_resume(87, {14, 10, 4}, 3), (ResumePlan{20, 49}));
  EXPECT_EQ(plan_resume(88, {14, 10, 4}, 3), (ResumePlan{40, 30}));
}

TEST(Resume, LeavesNoRestShorterThanAWindow) {
  for (int done = 0; done < 200; ++done) {
    for (const Windows& windows :
         {Windows{14, 10, 4}, Windows{4, 3, 2}, Windows{7, 7, 1}, Windows{5, 1, 3}}) {
      for (int warm_up = 0; warm_up < 4; ++warm_up) {
        const ResumePlan plan = plan_resume(done, windows, warm_up);
        EXPECT_EQ(plan.skip + plan.discard,
                  std::max(done - windows.window - windows.decode_chunk, 0));
        EXPECT_EQ(plan.skip % windows.step, 0);
        EXPECT_EQ(plan.skip % windows.decode_chunk, 0);
        if (plan.skip > 0) {
          EXPECT_GE(plan.discard, windows.window);
          EXPECT_GE(plan.discard, warm_up * windows.step);
        }
      }
    }
  }
}

TEST(PictureCut, TakesTheFilesOfTheRangeAndTheFirstOnesNumber) {
  const std::vector<std::filesystem::path> files = {"0", "1", "2", "3", "4", "5"};
  const PictureRange range = cut(files, {frames(1), frames(4), 1}, {25, 1});
  EXPECT_EQ(range.first, 2);
  EXPECT_EQ(range.files, (std::vector<std::filesystem::path>{"2", "3", "4"}));
  EXPECT_EQ(cut(files, {nanoseconds(kSecond / 25 * 4), {}, 0}, {25, 1}).first, 4);
  EXPECT_TRUE(cut(files, {frames(6), {}, 0}, {25, 1}).files.empty());
}

TEST(FrameRates, GiveTimesWithoutDrift) {
  const Rate film{24000, 1001};
  EXPECT_EQ(film.time(0), 0);
  EXPECT_EQ(film.time(24000), 1001 * kSecond);
  EXPECT_EQ(film.time(1), 41'708'333);
}

TEST(ExpectedFrames, ComeFromDurationAndRate) {
  const SourceLength length{{}, 10 * kSecond, {25, 1}};
  EXPECT_EQ(frames_expected(length, {}, 0), 250);
  EXPECT_EQ(frames_expected(length, {frames(50), {}, 0}, 0), 200);
  EXPECT_EQ(frames_expected(length, {nanoseconds(2 * kSecond), nanoseconds(kSecond), 0}, 0), 25);
  EXPECT_EQ(frames_expected(length, {frames(240), frames(100), 0}, 4), 6);
  EXPECT_EQ(frames_expected(length, {frames(300), {}, 0}, 0), 0);
}

TEST(ExpectedFrames, AreUnknownWithoutARate) {
  EXPECT_EQ(frames_expected({{}, 10 * kSecond, {}}, {}, 0), std::nullopt);
  EXPECT_EQ(frames_expected({{}, {}, {}}, {{}, frames(9), 0}, 0), 9);
  EXPECT_EQ(frames_expected({{}, {}, {}}, {nanoseconds(1), frames(9), 0}, 0), std::nullopt);
}

}  // namespace
}  // namespace normalcrafter::convert
