// Whole clips: every frame comes out once, in order, with the offline result (cases 1 and 2).
#include "element_fixture.h"

namespace normalcrafter {
namespace {

class ClipLength : public ElementTest, public testing::WithParamInterface<int> {};

TEST_P(ClipLength, GivesTheOfflineResultOfThatManyFrames) {
  const int frames = GetParam();
  play();
  push_frames(0, frames);
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(pull_colours(frames), offline_clip(0, frames));
  EXPECT_TRUE(nothing_left());
  EXPECT_EQ(messages_->count(GST_MESSAGE_ERROR), 0);
}

INSTANTIATE_TEST_SUITE_P(Case1, ClipLength,
                         testing::Values(0, 1, 4, 9, 10, 13, 14, 15, 24, 33, 34));

struct Schedule {
  int window, step, chunk, per_pass;
};

class ClipSchedule : public ElementTest, public testing::WithParamInterface<Schedule> {};

TEST_P(ClipSchedule, GivesTheOfflineResultWithOtherWindows) {
  const auto [window, step, chunk, per_pass] = GetParam();
  g_object_set(element_, "window-size", window, "step-size", step, "vae-decode-chunk-size", chunk,
               "windows-per-pass", per_pass, nullptr);
  play();
  push_frames(0, 29);
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(pull_colours(29), offline_clip(0, 29, window, step));
  EXPECT_TRUE(nothing_left());
}

INSTANTIATE_TEST_SUITE_P(Case1, ClipSchedule,
                         testing::Values(Schedule{1, 1, 1, 1}, Schedule{2, 1, 3, 1},
                                         Schedule{5, 5, 4, 2}, Schedule{14, 1, 4, 3},
                                         Schedule{30, 30, 7, 1}));

/// Windows after which every frame may leave, so that the element holds none between two clips.
class ClipThatHasLeft : public ElementTest, public testing::WithParamInterface<Schedule> {
 protected:
  void play_clip(int frames) {
    const auto [window, step, chunk, per_pass] = GetParam();
    g_object_set(element_, "window-size", window, "step-size", step, "vae-decode-chunk-size", chunk,
                 "windows-per-pass", per_pass, nullptr);
    gst_util_set_object_arg(G_OBJECT(element_), "tail-mode", "repeat");
    play();
    push_frames(0, frames);
    ASSERT_TRUE(eventually(
        [&] { return gst_harness_buffers_received(harness_) == static_cast<unsigned>(frames); }));
    // For the worker to return from the push.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }

  std::vector<Colour> expected(int first, int frames) const {
    return offline_clip(first, frames, GetParam().window, GetParam().step);
  }
};

TEST_P(ClipThatHasLeft, EndsAtCapsOfAnotherSize) {
  constexpr const char* kWide = "video/x-raw,format=RGB,width=21,height=3,framerate=25/1";
  play_clip(20);
  EXPECT_TRUE(send(gst_event_new_caps(CapsPtr(gst_caps_from_string(kWide)).get())));
  for (int i = 100; i < 110; ++i) EXPECT_EQ(push(i, kWide), GST_FLOW_OK);
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(pull_colours(20), expected(0, 20));
  for (const Colour& colour : expected(100, 10)) EXPECT_EQ(colour_of(pull().get(), kWide), colour);
  EXPECT_EQ(messages_->count(GST_MESSAGE_ERROR), 0);
}

TEST_P(ClipThatHasLeft, EndsAtANewStream) {
  play_clip(10);
  EXPECT_TRUE(send(gst_event_new_stream_start("second")));
  send_segment();
  push_frames(100, 10);
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(pull_colours(10), expected(0, 10));
  EXPECT_EQ(pull_colours(10), expected(100, 10));
}

TEST_P(ClipThatHasLeft, EndsAtEosAndGivesTheNetworksBack) {
  g_object_set(element_, "offload-after", TRUE, nullptr);
  play_clip(10);
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(controls().clips, 1);
  EXPECT_EQ(controls().offloads, 1);
}

INSTANTIATE_TEST_SUITE_P(Case1, ClipThatHasLeft,
                         testing::Values(Schedule{1, 1, 1, 1}, Schedule{5, 5, 5, 1},
                                         Schedule{5, 5, 1, 2}));

TEST_F(ElementTest, EosWithoutFramesPassesAndRunsNothing) {
  play();
  Recorder recorder(element_);
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(recorder.log(), std::vector<std::string>{"eos"});
  EXPECT_EQ(controls().windows, 0);
}

TEST_F(ElementTest, EosLeavesAfterTheLastFrame) {
  play();
  Recorder recorder(element_);
  push_frames(0, 15);
  EXPECT_TRUE(send_eos());
  const std::vector<std::string> log = recorder.log();
  ASSERT_GE(log.size(), 2u);
  EXPECT_EQ(log.back(), "eos");
  EXPECT_EQ(log[log.size() - 2], "frame 14");
}

TEST_F(ElementTest, AClipAfterEosAndStreamStartIsAsIfAlone) {
  play();
  push_frames(0, 15);
  EXPECT_TRUE(send_eos());
  EXPECT_FALSE(send_eos()) << "a second EOS has nothing to end";
  EXPECT_TRUE(send(gst_event_new_stream_start("second")));
  send_segment();
  push_frames(100, 9);
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(pull_colours(15), offline_clip(0, 15));
  EXPECT_EQ(pull_colours(9), offline_clip(100, 9));
  EXPECT_TRUE(nothing_left());
}

TEST_F(ElementTest, FramesLeaveAsSoonAsTheyAreFinal) {
  play();
  push_frames(0, 24);
  // The window from 10 makes frames to 10 final; decode chunks of 4 end with 3 and 7.
  EXPECT_TRUE(eventually([this] { return gst_harness_buffers_received(harness_) == 8; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(gst_harness_buffers_received(harness_), 8);
}

TEST_F(ElementTest, AFullQueueHoldsUpstreamBackAndLosesNothing) {
  g_object_set(element_, "max-size-buffers", 3, nullptr);
  controls().block_windows = true;
  play();
  push_frames(0, 14);
  ASSERT_TRUE(eventually([] { return controls().in_window == 1; }));
  push_frames(14, 3);
  std::atomic<bool> returned{false};
  std::thread upstream([&] {
    EXPECT_EQ(push(17), GST_FLOW_OK);
    returned = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(returned) << "the fourth frame found room in a queue of three";
  controls().block_windows = false;
  upstream.join();
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(pull_colours(18), offline_clip(0, 18));
}

TEST_F(ElementTest, APoolOfTwoBuffersUpstreamDoesNotStarve) {
  controls().block_windows = true;
  play();
  GstBufferPool* pool = gst_video_buffer_pool_new();
  const CapsPtr caps(gst_caps_from_string(kCaps8x6));
  GstStructure* config = gst_buffer_pool_get_config(pool);
  gst_buffer_pool_config_set_params(config, caps.get(), 8 * 6 * 3, 2, 2);
  ASSERT_TRUE(gst_buffer_pool_set_config(pool, config));
  ASSERT_TRUE(gst_buffer_pool_set_active(pool, TRUE));
  GstBufferPoolAcquireParams no_waiting = {};
  no_waiting.flags = GST_BUFFER_POOL_ACQUIRE_FLAG_DONTWAIT;
  for (int i = 0; i < 20; ++i) {
    GstBuffer* buffer = nullptr;
    ASSERT_EQ(gst_buffer_pool_acquire_buffer(pool, &buffer, &no_waiting), GST_FLOW_OK)
        << "frame " << i;
    ASSERT_EQ(push_buffer(BufferPtr(buffer)), GST_FLOW_OK);
  }
  controls().block_windows = false;
  EXPECT_TRUE(send_eos());
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(pull()) << "frame " << i;
  EXPECT_TRUE(nothing_left());
  gst_buffer_pool_set_active(pool, FALSE);
  gst_object_unref(pool);
}

}  // namespace
}  // namespace normalcrafter
