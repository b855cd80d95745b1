#include "nn/winograd.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "nn/cpu/gemm.h"
#include "nn/cpu/winograd.h"
#include "nn/cpu_features.h"
#include "nn/panels.h"

namespace normalcrafter {
namespace {

// Floats of transformed patches that a block of tiles may take: they should stay in the L2 cache.
constexpr int64_t kBlockFloats = 400'000;
// The same for the patches that all threads share when each works on its own output channels.
constexpr int64_t kSharedFloats = 4'000'000;
// Transformed weights up to this size are made once a call; larger ones panel by panel.
constexpr int64_t kAllWeightsFloats = 32'000'000;
// Up to this size they pass from memory to each block of tiles; larger ones would do it too slowly.
constexpr int64_t kWeightsPassedFloats = 8'000'000;
// Input channels whose transformed weights a thread holds at a time.
constexpr int64_t kChannelChunk = 256;

at::Tensor floats(int64_t count) {
  return at::empty({count}, at::kFloat);
}

/// So many floats for each thread of a parallel region. Taken before it, on the thread that may
/// draw on the tensor pool.
class Scratch {
 public:
  explicit Scratch(int64_t count) : count_(count), memory_(floats(at::get_num_threads() * count)) {}
  /// The calling thread's share.
  float* mine() const { return memory_.mutable_data_ptr<float>() + at::get_thread_num() * count_; }

 private:
  int64_t count_;
  at::Tensor memory_;
};

int64_t rounded_rows(int64_t rows, int64_t least, int64_t most) {
  return std::clamp(rows / cpu::kGemmRows * cpu::kGemmRows, least, most);
}

/// Where a call reads and writes.
template <typename T>
struct Data {
  Data(const at::Tensor& x, const at::Tensor& packed, const at::Tensor& bias,
       const at::Tensor& residual, at::Tensor& y)
      : x(static_cast<const T*>(x.const_data_ptr())),
        weights(static_cast<const T*>(packed.const_data_ptr())),
        bias(bias.const_data_ptr<float>()),
        residual(residual.defined() ? static_cast<const T*>(residual.const_data_ptr()) : nullptr),
        y(static_cast<T*>(y.mutable_data_ptr())),
        in(x.size(3)),
        out(y.size(3)) {}
  const T* x;
  const T* weights;
  const float* bias;
  const T* residual;
  T* y;
  int64_t in;
  int64_t out;
};

/// Square tiles of each picture.
template <typename T, int kTile>
struct SpatialTiles : Data<T> {
  static constexpr int64_t kPositions = (kTile + 2) * (kTile + 2);
  static constexpr int64_t kTaps = 9;

  SpatialTiles(const cpu::WinogradTransforms<T, kTile>& steps, const at::Tensor& x,
               const at::Tensor& packed, const at::Tensor& bias, const at::Tensor& residual,
               at::Tensor& y, bool doubled)
      : Data<T>(x, packed, bias, residual, y),
        steps(steps),
        doubled(doubled),
        height(y.size(1)),
        width(y.size(2)),
        source_pixels(x.size(1) * x.size(2)),
        tiles_x((width + kTile - 1) / kTile),
        tiles_a_picture((height + kTile - 1) / kTile * tiles_x),
        tiles(y.size(0) * tiles_a_picture) {}

  void transform_weights(const T* packed, int64_t from, int64_t channels, float* u) const {
    steps.weights(packed, from, channels, u);
  }
  void transform_input(int64_t tile, float* v, int64_t position_stride) const {
    const int64_t inside = tile % tiles_a_picture;
    steps.input(this->x + tile / tiles_a_picture * source_pixels * this->in,
                {height, width, this->in}, doubled, inside / tiles_x, inside % tiles_x, v,
                position_stride);
  }
  void transform_output(int64_t tile, int64_t channel, const float* m,
                        int64_t position_stride) const {
    const int64_t inside = tile % tiles_a_picture;
    const int64_t at = tile / tiles_a_picture * height * width * this->out + channel;
    steps.output(m, position_stride, this->bias + channel, this->y + at, {height, width, this->out},
                 inside / tiles_x, inside % tiles_x,
                 this->residual == nullptr ? nullptr : this->residual + at);
  }

