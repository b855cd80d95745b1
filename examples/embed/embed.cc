// Normals inside an application: its frames go in through appsrc, and normals come back from
// appsink: docs/applications.md.
//   embed --model=DIR [--float]
#include <gst/app/gstappsink.h>
#include <gst/app/gstappsrc.h>
#include <gst/gst.h>
#include <gst/video/video.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

/// Packed 8-bit RGB [height, width, 3].
struct Frame {
  int width;
  int height;
  GstClockTime time;
  std::vector<std::uint8_t> pixels;
};

/// Unit vectors [height, width, 3] of the frame with the same time.
struct Normals {
  GstClockTime time;
  std::vector<float> vectors;
};

/// Frames of one size in, normals out, in the same order. The element looks ahead, so the first
/// normals come after up to 25 frames or end(): push and pull on different threads.
class NormalPipeline {
 public:
  /// `tensors`: float vectors as they are computed, else 8-bit colours.
  NormalPipeline(int width, int height, int rate, const char* model, bool tensors);
  ~NormalPipeline();
  NormalPipeline(const NormalPipeline&) = delete;
  NormalPipeline& operator=(const NormalPipeline&) = delete;

  /// Before the first push. Throws std::runtime_error, as pull() does.
  void start();
  /// Waits while enough frames are queued. False: the pipeline takes no more, pull() says why.
  bool push(const Frame& frame);
  /// No more frames will come.
  void end() { gst_app_src_end_of_stream(GST_APP_SRC(source_)); }
  /// Waits for the next frame's normals; nothing after the last one. Throws std::runtime_error with
  /// GStreamer's message.
  std::optional<Normals> pull();
  /// Frees a waiting push().
  void stop() { gst_element_set_state(pipeline_, GST_STATE_NULL); }

 private:
  void throw_error() const;
  std::vector<float> vectors(GstSample* sample) const;

  bool tensors_;
  GstElement* pipeline_;
  GstElement* source_;
  GstElement* sink_;
};

NormalPipeline::NormalPipeline(int width, int height, int rate, const char* model, bool tensors)
    : tensors_(tensors) {
  // A sink that does not wait for the clock, and keeps few results: what is not pulled holds the
  // network back, and that the frames.
  const std::string line = std::string(
                               "appsrc name=in format=time block=true max-buffers=4 max-bytes=0 ! "
                               "normalcrafter name=normals ! ") +
                           (tensors ? "other/tensors,format=static" : "video/x-raw,format=RGB") +
                           " ! appsink name=out sync=false max-buffers=4";
  g_autoptr(GError) error = nullptr;
  pipeline_ = gst_parse_launch(line.c_str(), &error);
  if (error != nullptr) {
    const std::string reason = error->message;
    g_clear_object(&pipeline_);
    throw std::runtime_error(reason);
  }
  source_ = gst_bin_get_by_name(GST_BIN(pipeline_), "in");
  sink_ = gst_bin_get_by_name(GST_BIN(pipeline_), "out");
  g_autoptr(GstElement) normals = gst_bin_get_by_name(GST_BIN(pipeline_), "normals");
  if (model != nullptr) g_object_set(normals, "model", model, nullptr);
  g_autoptr(GstCaps) caps = gst_caps_new_simple(
      "video/x-raw", "format", G_TYPE_STRING, "RGB", "width", G_TYPE_INT, width, "height",
      G_TYPE_INT, height, "framerate", GST_TYPE_FRACTION, rate, 1, nullptr);
  gst_app_src_set_caps(GST_APP_SRC(source_), caps);
}

NormalPipeline::~NormalPipeline() {
  stop();
  gst_object_unref(sink_);
  gst_object_unref(source_);
  gst_object_unref(pipeline_);
}

void NormalPipeline::start() {
  // appsrc that was not started would let push() wait for ever.
  if (gst_element_set_state(pipeline_, GST_STATE_PLAYING) != GST_STATE_CHANGE_FAILURE) return;
  throw_error();
  throw std::runtime_error("the pipeline cannot be started");
}

bool NormalPipeline::push(const Frame& frame) {
  GstBuffer* buffer = gst_buffer_new_memdup(frame.pixels.data(), frame.pixels.size());
  GST_BUFFER_PTS(buffer) = frame.time;
  // GStreamer expects rows of a multiple of four bytes unless a meta says otherwise.
  gsize offsets[] = {0};
  gint strides[] = {3 * frame.width};
  gst_buffer_add_video_meta_full(buffer, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_FORMAT_RGB,
                                 static_cast<guint>(frame.width), static_cast<guint>(frame.height),
                                 1, offsets, strides);
  return gst_app_src_push_buffer(GST_APP_SRC(source_), buffer) == GST_FLOW_OK;
}

std::optional<Normals> NormalPipeline::pull() {
  // An error need not end the stream at the sink: hence the time limit, and the bus.
  for (;;) {
    g_autoptr(GstSample) sample =
        gst_app_sink_try_pull_sample(GST_APP_SINK(sink_), 100 * GST_MSECOND);
    if (sample) return Normals{GST_BUFFER_PTS(gst_sample_get_buffer(sample)), vectors(sample)};
    throw_error();
    if (gst_app_sink_is_eos(GST_APP_SINK(sink_))) return std::nullopt;
  }
}

