#include "video_writer.h"

#include <gst/base/gstaggregator.h>

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

/// What brings audio into the form that muxers take.
const char* parser_for(GstCaps* caps) {
  if (is_aac(caps)) return "aacparse";
  // Demuxers leave FLAC's headers in the stream.
  if (gst_structure_has_name(gst_caps_get_structure(caps, 0), "audio/x-flac")) return "flacparse";
  return "identity";
}

/// Without what a parser can change.
GstCaps* without_framing(GstCaps* caps) {
  GstCaps* plain = gst_caps_copy(caps);
  for (guint i = 0; i < gst_caps_get_size(plain); ++i)
    gst_structure_remove_fields(gst_caps_get_structure(plain, i), "stream-format", "framed",
                                "parsed", nullptr);
  return plain;
}

/// The muxer's pads that take audio of these caps; null: none. AAC by its codec alone, since its
/// parser makes the framing fit, anything else as it is.
GstPadTemplate* pads_for(GstElement* muxer, GstCaps* caps) {
  const bool parsed = is_aac(caps);
  const Handle<GstCaps> wanted(parsed ? without_framing(caps) : gst_caps_ref(caps));
  const GList* templates = gst_element_class_get_pad_template_list(GST_ELEMENT_GET_CLASS(muxer));
  for (; templates != nullptr; templates = templates->next) {
    auto* pad = GST_PAD_TEMPLATE(templates->data);
    if (GST_PAD_TEMPLATE_DIRECTION(pad) != GST_PAD_SINK) continue;
    const Handle<GstCaps> taken(gst_pad_template_get_caps(pad));
    if (parsed ? gst_caps_can_intersect(taken.get(), wanted.get())
               : gst_caps_is_subset(wanted.get(), taken.get()))
      return pad;
  }
  return nullptr;
}

/// Ends a muxer's pad that has got nothing, not even caps: some complete no file with such a track.
void give_up(GstPad* pad) {
  const Handle<GstElement> muxer(gst_pad_get_parent_element(pad));
  if (GST_IS_AGGREGATOR(muxer.get())) {
    gst_element_release_request_pad(muxer.get(), pad);
  } else {
    gst_pad_send_event(pad, gst_event_new_eos());
  }
}

/// A branch that decodes and encodes sound, before there is any.
struct AudioEntry {
  GstElement* decoder;
  GstElement* encoder;
  std::vector<Handle<GstBuffer>> headers;

  /// Keeps what comes before sound: some demuxers send a codec's headers as buffers without times.
  bool holds(GstBuffer* buffer) {
    constexpr std::size_t kMost = 8;  // then it is sound without times
    const bool is_header =
        GST_BUFFER_FLAG_IS_SET(buffer, GST_BUFFER_FLAG_HEADER) || !GST_BUFFER_PTS_IS_VALID(buffer);
    if (!is_header || headers.size() == kMost) return false;
    headers.emplace_back(gst_buffer_ref(buffer));
    return true;
  }
};

/// Starts the decoder at the first sound, with the headers before it. Where the end comes before
/// any sound, as of a range without, there is nothing to start: a decoder would take that for a
/// fault.
GstPadProbeReturn on_first_sound(GstPad* pad, GstPadProbeInfo* info, gpointer data) {
  auto* entry = static_cast<AudioEntry*>(data);
  if ((info->type & GST_PAD_PROBE_TYPE_BUFFER) != 0) {
    GstBuffer* buffer = GST_PAD_PROBE_INFO_BUFFER(info);
    if (entry->holds(buffer)) return GST_PAD_PROBE_DROP;
    std::vector<Handle<GstBuffer>> headers = std::move(entry->headers);
    gst_element_set_locked_state(entry->decoder, FALSE);
    gst_element_sync_state_with_parent(entry->decoder);
    gst_pad_remove_probe(pad, GST_PAD_PROBE_INFO_ID(info));  // and `entry` with it
    for (Handle<GstBuffer>& header : headers) gst_pad_push(pad, header.release());
    return GST_PAD_PROBE_PASS;
  }
  if (GST_EVENT_TYPE(GST_PAD_PROBE_INFO_EVENT(info)) != GST_EVENT_EOS) return GST_PAD_PROBE_PASS;
  const Handle<GstPad> out(gst_element_get_static_pad(entry->encoder, "src"));
  const Handle<GstPad> muxers(gst_pad_get_peer(out.get()));
  if (muxers) {
    gst_pad_unlink(out.get(), muxers.get());
    give_up(muxers.get());
  }
  return GST_PAD_PROBE_DROP;
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
  GstPadTemplate* pads = pads_for(muxer_, caps);
  if (pads != nullptr) {
    copy_audio(queue, pads, parser_for(caps));
  } else {
    encode_audio(queue);
  }
  queues_.push_back(queue);
  return pads != nullptr;
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
  GstElement* entry = make_element("identity");
  add(entry);
  link(encoder, muxer_);
  link(entry, decoder);
  link(queue, entry);
  // A decoder that waits for data keeps the pipeline from playing.
  gst_element_set_locked_state(decoder, TRUE);
  const Handle<GstPad> out(gst_element_get_static_pad(entry, "src"));
  gst_pad_add_probe(
      out.get(),
      static_cast<GstPadProbeType>(GST_PAD_PROBE_TYPE_BLOCK | GST_PAD_PROBE_TYPE_BUFFER |
                                   GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM),
      on_first_sound, new AudioEntry{decoder, encoder, {}},
      [](gpointer data) { delete static_cast<AudioEntry*>(data); });
  gst_element_sync_state_with_parent(encoder);
  gst_element_sync_state_with_parent(entry);
}

void VideoWriter::copy_audio(GstElement* queue, GstPadTemplate* pads, const char* parser_name) {
  GstElement* parser = make_element(parser_name);
  add(parser);
  // By name: with identity in front any of the muxer's pads would do, one for video too.
  if (!gst_element_link_pads(parser, "src", muxer_, GST_PAD_TEMPLATE_NAME_TEMPLATE(pads)))
    throw Failure(Status::Failed, codec_.muxer + " takes no more sound");
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
