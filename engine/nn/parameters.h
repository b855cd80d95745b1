// A network's prepared parameters as places, so that they can be moved between host and device.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <string>
#include <vector>

namespace normalcrafter {

/// The tensors that a layer computes with, in memory of the layer: what is put there it uses next.
/// Valid while the layer lives and is not moved.
class ParameterList {
 public:
  /// Leaves out what a layer does not have.
  void add(at::Tensor& parameter) {
    if (parameter.defined()) places_.push_back(&parameter);
  }
  const std::vector<at::Tensor*>& places() const { return places_; }

 private:
  std::vector<at::Tensor*> places_;
};

/// The parameters of a run of layers that are used together.
struct ParameterBlock {
  std::string name;
  ParameterList parameters;
};

/// Called with each run of layers while a network is built, once its parameters are prepared. May
/// move them, so that a network that does not fit on the device at once can be built there.
using BlockBuilt = std::function<void(const ParameterList&)>;

/// Told around each run of layers of a network that computes, by its number in the network's list
/// of blocks: its parameters need only be there meanwhile.
class BlockWalk {
 public:
  virtual ~BlockWalk() = default;
  virtual void enter_block(int block) = 0;
  virtual void leave_block(int block) = 0;
};

}  // namespace normalcrafter
