#include "nn/linear.h"

namespace normalcrafter {

Linear::Linear(const Weights& weights, int in, int out, bool bias) {
  set(weights.get("weight", {out, in}).to(weights.device()),
      bias ? weights.get("bias", {out}).to(weights.device()) : at::Tensor());
}

Linear Linear::joined(const Weights& weights, const std::vector<std::string>& names, int in,
                      int out, bool bias) {
  std::vector<at::Tensor> matrices;
  std::vector<at::Tensor> biases;
  for (const auto& name : names) {
    matrices.push_back((weights / name).get("weight", {out, in}));
    if (bias) biases.push_back((weights / name).get("bias", {out}));
  }
  Linear result;
  result.set(at::cat(matrices).to(weights.device()),
             bias ? at::cat(biases).to(weights.device()) : at::Tensor());
  return result;
}

void Linear::set(const at::Tensor& weight, const at::Tensor& bias) {
  bias_ = bias;
  if (!gemm_suits(weight)) {
    weight_ = weight;
    return;
  }
  packed_.emplace(weight);
  if (bias.defined()) bias_ = bias.to(at::kFloat);
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
