// What stays, what is shared and what is given back. Its own program, so that nothing else moves
// the process's memory.
#include <malloc.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <memory>

#include "pipeline.h"

namespace normalcrafter {
namespace {

/// Memory of the process's own in MB: mapped files and what malloc keeps for reuse do not count.
double own_megabytes() {
  malloc_trim(0);
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.rfind("RssAnon:", 0) == 0) return std::stod(line.substr(8)) * 1024 / 1e6;
  }
  return 0;
}

class Memory : public PipelineTest {
 protected:
  /// A model large enough to be seen; returns the megabytes of its UNet.
  double write_large(const std::string& name) {
    constexpr int kChannels = 160;
    write_model(file(name), kChannels);
    return static_cast<double>(std::filesystem::file_size(
               file(name) + "/unet/diffusion_pytorch_model.safetensors")) /
           1e6;
  }

  std::string large(const std::string& name) {
    return normals("normals", "window-size=2 step-size=2 offload-after=false model=" + file(name));
  }

  /// Plays a clip and stays in PAUSED at its end, with the model loaded.
  static std::unique_ptr<Pipeline> loaded(const std::string& element) {
    auto pipeline = std::make_unique<Pipeline>(
        "videotestsrc num-buffers=2 ! video/x-raw,format=RGB,width=16,height=16 !" + element +
        "! fakesink");
    EXPECT_TRUE(pipeline->finishes());
    return pipeline;
  }
};

TEST_F(Memory, IsFlatOverFiftyRestarts) {
  Pipeline pipeline("videotestsrc num-buffers=3 ! video/x-raw,format=RGB,width=32,height=32 !" +
                    normals("normals", "window-size=2 step-size=2") + "! fakesink");
  double early = 0;
  double last = 0;
  for (int turn = 0; turn < 50; ++turn) {
    ASSERT_TRUE(pipeline.finishes()) << "turn " << turn;
    ASSERT_TRUE(pipeline.reaches(GST_STATE_READY));
    ASSERT_TRUE(pipeline.reaches(GST_STATE_NULL));
    last = own_megabytes();
    if (turn < 10) early = std::max(early, last);
  }
  std::cout << "restarts: " << early << " MB in the first ten, " << last << " MB after fifty\n";
  EXPECT_LE(last, early + 2);
}

TEST_F(Memory, HoldsAModelOnceForTwoElementsAndUntilTheLastOneEnds) {
  if (!has_real_engine()) GTEST_SKIP() << "the fake engine has no weights";
  const double weights = write_large("shared");
  write_large("other");
  loaded(normals());  // LibTorch itself
  const double none = own_megabytes();
  auto first = loaded(large("shared"));
  const double one = own_megabytes();
  auto second = loaded(large("shared"));
  const double two = own_megabytes();
  auto third = loaded(large("other"));
  const double two_models = own_megabytes();
  third.reset();
  first.reset();
  const double still_one = own_megabytes();
  second.reset();
  const double none_again = own_megabytes();
  std::cout << "weights " << weights << " MB; none " << none << ", one element " << one
            << ", two sharing " << two << ", with another model " << two_models
            << ", one of the two left " << still_one << ", none " << none_again << " MB\n";
  EXPECT_GE(one - none, 0.7 * weights) << "the weights are not seen at all";
  EXPECT_LE(two - one, 0.1 * weights + 2);
  EXPECT_GE(two_models - two, 0.7 * weights);
  EXPECT_GE(still_one - none, 0.7 * weights) << "the second element still uses them";
  EXPECT_LE(none_again - none, 0.2 * weights + 2);
}

TEST_F(Memory, DoesNotGrowWithTheClip) {
  if (!has_real_engine()) GTEST_SKIP() << "the fake engine keeps its clip";
  // 0.2 MB a frame, of which the network sees a small picture.
  Pipeline pipeline("videotestsrc num-buffers=600 ! video/x-raw,format=RGB,width=256,height=256 !" +
                    normals("normals", "step-size=4 max-resolution=32") + "! fakesink name=end");
  GstElement* end = pipeline.element("end");
  g_object_set(end, "signal-handoffs", TRUE, nullptr);
  struct Watch {
    int frames = 0;
    double early = 0;
    double peak = 0;
  } watch;
  using Handoff = void (*)(GstElement*, GstBuffer*, GstPad*, Watch*);
  const Handoff handoff = [](GstElement*, GstBuffer*, GstPad*, Watch* w) {
    if (++w->frames % 20 != 0) return;
    const double now = own_megabytes();
    if (w->frames <= 100) w->early = std::max(w->early, now);
    w->peak = std::max(w->peak, now);
  };
  g_signal_connect(end, "handoff", G_CALLBACK(handoff), &watch);
  ASSERT_TRUE(pipeline.finishes(90));
  std::cout << "clip: " << watch.early << " MB in the first 100 frames, at most " << watch.peak
            << " MB in " << watch.frames << "\n";
  EXPECT_EQ(watch.frames, 600);
  EXPECT_LE(watch.peak, watch.early + 8);
}

}  // namespace
}  // namespace normalcrafter
