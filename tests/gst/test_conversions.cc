// Formats, alpha, axes and refusals as a pipeline sees them.
#include <fstream>

#include "element_fixture.h"

namespace normalcrafter {
namespace {

class ConversionTest : public ElementTest {
 protected:
  /// As play(), with what downstream accepts.
  void play_to(const char* downstream, const char* upstream) {
    harness_ = gst_harness_new_with_element(element_, "sink", "src");
    gst_harness_set_sink_caps_str(harness_, downstream);
    gst_harness_set_src_caps_str(harness_, upstream);
  }

  template <typename Word>
  BufferPtr filled(const std::vector<Word>& pixel, int pixels) {
    std::vector<Word> all;
    for (int i = 0; i < pixels; ++i) all.insert(all.end(), pixel.begin(), pixel.end());
    BufferPtr buffer(gst_buffer_new_allocate(nullptr, all.size() * sizeof(Word), nullptr));
    gst_buffer_fill(buffer.get(), 0, all.data(), all.size() * sizeof(Word));
    GST_BUFFER_PTS(buffer.get()) = 0;
    return buffer;
  }

  /// The first words of the next frame that comes out. Ends the stream.
  template <typename Word>
  std::vector<Word> pull_words(std::size_t count) {
    std::vector<Word> words(count);
    send_eos();
    const BufferPtr out = pull();
    EXPECT_TRUE(out);
    if (out) {
      EXPECT_EQ(gst_buffer_extract(out.get(), 0, words.data(), count * sizeof(Word)),
                count * sizeof(Word));
    }
    return words;
  }

