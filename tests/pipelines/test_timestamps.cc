// Times and frame counts from file to file.
#include "pipeline.h"

namespace normalcrafter {
namespace {

constexpr const char* kRgb = "video/x-raw,format=RGB,width=32,height=32";

class Timestamps : public PipelineTest {
 protected:
  /// Pushes a grey frame with what may be GST_CLOCK_TIME_NONE.
  static void push(GstElement* source, int number, GstClockTime pts, GstClockTime duration) {
    constexpr gsize kBytes = gsize{32} * 32 * 3;
    GstBuffer* buffer = gst_buffer_new_allocate(nullptr, kBytes, nullptr);
    gst_buffer_memset(buffer, 0, static_cast<guint8>(10 * number), kBytes);
    GST_BUFFER_PTS(buffer) = pts;
    GST_BUFFER_DURATION(buffer) = duration;
    GstFlowReturn flow = GST_FLOW_ERROR;
    g_signal_emit_by_name(source, "push-buffer", buffer, &flow);
    gst_buffer_unref(buffer);
    ASSERT_EQ(flow, GST_FLOW_OK);
  }

  static void end(GstElement* source) {
    GstFlowReturn flow = GST_FLOW_ERROR;
    g_signal_emit_by_name(source, "end-of-stream", &flow);
  }

  static void expect_same_times(const std::vector<Passed>& in, const std::vector<Passed>& out) {
    ASSERT_EQ(in.size(), out.size());
    for (std::size_t i = 0; i < in.size(); ++i) {
      EXPECT_EQ(in[i].pts, out[i].pts) << "frame " << i;
      EXPECT_EQ(in[i].dts, out[i].dts) << "frame " << i;
      EXPECT_EQ(in[i].duration, out[i].duration) << "frame " << i;
    }
  }

  /// Frames at these milliseconds.
  void write_variable_rate(const std::string& path, const std::vector<int>& times) {
    Pipeline writer(std::string("appsrc name=in format=time caps=") + kRgb +
                    ",framerate=0/1 ! matroskamux ! filesink location=" + path);
    ASSERT_TRUE(writer.reaches(GST_STATE_READY));
    gst_element_set_state(writer.get(), GST_STATE_PLAYING);
    for (std::size_t i = 0; i < times.size(); ++i) {
      push(writer.element("in"), static_cast<int>(i), times[i] * GST_MSECOND, GST_CLOCK_TIME_NONE);
    }
    end(writer.element("in"));
    ASSERT_TRUE(writer.posts(GST_MESSAGE_EOS));
  }
};

TEST_F(Timestamps, OfAMatroskaFileOfVariableRateAreTheSameBeforeAndAfter) {
  const std::vector<int> times = {0, 33, 40, 140, 141, 300, 333, 367, 900, 2500, 2533};
  write_variable_rate(file("in.mkv"), times);
  {
    Pipeline pipeline("filesrc location=" + file("in.mkv") + " ! matroskademux !" + normals() +
                      "! matroskamux ! filesink location=" + file("out.mkv"));
    const Tap in(pipeline.element("normals"), "sink");
    const Tap out(pipeline.element("normals"), "src");
    ASSERT_TRUE(pipeline.finishes());
    expect_same_times(in.passed(), out.passed());
  }
  Pipeline reader("filesrc location=" + file("out.mkv") + " ! matroskademux ! fakesink name=end");
  const Tap end(reader.element("end"), "sink");
  ASSERT_TRUE(reader.finishes());
  std::vector<int> written;
  for (const Passed& frame : end.passed()) {
    written.push_back(static_cast<int>(frame.pts / GST_MSECOND));
  }
  EXPECT_EQ(written, times);
}

TEST_F(Timestamps, OfFilmRateKeepTheFractionAndTheCountThroughMp4) {
  {
    Pipeline pipeline(
        "videotestsrc num-buffers=48 ! video/x-raw,width=64,height=48,framerate=24000/1001 ! "
        "videoconvert !" +
        normals() +
        "! videoconvert ! video/x-raw,format=Y444 ! x264enc speed-preset=ultrafast ! mp4mux ! "
        "filesink location=" +
        file("film.mp4"));
    ASSERT_TRUE(pipeline.finishes());
  }
  Pipeline reader("filesrc location=" + file("film.mp4") + " ! qtdemux ! fakesink name=end");
  const Tap end(reader.element("end"), "sink");
  ASSERT_TRUE(reader.finishes());
  const auto frames = end.passed();
  ASSERT_EQ(frames.size(), 48);
  EXPECT_NE(frames[0].caps.find("framerate=(fraction)24000/1001"), std::string::npos)
      << frames[0].caps;
}

TEST_F(Timestamps, ThatAreMissingStayMissing) {
  Pipeline pipeline(std::string("appsrc name=in format=time caps=") + kRgb + ",framerate=25/1 !" +
                    normals() + "! fakesink");
  const Tap in(pipeline.element("normals"), "sink");
  const Tap out(pipeline.element("normals"), "src");
  gst_element_set_state(pipeline.get(), GST_STATE_PLAYING);
  for (int i = 0; i < 9; ++i) {
    const bool known = i % 3 == 0;
    push(pipeline.element("in"), i, known ? i * 40 * GST_MSECOND : GST_CLOCK_TIME_NONE,
         GST_CLOCK_TIME_NONE);
  }
  end(pipeline.element("in"));
  ASSERT_TRUE(pipeline.posts(GST_MESSAGE_EOS));
  expect_same_times(in.passed(), out.passed());
  EXPECT_EQ(out.passed()[1].pts, GST_CLOCK_TIME_NONE);
  EXPECT_EQ(out.count(), 9);
}

}  // namespace
}  // namespace normalcrafter