void NormalPipeline::throw_error() const {
  g_autoptr(GstBus) bus = gst_element_get_bus(pipeline_);
  g_autoptr(GstMessage) message = gst_bus_pop_filtered(bus, GST_MESSAGE_ERROR);
  if (!message) return;
  g_autoptr(GError) error = nullptr;
  gst_message_parse_error(message, &error, nullptr);
  throw std::runtime_error(error->message);
}

std::vector<float> NormalPipeline::vectors(GstSample* sample) const {
  GstBuffer* buffer = gst_sample_get_buffer(sample);
  if (tensors_) {
    std::vector<float> result(gst_buffer_get_size(buffer) / sizeof(float));
    gst_buffer_extract(buffer, 0, result.data(), result.size() * sizeof(float));
    return result;
  }
  GstVideoInfo info;
  GstVideoFrame picture;
  if (!gst_video_info_from_caps(&info, gst_sample_get_caps(sample)) ||
      !gst_video_frame_map(&picture, &info, buffer, GST_MAP_READ))
    throw std::runtime_error("the normals' buffer cannot be read");
  std::vector<float> result;
  for (int y = 0; y < info.height; ++y) {
    const auto* row = static_cast<const std::uint8_t*>(GST_VIDEO_FRAME_PLANE_DATA(&picture, 0)) +
                      static_cast<std::ptrdiff_t>(y) * GST_VIDEO_FRAME_PLANE_STRIDE(&picture, 0);
    for (int i = 0; i < 3 * info.width; ++i)
      result.push_back(2 * static_cast<float>(row[i]) / 255 - 1);
  }
  gst_video_frame_unmap(&picture);
  return result;
}

/// A bright square that moves to the right. The width is no multiple of four, to show that any is
/// possible.
std::vector<Frame> make_frames(int count) {
  std::vector<Frame> frames;
  for (int n = 0; n < count; ++n) {
    Frame frame{62, 48, static_cast<GstClockTime>(n) * GST_SECOND / 25, {}};
    for (int y = 0; y < frame.height; ++y) {
      for (int x = 0; x < frame.width; ++x) {
        const bool inside = x >= n && x < n + 20 && y >= 14 && y < 34;
        frame.pixels.insert(frame.pixels.end(), 3, inside ? 220 : 40);
      }
    }
    frames.push_back(std::move(frame));
  }
  return frames;
}

std::array<double, 3> mean(const std::vector<float>& vectors) {
  std::array<double, 3> sum{};
  for (std::size_t i = 0; i < vectors.size(); ++i) sum[i % 3] += vectors[i];
  for (double& component : sum) component /= static_cast<double>(vectors.size()) / 3;
  return sum;
}

void print_normals(const std::vector<Frame>& frames, const char* model, bool tensors) {
  NormalPipeline pipeline(frames.front().width, frames.front().height, 25, model, tensors);
  pipeline.start();
  std::thread feeder([&] {
    for (const Frame& frame : frames) {
      if (!pipeline.push(frame)) return;
    }
    pipeline.end();
  });
  try {
    while (const auto normals = pipeline.pull()) {
      const auto [x, y, z] = mean(normals->vectors);
      std::printf("%.2f s: %zu vectors, mean %.4f %.4f %.4f\n",
                  static_cast<double>(normals->time) / GST_SECOND, normals->vectors.size() / 3, x,
                  y, z);
    }
  } catch (...) {
    pipeline.stop();
    feeder.join();
    throw;
  }
  feeder.join();
}

}  // namespace

int main(int argc, char** argv) try {
  gchar* model = nullptr;
  gint count = 30;
  gboolean tensors = FALSE;
  const GOptionEntry entries[] = {
      {"model", 'm', 0, G_OPTION_ARG_FILENAME, &model, "Model directory (NORMALCRAFTER_MODEL)",
       "DIR"},
      {"frames", 'n', 0, G_OPTION_ARG_INT, &count, "How many frames (30)", "N"},
      {"float", 'f', 0, G_OPTION_ARG_NONE, &tensors, "Float vectors instead of 8-bit colours",
       nullptr},
      {}};
  g_autoptr(GOptionContext) context = g_option_context_new("- normals of frames in memory");
  g_option_context_add_main_entries(context, entries, nullptr);
  g_option_context_add_group(context, gst_init_get_option_group());
  g_autoptr(GError) error = nullptr;
  if (!g_option_context_parse(context, &argc, &argv, &error) || argc > 1 || count < 1) {
    std::fprintf(stderr, "%s\n", error ? error->message : "--frames takes a number from 1");
    return 2;
  }
  print_normals(make_frames(count), model, tensors);
  g_free(model);
  return 0;
} catch (const std::exception& failure) {
  std::fprintf(stderr, "embed: %s\n", failure.what());
  return 1;
}
