// Owning pointers for what GLib and GStreamer hand out.
#pragma once

#include <gst/gst.h>

#include <memory>

namespace normalcrafter::convert {

struct Release {
  void operator()(GstElement* element) const { gst_object_unref(element); }
  void operator()(GstPad* pad) const { gst_object_unref(pad); }
  void operator()(GstBus* bus) const { gst_object_unref(bus); }
  void operator()(GstElementFactory* factory) const { gst_object_unref(factory); }
  void operator()(GstCaps* caps) const { gst_caps_unref(caps); }
  void operator()(GstMessage* message) const { gst_message_unref(message); }
  void operator()(GstBuffer* buffer) const { gst_buffer_unref(buffer); }
  void operator()(GError* error) const { g_error_free(error); }
  void operator()(GMainLoop* loop) const { g_main_loop_unref(loop); }
  void operator()(GOptionContext* context) const { g_option_context_free(context); }
  void operator()(char* text) const { g_free(text); }
  void operator()(char** texts) const { g_strfreev(texts); }
};

/// Handle<char> for a text, Handle<char*> for a list of them.
template <typename T>
using Handle = std::unique_ptr<T, Release>;

}  // namespace normalcrafter::convert
