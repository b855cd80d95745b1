// Sources that do not wait.
#include "pipeline.h"

namespace normalcrafter {
namespace {

class Live : public PipelineTest {};

std::uintmax_t size_of(const std::string& file) {
  std::error_code ignored;
  const auto size = std::filesystem::file_size(file, ignored);
  return ignored ? 0 : size;
}

TEST_F(Live, ARecordingInterruptedByTheUserIsAWholeFile) {
  // Counts what entered; matroskamux's file grows as it goes.
  Program launch(
      "gst-launch-1.0 -e videotestsrc is-live=true ! "
      "video/x-raw,format=RGB,width=32,height=32,framerate=25/1 ! tee "
      "name=t t. ! queue ! matroskamux streamable=true ! filesink buffer-mode=unbuffered "
      "location=" +
          file("in.mkv") + " t. ! queue !" + normals() +
          "! videoconvert ! video/x-raw,format=Y444 ! x264enc speed-preset=ultrafast "
          "tune=zerolatency ! mp4mux ! filesink location=" +
          file("out.mp4"),
      file("log"));
  ASSERT_TRUE(eventually([&] { return size_of(file("in.mkv")) > 20 * 32 * 32 * 3; }));
  launch.interrupt();
  ASSERT_EQ(launch.wait(), 0);

  std::size_t counts[2];
  const std::string readers[] = {
      "filesrc location=" + file("in.mkv") + " ! matroskademux ! fakesink name=end",
      "filesrc location=" + file("out.mp4") + " ! qtdemux ! fakesink name=end"};
  for (int i = 0; i < 2; ++i) {
    Pipeline reader(readers[i]);
    const Tap end(reader.element("end"), "sink");
    ASSERT_TRUE(reader.finishes());
    counts[i] = end.count();
  }
  EXPECT_GE(counts[0], 20);
  // The two branches take the end of the stream separately.
  EXPECT_EQ(counts[0], counts[1]);
}

TEST_F(Live, LateFramesAndTheQosEventsForThemLoseNothing) {
  Pipeline pipeline(
      "videotestsrc is-live=true num-buffers=40 ! "
      "video/x-raw,format=RGB,width=32,height=32,framerate=50/1 !" +
      normals() + "! fakesink name=end sync=true qos=true max-lateness=1");
  const Tap end(pipeline.element("end"), "sink");
  ASSERT_TRUE(pipeline.finishes());
  EXPECT_EQ(end.count(), 40);
}

TEST_F(Live, StoppingAPlayingCameraTakesNoTime) {
  Pipeline pipeline(
      "videotestsrc is-live=true ! video/x-raw,format=RGB,width=32,height=32,framerate=50/1 !" +
      normals() + "! fakesink name=end sync=true");
  const Tap out(pipeline.element("normals"), "src");
  gst_element_set_state(pipeline.get(), GST_STATE_PLAYING);
  ASSERT_TRUE(eventually([&] { return out.count() > 3; }));
  const gint64 start = g_get_monotonic_time();
  gst_element_set_state(pipeline.get(), GST_STATE_NULL);
  EXPECT_LT(g_get_monotonic_time() - start, 2 * G_USEC_PER_SEC);
}

}  // namespace
}  // namespace normalcrafter
