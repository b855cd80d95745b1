#include "output_buffers.h"

#include <gst/video/video.h>

#include "debug.h"

namespace normalcrafter {

BufferPtr OutputBuffers::acquire() {
  if (!asked_.exchange(true)) ask();
  if (pool_ == nullptr) return nullptr;
  GstBuffer* buffer = nullptr;
  GstBufferPoolAcquireParams no_waiting = {};
  no_waiting.flags = GST_BUFFER_POOL_ACQUIRE_FLAG_DONTWAIT;
  if (gst_buffer_pool_acquire_buffer(pool_, &buffer, &no_waiting) != GST_FLOW_OK) return nullptr;
  return BufferPtr(buffer);
}

BufferPtr OutputBuffers::allocate(gsize bytes) {
  return BufferPtr(gst_buffer_new_allocate(nullptr, bytes, &params_));
}

void OutputBuffers::ask() {
  release();
  const CapsPtr caps(gst_pad_get_current_caps(source_));
  if (!caps) return;
  GstQuery* query = gst_query_new_allocation(caps.get(), TRUE);
  if (gst_pad_peer_query(source_, query)) {
    if (gst_query_get_n_allocation_params(query) > 0) {
      gst_query_parse_nth_allocation_param(query, 0, nullptr, &params_);
    }
    GstBufferPool* pool = nullptr;
    guint size = 0;
    guint min = 0;
    guint max = 0;
    if (gst_query_get_n_allocation_pools(query) > 0) {
      gst_query_parse_nth_allocation_pool(query, 0, &pool, &size, &min, &max);
    }
    if (pool != nullptr && configure(pool, caps.get(), size, min, max)) {
      pool_ = pool;
    } else if (pool != nullptr) {
      gst_object_unref(pool);
    }
  }
  gst_query_unref(query);
}

bool OutputBuffers::configure(GstBufferPool* pool, GstCaps* caps, guint size, guint min,
                              guint max) {
  GstStructure* config = gst_buffer_pool_get_config(pool);
  gst_buffer_pool_config_set_params(config, caps, size, min, max);
  if (gst_buffer_pool_has_option(pool, GST_BUFFER_POOL_OPTION_VIDEO_META)) {
    gst_buffer_pool_config_add_option(config, GST_BUFFER_POOL_OPTION_VIDEO_META);
  }
  if (!gst_buffer_pool_set_config(pool, config)) {
    config = gst_buffer_pool_get_config(pool);
    const bool usable =
        gst_buffer_pool_config_validate_params(config, caps, size, min, max) != FALSE;
    if (!usable || !gst_buffer_pool_set_config(pool, config)) {
      if (!usable) gst_structure_free(config);
      GST_INFO_OBJECT(source_, "downstream's pool cannot be configured; using own memory");
      return false;
    }
  }
  return gst_buffer_pool_set_active(pool, TRUE) != FALSE;
}

void OutputBuffers::release() {
  gst_allocation_params_init(&params_);
  if (pool_ == nullptr) return;
  gst_buffer_pool_set_active(pool_, FALSE);
  gst_object_unref(pool_);
  pool_ = nullptr;
}

}  // namespace normalcrafter
