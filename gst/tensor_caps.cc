#include "tensor_caps.h"

#include <cstdio>
#include <string>

namespace normalcrafter {
namespace {

void copy_field(const GstStructure* from, const char* name, GstStructure* to) {
  const GValue* value = gst_structure_get_value(from, name);
  if (value != nullptr) gst_structure_set_value(to, name, value);
}

}  // namespace

bool is_tensor(const GstStructure* structure) {
  return gst_structure_has_name(structure, "other/tensors") != FALSE;
}

GstStructure* tensor_of_video(const GstStructure* video) {
  GstStructure* tensor =
      gst_structure_new("other/tensors", "format", G_TYPE_STRING, "static", "num_tensors",
                        G_TYPE_INT, 1, "types", G_TYPE_STRING, "float32", nullptr);
  copy_field(video, "framerate", tensor);
  Size size;
  if (gst_structure_get_int(video, "width", &size.width) &&
      gst_structure_get_int(video, "height", &size.height)) {
    const std::string dimensions =
        "3:" + std::to_string(size.width) + ":" + std::to_string(size.height) + ":1";
    gst_structure_set(tensor, "dimensions", G_TYPE_STRING, dimensions.c_str(), nullptr);
  }
  return tensor;
}

GstStructure* video_of_tensor(const GstStructure* tensor) {
  GstStructure* video = gst_structure_new_empty("video/x-raw");
  copy_field(tensor, "framerate", video);
  if (const auto size = tensor_size(tensor)) {
    gst_structure_set(video, "width", G_TYPE_INT, size->width, "height", G_TYPE_INT, size->height,
                      nullptr);
  } else {
    gst_structure_set(video, "width", GST_TYPE_INT_RANGE, 1, G_MAXINT, "height", GST_TYPE_INT_RANGE,
                      1, G_MAXINT, nullptr);
  }
  return video;
}

std::optional<Size> tensor_size(const GstStructure* tensor) {
  const char* dimensions = gst_structure_get_string(tensor, "dimensions");
  if (dimensions == nullptr) return std::nullopt;
  Size size;
  int end = 0;
  const int read = std::sscanf(dimensions, "3:%d:%d:1%n", &size.width, &size.height, &end);
  if (read != 2 || end == 0 || dimensions[end] != '\0') return std::nullopt;
  if (size.width < 1 || size.height < 1) return std::nullopt;
  return size;
}

}  // namespace normalcrafter
