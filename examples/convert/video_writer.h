// From the element's frames to a file of video, with the source's audio.
#pragma once

#include <gst/gst.h>

#include <string>
#include <vector>

#include "video_codec.h"

namespace normalcrafter::convert {

/// Elements that belong to the pipeline, which has to be stopped before the writer goes.
class VideoWriter {
 public:
  /// Writes `file` as it is named. A Failure (Model) if an encoder is not installed.
  VideoWriter(const VideoCodec& codec, const std::string& file, GstBin* pipeline);

  /// Links what gives RGB frames.
  void link_from(GstElement* element) const;
  /// Links a stream of audio of these caps: copied where the muxer takes it, else encoded anew.
  /// True if it is copied.
  bool add_audio(GstElement* queue, GstCaps* caps);
  /// Completes the file, whatever the streams are doing: end-of-stream for all of them, sent on
  /// another thread, since a stream may be busy.
  void end_streams() const;
  /// Whether an element, or one in it, is of the writer.
  bool owns(GstObject* object) const;

 private:
  void add(GstElement* element);
  void copy_audio(GstElement* queue, GstPadTemplate* pads, const char* parser_name);
  void encode_audio(GstElement* queue);

  VideoCodec codec_;
  GstBin* pipeline_;
  GstElement* encoder_;
  GstElement* muxer_;
  GstElement* sink_;
  std::vector<GstElement*> elements_;
  std::vector<GstElement*> queues_;  ///< the ends where streams come in
};

}  // namespace normalcrafter::convert
