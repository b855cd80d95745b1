// Where a frame's pixels lie while the networks work on it.
#pragma once

#include "normalcrafter/geometry.h"
#include "normalcrafter/options.h"

namespace normalcrafter {

struct FrameGeometry {
  Size input;
  Size processed;  ///< input scaled down to max_resolution
  Size padded;     ///< what the networks get: processed with a border
  int top = 0;     ///< border above; the odd pixel is below
  int left = 0;    ///< border on the left; the odd pixel is on the right
  Size output;
  bool resized() const { return processed != input; }
};

/// `input` sides >= 1; `multiple` >= 1: the padded sides are multiples of it.
FrameGeometry frame_geometry(Size input, int max_resolution, int multiple, OutputSize output);

}  // namespace normalcrafter
