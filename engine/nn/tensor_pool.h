// Memory for the networks' large intermediate tensors on the CPU.
//
// malloc() gives large blocks back to the system at once, and a network takes blocks of the same
// few sizes again and again: mapping and clearing pages then costs a tenth of the run time, and
// much more on a virtual machine, whose host takes the pages away too. The pool keeps freed blocks,
// in huge pages where the system allows, and builds blocks of other sizes from their pages, but
// never keeps more than brings the sum of used and kept to the most that was in use at once: the
// peak is as if it kept none. It holds the networks' weights too, so that staged networks take
// turns in the same memory.
#pragma once

#include <cstddef>

namespace normalcrafter {

class TensorPool {
 public:
  /// While one lives on a thread, large CPU tensors that the thread makes come from the pool. All
  /// others in the process, and those of other threads, come from where they came before.
  class Scope {
   public:
    Scope();
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    bool outer_;
  };

  /// Gives the freed blocks that it keeps back to the system. From any thread.
  static void trim() noexcept;
  /// Bytes of freed blocks kept now.
  static std::size_t kept() noexcept;
};

}  // namespace normalcrafter
