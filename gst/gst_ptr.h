// Owning pointers for GStreamer's reference-counted types, and what C++ cannot take from its
// macros.
#pragma once

#include <gst/gst.h>

#include <memory>

namespace normalcrafter {

struct Unref {
  void operator()(GstBuffer* buffer) const { gst_buffer_unref(buffer); }
  void operator()(GstEvent* event) const { gst_event_unref(event); }
  void operator()(GstMessage* message) const { gst_message_unref(message); }
  void operator()(GstCaps* caps) const { gst_caps_unref(caps); }
  void operator()(char* text) const { g_free(text); }
};

using BufferPtr = std::unique_ptr<GstBuffer, Unref>;
using EventPtr = std::unique_ptr<GstEvent, Unref>;
using MessagePtr = std::unique_ptr<GstMessage, Unref>;
using CapsPtr = std::unique_ptr<GstCaps, Unref>;
using StringPtr = std::unique_ptr<char, Unref>;

/// GST_EVENT_IS_STICKY and GST_EVENT_IS_SERIALIZED mix enumerations, which C++20 deprecates.
inline bool is_sticky(const EventPtr& event) {
  return (gst_event_type_get_flags(GST_EVENT_TYPE(event.get())) & GST_EVENT_TYPE_STICKY) != 0;
}
inline bool is_serialized(const EventPtr& event) {
  return (gst_event_type_get_flags(GST_EVENT_TYPE(event.get())) & GST_EVENT_TYPE_SERIALIZED) != 0;
}

}  // namespace normalcrafter
