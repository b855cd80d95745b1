#include "stream/geometry.h"

namespace normalcrafter {

FrameGeometry frame_geometry(Size input, int max_resolution, int multiple, OutputSize output) {
  const auto padded = [multiple](int side) { return (side + multiple - 1) / multiple * multiple; };
  FrameGeometry geometry;
  geometry.input = input;
  geometry.processed = processed_size(input, max_resolution);
  geometry.padded = {padded(geometry.processed.width), padded(geometry.processed.height)};
  geometry.top = (geometry.padded.height - geometry.processed.height) / 2;
  geometry.left = (geometry.padded.width - geometry.processed.width) / 2;
  geometry.output = output == OutputSize::Original ? input : geometry.processed;
  return geometry;
}

}  // namespace normalcrafter
