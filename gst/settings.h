// The element's properties: their values, and their GObject side.
#pragma once

#include <gst/gst.h>

#include "negotiation.h"
#include "normalcrafter/options.h"

namespace normalcrafter {

/// What happens when frames arrive faster than the network takes them.
enum class Leaky {
  No,          ///< upstream waits
  Upstream,    ///< the arriving frame is dropped
  Downstream,  ///< the oldest waiting frame is dropped
};

struct Settings {
  ModelOptions model;
  SessionOptions session;
  Leaky leaky = Leaky::No;
  guint max_size_buffers = 14;
  GstClockTime discont_threshold = GST_SECOND;

  SizeRule size_rule() const { return {session.output_size, session.max_resolution}; }
};

/// Registers the properties, all but `stats` (whose id is kStatsProperty), on the element's class.
void install_properties(GObjectClass* klass);
inline constexpr guint kStatsProperty = 1000;

/// False if there is no property of that id.
bool set_setting(Settings& settings, guint id, const GValue* value);
bool get_setting(const Settings& settings, guint id, GValue* value);

/// "float32", "bfloat16", "float16" or "auto".
const char* dtype_name(Dtype dtype);

}  // namespace normalcrafter
