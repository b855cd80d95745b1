#include "stream/decode_ledger.h"

#include <gtest/gtest.h>

namespace normalcrafter {
namespace {

using Ranges = std::vector<FrameRange>;

TEST(DecodeLedger, WaitsForFullChunksUntilTheClipEnds) {
  DecodeLedger ledger(4);
  EXPECT_EQ(ledger.take(1), Ranges{});
  EXPECT_EQ(ledger.take(11), (Ranges{{0, 4}, {4, 8}}));
  EXPECT_EQ(ledger.take(11), Ranges{});
  EXPECT_EQ(ledger.take(12), (Ranges{{8, 12}}));
  EXPECT_EQ(ledger.finish(18), (Ranges{{12, 16}, {16, 18}}));
}

TEST(DecodeLedger, DecodesAShortClipInOneShortChunk) {
  EXPECT_EQ(DecodeLedger(4).finish(1), (Ranges{{0, 1}}));
}

TEST(DecodeLedger, AlignsChunksToTheFirstFrameHoweverFramesAreSettled) {
  for (int chunk = 1; chunk <= 6; ++chunk)
    for (std::int64_t frames = 1; frames <= 30; ++frames)
      for (int stride = 1; stride <= 8; ++stride) {
        DecodeLedger ledger(chunk);
        Ranges taken;
        const auto add = [&](const Ranges& some) {
          taken.insert(taken.end(), some.begin(), some.end());
        };
        for (std::int64_t settled = 0; settled <= frames; settled += stride)
          add(ledger.take(settled));
        add(ledger.finish(frames));
        EXPECT_EQ(taken, split({0, frames}, chunk));
      }
}

}  // namespace
}  // namespace normalcrafter
