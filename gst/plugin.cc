// The plugin's entry point. It links neither the engine nor LibTorch, so it registers everywhere.
#include "normalcrafter_element.h"

static gboolean plugin_init(GstPlugin* plugin) {
  return GST_ELEMENT_REGISTER(normalcrafter, plugin);
}

// The origin is where bugs would be reported. The project has no address yet, which this is
// GStreamer's own text for; without any it takes no plugin.
#define PACKAGE "gst-normalcrafter"
GST_PLUGIN_DEFINE(GST_VERSION_MAJOR, GST_VERSION_MINOR, normalcrafter,
                  "Video to surface normals with the NormalCrafter network", plugin_init,
                  NORMALCRAFTER_VERSION, "Apache 2.0", "gst-normalcrafter",
                  "Unknown package origin")
