// Why caps are refused, in words.
#pragma once

#include <gst/gst.h>

namespace normalcrafter {

/// Posts the error for input that the element does not take, with what to put in front of it.
void post_refused_input(GstElement* element, const GstCaps* caps);

/// Posts, as an error or a warning, that `accepted`, by downstream, leaves out every output that
/// the input could have.
void post_no_output(GstElement* element, GstMessageType severity, const GstCaps* input,
                    const GstCaps* accepted);

}  // namespace normalcrafter
