#include "stream/decode_ledger.h"

namespace normalcrafter {

std::vector<FrameRange> DecodeLedger::take(std::int64_t settled) {
  return finish(settled / chunk_ * chunk_);
}

std::vector<FrameRange> DecodeLedger::finish(std::int64_t frames) {
  std::vector<FrameRange> chunks = split({taken_, frames}, chunk_);
  if (!chunks.empty()) taken_ = chunks.back().end;
  return chunks;
}

}  // namespace normalcrafter
