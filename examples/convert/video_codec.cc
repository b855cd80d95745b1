#include "video_codec.h"

#include "failure.h"

namespace normalcrafter::convert {
namespace {

constexpr int kDefaultQuality = 75;

/// A quality of 0 to 100 on a codec's scale from `worst` to `best`.
std::string on_scale(int quality, int worst, int best) {
  return std::to_string(worst + (best - worst) * quality / 100);
}

// Rounded alike everywhere, without noise against banding: these are vectors.
constexpr const char* kFull =
    "videoconvert dither=none ! video/x-raw,format=Y444,colorimetry=bt709 ! ";

std::string h264(int quality) {
  return kFull + ("x264enc pass=qual quantizer=" + on_scale(quality, 48, 1));
}

// A fixed quantiser, whatever the bit rate becomes. vp9enc of GStreamer 1.22 loses frames at the
// end of noisy clips if it may look ahead.
std::string vp9(int quality) {
  const std::string quantizer = on_scale(quality, 63, 1);
  return kFull + ("vp9enc deadline=1 cpu-used=4 row-mt=true threads=8 lag-in-frames=0 "
                  "target-bitrate=2000000000 min-quantizer=" +
                  quantizer + " max-quantizer=" + quantizer);
}

constexpr const char* kFfv1 = "videoconvert ! video/x-raw,format=BGRx ! avenc_ffv1";
// The one codec of QuickTime's muxer that takes RGB.
constexpr const char* kPng = "videoconvert ! video/x-raw,format=RGB ! pngenc";
constexpr const char* kRawAudio = "audioconvert ! audioresample ! ";

}  // namespace

VideoCodec video_codec(OutputKind kind, std::optional<int> quality, bool lossless) {
  const int chosen = quality.value_or(kDefaultQuality);
  const std::string audio = kRawAudio;
  switch (kind) {
    case OutputKind::Mp4:
      return {h264(chosen), "mp4mux", audio + "avenc_aac bitrate=192000"};
    case OutputKind::Mov:
      return {lossless ? kPng : h264(chosen), "qtmux", audio + "avenc_aac bitrate=192000"};
    case OutputKind::WebM:
      return {vp9(chosen), "webmmux", audio + "opusenc bitrate=160000"};
    case OutputKind::Matroska:
      return {quality ? h264(chosen) : kFfv1, "matroskamux", audio + "flacenc"};
    default:
      throw Failure(Status::Usage, "this output is no video");
  }
}

}  // namespace normalcrafter::convert
