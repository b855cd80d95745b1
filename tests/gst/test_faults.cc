// Faults: one error message each, in the right domain, and a clean start afterwards (cases 12 to
// 14 and 20).
#include "element_fixture.h"

namespace normalcrafter {
namespace {

struct Mapping {
  ErrorCode code;
  GQuark (*domain)();
  int number;
};

class FaultCode : public ElementTest, public testing::WithParamInterface<Mapping> {};

TEST_P(FaultCode, IsOneErrorInItsDomainAndAnotherClipPlays) {
  const Mapping mapping = GetParam();
  fail_at(3, mapping.code);
  play();
  push_frames(0, 13);
  push(13);
  EXPECT_TRUE(eventually([this] { return push(14) == GST_FLOW_ERROR; })) << "upstream is told";
  send_eos();
  EXPECT_TRUE(messages_->one_error(mapping.domain(), mapping.number, "window failed on demand"));

  gst_element_set_state(element_, GST_STATE_NULL);
  stop();
  controls().fault_frame = -1;
  play();
  push_frames(50, 15);
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(pull_colours(15), offline_clip(50, 15));
  EXPECT_EQ(messages_->errors().size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(
    Case13, FaultCode,
    testing::Values(
        Mapping{ErrorCode::Settings, gst_library_error_quark, GST_LIBRARY_ERROR_SETTINGS},
        Mapping{ErrorCode::NotFound, gst_resource_error_quark, GST_RESOURCE_ERROR_NOT_FOUND},
        Mapping{ErrorCode::OpenRead, gst_resource_error_quark, GST_RESOURCE_ERROR_OPEN_READ},
        Mapping{ErrorCode::InvalidModel, gst_resource_error_quark, GST_RESOURCE_ERROR_OPEN_READ},
        Mapping{ErrorCode::OutOfMemory, gst_resource_error_quark, GST_RESOURCE_ERROR_NO_SPACE_LEFT},
        Mapping{ErrorCode::DeviceUnavailable, gst_library_error_quark, GST_LIBRARY_ERROR_INIT},
        Mapping{ErrorCode::NetworkFailed, gst_stream_error_quark, GST_STREAM_ERROR_FAILED},
        Mapping{ErrorCode::NonFinite, gst_stream_error_quark, GST_STREAM_ERROR_FAILED}));

TEST_F(ElementTest, AFaultWhileDrainingIsOneErrorAndEosStillPasses) {
  fail_at(2, ErrorCode::NonFinite);
  play();
  push_frames(0, 5);
  Recorder recorder(element_);
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(recorder.log(), std::vector<std::string>{"eos"});
  EXPECT_TRUE(messages_->one_error(GST_STREAM_ERROR, GST_STREAM_ERROR_FAILED, "window failed"));
}

/// What an application does with an error on the thread that posts it, until destroyed.
class ErrorHandler {
 public:
  ErrorHandler(GstBus* bus, std::function<void()> handle) : bus_(bus), handle_(std::move(handle)) {
    gst_bus_set_sync_handler(bus_, on_message, this, nullptr);
  }
  ~ErrorHandler() { gst_bus_set_sync_handler(bus_, nullptr, nullptr, nullptr); }

 private:
  static GstBusSyncReply on_message(GstBus*, GstMessage* message, gpointer self) {
    if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR) static_cast<ErrorHandler*>(self)->handle_();
    return GST_BUS_PASS;
  }
  GstBus* bus_;
  std::function<void()> handle_;
};

TEST_F(ElementTest, AFaultIsToldBeforeTheEosThatWaitedForItPasses) {
  fail_at(2, ErrorCode::NetworkFailed);
  play();
  push_frames(0, 5);
  Recorder recorder(element_);
  std::atomic<bool> eos_came_first{false};
  {
    // Handles the error slowly. One that saw EOS first would take the clip for whole.
    const ErrorHandler slow(messages_->bus(), [&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      eos_came_first = !recorder.log().empty();
    });
    EXPECT_TRUE(send_eos());
    EXPECT_TRUE(messages_->wait(GST_MESSAGE_ERROR));
    EXPECT_FALSE(eos_came_first);
  }
  EXPECT_EQ(recorder.log(), std::vector<std::string>{"eos"});
}

TEST_F(ElementTest, StoppedFromItsOwnThreadItPlaysAgain) {
  fail_at(2, ErrorCode::NetworkFailed);
  play();
  push_frames(0, 5);
  {
    // A mistake of the application's, but it must not take the process with it.
    std::atomic<bool> stopped{false};
    const ErrorHandler stops(messages_->bus(), [&] {
      gst_element_set_state(element_, GST_STATE_NULL);
      stopped = true;
    });
    send_eos();
    EXPECT_TRUE(eventually([&] { return stopped.load(); }));
  }
  stop();
  controls().fault_frame = -1;
  play();
  push_frames(50, 15);
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(pull_colours(15), offline_clip(50, 15));
}

TEST_F(ElementTest, StoppedAndStartedFromItsOwnThreadItRefusesAndPlaysAgainLater) {
  fail_at(2, ErrorCode::NetworkFailed);
  play();
  push_frames(0, 5);
  {
    // A restart on error, made where the error is heard of.
    std::atomic<int> restarts{0};
    std::atomic<GstStateChangeReturn> restarted{GST_STATE_CHANGE_SUCCESS};
    const ErrorHandler restart(messages_->bus(), [&] {
      if (restarts++ > 0) return;  // its own refusal is told as an error too
      gst_element_set_state(element_, GST_STATE_NULL);
      restarted = gst_element_set_state(element_, GST_STATE_PLAYING);
    });
    send_eos();
    EXPECT_TRUE(eventually([&] { return restarted == GST_STATE_CHANGE_FAILURE; }));
    EXPECT_EQ(restarts, 2);
  }
  stop();
  controls().fault_frame = -1;
  play();
  push_frames(50, 15);
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(pull_colours(15), offline_clip(50, 15));
}

TEST_F(ElementTest, AFlushAfterAFaultStartsClean) {
  fail_at(2, ErrorCode::NetworkFailed);
  play();
  push_frames(0, 13);
  push(13);
  ASSERT_TRUE(messages_->wait(GST_MESSAGE_ERROR));
  controls().fault_frame = -1;
  EXPECT_TRUE(send(gst_event_new_flush_start()));
  EXPECT_TRUE(send(gst_event_new_flush_stop(TRUE)));
  send_segment();
  push_frames(30, 15);
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(pull_colours(15), offline_clip(30, 15));
}

TEST_F(ElementTest, AFaultWhileASessionIsMadeForAnotherFormatIsForgottenWithAFlush) {
  play();
  push_frames(0, 3);
  controls().create_fault = static_cast<int>(ErrorCode::OutOfMemory);
  gst_harness_set_sink_caps_str(harness_, "video/x-raw,format=RGBA64_LE");
  push(3);
  EXPECT_TRUE(
      messages_->one_error(GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_NO_SPACE_LEFT, "no session"));
  EXPECT_EQ(pull_colours(3), offline_clip(0, 3));
  controls().create_fault = -1;
  EXPECT_TRUE(send(gst_event_new_flush_start()));
  EXPECT_TRUE(send(gst_event_new_flush_stop(TRUE)));
  send_segment();
  push_frames(0, 3);
  EXPECT_TRUE(send_eos());
  const BufferPtr out = pull();
  ASSERT_TRUE(out);
  guint16 pixel[4];
  ASSERT_EQ(gst_buffer_extract(out.get(), 8, pixel, sizeof pixel), sizeof pixel);
  const Colour expected = offline_clip(0, 1)[0];
  EXPECT_EQ(pixel[0], 257 * expected.r) << "16 bits deep, as the caps say";
  EXPECT_EQ(pixel[1], 257 * expected.g);
}

TEST_F(ElementTest, AFaultWhileLoadingIsOneErrorAndEndsTheProgress) {
  controls().load_fault = static_cast<int>(ErrorCode::InvalidModel);
  play();
  EXPECT_TRUE(
      messages_->one_error(GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_OPEN_READ, "loading failed"));
  EXPECT_EQ(push(0), GST_FLOW_ERROR);
  const std::vector<int> progress = messages_->progress();
  ASSERT_GE(progress.size(), 2u);
  EXPECT_EQ(progress.front(), GST_PROGRESS_TYPE_START);
  EXPECT_EQ(progress.back(), GST_PROGRESS_TYPE_ERROR);
}

TEST_F(ElementTest, LoadingShowsProgress) {
  controls().load_ms = 20;
  play();
  ASSERT_TRUE(eventually([] { return controls().loads == 1; }));
  ASSERT_TRUE(eventually([this] {
    const std::vector<int> so_far = messages_->progress();
    return !so_far.empty() && so_far.back() == GST_PROGRESS_TYPE_COMPLETE;
  }));
  const std::vector<int> progress = messages_->progress();
  EXPECT_EQ(progress.front(), GST_PROGRESS_TYPE_START);
  EXPECT_GT(std::count(progress.begin(), progress.end(), GST_PROGRESS_TYPE_CONTINUE), 5);
  EXPECT_EQ(std::count(progress.begin(), progress.end(), GST_PROGRESS_TYPE_COMPLETE), 1);
}

TEST_F(ElementTest, LoadingFromAPathThatIsNotUtf8ShowsProgressToo) {
  g_object_set(element_, "model", model("latin\xe9", "good").c_str(), nullptr);
  play();
  ASSERT_TRUE(eventually([this] {
    const std::vector<int> so_far = messages_->progress();
    return !so_far.empty() && so_far.back() == GST_PROGRESS_TYPE_COMPLETE;
  }));
}

TEST_F(ElementTest, StagesTellTheirBeginAndEndAndLittleInBetween) {
  play();
  push_frames(0, 14);
  EXPECT_TRUE(send_eos());
  pull_colours(14);
  std::vector<std::uint64_t> done;
  for (const GstStructure* structure : messages_->structures("normalcrafter-stage")) {
    EXPECT_STREQ(gst_structure_get_string(structure, "stage"), "unet");
    guint64 number = 99;
    guint64 total = 0;
    EXPECT_TRUE(gst_structure_get(structure, "done", G_TYPE_UINT64, &number, "total", G_TYPE_UINT64,
                                  &total, nullptr));
    EXPECT_EQ(total, 14u);
    done.push_back(number);
  }
  ASSERT_GE(done.size(), 2u);
  EXPECT_EQ(done.front(), 0u);
  EXPECT_EQ(done.back(), 14u);
  EXPECT_LT(done.size(), 8u);  // of 15 reports that come at once
}

struct BadModel {
  const char* content;
  int number;
  const char* text;
};

class BadModelTest : public ElementTest, public testing::WithParamInterface<BadModel> {};

TEST_P(BadModelTest, FailsTheStateChangeWithOneErrorAndAGoodOnePlaysThen) {
  const BadModel bad = GetParam();
  g_object_set(element_, "model", model("bad", bad.content).c_str(), nullptr);
  EXPECT_EQ(gst_element_set_state(element_, GST_STATE_PLAYING), GST_STATE_CHANGE_FAILURE);
  EXPECT_TRUE(messages_->one_error(GST_RESOURCE_ERROR, bad.number, bad.text));
  gst_element_set_state(element_, GST_STATE_NULL);

  g_object_set(element_, "model", model("good", "good").c_str(), nullptr);
  play();
  push_frames(0, 5);
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(pull_colours(5), offline_clip(0, 5));
  EXPECT_EQ(messages_->errors().size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(
    Case14, BadModelTest,
    testing::Values(BadModel{"", GST_RESOURCE_ERROR_OPEN_READ, "bad/weights: truncated"},
                    BadModel{"rubbish", GST_RESOURCE_ERROR_OPEN_READ, "bad/weights: corrupted"}));

TEST_F(ElementTest, AMissingModelFailsTheStateChangeWithOneError) {
  g_object_set(element_, "model", "/nonexistent/model", nullptr);
  EXPECT_EQ(gst_element_set_state(element_, GST_STATE_PLAYING), GST_STATE_CHANGE_FAILURE);
  EXPECT_TRUE(
      messages_->one_error(GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_NOT_FOUND, "/nonexistent/model"));
}

TEST_F(ElementTest, AnUnsetModelIsTakenFromTheEnvironment) {
  g_object_set(element_, "model", nullptr, nullptr);
  g_setenv("NORMALCRAFTER_MODEL", "/nonexistent/from-environment", TRUE);
  EXPECT_EQ(gst_element_set_state(element_, GST_STATE_PAUSED), GST_STATE_CHANGE_FAILURE);
  EXPECT_TRUE(messages_->one_error(GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_NOT_FOUND,
                                   "/nonexistent/from-environment"));
  g_setenv("NORMALCRAFTER_MODEL", model("other", "good").c_str(), TRUE);
  EXPECT_NE(gst_element_set_state(element_, GST_STATE_PAUSED), GST_STATE_CHANGE_FAILURE);
  g_unsetenv("NORMALCRAFTER_MODEL");
}

TEST_F(ElementTest, AnUnknownDeviceIsOneError) {
  g_object_set(element_, "device", "cuda:9", nullptr);
  EXPECT_EQ(gst_element_set_state(element_, GST_STATE_PAUSED), GST_STATE_CHANGE_FAILURE);
  EXPECT_TRUE(messages_->one_error(GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_INIT, "cuda:9"));
}

class OutOfMemory : public ElementTest {
 protected:
  void SetUp() override {
    ElementTest::SetUp();
    controls().fault_code = controls().load_fault = static_cast<int>(ErrorCode::OutOfMemory);
  }
  void expect_advice_and_recovery() {
    EXPECT_TRUE(messages_->one_error(GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_NO_SPACE_LEFT,
                                     "Lower max-resolution"));
    stop();
    controls().load_fault = controls().fault_frame = -1;
    g_object_set(element_, "max-resolution", 64, nullptr);
    play();
    push_frames(0, 15);
    EXPECT_TRUE(send_eos());
    EXPECT_EQ(pull_colours(15), offline_clip(0, 15));
    EXPECT_EQ(messages_->errors().size(), 1u);
  }
};

TEST_F(OutOfMemory, WhileLoadingSaysWhatToLowerAndLessPlays) {
  play();
  expect_advice_and_recovery();
}

TEST_F(OutOfMemory, InAWindowSaysWhatToLowerAndLessPlays) {
  controls().load_fault = -1;
  controls().fault_frame = 3;
  play();
  push_frames(0, 13);
  push(13);
  expect_advice_and_recovery();
}

TEST_F(ElementTest, AnotherDeviceAfterAnUnknownOnePlays) {
  g_object_set(element_, "device", "cuda:9", nullptr);
  EXPECT_EQ(gst_element_set_state(element_, GST_STATE_PLAYING), GST_STATE_CHANGE_FAILURE);
  gst_element_set_state(element_, GST_STATE_NULL);
  g_object_set(element_, "device", "cpu", nullptr);
  play();
  push_frames(0, 5);
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(pull_colours(5), offline_clip(0, 5));
  EXPECT_EQ(messages_->errors().size(), 1u);
}

TEST_F(ElementTest, PropertiesThatCannotWorkTogetherFailTheStateChange) {
  g_object_set(element_, "window-size", 5, "step-size", 6, nullptr);
  EXPECT_EQ(gst_element_set_state(element_, GST_STATE_PAUSED), GST_STATE_CHANGE_FAILURE);
  EXPECT_TRUE(messages_->one_error(GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_SETTINGS, "step-size 6"));
}

TEST_F(ElementTest, AMissingEngineIsOneErrorThatNamesIt) {
  const std::string engine = g_getenv("NORMALCRAFTER_ENGINE");
  g_setenv("NORMALCRAFTER_ENGINE", "/nonexistent/libengine.so", TRUE);
  EXPECT_EQ(gst_element_set_state(element_, GST_STATE_PAUSED), GST_STATE_CHANGE_FAILURE);
  EXPECT_TRUE(
      messages_->one_error(GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_INIT, "/nonexistent/libengine.so"));
  g_setenv("NORMALCRAFTER_ENGINE", engine.c_str(), TRUE);
}

TEST_F(ElementTest, ALibTorchThatIsNotWhereTheVariableSaysIsOneErrorThatNamesBoth) {
  g_setenv("NORMALCRAFTER_LIBTORCH", "/nonexistent/libtorch", TRUE);
  EXPECT_EQ(gst_element_set_state(element_, GST_STATE_PAUSED), GST_STATE_CHANGE_FAILURE);
  g_unsetenv("NORMALCRAFTER_LIBTORCH");
  EXPECT_TRUE(messages_->one_error(GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_INIT,
                                   "NORMALCRAFTER_LIBTORCH names /nonexistent/libtorch"));
}

/// Answers every buffer with the same flow result.
class Refusal {
 public:
  Refusal(GstElement* element, GstFlowReturn result) : result_(result) {
    pad_ = gst_element_get_static_pad(element, "src");
    probe_ = gst_pad_add_probe(pad_, GST_PAD_PROBE_TYPE_BUFFER, refuse, this, nullptr);
  }
  ~Refusal() {
    gst_pad_remove_probe(pad_, probe_);
    gst_object_unref(pad_);
  }

 private:
  static GstPadProbeReturn refuse(GstPad*, GstPadProbeInfo* info, gpointer self) {
    gst_buffer_unref(GST_PAD_PROBE_INFO_BUFFER(info));
    GST_PAD_PROBE_INFO_DATA(info) = nullptr;
    GST_PAD_PROBE_INFO_FLOW_RETURN(info) = static_cast<Refusal*>(self)->result_;
    return GST_PAD_PROBE_HANDLED;
  }
  GstFlowReturn result_;
  GstPad* pad_;
  gulong probe_;
};

TEST_F(ElementTest, DownstreamsEosIsUpstreamsUntilANewStream) {
  play();
  {
    Refusal refusal(element_, GST_FLOW_EOS);
    push_frames(0, 23);
    push(23);
    EXPECT_TRUE(eventually([this] { return push(24) == GST_FLOW_EOS; }));
  }
  send_segment();
  push_frames(0, 5);
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(pull_colours(5), offline_clip(0, 5));
  EXPECT_EQ(messages_->count(GST_MESSAGE_ERROR), 0);
}

TEST_F(ElementTest, DownstreamsFlushingIsUpstreamsAndNoError) {
  play();
  {
    Refusal refusal(element_, GST_FLOW_FLUSHING);
    push_frames(0, 23);
    push(23);
    EXPECT_TRUE(eventually([this] { return push(24) == GST_FLOW_FLUSHING; }));
  }
  EXPECT_TRUE(send(gst_event_new_flush_start()));
  EXPECT_TRUE(send(gst_event_new_flush_stop(TRUE)));
  send_segment();
  push_frames(0, 5);
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(pull_colours(5), offline_clip(0, 5));
  EXPECT_EQ(messages_->count(GST_MESSAGE_ERROR), 0);
}

TEST_F(ElementTest, NotLinkedIsForgottenWithAReconfigure) {
  play();
  {
    Refusal refusal(element_, GST_FLOW_NOT_LINKED);
    push_frames(0, 23);
    push(23);
    EXPECT_TRUE(eventually([this] { return push(24) == GST_FLOW_NOT_LINKED; }));
  }
  EXPECT_TRUE(gst_harness_push_upstream_event(harness_, gst_event_new_reconfigure()));
  push_frames(0, 5);
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(pull_colours(5), offline_clip(0, 5));
}

TEST_F(ElementTest, AnUnlinkedElementPlaysOnWhenItIsLinkedAgain) {
  play();
  GstPad* source = gst_element_get_static_pad(element_, "src");
  ASSERT_TRUE(gst_pad_unlink(source, harness_->sinkpad));
  push_frames(0, 23);
  push(23);
  EXPECT_TRUE(eventually([this] { return push(24) == GST_FLOW_NOT_LINKED; }));
  ASSERT_EQ(gst_pad_link(source, harness_->sinkpad), GST_PAD_LINK_OK);  // sends RECONFIGURE
  gst_object_unref(source);
  push_frames(0, 5);
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(pull_colours(5), offline_clip(0, 5));
  EXPECT_EQ(messages_->count(GST_MESSAGE_ERROR), 0);
}

TEST_F(ElementTest, AnotherDownstreamThatTakesAnotherFormatPlaysOn) {
  constexpr const char* kBgr = "video/x-raw,format=BGR,width=8,height=6,framerate=25/1";
  play();
  push_frames(0, 5);
  {
    // Frames that are held go out in the old format, which the new one refuses.
    Refusal refusal(element_, GST_FLOW_NOT_NEGOTIATED);
    gst_harness_set_sink_caps_str(harness_, "video/x-raw,format=BGR");  // sends RECONFIGURE
    push_frames(5, 1);
  }
  push_frames(6, 4);
  EXPECT_TRUE(send_eos());
  const std::vector<Colour> rest = offline_clip(5, 5);
  for (const Colour& colour : rest) {
    const Colour bgr = colour_of(pull().get(), kBgr);
    EXPECT_EQ((Colour{bgr.b, bgr.g, bgr.r}), colour);
  }
  EXPECT_TRUE(nothing_left());
  EXPECT_EQ(messages_->count(GST_MESSAGE_ERROR), 0);
}

TEST_F(ElementTest, ASuccessOfDownstreamsOwnKindIsNoEnd) {
  play();
  Recorder recorder(element_);
  gst_pad_set_chain_function(harness_->sinkpad, [](GstPad*, GstObject*, GstBuffer* buffer) {
    gst_buffer_unref(buffer);
    return GST_FLOW_CUSTOM_SUCCESS;
  });
  push_frames(0, 30);
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(recorder.log().size(), 31u) << "thirty frames and EOS";
  EXPECT_EQ(messages_->count(GST_MESSAGE_ERROR), 0);
}

class DownstreamErrors : public ElementTest, public testing::WithParamInterface<GstFlowReturn> {};

TEST_P(DownstreamErrors, ReachUpstreamOnceTheyHappenAndEmptyTheQueue) {
  play();
  Refusal refusal(element_, GetParam());
  push_frames(0, 23);
  push(23);
  EXPECT_TRUE(eventually([this] { return push(24) == GetParam(); }));
  EXPECT_EQ(gst_harness_buffers_received(harness_), 0);
  EXPECT_EQ(messages_->count(GST_MESSAGE_ERROR), 0) << "the one who failed has told";
}

TEST_P(DownstreamErrors, AreTheElementsOwnWhenUpstreamHasEnded) {
  play();
  Refusal refusal(element_, GetParam());
  push_frames(0, 5);
  send_eos();
  EXPECT_TRUE(messages_->one_error(GST_STREAM_ERROR, GST_STREAM_ERROR_FAILED, ""));
}

INSTANTIATE_TEST_SUITE_P(Case12, DownstreamErrors,
                         testing::Values(GST_FLOW_ERROR, GST_FLOW_NOT_NEGOTIATED,
                                         GST_FLOW_CUSTOM_ERROR));

TEST_F(ElementTest, EosAfterNotLinkedIsAnError) {
  play();
  Refusal refusal(element_, GST_FLOW_NOT_LINKED);
  push_frames(0, 5);
  send_eos();
  EXPECT_TRUE(messages_->one_error(GST_STREAM_ERROR, GST_STREAM_ERROR_FAILED, ""));
}

}  // namespace
}  // namespace normalcrafter
