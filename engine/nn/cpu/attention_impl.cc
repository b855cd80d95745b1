// Compiled several times, like kernels_impl.cc. Keys and values of a head are packed for the matrix
// product; blocks of queries then pass over blocks of keys with a running maximum and sum, so that
// what lies between the two products stays in the nearest caches (Milakov and Gimelshein, "Online
// normalizer calculation for softmax", 2018).
#include "nn/cpu/attention.h"

#include "nn/cpu/functions.h"
#include "nn/cpu/products.h"

namespace normalcrafter::cpu {
namespace {

constexpr std::int64_t kQueryBlock = 2 * kGemmRows;
constexpr std::int64_t kKeyBlock = 384;  // a multiple of the panel

constexpr std::int64_t rounded_up(std::int64_t count, std::int64_t multiple) {
  return (count + multiple - 1) / multiple * multiple;
}
static_assert(kKeyBlock % kPanel == 0);

// Word: what is multiplied at once, a float or a pair of bfloat16.
template <typename T>
struct Packing;
template <>
struct Packing<float> {
  using Word = float;
  static constexpr std::int64_t kPerWord = 1;
};
template <>
struct Packing<BFloat16Bits> {
  using Word = BFloat16Pair;
  static constexpr std::int64_t kPerWord = 2;
};

// Where things lie in the scratch memory, in floats (a word is as large).
template <typename T>
struct Layout {
  static constexpr std::int64_t kPerWord = Packing<T>::kPerWord;
  std::int64_t keys;         // padded to panels
  std::int64_t depth;        // of v, padded to panels
  std::int64_t depth_words;  // of q and k
  std::int64_t values, scores, sums, end;

  Layout(std::int64_t key_count, std::int64_t depth_count)
      : keys(rounded_up(key_count, kPanel)),
        depth(rounded_up(depth_count, kPanel)),
        depth_words(depth_count / kPerWord),
        values(keys * depth_words),
        scores(values + keys / kPerWord * depth),
        sums(scores + kQueryBlock * kKeyBlock),
        end(sums + kQueryBlock * depth) {}
};

template <typename T>
std::int64_t scratch(std::int64_t keys, std::int64_t depth) {
  return Layout<T>(keys, depth).end;
}

// k [keys, depth] -> [keys/panel, depth words, panel]; zeros beyond the last key.
template <typename T>
void pack_keys(const AttentionHead<T>& head, const Layout<T>& layout,
               typename Packing<T>::Word* to) {
  using Word = typename Packing<T>::Word;
  for (std::int64_t first = 0; first < layout.keys; first += kPanel) {
    for (std::int64_t i = 0; i < kPanel; ++i) {
      Word* column = to + first * layout.depth_words + i;
      const bool there = first + i < head.keys;
      const auto* row =
          there ? reinterpret_cast<const Word*>(head.k + (first + i) * head.k_stride) : nullptr;
      for (std::int64_t d = 0; d < layout.depth_words; ++d)
        column[d * kPanel] = there ? row[d] : Word{};
    }
  }
}

inline float word_of(const float* v, std::int64_t /*stride*/, bool /*has_next*/) {
  return *v;
}
inline BFloat16Pair word_of(const BFloat16Bits* v, std::int64_t stride, bool has_next) {
  return {*v | (has_next ? std::uint32_t{v[stride]} << 16 : 0)};
}

// v [keys, depth] -> [depth/panel, key words, panel]; zeros beyond the last key and column.
template <typename T>
void pack_values(const AttentionHead<T>& head, const Layout<T>& layout,
                 typename Packing<T>::Word* to) {
  using Word = typename Packing<T>::Word;
  constexpr std::int64_t per_word = Packing<T>::kPerWord;
  for (std::int64_t first = 0; first < layout.depth; first += kPanel) {
    const std::int64_t width = first + kPanel < head.depth ? kPanel : head.depth - first;
    for (std::int64_t key = 0; key < layout.keys; key += per_word, to += kPanel) {
      const T* row = head.v + key * head.v_stride + first;
      const bool has_next = key + 1 < head.keys;
      std::int64_t c = 0;
      if (key < head.keys) {
        for (; c < width; ++c) to[c] = word_of(row + c, head.v_stride, has_next);
      }
      for (; c < kPanel; ++c) to[c] = Word{};
    }
  }
}

// What a row of scores needs between blocks of keys.
struct Row {
  float most = -__builtin_inff();
  float sum = 0;
};

// Scores of `count` keys, padded to panels -> exp(scale * score - most) in place. The row's largest
// score may rise: returns what everything summed so far has to be multiplied by.
inline float soften(float* scores, std::int64_t count, float scale, Row& row) {
  const std::int64_t padded = rounded_up(count, kPanel);
  for (std::int64_t j = count; j < padded; ++j) scores[j] = -__builtin_inff();
  Vec most = broadcast(-__builtin_inff());
  for (std::int64_t j = 0; j < padded; j += kLanes) {
    const Vec v = load(scores + j) * scale;
    most = v > most ? v : most;
  }
  const float before = row.most;
  for (int lane = 0; lane < kLanes; ++lane)
    row.most = most[lane] > row.most ? most[lane] : row.most;
  const float now = row.most;
  for (std::int64_t j = 0; j < padded; j += kLanes)
    store(scores + j, exp_f32(load(scores + j) * scale - now));
  for (std::int64_t j = count; j < padded; ++j) scores[j] = 0;
  Vec sum{};
  for (std::int64_t j = 0; j < padded; j += kLanes) sum += load(scores + j);
  const float factor = exp_f32(broadcast(before - now))[0];
  row.sum *= factor;
  for (int lane = 0; lane < kLanes; ++lane) row.sum += sum[lane];
  return factor;
}

// A row of weights as words, in the same memory.
inline void round_in_place(float* /*row*/, std::int64_t /*count*/, float) {}
// Each store lies behind what was loaded for it.
inline void round_in_place(float* row, std::int64_t count, BFloat16Pair) {
  auto* half = reinterpret_cast<BFloat16Bits*>(row);
  for (std::int64_t j = 0; j < count; j += kLanes) store(half + j, load(row + j));
}

template <typename T>
class Head {
 public:
  using Word = typename Packing<T>::Word;
  Head(const AttentionHead<T>& head, float* memory)
      : head_(head),
        layout_(head.keys, head.depth),
        keys_(reinterpret_cast<Word*>(memory)),
        values_(reinterpret_cast<Word*>(memory + layout_.values)),
        scores_(memory + layout_.scores),
        sums_(memory + layout_.sums) {
    pack_keys(head, layout_, keys_);
    pack_values(head, layout_, values_);
  }

