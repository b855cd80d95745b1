#include "stream/window_schedule.h"

#include <gtest/gtest.h>

namespace normalcrafter {
namespace {

struct Case {
  int window, step;
  TailMode tail;
  std::int64_t frames;
  std::vector<std::int64_t> starts;
};

// A clip's windows when its frames arrive one by one and `count` windows make a round.
std::vector<Window> windows_of(const Case& c, int count) {
  WindowSchedule schedule(c.window, c.step, c.tail);
  std::vector<Window> all;
  const auto add = [&](const std::vector<Window>& some) {
    all.insert(all.end(), some.begin(), some.end());
  };
  for (std::int64_t n = 1; n <= c.frames; ++n) add(schedule.take(n, count));
  add(schedule.finish(c.frames));
  return all;
}

TEST(WindowSchedule, GivesThePublishedStarts) {
  const auto anchored = TailMode::Anchored, repeat = TailMode::Repeat;
  const Case cases[] = {
      {14, 10, anchored, 1, {0}},
      {14, 10, anchored, 14, {0}},
      {14, 10, anchored, 15, {0, 1}},
      {14, 10, anchored, 24, {0, 10}},
      {14, 10, anchored, 33, {0, 10, 19}},
      {14, 10, anchored, 34, {0, 10, 20}},
      {14, 10, repeat, 1, {0}},
      {14, 10, repeat, 15, {0, 10}},
      {14, 10, repeat, 24, {0, 10}},
      {14, 10, repeat, 25, {0, 10, 20}},
      {4, 4, anchored, 9, {0, 4, 5}},
      {4, 4, repeat, 9, {0, 4, 8}},
      {1, 1, anchored, 3, {0, 1, 2}},
      {3, 1, anchored, 5, {0, 1, 2}},
  };
  for (const Case& c : cases) {
    for (const int count : {1, 2, 5}) {
      std::vector<std::int64_t> starts;
      for (const Window& window : windows_of(c, count)) starts.push_back(window.frames.begin);
      EXPECT_EQ(starts, c.starts) << c.window << "/" << c.step << " over " << c.frames;
    }
  }
}

TEST(WindowSchedule, CoversEveryFrameOnceWithFreshFramesWhateverTheRound) {
  for (int window = 1; window <= 9; ++window)
    for (int step = 1; step <= window; ++step)
      for (const TailMode tail : {TailMode::Anchored, TailMode::Repeat})
        for (std::int64_t frames = 1; frames <= 40; ++frames) {
          const Case c{window, step, tail, frames, {}};
          const std::vector<Window> windows = windows_of(c, 1);
          std::int64_t next = 0;
          for (std::size_t i = 0; i < windows.size(); ++i) {
            EXPECT_EQ(windows[i].number, static_cast<std::int64_t>(i));
            EXPECT_EQ(windows[i].frames.size(), window);
            EXPECT_EQ(windows[i].fresh, next);
            EXPECT_GT(windows[i].fresh_frames().size(), 0);
            EXPECT_GE(windows[i].overlap().size(), 0);
            next = windows[i].frames.end;
          }
          EXPECT_GE(next, frames);
          if (tail == TailMode::Anchored) {
            EXPECT_EQ(next, std::max<std::int64_t>(frames, window));
          }
          for (const int count : {2, 3, 7}) EXPECT_EQ(windows_of(c, count), windows);
        }
}

// Whatever the clip's length turns out to be.
TEST(WindowSchedule, NeverTouchesASettledFrameAgain) {
  for (int window = 1; window <= 7; ++window)
    for (int step = 1; step <= window; ++step)
      for (const TailMode tail : {TailMode::Anchored, TailMode::Repeat})
        for (std::int64_t frames = 1; frames <= 30; ++frames) {
          WindowSchedule schedule(window, step, tail);
          std::int64_t settled = 0;
          for (std::int64_t n = 1; n <= frames; ++n) {
            for (const Window& w : schedule.take(n, 1)) EXPECT_GE(w.frames.begin, settled);
            EXPECT_GE(schedule.settled(), settled);
            EXPECT_LE(schedule.settled(), n);
            settled = schedule.settled();
          }
          for (const Window& w : schedule.finish(frames)) EXPECT_GE(w.frames.begin, settled);
        }
}

TEST(WindowSchedule, SettlesUpToTheStartOrWithARepeatedTailTheWholeStep) {
  WindowSchedule anchored(14, 10, TailMode::Anchored), repeat(14, 10, TailMode::Repeat);
  EXPECT_EQ(anchored.settled(), 0);
  ASSERT_EQ(anchored.take(24, 2).size(), 2U);
  ASSERT_EQ(repeat.take(24, 2).size(), 2U);
  EXPECT_EQ(anchored.settled(), 11);
  EXPECT_EQ(repeat.settled(), 20);
}

TEST(WindowSchedule, HandsOutARoundOnlyWhenAllItsFramesAreThere) {
  WindowSchedule schedule(14, 10, TailMode::Anchored);
  EXPECT_TRUE(schedule.take(33, 3).empty());
  EXPECT_EQ(schedule.take(34, 3).size(), 3U);
  EXPECT_TRUE(schedule.finish(34).empty());
}

TEST(Split, CountsPiecesFromTheRangesBegin) {
  EXPECT_EQ(split({14, 24}, 7), (std::vector<FrameRange>{{14, 21}, {21, 24}}));
  EXPECT_EQ(split({0, 14}, 7), (std::vector<FrameRange>{{0, 7}, {7, 14}}));
  EXPECT_TRUE(split({5, 5}, 3).empty());
}

}  // namespace
}  // namespace normalcrafter
