// SPDX-License-Identifier: Apache-2.0
#include "tokenizers/models/bpe_word.h"

#include <algorithm>
#include <queue>
#include <tuple>

namespace transformers::tokenizers {
namespace {

// Longer words use the heap. Scanning n symbols n times is faster up to about
// this length.
constexpr std::size_t kShort = 48;

void merge_short(std::vector<Symbol>& symbols, const MergeTable& merges) {
  Merge next[kShort];  // The merge of each symbol with its right neighbor.
  std::size_t size = symbols.size();
  for (std::size_t i = 0; i + 1 < size; ++i) {
    next[i] = merges.find(symbols[i].id, symbols[i + 1].id);
  }
  while (size > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < size; ++i) {
      best = next[i].rank < next[best].rank ? i : best;
    }
    if (!next[best].exists()) {
      break;
    }
    symbols[best].id = next[best].id;
    symbols[best].bytes += symbols[best + 1].bytes;
    --size;
    for (std::size_t i = best + 1; i < size; ++i) {
      symbols[i] = symbols[i + 1];
      next[i] = next[i + 1];
    }
    if (best + 1 < size) {
      next[best] = merges.find(symbols[best].id, symbols[best + 1].id);
    }
    if (best > 0) {
      next[best - 1] = merges.find(symbols[best - 1].id, symbols[best].id);
    }
  }
  symbols.resize(size);
}

struct Candidate {
  std::uint32_t rank;
  std::uint32_t at;
  std::uint32_t right;  // The symbols of the pair; the candidate is
  std::uint32_t left;   // stale once either of them has merged.
  std::uint32_t id;

  bool operator>(const Candidate& other) const {
    return std::tie(rank, at) > std::tie(other.rank, other.at);
  }
};

// A linked list of symbols, without those that merged into their left neighbor.
class LongWord {
 public:
  LongWord(std::vector<Symbol>& symbols, const MergeTable& merges)
      : symbols_(symbols), merges_(merges) {
    const auto size = static_cast<std::uint32_t>(symbols.size());
    next_.resize(size);
    previous_.resize(size);
    for (std::uint32_t i = 0; i < size; ++i) {
      next_[i] = i + 1;
      previous_[i] = i - 1;  // Wraps to `kNone` for the first.
    }
    std::vector<Candidate> found;
    for (std::uint32_t i = 0; i + 1 < size; ++i) {
      const Merge merge = merges.find(symbols[i].id, symbols[i + 1].id);
      if (merge.exists()) {
        found.push_back(
            {merge.rank, i, symbols[i + 1].id, symbols[i].id, merge.id});
      }
    }
    queue_ = Queue(std::greater<>(), std::move(found));
  }

  void run() {
    const auto size = static_cast<std::uint32_t>(symbols_.size());
    while (!queue_.empty()) {
      const Candidate best = queue_.top();
      queue_.pop();
      const std::uint32_t right = next_[best.at];
      if (symbols_[best.at].bytes == 0 || right >= size ||
          symbols_[best.at].id != best.left ||
          symbols_[right].id != best.right) {
        continue;
      }
      merge(best, right, size);
    }
    std::erase_if(symbols_, [](const Symbol& s) { return s.bytes == 0; });
  }

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;
  using Queue =
      std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>>;

  void merge(const Candidate& best, std::uint32_t right, std::uint32_t size) {
    symbols_[best.at].id = best.id;
    symbols_[best.at].bytes += symbols_[right].bytes;
    symbols_[right].bytes = 0;
    next_[best.at] = next_[right];
    if (next_[right] < size) {
      previous_[next_[right]] = best.at;
      push_candidate(best.at, next_[right]);
    }
    if (previous_[best.at] != kNone) {
      push_candidate(previous_[best.at], best.at);
    }
  }
  void push_candidate(std::uint32_t left, std::uint32_t right) {
    const Merge merge = merges_.find(symbols_[left].id, symbols_[right].id);
    if (merge.exists()) {
      queue_.push(
          {merge.rank, left, symbols_[right].id, symbols_[left].id, merge.id});
    }
  }

  std::vector<Symbol>& symbols_;
  const MergeTable& merges_;
  std::vector<std::uint32_t> next_;
  std::vector<std::uint32_t> previous_;
  Queue queue_;
};

}  // namespace

void merge_all(std::vector<Symbol>& symbols, const MergeTable& merges) {
  if (symbols.size() <= kShort) {
    merge_short(symbols, merges);
  } else {
    LongWord(symbols, merges).run();
  }
}

}  // namespace transformers::tokenizers
