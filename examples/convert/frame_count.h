// --count: what a driver has to know to cut a clip into pieces.
#pragma once

#include <gst/gst.h>

#include "options.h"

namespace normalcrafter::convert {

/// Decodes the input's range without converting it and prints one JSON object: `frames`, their
/// `times` in seconds (null where there is none), `pictures` (whether the input is some),
/// `breaks` (frames at which the size or format changes or the time jumps, so that windows may
/// begin anew), `first_number` of a sequence, and `element`'s window-size, step-size and
/// vae-decode-chunk-size. A Failure as a conversion's would be.
void count_frames(const Options& options, GstElement* element);

}  // namespace normalcrafter::convert
