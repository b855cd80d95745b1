#include "model/loaded_model.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <map>
#include <mutex>
#include <tuple>

#include "model/device.h"
#include "model/directory.h"
#include "model/in_quotes.h"
#include "networks/euler_step.h"
#include "nn/cpu_features.h"
#include "nn/tensor_pool.h"
#include "normalcrafter/error.h"
#include "stream/faults.h"

namespace normalcrafter {
namespace {

// Checks names, shapes and dtypes against the headers and hands out tensors without data, so that
// building a network checks its files in milliseconds.
class HeaderOnlyWeights final : public WeightSource {
 public:
  explicit HeaderOnlyWeights(std::shared_ptr<const ComponentTensors> component)
      : source_(std::move(component), at::kFloat, at::kMeta, Checkpoint(never_)) {}
  bool has(const std::string& name) const override { return source_.has(name); }
  at::Tensor get(const std::string& name, at::IntArrayRef shape, at::ScalarType dtype) override {
    source_.skip(name, shape);
    return at::empty(shape, at::TensorOptions(at::kMeta).dtype(dtype));
  }
  void skip(const std::string& name, at::IntArrayRef shape) override { source_.skip(name, shape); }
  at::ScalarType dtype() const override { return at::kFloat; }
  at::Device device() const override { return at::kMeta; }
  std::vector<std::string> unused() const { return source_.unused(); }

