// What the pipeline's elements say during a run.
#include <gst/pbutils/missing-plugins.h>

#include "conversion.h"

namespace normalcrafter::convert {

gboolean Conversion::on_message(GstBus*, GstMessage* message, gpointer data) {
  auto* self = static_cast<Conversion*>(data);
  switch (GST_MESSAGE_TYPE(message)) {
    case GST_MESSAGE_EOS:
      self->quit();
      break;
    case GST_MESSAGE_ERROR:
      self->take_error(message);
      break;
    case GST_MESSAGE_WARNING:
      self->take_warning(message);
      break;
    case GST_MESSAGE_PROGRESS:
      self->take_progress(message);
      break;
    case GST_MESSAGE_ELEMENT:
      self->take_element_message(message);
      break;
    default:
      break;
  }
  return G_SOURCE_CONTINUE;
}

Role Conversion::role_of(GstMessage* message) const {
  if (GST_MESSAGE_SRC(message) == GST_OBJECT(element_)) return Role::Element;
  return outputs_->owns(GST_MESSAGE_SRC(message)) ? Role::Output : Role::Input;
}

/// What our own code found out says more than the errors that elements make of it.
void Conversion::take_error(GstMessage* message) {
  if (const auto failure = outputs_->failure()) {
    // A video ends well before the frame that was refused.
    fail(*failure, outputs_->is_video() ? Role::Element : Role::Output);
    return;
  }
  if (const auto failure = source_->failure()) {
    fail(*failure, Role::Input);
    return;
  }
  const Role role = role_of(message);
  const std::string& subject = role == Role::Output ? options_.output : options_.input;
  const std::string lacks = subject + ": GStreamer lacks a plugin: " + missing_plugin_;
  if (role == Role::Input && !missing_plugin_.empty() && gate_->passed() == 0) {
    fail({Status::NotVideo, lacks}, role);
    return;
  }
  if (role == Role::Output && !missing_plugin_.empty() && is_missing_plugin(message)) {
    fail({Status::Model, lacks}, role);
    return;
  }
  fail(failure_of(message, role, role == Role::Element ? "" : subject, gate_->passed() > 0), role);
}

void Conversion::take_progress(GstMessage* message) {
  GstProgressType type = GST_PROGRESS_TYPE_START;
  gst_message_parse_progress(message, &type, nullptr, nullptr);
  loading_ = type == GST_PROGRESS_TYPE_START || type == GST_PROGRESS_TYPE_CONTINUE;
  if (!loading_) {
    tracker_.loaded();
    return;
  }
  gint percent = 0;
  gst_structure_get_int(gst_message_get_structure(message), "percent", &percent);
  tracker_.loading(percent);
}

/// A damaged file may warn at each frame.
void Conversion::take_warning(GstMessage* message) {
  const std::string text = warning_text(message);
  if (warnings_.insert(text).second) reporter_.warn(text);
}

void Conversion::take_element_message(GstMessage* message) {
  const GstStructure* structure = gst_message_get_structure(message);
  guint64 done = 0;
  guint64 total = 0;
  if (gst_structure_has_name(structure, "normalcrafter-stage") &&
      gst_structure_get(structure, "done", G_TYPE_UINT64, &done, "total", G_TYPE_UINT64, &total,
                        nullptr) &&
      total > 0)
    tracker_.network(gst_structure_get_string(structure, "stage"),
                     static_cast<int>(100 * done / total));
  if (!gst_is_missing_plugin_message(message)) return;
  const Handle<char> description(gst_missing_plugin_message_get_description(message));
  missing_plugin_ = description.get();
}

}  // namespace normalcrafter::convert
