// SPDX-License-Identifier: Apache-2.0
#include "transformers/tokenizers/merge_reader.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "base/str_cat.h"
#include "base/text.h"
#include "transformers/tokenizers/json_cursor.h"

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
        prefix_(prefix),
        // A merge takes six bytes of text at least.
        table_(std::min(text.merges_size, text.merges.size() / 6)) {}

  MergeTable read() && {
    cursor_.array([&] {
      check_room();
      if (cursor_.peek() == '[') {
        read_pair();
      } else {
        read_line();
      }
      if (pairs_.size() == kAtOnce) {
        add_pairs();
      }
    });
    add_pairs();
    cursor_.end();
    return std::move(table_);
  }

 private:
  // Enough for the memory to be busy, few enough for the nearest cache.
  static constexpr std::size_t kAtOnce = 64;

  struct Pair {
    std::string_view left, right;
    std::size_t end;  // Where the text goes on.
  };

  void check_room() {
    if (next() > MergeTable::kMaxRank) {
      fail(str_cat("there are more than ", next(), " merges"));
    }
  }
  void read_pair() {
    std::string_view parts[2];
    std::size_t count = 0;
    cursor_.array([&] {
      const std::size_t place = std::min<std::size_t>(count, 1);
      parts[place] = cursor_.string(scratch_[2 * pairs_.size() + place]);
      ++count;
    });
    if (count != 2) {
      fail(str_cat("expected two tokens, found ", count));
    }
    pairs_.push_back({parts[0], parts[1], cursor_.offset()});
  }
  void read_line() {
    const std::string_view line = cursor_.string(scratch_[2 * pairs_.size()]);
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos ||
        line.find(' ', space + 1) != std::string_view::npos) {
      fail(str_cat(
          "expected two tokens with a space between, found `",
          printable(line),
          "`"));
    }
    pairs_.push_back(
        {line.substr(0, space), line.substr(space + 1), cursor_.offset()});
  }
  // Looks the tokens of all pairs up at once.
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
        table_.fetch(*ids_[i], *ids_[i + 1]);
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
    if (pair.right.size() < prefix_) {
      fail_at(pair, str_cat("`", printable(pair.right), "` lacks the prefix"));
    }
    joined_.assign(pair.left);
    joined_.append(pair.right.substr(prefix_));
    // Trainers number merged tokens in the order of the merges.
    const auto guess = vocabulary_.text(last_ + 1);
    const auto made = guess && *guess == joined_ ? std::optional(last_ + 1)
                                                 : vocabulary_.find(joined_);
    last_ = known(pair, joined_, made);
    table_.set(
        known(pair, pair.left, left),
        known(pair, pair.right, right),
        {rank_, last_});
    ++rank_;
  }
  std::uint32_t known(
      const Pair& pair,
      std::string_view token,
      std::optional<std::uint32_t> id) {
    if (!id) {
      fail_at(
          pair,
          str_cat(
              "the vocabulary lacks `",
              printable(token),
              "`, which merges need"));
    }
    return *id;
  }
  // The rank of the pair that is being read.
  std::size_t next() const { return rank_ + pairs_.size(); }
  [[noreturn]] void fail(const std::string& what) {
    cursor_.set_path(str_cat("$.model.merges[", next(), "]"));
    cursor_.fail(what);
  }
  // For a pair that was read some time ago, the next to be added.
  [[noreturn]] void fail_at(const Pair& pair, const std::string& what) {
    cursor_.set_path(str_cat("$.model.merges[", rank_, "]"));
    cursor_.go_back(pair.end);
    cursor_.fail(what);
  }

  JsonCursor cursor_;
  const Vocabulary& vocabulary_;
  std::size_t prefix_;
  MergeTable table_;
  std::vector<Pair> pairs_;
  // Strings with escapes, of `pairs_`.
  std::array<std::string, 2 * kAtOnce> scratch_;
  std::vector<std::string_view> tokens_;
  std::vector<std::optional<std::uint32_t>> ids_;
  std::string joined_;
  std::uint32_t rank_ = 0;  // Of the next to be added.
  std::uint32_t last_ = 0;  // What the merge before made.
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
