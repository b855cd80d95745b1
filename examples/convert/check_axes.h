// --check-axes
#pragma once

#include <gst/gst.h>

#include "progress.h"

namespace normalcrafter::convert {

/// Shows the model that `element` is set to a sphere and prints which way the axes point. Done, or
/// Undetermined. A Failure as for a conversion.
Status check_axes(GstElement* element, ProgressMode mode);

}  // namespace normalcrafter::convert