 private:
  const std::atomic<bool> never_ = false;
  SafetensorsWeights source_;
};

void warn_unused(const ComponentTensors& component, const std::vector<std::string>& names,
                 const LogFunction& log) {
  if (names.empty() || !log) return;
  constexpr std::size_t kNamed = 10;
  std::string list;
  for (std::size_t i = 0; i < std::min(names.size(), kNamed); ++i) {
    list += (i == 0 ? "" : ", ") + in_quotes(names[i]);
  }
  if (names.size() > kNamed) list += ", ...";
  log(LogLevel::Warning, component.name() + ": " + std::to_string(names.size()) +
                             " superfluous tensor(s) ignored: " + list);
}

/// What each opener is told, the first one and those who share its model.
void log_opening(const ModelInfo& info, at::ScalarType dtype, bool shared, const LogFunction& log) {
  if (!log) return;
  log(LogLevel::Info, "model " + info.directory + " on " + info.device + " in " +
                          dtype_name(dtype) + (shared ? ", shared" : ""));
  if (dtype == at::kBFloat16 && info.device == "cpu" && !cpu_has_bfloat16())
    log(LogLevel::Warning,
        "this CPU has no bfloat16 instructions: float32 is faster than the bfloat16 asked for");
}

std::string canonical(const std::string& path) {
  std::error_code error;
  const auto result = std::filesystem::canonical(path, error);
  return error ? path : result.string();
}

}  // namespace

LoadedModel::LoadedModel(const ModelOptions& options, at::Device device, at::ScalarType dtype,
                         const LogFunction& log)
    : LoadedModel(options, device, dtype, log, make_transfer_device(device)) {}

LoadedModel::LoadedModel(const ModelOptions& options, at::Device device, at::ScalarType dtype,
                         const LogFunction& log, std::unique_ptr<TransferDevice> transfers)
    : device_(device),
      dtype_(dtype),
      vae_dtype_(dtype),
      allow_tf32_(options.allow_tf32),
      deterministic_(options.deterministic) {
  const ModelFiles files = find_model_files(options.directory, options.base_directory);
  config_ = read_model_config(files);
  clip_tensors_ = std::make_shared<ComponentTensors>(files.image_encoder.weights);
  vae_tensors_ = std::make_shared<ComponentTensors>(files.vae.weights);
  unet_tensors_ = std::make_shared<ComponentTensors>(files.unet.weights);
  vae_dtype_ = resolve_vae_dtype(options.vae_dtype, dtype, config_.vae.force_upcast, device);
  check_tensors(log);
  if (transfers) residency_ = std::make_unique<NetworkResidency>(std::move(transfers));
  info_ = {options.directory, device.str(), device_name(device), public_dtype(dtype), files.axes};
}

LoadedModel::~LoadedModel() {
  drop_all();
}

void LoadedModel::check_tensors(const LogFunction& log) const {
  HeaderOnlyWeights clip(clip_tensors_);
  HeaderOnlyWeights vae(vae_tensors_);
  HeaderOnlyWeights unet(unet_tensors_);
  ClipVisionEncoder(Weights(clip), config_.clip);
  VaeEncoder(Weights(vae), config_.vae);
  VaeDecoder(Weights(vae), config_.vae);
  UNetSpatioTemporal(Weights(unet), config_.unet, config_.euler.timestep);
  warn_unused(*clip_tensors_, clip.unused(), log);
  warn_unused(*vae_tensors_, vae.unused(), log);
  warn_unused(*unet_tensors_, unet.unused(), log);
}

bool LoadedModel::resident(Stage stage) const {
  switch (stage) {
    case Stage::Clip:
      return clip_ != nullptr;
    case Stage::Encode:
      return encoder_ != nullptr;
    case Stage::Unet:
      return unet_ != nullptr;
    case Stage::Decode:
      return decoder_ != nullptr;
    case Stage::Load:
      break;
  }
  return true;
}

std::vector<Stage> LoadedModel::resident_networks() const {
  if (residency_) return residency_->on_device();
  std::vector<Stage> result;
  for (const Stage stage : kNetworkStages) {
    if (resident(stage)) result.push_back(stage);
  }
  return result;
}

std::uint64_t LoadedModel::peak_bytes() const {
  return residency_ ? residency_->device().memory().peak : normalcrafter::peak_bytes(device_);
}

DeviceStats LoadedModel::device_stats() const {
  DeviceStats stats;
  if (!residency_) return stats;
  stats.memory = residency_->device().memory();
  const NetworkResidency::Uploads uploads = residency_->uploads();
  std::copy(uploads.bytes.begin(), uploads.bytes.end(), stats.upload_bytes);
  std::copy(uploads.seconds.begin(), uploads.seconds.end(), stats.upload_seconds);
  return stats;
}

void LoadedModel::build(Stage stage, const Checkpoint& checkpoint, const LoadProgress& progress,
                        const BlockBuilt& built) {
  if (resident(stage)) return;
  const c10::InferenceMode inference;
  // Weights in the pool: staged networks take turns in the same memory.
  const TensorPool::Scope pooled;
  const auto weights = [&](const std::shared_ptr<const ComponentTensors>& component,
                           at::ScalarType dtype) {
    return SafetensorsWeights(component, dtype, device_, checkpoint, progress);
  };
  const auto whole = [&](auto& network) {
    ParameterList parameters;
    network.list_parameters(parameters);
    if (built) built(parameters);
  };
  switch (stage) {
    case Stage::Clip: {
      auto source = weights(clip_tensors_, dtype_);
      clip_ = std::make_unique<ClipVisionEncoder>(Weights(source), config_.clip);
      whole(*clip_);
      break;
    }
    case Stage::Encode: {
      auto source = weights(vae_tensors_, vae_dtype_);
      encoder_ = std::make_unique<VaeEncoder>(Weights(source), config_.vae);
      whole(*encoder_);
      break;
    }
    case Stage::Unet: {
      auto source = weights(unet_tensors_, dtype_);
      unet_ = std::make_unique<UNetSpatioTemporal>(Weights(source), config_.unet,
                                                   config_.euler.timestep, built);
      break;
    }
    case Stage::Decode: {
      auto source = weights(vae_tensors_, vae_dtype_);
      decoder_ = std::make_unique<VaeDecoder>(Weights(source), config_.vae);
      whole(*decoder_);
      break;
    }
    case Stage::Load:
      break;
  }
}

std::vector<ParameterBlock> LoadedModel::blocks(Stage stage) {
  if (stage == Stage::Unet) return unet_->parameter_blocks();
  ParameterBlock block{stage_name(stage), {}};
  if (stage == Stage::Clip) clip_->list_parameters(block.parameters);
  if (stage == Stage::Encode) encoder_->list_parameters(block.parameters);
  if (stage == Stage::Decode) decoder_->list_parameters(block.parameters);
  return {block};
}

// Builds the network on the device, where its parameters are prepared as it wants them, and takes
// each block off it at once: the device never holds more than one.
void LoadedModel::make_home(Stage stage, const Checkpoint& checkpoint,
                            const LoadProgress& progress) {
  if (residency_->has(stage)) return;
  const auto& component = stage == Stage::Clip   ? clip_tensors_
                          : stage == Stage::Unet ? unet_tensors_
                                                 : vae_tensors_;
  // Files hold at least 16 bits an element, and none is prepared in more than 32.
  HostSlab home(2 * component->bytes() + component->tensors().size() * HostSlab::kAlignment);
  try {
    build(stage, checkpoint, progress, [&](const ParameterList& parameters) {
      for (at::Tensor* const parameter : parameters.places()) *parameter = home.put(*parameter);
    });
  } catch (...) {
    drop(stage);
    throw;
  }
  residency_->add(stage, std::move(home), blocks(stage));
}

void LoadedModel::drop(Stage stage) noexcept {
  switch (stage) {
    case Stage::Clip:
      clip_.reset();
      break;
    case Stage::Encode:
      encoder_.reset();
      break;
    case Stage::Unet:
      unet_.reset();
      break;
    case Stage::Decode:
      decoder_.reset();
      break;
    case Stage::Load:
      break;
  }
}

void LoadedModel::drop_all_but(Stage stage) noexcept {
  for (const Stage other : kNetworkStages) {
    if (other != stage) drop(other);
  }
}

void LoadedModel::drop_all() noexcept {
  if (residency_) return residency_->drop_all();
  for (const Stage stage : kNetworkStages) drop(stage);
  TensorPool::trim();
  give_back_cached_memory(device_);
}

void LoadedModel::load(const Checkpoint& checkpoint,
                       const std::function<void(std::uint64_t, std::uint64_t)>& progress) {
  lock_.lock(checkpoint);
  const std::shared_ptr<void> unlock(nullptr, [this](void*) { lock_.unlock(); });
  if (!residency_ && staged()) {
    // The networks come and go with their stages; only the first one's time belongs to loading.
    build(Stage::Clip, checkpoint, progress, {});
    return;
  }
  const std::uint64_t total =
      clip_tensors_->bytes() + vae_tensors_->bytes() + unet_tensors_->bytes();
  std::uint64_t before = 0;
  const auto part = [&](Stage stage, std::uint64_t share) {
    const LoadProgress report = [&](std::uint64_t done, std::uint64_t) {
      if (progress) progress(std::min(total, before + std::min(done, share)), total);
    };
    if (residency_)
      make_home(stage, checkpoint, report);
    else
      build(stage, checkpoint, report, {});
    before += share;
    if (progress) progress(before, total);
  };
  part(Stage::Clip, clip_tensors_->bytes());
  part(Stage::Encode, vae_tensors_->bytes() / 2);
  part(Stage::Unet, unet_tensors_->bytes());
  part(Stage::Decode, vae_tensors_->bytes() - vae_tensors_->bytes() / 2);
  // What preparing them took.
  if (residency_) residency_->device().give_back();
}

std::shared_ptr<void> LoadedModel::join(OffloadMode mode) {
  std::atomic<int>& users = users_[static_cast<std::size_t>(mode)];
  ++users;
  return {&users, [](std::atomic<int>* count) { --*count; }};
}

Residency LoadedModel::mode() const noexcept {
  const auto any = [this](OffloadMode mode) { return users_[static_cast<std::size_t>(mode)] > 0; };
  if (any(OffloadMode::Resident)) return Residency::Resident;
  if (any(OffloadMode::Streamed) && !any(OffloadMode::Staged)) return Residency::Streamed;
  return Residency::Staged;
}

std::shared_ptr<void> LoadedModel::enter(Stage stage, const Checkpoint& checkpoint) {
  lock_.lock(checkpoint);
  std::shared_ptr<void> scope(nullptr, [this, stage, before = std::uncaught_exceptions()](void*) {
    leave(stage, std::uncaught_exceptions() > before);
  });
  if (residency_) {
    move_to_device(stage, checkpoint);
    return scope;
  }
  if (staged()) drop_all_but(stage);
  build(stage, checkpoint, {}, {});
  return scope;
}

void LoadedModel::move_to_device(Stage stage, const Checkpoint& checkpoint) {
  if (device_.is_cuda()) use_numerics(allow_tf32_, deterministic_);
  for (const Stage network : kNetworkStages) make_home(network, checkpoint, {});
  const c10::InferenceMode inference;
  const ResidencyPlan plan = plan_residency(request());
  plan_ = to_string(plan);
  residency_->enter(plan, stage);
  residency_->device().take_peak();  // from here on: the network before has left by now
  was_short_ = false;
}

ResidencyRequest LoadedModel::request() const {
  ResidencyRequest request;
  request.mode = mode();
  request.budget = residency_->device().budget();
  for (std::size_t i = 0; i < kNetworkStages.size(); ++i) {
    request.networks[i] = {residency_->bytes(kNetworkStages[i]), working_sets_[i].value_or(0),
                           working_sets_[i].has_value()};
  }
  if (request.mode == Residency::Streamed) request.unet_blocks = residency_->blocks(Stage::Unet);
  return request;
}

void LoadedModel::leave(Stage stage, bool failed) noexcept {
  if (residency_) {
    if (!failed && !was_short_) measure(stage);
  } else if (staged())
    drop(stage);
  lock_.unlock();
  // After unlocking: a request that comes while this thread leaves must not be lost.
  if (offload_wanted_.exchange(false)) offload();
}

// The next plans know what the stage needs beside the parameters.
void LoadedModel::measure(Stage stage) noexcept {
  try {
    const std::uint64_t peak = residency_->device().take_peak();
    const std::uint64_t parameters = residency_->held();
    for (std::size_t i = 0; i < kNetworkStages.size(); ++i) {
      if (kNetworkStages[i] != stage || peak < parameters) continue;
      working_sets_[i] = std::max(working_sets_[i].value_or(0), peak - parameters);
    }
  } catch (const std::exception&) {
    // A device that has failed tells so where it is used.
  }
}

void LoadedModel::offload() noexcept {
  if (!staged()) return;
  // Whoever holds the lock may compute for minutes: it drops the networks when it leaves.
  if (!lock_.try_lock()) {
    offload_wanted_ = true;
    // It may have left meanwhile without seeing the request.
    if (!lock_.try_lock()) return;
  }
  offload_wanted_ = false;
  drop_all();
  lock_.unlock();
}

// A plan made from what earlier rounds needed may have prefetched too much for this one.
template <typename Compute>
at::Tensor LoadedModel::with_room(Compute&& compute) {
  const TensorPool::Scope pooled;
  if (!residency_) return compute();
  try {
    return compute();
  } catch (const std::exception&) {
    if (!is_out_of_memory(std::current_exception())) throw;
    was_short_ = true;
    if (!residency_->drop_prefetched()) throw;
  }
  return compute();
}

at::Tensor LoadedModel::embed(const at::Tensor& frames, ClipResize resize,
                              const Checkpoint& checkpoint) {
  return with_room([&] {
    const at::Tensor pixels = clip_preprocess(frames.to(device_), config_.clip, resize);
    return (*clip_)(pixels, checkpoint).unsqueeze(1);
  });
}

at::Tensor LoadedModel::encode(const at::Tensor& frames, const Checkpoint& checkpoint) {
  return with_room([&] { return (*encoder_)(frames.to(device_) * 2 - 1, checkpoint).to(dtype_); });
}

at::Tensor LoadedModel::predict(const at::Tensor& normals, const at::Tensor& latents,
                                const at::Tensor& embeddings, const Checkpoint& checkpoint) {
  const double sigma = config_.euler.sigma;
  BlockWalk* const walk = residency_ ? residency_->walk() : nullptr;
  return with_room([&] {
    const at::Tensor sample = at::cat({euler_scale_input(normals, sigma), latents}, 1);
    return euler_step((*unet_)(sample, embeddings, checkpoint, walk), normals, sigma);
  });
}

at::Tensor LoadedModel::decode(const at::Tensor& latents, const Checkpoint& checkpoint) {
  return with_room(
      [&] { return (*decoder_)(latents.to(vae_dtype_) / config_.vae.scaling_factor, checkpoint); });
}

std::shared_ptr<LoadedModel> open_shared_model(const ModelOptions& options,
                                               const LogFunction& log) {
  using Key = std::tuple<std::string, std::string, std::string, at::ScalarType, Dtype, bool, bool>;
  static std::mutex mutex;
  static std::map<Key, std::weak_ptr<LoadedModel>> models;

  const at::Device device = resolve_device(options.device, log);
  const at::ScalarType dtype = resolve_dtype(options.dtype, device);
  const Key key{canonical(options.directory),
                options.base_directory.empty() ? "" : canonical(options.base_directory),
                device.str(),
                dtype,
                options.vae_dtype,
                options.allow_tf32,
                options.deterministic};
  const std::lock_guard guard(mutex);
  std::erase_if(models, [](const auto& entry) { return entry.second.expired(); });
  std::shared_ptr<LoadedModel> model;
  if (const auto living = models.find(key); living != models.end()) model = living->second.lock();
  if (model && !model->is_current()) model.reset();
  const bool shared = model != nullptr;
  if (!shared) model = std::make_shared<LoadedModel>(options, device, dtype, log);
  log_opening(model->info(), dtype, shared, log);
  models[key] = model;
  return model;
}

}  // namespace normalcrafter
