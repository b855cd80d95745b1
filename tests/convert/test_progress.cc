// What is told of the progress.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "progress.h"

namespace normalcrafter::convert {
namespace {

TEST(Clock, IsWrittenForPeople) {
  EXPECT_EQ(clock_text(0), "0:00");
  EXPECT_EQ(clock_text(59.6), "1:00");
  EXPECT_EQ(clock_text(75), "1:15");
  EXPECT_EQ(clock_text(3675), "1:01:15");
}

TEST(FramesPerSecond, AreMeasuredWhenFramesComeOut) {
  Speed speed;
  speed.start(100);
  EXPECT_EQ(speed.rate(), 0);
  EXPECT_EQ(speed.left(50, 100), 0);
  for (int i = 0; i < 10; ++i) speed.frame(105);
  EXPECT_DOUBLE_EQ(speed.rate(), 2);
  EXPECT_DOUBLE_EQ(speed.left(50, 105), 20);
  EXPECT_DOUBLE_EQ(speed.left(50, 108), 17);
  EXPECT_DOUBLE_EQ(speed.left(50, 999), 0);
}

Progress running() {
  Progress progress;
  progress.stage = Progress::Stage::Running;
  progress.read = 40;
  progress.done = 25;
  progress.total = 100;
  progress.rate = 3.25;
  progress.left = 41;
  return progress;
}

TEST(ProgressLine, ShowsFramesSpeedAndTimeLeft) {
  EXPECT_EQ(progress_text(running(), 0),
            "[#####...............]  25/100 frames, 3.25 fps, 0:41 left");
}

TEST(ProgressLine, IsNoWiderThanTheTerminal) {
  EXPECT_EQ(progress_text(running(), 30).size(), 30U);
}

TEST(ProgressLine, TellsTheStageBeforeTheFirstFrame) {
  Progress progress;
  EXPECT_EQ(progress_text(progress, 0), "opening the input");
  progress.stage = Progress::Stage::Loading;
  progress.percent = 40;
  progress.read = 3;
  EXPECT_EQ(progress_text(progress, 0), "loading the model, 40 %, 3 frames read");
  progress.stage = Progress::Stage::Running;
  EXPECT_EQ(progress_text(progress, 0), "first window of frames, 3 frames read");
}

TEST(ProgressLine, NamesTheNetworkWhereFramesAreRare) {
  Progress progress;
  progress.stage = Progress::Stage::Running;
  progress.read = 14;
  progress.network = "unet";
  progress.network_percent = 60;
  EXPECT_EQ(progress_text(progress, 0), "first window of frames, 14 frames read; unet 60 %");
  progress = running();
  progress.network = "decode";
  EXPECT_EQ(progress_text(progress, 0),
            "[#####...............]  25/100 frames, 3.25 fps, 0:41 left");
  progress.rate = 0.1;
  EXPECT_EQ(progress_text(progress, 0),
            "[#####...............]  25/100 frames, 0.10 fps, 0:41 left; decode 0 %");
}

TEST(ProgressLine, DoesWithoutAKnownLength) {
  Progress progress = running();
  progress.total.reset();
  EXPECT_EQ(progress_text(progress, 0), "25 frames, 3.25 fps");
}

TEST(ProgressObject, HasTheSameInOneLine) {
  const std::string text = progress_json(running());
  EXPECT_EQ(text.find('\n'), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(text), (nlohmann::json{{"event", "progress"},
                                                         {"stage", "running"},
                                                         {"read", 40},
                                                         {"frames", 25},
                                                         {"total", 100},
                                                         {"fps", 3.25},
                                                         {"seconds_left", 41.0}}));
}

TEST(ProgressObject, NamesTheNetwork) {
  Progress progress = running();
  progress.network = "encode";
  progress.network_percent = 50;
  const auto object = nlohmann::json::parse(progress_json(progress));
  EXPECT_EQ(object["network"], "encode");
  EXPECT_EQ(object["network_percent"], 50);
}

TEST(ProgressObject, LeavesOutWhatIsNotKnown) {
  Progress progress;
  progress.stage = Progress::Stage::Loading;
  progress.percent = 7;
  EXPECT_EQ(nlohmann::json::parse(progress_json(progress)), (nlohmann::json{{"event", "progress"},
                                                                            {"stage", "loading"},
                                                                            {"percent", 7},
                                                                            {"read", 0},
                                                                            {"frames", 0}}));
}

}  // namespace
}  // namespace normalcrafter::convert
