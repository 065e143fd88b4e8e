// SPDX-License-Identifier: Apache-2.0
#include "tokenizers/models/merge_reader.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "base/str_cat.h"
#include "base/text.h"
#include "tokenizers/files/json_cursor.h"

namespace transformers::tokenizers {

using accelerate::printable;
using accelerate::str_cat;

namespace {

class MergeReader {
 public:
  MergeReader(
      const ModelText& text,
      const std::string& source,
      const Vocabulary& vocabulary,
      std::size_t prefix)
      : cursor_(text.merges, source, "$.model.merges", text.mapped),
        vocabulary_(vocabulary),
        prefix_size_(prefix),
        // A merge takes at least six bytes of text.
        table_(std::min(text.merges_size, text.merges.size() / 6)) {}

  MergeTable read() && {
    cursor_.array([&] {
      check_count();
      if (cursor_.peek() == '[') {
        read_pair();
      } else {
        read_string();
      }
      if (pairs_.size() == kBatchSize) {
        add_pairs();
      }
    });
    add_pairs();
    cursor_.end();
    return std::move(table_);
  }

 private:
  // Large enough to overlap memory accesses, and small enough for the L1 cache.
  static constexpr std::size_t kBatchSize = 64;

  struct Pair {
    std::string_view left, right;
    std::size_t end;  // Offset of the text after the pair.
  };

  void check_count() {
    if (current_rank() > MergeTable::kMaxRank) {
      fail(str_cat("there are more than ", current_rank(), " merges"));
    }
  }
  void read_pair() {
    std::string_view parts[2];
    std::size_t count = 0;
    cursor_.array([&] {
      const std::size_t index = std::min<std::size_t>(count, 1);
      parts[index] = cursor_.string(scratch_[2 * pairs_.size() + index]);
      ++count;
    });
    if (count != 2) {
      fail(str_cat("expected two tokens, found ", count));
    }
    pairs_.push_back({parts[0], parts[1], cursor_.offset()});
  }
  void read_string() {
    const std::string_view line = cursor_.string(scratch_[2 * pairs_.size()]);
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos ||
        line.find(' ', space + 1) != std::string_view::npos) {
      fail(str_cat(
          "expected two tokens separated by a space, found `",
          printable(line),
          "`"));
    }
    pairs_.push_back(
        {line.substr(0, space), line.substr(space + 1), cursor_.offset()});
  }
  // Looks up the tokens of all pairs together.
  void add_pairs() {
    tokens_.clear();
    for (const Pair& pair : pairs_) {
      tokens_.push_back(pair.left);
      tokens_.push_back(pair.right);
    }
    ids_.resize(tokens_.size());
    vocabulary_.find_all(tokens_, ids_);
    for (std::size_t i = 0; i < ids_.size(); i += 2) {
      if (ids_[i] && ids_[i + 1]) {
        table_.prefetch(*ids_[i], *ids_[i + 1]);
      }
    }
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      add(pairs_[i], ids_[2 * i], ids_[2 * i + 1]);
    }
    pairs_.clear();
  }
  void add(
      const Pair& pair,
      std::optional<std::uint32_t> left,
      std::optional<std::uint32_t> right) {
    if (pair.right.size() < prefix_size_) {
      fail_at(
          pair,
          str_cat(
              "`",
              printable(pair.right),
              "` is shorter than `continuing_subword_prefix`"));
    }
    merged_text_.assign(pair.left);
    merged_text_.append(pair.right.substr(prefix_size_));
    // Trainers usually number merged tokens in the order of the merges.
    const auto guess = vocabulary_.text(last_merged_id_ + 1);
    const auto merged = guess && *guess == merged_text_
                            ? std::optional(last_merged_id_ + 1)
                            : vocabulary_.find(merged_text_);
    last_merged_id_ = require_id(pair, merged_text_, merged);
    table_.set(
        require_id(pair, pair.left, left),
        require_id(pair, pair.right, right),
        {rank_, last_merged_id_});
    ++rank_;
  }
  std::uint32_t require_id(
      const Pair& pair,
      std::string_view token,
      std::optional<std::uint32_t> id) {
    if (!id) {
      fail_at(
          pair,
          str_cat(
              "this merge needs `",
              printable(token),
              "`, which is not in the vocabulary"));
    }
    return *id;
  }
  // Returns the rank of the pair that is being read.
  std::size_t current_rank() const { return rank_ + pairs_.size(); }
  [[noreturn]] void fail(const std::string& message) {
    cursor_.set_path(str_cat("$.model.merges[", current_rank(), "]"));
    cursor_.fail(message);
  }
  // Reports an error in a pair that was read earlier and is being added.
  [[noreturn]] void fail_at(const Pair& pair, const std::string& message) {
    cursor_.set_path(str_cat("$.model.merges[", rank_, "]"));
    cursor_.seek(pair.end);
    cursor_.fail(message);
  }

  JsonCursor cursor_;
  const Vocabulary& vocabulary_;
  std::size_t prefix_size_;
  MergeTable table_;
  std::vector<Pair> pairs_;
  // The unescaped strings of `pairs_`.
  std::array<std::string, 2 * kBatchSize> scratch_;
  std::vector<std::string_view> tokens_;
  std::vector<std::optional<std::uint32_t>> ids_;
  std::string merged_text_;
  std::uint32_t rank_ = 0;            // The rank of the next pair to add.
  std::uint32_t last_merged_id_ = 0;  // The token of the previous merge.
};

}  // namespace

MergeTable read_merges(
    const ModelText& text,
    const std::string& source,
    const Vocabulary& vocabulary,
    std::string_view continuing_subword_prefix) {
  return MergeReader(text, source, vocabulary, continuing_subword_prefix.size())
      .read();
}

}  // namespace transformers::tokenizers
