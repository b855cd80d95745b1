// What is chosen for a device, what is said when there is none, and what its faults become.
#include <ATen/ATen.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <limits>

#include "model/device.h"
#include "model_files.h"
#include "stream/faults.h"
#include "stream/finite_checks.h"

namespace normalcrafter {
namespace {

using testing::error_of;
using testing::expect_error;

bool mentions(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(NoCudaDevice, EachReasonHasItsMessage) {
  const struct {
    bool built;
    const char* reason;  // LibTorch's
    const char* said;
    const char* advice;
  } cases[] = {
      {false, "", "built without CUDA", "install the CUDA build"},
      {true,
       "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and "
       "installed a driver from http://www.nvidia.com/Download/index.aspx",
       "no NVIDIA driver", "nvidia-smi"},
      {true,
       "The NVIDIA driver on your system is too old (found version 11040). Please update your GPU "
       "driver by downloading and installing a new version",
       "too old for this LibTorch (found version 11040)", "update the driver"},
      {true, "No CUDA GPUs are available", "no CUDA device is present (No CUDA GPUs are available)",
       "device=cpu"},
      {true, "", "no CUDA device is present;", "device=cpu"},
  };
  for (const auto& c : cases) {
    const std::string text = no_cuda_message("cuda:1", c.built, c.reason);
    EXPECT_TRUE(mentions(text, "device \"cuda:1\" was asked for")) << text;
    EXPECT_TRUE(mentions(text, c.said)) << text;
    EXPECT_TRUE(mentions(text, c.advice)) << text;
  }
}

TEST(NoCudaDevice, ThisBuildSaysWhatItLacks) {
  if (resolve_device("auto").is_cuda()) GTEST_SKIP() << "there is one";
  const bool built = c10::impl::hasDeviceGuardImpl(at::kCUDA);
  expect_error(
      ErrorCode::DeviceUnavailable, [] { resolve_device("cuda"); },
      built ? "no " : "built without CUDA");
}

TEST(NumberTypes, TheVaeIsFloat32InPlaceOfFloat16WhereItsConfigurationAsks) {
  const at::Device cuda(at::kCUDA, 0);
  const at::Device cpu(at::kCPU);
  EXPECT_EQ(resolve_dtype(Dtype::Auto, cuda), at::kHalf);
  EXPECT_EQ(resolve_vae_dtype(Dtype::Auto, at::kHalf, true, cuda), at::kFloat);
  EXPECT_EQ(resolve_vae_dtype(Dtype::Auto, at::kHalf, false, cuda), at::kHalf);
  EXPECT_EQ(resolve_vae_dtype(Dtype::Auto, at::kBFloat16, true, cuda), at::kBFloat16);
  EXPECT_EQ(resolve_vae_dtype(Dtype::BFloat16, at::kHalf, true, cuda), at::kBFloat16);
  EXPECT_EQ(resolve_vae_dtype(Dtype::Float16, at::kHalf, true, cuda), at::kHalf);
  EXPECT_EQ(resolve_vae_dtype(Dtype::Float32, at::kBFloat16, false, cpu), at::kFloat);
  expect_error(ErrorCode::Settings,
               [&] { resolve_vae_dtype(Dtype::Float16, at::kFloat, false, cpu); });
}

TEST(Numerics, Float32IsWholeAndRepeatableUnlessAskedOtherwise) {
  const at::Context& context = at::globalContext();
  for (const bool tf32 : {true, false}) {
    for (const bool deterministic : {false, true}) {
      use_numerics(tf32, deterministic);
      EXPECT_EQ(context.allowTF32CuBLAS(), tf32);
      EXPECT_EQ(context.allowTF32CuDNN(), tf32);
      EXPECT_EQ(context.deterministicCuDNN(), deterministic);
      EXPECT_EQ(context.benchmarkCuDNN(), !deterministic);
    }
  }
}

TEST(Faults, AreToldByWhatTheLibrariesSay) {
  const std::pair<Fault, const char*> cases[] = {
      {Fault::Memory, "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity"},
      {Fault::Memory, "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"},
      {Fault::Memory, "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"},
      {Fault::Memory, "DefaultCPUAllocator: can't allocate memory: you tried to allocate 12 bytes"},
      {Fault::Device, "CUDA error: unspecified launch failure\nCUDA kernel errors might be"},
      {Fault::Device, "CUDA error: an illegal memory access was encountered"},
      {Fault::Device, "CUDA error: uncorrectable ECC error encountered"},
      {Fault::Device, "CUDA error: CUDA-capable device(s) is/are busy or unavailable"},
      {Fault::Device, "CUDA kernel group_norm: an illegal memory access was encountered"},
      {Fault::Other, "CUDA error: invalid argument"},
      {Fault::Other, "shapes differ: unknown error"},
  };
  for (const auto& [fault, message] : cases) EXPECT_EQ(fault_of(message), fault) << message;
}

TEST(Faults, OutOfMemoryTellsTheSizeThatWasAskedFor) {
  EXPECT_EQ(size_asked_for("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total"),
            "2.00 GiB");
  EXPECT_EQ(size_asked_for("you tried to allocate 70368744177664 bytes. Error code 12"),
            "67108864 MiB");
  EXPECT_EQ(size_asked_for("CUBLAS_STATUS_ALLOC_FAILED"), "");
}

template <typename Throw>
Error as_error(Stage stage, Throw&& fault) {
  return error_of([&] {
    try {
      fault();
    } catch (...) {
      rethrow_as_error(stage);
    }
  });
}

TEST(Faults, BecomeOneErrorThatNamesStageSizeAndProperties) {
  const Error memory = as_error(Stage::Unet, [] {
    TORCH_CHECK_WITH(OutOfMemoryError, false,
                     "CUDA out of memory. Tried to allocate 512.00 MiB. GPU 0 has a total");
  });
  EXPECT_EQ(memory.code(), ErrorCode::OutOfMemory);
  for (const char* part : {"unet", "512.00 MiB", "max-resolution", "window-size", "streamed"})
    EXPECT_TRUE(mentions(memory.what(), part)) << memory.what();
  const Error lost = as_error(
      Stage::Decode, [] { TORCH_CHECK(false, "CUDA error: unspecified launch failure\nmore"); });
  EXPECT_EQ(lost.code(), ErrorCode::DeviceUnavailable);
  for (const char* part : {"device failed in decode", "unspecified launch failure", "restart"})
    EXPECT_TRUE(mentions(lost.what(), part)) << lost.what();
  EXPECT_FALSE(mentions(lost.what(), "more"));
  // The engine's own kernels know nothing of LibTorch's exceptions.
  const Error own = as_error(Stage::Unet, [] {
    throw std::runtime_error("CUDA kernel geglu: an illegal memory access was encountered");
  });
  EXPECT_EQ(own.code(), ErrorCode::DeviceUnavailable);
}

TEST(Faults, AreRecognisedInExceptionsOfAnyType) {
  const auto thrown = [](auto exception) { return std::make_exception_ptr(std::move(exception)); };
  EXPECT_TRUE(is_out_of_memory(thrown(std::bad_alloc())));
  EXPECT_TRUE(is_out_of_memory(thrown(std::runtime_error("CUDA kernel geglu: out of memory"))));
  EXPECT_FALSE(is_out_of_memory(thrown(std::runtime_error("shapes differ"))));
  const char* const fault = "CUDA error: unspecified launch failure";
  EXPECT_TRUE(is_device_fault(thrown(std::runtime_error(fault))));
  EXPECT_TRUE(is_device_fault(thrown(Error(ErrorCode::DeviceUnavailable, "gone"))));
  EXPECT_FALSE(is_device_fault(thrown(Error(ErrorCode::NetworkFailed, fault))));
  EXPECT_FALSE(is_device_fault(thrown(std::bad_alloc())));
}

TEST(FiniteChecks, DeferredOnesNameTheFirstThatIsNot) {
  const at::Tensor good = at::zeros({2, 3});
  at::Tensor bad = at::zeros({2, 3}, at::kBFloat16);
  bad[1][1] = std::numeric_limits<float>::infinity();
  FiniteChecks deferred(true);
  deferred.add(good, "window 0");
  deferred.add(bad, "window 1");
  deferred.add(bad, "window 2");
  expect_error(
      ErrorCode::NonFinite, [&] { deferred.settle(); }, "window 1");
  deferred.settle();  // what was settled is forgotten
  deferred.add(bad, "window 3");
  deferred.forget();
  deferred.settle();
}

TEST(FiniteChecks, OthersLookAtOnce) {
  FiniteChecks checks(false);
  checks.add(at::ones({4}), "window 0");
  expect_error(
      ErrorCode::NonFinite,
      [&] { checks.add(at::full({4}, std::numeric_limits<float>::quiet_NaN()), "window 1"); },
      "window 1", "float32");
}

}  // namespace
}  // namespace normalcrafter
