#include "model/weights.h"

#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <span>

#include "model/in_quotes.h"
#include "normalcrafter/error.h"

namespace normalcrafter {
namespace {

/// How much is read between two looks at the checkpoint, and the size of the conversion buffer.
constexpr std::uint64_t kPieceBytes = 8 << 20;

/// Parts of a piece that the threads share: copying out of the system's cache keeps one busy.
constexpr std::uint64_t kPartBytes = 1 << 20;

template <typename Function>
void in_parts(std::uint64_t bytes, Function&& f) {
  const auto parts = static_cast<std::int64_t>((bytes + kPartBytes - 1) / kPartBytes);
  at::parallel_for(0, parts, 1, [&](std::int64_t begin, std::int64_t end) {
    const c10::InferenceMode inference;  // the mode is each thread's own
    for (std::int64_t i = begin; i < end; ++i) {
      const std::uint64_t from = static_cast<std::uint64_t>(i) * kPartBytes;
      f(from, std::min(kPartBytes, bytes - from));
    }
  });
}

at::ScalarType scalar_type(const std::string& dtype) {
  if (dtype == "F32") return at::kFloat;
  if (dtype == "F16") return at::kHalf;
  if (dtype == "BF16") return at::kBFloat16;
  if (dtype == "F64") return at::kDouble;
  return at::ScalarType::Undefined;
}

std::string text(at::IntArrayRef shape) {
  std::string result = "[";
  for (const auto side : shape) {
    result += (result.size() > 1 ? ", " : "") + std::to_string(side);
  }
  return result + "]";
}

/// at::empty with the engine's own error when there is no memory for it.
at::Tensor allocate(at::IntArrayRef shape, at::ScalarType dtype, const std::string& name) {
  try {
    return at::empty(shape, at::TensorOptions().dtype(dtype).device(at::kCPU));
  } catch (const c10::Error&) {
    throw Error(ErrorCode::OutOfMemory, "no memory left to load tensor " + in_quotes(name) +
                                            " of " + text(shape) + " elements");
  }
}

}  // namespace

ComponentTensors::ComponentTensors(const WeightFiles& weights) : name_(weights.name) {
  for (const auto& path : weights.files) {
    const auto& file = *files_.emplace_back(std::make_unique<const SafetensorsFile>(path));
    for (const auto& [name, entry] : file.tensors()) {
      const auto [place, is_new] = tensors_.try_emplace(name, Tensor{&file, &entry});
      if (!is_new) {
        throw Error(ErrorCode::InvalidModel, "tensor " + in_quotes(name) + " is both in " +
                                                 place->second.file->path() + " and in " + path);
      }
      bytes_ += entry.bytes;
    }
  }
  for (const auto& [name, path] : weights.shard_of) {
    const auto found = tensors_.find(name);
    if (found == tensors_.end() || found->second.file->path() != path) {
      throw Error(ErrorCode::InvalidModel, weights.name + ": places tensor " + in_quotes(name) +
                                               " in " + path + ", which does not hold it");
    }
  }
}

SafetensorsWeights::SafetensorsWeights(std::shared_ptr<const ComponentTensors> component,
                                       at::ScalarType dtype, at::Device device,
                                       const Checkpoint& checkpoint, LoadProgress progress)
    : component_(std::move(component)),
      dtype_(dtype),
      device_(device),
      checkpoint_(checkpoint),
      progress_(std::move(progress)) {}

bool SafetensorsWeights::has(const std::string& name) const {
  return component_->tensors().contains(name);
}

const ComponentTensors::Tensor& SafetensorsWeights::use(const std::string& name,
                                                        at::IntArrayRef shape) {
  checkpoint_.check();
  const auto found = component_->tensors().find(name);
  if (found == component_->tensors().end()) {
    throw Error(ErrorCode::InvalidModel,
                component_->name() + ": tensor " + in_quotes(name) + " is missing");
  }
  const auto& [file, entry] = found->second;
  if (at::IntArrayRef(entry->shape) != shape) {
    throw Error(ErrorCode::InvalidModel, file->path() + ": tensor " + in_quotes(name) +
                                             " has shape " + text(entry->shape) +
                                             ", the configuration needs " + text(shape));
  }
  return found->second;
}

at::Tensor SafetensorsWeights::get(const std::string& name, at::IntArrayRef shape,
                                   at::ScalarType dtype) {
  const auto& tensor = use(name, shape);
  const auto source = scalar_type(tensor.entry->dtype);
  if (source == at::ScalarType::Undefined) {
    throw Error(ErrorCode::InvalidModel, tensor.file->path() + ": tensor " + in_quotes(name) +
                                             " has dtype " + tensor.entry->dtype +
                                             "; F32, F16, BF16 or F64 is expected");
  }
  at::Tensor result = allocate(shape, dtype, name);
  // Read again later (a tensor may be asked for twice), it counts once.
  const bool counts = used_.insert(name).second;
  read_converted(tensor, source, result, counts);
  tensor.file->prefetch_after(*tensor.entry);
  return result;
}

void SafetensorsWeights::skip(const std::string& name, at::IntArrayRef shape) {
  const auto& tensor = use(name, shape);
  if (used_.insert(name).second) advance(tensor.entry->bytes);
}

void SafetensorsWeights::read_converted(const ComponentTensors::Tensor& tensor,
                                        at::ScalarType source, at::Tensor& result, bool counts) {
  const std::uint64_t total = tensor.entry->bytes;
  const auto element = static_cast<std::uint64_t>(c10::elementSize(source));
  const bool direct = source == result.scalar_type();
  const at::Tensor flat = result.view({-1});
  at::Tensor piece;
  if (!direct) {
    const auto elements = static_cast<std::int64_t>(std::min(total, kPieceBytes) / element);
    piece = allocate({elements}, source, "conversion buffer");
  }
  for (std::uint64_t done = 0; done < total;) {
    checkpoint_.check();
    const std::uint64_t bytes = std::min(total - done, kPieceBytes);
    auto* memory = static_cast<std::byte*>(direct ? result.data_ptr() : piece.data_ptr());
    if (direct) memory += done;
    in_parts(bytes, [&](std::uint64_t from, std::uint64_t count) {
      tensor.file->read(*tensor.entry, done + from, {memory + from, count});
      if (direct) return;
      const auto first = static_cast<std::int64_t>(from / element);
      const auto elements = static_cast<std::int64_t>(count / element);
      flat.narrow(0, static_cast<std::int64_t>(done / element) + first, elements)
          .copy_(piece.narrow(0, first, elements));
    });
    done += bytes;
    if (counts) advance(bytes);
  }
}

void SafetensorsWeights::advance(std::uint64_t bytes) {
  done_ += bytes;
  if (progress_) progress_(done_, component_->bytes());
}

std::vector<std::string> SafetensorsWeights::unused() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : component_->tensors()) {
    if (!used_.contains(name)) names.push_back(name);
  }
  return names;
}

}  // namespace normalcrafter
