// Where output frames' memory comes from.
#pragma once

#include <gst/gst.h>

#include <atomic>

#include "gst_ptr.h"

namespace normalcrafter {

/// Asks downstream for a pool and takes buffers from it while it has free ones, else from the heap:
/// waiting for a buffer would be one more place to get stuck in. Used by the worker's thread, but
/// for renegotiate().
class OutputBuffers {
 public:
  explicit OutputBuffers(GstPad* source) : source_(source) {}
  ~OutputBuffers() { release(); }
  OutputBuffers(const OutputBuffers&) = delete;
  OutputBuffers& operator=(const OutputBuffers&) = delete;

  /// A writable buffer of `bytes`, or of what the pool gives for the pad's caps; nullptr without
  /// memory.
  BufferPtr acquire(gsize bytes);
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