  void attend(std::int64_t first, std::int64_t count) {
    Row rows[kQueryBlock];
    for (std::int64_t key = 0; key < head_.keys; key += kKeyBlock) {
      const std::int64_t width = head_.keys - key < kKeyBlock ? head_.keys - key : kKeyBlock;
      score(first, count, key, width);
      for (std::int64_t r = 0; r < count; ++r) {
        float* row = scores_ + r * kKeyBlock;
        const float factor = soften(row, width, head_.scale, rows[r]);
        if (key > 0) {
          float* sums = sums_ + r * layout_.depth;
          for (std::int64_t c = 0; c < layout_.depth; ++c) sums[c] *= factor;
        }
        round_in_place(row, rounded_up(width, kPanel), Word{});
      }
      add_values(count, key, width);
    }
    for (std::int64_t r = 0; r < count; ++r) write(first + r, sums_ + r * layout_.depth, rows[r]);
  }

 private:
  void score(std::int64_t first, std::int64_t count, std::int64_t key, std::int64_t width) {
    for (std::int64_t j = 0; j < width; j += kPanel)
      multiply<Word>({.a = reinterpret_cast<const Word*>(head_.q + first * head_.q_stride),
                      .a_stride = head_.q_stride / Packing<T>::kPerWord,
                      .rows = count,
                      .depth = layout_.depth_words,
                      .b = keys_ + (key + j) * layout_.depth_words,
                      .c = scores_ + j,
                      .c_stride = kKeyBlock});
  }

  void add_values(std::int64_t count, std::int64_t key, std::int64_t width) {
    constexpr std::int64_t per_word = Packing<T>::kPerWord;
    for (std::int64_t c = 0; c < layout_.depth; c += kPanel)
      multiply<Word>({.a = reinterpret_cast<const Word*>(scores_),
                      .a_stride = kKeyBlock,
                      .rows = count,
                      .depth = (width + per_word - 1) / per_word,
                      .b = values_ + (c * layout_.keys + key * kPanel) / per_word,
                      .c = sums_ + c,
                      .c_stride = layout_.depth,
                      .accumulate = key > 0});
  }

  void write(std::int64_t query, const float* sums, const Row& row) {
    T* to = head_.out + query * head_.out_stride;
    const float share = 1 / row.sum;
    std::int64_t c = 0;
    for (; c + kLanes <= head_.depth; c += kLanes) store(to + c, load(sums + c) * share);
    if (c == head_.depth) return;
    T rest[kLanes];
    store(rest, load(sums + c) * share);
    for (std::int64_t i = 0; c + i < head_.depth; ++i) to[c + i] = rest[i];
  }

  const AttentionHead<T>& head_;
  Layout<T> layout_;
  Word* keys_;
  Word* values_;
  float* scores_;  // [kQueryBlock, kKeyBlock]
  float* sums_;    // [kQueryBlock, depth]
};

template <typename T>
void attend(const AttentionHead<T>& head, float* memory) {
  Head<T> work(head, memory);
  for (std::int64_t first = 0; first < head.queries; first += kQueryBlock)
    work.attend(first, head.queries - first < kQueryBlock ? head.queries - first : kQueryBlock);
}

}  // namespace

#define NORMALCRAFTER_NAME2(isa) attention_##isa
#define NORMALCRAFTER_NAME(isa) NORMALCRAFTER_NAME2(isa)

extern const AttentionKernels NORMALCRAFTER_NAME(NORMALCRAFTER_ISA);
constinit const AttentionKernels NORMALCRAFTER_NAME(NORMALCRAFTER_ISA) = {
    {scratch<float>, attend<float>},
#if defined(__AVX512BF16__)
    {scratch<BFloat16Bits>, attend<BFloat16Bits>},
#else
    {},
#endif
};

}  // namespace normalcrafter::cpu
