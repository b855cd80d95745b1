// Sizes, formats, and their changes.
#include "pipeline.h"

namespace normalcrafter {
namespace {

std::vector<guint> hashes(const Tap& tap) {
  std::vector<guint> all;
  for (const Passed& frame : tap.passed()) all.push_back(frame.hash);
  return all;
}

class Shapes : public PipelineTest {
 protected:
  /// The frames' hashes as RGB, with the element working on `format`.
  static std::vector<guint> normals_of(const std::string& format) {
    Pipeline pipeline(
        "videotestsrc pattern=smpte num-buffers=7 ! "
        "video/x-raw,format=RGB,width=24,height=16,framerate=25/1 ! videoconvert ! "
        "video/x-raw,format=" +
        format + " !" + normals() + "! video/x-raw,format=" + format +
        " ! videoconvert ! video/x-raw,format=RGB ! fakesink name=end");
    const Tap end(pipeline.element("end"), "sink");
    EXPECT_TRUE(pipeline.finishes());
    return hashes(end);
  }
};

class SizeTest : public Shapes, public testing::WithParamInterface<std::pair<int, int>> {};

TEST_P(SizeTest, ComesBackExactly) {
  const auto [width, height] = GetParam();
  const std::string size =
      "width=(int)" + std::to_string(width) + ", height=(int)" + std::to_string(height);
  Pipeline pipeline("videotestsrc num-buffers=5 ! video/x-raw,format=RGB,width=" +
                    std::to_string(width) + ",height=" + std::to_string(height) + " !" +
                    normals("normals", "max-resolution=128") + "! fakesink name=end");
  const Tap end(pipeline.element("end"), "sink");
  ASSERT_TRUE(pipeline.finishes());
  ASSERT_EQ(end.count(), 5);
  for (const Passed& frame : end.passed()) {
    EXPECT_NE(frame.caps.find(size), std::string::npos) << frame.caps;
    EXPECT_EQ(frame.bytes, static_cast<std::size_t>((width * 3 + 3) / 4 * 4 * height));
  }
}

INSTANTIATE_TEST_SUITE_P(Pipelines, SizeTest,
                         testing::Values(std::pair(1, 1), std::pair(17, 31), std::pair(31, 1001),
                                         std::pair(1001, 31), std::pair(64, 48)));

TEST_F(Shapes, TheOrderOfChannelsInMemoryDoesNotChangeTheNormals) {
  const auto rgb = normals_of("RGB");
  ASSERT_EQ(rgb.size(), 7);
  for (const char* format : {"BGR", "RGBx", "xBGR", "ARGB", "GBR"}) {
    EXPECT_EQ(normals_of(format), rgb) << format;
  }
}

TEST_F(Shapes, ThatAreNotSupportedAreToldBeforeAppsrcsOwnError) {
  Pipeline pipeline("appsrc name=in !" + normals() + "! fakesink");
  GstElement* source = pipeline.element("in");
  gst_element_set_state(pipeline.get(), GST_STATE_PLAYING);
  // Only now, so that linking could not refuse them.
  const CapsPtr caps(
      gst_caps_from_string("video/x-raw,format=GRAY16_LE,width=32,height=24,framerate=25/1"));
  g_object_set(source, "caps", caps.get(), nullptr);
  GstBuffer* buffer = gst_buffer_new_allocate(nullptr, gsize{32} * 24 * 2, nullptr);
  GstFlowReturn flow = GST_FLOW_ERROR;
  g_signal_emit_by_name(source, "push-buffer", buffer, &flow);
  gst_buffer_unref(buffer);
  GstBus* bus = gst_element_get_bus(pipeline.get());
  const MessagePtr message(gst_bus_timed_pop_filtered(bus, 20 * GST_SECOND, GST_MESSAGE_ERROR));
  gst_object_unref(bus);
  ASSERT_TRUE(message);
  EXPECT_EQ(GST_MESSAGE_SRC(message.get()), GST_OBJECT(pipeline.element("normals")));
}

TEST_F(Shapes, ChangeMidStreamAndNoFrameIsLost) {
  Pipeline pipeline(
      "concat name=all !" + normals() +
      "! fakesink name=end "
      "videotestsrc num-buffers=7 ! video/x-raw,format=RGB,width=32,height=24 ! all. "
      "videotestsrc num-buffers=9 ! video/x-raw,format=BGRx,width=17,height=31 ! all. "
      "videotestsrc num-buffers=1 ! video/x-raw,format=RGB,width=32,height=24 ! all. ");
  const Tap end(pipeline.element("end"), "sink");
  const Tap in(pipeline.element("normals"), "sink");
  ASSERT_TRUE(pipeline.finishes());
  const auto before = in.passed();
  const auto after = end.passed();
  ASSERT_EQ(after.size(), 17);
  for (int i = 0; i < 17; ++i) {
    const bool other = i >= 7 && i < 16;
    EXPECT_EQ(after[i].bytes, std::size_t{other ? 17U * 31 * 4 : 32U * 24 * 3}) << "frame " << i;
    EXPECT_EQ(after[i].pts, before[i].pts) << "frame " << i;
  }
}

}  // namespace
}  // namespace normalcrafter
