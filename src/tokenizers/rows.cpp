// SPDX-License-Identifier: Apache-2.0
#include "tokenizers/rows.h"

#include <algorithm>
#include <array>

#include "tokenizers/truncation.h"

namespace transformers::tokenizers {
namespace {

// Excludes the spaces at both ends of a token from its offsets. A prefix space
// that the tokenizer inserted is not part of the original text.
Span trim_edge_spaces(
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
  return offsets;
}

// A part of one text, for a row.
struct RowText {
  const Tokens* tokens;  // Null if there is no such text.
  TokenRange range;
  bool is_overflow;
};

class RowBuilder {
 public:
  RowBuilder(
      const PostProcessor& post_processor, const ResolvedOptions& resolved)
      : post_processor_(post_processor), options_(resolved) {}

  Encoding build(
      const Template& pieces, const RowText& first, const RowText& second) {
    row_ = Encoding();
    reserve(first.range.size() + second.range.size() + 8);
    for (const TemplatePiece& piece : pieces) {
      if (piece.kind == TemplatePiece::Kind::special) {
        if (options_.add_special_tokens) {
          add_special(piece);
        }
      } else if (piece.kind == TemplatePiece::Kind::first) {
        add_text(first, piece.type_id, 0);
      } else if (second.tokens != nullptr) {
        add_text(second, piece.type_id, 1);
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
  std::int64_t type_of(
      const RowText& text, std::int64_t type_id, std::size_t sequence) const {
    const bool from_template =
        !text.is_overflow || (post_processor_.overflow_has_template_types &&
                              options_.add_special_tokens);
    return from_template ? type_id : static_cast<std::int64_t>(sequence);
  }
  Offsets trimmed(
      const RowText& text, std::size_t index, std::size_t sequence) const {
    Span offsets = text.tokens->offsets[index];
    for (const OffsetTrim& trim : post_processor_.trims) {
      const bool first =
          index == text.range.begin && !(options_.add_special_tokens &&
                                         trim.follows_special_token[sequence]);
      offsets = trim_edge_spaces(
          offsets,
          text.tokens->edge_spaces[index],
          first,
          trim.add_prefix_space);
    }
    return {offsets.begin, offsets.end};
  }
  void add_text(
      const RowText& text, std::int64_t type_id, std::size_t sequence) {
    const Tokens& tokens = *text.tokens;
    const auto from = static_cast<std::ptrdiff_t>(text.range.begin);
    const auto to = static_cast<std::ptrdiff_t>(text.range.end);
    row_.input_ids.insert(
        row_.input_ids.end(),
        tokens.ids.begin() + from,
        tokens.ids.begin() + to);
    extend_type_ids_and_mask(type_of(text, type_id, sequence), 0);
    if (options_.offsets) {
      for (std::size_t i = text.range.begin; i < text.range.end; ++i) {
        row_.offset_mapping.push_back(trimmed(text, i, sequence));
      }
    }
    if (options_.words) {
      row_.word_ids.insert(
          row_.word_ids.end(),
          tokens.words.begin() + from,
          tokens.words.begin() + to);
      row_.sequence_ids.resize(
          row_.input_ids.size(), static_cast<std::int64_t>(sequence));
    }
  }

  const PostProcessor& post_processor_;
  const ResolvedOptions& options_;
  Encoding row_;
};

// For each text, the index of one of its parts.
using PartIndices = std::array<std::size_t, 2>;

// Returns the combinations of parts for the rows after the first row. Goes
// through the texts in the order of the template, and combines the parts of
// each text with the rows so far.
std::vector<PartIndices> overflow_parts(
    const Template& pieces, const TruncatedParts& parts) {
  std::vector<PartIndices> rows;
  for (const TemplatePiece& piece : pieces) {
    if (piece.kind == TemplatePiece::Kind::special) {
      continue;
    }
    const std::size_t text = piece.kind == TemplatePiece::Kind::first ? 0 : 1;
    const std::size_t count = (text == 0 ? parts.first : parts.second).size();
    std::vector<PartIndices> combined;
    for (PartIndices row : rows) {
      for (row[text] = 0; row[text] < count; ++row[text]) {
        combined.push_back(row);
      }
    }
    PartIndices row = {0, 0};
    for (row[text] = 1; row[text] < count; ++row[text]) {
      combined.push_back(row);
    }
    rows.swap(combined);
  }
  return rows;
}

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
  const auto build = [&](const PartIndices& part) {
    return builder.build(
        pieces,
        {&first, parts.first[part[0]], part[0] > 0},
        {second, parts.second[part[1]], part[1] > 0});
  };
  Encoding row = build({0, 0});
  if (resolved.overflow) {
    for (const PartIndices& part : overflow_parts(pieces, parts)) {
      row.overflowing.push_back(build(part));
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
  // Vectors that are empty in the row and not requested stay empty.
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
  pad_values(row.token_type_ids, length, Zero{0}, side, types);
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