  StringPtr source_caps() {
    GstPad* source = gst_element_get_static_pad(element_, "src");
    const CapsPtr caps(gst_pad_get_current_caps(source));
    gst_object_unref(source);
    return StringPtr(caps ? gst_caps_to_string(caps.get()) : nullptr);
  }
};

TEST_F(ConversionTest, TenBitInputKeepsItsDepthUpToTheNetwork) {
  play_to("video/x-raw,format=RGBA64_LE",
          "video/x-raw,format=BGR10A2_LE,width=4,height=2,framerate=25/1");
  // B, G, R from the low end; the fake engine looks at the upper eight bits of each.
  const guint32 word = (0x0c4U << 0) | (0x200U << 10) | (0x3ffU << 20);
  ASSERT_EQ(push_buffer(filled<guint32>({word}, 8)), GST_FLOW_OK);
  EXPECT_EQ(pull_words<guint16>(4), (std::vector<guint16>{0, 0x80 * 257, 0x31 * 257, 65535}));
}

TEST_F(ConversionTest, SixteenBitInputBecomesEightBitOutputWhereDownstreamWantsIt) {
  play_to("video/x-raw,format=BGR", "video/x-raw,format=ARGB64_BE,width=4,height=2,framerate=25/1");
  ASSERT_EQ(push_buffer(filled<guint8>({0xff, 0xff, 0x10, 0x99, 0x20, 0x99, 0x30, 0x99}, 8)),
            GST_FLOW_OK);
  EXPECT_EQ(pull_words<guint8>(3), (std::vector<guint8>{0x30, 0x20, 0xef}));
}

TEST_F(ConversionTest, LimitedRangeInputIsSeenInFullRange) {
  play("video/x-raw,format=RGB,width=4,height=2,framerate=25/1,colorimetry=(string)2:1:5:1");
  ASSERT_EQ(push_buffer(filled<guint8>({16, 126, 235}, 8)), GST_FLOW_OK);
  EXPECT_EQ(pull_words<guint8>(3), (std::vector<guint8>{255, 128, 255}));
}

TEST_F(ConversionTest, DownstreamGetsFloatTensorsWhereItAsksForThem) {
  play_to("other/tensors,format=(string)static", kCaps8x6);
  EXPECT_STREQ(source_caps().get(),
               "other/tensors, format=(string)static, num_tensors=(int)1, types=(string)float32, "
               "framerate=(fraction)25/1, dimensions=(string)3:8:6:1");
  push_frames(0, 5);
  EXPECT_TRUE(send_eos());
  const std::vector<Colour> expected = offline_clip(0, 5);
  for (int i = 0; i < 5; ++i) {
    const BufferPtr out = pull();
    ASSERT_TRUE(out);
    EXPECT_EQ(GST_BUFFER_PTS(out.get()), i * kFrame);
    std::vector<float> vectors(8 * 6 * 3);
    ASSERT_EQ(gst_buffer_get_size(out.get()), vectors.size() * sizeof(float));
    gst_buffer_extract(out.get(), 0, vectors.data(), vectors.size() * sizeof(float));
    for (std::size_t p = 0; p < vectors.size(); p += 3) {
      EXPECT_NEAR(vectors[p], expected[i].r / 127.5 - 1, 1e-5);
      EXPECT_NEAR(vectors[p + 1], expected[i].g / 127.5 - 1, 1e-5);
      EXPECT_NEAR(vectors[p + 2], expected[i].b / 127.5 - 1, 1e-5);
    }
  }
}

TEST_F(ConversionTest, VideoIsWhatADownstreamWithoutAWishGets) {
  play_to("ANY", "video/x-raw,format=BGRx,width=4,height=2,framerate=25/1");
  EXPECT_EQ(std::string(source_caps().get()).find("video/x-raw, format=(string)BGRx"), 0u);
}

TEST_F(ConversionTest, AlphaIsOpaqueUnlessItIsAskedFor) {
  constexpr const char* kRgba = "video/x-raw,format=RGBA,width=4,height=2,framerate=25/1";
  play(kRgba);
  ASSERT_EQ(push_buffer(filled<guint8>({1, 2, 3, 77}, 8)), GST_FLOW_OK);
  EXPECT_EQ(pull_words<guint8>(4), (std::vector<guint8>{254, 2, 3, 255}));
}

TEST_F(ConversionTest, AlphaIsCopiedToWhateverFormatHasIt) {
  gst_util_set_object_arg(G_OBJECT(element_), "alpha", "copy");
  play_to("video/x-raw,format=ARGB64_BE",
          "video/x-raw,format=BGRA,width=4,height=2,framerate=25/1");
  ASSERT_EQ(push_buffer(filled<guint8>({3, 2, 1, 77}, 8)), GST_FLOW_OK);
  EXPECT_EQ(pull_words<guint8>(8), (std::vector<guint8>{77, 77, 254, 254, 2, 2, 3, 3}));
}

TEST_F(ConversionTest, AlphaOfAnInputWithoutItIsOpaque) {
  gst_util_set_object_arg(G_OBJECT(element_), "alpha", "copy");
  play_to("video/x-raw,format=RGBA", "video/x-raw,format=RGBx,width=4,height=2,framerate=25/1");
  ASSERT_EQ(push_buffer(filled<guint8>({1, 2, 3, 77}, 8)), GST_FLOW_OK);
  EXPECT_EQ(pull_words<guint8>(4), (std::vector<guint8>{254, 2, 3, 255}));
}

TEST_F(ConversionTest, AChangeOfAlphaCountsFromTheNextFrameInTheSameClip) {
  constexpr const char* kRgba = "video/x-raw,format=RGBA,width=4,height=2,framerate=25/1";
  play(kRgba);
  ASSERT_EQ(push_buffer(filled<guint8>({1, 2, 3, 77}, 8)), GST_FLOW_OK);
  gst_util_set_object_arg(G_OBJECT(element_), "alpha", "copy");
  ASSERT_EQ(push_buffer(filled<guint8>({1, 2, 3, 78}, 8)), GST_FLOW_OK);
  EXPECT_EQ(pull_words<guint8>(4)[3], 255);
  EXPECT_EQ(pull_words<guint8>(4)[3], 78);
  EXPECT_EQ(controls().clips, 1);
}

class AxesTest : public ConversionTest {
 protected:
  void use_model_that_states(const char* axes) {
    const std::string path = model("stating", "good");
    std::ofstream(path + "/axes") << axes;
    g_object_set(element_, "model", path.c_str(), nullptr);
  }

