// What plays when no model is set: the demo model that comes with the project.
#include "pipeline.h"

namespace normalcrafter {
namespace {

class DefaultModel : public PipelineTest {
 protected:
  void SetUp() override {
    PipelineTest::SetUp();
    if (!has_real_engine()) GTEST_SKIP() << "the fake engine reads no weights";
    g_unsetenv("NORMALCRAFTER_MODEL");
  }

  /// The texts of the warnings that were posted.
  static std::vector<std::string> warnings(const Pipeline& pipeline) {
    std::vector<std::string> texts;
    GstBus* bus = gst_element_get_bus(pipeline.get());
    while (const MessagePtr message{gst_bus_pop_filtered(bus, GST_MESSAGE_WARNING)}) {
      GError* warning = nullptr;
      gst_message_parse_warning(message.get(), &warning, nullptr);
      texts.push_back(warning->message);
      g_error_free(warning);
    }
    gst_object_unref(bus);
    return texts;
  }
};

constexpr char kLine[] =
    "videotestsrc num-buffers=3 pattern=ball ! video/x-raw,format=RGB,width=96,height=72 ! "
    "normalcrafter name=normals device=cpu threads=1 ! fakesink name=end";

TEST_F(DefaultModel, PlaysAndSaysWhatItIsAndWhereBetterWeightsAre) {
  Pipeline pipeline(kLine);
  const Tap end(pipeline.element("end"), "sink");
  ASSERT_TRUE(pipeline.reaches(GST_STATE_READY));
  gst_element_set_state(pipeline.get(), GST_STATE_PLAYING);
  ASSERT_TRUE(eventually([&] { return end.count() == 3; }));
  const auto texts = warnings(pipeline);
  ASSERT_EQ(texts.size(), 1U);
  EXPECT_NE(texts[0].find("demo model"), std::string::npos) << texts[0];
  EXPECT_NE(texts[0].find("Yanrui95/NormalCrafter"), std::string::npos) << texts[0];
}

TEST_F(DefaultModel, IsNotAskedForWhereOneIsSet) {
  write_model(file("model"), 32);
  Pipeline pipeline(kLine);
  g_object_set(pipeline.element("normals"), "model", file("model").c_str(), nullptr);
  const Tap end(pipeline.element("end"), "sink");
  gst_element_set_state(pipeline.get(), GST_STATE_PLAYING);
  ASSERT_TRUE(eventually([&] { return end.count() == 3; }));
  EXPECT_TRUE(warnings(pipeline).empty());
}

}  // namespace
}  // namespace normalcrafter
