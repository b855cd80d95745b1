// The GObject side: vfuncs that hand over to ElementCore.
#include "normalcrafter_element.h"

#include <utility>

#include "debug.h"
#include "element_core.h"
#include "negotiation.h"
#include "pixel_formats.h"
#include "settings.h"
#include "tensor_caps.h"

GST_DEBUG_CATEGORY(normalcrafter_debug);

using normalcrafter::BufferPtr;
using normalcrafter::CapsPtr;
using normalcrafter::ElementCore;
using normalcrafter::EventPtr;

struct _GstNormalCrafter {
  GstBaseTransform parent;
  ElementCore* core;
};

G_DEFINE_TYPE(GstNormalCrafter, gst_normalcrafter, GST_TYPE_BASE_TRANSFORM)
GST_ELEMENT_REGISTER_DEFINE_WITH_CODE(normalcrafter, "normalcrafter", GST_RANK_NONE,
                                      GST_TYPE_NORMALCRAFTER,
                                      GST_DEBUG_CATEGORY_INIT(normalcrafter_debug, "normalcrafter",
                                                              0, "video to surface normals"))

namespace {

ElementCore& core(gpointer object) {
  return *GST_NORMALCRAFTER(object)->core;
}

constexpr const char* kSinkCaps = GST_VIDEO_CAPS_MAKE(NORMALCRAFTER_INPUT_FORMATS);
constexpr const char* kSourceCaps =
    GST_VIDEO_CAPS_MAKE(NORMALCRAFTER_OUTPUT_FORMATS) "; " NORMALCRAFTER_TENSOR_CAPS;

GstStaticPadTemplate sink_template =
    GST_STATIC_PAD_TEMPLATE("sink", GST_PAD_SINK, GST_PAD_ALWAYS, GST_STATIC_CAPS(kSinkCaps));
GstStaticPadTemplate src_template =
    GST_STATIC_PAD_TEMPLATE("src", GST_PAD_SRC, GST_PAD_ALWAYS, GST_STATIC_CAPS(kSourceCaps));

void set_property(GObject* object, guint id, const GValue* value, GParamSpec* spec) {
  if (!core(object).set_property(id, value)) G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, spec);
}

void get_property(GObject* object, guint id, GValue* value, GParamSpec* spec) {
  if (id == normalcrafter::kStatsProperty) {
    g_value_take_boxed(value, core(object).stats());
  } else if (!core(object).get_property(id, value)) {
    G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, spec);
  }
}

void finalize(GObject* object) {
  delete std::exchange(GST_NORMALCRAFTER(object)->core, nullptr);
  G_OBJECT_CLASS(gst_normalcrafter_parent_class)->finalize(object);
}

GstStateChangeReturn change_state(GstElement* element, GstStateChange transition) {
  if (transition == GST_STATE_CHANGE_READY_TO_PAUSED && !core(element).open()) {
    return GST_STATE_CHANGE_FAILURE;
  }
  // The base class waits for the streaming thread before it calls stop().
  if (transition == GST_STATE_CHANGE_PAUSED_TO_READY) core(element).unblock();
  const GstStateChangeReturn result =
      GST_ELEMENT_CLASS(gst_normalcrafter_parent_class)->change_state(element, transition);
  const bool failed = result == GST_STATE_CHANGE_FAILURE;
  if ((transition == GST_STATE_CHANGE_READY_TO_PAUSED && failed) ||
      transition == GST_STATE_CHANGE_PAUSED_TO_READY) {
    core(element).stop();
  }
  if (transition == GST_STATE_CHANGE_READY_TO_NULL) core(element).release();
  return result;
}

gboolean start(GstBaseTransform* element) {
  return core(element).start();
}

gboolean stop(GstBaseTransform* element) {
  core(element).stop();
  return TRUE;
}

GstCaps* transform_caps(GstBaseTransform* element, GstPadDirection direction, GstCaps* caps,
                        GstCaps* filter) {
  return normalcrafter::transform_caps(direction, caps, filter, core(element).size_rule());
}

GstCaps* fixate_caps(GstBaseTransform* element, GstPadDirection direction, GstCaps* caps,
                     GstCaps* others) {
  return normalcrafter::fixate_caps(direction, caps, others, core(element).size_rule());
}

gboolean set_caps(GstBaseTransform* element, GstCaps* in, GstCaps* out) {
  return core(element).set_caps(in, out);
}

