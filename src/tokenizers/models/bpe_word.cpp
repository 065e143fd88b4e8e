// SPDX-License-Identifier: Apache-2.0
#include "tokenizers/models/bpe_word.h"

#include <algorithm>
#include <functional>

namespace transformers::tokenizers {
namespace {

// Longer words use the heap. Scanning n symbols n times is faster up to about
// this length.
constexpr std::size_t kShort = 48;

void merge_short(std::vector<Symbol>& symbols, const MergeTable& merges) {
  // The merge of each symbol with its right neighbor.
  std::uint32_t ranks[kShort];
  std::uint32_t ids[kShort];
  std::size_t size = symbols.size();
  const auto find = [&](std::size_t i) {
    const Merge merge = merges.find(symbols[i].id, symbols[i + 1].id);
    ranks[i] = merge.rank;
    ids[i] = merge.id;
  };
  for (std::size_t i = 0; i + 1 < size; ++i) {
    find(i);
  }
  while (size > 1) {
    std::size_t best = 0;
    std::uint32_t best_rank = ranks[0];
    for (std::size_t i = 1; i + 1 < size; ++i) {
      const bool better = ranks[i] < best_rank;
      best = better ? i : best;
      best_rank = better ? ranks[i] : best_rank;
    }
    if (best_rank == Merge::kNoRank) {
      break;
    }
    symbols[best].id = ids[best];
    symbols[best].bytes += symbols[best + 1].bytes;
    --size;
    for (std::size_t i = best + 1; i < size; ++i) {
      symbols[i] = symbols[i + 1];
      ranks[i] = ranks[i + 1];
      ids[i] = ids[i + 1];
    }
    if (best + 1 < size) {
      find(best);
    }
    if (best > 0) {
      find(best - 1);
    }
  }
  symbols.resize(size);
}

// A linked list of symbols, without those that merged into their left neighbor.
// Its memory is reused for the next word.
class LongWord {
 public:
  void merge_all(std::vector<Symbol>& symbols, const MergeTable& merges) {
    const auto size = static_cast<std::uint32_t>(symbols.size());
    nodes_.resize(size);
    heap_.clear();
    for (std::uint32_t i = 0; i < size; ++i) {
      Node& node = nodes_[i];
      node = {i - 1, i + 1, {}};  // The first index wraps to `kNone`.
      if (i + 1 < size) {
        node.merge = merges.find(symbols[i].id, symbols[i + 1].id);
      }
      if (node.merge.exists()) {
        heap_.push_back(candidate(i));
      }
    }
    std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
      const std::uint64_t best = heap_.back();
      heap_.pop_back();
      const auto at = static_cast<std::uint32_t>(best);
      // A candidate is stale once either symbol of its pair has merged.
      if (nodes_[at].merge.exists() && candidate(at) == best) {
        merge(at, symbols, merges);
      }
    }
    std::erase_if(symbols, [](const Symbol& s) { return s.bytes == 0; });
    if (size > 65536) {
      *this = {};  // Frees the memory of a long text.
    }
  }

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;

  struct Node {
    std::uint32_t previous;
    std::uint32_t next;
    Merge merge;  // The merge with the next symbol.
  };

  // Candidates are ordered by rank, then by position.
  std::uint64_t candidate(std::uint32_t at) const {
    return std::uint64_t{nodes_[at].merge.rank} << 32 | at;
  }
  void merge(
      std::uint32_t at,
      std::vector<Symbol>& symbols,
      const MergeTable& merges) {
    Node& node = nodes_[at];
    const std::uint32_t right = node.next;
    symbols[at].id = node.merge.id;
    symbols[at].bytes += symbols[right].bytes;
    symbols[right].bytes = 0;
    nodes_[right].merge = {};
    node.next = nodes_[right].next;
    if (node.next < nodes_.size()) {
      nodes_[node.next].previous = at;
      find_merge(at, symbols, merges);
    } else {
      node.merge = {};
    }
    if (node.previous != kNone) {
      find_merge(node.previous, symbols, merges);
    }
  }
  void find_merge(
      std::uint32_t at,
      const std::vector<Symbol>& symbols,
      const MergeTable& merges) {
    Node& node = nodes_[at];
    node.merge = merges.find(symbols[at].id, symbols[node.next].id);
    if (node.merge.exists()) {
      heap_.push_back(candidate(at));
      std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
    }
  }

  std::vector<Node> nodes_;
  std::vector<std::uint64_t> heap_;
};

}  // namespace

void merge_all(std::vector<Symbol>& symbols, const MergeTable& merges) {
  if (symbols.size() <= kShort) {
    merge_short(symbols, merges);
  } else {
    thread_local LongWord word;
    word.merge_all(symbols, merges);
  }
}

}  // namespace transformers::tokenizers
