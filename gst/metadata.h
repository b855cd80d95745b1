// What is kept of an input buffer while its frame is in the network.
#pragma once

#include <gst/video/video.h>

#include "gst_ptr.h"

namespace normalcrafter {

/// A buffer without memory that carries flags, timestamps, offsets and the metas that do not refer
/// to memory: the input's own memory goes back to its pool at once.
BufferPtr keep_metadata(GstBuffer* input);

/// Gives them to an output buffer. Metas that depend on size are scaled, those on colour left out,
/// as GstVideoFilter does. The GAP flag is left out: normals are never neutral filler.
void restore_metadata(GstBuffer* kept, const GstVideoInfo& in, const GstVideoInfo& out,
                      GstBuffer* output);

}  // namespace normalcrafter
