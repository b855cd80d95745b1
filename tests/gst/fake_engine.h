// What the tests can ask of the fake engine, and what it tells them.
#pragma once

#include <atomic>

namespace normalcrafter {

/// Shared by the fake engine and the tests, which find it through fake_engine_controls().
struct FakeControls {
  // What to do.
  std::atomic<int> window_ms{0};            ///< a window takes this long, in steps of 1 ms
  std::atomic<int> jitter_ms{0};            ///< and up to this much more, at random
  std::atomic<bool> block_windows{false};   ///< a window does not end until cancelled or released
  std::atomic<bool> block_loading{false};   ///< likewise for the weights
  std::atomic<bool> block_creation{false};  ///< create_session() waits
  std::atomic<int> create_fault{-1};        ///< ErrorCode thrown by create_session()
  std::atomic<int> block_ms{1};             ///< a network's block, which nothing interrupts
  std::atomic<int> load_ms{0};
  std::atomic<int> load_fault{-1};   ///< ErrorCode thrown by prepare()
  std::atomic<int> fault_frame{-1};  ///< the window with this frame of the clip throws ...
  std::atomic<int> fault_code{0};    ///< ... this ErrorCode

  // What happened.
  std::atomic<int> windows{0};
  std::atomic<int> in_window{0};  ///< sessions inside a window now
  std::atomic<int> waiting{0};    ///< sessions that wait for another one's window on their model
  std::atomic<int> loading{0};    ///< sessions that load now
  std::atomic<int> creating{0};   ///< sessions that are being made now
  std::atomic<int> loads{0};      ///< weights actually loaded
  std::atomic<int> offloads{0};
  std::atomic<int> cancels{0};
  std::atomic<int> sessions{0};  ///< alive
  std::atomic<int> sessions_made{0};
  std::atomic<int> models{0};  ///< alive
  std::atomic<int> clips{0};   ///< finish() calls that had frames
};

}  // namespace normalcrafter

extern "C" __attribute__((visibility("default"))) normalcrafter::FakeControls*
fake_engine_controls();