gboolean propose_allocation(GstBaseTransform*, GstQuery*, GstQuery* query) {
  gst_query_add_allocation_meta(query, GST_VIDEO_META_API_TYPE, nullptr);
  return TRUE;
}

/// The base class negotiates and leaves the buffer in queued_buf.
GstFlowReturn submit_input_buffer(GstBaseTransform* element, gboolean is_discont,
                                  GstBuffer* input) {
  const GstFlowReturn flow = GST_BASE_TRANSFORM_CLASS(gst_normalcrafter_parent_class)
                                 ->submit_input_buffer(element, is_discont, input);
  BufferPtr buffer(std::exchange(element->queued_buf, nullptr));
  if (flow == GST_FLOW_NOT_NEGOTIATED) core(element).not_negotiated();
  if (flow != GST_FLOW_OK || !buffer) return flow;
  return core(element).submit(std::move(buffer));
}

/// The worker pushes.
GstFlowReturn generate_output(GstBaseTransform*, GstBuffer** output) {
  *output = nullptr;
  return GST_FLOW_OK;
}

gboolean sink_event(GstBaseTransform* element, GstEvent* event) {
  return core(element).sink_event(EventPtr(event));
}

gboolean src_event(GstBaseTransform* element, GstEvent* event) {
  return core(element).src_event(EventPtr(event));
}

gboolean query(GstBaseTransform* element, GstPadDirection direction, GstQuery* asked) {
  return core(element).query(direction, asked);
}

/// Probes see caps that the pad is about to refuse; event functions do not.
GstPadProbeReturn event_arrives(GstPad* pad, GstPadProbeInfo* info, gpointer) {
  GstEvent* event = GST_PAD_PROBE_INFO_EVENT(info);
  if (GST_EVENT_TYPE(event) != GST_EVENT_CAPS) return GST_PAD_PROBE_OK;
  if (GstElement* element = gst_pad_get_parent_element(pad)) {
    core(element).caps_arrive(event);
    gst_object_unref(element);
  }
  return GST_PAD_PROBE_OK;
}

}  // namespace

static void gst_normalcrafter_class_init(GstNormalCrafterClass* klass) {
  auto* object_class = G_OBJECT_CLASS(klass);
  object_class->set_property = set_property;
  object_class->get_property = get_property;
  object_class->finalize = finalize;
  normalcrafter::install_properties(object_class);
  g_object_class_install_property(
      object_class, normalcrafter::kStatsProperty,
      g_param_spec_boxed("stats", "Statistics",
                         "Frames in, out, dropped and waiting; windows; seconds per stage; latency "
                         "in nanoseconds; device, number type and threads; greatest numbers of "
                         "live frames and bytes",
                         GST_TYPE_STRUCTURE,
                         static_cast<GParamFlags>(G_PARAM_READABLE | G_PARAM_STATIC_STRINGS)));

  auto* element_class = GST_ELEMENT_CLASS(klass);
  element_class->change_state = change_state;
  gst_element_class_add_static_pad_template(element_class, &sink_template);
  gst_element_class_add_static_pad_template(element_class, &src_template);
  gst_element_class_set_static_metadata(
      element_class, "NormalCrafter", "Filter/Effect/Video",
      "Turns video into temporally consistent surface normals with the NormalCrafter network",
      "gst-normalcrafter authors");

  auto* transform_class = GST_BASE_TRANSFORM_CLASS(klass);
  transform_class->start = start;
  transform_class->stop = stop;
  transform_class->transform_caps = transform_caps;
  transform_class->fixate_caps = fixate_caps;
  transform_class->set_caps = set_caps;
  transform_class->propose_allocation = propose_allocation;
  transform_class->submit_input_buffer = submit_input_buffer;
  transform_class->generate_output = generate_output;
  transform_class->sink_event = sink_event;
  transform_class->src_event = src_event;
  transform_class->query = query;
}

static void gst_normalcrafter_init(GstNormalCrafter* self) {
  auto* base = GST_BASE_TRANSFORM(self);
  self->core = new ElementCore(base, GST_BASE_TRANSFORM_CLASS(gst_normalcrafter_parent_class));
  // The base class takes an element without transform() for a passthrough one.
  gst_base_transform_set_passthrough(base, FALSE);
  gst_base_transform_set_prefer_passthrough(base, FALSE);
  gst_pad_add_probe(base->sinkpad, GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM, event_arrives, nullptr,
                    nullptr);
}
