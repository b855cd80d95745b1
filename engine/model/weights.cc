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

at::ScalarType stored_type(const ComponentTensors::Tensor& tensor, const std::string& name) {
  const auto type = scalar_type(tensor.entry->dtype);
  if (type == at::ScalarType::Undefined) {
    throw Error(ErrorCode::InvalidModel, tensor.file->path() + ": tensor " + in_quotes(name) +
                                             " has dtype " + tensor.entry->dtype +
                                             "; F32, F16, BF16 or F64 is expected");
  }
  return type;
}

/// A tensor's panels, one at a time by any thread of a parallel region.
class PanelReader {
 public:
  PanelReader(const ComponentTensors::Tensor& tensor, at::ScalarType stored, at::ScalarType dtype,
              const Panels& panels, std::int64_t depth)
      : tensor_(tensor), stored_(stored), dtype_(dtype), panels_(panels), depth_(depth) {}

  /// Bytes that each thread needs beside the result.
  std::int64_t scratch() const { return elements() * (size_of(stored_) + size_of(dtype_)); }

  void read(std::int64_t panel, std::byte* scratch, at::Tensor& packed) const {
    const std::int64_t bytes = elements() * size_of(stored_);
    tensor_.file->read(*tensor_.entry, static_cast<std::uint64_t>(panel * bytes),
                       {scratch, static_cast<std::size_t>(bytes)});
    const at::Tensor stored = at::from_blob(scratch, {elements()}, stored_);
    const at::Tensor rows =
        stored_ == dtype_ ? stored : at::from_blob(scratch + bytes, {elements()}, dtype_);
    if (stored_ != dtype_) rows.copy_(stored);
    pack_panel(rows.const_data_ptr(), depth_, c10::elementSize(dtype_), panels_,
               packed[panel].data_ptr());
  }

 private:
  std::int64_t elements() const { return panels_.panel * depth_; }
  static std::int64_t size_of(at::ScalarType type) {
    return static_cast<std::int64_t>(c10::elementSize(type));
  }

  const ComponentTensors::Tensor& tensor_;
  at::ScalarType stored_;
  at::ScalarType dtype_;
  Panels panels_;
  std::int64_t depth_;
};

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

bool ComponentTensors::is_current() const noexcept {
  return std::all_of(files_.begin(), files_.end(),
                     [](const auto& file) { return file->is_current(); });
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
  stored_type(found->second, name);  // throws at what is no weight
  return found->second;
}

at::Tensor SafetensorsWeights::get(const std::string& name, at::IntArrayRef shape,
                                   at::ScalarType dtype) {
  const auto& tensor = use(name, shape);
  const auto source = stored_type(tensor, name);
  at::Tensor result = allocate(shape, dtype, name);
  read_converted(tensor, source, result, first_use(name));
  tensor.file->prefetch_after(*tensor.entry);
  return result;
}

at::Tensor SafetensorsWeights::get_in_panels(const std::string& name, at::IntArrayRef shape,
                                             at::ScalarType dtype, const Panels& panels) {
  const auto& tensor = use(name, shape);
  const std::int64_t depth = c10::multiply_integers(shape.slice(1));
  const PanelReader reader(tensor, stored_type(tensor, name), dtype, panels, depth);
  at::Tensor result = allocate(panels.shape(shape.front(), depth), dtype, name);
  const std::int64_t scratch = reader.scratch();
  if (!scratch_.defined() || scratch_.numel() < scratch * at::get_num_threads())
    scratch_ = allocate({scratch * at::get_num_threads()}, at::kByte, "panels");
  auto* const memory = static_cast<std::byte*>(scratch_.data_ptr());
  const bool counts = first_use(name);
  const std::int64_t count = result.size(0);
  const auto bytes = static_cast<std::int64_t>(tensor.entry->bytes) / count;
  const std::int64_t piece =
      std::max(static_cast<std::int64_t>(kPieceBytes) / bytes, std::int64_t{1});
  for (std::int64_t first = 0; first < count; first += piece) {
    checkpoint_.check();
    const std::int64_t end = std::min(first + piece, count);
    at::parallel_for(first, end, 1, [&](std::int64_t from, std::int64_t to) {
      const c10::InferenceMode inference;  // the mode is each thread's own
      std::byte* const mine = memory + at::get_thread_num() * scratch;
      for (std::int64_t panel = from; panel < to; ++panel) reader.read(panel, mine, result);
    });
    if (counts) advance(static_cast<std::uint64_t>((end - first) * bytes));
  }
  tensor.file->prefetch_after(*tensor.entry);
  return result;
}

// Read again later (a tensor may be asked for twice), it counts once.
bool SafetensorsWeights::first_use(const std::string& name) {
  return used_.insert(name).second;
}

void SafetensorsWeights::skip(const std::string& name, at::IntArrayRef shape) {
  const auto& tensor = use(name, shape);
  if (first_use(name)) advance(tensor.entry->bytes);
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
