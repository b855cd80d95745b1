// How many operations the networks' products take and how many bytes their layers pass: counted
// from the configurations alone, without tensors.
//
// A multiply-add is 2 operations. Products with weights and those of attention count; norms,
// activations, sums and the transforms of Winograd's convolutions do not. Bytes are those of each
// layer's inputs, weights and outputs, read or written once, layer by layer: a layer that is fused
// with its neighbour passes fewer, a cache that is too small makes it more.
#pragma once

#include <functional>
#include <utility>

#include "networks/configs.h"

namespace normalcrafter::bench {

/// Of one pass.
struct Work {
  double direct = 0;     ///< operations of the published computation, each product done directly
  double performed = 0;  ///< operations of the products that the engine does
  double bytes = 0;

  Work& operator+=(const Work& other);
};
Work operator+(Work a, const Work& b);
Work operator*(int times, Work work);

/// The places of activations [frames, height, width, channels].
struct Grid {
  int frames = 1;
  int height = 1;
  int width = 1;

  double pixels() const { return static_cast<double>(frames) * height * width; }
  /// The same picture with sides `factor` times shorter.
  Grid shrunk(int factor) const { return {frames, height / factor, width / factor}; }
};

/// How the engine computes in one type on one machine.
struct Methods {
  int element_size = 4;  ///< bytes
  /// Which 3x3 convolutions of stride 1 go by Winograd's method.
  std::function<bool(int in, int out)> winograd = [](int, int) { return false; };
  /// The side t of their tiles: (t+2)^2 products for t^2 outputs.
  std::function<int(const Grid& out_grid, int in, int out)> winograd_tile = [](const Grid&, int,
                                                                               int) { return 4; };
  /// Which temporal convolutions go by F(4,3): 6 products for 4 outputs.
  std::function<bool(int channels)> temporal_winograd = [](int) { return false; };
};

class Operations {
 public:
  explicit Operations(Methods methods) : methods_(std::move(methods)) {}

  // --- layers ------------------------------------------------------------------------------------

  /// 3x3, to [out grid, out]; `stride` is the input's pixels for each of the output's.
  Work convolution(const Grid& out_grid, int in, int out, int stride = 1) const;
  /// Doubling by nearest neighbours and a 3x3 convolution; `grid` is the input's.
  Work upsample_convolution(const Grid& grid, int channels) const;
  /// Three taps over the frames.
  Work temporal_convolution(const Grid& grid, int channels) const;
  /// Also a 1x1 convolution.
  Work linear(double rows, int in, int out) const;
  /// A pass over activations that multiplies no matrices: norm, activation, concatenation,
  /// residual.
  Work elementwise(double read, double written) const;
  /// Queries to keys and weights to values, in each of `batch` items of all heads together.
  Work attention(double batch, double queries, double keys, int channels) const;
  /// Projections and attention, with L = `tokens` rows in each of `batch` items.
  Work self_attention(double batch, double tokens, int channels) const;

  /// To `contexts` of one token each, of which only `different` many differ.
  Work single_token_cross_attention(double rows, double contexts, double different, int channels,
                                    int context_channels) const;

  // --- networks ----------------------------------------------------------------------------------

  /// CLIP embeddings of so many frames.
  Work clip(const ClipVisionConfig& config, int frames) const;
  /// Latents of pictures of the grid's size.
  Work vae_encode(const TemporalVaeConfig& config, const Grid& pictures) const;
  /// One window; the grid is the latents'.
  Work unet(const UNetConfig& config, const Grid& latents) const;
  /// One chunk; the grid is the latents'.
  Work vae_decode(const TemporalVaeConfig& config, const Grid& latents) const;

 private:
  Work resnet(const Grid& grid, int in, int out, int time_channels) const;
  Work spatio_temporal_resnet(const Grid& grid, int in, int out, int time_channels = 0) const;
  Work transformer(const Grid& grid, const UNetConfig::Level& level) const;
  Work feed_forward(double rows, int channels) const;
  Work vae_attention(const Grid& grid, int channels) const;

  Methods methods_;
};

}  // namespace normalcrafter::bench
