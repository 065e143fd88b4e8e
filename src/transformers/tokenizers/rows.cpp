// SPDX-License-Identifier: Apache-2.0
#include "transformers/tokenizers/rows.h"

#include <algorithm>

#include "transformers/tokenizers/truncation.h"

namespace transformers::tokenizers {
namespace {

// Excludes the spaces at both ends of a token from its offsets. The prefix
// space that the tokenizer inserted is not in the text.
Offsets trim_edge_spaces(
    Span offsets,
    const EdgeSpaces& edge_spaces,
    bool first,
    bool prefix_space) {
  std::uint32_t leading = edge_spaces.leading;
  if (leading == 1 && prefix_space && (first || offsets.begin == 0)) {
    leading = 0;
  }
  if (edge_spaces.leading > 0) {
    offsets.begin = std::min(offsets.begin + leading, offsets.end);
  }
  if (edge_spaces.trailing > 0 && offsets.end >= edge_spaces.trailing) {
    offsets.end = std::max(offsets.end - edge_spaces.trailing, offsets.begin);
  }
  return {offsets.begin, offsets.end};
}

class RowBuilder {
 public:
  RowBuilder(
      const PostProcessor& post_processor, const ResolvedOptions& resolved)
      : post_processor_(post_processor), options_(resolved) {}

  Encoding build(
      const Template& pieces,
      const Tokens& first,
      const TokenRange& first_range,
      const Tokens* second,
      const TokenRange& second_range) {
    row_ = Encoding();
    reserve(first_range.size() + second_range.size() + 8);
    for (const TemplatePiece& piece : pieces) {
      if (piece.kind == TemplatePiece::Kind::special) {
        if (options_.add_special_tokens) {
          add_special(piece);
        }
      } else if (piece.kind == TemplatePiece::Kind::first) {
        add_text(first, first_range, piece.type_id, 0);
      } else if (second != nullptr) {
        add_text(*second, second_range, piece.type_id, 1);
      }
    }
    if (options_.attention_mask) {
      row_.attention_mask.assign(row_.input_ids.size(), 1);
    }
    return std::move(row_);
  }

 private:
  void reserve(std::size_t size) {
    row_.input_ids.reserve(size);
    if (options_.token_type_ids) {
      row_.token_type_ids.reserve(size);
    }
  }
  // Extends the vectors that are parallel to the ids.
  void extend_type_ids_and_mask(std::int64_t type_id, std::int64_t special) {
    const std::size_t size = row_.input_ids.size();
    if (options_.token_type_ids) {
      row_.token_type_ids.resize(size, type_id);
    }
    if (options_.special_tokens_mask) {
      row_.special_tokens_mask.resize(size, special);
    }
  }
  void add_special(const TemplatePiece& piece) {
    row_.input_ids.insert(
        row_.input_ids.end(), piece.ids.begin(), piece.ids.end());
    extend_type_ids_and_mask(piece.type_id, 1);
    const std::size_t size = row_.input_ids.size();
    if (options_.offsets) {
      row_.offset_mapping.resize(size);
    }
    if (options_.words) {
      row_.word_ids.resize(size);
      row_.sequence_ids.resize(size);
    }
  }
  void add_text(
      const Tokens& tokens,
      const TokenRange& range,
      std::int64_t type_id,
      std::int64_t sequence) {
    const auto from = static_cast<std::ptrdiff_t>(range.begin);
    const auto to = static_cast<std::ptrdiff_t>(range.end);
    row_.input_ids.insert(
        row_.input_ids.end(),
        tokens.ids.begin() + from,
        tokens.ids.begin() + to);
    extend_type_ids_and_mask(type_id, 0);
    for (std::size_t i = range.begin; options_.offsets && i < range.end; ++i) {
      row_.offset_mapping.push_back(
          post_processor_.trim_offsets
              ? trim_edge_spaces(
                    tokens.offsets[i],
                    tokens.edge_spaces[i],
                    i == range.begin,
                    post_processor_.add_prefix_space)
              : Offsets(tokens.offsets[i].begin, tokens.offsets[i].end));
    }
    if (options_.words) {
      row_.word_ids.insert(
          row_.word_ids.end(),
          tokens.words.begin() + from,
          tokens.words.begin() + to);
      row_.sequence_ids.resize(row_.input_ids.size(), sequence);
    }
  }

