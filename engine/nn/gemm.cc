#include "nn/gemm.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "nn/cpu/gemm.h"

namespace normalcrafter {
namespace {

// Rows of x that stay in the L2 cache while the panels pass, kMostDepth columns at a time.
constexpr int64_t kMostRows = 8 * cpu::kGemmRows;
constexpr int64_t kMostDepth = 1280;
// From row to row of the copy that a thread works on. A power of two there, as the rows of x often
// have, would put all of them into the same few lines of the L1 cache.
constexpr int64_t kCopyStride = kMostDepth + 16;
// Fewer pieces of work than this for each thread leave some of them idle at the end.
constexpr int64_t kTasksAThread = 8;

int64_t divided_up(int64_t count, int64_t by) {
  return (count + by - 1) / by;
}

struct Product {
  const float* x;
  const float* weights;
  const float* bias;  // may be null
  float* y;
  int64_t rows;
  int64_t in;
  int64_t out;
};

// Rows first..first+count of the result, output channels of panels begin..end. copy: kMostRows *
// kCopyStride floats.
void multiply_block(const Product& product, int64_t first, int64_t count, int64_t begin,
                    int64_t end, float* copy) {
  const auto& kernels = cpu::gemm_kernels();
  for (int64_t k = 0; k < product.in; k += kMostDepth) {
    const int64_t depth = std::min(kMostDepth, product.in - k);
    for (int64_t r = 0; r < count; ++r)
      std::copy_n(product.x + (first + r) * product.in + k, depth, copy + r * kCopyStride);
    for (int64_t p = begin; p < end; ++p) {
      const int64_t column = p * kernels.panel;
      kernels.multiply({.a = copy,
                        .a_stride = kCopyStride,
                        .rows = count,
                        .depth = depth,
                        .b = product.weights + (p * product.in + k) * kernels.panel,
                        .c = product.y + first * product.out + column,
                        .c_stride = product.out,
                        .bias = product.bias == nullptr ? nullptr : product.bias + column,
                        .accumulate = k > 0});
    }
  }
}

void multiply(const Product& product) {
  const int64_t panels = product.out / cpu::gemm_kernels().panel;
  const int64_t groups = divided_up(product.rows, kMostRows);
  // Few rows: the panels are shared out too.
  const int64_t tasks = kTasksAThread * at::get_num_threads();
  const int64_t splits = std::min(panels, divided_up(tasks, groups));
  const int64_t panels_each = divided_up(panels, splits);
  const at::Tensor copies = at::empty({at::get_num_threads(), kMostRows * kCopyStride}, at::kFloat);
  at::parallel_for(0, groups * splits, 1, [&](int64_t begin, int64_t end) {
    float* const copy =
        copies.mutable_data_ptr<float>() + at::get_thread_num() * kMostRows * kCopyStride;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t first = task / splits * kMostRows;
      const int64_t panel = std::min(panels, task % splits * panels_each);
      multiply_block(product, first, std::min(kMostRows, product.rows - first), panel,
                     std::min(panels, panel + panels_each), copy);
    }
  });
}

}  // namespace

bool gemm_suits(const at::Tensor& weight) {
  return weight.is_cpu() && weight.scalar_type() == at::kFloat &&
         weight.size(0) % cpu::gemm_kernels().panel == 0;
}

PackedMatrix::PackedMatrix(const at::Tensor& weight)
    : packed_(weight.view({-1, cpu::gemm_kernels().panel, weight.size(1)})
                  .transpose(1, 2)
                  .contiguous()) {}

at::Tensor PackedMatrix::operator()(const at::Tensor& x, const at::Tensor& bias) const {
  const at::Tensor rows = x.contiguous();
  auto shape = x.sizes().vec();
  shape.back() = packed_.size(0) * packed_.size(2);
  at::Tensor y = at::empty(shape, x.options());
  multiply({.x = rows.const_data_ptr<float>(),
            .weights = packed_.const_data_ptr<float>(),
            .bias = bias.defined() ? bias.const_data_ptr<float>() : nullptr,
            .y = y.mutable_data_ptr<float>(),
            .rows = rows.numel() / rows.size(-1),
            .in = rows.size(-1),
            .out = shape.back()});
  return y;
}

}  // namespace normalcrafter
