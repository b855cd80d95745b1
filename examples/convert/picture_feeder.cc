#include "picture_feeder.h"

#include <gst/base/gsttypefindhelper.h>

#include "gst_handles.h"

namespace normalcrafter::convert {

std::int64_t Rate::time(std::int64_t number) const {
  return static_cast<std::int64_t>(gst_util_uint64_scale(
      static_cast<guint64>(number), static_cast<guint64>(denominator) * GST_SECOND,
      static_cast<guint64>(numerator)));
}

PictureRange cut(const std::vector<std::filesystem::path>& files, const RangeRequest& range,
                 const Rate& rate) {
  PictureRange cut;
  FrameRange judge(range);
  for (std::size_t i = 0; i < files.size(); ++i) {
    const auto number = static_cast<std::int64_t>(i);
    const FrameRange::Verdict verdict = judge.judge(rate.time(number));
    if (verdict == FrameRange::Verdict::End) break;
    if (verdict == FrameRange::Verdict::Skip) continue;
    if (cut.files.empty()) cut.first = number;
    cut.files.push_back(files[i]);
  }
  return cut;
}

PictureFeeder::PictureFeeder(GstAppSrc* source, PictureRange pictures, const Rate& rate)
    : pictures_(std::move(pictures)), rate_(rate) {
  GstAppSrcCallbacks callbacks{};
  callbacks.need_data = on_need_data;
  gst_app_src_set_callbacks(source, &callbacks, this, nullptr);
  g_object_set(source, "format", GST_FORMAT_TIME, nullptr);
}

void PictureFeeder::on_need_data(GstAppSrc* source, guint, gpointer self) {
  auto* feeder = static_cast<PictureFeeder*>(self);
  try {
    feeder->push_next(source);
  } catch (const std::exception& error) {
    feeder->failure_.keep(error);
    GST_ELEMENT_ERROR(source, RESOURCE, READ, ("%s", error.what()), (nullptr));
    gst_app_src_end_of_stream(source);
  }
}

void PictureFeeder::push_next(GstAppSrc* source) {
  if (next_ == pictures_.files.size()) {
    gst_app_src_end_of_stream(source);
    return;
  }
  const std::filesystem::path& file = pictures_.files[next_];
  Handle<GstBuffer> buffer(read(file));
  check_type(source, buffer.get(), file.string());
  const std::int64_t number = pictures_.first + static_cast<std::int64_t>(next_);
  GST_BUFFER_PTS(buffer.get()) = static_cast<GstClockTime>(rate_.time(number));
  GST_BUFFER_DURATION(buffer.get()) =
      static_cast<GstClockTime>(rate_.time(number + 1) - rate_.time(number));
  ++next_;
  gst_app_src_push_buffer(source, buffer.release());
}

GstBuffer* PictureFeeder::read(const std::filesystem::path& file) {
  gchar* data = nullptr;
  gsize size = 0;
  GError* error = nullptr;
  if (!g_file_get_contents(file.c_str(), &data, &size, &error)) {
    const Handle<GError> owned(error);
    throw Failure(next_ == 0 ? Status::InputMissing : Status::InputDamaged, owned->message);
  }
  return gst_buffer_new_wrapped(data, size);
}

void PictureFeeder::check_type(GstAppSrc* source, GstBuffer* buffer, const std::string& file) {
  const Handle<GstCaps> caps(gst_type_find_helper_for_buffer(nullptr, buffer, nullptr));
  if (!caps) {
    throw Failure(next_ == 0 ? Status::NotVideo : Status::InputDamaged,
                  file + ": is no picture that GStreamer knows");
  }
  const std::string type = gst_structure_get_name(gst_caps_get_structure(caps.get(), 0));
  if (type_.empty()) {
    type_ = type;
    // The caps may be shared; what typefind found out beside the type is the decoder's business.
    const Handle<GstCaps> stream(gst_caps_new_simple(type.c_str(), "framerate", GST_TYPE_FRACTION,
                                                     rate_.numerator, rate_.denominator, nullptr));
    gst_app_src_set_caps(source, stream.get());
  }
  if (type != type_) {
    throw Failure(Status::InputDamaged, file + ": is " + type + ", those before it are " + type_ +
                                            "; pictures of one sequence have one type");
  }
}

}  // namespace normalcrafter::convert