  const PostProcessor& post_processor_;
  const ResolvedOptions& options_;
  Encoding row_;
};

}  // namespace

Encoding make_row(
    const Tokens& first,
    const Tokens* second,
    const PostProcessor& post_processor,
    const ResolvedOptions& resolved) {
  const bool is_pair = second != nullptr;
  const std::size_t second_size = is_pair ? second->size() : 0;
  const TruncatedParts parts = truncate(
      first.size(),
      is_pair ? &second_size : nullptr,
      resolved.add_special_tokens
          ? post_processor.num_special_tokens_to_add(is_pair)
          : 0,
      resolved);
  const Template& pieces =
      is_pair ? post_processor.pair : post_processor.single;
  RowBuilder builder(post_processor, resolved);
  const auto build = [&](std::size_t i, std::size_t j) {
    return builder.build(
        pieces, first, parts.first[i], second, parts.second[j]);
  };
  Encoding row = build(0, 0);
  if (resolved.overflow) {
    // First each truncated part of the first text with all parts of the second,
    // then the kept part of the first text with the truncated parts of the
    // second.
    for (std::size_t i = 1; i <= parts.first.size(); ++i) {
      const bool last = i == parts.first.size();
      for (std::size_t j = last ? 1 : 0; j < parts.second.size(); ++j) {
        row.overflowing.push_back(build(last ? 0 : i, j));
      }
    }
  }
  return row;
}

namespace {

template <typename Value>
void pad_values(
    std::vector<Value>& values,
    std::size_t length,
    const Value& value,
    Side side,
    bool enabled) {
  if (!enabled || values.size() >= length) {
    return;
  }
  const auto at = side == Side::right ? values.end() : values.begin();
  values.insert(at, length - values.size(), value);
}

}  // namespace

void pad_row(
    Encoding& row, std::size_t length, const ResolvedOptions& resolved) {
  const Side side = resolved.padding_side;
  // Vectors that the row lacks stay empty.
  const auto has = [&](const auto& values) {
    return values.size() == row.input_ids.size() && !values.empty();
  };
  const bool types = has(row.token_type_ids) || resolved.token_type_ids;
  const bool special =
      has(row.special_tokens_mask) || resolved.special_tokens_mask;
  const bool offsets = has(row.offset_mapping) || resolved.offsets;
  const bool words = has(row.word_ids) || resolved.words;
  using Zero = std::int64_t;
  if (resolved.attention_mask && row.attention_mask.empty()) {
    row.attention_mask.assign(row.input_ids.size(), 1);
  }
  const bool mask = has(row.attention_mask) || resolved.attention_mask;
  pad_values(row.input_ids, length, resolved.pad_id, side, true);
  pad_values(row.token_type_ids, length, resolved.pad_type_id, side, types);
  pad_values(row.attention_mask, length, Zero{0}, side, mask);
  pad_values(row.special_tokens_mask, length, Zero{1}, side, special);
  pad_values(row.offset_mapping, length, Offsets(), side, offsets);
  pad_values(row.word_ids, length, {}, side, words);
  pad_values(row.sequence_ids, length, {}, side, words);
}

void pad_rows(std::vector<Encoding>& rows, const ResolvedOptions& resolved) {
  if (resolved.padding == PaddingStrategy::do_not_pad) {
    return;
  }
  std::size_t length = 0;
  if (resolved.padding == PaddingStrategy::max_length) {
    length = static_cast<std::size_t>(resolved.max_length);
  } else {
    for (const Encoding& row : rows) {
      length = std::max(length, row.size());
    }
  }
  const auto multiple = static_cast<std::size_t>(resolved.pad_to_multiple_of);
  length = (length + multiple - 1) / multiple * multiple;
  for (Encoding& row : rows) {
    for (Encoding& rest : row.overflowing) {
      pad_row(rest, length, resolved);
    }
    pad_row(row, length, resolved);
  }
}

}  // namespace transformers::tokenizers
