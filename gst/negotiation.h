// Which caps one pad can have when the other's are known. Pure functions of caps and options.
#pragma once

#include <gst/gst.h>

#include "normalcrafter/geometry.h"
#include "normalcrafter/options.h"

namespace normalcrafter {

/// The two options that decide the output's size.
struct SizeRule {
  OutputSize output_size = OutputSize::Original;
  int max_resolution = 1024;

  Size output(Size input) const {
    return output_size == OutputSize::Original ? input : processed_size(input, max_resolution);
  }
};

/// What the pad opposite to `direction` can have, given `caps` on the pad of `direction`: the same
/// formats first, then the others, and on the source pad float tensors last. The caller owns the
/// result.
GstCaps* transform_caps(GstPadDirection direction, GstCaps* caps, GstCaps* filter, SizeRule rule);

/// Chooses among `candidates` (taken) for the pad opposite to `direction`, whose caps are `fixed`:
/// the same format where it is allowed. The caller owns the result.
GstCaps* fixate_caps(GstPadDirection direction, GstCaps* fixed, GstCaps* candidates, SizeRule rule);

/// True if whatever is taken of the caps has this one width and that one height.
bool has_fixed_sizes(const GstCaps* caps);

/// True if the caps leave out what a frame's layout needs, as an application's own may.
bool is_incomplete(const GstCaps* caps);

/// True if the caps say that pictures consist of fields of different times.
bool is_interlaced(const GstCaps* caps);

}  // namespace normalcrafter
