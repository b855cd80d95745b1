// A device on the CPU that is as unkind as a real one may be: copies happen as late as its events
// allow, their target is garbage until then, and memory that may still be used is not to be
// written.
#pragma once

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "model/transfer_device.h"

namespace normalcrafter::test {

class CheckingDevice final : public TransferDevice {
 public:
  /// What a test sets and looks at; outlives the device.
  struct Books {
    std::uint64_t budget = std::numeric_limits<std::uint64_t>::max();
    std::uint64_t allocated = 0;
    std::uint64_t most = 0;
    std::uint64_t peak = 0;  ///< since take_peak()
    std::uint64_t copied = 0;
    int copies = 0;
    int give_backs = 0;
    int pinned = 0;

    /// Tells that the computing uses that memory now.
    void use(const at::Tensor& tensor) {
      const auto found = --uses.upper_bound(begin_of(tensor));
      EXPECT_LE(begin_of(tensor) + tensor.nbytes(), found->first + found->second.bytes);
      found->second.last = ++clock;
    }

   private:
    friend class CheckingDevice;
    struct Use {
      std::uint64_t bytes;
      int last;  // when the computing may have used it last
    };
    struct Copy {
      std::byte* to;
      const std::byte* from;
      std::uint64_t bytes;
    };
    static std::byte* begin_of(const at::Tensor& tensor) {
      return static_cast<std::byte*>(const_cast<void*>(tensor.const_data_ptr()));
    }
    int clock = 0;                   // of the computing queue
    std::map<std::byte*, Use> uses;  // by allocation
    std::deque<Copy> queue;
  };

  explicit CheckingDevice(std::shared_ptr<Books> books) : books_(std::move(books)) {}

  bool pin(void* memory, std::size_t bytes) noexcept override {
    EXPECT_NE(memory, nullptr);
    EXPECT_GT(bytes, 0U);
    ++books_->pinned;
    return true;
  }
  void unpin(void* /*memory*/) noexcept override { --books_->pinned; }

  at::Tensor allocate(std::uint64_t bytes) override {
    TORCH_CHECK_WITH(OutOfMemoryError, books_->allocated + bytes <= books_->budget,
                     "Tried to allocate ", bytes, " bytes. ");
    books_->allocated += bytes;
    books_->most = std::max(books_->most, books_->allocated);
    books_->peak = std::max(books_->peak, books_->allocated);
    const at::Tensor memory =
        at::full({static_cast<std::int64_t>(bytes)}, kGarbage, at::TensorOptions(at::kByte));
    std::byte* const begin = Books::begin_of(memory);
    // What had the memory before may still be computing.
    books_->uses[begin] = {bytes, ++books_->clock};
    return at::from_blob(
        begin, {static_cast<std::int64_t>(bytes)},
        [books = books_, memory, begin, bytes](void*) {
          for (const Books::Copy& copy : books->queue)
            EXPECT_FALSE(begin <= copy.to && copy.to < begin + bytes)
                << "freed before it is copied to";
          books->allocated -= bytes;
          books->uses.erase(begin);
        },
        at::TensorOptions(at::kByte));
  }

  void copy(const at::Tensor& to, const at::Tensor& from) override {
    ASSERT_EQ(to.nbytes(), from.nbytes());
    std::byte* const begin = Books::begin_of(to);
    const auto allocation = --books_->uses.upper_bound(begin);
    EXPECT_GT(waited_for_, allocation->second.last) << "copied over what may still be used";
    std::memset(begin, kGarbage, to.nbytes());
    books_->queue.push_back({begin, Books::begin_of(from), to.nbytes()});
    books_->copied += to.nbytes();
    ++books_->copies;
  }

  EventPtr after_copies() override { return std::make_shared<Point>(books_->copies); }
  EventPtr after_computing() override { return std::make_shared<Point>(++books_->clock); }
  void copies_wait(const EventPtr& event) override {
    waited_for_ = std::max(waited_for_, number(event));
  }
  void computing_waits(const EventPtr& event) override {
    while (done_ < number(event)) copy_one();
  }
  void finish_copies() noexcept override {
    while (!books_->queue.empty()) copy_one();
  }
  std::optional<double> seconds_between(const EventPtr& begin, const EventPtr& end) override {
    if (done_ < number(end)) return {};
    return number(end) - number(begin);
  }

  std::uint64_t budget() const override { return books_->budget; }
  std::uint64_t take_peak() override { return std::exchange(books_->peak, books_->allocated); }
  DeviceMemory memory() const override {
    return {books_->allocated, books_->allocated, books_->most};
  }
  void give_back() noexcept override { ++books_->give_backs; }

 private:
  static constexpr int kGarbage = 0xff;  // NaN in every floating-point type
  struct Point final : Event {
    explicit Point(int at) : number(at) {}
    int number;
  };
  static int number(const EventPtr& event) { return static_cast<const Point&>(*event).number; }
  void copy_one() {
    const Books::Copy copy = books_->queue.front();
    books_->queue.pop_front();
    std::memcpy(copy.to, copy.from, copy.bytes);
    // The computing has waited for it and may use it from now on.
    (--books_->uses.upper_bound(copy.to))->second.last = ++books_->clock;
    ++done_;
  }

  std::shared_ptr<Books> books_;
  int done_ = 0;        // copies
  int waited_for_ = 0;  // the point of the computing that the copies wait for
};

}  // namespace normalcrafter::test
