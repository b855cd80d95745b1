#include "refusals.h"

#include "gst_ptr.h"
#include "negotiation.h"
#include "pixel_formats.h"

namespace normalcrafter {
namespace {

struct Advice {
  const char* what;
  const char* put_in_front;  ///< or nullptr
};

Advice advice_on(const GstCaps* caps) {
  if (!gst_structure_has_name(gst_caps_get_structure(caps, 0), "video/x-raw")) {
    return {"Only raw video is supported", "decodebin and videoconvert"};
  }
  const GstCapsFeatures* features = gst_caps_get_features(caps, 0);
  if (!gst_caps_features_is_equal(features, GST_CAPS_FEATURES_MEMORY_SYSTEM_MEMORY)) {
    return {"Only video in system memory is supported",
            "an element that downloads it, such as gldownload, cudadownload or vapostproc"};
  }
  if (is_incomplete(caps)) {
    return {"Caps of raw video have to say at least its format, width and height", nullptr};
  }
  return {"Supported are the formats " NORMALCRAFTER_INPUT_FORMATS, "videoconvert"};
}

}  // namespace

void post_refused_input(GstElement* element, const GstCaps* caps) {
  if (is_interlaced(caps)) {
    GST_ELEMENT_ERROR(element, STREAM, WRONG_TYPE,
                      ("Interlaced video is not supported: deinterlace it first."),
                      ("Put the element 'deinterlace' in front: decodebin ! deinterlace ! "
                       "videoconvert ! normalcrafter"));
    return;
  }
  const StringPtr input(gst_caps_to_string(caps));
  const Advice advice = advice_on(caps);
  if (advice.put_in_front == nullptr) {
    GST_ELEMENT_ERROR(element, STREAM, WRONG_TYPE,
                      ("The input is %s. %s.", input.get(), advice.what), (nullptr));
    return;
  }
  GST_ELEMENT_ERROR(element, STREAM, WRONG_TYPE,
                    ("The input is %s. %s: put %s in front of the element.", input.get(),
                     advice.what, advice.put_in_front),
                    (nullptr));
}

void post_no_output(GstElement* element, GstMessageType severity, const GstCaps* input,
                    const GstCaps* accepted) {
  const StringPtr before(gst_caps_to_string(input));
  const StringPtr behind(gst_caps_to_string(accepted));
  gchar* text = g_strdup_printf(
      "No output suits both this element and the one behind it: the input is %s; behind, %s is "
      "accepted. Put videoconvert and videoscale behind the element.",
      before.get(), behind.get());
  gst_element_message_full(
      element, severity, GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION, text,
      g_strdup("The output has the input's size (or with output-size=processed the networks'), its "
               "frame rate and its pixel aspect ratio, and an RGB format."),
      __FILE__, GST_FUNCTION, __LINE__);
}

}  // namespace normalcrafter
