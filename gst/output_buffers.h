// Where output frames' memory comes from.
#pragma once

#include <gst/gst.h>

#include <atomic>

#include "gst_ptr.h"

namespace normalcrafter {

/// Asks downstream for a pool and takes buffers from it while it has free ones: waiting for a
/// buffer would be one more place to get stuck in. Used by the worker's thread, but for
/// renegotiate().
class OutputBuffers {
 public:
  explicit OutputBuffers(GstPad* source) : source_(source) {}
  ~OutputBuffers() { release(); }
  OutputBuffers(const OutputBuffers&) = delete;
  OutputBuffers& operator=(const OutputBuffers&) = delete;

  /// What downstream's pool gives for the pad's caps; nullptr without a pool, or while it is empty.
  BufferPtr acquire();
  /// A writable buffer from the heap, as downstream wants it aligned; nullptr without memory.
  BufferPtr allocate(gsize bytes);
  /// Downstream may have changed: asks again before the next buffer.
  void renegotiate() { asked_ = false; }
  /// Lets go of the pool.
  void release();

 private:
  void ask();
  bool configure(GstBufferPool* pool, GstCaps* caps, guint size, guint min, guint max);

  GstPad* source_;
  GstBufferPool* pool_ = nullptr;
  GstAllocationParams params_ = {};
  std::atomic<bool> asked_ = false;
};

}  // namespace normalcrafter
