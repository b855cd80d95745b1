// The whole clip at once, stage by stage, written plainly from the numerical contract and sharing
// nothing with engine/stream: what a session must give bit for bit, with any Stages.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "normalcrafter/options.h"
#include "stream/stages.h"

namespace normalcrafter::test {

/// frames: [H,W,3] uint8 or uint16 each, all of one size. Gives [H,W,3] a frame in the output's
/// size and format.
std::vector<at::Tensor> offline_normals(Stages& stages, const std::vector<at::Tensor>& frames,
                                        const SessionOptions& options);

// Its two halves; the first does not depend on the decode chunk or the output's options.

/// The windows' crossfaded predictions [N,c,h,w] of the clip's N frames.
at::Tensor offline_predictions(Stages& stages, const std::vector<at::Tensor>& frames,
                               const SessionOptions& options);

/// predictions [N,c,h,w] of a clip of frames of height x width.
std::vector<at::Tensor> offline_decoded(Stages& stages, const at::Tensor& predictions,
                                        std::int64_t height, std::int64_t width,
                                        const SessionOptions& options);

}  // namespace normalcrafter::test
