// How a video of normals is encoded.
#pragma once

#include <optional>
#include <string>

#include "output_kind.h"

namespace normalcrafter::convert {

struct VideoCodec {
  std::string encoder;  ///< a launch line from RGB frames to what the muxer takes
  std::string muxer;
  std::string audio;  ///< a launch line from raw audio, for audio that the muxer does not take
};

/// Colours are vectors here, so chroma keeps its full resolution (4:4:4), or nothing is lost at
/// all: in Matroska, unless a quality (0 to 100) is given, and in QuickTime if `lossless`.
VideoCodec video_codec(OutputKind kind, std::optional<int> quality, bool lossless = false);

}  // namespace normalcrafter::convert
