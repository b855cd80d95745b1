#include "metadata.h"

#include <gst/video/gstvideometa.h>

#include <cstring>

namespace normalcrafter {
namespace {

bool has_tag(const GstMeta* meta, const char* tag) {
  return gst_meta_api_type_has_tag(meta->info->api, g_quark_from_string(tag));
}

void copy_meta(GstBuffer* to, GstMeta* meta, GstBuffer* from) {
  GstMetaTransformCopy whole = {FALSE, 0, static_cast<gsize>(-1)};
  if (meta->info->transform_func != nullptr) {
    meta->info->transform_func(to, meta, from, _gst_meta_transform_copy, &whole);
  }
}

gboolean keep_meta(GstBuffer* input, GstMeta** meta, gpointer kept) {
  // A reference to memory (GstParentBufferMeta) would hold on to upstream's buffer.
  if (!has_tag(*meta, GST_META_TAG_MEMORY_STR) &&
      !has_tag(*meta, GST_META_TAG_MEMORY_REFERENCE_STR)) {
    copy_meta(static_cast<GstBuffer*>(kept), *meta, input);
  }
  return TRUE;
}

struct Restoration {
  GstBuffer* output;
  GstVideoMetaTransform scale;
};

/// True if every tag is one whose meaning survives a change of size.
bool only_video_tags(const GstMeta* meta) {
  const gchar* const* tags = gst_meta_api_type_get_tags(meta->info->api);
  for (; tags != nullptr && *tags != nullptr; ++tags) {
    if (std::strcmp(*tags, GST_META_TAG_VIDEO_STR) != 0 &&
        std::strcmp(*tags, GST_META_TAG_VIDEO_ORIENTATION_STR) != 0 &&
        std::strcmp(*tags, GST_META_TAG_VIDEO_SIZE_STR) != 0) {
      return false;
    }
  }
  return true;
}

gboolean restore_meta(GstBuffer* kept, GstMeta** meta, gpointer data) {
  auto* restoration = static_cast<Restoration*>(data);
  if (!only_video_tags(*meta)) return TRUE;
  const GstVideoMetaTransform& scale = restoration->scale;
  const bool same_size =
      GST_VIDEO_INFO_WIDTH(scale.in_info) == GST_VIDEO_INFO_WIDTH(scale.out_info) &&
      GST_VIDEO_INFO_HEIGHT(scale.in_info) == GST_VIDEO_INFO_HEIGHT(scale.out_info);
  // A scaled meta may lose some of itself: a region its parameters, bars all.
  if (same_size || !has_tag(*meta, GST_META_TAG_VIDEO_SIZE_STR)) {
    copy_meta(restoration->output, *meta, kept);
  } else if ((*meta)->info->transform_func != nullptr) {
    (*meta)->info->transform_func(restoration->output, *meta, kept,
                                  gst_video_meta_transform_scale_get_quark(), &restoration->scale);
  }
  return TRUE;
}

}  // namespace

BufferPtr keep_metadata(GstBuffer* input) {
  BufferPtr kept(gst_buffer_new());
  gst_buffer_copy_into(
      kept.get(), input,
      static_cast<GstBufferCopyFlags>(GST_BUFFER_COPY_FLAGS | GST_BUFFER_COPY_TIMESTAMPS), 0, -1);
  gst_buffer_foreach_meta(input, keep_meta, kept.get());
  return kept;
}

void restore_metadata(GstBuffer* kept, const GstVideoInfo& in, const GstVideoInfo& out,
                      GstBuffer* output) {
  gst_buffer_copy_into(
      output, kept,
      static_cast<GstBufferCopyFlags>(GST_BUFFER_COPY_FLAGS | GST_BUFFER_COPY_TIMESTAMPS), 0, -1);
  GST_BUFFER_FLAG_UNSET(output, GST_BUFFER_FLAG_GAP);
  // GStreamer's transform functions only read the infos.
  Restoration restoration = {output,
                             {const_cast<GstVideoInfo*>(&in), const_cast<GstVideoInfo*>(&out)}};
  gst_buffer_foreach_meta(kept, restore_meta, &restoration);
}

}  // namespace normalcrafter
