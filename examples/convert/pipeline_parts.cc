#include "pipeline_parts.h"

#include "failure.h"
#include "gst_handles.h"

namespace normalcrafter::convert {

GstElement* make_element(const char* factory) {
  GstElement* element = gst_element_factory_make(factory, nullptr);
  if (element == nullptr) {
    throw Failure(Status::Model, std::string("GStreamer's element ") + factory +
                                     " is missing; docs/install.md lists the plugins");
  }
  return element;
}

GstElement* parse_bin(const std::string& line) {
  GError* error = nullptr;
  GstElement* bin = gst_parse_bin_from_description(line.c_str(), TRUE, &error);
  const Handle<GError> owned(error);
  if (owned != nullptr) {
    if (bin != nullptr) gst_object_unref(bin);
    throw Failure(Status::Model,
                  std::string("GStreamer: ") + owned->message + " (in: " + line + ")");
  }
  return bin;
}

void link(GstElement* from, GstElement* to) {
  if (gst_element_link(from, to)) return;
  throw Failure(Status::Failed,
                std::string(GST_OBJECT_NAME(from)) + " cannot be linked to " + GST_OBJECT_NAME(to));
}

}  // namespace normalcrafter::convert
