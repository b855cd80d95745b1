// The plugin's one debug category: GST_DEBUG=normalcrafter:6.
#pragma once

#include <gst/gst.h>

GST_DEBUG_CATEGORY_EXTERN(normalcrafter_debug);
#define GST_CAT_DEFAULT normalcrafter_debug
