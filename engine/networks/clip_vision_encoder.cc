#include "networks/clip_vision_encoder.h"

#include <algorithm>
#include <cmath>

#include "nn/attention.h"
#include "nn/group_norm.h"

namespace normalcrafter {
namespace {

// diffusers' _gaussian_blur2d in one direction: reflected edges, an odd number of taps.
at::Tensor blur(const at::Tensor& x, int size, double sigma, bool vertical) {
  const int64_t radius = size / 2;
  const at::Tensor offsets = at::arange(-radius, radius + 1, x.options());
  at::Tensor taps = (-offsets.square() / (2 * sigma * sigma)).exp();
  taps = taps / taps.sum();
  const int64_t rows = vertical ? radius : 0;
  const int64_t columns = vertical ? 0 : radius;
  const at::Tensor padded = at::reflection_pad2d(x, {columns, columns, rows, rows});
  const int64_t channels = x.size(1);
  const at::Tensor kernel = taps.view({1, 1, vertical ? size : 1, vertical ? 1 : size})
                                .expand({channels, 1, vertical ? size : 1, vertical ? 1 : size});
  return at::convolution(padded, kernel, {}, {1, 1}, {0, 0}, {1, 1}, false, {0, 0}, channels);
}

// The research release's resize (diffusers' _resize_with_antialiasing): Gaussian blur by the factor
// of reduction, then bicubic with aligned corners. Input and output in [-1,1].
at::Tensor resize_with_blur(const at::Tensor& x, int size) {
  const auto sigma = [size](int64_t side) {
    return std::max((static_cast<double>(side) / size - 1.0) / 2.0, 0.001);
  };
  const auto taps = [](double s) {
    const int count = static_cast<int>(std::max(2.0 * 2 * s, 3.0));
    return count % 2 == 0 ? count + 1 : count;
  };
  const double vertical = sigma(x.size(2));
  const double horizontal = sigma(x.size(3));
  at::Tensor blurred = blur(x, taps(horizontal), horizontal, false);
  blurred = blur(blurred, taps(vertical), vertical, true);
  return at::upsample_bicubic2d(blurred, {size, size}, true);
}

// In place, by numbers and not by tensors, whose way to a device would be waited for.
void normalize_channels(const at::Tensor& pixels, const ClipVisionConfig& config) {
  for (int64_t c = 0; c < 3; ++c) {
    const auto channel = static_cast<std::size_t>(c);
    pixels.select(1, c).sub_(config.image_mean[channel]).div_(config.image_std[channel]);
  }
}

}  // namespace

at::Tensor clip_preprocess(const at::Tensor& frames, const ClipVisionConfig& config,
                           ClipResize resize) {
  const int64_t size = config.image_size;
  at::Tensor pixels;
  if (resize == ClipResize::Seed) {
    pixels = at::_upsample_bicubic2d_aa(frames, {size, size}, false).clamp_(0, 1);
  } else {
    pixels = (resize_with_blur(frames * 2 - 1, config.image_size) + 1) / 2;
  }
  normalize_channels(pixels, config);
  return pixels;
}

ClipEncoderLayer::ClipEncoderLayer(const Weights& weights, const ClipVisionConfig& config)
    : norm1_(weights / "layer_norm1", config.hidden_size, config.layer_norm_eps),
      qkv_(Linear::joined(weights / "self_attn", {"q_proj", "k_proj", "v_proj"}, config.hidden_size,
                          config.hidden_size, true)),
      out_(weights / "self_attn" / "out_proj", config.hidden_size, config.hidden_size),
      norm2_(weights / "layer_norm2", config.hidden_size, config.layer_norm_eps),
      fc1_(weights / "mlp" / "fc1", config.hidden_size, config.intermediate_size),
      fc2_(weights / "mlp" / "fc2", config.intermediate_size, config.hidden_size),
      heads_(config.num_attention_heads),
      quick_gelu_(config.hidden_act == "quick_gelu") {}

at::Tensor ClipEncoderLayer::operator()(const at::Tensor& x) const {
  return first_tokens(x, x.size(1));
}

at::Tensor ClipEncoderLayer::first_tokens(const at::Tensor& x, int64_t count) const {
  const auto parts = qkv_(norm1_(x)).chunk(3, -1);
  const at::Tensor attended = attend(parts[0].narrow(1, 0, count), parts[1], parts[2], heads_);
  const at::Tensor y = out_(attended).add_(x.narrow(1, 0, count));
  at::Tensor h = fc1_(norm2_(y));
  if (quick_gelu_) {
    h.mul_(at::sigmoid(1.702 * h));
  } else {
    gelu_in_place(h);
  }
  return fc2_(h).add_(y);
}

ClipVisionEncoder::ClipVisionEncoder(const Weights& weights, const ClipVisionConfig& config)
    : patch_size_(config.patch_size) {
  const Weights model = weights / "vision_model";
  const Weights embeddings = model / "embeddings";
  const int hidden = config.hidden_size;
  const int grid = config.image_size / config.patch_size;
  patch_weight_ = (embeddings / "patch_embedding")
                      .get("weight", {hidden, 3, patch_size_, patch_size_})
                      .to(weights.device());
  class_embedding_ =
      embeddings.get("class_embedding", {hidden}).view({1, 1, hidden}).to(weights.device());
  position_embedding_ = (embeddings / "position_embedding")
                            .get("weight", {1 + grid * grid, hidden})
                            .unsqueeze(0)
                            .to(weights.device());
  pre_norm_ = LayerNorm(model / "pre_layrnorm", hidden, config.layer_norm_eps);  // published name
  for (int i = 0; i < config.num_hidden_layers; ++i)
    layers_.emplace_back(model / "encoder" / "layers" / i, config);
  post_norm_ = LayerNorm(model / "post_layernorm", hidden, config.layer_norm_eps);
  projection_ = Linear(weights / "visual_projection", hidden, config.projection_dim, false);
}

at::Tensor ClipVisionEncoder::operator()(const at::Tensor& pixels,
                                         const Checkpoint& checkpoint) const {
  const at::Tensor patches =
      at::conv2d(pixels.to(patch_weight_.scalar_type()), patch_weight_, at::Tensor(), patch_size_)
          .flatten(2)
          .transpose(1, 2);
  at::Tensor x = at::cat({class_embedding_.expand({pixels.size(0), 1, -1}), patches}, 1);
  x = pre_norm_(x + position_embedding_);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    // Of the last layer's result only the class token is read.
    x = layers_[i].first_tokens(x, i + 1 < layers_.size() ? x.size(1) : 1);
    checkpoint.check();
  }
  return projection_(post_norm_(x.select(1, 0)));
}

}  // namespace normalcrafter
