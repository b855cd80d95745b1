// The pool keeps freed memory in bounds, and only that of threads that asked for it.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "nn/tensor_pool.h"

// Read by AddressSanitizer: a test asks for more memory than there is and expects to be refused.
extern "C" __attribute__((visibility("default"))) const char* __asan_default_options() {
  return "allocator_may_return_null=1";
}

namespace normalcrafter {
namespace {

constexpr int64_t kMegabyte = 1 << 20;

double resident_megabytes() {
  std::ifstream statm("/proc/self/statm");
  double total = 0;
  double resident = 0;
  statm >> total >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / kMegabyte;
}

at::Tensor bytes(int64_t count) {
  return at::ones({count}, at::kByte);
}

TEST(TensorPool, GivesAFreedBlockToTheNextTensorOfItsSize) {
  const TensorPool::Scope scope;
  const void* first = bytes(10 * kMegabyte).const_data_ptr();
  EXPECT_EQ(bytes(10 * kMegabyte).const_data_ptr(), first);
  TensorPool::trim();
}

TEST(TensorPool, UsedAndKeptStayBelowTheMostThatWasUsed) {
  const TensorPool::Scope scope;
  {
    std::vector<at::Tensor> many;
    for (int i = 0; i < 10; ++i) many.push_back(bytes(8 * kMegabyte));
  }
  EXPECT_EQ(TensorPool::kept(), 80u * kMegabyte);
  const at::Tensor other = bytes(60 * kMegabyte);
  EXPECT_LE(TensorPool::kept(), 20u * kMegabyte);
  const at::Tensor larger = bytes(90 * kMegabyte);
  EXPECT_EQ(TensorPool::kept(), 0u);
  TensorPool::trim();
}

TEST(TensorPool, BuildsALargeBlockFromThePagesOfSmallerOnes) {
  const TensorPool::Scope scope;
  {
    std::vector<at::Tensor> many;
    for (int i = 0; i < 20; ++i) many.push_back(bytes(6 * kMegabyte + 4096 * i));
  }
  const double before = resident_megabytes();
  at::Tensor large = bytes(110 * kMegabyte);
  EXPECT_EQ(large.min().item<int>() + large.max().item<int>(), 2);
  EXPECT_LT(resident_megabytes(), before + 4) << "the pages are the old ones";
  EXPECT_LT(TensorPool::kept(), 11u * kMegabyte);
  // And back: its pages in smaller blocks again, each of which is whole.
  large.reset();
  std::vector<at::Tensor> many;
  for (int i = 0; i < 18; ++i) many.push_back(at::full({5 * kMegabyte + 1}, i, at::kByte));
  for (int i = 0; i < 18; ++i)
    EXPECT_EQ(many[i].min().item<int>() + many[i].max().item<int>(), 2 * i);
  EXPECT_LT(resident_megabytes(), before + 20);  // the last part of each is of small pages
  many.clear();
  TensorPool::trim();
  EXPECT_EQ(TensorPool::kept(), 0u);
  EXPECT_LT(resident_megabytes(), before - 90);
}

TEST(TensorPool, ForgetsTheMostThatWasUsedWhenItIsTrimmed) {
  const TensorPool::Scope scope;
  bytes(100 * kMegabyte);
  TensorPool::trim();
  EXPECT_EQ(TensorPool::kept(), 0u);
  bytes(8 * kMegabyte);
  bytes(16 * kMegabyte);
  EXPECT_LE(TensorPool::kept(), 16u * kMegabyte);
  TensorPool::trim();
}

TEST(TensorPool, LeavesThreadsThatDidNotAskAlone) {
  const TensorPool::Scope scope;
  std::thread([] { bytes(16 * kMegabyte); }).join();
  EXPECT_EQ(TensorPool::kept(), 0u);
}

TEST(TensorPool, TensorsMayOutliveTheirScopeAndThread) {
  at::Tensor kept;
  std::thread([&] {
    const TensorPool::Scope scope;
    kept = bytes(4 * kMegabyte);
  }).join();
  EXPECT_EQ(kept.sum().item<int64_t>(), 4 * kMegabyte);
  kept.reset();
  EXPECT_GE(TensorPool::kept(), 4u * kMegabyte);
  TensorPool::trim();
}

TEST(TensorPool, RefusesWhatTheSystemDoes) {
  int overcommit = 0;
  std::ifstream("/proc/sys/vm/overcommit_memory") >> overcommit;
  if (overcommit == 1) GTEST_SKIP() << "this system refuses no allocation";
  const TensorPool::Scope scope;
  constexpr int64_t kTerabyte = int64_t{1} << 40;
  EXPECT_THROW(at::empty({40 * kTerabyte}, at::kByte), c10::Error);
}

TEST(TensorPool, SmallTensorsAreFreedAsBefore) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer keeps freed memory for a while";
#endif
  { const TensorPool::Scope scope; }  // the pool stands before LibTorch's allocator from here on
  bytes(kMegabyte);
  const double before = resident_megabytes();
  for (int i = 0; i < 200; ++i) bytes(kMegabyte);
  EXPECT_LT(resident_megabytes(), before + 20);
}

}  // namespace
}  // namespace normalcrafter
