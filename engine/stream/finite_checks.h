// Whether the networks' results are numbers, without waiting for each of them.
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <vector>

namespace normalcrafter {

/// Looks at results on the CPU at once. On other devices the answer is waited for only in settle(),
/// for all results since the last one together.
class FiniteChecks {
 public:
  /// `deferred`: wait for settle(). On the CPU both give the same, at other times.
  explicit FiniteChecks(bool deferred) : deferred_(deferred) {}

  /// `what` begins the error's text, as "unet produced non-finite values in window 2". Throws Error
  /// NonFinite here or in settle().
  void add(const at::Tensor& values, std::string what);
  /// Waits for the device. Throws Error NonFinite for the first of the results that is not finite.
  void settle();
  /// What was added is not looked at any more.
  void forget() { waiting_.clear(); }

 private:
  struct Extremes {
    at::Tensor values;  // [2] float32: both are NaN if any value is
    std::string what;
  };
  bool deferred_;
  std::vector<Extremes> waiting_;
};

}  // namespace normalcrafter
