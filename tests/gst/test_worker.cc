// The worker apart from the element: what happens between a push's return and its consequences.
#include "worker.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <vector>

namespace normalcrafter {
namespace {

using std::chrono::milliseconds;

/// Hands each frame out again as it comes.
class EchoSession final : public Session {
 public:
  explicit EchoSession(std::function<void(const NormalView&)> frame) : frame_(std::move(frame)) {}
  void prepare() override {}
  void push(const FrameView& frame) override {
    frame_({count_++, frame.size, frame.data, frame.row_stride, frame.format});
  }
  void finish() override {}
  void reset() noexcept override {}
  void cancel() noexcept override {}
  SessionStats stats() const override { return {}; }
  void offload() noexcept override {}

 private:
  std::function<void(const NormalView&)> frame_;
  std::uint64_t count_ = 0;
};

/// Tells what it was asked for; a test says what a push does meanwhile.
class Host final : public WorkerHost {
 public:
  std::unique_ptr<Session> create_session(const SessionOptions&,
                                          std::function<void(const NormalView&)> frame) override {
    return std::make_unique<EchoSession>(std::move(frame));
  }
  GstFlowReturn push_frame(const NormalView&, const PendingFrame&) override {
    tell("frame");
    return push();
  }
  void push_event(EventPtr event) override { tell(GST_EVENT_TYPE_NAME(event.get())); }
  void store_event(EventPtr event) override {
    std::this_thread::sleep_for(milliseconds(30));
    tell(std::string("stored ") + GST_EVENT_TYPE_NAME(event.get()));
  }
  void loading(Loading, const char*) override {}
  void windows_done(const SessionStats&, const WorkerStats&) override {}
  void failed(const Error& error) override { tell(error.what()); }

  void tell(std::string what) {
    const std::lock_guard lock(mutex_);
    log_.push_back(std::move(what));
  }
  std::vector<std::string> log() const {
    const std::lock_guard lock(mutex_);
    return log_;
  }

  std::function<GstFlowReturn()> push = [] { return GST_FLOW_OK; };

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> log_;
};

class WorkerTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { gst_init(nullptr, nullptr); }
  void SetUp() override {
    config_->session = std::make_shared<const SessionOptions>();
    worker_.open(config_->session);
    worker_.set_limits(Leaky::No, 8);
    worker_.start();
  }

  GstFlowReturn queue_frame() {
    PackedFrame picture{{1, 1}, SampleFormat::U8, std::vector<std::byte>(3)};
    return worker_.queue_frame(
        {std::move(picture), {BufferPtr(gst_buffer_new()), config_, std::nullopt}});
  }
  bool queue_tag() {
    EventPtr tag(gst_event_new_tag(gst_tag_list_new_empty()));
    return worker_.queue_event(tag);
  }

  const std::shared_ptr<StreamConfig> config_ = std::make_shared<StreamConfig>();
  Host host_;
  Worker worker_{host_};
};

using Log = std::vector<std::string>;

TEST_F(WorkerTest, ATagThatDownstreamsEosLeftBehindIsStoredBeforeTheNextStreamCanFollow) {
  std::promise<void> go;
  host_.push = [&] {
    go.get_future().wait();
    return GST_FLOW_EOS;
  };
  ASSERT_EQ(queue_frame(), GST_FLOW_OK);
  ASSERT_TRUE(queue_tag());
  std::thread next_stream([&] {
    worker_.drain();
    host_.tell("next stream");
  });
  std::this_thread::sleep_for(milliseconds(20));  // so that it waits already
  go.set_value();
  next_stream.join();
  EXPECT_EQ(host_.log(), (Log{"frame", "stored tag", "next stream"}));
  EXPECT_EQ(worker_.flow(), GST_FLOW_EOS);
}

TEST_F(WorkerTest, ALinkMadeBeforeAPushToldOfNoneIsNotForgotten) {
  host_.push = [&] {
    worker_.clear_flow(GST_FLOW_NOT_LINKED);  // as the new link's RECONFIGURE does
    return GST_FLOW_NOT_LINKED;
  };
  ASSERT_EQ(queue_frame(), GST_FLOW_OK);
  EXPECT_TRUE(worker_.drain());
  EXPECT_EQ(worker_.flow(), GST_FLOW_OK);
  // Of an earlier link nothing is remembered.
  host_.push = [] { return GST_FLOW_NOT_LINKED; };
  ASSERT_EQ(queue_frame(), GST_FLOW_OK);
  worker_.drain();
  EXPECT_EQ(worker_.flow(), GST_FLOW_NOT_LINKED);
  worker_.clear_flow(GST_FLOW_NOT_LINKED);
  EXPECT_EQ(worker_.flow(), GST_FLOW_OK);
}

TEST_F(WorkerTest, AFlushStoresTheTagsOfWhatItThrowsAway) {
  std::promise<void> pushing, go;
  host_.push = [&] {
    pushing.set_value();
    go.get_future().wait();
    return GST_FLOW_FLUSHING;
  };
  ASSERT_EQ(queue_frame(), GST_FLOW_OK);
  ASSERT_TRUE(queue_tag());
  ASSERT_EQ(queue_frame(), GST_FLOW_OK);
  pushing.get_future().wait();
  worker_.begin_flush();
  go.set_value();
  EXPECT_TRUE(worker_.end_flush([&] {
    host_.tell("flush-stop");
    return true;
  }));
  EXPECT_EQ(host_.log(), (Log{"frame", "stored tag", "flush-stop"}));
  EXPECT_EQ(worker_.flow(), GST_FLOW_OK);
}

}  // namespace
}  // namespace normalcrafter
