// Everything a user can choose about a model and a stream. Defaults are the released model's.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace normalcrafter {

enum class Dtype { Auto, Float32, BFloat16, Float16 };

/// Which networks stay on the device between their turns.
enum class OffloadMode {
  Staged,    ///< only the active one; the others' prepared weights are given back
  Resident,  ///< all of them
  Streamed,  ///< as Staged, and of the UNet two blocks at a time; on the CPU the same as Staged
};

enum class OutputSize {
  Original,   ///< the input's size
  Processed,  ///< processed_size(input, max_resolution)
};

/// How a clip that does not end on a window's end is completed.
enum class TailMode {
  Anchored,  ///< one more window that ends at the last frame (the published behaviour)
  Repeat,    ///< the last frame is repeated until the regular window is full (lower latency)
};

/// How a frame is brought to the CLIP encoder's input size.
enum class ClipResize {
  Seed,      ///< antialiased bicubic on [0,1], clamped
  Original,  ///< the research release's: Gaussian blur, bicubic with aligned corners, on [-1,1]
};

/// Sample type of a delivered frame.
enum class SampleFormat {
  U8,   ///< 0..255, round(255 * (n*0.5+0.5))
  U16,  ///< 0..65535, native endian, likewise
  F32,  ///< unit vectors' components in [-1,1]
};

enum class LogLevel { Debug, Info, Warning };
using LogFunction = std::function<void(LogLevel, const std::string&)>;

struct ModelOptions {
  std::string directory;        ///< published layout: unet/, vae/, image_encoder/, scheduler/, ...
  std::string base_directory;   ///< where a component missing from `directory` is taken from, or ""
  std::string device = "auto";  ///< "auto", "cpu", "cuda", "cuda:N"
  Dtype dtype = Dtype::Auto;
  /// Of the VAE. Auto: `dtype`, but float32 where that is float16 and the VAE's configuration asks
  /// for it (force_upcast).
  Dtype vae_dtype = Dtype::Auto;
  bool allow_tf32 = false;    ///< CUDA: float32 products in 10 bits of mantissa; faster
  bool deterministic = true;  ///< CUDA: equal inputs give equal bits; false: cuDNN's fastest
  friend bool operator==(const ModelOptions&, const ModelOptions&) = default;
};

struct SessionOptions {
  int window_size = 14;           ///< frames a UNet window, >= 1
  int step_size = 10;             ///< frames between windows' starts, 1..window_size
  int clip_chunk_size = 16;       ///< frames a CLIP batch; changes results by rounding only
  int vae_encode_chunk_size = 7;  ///< frames a VAE encoder batch; likewise
  int vae_decode_chunk_size = 4;  ///< frames decoded together; changes the result
  int max_resolution = 1024;      ///< the longer side's limit in pixels
  int windows_per_pass = 1;       ///< windows that go through each network per round, >= 1
  int threads = 0;                ///< intra-op threads; 0: the number of physical cores
  OutputSize output_size = OutputSize::Original;
  bool renormalize = true;  ///< scale vectors to unit length before quantising
  TailMode tail_mode = TailMode::Anchored;
  ClipResize clip_resize = ClipResize::Seed;
  OffloadMode offload_mode = OffloadMode::Staged;
  bool offload_after = true;  ///< give the networks' memory back when a clip is finished
  SampleFormat output_format = SampleFormat::U8;
  bool flip_x = false;  ///< negate a component of the vectors
  bool flip_y = false;
  bool flip_z = false;
};

}  // namespace normalcrafter