  const cpu::WinogradTransforms<T, kTile>& steps;
  bool doubled;
  int64_t height;
  int64_t width;
  int64_t source_pixels;
  int64_t tiles_x;
  int64_t tiles_a_picture;
  int64_t tiles;
};

/// What a picture costs with tiles of that size, those beyond its edges included: products for each
/// pair of an input and an output channel, and its share of the transformation of the pair's
/// weight, as many of them as take as long. The share is one of a window's: whether a picture comes
/// alone or with others must not change its result.
double cost_of_tiles(int64_t height, int64_t width, int64_t tile) {
  constexpr int64_t kWeights = 4;
  const int64_t tiles = (height + tile - 1) / tile * ((width + tile - 1) / tile);
  return static_cast<double>((tiles + kWeights) * (tile + 2) * (tile + 2));
}

/// Tiles of four frames of each pixel; neighbouring tiles are neighbouring pixels.
struct TemporalTiles : Data<float> {
  static constexpr int64_t kPositions = 6;
  static constexpr int64_t kTaps = 3;

  TemporalTiles(const at::Tensor& x, const at::Tensor& packed, const at::Tensor& bias,
                const at::Tensor& residual, at::Tensor& y)
      : Data<float>(x, packed, bias, residual, y),
        frames(x.size(0)),
        pixels(x.size(1) * x.size(2)),
        tiles((frames + 3) / 4 * pixels) {}

  void transform_weights(const float* packed, int64_t from, int64_t channels, float* u) const {
    temporal().weights(packed, from, channels, u);
  }
  void transform_input(int64_t tile, float* v, int64_t position_stride) const {
    temporal().input(x + tile % pixels * in, frames, pixels * in, in, tile / pixels, v,
                     position_stride);
  }
  void transform_output(int64_t tile, int64_t channel, const float* m,
                        int64_t position_stride) const {
    const int64_t at = tile % pixels * out + channel;
    temporal().output(m, position_stride, bias + channel, y + at, frames, pixels * out,
                      tile / pixels, residual == nullptr ? nullptr : residual + at);
  }

  static const cpu::WinogradTemporalTransforms& temporal() {
    return cpu::winograd_kernels().temporal;
  }

  int64_t frames;
  int64_t pixels;
  int64_t tiles;
};

/// The three steps over all tiles: inputs transformed, a product for each position, outputs
/// transformed.
template <typename Tiles>
class Run {
 public:
  explicit Run(const Tiles& tiles)
      : tiles_(tiles),
        panel_(cpu::winograd_kernels().panel),
        panels_(tiles.out / panel_),
        in_(tiles.in) {}

  void compute() const {
    const int64_t weights = kPositions * in_ * tiles_.out;
    if (weights <= kWeightsPassedFloats) {
      by_tiles();
    } else if (weights <= kAllWeightsFloats) {
      by_positions();
    } else {
      by_panels();
    }
  }

 private:
  static constexpr int64_t kPositions = Tiles::kPositions;
  auto panel_weights(int64_t panel) const {
    return tiles_.weights + panel * in_ * Tiles::kTaps * panel_;
  }

  // u [panels, positions, in, panel].
  at::Tensor all_weights() const {
    const int64_t panel_floats = kPositions * in_ * panel_;
    at::Tensor weights = floats(panels_ * panel_floats);
    auto* u = weights.mutable_data_ptr<float>();
    at::parallel_for(0, panels_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p)
        tiles_.transform_weights(panel_weights(p), 0, in_, u + p * panel_floats);
    });
    return weights;
  }

  // Each thread takes blocks of tiles through all three steps.
  void by_tiles() const {
    const int64_t panel_floats = kPositions * in_ * panel_;
    const at::Tensor weights = all_weights();
    const auto* u = weights.const_data_ptr<float>();
    const int64_t block =
        rounded_rows(kBlockFloats / (kPositions * in_), cpu::kGemmRows, 8 * cpu::kGemmRows);
    const int64_t blocks = (tiles_.tiles + block - 1) / block;
    const Scratch patches(kPositions * block * in_);
    const Scratch products(kPositions * block * panel_);
    at::parallel_for(0, blocks, 1, [&](int64_t begin, int64_t end) {
      float* v = patches.mine();
      float* m = products.mine();
      for (int64_t b = begin; b < end; ++b) {
        const int64_t count = std::min(block, tiles_.tiles - b * block);
        for (int64_t t = 0; t < count; ++t)
          tiles_.transform_input(b * block + t, v + t * in_, block * in_);
        for (int64_t p = 0; p < panels_; ++p) {
          multiply(v, block, count, 0, u + p * panel_floats, in_, m);
          finish(b * block, count, block, p, m);
        }
      }
    });
  }

