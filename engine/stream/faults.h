// What went wrong in a stage, as LibTorch's messages tell it and as users should read it.
#pragma once

#include <exception>
#include <optional>
#include <string>

#include "normalcrafter/session.h"

namespace normalcrafter {

enum class Fault {
  Memory,  ///< host or device memory ran out
  Device,  ///< the device has failed or is gone: nothing on it works any more in this process
  Other,
};

/// What it says, without LibTorch's list of calls.
std::string message_of(const std::exception& exception);
/// Of a message of LibTorch or of the libraries below it: not all of them throw types of their own.
Fault fault_of(const std::string& message);
/// Whether memory ran out.
bool is_out_of_memory(const std::exception_ptr& exception);
/// Whether the device has failed.
bool is_device_fault(const std::exception_ptr& exception);

/// The size that could not be had, as in "2.00 GiB"; "" if the message does not tell it.
std::string size_asked_for(const std::string& message);

/// Throws the exception that is being handled again, as Error: what is one already as it is.
/// `stage`: what ran; none while a frame was taken.
[[noreturn]] void rethrow_as_error(const std::optional<Stage>& stage);

}  // namespace normalcrafter
