#include "relit_video.h"

#include "failure.h"
#include "fault.h"
#include "gst_handles.h"

namespace normalcrafter::convert {
namespace {

constexpr int kQuality = 75;
// Between two looks at whether the encoder has taken a frame: far less than a frame takes it, where
// it is what one waits for.
constexpr GstClockTime kStep = 2 * GST_MSECOND;

/// Rows as GStreamer's RGB has them: padded to four bytes.
GstBuffer* buffer_of(const Picture& picture) {
  const std::size_t row = 3 * static_cast<std::size_t>(picture.width);
  const std::size_t stride = (row + 3) / 4 * 4;
  GstBuffer* buffer = gst_buffer_new_allocate(nullptr, stride * picture.height, nullptr);
  for (int y = 0; y < picture.height; ++y)
    gst_buffer_fill(buffer, y * stride, picture.pixels.data() + y * row, row);
  return buffer;
}

}  // namespace

RelitVideo::RelitVideo(const std::string& path, const Light& light)
    : path_(path),
      light_(light),
      source_(GST_APP_SRC(make_element("appsrc"))),
      writer_(video_codec(output_kind(path), kQuality), partial_name(path).string(),
              pipeline_.bin()) {
  gst_bin_add(pipeline_.bin(), GST_ELEMENT(source_));
  g_object_set(source_, "format", GST_FORMAT_TIME, nullptr);
  writer_.link_from(GST_ELEMENT(source_));
  gst_element_set_state(pipeline_.get(), GST_STATE_PLAYING);
}

void RelitVideo::start(const NormalFrame& frame) {
  const Handle<GstCaps> caps(gst_caps_new_simple(
      "video/x-raw", "format", G_TYPE_STRING, "RGB", "width", G_TYPE_INT, frame.width, "height",
      G_TYPE_INT, frame.height, "framerate", GST_TYPE_FRACTION, frame.rate_numerator,
      frame.rate_denominator, nullptr));
  gst_app_src_set_caps(source_, caps.get());
  begin_ = frame.time.value_or(0);
}

void RelitVideo::write(const NormalFrame& frame) {
  if (!begin_) start(frame);
  wait_for_room();
  GstBuffer* buffer = buffer_of(relight(frame, light_));
  if (frame.time) GST_BUFFER_PTS(buffer) = static_cast<GstClockTime>(*frame.time - *begin_);
  if (frame.rate_numerator > 0) {
    GST_BUFFER_DURATION(buffer) =
        gst_util_uint64_scale_int(GST_SECOND, frame.rate_denominator, frame.rate_numerator);
  }
  // A refused buffer has an error message behind it, which the next call or finish() finds.
  gst_app_src_push_buffer(source_, buffer);
}

/// Not by the source's property `block`: after an error nothing takes frames any more, and it would
/// wait for ever.
void RelitVideo::wait_for_room() {
  const Handle<GstBus> bus(gst_element_get_bus(pipeline_.get()));
  GstClockTime wait = 0;
  do {
    if (const Handle<GstMessage> error{
            gst_bus_timed_pop_filtered(bus.get(), wait, GST_MESSAGE_ERROR)})
      check(error.get());
    wait = kStep;
  } while (gst_app_src_get_current_level_bytes(source_) >= gst_app_src_get_max_bytes(source_));
}

/// Remembers an error: after it finish() would wait in vain for an end, or for another error.
void RelitVideo::check(GstMessage* message) {
  if (GST_MESSAGE_TYPE(message) != GST_MESSAGE_ERROR) return;
  failure_ = failure_of(message, Role::Output, path_, true);
  throw Failure(*failure_);
}

void RelitVideo::finish() {
  if (failure_) throw Failure(*failure_);
  gst_app_src_end_of_stream(source_);
  const Handle<GstBus> bus(gst_element_get_bus(pipeline_.get()));
  const Handle<GstMessage> end(
      gst_bus_timed_pop_filtered(bus.get(), GST_CLOCK_TIME_NONE,
                                 static_cast<GstMessageType>(GST_MESSAGE_EOS | GST_MESSAGE_ERROR)));
  check(end.get());
  gst_element_set_state(pipeline_.get(), GST_STATE_NULL);
}

}  // namespace normalcrafter::convert
