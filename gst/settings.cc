#include "settings.h"

#include <string>

namespace normalcrafter {
namespace {

enum Property : guint {
  kModel = 1,
  kBaseModel,
  kDevice,
  kDtype,
  kVaeDtype,
  kAllowTf32,
  kDeterministic,
  kOffloadMode,
  kOffloadAfter,
  kWindowSize,
  kStepSize,
  kClipChunkSize,
  kVaeEncodeChunkSize,
  kVaeDecodeChunkSize,
  kMaxResolution,
  kOutputSize,
  kRenormalize,
  kWindowsPerPass,
  kTailMode,
  kThreads,
  kClipResize,
  kDiscontThreshold,
  kFlipX,
  kFlipY,
  kFlipZ,
  kLeaky,
  kMaxSizeBuffers,
  kAlpha,
  kAxes,
  kRestartOnKeyUnit,
};

template <typename Enum>
constexpr int number(Enum value) {
  return static_cast<int>(value);
}

/// For a property, so that it belongs to the plugin's documented interface.
GType register_enum(const char* name, const GEnumValue* values) {
  const GType type = g_enum_register_static(name, values);
  gst_type_mark_as_plugin_api(type, static_cast<GstPluginAPIFlags>(0));
  return type;
}

GType dtype_type() {
  static const GEnumValue values[] = {
      {number(Dtype::Auto), "float16 on CUDA, bfloat16 on a CPU that has it, else float32", "auto"},
      {number(Dtype::Float32), "32 bit", "float32"},
      {number(Dtype::BFloat16), "16 bit with float32's range", "bfloat16"},
      {number(Dtype::Float16), "16 bit (CUDA only)", "float16"},
      {0, nullptr, nullptr}};
  static const GType type = register_enum("GstNormalCrafterDtype", values);
  return type;
}

GType offload_mode_type() {
  static const GEnumValue values[] = {
      {number(OffloadMode::Staged), "Only the active network is on the device", "staged"},
      {number(OffloadMode::Resident), "All networks stay on the device", "resident"},
      {number(OffloadMode::Streamed),
       "As staged, and of the UNet only two blocks at a time (CPU: the same as staged)",
       "streamed"},
      {0, nullptr, nullptr}};
  static const GType type = register_enum("GstNormalCrafterOffloadMode", values);
  return type;
}

GType output_size_type() {
  static const GEnumValue values[] = {
      {number(OutputSize::Original), "The input's size", "original"},
      {number(OutputSize::Processed), "The size that the networks work at", "processed"},
      {0, nullptr, nullptr}};
  static const GType type = register_enum("GstNormalCrafterOutputSize", values);
  return type;
}

GType tail_mode_type() {
  static const GEnumValue values[] = {
      {number(TailMode::Anchored), "One more window that ends at the last frame", "anchored"},
      {number(TailMode::Repeat), "The last frame repeated until the window is full (low latency)",
       "repeat"},
      {0, nullptr, nullptr}};
  static const GType type = register_enum("GstNormalCrafterTailMode", values);
  return type;
}

GType clip_resize_type() {
  static const GEnumValue values[] = {
      {number(ClipResize::Seed), "Antialiased bicubic", "seed"},
      {number(ClipResize::Original), "As the first research release", "original"},
      {0, nullptr, nullptr}};
  static const GType type = register_enum("GstNormalCrafterClipResize", values);
  return type;
}

GType leaky_type() {
  static const GEnumValue values[] = {
      {number(Leaky::No), "Upstream waits", "no"},
      {number(Leaky::Upstream), "Drop the arriving frame", "upstream"},
      {number(Leaky::Downstream), "Drop the oldest waiting frame", "downstream"},
      {0, nullptr, nullptr}};
  static const GType type = register_enum("GstNormalCrafterLeaky", values);
  return type;
}

GType alpha_type() {
  static const GEnumValue values[] = {
      {number(Alpha::Opaque), "Opaque", "opaque"},
      {number(Alpha::Copy), "The input's, where both formats have alpha", "copy"},
      {0, nullptr, nullptr}};
  static const GType type = register_enum("GstNormalCrafterAlpha", values);
  return type;
}

GType axes_type() {
  static const GEnumValue values[] = {
      {number(Axes::Model), "As the model has them", "model"},
      {number(Axes::OpenGl), "x right, y up, z towards the viewer", "opengl"},
      {number(Axes::DirectX), "x right, y down, z towards the viewer", "directx"},
      {number(Axes::OpenCv), "x right, y down, z away from the viewer", "opencv"},
      {0, nullptr, nullptr}};
  static const GType type = register_enum("GstNormalCrafterAxes", values);
  return type;
}

/// Adds properties whose values count from READY→PAUSED on, or at once.
class Installer {
 public:
  explicit Installer(GObjectClass* klass) : klass_(klass) {}

