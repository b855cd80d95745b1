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
