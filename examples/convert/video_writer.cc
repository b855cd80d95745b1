#include "video_writer.h"

#include "failure.h"
#include "gst_handles.h"
#include "pipeline_parts.h"

namespace normalcrafter::convert {
namespace {

bool is_aac(GstCaps* caps) {
  const GstStructure* structure = gst_caps_get_structure(caps, 0);
  gint version = 0;
  return gst_structure_has_name(structure, "audio/mpeg") &&
         gst_structure_get_int(structure, "mpegversion", &version) && version != 1;
}

/// Without what a parser can change.
GstCaps* without_framing(GstCaps* caps) {
  GstCaps* plain = gst_caps_copy(caps);
  for (guint i = 0; i < gst_caps_get_size(plain); ++i)
    gst_structure_remove_fields(gst_caps_get_structure(plain, i), "stream-format", "framed",
                                "parsed", nullptr);
  return plain;
}

bool takes_audio(GstElement* muxer, GstCaps* caps) {
  const Handle<GstCaps> plain(without_framing(caps));
  const GList* templates = gst_element_class_get_pad_template_list(GST_ELEMENT_GET_CLASS(muxer));
  for (; templates != nullptr; templates = templates->next) {
    auto* pad = GST_PAD_TEMPLATE(templates->data);
    if (GST_PAD_TEMPLATE_DIRECTION(pad) != GST_PAD_SINK) continue;
    const Handle<GstCaps> taken(gst_pad_template_get_caps(pad));
    if (gst_caps_can_intersect(taken.get(), plain.get())) return true;
  }
  return false;
}

}  // namespace

VideoWriter::VideoWriter(const VideoCodec& codec, const std::string& file, GstBin* pipeline)
    : codec_(codec),
      pipeline_(pipeline),
      encoder_(parse_bin("queue ! " + codec.encoder)),
      muxer_(make_element(codec.muxer.c_str())),
      sink_(make_element("filesink")) {
  // Playing from the beginning: an error while the sink still waits for its first frame would
  // otherwise keep it from playing the frames that were read before.
  g_object_set(sink_, "location", file.c_str(), "async", FALSE, nullptr);
  for (GstElement* element : {encoder_, muxer_, sink_}) add(element);
  link(encoder_, muxer_);
  link(muxer_, sink_);
  queues_.push_back(encoder_);
}

void VideoWriter::link_from(GstElement* element) const {
  link(element, encoder_);
}

bool VideoWriter::add_audio(GstElement* queue, GstCaps* caps) {
  const bool copied = takes_audio(muxer_, caps);
  if (copied) {
    copy_audio(queue, is_aac(caps));
  } else {
    encode_audio(queue);
  }
  queues_.push_back(queue);
  return copied;
}

void VideoWriter::add(GstElement* element) {
  gst_bin_add(pipeline_, element);
  elements_.push_back(element);
}

void VideoWriter::encode_audio(GstElement* queue) {
  GstElement* encoder = parse_bin(codec_.audio);
  GstElement* decoder = make_element("decodebin");
  const auto on_pad = [](GstElement*, GstPad* pad, gpointer target) {
    const Handle<GstPad> sink(gst_element_get_static_pad(GST_ELEMENT(target), "sink"));
    if (!gst_pad_is_linked(sink.get())) gst_pad_link(pad, sink.get());
  };
  g_signal_connect(decoder, "pad-added", G_CALLBACK(+on_pad), encoder);
  add(encoder);
  add(decoder);
  link(encoder, muxer_);
  link(queue, decoder);
  gst_element_sync_state_with_parent(encoder);
  gst_element_sync_state_with_parent(decoder);
}

void VideoWriter::copy_audio(GstElement* queue, bool needs_parser) {
  GstElement* parser = make_element(needs_parser ? "aacparse" : "identity");
  add(parser);
  link(parser, muxer_);
  link(queue, parser);
  gst_element_sync_state_with_parent(parser);
}

bool VideoWriter::owns(GstObject* object) const {
  for (GstElement* element : elements_)
    if (object == GST_OBJECT(element) || gst_object_has_as_ancestor(object, GST_OBJECT(element)))
      return true;
  return false;
}

void VideoWriter::end_streams() const {
  using Pads = std::vector<Handle<GstPad>>;
  auto* pads = new Pads;
  for (GstElement* queue : queues_) pads->emplace_back(gst_element_get_static_pad(queue, "sink"));
  gst_element_call_async(
      muxer_,
      [](GstElement*, gpointer data) {
        for (const auto& pad : *static_cast<Pads*>(data))
          gst_pad_send_event(pad.get(), gst_event_new_eos());
      },
      pads, [](gpointer data) { delete static_cast<Pads*>(data); });
}

}  // namespace normalcrafter::convert
