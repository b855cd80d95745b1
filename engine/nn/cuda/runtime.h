// What LibTorch's device-independent interface lacks of the CUDA runtime.
#pragma once

#include <cstddef>
#include <string>

namespace normalcrafter::cuda {

/// Locks the pages of [memory, memory + bytes) for all devices, so that they copy from there
/// without the processor's help. False where the system refuses: copies then work too, but are
/// slower and waited for.
bool page_lock(void* memory, std::size_t bytes) noexcept;
/// Takes back a page_lock() that succeeded, with the pointer that it was given.
void page_unlock(void* memory) noexcept;

/// For people, e.g. "NVIDIA H100"; "" if CUDA does not tell.
std::string device_name(int index);

}  // namespace normalcrafter::cuda
