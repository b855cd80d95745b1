// Other elements around this one.
#include "pipeline.h"

namespace normalcrafter {
namespace {

constexpr const char* kSource =
    "videotestsrc pattern=ball num-buffers=23 ! "
    "video/x-raw,format=RGB,width=32,height=24,framerate=25/1 ";

class Topology : public PipelineTest {};

TEST_F(Topology, TwoElementsInATeeShareAModelAndGiveTheSamePictures) {
  Pipeline pipeline(std::string(kSource) + "! tee name=t t. ! queue !" + normals("one") +
                    "! fakesink t. ! queue !" + normals("two") +
                    "! fakesink t. ! queue ! fakesink");
  const Tap one(pipeline.element("one"), "src");
  const Tap two(pipeline.element("two"), "src");
  ASSERT_TRUE(pipeline.finishes());
  const auto first = one.passed();
  const auto second = two.passed();
  ASSERT_EQ(first.size(), 23);
  ASSERT_EQ(second.size(), 23);
  for (std::size_t i = 0; i < 23; ++i) {
    EXPECT_EQ(first[i].hash, second[i].hash) << "frame " << i;
    EXPECT_EQ(first[i].pts, second[i].pts) << "frame " << i;
  }
}

TEST_F(Topology, TwoElementsInARowGiveEachFrameOnce) {
  Pipeline pipeline(std::string(kSource) + "!" + normals("one") + "!" + normals("two") +
                    "! fakesink name=end");
  const Tap end(pipeline.element("end"), "sink");
  ASSERT_TRUE(pipeline.finishes());
  EXPECT_EQ(end.count(), 23);
}

TEST_F(Topology, QueuesOfOneBufferOnBothSidesDoNotStallIt) {
  Pipeline pipeline(std::string(kSource) + "! queue max-size-buffers=1 !" +
                    normals("normals", "max-size-buffers=1") +
                    "! queue max-size-buffers=1 ! fakesink name=end");
  const Tap end(pipeline.element("end"), "sink");
  ASSERT_TRUE(pipeline.finishes());
  EXPECT_EQ(end.count(), 23);
}

TEST_F(Topology, VideorateCountsItsFramesAsThoseOfTheSource) {
  Pipeline pipeline(std::string(kSource) + "!" + normals() +
                    "! videorate ! video/x-raw,framerate=50/1 ! fakesink name=end");
  const Tap out(pipeline.element("normals"), "src");
  const Tap end(pipeline.element("end"), "sink");
  ASSERT_TRUE(pipeline.finishes());
  EXPECT_EQ(out.count(), 23);
  EXPECT_NEAR(static_cast<double>(end.count()), 46, 1);
}

TEST_F(Topology, CompositorShowsTheNormalsBesideTheVideo) {
  Pipeline pipeline(
      std::string(kSource) +
      "! tee name=t compositor name=c sink_1::xpos=32 ! video/x-raw,width=64,height=24 ! "
      "fakesink name=end t. ! queue max-size-buffers=50 ! videoconvert ! c. t. ! queue !" +
      normals() + "! videoconvert ! c.");
  const Tap end(pipeline.element("end"), "sink");
  ASSERT_TRUE(pipeline.finishes());
  EXPECT_EQ(end.count(), 23);
}

TEST_F(Topology, SoundBesideItIsKeptWhereItsQueueHoldsTheLatency) {
  {
    Pipeline pipeline(
        std::string(kSource) + "!" + normals() +
        "! multiqueue name=q q.src_0 ! matroskamux name=m ! filesink location=" + file("both.mkv") +
        " audiotestsrc num-buffers=40 ! audio/x-raw,rate=44100 ! queue "
        "max-size-time=0 max-size-bytes=0 max-size-buffers=0 ! q.sink_1 q.src_1 ! m.");
    ASSERT_TRUE(pipeline.finishes());
  }
  Pipeline reader("filesrc location=" + file("both.mkv") +
                  " ! matroskademux name=d d.video_0 ! queue ! fakesink name=video "
                  "d.audio_0 ! queue ! fakesink name=audio");
  const Tap video(reader.element("video"), "sink");
  const Tap audio(reader.element("audio"), "sink");
  ASSERT_TRUE(reader.finishes());
  EXPECT_EQ(video.count(), 23);
  EXPECT_EQ(audio.count(), 40);
}

TEST_F(Topology, RtpCarriesEveryFrame) {
  Pipeline pipeline(
      std::string(kSource) + "!" + normals() +
      "! videoconvert ! video/x-raw,format=I420 ! jpegenc ! rtpjpegpay ! rtpjpegdepay ! jpegdec ! "
      "fakesink name=end");
  const Tap end(pipeline.element("end"), "sink");
  ASSERT_TRUE(pipeline.finishes());
  EXPECT_EQ(end.count(), 23);
}

TEST_F(Topology, HlsSegmentsHaveEveryFrame) {
  {
    Pipeline pipeline(std::string(kSource) + "!" + normals() +
                      "! videoconvert ! x264enc speed-preset=ultrafast key-int-max=5 ! hlssink2 "
                      "target-duration=1 playlist-location=" +
                      file("list.m3u8") + " location=" + file("segment%02d.ts"));
    ASSERT_TRUE(pipeline.finishes());
  }
  Pipeline reader("multifilesrc location=" + file("segment%02d.ts") +
                  " ! tsdemux ! h264parse ! avdec_h264 ! fakesink name=end");
  const Tap end(reader.element("end"), "sink");
  ASSERT_TRUE(reader.finishes());
  EXPECT_EQ(end.count(), 23);
  EXPECT_TRUE(std::filesystem::exists(file("list.m3u8")));
}

TEST_F(Topology, SharedMemoryCarriesEveryFrameToAnotherPipeline) {
  const std::string socket = file("socket");
  Pipeline writer(std::string(kSource) + "!" + normals() +
                  "! shmsink shm-size=1000000 socket-path=" + socket);
  ASSERT_TRUE(writer.reaches(GST_STATE_READY));
  gst_element_set_state(writer.get(), GST_STATE_PLAYING);
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(socket); }));
  {
    Pipeline reader("shmsrc num-buffers=23 socket-path=" + socket +
                    " ! video/x-raw,format=RGB,width=32,height=24,framerate=25/1 ! "
                    "fakesink name=end");
    const Tap end(reader.element("end"), "sink");
    ASSERT_TRUE(reader.finishes());
    EXPECT_EQ(end.count(), 23);
    EXPECT_EQ(end.passed()[0].bytes, std::size_t{32} * 24 * 3);
  }
  // It waits until the reader has given the last frames back.
  ASSERT_TRUE(writer.posts(GST_MESSAGE_EOS));
}

TEST_F(Topology, SplitmuxsinkWritesEveryFrameIntoOneOfItsFiles) {
  {
    Pipeline pipeline(std::string(kSource) + "!" + normals() +
                      "! splitmuxsink muxer-factory=matroskamux max-size-time=320000000 location=" +
                      file("part%d.mkv"));
    ASSERT_TRUE(pipeline.finishes());
  }
  std::size_t frames = 0;
  int parts = 0;
  for (; std::filesystem::exists(file("part" + std::to_string(parts) + ".mkv")); ++parts) {
    Pipeline reader("filesrc location=" + file("part" + std::to_string(parts) + ".mkv") +
                    " ! matroskademux ! fakesink name=end");
    const Tap end(reader.element("end"), "sink");
    ASSERT_TRUE(reader.finishes());
    frames += end.count();
  }
  EXPECT_EQ(frames, 23);
  EXPECT_GE(parts, 2);
}

}  // namespace
}  // namespace normalcrafter
