#include "nn/gemm.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "nn/cpu/gemm.h"
#include "nn/cpu_features.h"

namespace normalcrafter {
namespace {

using cpu::BFloat16Bits;
using cpu::BFloat16Pair;

// What a thread works on at a time stays in its L2 cache while the panels pass: so many values of x
// of so many columns, and rows at most.
constexpr int64_t kMostDepth = 1280;
constexpr int64_t kMostValues = 96 * kMostDepth;
constexpr int64_t kMostRows = 384;
// From row to row of the copy that a thread works on there is more than the row's length. A power
// of two, as the rows of x often have, would put all of them into the same few lines of the L1
// cache.
constexpr int64_t kApart = 16;
// Fewer pieces of work than this for each thread leave some of them idle at the end.
constexpr int64_t kTasksAThread = 8;

int64_t divided_up(int64_t count, int64_t by) {
  return (count + by - 1) / by;
}

// T: float, or BFloat16Pair with `in` counting pairs.
template <typename T>
struct Product {
  using Result = std::conditional_t<std::is_same_v<T, float>, float, BFloat16Bits>;
  const char* x;  // may not be aligned to T
  const T* weights;
  const float* bias;  // may be null
  Result* y;
  int64_t rows;
  int64_t in;
  int64_t out;
};

// How a product is shared out. A task is a group of rows and a split of the panels.
struct Sharing {
  Sharing(int64_t rows, int64_t in, int64_t panels)
      : depth(std::min(in, kMostDepth)), stride(depth + kApart) {
    const int64_t threads = at::get_num_threads();
    const int64_t most = std::clamp(kMostValues / depth, cpu::kGemmRows, kMostRows);
    // As many for one thread as for another; one group's weights serve all of its rows.
    groups = divided_up(rows, most);
    if (groups > 1) groups = divided_up(groups, threads) * threads;
    group_rows = divided_up(divided_up(rows, groups), cpu::kGemmRows) * cpu::kGemmRows;
    groups = divided_up(rows, group_rows);
    panels_each = divided_up(panels, std::min(panels, divided_up(kTasksAThread * threads, groups)));
    splits = divided_up(panels, panels_each);
  }
  int64_t depth;   // columns of x at a time
  int64_t stride;  // from row to row of their copy
  int64_t groups;
  int64_t group_rows;
  int64_t splits;
  int64_t panels_each;
};

// A thread's memory.
template <typename T>
struct Scratch {
  T* copy;      // [group_rows, stride] of x
  float* sums;  // [group_rows, panels_each * panel] of what is rounded in the end
};

// Sums in float32 wait in the result for the next columns, others beside it.
void run_kernel(cpu::GemmBlock<float> block, float* y, int64_t y_stride, float* /*sums*/,
                int64_t /*sums_stride*/, bool /*is_last*/) {
  block.c = y;
  block.c_stride = y_stride;
  cpu::gemm_kernels().multiply(block);
}
void run_kernel(cpu::GemmBlock<BFloat16Pair> block, BFloat16Bits* y, int64_t y_stride, float* sums,
                int64_t sums_stride, bool is_last) {
  block.c = sums;
  block.c_stride = sums_stride;
  block.rounded = is_last ? y : nullptr;
  block.rounded_stride = y_stride;
  cpu::gemm_kernels().multiply_bf16(block);
}

// Rows first..first+count of the result, output channels of panels begin..end.
template <typename T>
void multiply_task(const Product<T>& product, const Sharing& sharing, int64_t first, int64_t count,
                   int64_t begin, int64_t end, const Scratch<T>& scratch) {
  const int64_t panel = cpu::gemm_kernels().panel;
  for (int64_t k = 0; k < product.in; k += sharing.depth) {
    const int64_t depth = std::min(sharing.depth, product.in - k);
    for (int64_t r = 0; r < count; ++r)
      std::memcpy(scratch.copy + r * sharing.stride,
                  product.x + ((first + r) * product.in + k) * static_cast<int64_t>(sizeof(T)),
                  static_cast<std::size_t>(depth) * sizeof(T));
    for (int64_t p = begin; p < end; ++p) {
      const int64_t column = p * panel;
      run_kernel({.a = scratch.copy,
                  .a_stride = sharing.stride,
                  .rows = count,
                  .depth = depth,
                  .b = product.weights + (p * product.in + k) * panel,
                  .bias = product.bias == nullptr ? nullptr : product.bias + column,
                  .accumulate = k > 0},
                 product.y + first * product.out + column, product.out,
                 scratch.sums + (p - begin) * panel, sharing.panels_each * panel,
                 k + depth == product.in);
    }
  }
}

template <typename T>
void multiply(const Product<T>& product) {
  const int64_t panel = cpu::gemm_kernels().panel;
  const int64_t panels = product.out / panel;
  if (product.rows == 0) return;
  const Sharing sharing(product.rows, product.in, panels);
  const bool has_sums = !std::is_same_v<T, float> && product.in > sharing.depth;
  const int64_t copy_size = sharing.group_rows * sharing.stride;
  const int64_t sums_size = has_sums ? sharing.group_rows * sharing.panels_each * panel : 0;
  const at::Tensor memory = at::empty({at::get_num_threads(), copy_size + sums_size}, at::kFloat);
  at::parallel_for(0, sharing.groups * sharing.splits, 1, [&](int64_t begin, int64_t end) {
    float* const mine =
        memory.mutable_data_ptr<float>() + at::get_thread_num() * (copy_size + sums_size);
    const Scratch<T> scratch{reinterpret_cast<T*>(mine), mine + copy_size};
    for (int64_t task = begin; task < end; ++task) {
      const int64_t first = task % sharing.groups * sharing.group_rows;
      const int64_t from = task / sharing.groups * sharing.panels_each;
      multiply_task(product, sharing, first, std::min(sharing.group_rows, product.rows - first),
                    from, std::min(panels, from + sharing.panels_each), scratch);
    }
  });
}

// Columns of x that T holds.
template <typename T>
constexpr int64_t kColumns = std::is_same_v<T, float> ? 1 : 2;

template <typename T>
void multiply(const at::Tensor& x, const at::Tensor& packed, const at::Tensor& bias,
              at::Tensor& y) {
  multiply<T>({.x = static_cast<const char*>(x.const_data_ptr()),
               .weights = static_cast<const T*>(packed.const_data_ptr()),
               .bias = bias.defined() ? bias.const_data_ptr<float>() : nullptr,
               .y = static_cast<typename Product<T>::Result*>(y.mutable_data_ptr()),
               .rows = x.numel() / x.size(-1),
               .in = x.size(-1) / kColumns<T>,
               .out = y.size(-1)});
}

Panels panels_of(at::ScalarType dtype) {
  return {.panel = cpu::gemm_kernels().panel,
          .together = dtype == at::kFloat ? kColumns<float> : kColumns<BFloat16Pair>};
}

}  // namespace

bool gemm_suits(at::ScalarType dtype, at::Device device, int64_t out, int64_t in) {
  const auto& kernels = cpu::gemm_kernels();
  if (!device.is_cpu() || out % kernels.panel != 0) return false;
  if (dtype == at::kFloat) return true;
  return dtype == at::kBFloat16 && kernels.multiply_bf16 != nullptr &&
         !cpu_has_bfloat16_matrix_units() && in % kColumns<BFloat16Pair> == 0;
}

PackedMatrix::PackedMatrix(const std::vector<Weights>& layers, int64_t out, int64_t in) {
  std::vector<at::Tensor> packed;
  for (const Weights& layer : layers)
    packed.push_back(layer.get_in_panels("weight", {out, in}, panels_of(layer.dtype())));
  packed_ = packed.size() == 1 ? packed.front() : at::cat(packed);
}

at::Tensor PackedMatrix::operator()(const at::Tensor& x, const at::Tensor& bias) const {
  const at::Tensor rows = x.contiguous();
  auto shape = x.sizes().vec();
  shape.back() = packed_.size(0) * cpu::gemm_kernels().panel;
  at::Tensor y = at::empty(shape, x.options());
  if (x.scalar_type() == at::kFloat) {
    multiply<float>(rows, packed_, bias, y);
  } else {
    multiply<BFloat16Pair>(rows, packed_, bias, y);
  }
  return y;
}

}  // namespace normalcrafter
