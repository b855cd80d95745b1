#include "fault.h"

#include "gst_handles.h"

namespace normalcrafter::convert {
namespace {

Status status_of_element(GQuark domain, int code) {
  if (domain == GST_RESOURCE_ERROR && code == GST_RESOURCE_ERROR_NO_SPACE_LEFT)
    return Status::OutOfMemory;
  if (domain == GST_LIBRARY_ERROR && code == GST_LIBRARY_ERROR_SETTINGS) return Status::Usage;
  if (domain == GST_RESOURCE_ERROR || domain == GST_LIBRARY_ERROR) return Status::Model;
  return Status::Failed;
}

Status status_of_output(GQuark domain, int code) {
  if (domain != GST_RESOURCE_ERROR) return Status::Failed;
  return code == GST_RESOURCE_ERROR_NO_SPACE_LEFT ? Status::DiskFull : Status::Output;
}

Status status_of_input(GQuark domain, int code, bool begun) {
  if (domain == GST_CORE_ERROR && code == GST_CORE_ERROR_MISSING_PLUGIN) return Status::NotVideo;
  if (begun) return Status::InputDamaged;
  return domain == GST_RESOURCE_ERROR ? Status::InputMissing : Status::NotVideo;
}

}  // namespace

Status status_of(Role role, GQuark domain, int code, bool begun) {
  switch (role) {
    case Role::Element:
      return status_of_element(domain, code);
    case Role::Output:
      return status_of_output(domain, code);
    case Role::Input:
      return status_of_input(domain, code, begun);
  }
  return Status::Failed;
}

Failure failure_of(GstMessage* error, Role role, const std::string& subject, bool begun) {
  GError* parsed = nullptr;
  gchar* details = nullptr;
  gst_message_parse_error(error, &parsed, &details);
  const Handle<GError> owned(parsed);
  const Handle<char> owned_details(details);
  const Status status = status_of(role, owned->domain, owned->code, begun);
  std::string text = (subject.empty() ? "" : subject + ": ") + owned->message;
  // "Internal data stream error" and its like say nothing; the details' last line often does.
  if (owned->domain == GST_STREAM_ERROR && owned_details) {
    const std::string all = owned_details.get();
    const std::size_t line = all.rfind('\n');
    if (line != std::string::npos) text += " (" + all.substr(line + 1) + ")";
  }
  return {status, text};
}

bool is_missing_plugin(GstMessage* error) {
  GError* parsed = nullptr;
  gst_message_parse_error(error, &parsed, nullptr);
  const Handle<GError> owned(parsed);
  return g_error_matches(owned.get(), GST_CORE_ERROR, GST_CORE_ERROR_MISSING_PLUGIN) != FALSE;
}

std::string warning_text(GstMessage* warning) {
  GError* parsed = nullptr;
  gst_message_parse_warning(warning, &parsed, nullptr);
  const Handle<GError> owned(parsed);
  return owned->message;
}

}  // namespace normalcrafter::convert
