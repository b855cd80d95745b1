#include "negotiation.h"

#include <gst/video/video.h>

#include "gst_ptr.h"
#include "pixel_formats.h"
#include "tensor_caps.h"

namespace normalcrafter {
namespace {

constexpr const char* kFullRangeRgb = "sRGB";

void set_output_size(GstStructure* structure, SizeRule rule) {
  if (rule.output_size == OutputSize::Original) return;
  Size input;
  if (gst_structure_get_int(structure, "width", &input.width) &&
      gst_structure_get_int(structure, "height", &input.height)) {
    const Size output = rule.output(input);
    gst_structure_set(structure, "width", G_TYPE_INT, output.width, "height", G_TYPE_INT,
                      output.height, nullptr);
  } else if (rule.max_resolution == 1) {  // no range
    gst_structure_set(structure, "width", G_TYPE_INT, 1, "height", G_TYPE_INT, 1, nullptr);
  } else {
    gst_structure_set(structure, "width", GST_TYPE_INT_RANGE, 1, rule.max_resolution, "height",
                      GST_TYPE_INT_RANGE, 1, rule.max_resolution, nullptr);
  }
}

/// Scaling down cannot be undone, so a processed size says little about the input's.
void set_input_size(GstStructure* structure, SizeRule rule) {
  if (rule.output_size == OutputSize::Original) return;
  gst_structure_set(structure, "width", GST_TYPE_INT_RANGE, 1, G_MAXINT, "height",
                    GST_TYPE_INT_RANGE, 1, G_MAXINT, nullptr);
}

/// The formats that the pad opposite to `direction` has.
const char* opposite_formats(GstPadDirection direction) {
  return direction == GST_PAD_SINK ? NORMALCRAFTER_OUTPUT_FORMATS : NORMALCRAFTER_INPUT_FORMATS;
}

void set_formats(GstStructure* structure, const char* list) {
  GValue formats = G_VALUE_INIT;
  g_value_init(&formats, GST_TYPE_LIST);
  gst_value_deserialize(&formats, list);
  gst_structure_take_value(structure, "format", &formats);
}

/// Keeps what the opposite pad has. False if that is nothing.
bool keep_formats(GstStructure* structure, const char* list) {
  const GValue* asked = gst_structure_get_value(structure, "format");
  if (asked == nullptr) return false;
  GValue formats = G_VALUE_INIT;
  g_value_init(&formats, GST_TYPE_LIST);
  gst_value_deserialize(&formats, list);
  GValue both = G_VALUE_INIT;
  const bool some = gst_value_intersect(&both, asked, &formats) != FALSE;
  g_value_unset(&formats);
  if (some) gst_structure_take_value(structure, "format", &both);
  return some;
}

GstStructure* opposite(GstPadDirection direction, const GstStructure* structure, SizeRule rule) {
  GstStructure* result =
      is_tensor(structure) ? video_of_tensor(structure) : gst_structure_copy(structure);
  // They tell how the input's light was recorded.
  gst_structure_remove_fields(result, "colorimetry", "chroma-site", "mastering-display-info",
                              "content-light-level", nullptr);
  if (direction == GST_PAD_SINK) {
    gst_structure_set(result, "colorimetry", G_TYPE_STRING, kFullRangeRgb, nullptr);
    set_output_size(result, rule);
  } else {
    set_input_size(result, rule);
  }
  return result;
}

}  // namespace

GstCaps* transform_caps(GstPadDirection direction, GstCaps* caps, GstCaps* filter, SizeRule rule) {
  CapsPtr same_format(gst_caps_new_empty());
  CapsPtr any_format(gst_caps_new_empty());
  CapsPtr tensors(gst_caps_new_empty());
  const char* formats = opposite_formats(direction);
  for (guint i = 0; i < gst_caps_get_size(caps); ++i) {
    const GstCapsFeatures* features = gst_caps_get_features(caps, i);
    GstStructure* same = opposite(direction, gst_caps_get_structure(caps, i), rule);
    GstStructure* any = gst_structure_copy(same);
    set_formats(any, formats);
    if (direction == GST_PAD_SINK) {
      gst_caps_append_structure(tensors.get(), tensor_of_video(same));
    }
    gst_caps_append_structure_full(any_format.get(), any, gst_caps_features_copy(features));
    if (keep_formats(same, formats)) {
      gst_caps_append_structure_full(same_format.get(), same, gst_caps_features_copy(features));
    } else {
      gst_structure_free(same);
    }
  }
  // What is offered first is what a downstream without a wish gets.
  GstCaps* result = gst_caps_merge(same_format.release(), any_format.release());
  result = gst_caps_merge(result, tensors.release());
  if (filter != nullptr) {
    CapsPtr unfiltered(result);
    result = gst_caps_intersect_full(filter, unfiltered.get(), GST_CAPS_INTERSECT_FIRST);
  }
  return result;
}

GstCaps* fixate_caps(GstPadDirection direction, GstCaps* fixed, GstCaps* candidates,
                     SizeRule rule) {
  CapsPtr allowed(candidates);
  // The base class offers the input caps as they are when nothing is linked downstream.
  const CapsPtr possible(transform_caps(direction, fixed, nullptr, rule));
  CapsPtr both(gst_caps_intersect_full(allowed.get(), possible.get(), GST_CAPS_INTERSECT_FIRST));
  if (gst_caps_is_empty(both.get())) both.reset(gst_caps_ref(possible.get()));

  CapsPtr same_format(gst_caps_copy(possible.get()));
  while (gst_caps_get_size(same_format.get()) > 1) gst_caps_remove_structure(same_format.get(), 1);
  CapsPtr preferred(
      gst_caps_intersect_full(both.get(), same_format.get(), GST_CAPS_INTERSECT_FIRST));
  return gst_caps_fixate(gst_caps_is_empty(preferred.get()) ? both.release() : preferred.release());
}

bool has_fixed_sizes(const GstCaps* caps) {
  for (guint i = 0; i < gst_caps_get_size(caps); ++i) {
    const GstStructure* structure = gst_caps_get_structure(caps, i);
    if (!gst_structure_has_field_typed(structure, "width", G_TYPE_INT) ||
        !gst_structure_has_field_typed(structure, "height", G_TYPE_INT)) {
      return false;
    }
  }
  return gst_caps_get_size(caps) > 0;
}

bool is_incomplete(const GstCaps* caps) {
  GstVideoInfo ignored;
  return gst_video_info_from_caps(&ignored, caps) == FALSE;
}

bool is_interlaced(const GstCaps* caps) {
  const char* mode = gst_structure_get_string(gst_caps_get_structure(caps, 0), "interlace-mode");
  return mode != nullptr && g_strcmp0(mode, "progressive") != 0;
}

}  // namespace normalcrafter
