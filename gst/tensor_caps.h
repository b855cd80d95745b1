// Caps of the float output: nnstreamer's other/tensors, since GStreamer has no floating-point
// video.
#pragma once

#include <gst/gst.h>

#include <optional>

#include "normalcrafter/geometry.h"

/// One tensor of 3 x width x height x 1 floats in native endianness, the vector's components next
/// to each other. `dimensions` depends on the picture's size.
#define NORMALCRAFTER_TENSOR_CAPS                              \
  "other/tensors, format=(string)static, num_tensors=(int)1, " \
  "types=(string)float32, framerate=(fraction)[0/1, 2147483647/1]"

namespace normalcrafter {

bool is_tensor(const GstStructure* structure);

/// The tensor that holds a picture of what `video` describes; without `dimensions` where it does
/// not fix a size. The caller owns the result.
GstStructure* tensor_of_video(const GstStructure* video);

/// The video, of any format, whose normals fit into `tensor`. The caller owns the result.
GstStructure* video_of_tensor(const GstStructure* tensor);

/// The size of the picture that a tensor holds; nothing if it is not 3:WIDTH:HEIGHT:1.
std::optional<Size> tensor_size(const GstStructure* tensor);

}  // namespace normalcrafter
