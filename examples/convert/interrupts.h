// Ctrl-C, once and twice.
#pragma once

#include <functional>
#include <string>

namespace normalcrafter::convert {

/// The first SIGINT or SIGTERM calls `stop` on the main loop. The next one ends the program at
/// once, with 128 + its number, whatever the program is busy with, after saying `farewell`. One
/// object at a time.
class Interrupts {
 public:
  Interrupts(std::function<void()> stop, const std::string& farewell);
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;
  /// The first signal that came; 0: none.
  static int received();

 private:
  std::function<void()> stop_;
  unsigned source_ = 0;
};

}  // namespace normalcrafter::convert