  /// What becomes of the pixel (1, 2, 3), whose normal is (254, 2, 3).
  std::vector<guint8> normal() {
    EXPECT_EQ(push_buffer(filled<guint8>({1, 2, 3}, 8)), GST_FLOW_OK);
    return pull_words<guint8>(3);
  }
  static constexpr const char* kCaps = "video/x-raw,format=RGB,width=4,height=2,framerate=25/1";
};

TEST_F(AxesTest, APresetFlipsWhatTheModelHasOtherwise) {
  use_model_that_states("opengl");
  gst_util_set_object_arg(G_OBJECT(element_), "axes", "directx");
  play(kCaps);
  EXPECT_EQ(normal(), (std::vector<guint8>{254, 253, 3}));
}

TEST_F(AxesTest, AFlipCountsOnTopOfAPreset) {
  use_model_that_states("directx");
  gst_util_set_object_arg(G_OBJECT(element_), "axes", "opencv");
  g_object_set(element_, "flip-y", TRUE, "flip-z", TRUE, nullptr);
  play(kCaps);
  EXPECT_EQ(normal(), (std::vector<guint8>{254, 253, 3}));
}

TEST_F(AxesTest, VectorsOfAModelThatStatesNothingStayAsTheyAreWithAWarning) {
  gst_util_set_object_arg(G_OBJECT(element_), "axes", "opengl");
  play(kCaps);
  EXPECT_EQ(normal(), (std::vector<guint8>{254, 2, 3}));
  EXPECT_EQ(messages_->count(GST_MESSAGE_WARNING), 1);
}

TEST_F(AxesTest, APresetThatIsSetWhilePlayingWarnsToo) {
  play(kCaps);
  EXPECT_EQ(push_buffer(filled<guint8>({1, 2, 3}, 8)), GST_FLOW_OK);
  EXPECT_EQ(messages_->count(GST_MESSAGE_WARNING), 0);
  gst_util_set_object_arg(G_OBJECT(element_), "axes", "opengl");
  EXPECT_EQ(push_buffer(filled<guint8>({1, 2, 3}, 8)), GST_FLOW_OK);
  EXPECT_EQ(push_buffer(filled<guint8>({1, 2, 3}, 8)), GST_FLOW_OK);
  EXPECT_EQ(messages_->count(GST_MESSAGE_WARNING), 1);
}

TEST_F(AxesTest, ANewPresetBeginsANewClip) {
  use_model_that_states("opengl");
  play(kCaps);
  ASSERT_EQ(push_buffer(filled<guint8>({1, 2, 3}, 8)), GST_FLOW_OK);
  gst_util_set_object_arg(G_OBJECT(element_), "axes", "directx");
  ASSERT_EQ(push_buffer(filled<guint8>({1, 2, 3}, 8)), GST_FLOW_OK);
  EXPECT_EQ(pull_words<guint8>(3), (std::vector<guint8>{254, 2, 3}));
  EXPECT_EQ(pull_words<guint8>(3), (std::vector<guint8>{254, 253, 3}));
  EXPECT_EQ(controls().clips, 2);
}

TEST_F(ConversionTest, CapsThatDownstreamCannotTakeAreOneReadableError) {
  play_to("video/x-raw,format=RGB,width=100", kCaps8x6);
  EXPECT_EQ(push(0), GST_FLOW_NOT_NEGOTIATED);
  EXPECT_EQ(push(1), GST_FLOW_NOT_NEGOTIATED);
  EXPECT_TRUE(messages_->one_error(GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION, "width=(int)100"));
}

TEST_F(ConversionTest, AConverterThatFindsNoCapsInCommonIsToldWhyOnce) {
  harness_ = gst_harness_new_with_element(element_, "sink", "src");
  gst_harness_set_sink_caps_str(harness_, "video/x-raw,width=100,height=50");
  gst_harness_play(harness_);
  GstPad* sink = gst_element_get_static_pad(element_, "sink");
  const auto ask = [&](const char* text) {
    const CapsPtr offered(gst_caps_from_string(text));
    const CapsPtr answer(gst_pad_query_caps(sink, offered.get()));
    return gst_caps_is_empty(answer.get()) != FALSE;
  };
  EXPECT_TRUE(ask("video/x-raw,format=NV12,width=32,height=24")) << "not even with our sink";
  EXPECT_FALSE(ask("video/x-raw,width=100,height=50"));
  EXPECT_FALSE(ask("video/x-raw,format=RGB,width=32,height=24; video/x-raw,format=RGB"));
  EXPECT_TRUE(ask("video/x-raw,format=RGB,width=[1,99],height=24"));
  EXPECT_EQ(messages_->count(GST_MESSAGE_WARNING), 0) << "upstream can still give something else";
  EXPECT_TRUE(ask("video/x-raw,format={RGB,NV12},width=32,height=24"));
  EXPECT_TRUE(ask("video/x-raw,format={RGB,NV12},width=32,height=24"));
  gst_object_unref(sink);
  EXPECT_EQ(messages_->count(GST_MESSAGE_WARNING), 1);
  EXPECT_EQ(messages_->count(GST_MESSAGE_ERROR), 0);
}

TEST_F(ConversionTest, DownstreamsChangeToImpossibleCapsIsOneReadableError) {
  play();
  push_frames(0, 3);
  gst_harness_set_sink_caps_str(harness_, "video/x-raw,format=RGB,width=100");
  EXPECT_EQ(push(3), GST_FLOW_NOT_NEGOTIATED);
  EXPECT_EQ(push(4), GST_FLOW_NOT_NEGOTIATED);
  EXPECT_TRUE(messages_->one_error(GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION, "width=(int)100"));
}

struct Unsupported {
  const char* caps;
  const char* named;   ///< in the error, of the caps
  const char* advice;  ///< in the error, on what to do
};

/// What an appsrc may send without having asked.
class UnsupportedInput : public ConversionTest, public testing::WithParamInterface<Unsupported> {
 protected:
  bool send_caps(const char* text) {
    return send(gst_event_new_caps(CapsPtr(gst_caps_from_string(text)).get()));
  }
};

TEST_P(UnsupportedInput, IsOneErrorThatNamesItAndWhatToPutInFront) {
  harness_ = gst_harness_new_with_element(element_, "sink", "src");
  gst_harness_play(harness_);
  send(gst_event_new_stream_start("appsrc"));
  send_caps(GetParam().caps);
  send_caps(GetParam().caps);
  EXPECT_TRUE(
      messages_->one_error(GST_STREAM_ERROR, GST_STREAM_ERROR_WRONG_TYPE, GetParam().named));
  EXPECT_TRUE(
      messages_->one_error(GST_STREAM_ERROR, GST_STREAM_ERROR_WRONG_TYPE, GetParam().advice));
}

TEST_P(UnsupportedInput, InTheMiddleOfAStreamLosesNoFrameBeforeIt) {
  play();
  push_frames(0, 5);
  send_caps(GetParam().caps);
  EXPECT_TRUE(
      messages_->one_error(GST_STREAM_ERROR, GST_STREAM_ERROR_WRONG_TYPE, GetParam().advice));
  EXPECT_TRUE(send_caps(kCaps8x6)) << "as an application that was told";
  push_frames(5, 4);
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(pull_colours(9), offline_clip(0, 9));
  EXPECT_EQ(messages_->errors().size(), 1u);
}

TEST_P(UnsupportedInput, IsNoErrorWhereUpstreamOnlyAsks) {
  play();
  GstPad* sink = gst_element_get_static_pad(element_, "sink");
  EXPECT_FALSE(
      gst_pad_query_accept_caps(sink, CapsPtr(gst_caps_from_string(GetParam().caps)).get()));
  gst_object_unref(sink);
  EXPECT_EQ(messages_->count(GST_MESSAGE_ERROR), 0);
}

INSTANTIATE_TEST_SUITE_P(
    Caps, UnsupportedInput,
    testing::Values(
        Unsupported{"video/x-raw,format=GRAY16_LE,width=8,height=6,framerate=25/1", "GRAY16_LE",
                    "videoconvert"},
        Unsupported{"video/x-raw,format=NV12,width=8,height=6,framerate=25/1", "NV12",
                    "videoconvert"},
        Unsupported{"video/x-raw(memory:GLMemory),format=RGBA,width=8,height=6,framerate=25/1",
                    "GLMemory", "gldownload"},
        Unsupported{"video/x-raw(format:Interlaced),format=RGB,width=8,height=6,framerate=25/1,"
                    "interlace-mode=alternate",
                    "Interlaced", "deinterlace"},
        Unsupported{"video/x-bayer,format=bggr,width=8,height=6,framerate=25/1", "video/x-bayer",
                    "Only raw video"},
        Unsupported{"video/x-h264,stream-format=byte-stream", "video/x-h264", "decodebin"},
        Unsupported{"audio/x-raw,format=S16LE,rate=44100,channels=2,layout=interleaved",
                    "audio/x-raw", "Only raw video"}));

TEST_F(ConversionTest, IncompleteCapsAreOneErrorThatSaysWhatTheyNeed) {
  play("video/x-raw,format=RGB,framerate=25/1");
  EXPECT_EQ(push(0), GST_FLOW_NOT_NEGOTIATED);
  EXPECT_TRUE(messages_->one_error(GST_STREAM_ERROR, GST_STREAM_ERROR_WRONG_TYPE, "width"));
  send(gst_event_new_caps(CapsPtr(gst_caps_from_string(kCaps8x6)).get()));
  push_frames(0, 3);
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(pull_colours(3), offline_clip(0, 3));
}

TEST_F(ConversionTest, CapsThatAFlushOvertakesAreNoError) {
  controls().block_windows = true;
  play();
  push_frames(0, 3);
  std::thread upstream([&] {
    send(gst_event_new_caps(
        CapsPtr(gst_caps_from_string("video/x-raw,format=RGB,width=9,height=9,framerate=25/1"))
            .get()));
  });
  ASSERT_TRUE(eventually([] { return controls().in_window == 1; })) << "the new caps drain";
  EXPECT_TRUE(send(gst_event_new_flush_start()));
  upstream.join();
  EXPECT_TRUE(send(gst_event_new_flush_stop(TRUE)));
  EXPECT_EQ(messages_->count(GST_MESSAGE_ERROR), 0);
}

TEST_F(ConversionTest, CapsThatReachADownstreamShuttingDownAreNoError) {
  play();
  gst_pad_set_active(harness_->sinkpad, FALSE);  // as a sink does it on its way to READY
  send(gst_event_new_caps(
      CapsPtr(gst_caps_from_string("video/x-raw,format=RGB,width=9,height=9,framerate=25/1"))
          .get()));
  EXPECT_EQ(messages_->count(GST_MESSAGE_ERROR), 0);
}

struct Orientation {
  const char* tag;
  int warnings;
};

class OrientationTest : public ElementTest, public testing::WithParamInterface<Orientation> {};

TEST_P(OrientationTest, IsWarnedAboutOnceAStreamIfItTurnsOrFlips) {
  play();
  const auto tag = [] {
    return gst_event_new_tag(gst_tag_list_new(GST_TAG_IMAGE_ORIENTATION, GetParam().tag, nullptr));
  };
  EXPECT_TRUE(send(tag()));
  EXPECT_TRUE(send(tag()));
  EXPECT_EQ(messages_->count(GST_MESSAGE_WARNING), GetParam().warnings);
  EXPECT_TRUE(send(gst_event_new_stream_start("another")));
  EXPECT_TRUE(send(tag()));
  EXPECT_EQ(messages_->count(GST_MESSAGE_WARNING), 2 * GetParam().warnings);
}

INSTANTIATE_TEST_SUITE_P(Tags, OrientationTest,
                         testing::Values(Orientation{"rotate-0", 0}, Orientation{"rotate-90", 1},
                                         Orientation{"rotate-180", 1},
                                         Orientation{"flip-rotate-0", 1},
                                         Orientation{"flip-rotate-270", 1}));

}  // namespace
}  // namespace normalcrafter
