// Two elements in one process with the same model (case 19; over the real engine: tests/pipelines).
#include "element_fixture.h"

namespace normalcrafter {
namespace {

using Clock = std::chrono::steady_clock;

class SharedModel : public ElementTest {
 protected:
  void SetUp() override {
    ElementTest::SetUp();
    other_ = gst_element_factory_make("normalcrafter", nullptr);
    gst_object_ref_sink(other_);
    g_object_set(other_, "model", model("good", "good").c_str(), nullptr);
    other_messages_ = std::make_unique<Messages>(other_);
  }

  void TearDown() override {
    controls().block_windows = false;
    stop_other();
    gst_element_set_bus(other_, nullptr);
    gst_object_unref(other_);
    ElementTest::TearDown();
  }

  void play_other() {
    other_harness_ = gst_harness_new_with_element(other_, "sink", "src");
    gst_harness_set_src_caps_str(other_harness_, kCaps8x6);
  }

  void stop_other() {
    if (other_harness_ == nullptr) return;
    gst_harness_teardown(other_harness_);
    gst_element_set_state(other_, GST_STATE_NULL);
    other_harness_ = nullptr;
  }

  void push_other(int first, int count) {
    for (int i = 0; i < count; ++i) {
      ASSERT_EQ(gst_harness_push(other_harness_, frame(first + i).release()), GST_FLOW_OK);
    }
  }

  std::vector<Colour> pull_other(int count) {
    std::vector<Colour> colours;
    for (int i = 0; i < count; ++i) {
      const BufferPtr buffer(gst_harness_pull(other_harness_));
      colours.push_back(colour_of(buffer.get()));
    }
    return colours;
  }

  GstElement* other_ = nullptr;
  GstHarness* other_harness_ = nullptr;
  std::unique_ptr<Messages> other_messages_;
};

TEST_F(SharedModel, IsOneModelAndEachElementHasItsOwnClip) {
  controls().jitter_ms = 3;
  play();
  play_other();
  EXPECT_EQ(controls().models, 1);
  EXPECT_EQ(controls().sessions, 2);
  std::thread second([&] {
    push_other(50, 34);
    EXPECT_TRUE(gst_harness_push_event(other_harness_, gst_event_new_eos()));
  });
  push_frames(0, 24);
  EXPECT_TRUE(send_eos());
  second.join();
  EXPECT_EQ(pull_colours(24), offline_clip(0, 24));
  EXPECT_EQ(pull_other(34), offline_clip(50, 34));
}

TEST_F(SharedModel, IsReleasedWithItsLastUser) {
  play();
  play_other();
  stop();
  EXPECT_EQ(controls().models, 1);
  push_other(0, 15);
  EXPECT_TRUE(gst_harness_push_event(other_harness_, gst_event_new_eos()));
  EXPECT_EQ(pull_other(15), offline_clip(0, 15));
  stop_other();
  EXPECT_EQ(controls().models, 0);
}

TEST_F(SharedModel, AFaultInOneElementLeavesTheOtherAlone) {
  controls().fault_code = static_cast<int>(ErrorCode::NetworkFailed);
  play();
  play_other();
  controls().fault_frame = 2;
  push_frames(0, 14);
  EXPECT_TRUE(messages_->wait(GST_MESSAGE_ERROR));
  controls().fault_frame = -1;
  push_other(0, 15);
  EXPECT_TRUE(gst_harness_push_event(other_harness_, gst_event_new_eos()));
  EXPECT_EQ(pull_other(15), offline_clip(0, 15));
  EXPECT_EQ(other_messages_->count(GST_MESSAGE_ERROR), 0);
}

class WaitingForTheModel : public SharedModel {
 protected:
  /// The other element is in a window that does not end; this one waits for the model.
  void SetUp() override {
    SharedModel::SetUp();
    controls().block_windows = true;
    play_other();
    push_other(50, 14);
    ASSERT_TRUE(eventually([] { return controls().in_window == 1; }));
    play();
    push_frames(0, 14);
    ASSERT_TRUE(eventually([] { return controls().waiting == 1; }));
  }

  void expect_that_the_other_finishes() {
    controls().block_windows = false;
    EXPECT_TRUE(gst_harness_push_event(other_harness_, gst_event_new_eos()));
    EXPECT_EQ(pull_other(14), offline_clip(50, 14));
  }
};

TEST_F(WaitingForTheModel, AnElementReachesReadyAtOnce) {
  const auto start = Clock::now();
  EXPECT_EQ(gst_element_set_state(element_, GST_STATE_READY), GST_STATE_CHANGE_SUCCESS);
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(1));
  EXPECT_EQ(controls().in_window, 1) << "the other's window goes on";
  expect_that_the_other_finishes();
}

TEST_F(WaitingForTheModel, AnElementIsFlushedAtOnce) {
  const auto start = Clock::now();
  EXPECT_TRUE(send(gst_event_new_flush_start()));
  EXPECT_TRUE(send(gst_event_new_flush_stop(TRUE)));
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(1));
  EXPECT_TRUE(eventually([] { return controls().waiting == 0; }));
  expect_that_the_other_finishes();
  send_segment();
  push_frames(0, 15);
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(pull_colours(15), offline_clip(0, 15));
}

TEST_F(WaitingForTheModel, AnElementHasItsTurnAfterTheOther) {
  expect_that_the_other_finishes();
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(pull_colours(14), offline_clip(0, 14));
}

}  // namespace
}  // namespace normalcrafter