  void text(guint id, const char* name, const char* nick, const char* blurb, const char* preset) {
    add(id, g_param_spec_string(name, nick, blurb, preset, kReady));
  }
  void number(guint id, const char* name, const char* nick, const char* blurb, int low, int high,
              int preset) {
    add(id, g_param_spec_int(name, nick, blurb, low, high, preset, kReady));
  }
  void choice(guint id, const char* name, const char* nick, const char* blurb, GType type,
              int preset, GParamFlags flags = kReady) {
    add(id, g_param_spec_enum(name, nick, blurb, type, preset, flags));
  }
  void flag(guint id, const char* name, const char* nick, const char* blurb, bool preset,
            GParamFlags flags = kPlaying) {
    add(id, g_param_spec_boolean(name, nick, blurb, preset, flags));
  }
  void add(guint id, GParamSpec* spec) { g_object_class_install_property(klass_, id, spec); }

  static constexpr auto kReady = static_cast<GParamFlags>(
      G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_READY);
  static constexpr auto kPlaying = static_cast<GParamFlags>(
      G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_PLAYING);

 private:
  GObjectClass* klass_;
};

void install_model_properties(Installer& install) {
  install.text(kModel, "model", "Model directory",
               "Directory of the model in its published layout (unet/, vae/, image_encoder/, "
               "scheduler/). Unset: the environment variable NORMALCRAFTER_MODEL, else the bundled "
               "demo model",
               nullptr);
  install.text(kBaseModel, "base-model", "Base model directory",
               "Directory from which a component that is missing in 'model' is taken, e.g. that of "
               "stable-video-diffusion-img2vid-xt",
               nullptr);
  install.text(kDevice, "device", "Device",
               "Where the networks run: auto (CUDA if there is a usable one, else the CPU), cpu, "
               "cuda, or cuda:N",
               "auto");
  install.choice(kDtype, "dtype", "Number type",
                 "Type that the networks compute in; the smaller ones need less memory and time",
                 dtype_type(), number(Dtype::Auto));
  install.choice(kVaeDtype, "vae-dtype", "VAE number type",
                 "Type that the VAE computes in; auto: that of 'dtype', but float32 in place of "
                 "float16 where the VAE's configuration asks for it",
                 dtype_type(), number(Dtype::Auto));
  install.flag(kAllowTf32, "allow-tf32", "Allow TF32",
               "Let a CUDA GPU round the factors of float32 products to 10 bits of mantissa: "
               "faster, less exact; for the whole process",
               false, Installer::kReady);
  install.flag(kDeterministic, "deterministic", "Deterministic",
               "Choose a CUDA GPU's kernels so that equal inputs give equal bits; false: cuDNN "
               "tries them and takes the fastest; for the whole process",
               true, Installer::kReady);
  install.choice(kOffloadMode, "offload-mode", "Offload mode",
                 "Which networks stay on the device between their turns; resident needs the least "
                 "time, streamed the least memory (for GPUs of less than 6 GB)",
                 offload_mode_type(), number(OffloadMode::Staged));
  install.flag(kOffloadAfter, "offload-after", "Offload after",
               "Give the networks' memory back when a clip has ended and at PAUSED to READY; the "
               "next clip loads them again",
               true, Installer::kReady);
  install.number(kThreads, "threads", "Threads",
                 "Threads that a network computes with on the CPU; 0: as many as there are "
                 "physical cores",
                 0, 1024, 0);
}

void install_stream_properties(Installer& install) {
  const SessionOptions preset;
  install.number(kWindowSize, "window-size", "Window size",
                 "Frames that the network sees at once; more need more memory", 1, 1024,
                 preset.window_size);
  install.number(kStepSize, "step-size", "Step size",
                 "Frames from one window's start to the next's, at most window-size; the rest "
                 "overlaps and is crossfaded",
                 1, 1024, preset.step_size);
  install.number(kClipChunkSize, "clip-chunk-size", "CLIP chunk size",
                 "Frames embedded together; fewer need less memory. Changes rounding only", 1, 1024,
                 preset.clip_chunk_size);
  install.number(kVaeEncodeChunkSize, "vae-encode-chunk-size", "VAE encode chunk size",
                 "Frames encoded together; fewer need less memory. Changes rounding only", 1, 1024,
                 preset.vae_encode_chunk_size);
  install.number(kVaeDecodeChunkSize, "vae-decode-chunk-size", "VAE decode chunk size",
                 "Frames decoded together; fewer need less memory. Changes the result, since the "
                 "decoder looks across them",
                 1, 1024, preset.vae_decode_chunk_size);
  install.number(kMaxResolution, "max-resolution", "Maximum resolution",
                 "Greatest longer side, in pixels, that the networks work at; larger frames are "
                 "scaled down",
                 1, 16384, preset.max_resolution);
  install.choice(kOutputSize, "output-size", "Output size",
                 "Size of the output frames: the input's, or the one the networks work at",
                 output_size_type(), number(preset.output_size));
  install.number(kWindowsPerPass, "windows-per-pass", "Windows per pass",
                 "Windows that go through each network before the next network's turn; more save "
                 "transfers in staged mode and add latency and memory",
                 1, 1024, preset.windows_per_pass);
  install.choice(kTailMode, "tail-mode", "Tail mode",
                 "How the last window of a clip is filled; repeat has the lower latency",
                 tail_mode_type(), number(preset.tail_mode));
  install.choice(kClipResize, "clip-resize", "CLIP resize",
                 "How frames are scaled for the CLIP encoder", clip_resize_type(),
                 number(preset.clip_resize));
}

void install_live_properties(Installer& install) {
  const char* restarts = "Changing it while frames flow ends the clip there";
  static const std::string flips[] = {
      std::string("Negate the vectors' x component. ") + restarts,
      std::string("Negate the vectors' y component, as OpenGL and DirectX differ in. ") + restarts,
      std::string("Negate the vectors' z component. ") + restarts,
      std::string("Scale vectors to unit length before they are quantised. ") + restarts};
  install.flag(kFlipX, "flip-x", "Flip x", flips[0].c_str(), false);
  install.flag(kFlipY, "flip-y", "Flip y", flips[1].c_str(), false);
  install.flag(kFlipZ, "flip-z", "Flip z", flips[2].c_str(), false);
  install.flag(kRenormalize, "renormalize", "Renormalize", flips[3].c_str(), true);
  const Settings preset;
  static const std::string axes =
      std::string(
          "Which way the components point, relative to the convention that the model's "
          "normalcrafter.json states; without one the vectors stay as they are. ") +
      restarts;
  install.choice(kAxes, "axes", "Axes", axes.c_str(), axes_type(), number(preset.axes),
                 Installer::kPlaying);
  install.choice(kAlpha, "alpha", "Alpha",
                 "What the output's alpha is, where its format has one; counts from the next frame "
                 "on",
                 alpha_type(), number(preset.alpha), Installer::kPlaying);
  install.flag(kRestartOnKeyUnit, "restart-on-key-unit", "Restart on key unit",
               "Start a new clip at a downstream force-key-unit event, as the element scenechange "
               "sends it at a cut",
               preset.restart_on_key_unit);
  install.choice(kLeaky, "leaky", "Leaky",
                 "What to do when max-size-buffers frames wait: let upstream wait, or drop whole "
                 "frames before the network (counted in 'stats')",
                 leaky_type(), number(preset.leaky), Installer::kPlaying);
  install.add(kMaxSizeBuffers,
              g_param_spec_uint("max-size-buffers", "Maximum frames waiting",
                                "Frames that can wait in front of the network, beside those of "
                                "the windows in progress",
                                1, G_MAXUINT, preset.max_size_buffers, Installer::kPlaying));
  install.add(
      kDiscontThreshold,
      g_param_spec_uint64("discont-threshold", "Discontinuity threshold",
                          "A buffer marked DISCONT whose timestamp jumps by more than this, in "
                          "nanoseconds, or goes back starts a new clip; the greatest value: never",
                          0, G_MAXUINT64, preset.discont_threshold, Installer::kPlaying));
}

void assign(std::string& to, const GValue* value) {
  const char* text = g_value_get_string(value);
  to = text != nullptr ? text : "";
}

template <typename Enum>
void assign_enum(Enum& to, const GValue* value) {
  to = static_cast<Enum>(g_value_get_enum(value));
}

void give(GValue* value, const std::string& text) {
  g_value_set_string(value, text.empty() ? nullptr : text.c_str());
}

bool set_model_setting(ModelOptions& model, guint id, const GValue* value) {
  switch (id) {
    case kModel:
      assign(model.directory, value);
      return true;
    case kBaseModel:
      assign(model.base_directory, value);
      return true;
    case kDevice:
      assign(model.device, value);
      if (model.device.empty()) model.device = "auto";
      return true;
    case kDtype:
      assign_enum(model.dtype, value);
      return true;
    case kVaeDtype:
      assign_enum(model.vae_dtype, value);
      return true;
    case kAllowTf32:
      model.allow_tf32 = g_value_get_boolean(value);
      return true;
    case kDeterministic:
      model.deterministic = g_value_get_boolean(value);
      return true;
    default:
      return false;
  }
}

bool set_session_setting(SessionOptions& session, guint id, const GValue* value) {
  switch (id) {
    case kOffloadMode:
      assign_enum(session.offload_mode, value);
      return true;
    case kOffloadAfter:
      session.offload_after = g_value_get_boolean(value);
      return true;
    case kWindowSize:
      session.window_size = g_value_get_int(value);
      return true;
    case kStepSize:
      session.step_size = g_value_get_int(value);
      return true;
    case kClipChunkSize:
      session.clip_chunk_size = g_value_get_int(value);
      return true;
    case kVaeEncodeChunkSize:
      session.vae_encode_chunk_size = g_value_get_int(value);
      return true;
    case kVaeDecodeChunkSize:
      session.vae_decode_chunk_size = g_value_get_int(value);
      return true;
    case kMaxResolution:
      session.max_resolution = g_value_get_int(value);
      return true;
    case kOutputSize:
      assign_enum(session.output_size, value);
      return true;
    case kRenormalize:
      session.renormalize = g_value_get_boolean(value);
      return true;
    case kWindowsPerPass:
      session.windows_per_pass = g_value_get_int(value);
      return true;
    case kTailMode:
      assign_enum(session.tail_mode, value);
      return true;
    case kThreads:
      session.threads = g_value_get_int(value);
      return true;
    case kClipResize:
      assign_enum(session.clip_resize, value);
      return true;
    case kFlipX:
      session.flip_x = g_value_get_boolean(value);
      return true;
    case kFlipY:
      session.flip_y = g_value_get_boolean(value);
      return true;
    case kFlipZ:
      session.flip_z = g_value_get_boolean(value);
      return true;
    default:
      return false;
  }
}

bool get_session_setting(const SessionOptions& session, guint id, GValue* value) {
  switch (id) {
    case kOffloadMode:
      g_value_set_enum(value, number(session.offload_mode));
      return true;
    case kOffloadAfter:
      g_value_set_boolean(value, session.offload_after);
      return true;
    case kWindowSize:
      g_value_set_int(value, session.window_size);
      return true;
    case kStepSize:
      g_value_set_int(value, session.step_size);
      return true;
    case kClipChunkSize:
      g_value_set_int(value, session.clip_chunk_size);
      return true;
    case kVaeEncodeChunkSize:
      g_value_set_int(value, session.vae_encode_chunk_size);
      return true;
    case kVaeDecodeChunkSize:
      g_value_set_int(value, session.vae_decode_chunk_size);
      return true;
    case kMaxResolution:
      g_value_set_int(value, session.max_resolution);
      return true;
    case kOutputSize:
      g_value_set_enum(value, number(session.output_size));
      return true;
    case kRenormalize:
      g_value_set_boolean(value, session.renormalize);
      return true;
    case kWindowsPerPass:
      g_value_set_int(value, session.windows_per_pass);
      return true;
    case kTailMode:
      g_value_set_enum(value, number(session.tail_mode));
      return true;
    case kThreads:
      g_value_set_int(value, session.threads);
      return true;
    case kClipResize:
      g_value_set_enum(value, number(session.clip_resize));
      return true;
    case kFlipX:
      g_value_set_boolean(value, session.flip_x);
      return true;
    case kFlipY:
      g_value_set_boolean(value, session.flip_y);
      return true;
    case kFlipZ:
      g_value_set_boolean(value, session.flip_z);
      return true;
    default:
      return false;
  }
}

}  // namespace

SessionOptions Settings::session_for(const std::string& model_axes) const {
  SessionOptions options = session;
  const Flips flips = flips_between(model_axes, axes).value_or(Flips{});
  options.flip_x = session.flip_x != flips.x;
  options.flip_y = session.flip_y != flips.y;
  options.flip_z = session.flip_z != flips.z;
  return options;
}

void install_properties(GObjectClass* klass) {
  Installer install(klass);
  install_model_properties(install);
  install_stream_properties(install);
  install_live_properties(install);
}

bool set_setting(Settings& settings, guint id, const GValue* value) {
  switch (id) {
    case kLeaky:
      assign_enum(settings.leaky, value);
      return true;
    case kMaxSizeBuffers:
      settings.max_size_buffers = g_value_get_uint(value);
      return true;
    case kDiscontThreshold:
      settings.discont_threshold = g_value_get_uint64(value);
      return true;
    case kAlpha:
      assign_enum(settings.alpha, value);
      return true;
    case kAxes:
      assign_enum(settings.axes, value);
      return true;
    case kRestartOnKeyUnit:
      settings.restart_on_key_unit = g_value_get_boolean(value);
      return true;
    default:
      return set_model_setting(settings.model, id, value) ||
             set_session_setting(settings.session, id, value);
  }
}

bool get_setting(const Settings& settings, guint id, GValue* value) {
  switch (id) {
    case kModel:
      give(value, settings.model.directory);
      return true;
    case kBaseModel:
      give(value, settings.model.base_directory);
      return true;
    case kDevice:
      give(value, settings.model.device);
      return true;
    case kDtype:
      g_value_set_enum(value, number(settings.model.dtype));
      return true;
    case kVaeDtype:
      g_value_set_enum(value, number(settings.model.vae_dtype));
      return true;
    case kAllowTf32:
      g_value_set_boolean(value, settings.model.allow_tf32);
      return true;
    case kDeterministic:
      g_value_set_boolean(value, settings.model.deterministic);
      return true;
    case kLeaky:
      g_value_set_enum(value, number(settings.leaky));
      return true;
    case kMaxSizeBuffers:
      g_value_set_uint(value, settings.max_size_buffers);
      return true;
    case kDiscontThreshold:
      g_value_set_uint64(value, settings.discont_threshold);
      return true;
    case kAlpha:
      g_value_set_enum(value, number(settings.alpha));
      return true;
    case kAxes:
      g_value_set_enum(value, number(settings.axes));
      return true;
    case kRestartOnKeyUnit:
      g_value_set_boolean(value, settings.restart_on_key_unit);
      return true;
    default:
      return get_session_setting(settings.session, id, value);
  }
}

const char* dtype_name(Dtype dtype) {
  switch (dtype) {
    case Dtype::Float32:
      return "float32";
    case Dtype::BFloat16:
      return "bfloat16";
    case Dtype::Float16:
      return "float16";
    case Dtype::Auto:
      break;
  }
  return "auto";
}

}  // namespace normalcrafter
