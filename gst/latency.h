// How long the element holds frames back: a property of the window schedule.
#pragma once

#include <gst/gst.h>

#include "normalcrafter/options.h"

namespace normalcrafter {

/// The greatest number of frames that must follow a frame before it can leave, whatever the clip.
/// A frame leaves when a window that starts at or after it has run (with repeated tails: when its
/// own step's last window has run) and all of its decode chunk is that far.
int frames_held(const SessionOptions& options);

/// Sums and products of times that stay far below GST_CLOCK_TIME_NONE instead of wrapping round: a
/// slow network and a long queue can together last longer than 64 bits of nanoseconds.
GstClockTime saturated_sum(GstClockTime a, GstClockTime b);
GstClockTime saturated_product(guint64 count, GstClockTime each);

}  // namespace normalcrafter
