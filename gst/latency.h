// How long the element holds frames back: a property of the window schedule.
#pragma once

#include "normalcrafter/options.h"

namespace normalcrafter {

/// The greatest number of frames that must follow a frame before it can leave, whatever the clip.
/// A frame leaves when a window that starts at or after it has run (with repeated tails: when its
/// own step's last window has run) and all of its decode chunk is that far.
int frames_held(const SessionOptions& options);

}  // namespace normalcrafter
