// The pieces of Winograd's convolutions on the CPU, all in float32: F(4x4,3x3) with 36 products per
// 4x4 output tile in place of 144, F(6x6,3x3) with 64 per 6x6 in place of 324, F(8x8,3x3) with 100
// per 8x8 in place of 576. Chosen at run time like kernels.h, and likewise raw pointers only.
//
// A picture is [height, width, channels]. A tile is tile x tile outputs; there are
// ceil(height/tile) x ceil(width/tile) of them. "Positions" are the (tile+2)^2 elements of a
// transformed patch.
#pragma once

#include <cstdint>

#include "nn/cpu/kernels.h"

namespace normalcrafter::cpu {

/// The convolution's input and output, which are of one size.
struct WinogradPicture {
  std::int64_t height;
  std::int64_t width;
  std::int64_t channels;  ///< of the one that the call is about
};

/// For pictures and weights of type T, and tiles of kTile x kTile.
template <typename T, int kTile>
struct WinogradTransforms {
  /// One panel's weights, packed [in, 3, 3, panel], input channels from..from+channels, to
  /// u [positions, channels, panel].
  void (*weights)(const T* packed, std::int64_t from, std::int64_t channels, float* u);
  /// One tile's patch to v[position * position_stride + channel]. channels: a multiple of `lanes`.
  /// `doubled`: the picture is given at half the size, each pixel standing for 2x2.
  void (*input)(const T* picture, const WinogradPicture& size, bool doubled, std::int64_t tile_y,
                std::int64_t tile_x, float* v, std::int64_t position_stride);
  /// One tile's products m[position * position_stride + channel], for the `panel` channels that
  /// `bias`, `picture` and `residual` (may be null; added) point at, to the picture.
  void (*output)(const float* m, std::int64_t position_stride, const float* bias, T* picture,
                 const WinogradPicture& size, std::int64_t tile_y, std::int64_t tile_x,
                 const T* residual);
};

/// The same in one dimension, F(4,3) over frames: 6 products for 4 outputs in place of 12. A
/// sequence is one pixel's channels in frames `frame_stride` elements apart.
struct WinogradTemporalTransforms {
  /// packed [in, 3, panel] to u [6, channels, panel].
  void (*weights)(const float* packed, std::int64_t from, std::int64_t channels, float* u);
  void (*input)(const float* sequence, std::int64_t frames, std::int64_t frame_stride,
                std::int64_t channels, std::int64_t tile, float* v, std::int64_t position_stride);
  void (*output)(const float* m, std::int64_t position_stride, const float* bias, float* sequence,
                 std::int64_t frames, std::int64_t frame_stride, std::int64_t tile,
                 const float* residual);
};

struct WinogradKernels {
  int lanes;  ///< input channels must be a multiple
  int panel;  ///< output channels are worked on so many at a time and must be a multiple; gemm.h's
  WinogradTransforms<float, 4> f32;  ///< with larger tiles float32 would lose digits
  WinogradTransforms<BFloat16Bits, 4> bf16_4x4;
  WinogradTransforms<BFloat16Bits, 6> bf16_6x6;
  WinogradTransforms<BFloat16Bits, 8> bf16_8x8;
  WinogradTemporalTransforms temporal;
};

/// The best set that this processor runs.
const WinogradKernels& winograd_kernels();

}  // namespace normalcrafter::cpu
