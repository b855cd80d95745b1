// The element's properties: their values, and their GObject side.
#pragma once

#include <gst/gst.h>

#include <string>

#include "axes.h"
#include "negotiation.h"
#include "normalcrafter/options.h"

namespace normalcrafter {

/// What happens when frames arrive faster than the network takes them.
enum class Leaky {
  No,          ///< upstream waits
  Upstream,    ///< the arriving frame is dropped
  Downstream,  ///< the oldest waiting frame is dropped
};

/// What the output's alpha is, where its format has one.
enum class Alpha {
  Opaque,
  Copy,  ///< the input's, if that has one
};

struct Settings {
  ModelOptions model;
  SessionOptions session;
  Leaky leaky = Leaky::No;
  guint max_size_buffers = 14;
  GstClockTime discont_threshold = GST_SECOND;
  Alpha alpha = Alpha::Opaque;
  Axes axes = Axes::Model;
  bool restart_on_key_unit = false;

  SizeRule size_rule() const { return {session.output_size, session.max_resolution}; }
  /// `session` with the flips that bring a model of the convention `model_axes` to `axes`, and
  /// those asked for beside it. Where the model states no convention, only the latter.
  SessionOptions session_for(const std::string& model_axes) const;
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
