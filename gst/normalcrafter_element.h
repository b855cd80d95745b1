// The GStreamer element "normalcrafter".
#pragma once

#include <gst/base/gstbasetransform.h>

G_BEGIN_DECLS

#define GST_TYPE_NORMALCRAFTER (gst_normalcrafter_get_type())
G_DECLARE_FINAL_TYPE(GstNormalCrafter, gst_normalcrafter, GST, NORMALCRAFTER, GstBaseTransform)

GST_ELEMENT_REGISTER_DECLARE(normalcrafter)

G_END_DECLS
