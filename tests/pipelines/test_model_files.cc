// What happens to a model's files while the networks are read again and again
// (offload-mode=staged).
#include <atomic>

#include "pipeline.h"

namespace normalcrafter {
namespace {

class ModelFiles : public PipelineTest {
 protected:
  void SetUp() override {
    PipelineTest::SetUp();
    if (!has_real_engine()) GTEST_SKIP() << "the fake engine reads no weights";
    write_model(directory(), 32);
  }

  std::string directory() const { return file("model"); }
  std::string unet() const { return directory() + "/unet/diffusion_pytorch_model.safetensors"; }

  std::string line() const {
    return "videotestsrc num-buffers=23 ! video/x-raw,format=RGB,width=32,height=24 !" +
           normals("normals", "offload-mode=staged model=" + directory()) + "! fakesink name=end";
  }

  /// Does it when the first frame has left, which several windows follow.
  void after_the_first_frame(const Pipeline& pipeline, std::function<void()> what) {
    what_ = std::move(what);
    GstPad* pad = gst_element_get_static_pad(pipeline.element("normals"), "src");
    gst_pad_add_probe(
        pad, GST_PAD_PROBE_TYPE_BUFFER,
        [](GstPad*, GstPadProbeInfo*, gpointer data) {
          (*static_cast<std::function<void()>*>(data))();
          return GST_PAD_PROBE_REMOVE;
        },
        &what_, nullptr);
    gst_object_unref(pad);
  }

  std::function<void()> what_;
};

TEST_F(ModelFiles, ThatAreRemovedWhileItPlaysStayReadable) {
  Pipeline pipeline(line());
  const Tap end(pipeline.element("end"), "sink");
  after_the_first_frame(pipeline, [this] { std::filesystem::remove_all(directory()); });
  ASSERT_TRUE(pipeline.finishes());
  EXPECT_EQ(end.count(), 23);
}

TEST_F(ModelFiles, ThatAreCutShortWhileItPlaysAreOneErrorAndWholeOnesPlayAgain) {
  Pipeline pipeline(line());
  after_the_first_frame(pipeline, [this] { std::filesystem::resize_file(unet(), 1000); });
  gst_element_set_state(pipeline.get(), GST_STATE_PLAYING);
  GstBus* bus = gst_element_get_bus(pipeline.get());
  const MessagePtr message(gst_bus_timed_pop_filtered(
      bus, 20 * GST_SECOND, static_cast<GstMessageType>(GST_MESSAGE_ERROR | GST_MESSAGE_EOS)));
  gst_object_unref(bus);
  ASSERT_TRUE(message);
  ASSERT_EQ(GST_MESSAGE_TYPE(message.get()), GST_MESSAGE_ERROR);
  EXPECT_EQ(GST_MESSAGE_SRC(message.get()), GST_OBJECT(pipeline.element("normals")));
  GError* error = nullptr;
  gst_message_parse_error(message.get(), &error, nullptr);
  EXPECT_TRUE(g_error_matches(error, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_OPEN_READ));
  EXPECT_NE(std::string(error->message).find(unet()), std::string::npos) << error->message;
  g_error_free(error);

  gst_element_set_state(pipeline.get(), GST_STATE_NULL);
  std::filesystem::remove_all(directory());
  write_model(directory(), 32);
  const Tap end(pipeline.element("end"), "sink");
  pipeline.forget_messages();
  ASSERT_TRUE(pipeline.finishes());
  EXPECT_EQ(end.count(), 23);
}

}  // namespace
}  // namespace normalcrafter
