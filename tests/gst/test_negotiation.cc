// Caps of one pad from the other's, without an element.
#include "negotiation.h"

#include <gtest/gtest.h>

#include <string>

#include "gst_ptr.h"
#include "tensor_caps.h"

namespace normalcrafter {
namespace {

class Negotiation : public testing::Test {
 protected:
  void SetUp() override { gst_init(nullptr, nullptr); }

  static CapsPtr caps(const char* text) { return CapsPtr(gst_caps_from_string(text)); }

  static CapsPtr transformed(GstPadDirection direction, const char* text, SizeRule rule = {},
                             const char* filter = nullptr) {
    const CapsPtr filter_caps(filter != nullptr ? gst_caps_from_string(filter) : nullptr);
    return CapsPtr(transform_caps(direction, caps(text).get(), filter_caps.get(), rule));
  }

  static int field(const CapsPtr& caps, const char* name, guint index = 0) {
    int value = -1;
    gst_structure_get_int(gst_caps_get_structure(caps.get(), index), name, &value);
    return value;
  }
  static std::string format(const CapsPtr& caps, guint index = 0) {
    const char* text =
        gst_structure_get_string(gst_caps_get_structure(caps.get(), index), "format");
    return text != nullptr ? text : "";
  }
};

constexpr SizeRule kProcessed = {OutputSize::Processed, 100};

TEST_F(Negotiation, TheSameFormatComesFirst) {
  EXPECT_EQ(format(transformed(GST_PAD_SINK, "video/x-raw,format=BGRx,width=4,height=4")), "BGRx");
  EXPECT_EQ(format(transformed(GST_PAD_SRC, "video/x-raw,format=GBR,width=4,height=4")), "GBR");
}

TEST_F(Negotiation, EveryOtherFormatIsPossible) {
  const CapsPtr out = transformed(GST_PAD_SINK, "video/x-raw,format=BGRx,width=4,height=4");
  EXPECT_TRUE(gst_caps_can_intersect(out.get(),
                                     caps("video/x-raw,format=RGBA64_LE,width=4,height=4").get()));
  EXPECT_FALSE(
      gst_caps_can_intersect(out.get(), caps("video/x-raw,format=I420,width=4,height=4").get()));
}

TEST_F(Negotiation, AProcessedSizeIsThatOfTheNetworks) {
  const CapsPtr out =
      transformed(GST_PAD_SINK, "video/x-raw,format=RGB,width=300,height=201", kProcessed);
  EXPECT_EQ(field(out, "width"), 100);
  EXPECT_EQ(field(out, "height"), 67);
}

TEST_F(Negotiation, AProcessedSizeOfOnePixelIsNoRange) {
  const CapsPtr out =
      transformed(GST_PAD_SINK, "video/x-raw,format=RGB", {OutputSize::Processed, 1});
  EXPECT_EQ(field(out, "width"), 1);
  EXPECT_EQ(field(out, "height"), 1);
}

TEST_F(Negotiation, AProcessedSizeDoesNotBindTheInput) {
  const CapsPtr in =
      transformed(GST_PAD_SRC, "video/x-raw,format=RGB,width=100,height=67", kProcessed);
  EXPECT_TRUE(
      gst_caps_can_intersect(in.get(), caps("video/x-raw,format=RGB,width=300,height=201").get()));
}

TEST_F(Negotiation, RateAndAspectAreKeptAndOutputIsFullRange) {
  const CapsPtr out = transformed(GST_PAD_SINK,
                                  "video/x-raw,format=RGB,width=4,height=4,framerate=24000/1001,"
                                  "pixel-aspect-ratio=8/9,colorimetry=bt601");
  const CapsPtr video(gst_caps_intersect(out.get(), caps("video/x-raw").get()));
  EXPECT_TRUE(
      gst_caps_is_subset(video.get(), caps("video/x-raw,width=4,height=4,framerate=24000/1001,"
                                           "pixel-aspect-ratio=8/9,colorimetry=sRGB")
                                          .get()));
}

TEST_F(Negotiation, InputMayHaveAnyColorimetry) {
  const CapsPtr in =
      transformed(GST_PAD_SRC, "video/x-raw,format=RGB,width=4,height=4,colorimetry=sRGB");
  EXPECT_TRUE(gst_caps_can_intersect(
      in.get(), caps("video/x-raw,format=RGB,width=4,height=4,colorimetry=bt601").get()));
}

TEST_F(Negotiation, WhatTellsOfTheInputsLightEndsHere) {
  const CapsPtr hdr = caps(
      "video/x-raw,format=RGB10A2_LE,width=4,height=4,colorimetry=bt2100-pq,"
      "mastering-display-info=35400:14600:8500:39850:6550:2300:15635:16450:10000000:1,"
      "content-light-level=1000:400");
  const CapsPtr out(transform_caps(GST_PAD_SINK, hdr.get(), nullptr, {}));
  for (guint i = 0; i < gst_caps_get_size(out.get()); ++i) {
    const GstStructure* structure = gst_caps_get_structure(out.get(), i);
    EXPECT_FALSE(gst_structure_has_field(structure, "mastering-display-info"));
    EXPECT_FALSE(gst_structure_has_field(structure, "content-light-level"));
  }
  const CapsPtr in = transformed(GST_PAD_SRC, "video/x-raw,format=RGB,width=4,height=4");
  EXPECT_TRUE(gst_caps_can_intersect(in.get(), hdr.get()));
}

TEST_F(Negotiation, AFilterNarrowsInItsOrder) {
  const CapsPtr out = transformed(GST_PAD_SINK, "video/x-raw,format=RGB,width=4,height=4", {},
                                  "video/x-raw,format=xBGR; video/x-raw,format=RGB");
  EXPECT_EQ(format(out), "xBGR");
  EXPECT_EQ(format(out, 1), "RGB");
}

TEST_F(Negotiation, FixationPrefersTheInputsFormatWhateverDownstreamListsFirst) {
  const CapsPtr fixed = caps("video/x-raw,format=BGR,width=4,height=4");
  const CapsPtr out(
      fixate_caps(GST_PAD_SINK, fixed.get(),
                  gst_caps_from_string("video/x-raw,format={RGBA,BGR,GBR},width=4,height=4"), {}));
  EXPECT_EQ(format(out), "BGR");
  EXPECT_TRUE(gst_caps_is_fixed(out.get()));
}

TEST_F(Negotiation, FixationTakesAnotherFormatWhenItMust) {
  const CapsPtr fixed = caps("video/x-raw,format=BGR,width=4,height=4");
  const CapsPtr out(
      fixate_caps(GST_PAD_SINK, fixed.get(),
                  gst_caps_from_string("video/x-raw,format={RGBA,GBR},width=4,height=4"), {}));
  EXPECT_EQ(format(out), "RGBA");
}

TEST_F(Negotiation, WithoutAPeerTheSizeIsStillRight) {
  const CapsPtr fixed = caps("video/x-raw,format=RGB,width=300,height=201");
  const CapsPtr out(fixate_caps(GST_PAD_SINK, fixed.get(), gst_caps_ref(fixed.get()), kProcessed));
  EXPECT_EQ(field(out, "width"), 100);
}

TEST_F(Negotiation, TenBitsAreForInputOnly) {
  const CapsPtr out = transformed(GST_PAD_SINK, "video/x-raw,format=RGB10A2_LE,width=4,height=4");
  EXPECT_FALSE(gst_caps_can_intersect(out.get(), caps("video/x-raw,format=RGB10A2_LE").get()));
  EXPECT_TRUE(gst_caps_can_intersect(out.get(), caps("video/x-raw,format=RGBA64_LE").get()));
  const CapsPtr in = transformed(GST_PAD_SRC, "video/x-raw,format=RGB,width=4,height=4");
  EXPECT_TRUE(gst_caps_can_intersect(in.get(), caps("video/x-raw,format=BGR10A2_LE").get()));
}

TEST_F(Negotiation, FloatTensorsComeLastAndHaveThePicturesSizeAndRate) {
  const CapsPtr out = transformed(
      GST_PAD_SINK, "video/x-raw,format=RGB,width=300,height=201,framerate=30/1", kProcessed);
  const guint last = gst_caps_get_size(out.get()) - 1;
  for (guint i = 0; i < last; ++i) EXPECT_FALSE(is_tensor(gst_caps_get_structure(out.get(), i)));
  const CapsPtr tensor(gst_caps_copy_nth(out.get(), last));
  EXPECT_TRUE(gst_caps_is_equal(
      tensor.get(), caps("other/tensors,format=(string)static,num_tensors=1,types=(string)float32,"
                         "dimensions=(string)3:100:67:1,framerate=30/1")
                        .get()));
}

TEST_F(Negotiation, ATensorDownstreamAsksForVideoOfItsSize) {
  const CapsPtr in = transformed(
      GST_PAD_SRC, "other/tensors,format=static,types=float32,dimensions=(string)3:30:20:1");
  EXPECT_EQ(field(in, "width"), 30);
  EXPECT_EQ(field(in, "height"), 20);
  EXPECT_TRUE(gst_caps_can_intersect(in.get(), caps("video/x-raw,format=GBR").get()));
}

TEST_F(Negotiation, VideoIsTakenWhereTensorsAreAllowedToo) {
  const CapsPtr fixed = caps("video/x-raw,format=BGR,width=4,height=4");
  const char* both = "other/tensors,format=static; video/x-raw,format={RGB,BGR},width=4,height=4";
  const CapsPtr out(fixate_caps(GST_PAD_SINK, fixed.get(), gst_caps_from_string(both), {}));
  EXPECT_EQ(format(out), "BGR");
}

TEST_F(Negotiation, OnlyAPictureOfVectorsIsATensorsSize) {
  const auto size = [](const char* dimensions) {
    const CapsPtr tensor(
        gst_caps_new_simple("other/tensors", "dimensions", G_TYPE_STRING, dimensions, nullptr));
    return tensor_size(gst_caps_get_structure(tensor.get(), 0));
  };
  EXPECT_EQ(size("3:640:480:1"), (Size{640, 480}));
  for (const char* other :
       {"4:640:480:1", "3:640:480:2", "3:640:480:1:1", "3:0:480:1", "3:640", ""}) {
    EXPECT_FALSE(size(other)) << other;
  }
}

TEST_F(Negotiation, OnlyProgressiveIsProgressive) {
  EXPECT_FALSE(is_interlaced(caps("video/x-raw").get()));
  EXPECT_FALSE(is_interlaced(caps("video/x-raw,interlace-mode=progressive").get()));
  EXPECT_TRUE(is_interlaced(caps("video/x-raw,interlace-mode=interleaved").get()));
  EXPECT_TRUE(is_interlaced(caps("video/x-raw,interlace-mode=mixed").get()));
}

}  // namespace
}  // namespace normalcrafter
