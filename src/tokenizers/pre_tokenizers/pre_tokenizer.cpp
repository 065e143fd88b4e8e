// SPDX-License-Identifier: Apache-2.0
// The pre-tokenizers that split at single characters, and the factory for all
// pre-tokenizers.
#include "tokenizers/pre_tokenizers/pre_tokenizer.h"

#include <utility>

#include "tokenizers/pre_tokenizers/pattern.h"
#include "tokenizers/pre_tokenizers/splitting.h"

namespace transformers::tokenizers {

void BertPreTokenizer::split(Pieces& pieces) const {
  split_at_characters(pieces, SplitBehavior::removed, [](char32_t c) {
    return is_a(c, kSpace);
  });
  split_at_characters(pieces, SplitBehavior::isolated, [](char32_t c) {
    return is_a(c, kPunct);
  });
}

void PreTokenizerSequence::split(Pieces& pieces) const {
  for (const auto& part : parts) {
    part->split(pieces);
  }
}

namespace {

using PreTokenizerPtr = std::unique_ptr<PreTokenizer>;

// Splits at every character of a class.
class ClassSplit : public PreTokenizer {
 public:
  ClassSplit(std::uint16_t classes, SplitBehavior behavior)
      : classes_(classes), behavior_(behavior) {}
  void split(Pieces& pieces) const override {
    split_at_characters(
        pieces, behavior_, [&](char32_t c) { return is_a(c, classes_); });
  }

 private:
  std::uint16_t classes_;
  SplitBehavior behavior_;
};

class CharDelimiterSplit : public PreTokenizer {
 public:
  explicit CharDelimiterSplit(const JsonNode& node) {
    const JsonNode delimiter = node.at("delimiter");
    if (count_characters(delimiter.as_string()) != 1) {
      delimiter.fail("expected one character");
    }
    std::size_t length = 0;
    delimiter_ = read_character(delimiter.as_string().data(), length);
  }
  void split(Pieces& pieces) const override {
    split_at_characters(pieces, SplitBehavior::removed, [&](char32_t c) {
      return c == delimiter_;
    });
  }

 private:
  char32_t delimiter_;
};

// Splits into runs of word characters and runs of other non-space characters.
class Whitespace : public PreTokenizer {
 public:
  void split(Pieces& pieces) const override {
    std::vector<Span> result;
    for (const Span& piece : pieces.ranges) {
      add(pieces.view(piece), piece.begin, result);
    }
    pieces.ranges.swap(result);
  }

 private:
  enum class Kind { space, word, other };
  static Kind kind_of(char32_t c) {
    const std::uint16_t classes = CharacterTable::get()[c];
    return (classes & kWord) != 0    ? Kind::word
           : (classes & kSpace) != 0 ? Kind::space
                                     : Kind::other;
  }
  static void add(
      std::string_view text, std::uint32_t offset, std::vector<Span>& out) {
    Kind previous = Kind::space;
    for (std::size_t at = 0; at < text.size();) {
      std::size_t length = 0;
      const Kind kind = kind_of(read_character(text.data() + at, length));
      const auto begin = static_cast<std::uint32_t>(offset + at);
      const auto end = begin + static_cast<std::uint32_t>(length);
      if (kind != Kind::space) {
        if (kind == previous) {
          out.back().end = end;
        } else {
          out.push_back({begin, end});
        }
      }
      previous = kind;
      at += length;
    }
  }
};

class FixedLength : public PreTokenizer {
 public:
  explicit FixedLength(const JsonNode& node)
      : length_(node.integer("length", 5)) {
    if (length_ < 1) {
      node.at("length").fail("expected 1 or more");
    }
  }
  void split(Pieces& pieces) const override {
    std::vector<Span> result;
    for (const Span& piece : pieces.ranges) {
      std::int64_t count = 0;
      for (std::uint32_t at = piece.begin; at < piece.end;) {
        const auto next = static_cast<std::uint32_t>(
            at + utf8_length(static_cast<unsigned char>(pieces.text.text[at])));
        if (count++ % length_ == 0) {
          result.push_back({at, next});
        } else {
          result.back().end = next;
        }
        at = next;
      }
    }
    pieces.ranges.swap(result);
  }

 private:
  std::int64_t length_;
};

PreTokenizerPtr make_byte_level(const JsonNode& node) {
  return std::make_unique<ByteLevelPreTokenizer>(
      node.boolean("add_prefix_space"), node.boolean("use_regex", true));
}

PreTokenizerPtr make_digits(const JsonNode& node) {
  return std::make_unique<ClassSplit>(
      kNumeric,
      node.boolean("individual_digits") ? SplitBehavior::isolated
                                        : SplitBehavior::contiguous);
}

PreTokenizerPtr make_punctuation(const JsonNode& node) {
  const auto behavior = node.find("behavior");
  return std::make_unique<ClassSplit>(
      kPunct, behavior ? split_behavior(*behavior) : SplitBehavior::isolated);
}

PreTokenizerPtr make_sequence(const JsonNode& node) {
  auto sequence = std::make_unique<PreTokenizerSequence>();
  for (const JsonNode& part : node.at("pretokenizers").elements()) {
    sequence->parts.push_back(make_pre_tokenizer(part));
  }
  return sequence;
}

PreTokenizerPtr make_whitespace_split(const JsonNode&) {
  return std::make_unique<ClassSplit>(kSpace, SplitBehavior::removed);
}

template <typename Kind>
PreTokenizerPtr make(const JsonNode&) {
  return std::make_unique<Kind>();
}

template <typename Kind>
PreTokenizerPtr make_from(const JsonNode& node) {
  return std::make_unique<Kind>(node);
}

}  // namespace

std::unique_ptr<PreTokenizer> make_pre_tokenizer(const JsonNode& node) {
  using Make = PreTokenizerPtr (*)(const JsonNode&);
  static const std::vector<std::pair<std::string, Make>> factories = {
      {"BertPreTokenizer", make<BertPreTokenizer>},
      {"ByteLevel", make_byte_level},
      {"CharDelimiterSplit", make_from<CharDelimiterSplit>},
      {"Digits", make_digits},
      {"FixedLength", make_from<FixedLength>},
      {"Metaspace", make_metaspace},
      {"Punctuation", make_punctuation},
      {"Sequence", make_sequence},
      {"Split", make_split},
      {"Whitespace", make<Whitespace>},
      {"WhitespaceSplit", make_whitespace_split},
  };
  const std::string type = node.type();
  std::vector<std::string> names;
  for (const auto& [name, factory] : factories) {
    if (name == type) {
      return factory(node);
    }
    names.push_back(name);
  }
  node.at("type").fail_unknown("pre-tokenizer", type, names);
}

}  // namespace transformers::tokenizers