  // More channels: the threads share a group of tiles and take the positions in turn, each of which
  // has its patches in the L2 cache while the weights pass.
  void by_positions() const {
    const at::Tensor weights = all_weights();
    const auto* u = weights.const_data_ptr<float>();
    const int64_t group = group_of_tiles();
    const at::Tensor patches = floats(kPositions * group * in_);
    const at::Tensor products = floats(kPositions * group * tiles_.out);
    auto* v = patches.mutable_data_ptr<float>();
    auto* m = products.mutable_data_ptr<float>();
    for (int64_t first = 0; first < tiles_.tiles; first += group) {
      const int64_t count = std::min(group, tiles_.tiles - first);
      transform_inputs(first, count, v, group);
      at::parallel_for(0, kPositions, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          for (int64_t p = 0; p < panels_; ++p) {
            cpu::gemm_kernels().multiply({.a = v + i * group * in_,
                                          .a_stride = in_,
                                          .rows = count,
                                          .depth = in_,
                                          .b = u + (p * kPositions + i) * in_ * panel_,
                                          .c = m + (i * group * panels_ + p * group) * panel_,
                                          .c_stride = panel_});
          }
        }
      });
      at::parallel_for(0, count, 1, [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) {
          for (int64_t p = 0; p < panels_; ++p)
            tiles_.transform_output(first + t, p * panel_, m + (p * group + t) * panel_,
                                    group * tiles_.out);
        }
      });
    }
  }

  // Tiles whose patches the threads share.
  int64_t group_of_tiles() const {
    return rounded_rows(kSharedFloats / (kPositions * in_), cpu::kGemmRows,
                        (tiles_.tiles / cpu::kGemmRows + 1) * cpu::kGemmRows);
  }

  void transform_inputs(int64_t first, int64_t count, float* v, int64_t group) const {
    at::parallel_for(0, count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t)
        tiles_.transform_input(first + t, v + t * in_, group * in_);
    });
  }

  // Many channels: the patches of a group of tiles are shared, and each thread transforms the
  // weights of its own panels as it needs them.
  void by_panels() const {
    const int64_t group = group_of_tiles();
    const at::Tensor patches = floats(kPositions * group * in_);
    const Scratch weights(kPositions * kChannelChunk * panel_);
    const Scratch products(kPositions * group * panel_);
    auto* v = patches.mutable_data_ptr<float>();
    for (int64_t first = 0; first < tiles_.tiles; first += group) {
      const int64_t count = std::min(group, tiles_.tiles - first);
      transform_inputs(first, count, v, group);
      at::parallel_for(0, panels_, 1, [&](int64_t begin, int64_t end) {
        float* u = weights.mine();
        float* m = products.mine();
        for (int64_t p = begin; p < end; ++p) {
          for (int64_t c = 0; c < in_; c += kChannelChunk) {
            const int64_t channels = std::min(kChannelChunk, in_ - c);
            tiles_.transform_weights(panel_weights(p), c, channels, u);
            multiply(v, group, count, c, u, channels, m);
          }
          finish(first, count, group, p, m);
        }
      });
    }
  }

  // Patches v [positions, rows, in] of input channels from..from+channels times u [positions,
  // channels, panel] into m [positions, rows, panel]; adds unless they are the first channels.
  void multiply(const float* v, int64_t rows, int64_t count, int64_t from, const float* u,
                int64_t channels, float* m) const {
    for (int64_t i = 0; i < kPositions; ++i) {
      cpu::gemm_kernels().multiply({.a = v + i * rows * in_ + from,
                                    .a_stride = in_,
                                    .rows = count,
                                    .depth = channels,
                                    .b = u + i * channels * panel_,
                                    .c = m + i * rows * panel_,
                                    .c_stride = panel_,
                                    .accumulate = from > 0});
    }
  }

  void finish(int64_t first, int64_t count, int64_t rows, int64_t panel, const float* m) const {
    for (int64_t t = 0; t < count; ++t)
      tiles_.transform_output(first + t, panel * panel_, m + t * panel_, rows * panel_);
  }

  const Tiles& tiles_;
  int64_t panel_;
  int64_t panels_;
  int64_t in_;
};

