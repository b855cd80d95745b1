#include "frame_tap.h"

#include <gst/video/video.h>

#include <cstdio>

#include "gate.h"
#include "gst_handles.h"

namespace normalcrafter::convert {
namespace {

/// A buffer's pixels for as long as it lives.
class Mapped {
 public:
  Mapped(GstBuffer* buffer, GstCaps* caps, Samples samples) : buffer_(buffer) {
    const GstStructure* structure = gst_caps_get_structure(caps, 0);
    frame.samples = samples;
    gst_structure_get_fraction(structure, "framerate", &frame.rate_numerator,
                               &frame.rate_denominator);
    is_video_ = samples != Samples::Float;
    mapped_ = is_video_ ? map_video(caps) : map_tensor(structure);
  }
  ~Mapped() {
    if (!mapped_) return;
    if (is_video_) {
      gst_video_frame_unmap(&video_);
    } else {
      gst_buffer_unmap(buffer_, &tensor_);
    }
  }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  explicit operator bool() const { return mapped_; }

  NormalFrame frame;

 private:
  bool map_video(GstCaps* caps) {
    GstVideoInfo info;
    if (!gst_video_info_from_caps(&info, caps) ||
        !gst_video_frame_map(&video_, &info, buffer_, GST_MAP_READ))
      return false;
    frame.width = GST_VIDEO_FRAME_WIDTH(&video_);
    frame.height = GST_VIDEO_FRAME_HEIGHT(&video_);
    frame.data = static_cast<const std::byte*>(GST_VIDEO_FRAME_PLANE_DATA(&video_, 0));
    frame.stride = GST_VIDEO_FRAME_PLANE_STRIDE(&video_, 0);
    return true;
  }

  bool map_tensor(const GstStructure* structure) {
    const char* dimensions = gst_structure_get_string(structure, "dimensions");
    if (dimensions == nullptr ||
        std::sscanf(dimensions, "3:%d:%d:1", &frame.width, &frame.height) != 2 ||
        !gst_buffer_map(buffer_, &tensor_, GST_MAP_READ))
      return false;
    frame.data = reinterpret_cast<const std::byte*>(tensor_.data);
    frame.stride = static_cast<std::ptrdiff_t>(bytes_per_pixel(Samples::Float)) * frame.width;
    return true;
  }

  GstBuffer* buffer_;
  bool is_video_ = false;
  bool mapped_ = false;
  GstVideoFrame video_{};
  GstMapInfo tensor_{};
};

}  // namespace

const char* caps_text(Samples samples) {
  switch (samples) {
    case Samples::Rgb8:
      return "video/x-raw,format=RGB";
    case Samples::Rgba8:
      return "video/x-raw,format=RGBA";
    case Samples::Rgba16Be:
      return "video/x-raw,format=RGBA64_BE";
    case Samples::Float:
      return "other/tensors,format=static";
  }
  return "";
}

FrameTap::FrameTap(GstPad* pad, Request request)
    : pad_(GST_PAD(gst_object_ref(pad))),
      request_(std::move(request)),
      probe_(gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, on_buffer, this, nullptr)) {}

FrameTap::~FrameTap() {
  gst_pad_remove_probe(pad_, probe_);
  gst_object_unref(pad_);
}

std::optional<std::int64_t> FrameTap::beginning() const {
  const std::lock_guard lock(mutex_);
  return beginning_;
}

GstPadProbeReturn FrameTap::on_buffer(GstPad*, GstPadProbeInfo* info, gpointer data) {
  auto* self = static_cast<FrameTap*>(data);
  try {
    return self->take(GST_PAD_PROBE_INFO_BUFFER(info)) ? GST_PAD_PROBE_OK : GST_PAD_PROBE_DROP;
  } catch (const std::exception& error) {
    self->failure_.keep(error);
  }
  gst_buffer_unref(GST_PAD_PROBE_INFO_BUFFER(info));
  info->ABI.abi.flow_ret = GST_FLOW_ERROR;
  return GST_PAD_PROBE_HANDLED;
}

/// False for a frame that is dropped.
bool FrameTap::take(GstBuffer* buffer) {
  const Written& written = request_.written;
  const std::int64_t number = next_++ - written.discard;
  if (number < 0 || (written.most && number >= *written.most)) return false;
  const Handle<GstCaps> caps(gst_pad_get_current_caps(pad_));
  Mapped mapped(buffer, caps.get(), request_.samples);
  if (!mapped) throw Failure(Status::Failed, "a frame that does not fit its caps");
  mapped.frame.number = written.first + number;
  mapped.frame.time = stream_time(pad_, buffer);
  give(mapped.frame);
  return true;
}

void FrameTap::give(const NormalFrame& frame) {
  if (request_.one_size) check_size(frame);
  for (FrameSink* sink : request_.sinks) sink->write(frame);
  if (frames_++ == 0) {
    const std::lock_guard lock(mutex_);
    beginning_ = frame.time;
  }
  request_.counted();
}

void FrameTap::check_size(const NormalFrame& frame) {
  if (width_ == 0) {
    width_ = frame.width;
    height_ = frame.height;
  }
  if (frame.width == width_ && frame.height == height_) return;
  const auto size = [](int width, int height) {
    return std::to_string(width) + "x" + std::to_string(height);
  };
  throw Failure(Status::Output, "frame " + std::to_string(frame.number) + " has " +
                                    size(frame.width, frame.height) + " pixels, those before " +
                                    size(width_, height_) +
                                    "; a video and an array take one size, a sequence any");
}

}  // namespace normalcrafter::convert
