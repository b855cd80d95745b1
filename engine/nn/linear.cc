#include "nn/linear.h"

namespace normalcrafter {

namespace {

// [out, ...] each -> one below the other.
at::Tensor stacked(const std::vector<Weights>& layers, const char* name, at::IntArrayRef shape) {
  std::vector<at::Tensor> tensors;
  for (const Weights& layer : layers) tensors.push_back(layer.get(name, shape));
  const at::Tensor all = tensors.size() == 1 ? tensors.front() : at::cat(tensors);
  return all.to(layers.front().device());
}

}  // namespace

Linear::Linear(const Weights& weights, int in, int out, bool bias)
    : Linear(std::vector<Weights>{weights}, in, out, bias) {}

Linear Linear::joined(const Weights& weights, const std::vector<std::string>& names, int in,
                      int out, bool bias) {
  std::vector<Weights> layers;
  for (const auto& name : names) layers.push_back(weights / name);
  return Linear(layers, in, out, bias);
}

Linear::Linear(const std::vector<Weights>& layers, int in, int out, bool bias) {
  if (bias) bias_ = stacked(layers, "bias", {out});
  if (!gemm_suits(layers.front().dtype(), layers.front().device(), out, in)) {
    weight_ = stacked(layers, "weight", {out, in});
    return;
  }
  packed_.emplace(layers, out, in);
  if (bias) bias_ = bias_.to(at::kFloat);
}

at::Tensor Linear::operator()(const at::Tensor& x) const {
  return packed_ ? (*packed_)(x, bias_) : at::linear(x, weight_, bias_);
}

LayerNorm::LayerNorm(const Weights& weights, int channels, double eps)
    : weight_(weights.get("weight", {channels}).to(weights.device())),
      bias_(weights.get("bias", {channels}).to(weights.device())),
      eps_(eps) {}

at::Tensor LayerNorm::operator()(const at::Tensor& x) const {
  return at::layer_norm(x, {x.size(-1)}, weight_, bias_, eps_);
}

}  // namespace normalcrafter