template <typename Tiles, typename... Arguments>
void run(Arguments&&... arguments) {
  const Tiles tiles(std::forward<Arguments>(arguments)...);
  Run<Tiles>(tiles).compute();
}

Panels panels() {
  return {.panel = cpu::winograd_kernels().panel};
}

// [out, in, taps...] -> [out/panel, in * taps, panel]
at::Tensor packed_panels(const at::Tensor& weight) {
  return in_panels(weight.flatten(1), panels());
}

}  // namespace

bool winograd_suits(at::ScalarType dtype, at::Device device, int64_t out, int64_t in) {
  if (!device.is_cpu()) return false;
  const auto& kernels = cpu::winograd_kernels();
  if (out % kernels.panel != 0 || in % kernels.lanes != 0) return false;
  if (dtype == at::kFloat) return true;
  // With AMX, direct bfloat16 is several times faster than anything in float32.
  return dtype == at::kBFloat16 && !cpu_has_bfloat16_matrix_units();
}

int64_t winograd_tile(at::ScalarType dtype, int64_t height, int64_t width, int64_t weights) {
  int64_t best = 4;
  if (dtype == at::kFloat) return best;
  // A larger tile's steps are longer: it has to save more than a little.
  constexpr double kWorth = 0.95;
  for (const int64_t tile : {6, 8}) {
    // Weights that are transformed panel by panel are so for each group of tiles.
    if (weights * (tile + 2) * (tile + 2) > kAllWeightsFloats) break;
    if (cost_of_tiles(height, width, tile) < kWorth * cost_of_tiles(height, width, best))
      best = tile;
  }
  return best;
}

bool winograd_temporal_suits(at::ScalarType dtype, at::Device device, int64_t channels) {
  return dtype == at::kFloat && winograd_suits(dtype, device, channels, channels);
}

WinogradConv::WinogradConv(const at::Tensor& weight, const at::Tensor& bias)
    : packed_(packed_panels(weight)), bias_(bias) {}

WinogradConv::WinogradConv(const Weights& weights, int64_t out, int64_t in, const at::Tensor& bias)
    : packed_(weights.get_in_panels("weight", {out, in, 3, 3}, panels())), bias_(bias) {}

at::Tensor WinogradConv::operator()(const at::Tensor& x, const at::Tensor& residual) const {
  at::Tensor y = at::empty({x.size(0), x.size(1), x.size(2), bias_.size(0)}, x.options());
  compute(y, x, residual, false);
  return y;
}

void WinogradConv::into(at::Tensor& y, const at::Tensor& x, const at::Tensor& residual) const {
  compute(y, x, residual, false);
}

at::Tensor WinogradConv::doubled(const at::Tensor& x) const {
  at::Tensor y = at::empty({x.size(0), 2 * x.size(1), 2 * x.size(2), bias_.size(0)}, x.options());
  compute(y, x, {}, true);
  return y;
}

void WinogradConv::compute(at::Tensor& y, const at::Tensor& x, const at::Tensor& residual,
                           bool doubled) const {
  const auto& kernels = cpu::winograd_kernels();
  const auto run_with = [&]<typename T, int kTile>(const cpu::WinogradTransforms<T, kTile>& steps) {
    run<SpatialTiles<T, kTile>>(steps, x, packed_, bias_, residual, y, doubled);
  };
  if (x.scalar_type() == at::kFloat) return run_with(kernels.f32);
  switch (winograd_tile(x.scalar_type(), y.size(1), y.size(2), x.size(3) * y.size(3))) {
    case 8:
      return run_with(kernels.bf16_8x8);
    case 6:
      return run_with(kernels.bf16_6x6);
    default:
      return run_with(kernels.bf16_4x4);
  }
}

WinogradTemporalConv::WinogradTemporalConv(const at::Tensor& weight, const at::Tensor& bias)
    : packed_(packed_panels(weight)), bias_(bias) {}

at::Tensor WinogradTemporalConv::operator()(const at::Tensor& x, const at::Tensor& residual) const {
  at::Tensor y = at::empty({x.size(0), x.size(1), x.size(2), bias_.size(0)}, x.options());
  into(y, x, residual);
  return y;
}

void WinogradTemporalConv::into(at::Tensor& y, const at::Tensor& x,
                                const at::Tensor& residual) const {
  run<TemporalTiles>(x, packed_, bias_, residual, y);
}

}  // namespace normalcrafter
