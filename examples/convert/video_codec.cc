#include "video_codec.h"

#include "failure.h"

namespace normalcrafter::convert {
namespace {

constexpr int kDefaultQuality = 75;

/// A quality of 0 to 100 on a codec's scale from `worst` to `best`.
std::string on_scale(int quality, int worst, int best) {
  return std::to_string(worst + (best - worst) * quality / 100);
}

// Ten bits of luma and chroma, from which eight-bit RGB comes back without a difference.
constexpr const char* kExact = "videoconvert ! video/x-raw,format=Y444_10LE,colorimetry=bt709 ! ";
constexpr const char* kFull = "videoconvert ! video/x-raw,format=Y444,colorimetry=bt709 ! ";

std::string h264(bool lossless, int quality) {
  if (lossless) return std::string(kExact) + "x264enc pass=quant quantizer=0 speed-preset=faster";
  return std::string(kFull) + "x264enc pass=qual quantizer=" + on_scale(quality, 48, 1);
}

std::string vp9(bool lossless, int quality) {
  const std::string settings = "vp9enc deadline=1 cpu-used=4 row-mt=true threads=8 ";
  if (lossless) return kExact + settings + "min-quantizer=0 max-quantizer=0";
  return kFull + settings + "end-usage=cq cq-level=" + on_scale(quality, 63, 1);
}

constexpr const char* kFfv1 = "videoconvert ! video/x-raw,format=BGRx ! avenc_ffv1";
constexpr const char* kRawAudio = "audioconvert ! audioresample ! ";

}  // namespace

VideoCodec video_codec(OutputKind kind, bool lossless, std::optional<int> quality) {
  const int chosen = quality.value_or(kDefaultQuality);
  const std::string audio = kRawAudio;
  switch (kind) {
    case OutputKind::Mp4:
      return {h264(lossless, chosen), "mp4mux", audio + "avenc_aac bitrate=192000"};
    case OutputKind::Mov:
      return {h264(lossless, chosen), "qtmux", audio + "avenc_aac bitrate=192000"};
    case OutputKind::WebM:
      return {vp9(lossless, chosen), "webmmux", audio + "opusenc bitrate=160000"};
    case OutputKind::Matroska:
      return {quality ? h264(false, chosen) : kFfv1, "matroskamux", audio + "flacenc"};
    default:
      throw Failure(Status::Usage, "this output is no video");
  }
}

}  // namespace normalcrafter::convert
