#include "input_tap.h"

#include <gst/video/video.h>

#include <optional>

#include "gst_handles.h"

namespace normalcrafter::convert {
namespace {

/// Nothing for a buffer that cannot be read; a preview does without it.
std::optional<Picture> rgb_of(GstBuffer* buffer, GstCaps* caps) {
  GstVideoInfo from;
  GstVideoInfo to;
  GstVideoFrame in;
  GstVideoFrame out;
  if (!gst_video_info_from_caps(&from, caps) ||
      !gst_video_frame_map(&in, &from, buffer, GST_MAP_READ))
    return std::nullopt;
  gst_video_info_set_format(&to, GST_VIDEO_FORMAT_RGB, GST_VIDEO_INFO_WIDTH(&from),
                            GST_VIDEO_INFO_HEIGHT(&from));
  to.fps_n = from.fps_n;  // a converter does not change the rate
  to.fps_d = from.fps_d;
  const Handle<GstBuffer> converted(gst_buffer_new_allocate(nullptr, to.size, nullptr));
  gst_video_frame_map(&out, &to, converted.get(), GST_MAP_READWRITE);
  GstVideoConverter* converter = gst_video_converter_new(&from, &to, nullptr);
  gst_video_converter_frame(converter, &in, &out);
  gst_video_converter_free(converter);
  Picture picture{GST_VIDEO_FRAME_WIDTH(&out), GST_VIDEO_FRAME_HEIGHT(&out), {}};
  const auto* data = static_cast<const std::byte*>(GST_VIDEO_FRAME_PLANE_DATA(&out, 0));
  for (int y = 0; y < picture.height; ++y) {
    const std::byte* row = data + y * GST_VIDEO_FRAME_PLANE_STRIDE(&out, 0);
    picture.pixels.insert(picture.pixels.end(), row, row + 3 * picture.width);
  }
  gst_video_frame_unmap(&out);
  gst_video_frame_unmap(&in);
  return picture;
}

}  // namespace

InputTap::InputTap(GstPad* pad, std::int64_t discard, ContactSheet& sheet)
    : pad_(GST_PAD(gst_object_ref(pad))),
      discard_(discard),
      sheet_(sheet),
      probe_(gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, on_buffer, this, nullptr)) {}

InputTap::~InputTap() {
  gst_pad_remove_probe(pad_, probe_);
  gst_object_unref(pad_);
}

GstPadProbeReturn InputTap::on_buffer(GstPad*, GstPadProbeInfo* info, gpointer data) {
  auto* self = static_cast<InputTap*>(data);
  try {
    self->take(GST_PAD_PROBE_INFO_BUFFER(info));
    return GST_PAD_PROBE_OK;
  } catch (const std::exception& error) {
    self->failure_.keep(error);
  }
  gst_buffer_unref(GST_PAD_PROBE_INFO_BUFFER(info));
  GST_PAD_PROBE_INFO_FLOW_RETURN(info) = GST_FLOW_ERROR;
  return GST_PAD_PROBE_HANDLED;
}

void InputTap::take(GstBuffer* buffer) {
  const std::int64_t number = next_++ - discard_;
  if (number < 0 || !sheet_.wants_input(number)) return;
  const Handle<GstCaps> caps(gst_pad_get_current_caps(pad_));
  if (const auto picture = rgb_of(buffer, caps.get())) sheet_.add_input(number, *picture);
}

}  // namespace normalcrafter::convert
