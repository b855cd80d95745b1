// The CUDA kernels, on plain pointers into device memory.
//
// All run on the stream they are given and return at once: no synchronisation, no allocation. A
// launch that CUDA refuses throws std::runtime_error. Sizes are counts of elements; pointers are
// aligned to 16 bytes, as LibTorch's allocations are.
#pragma once

#include <cstddef>
#include <cstdint>

#include "normalcrafter/geometry.h"

// cudaStream_t, without CUDA's headers.
struct CUstream_st;

namespace normalcrafter::cuda {

using Stream = CUstream_st*;

enum class Element { F32, F16, BF16 };
enum class Sample { U8, U16, F32 };

struct GroupNormShape {
  std::int64_t items = 0;  ///< normalised each by itself, at most 65535
  std::int64_t pixels = 0;
  std::int64_t channels = 0;  ///< a multiple of 32, at most kMostGroupNormChannels
};

/// Bytes of device memory that group_norm() needs besides its operands.
std::size_t group_norm_scratch(const GroupNormShape& shape);

/// x, y [items, pixels, channels]; y may be x. Groups of channels / 32. weight, bias [channels]
/// float32. Statistics by Welford in float32, combined by Chan et al. in an order that depends on
/// the shape alone: equal inputs give equal bits.
void group_norm(const void* x, void* y, Element type, const GroupNormShape& shape,
                const float* weight, const float* bias, float eps, bool silu, void* scratch,
                Stream stream);

/// x [rows, 2 * width] = (value, gate) -> y [rows, width] = value * gelu(gate), exact GELU computed
/// in float32.
void geglu(const void* x, void* y, Element type, std::int64_t rows, std::int64_t width,
           Stream stream);

/// One axis of a resize, in device memory: what resize_taps() gives.
struct Taps {
  const std::int32_t* first = nullptr;  ///< [size]
  const float* weights = nullptr;       ///< [size, count]
  int count = 0;
};

struct Ingest {
  const void* frames = nullptr;  ///< [n, source.height, source.width, 3], packed, on the device
  Sample sample = Sample::U8;    ///< U8 or U16, scaled to [0,1]
  int n = 0;
  Size source;
  Size picture;     ///< the source's size, or what the taps make of it
  Taps horizontal;  ///< unused where the sizes are equal
  Taps vertical;
  Size padded;  ///< of the result; around the picture it is white
  int top = 0;
  int left = 0;
  float scale = 1;  ///< the result is value * scale + shift; 2 and -1 for the VAE
  float shift = 0;
  bool channels_last = false;  ///< result [n, H, W, 3]; else [n, 3, H, W]
};

/// Frames as the networks take them. A resized picture is clamped to [0,1] before scale and shift.
void ingest(const Ingest& frames, void* result, Element type, Stream stream);

struct Output {
  const void* vectors = nullptr;  ///< [n, 3, H, W] in any order of axes
  Element type = Element::F32;
  std::int64_t strides[4] = {};  ///< elements from one frame, channel, row and column to the next
  int n = 0;
  Size picture;  ///< inside the padding
  int top = 0;
  int left = 0;
  Size output;  ///< bilinear (corners not aligned) where it is not the picture's size
  bool renormalize = true;
  bool flip[3] = {};
};

/// Decoded vectors -> [n, output.height, output.width, 3] as stream/frame_tensors'
/// finish_normals(): cropped, resized, clamped to [-1,1], scaled to unit length, quantised.
void output(const Output& vectors, void* result, Sample sample, Stream stream);

}  // namespace normalcrafter::cuda
