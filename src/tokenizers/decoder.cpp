// SPDX-License-Identifier: Apache-2.0
#include "tokenizers/decoder.h"

#include <array>
#include <utility>

#include "base/text.h"
#include "tokenizers/pre_tokenizers/metaspace.h"
#include "tokenizers/pre_tokenizers/pattern.h"
#include "tokenizers/text/byte_level.h"
#include "tokenizers/text/unicode.h"

namespace transformers::tokenizers {
namespace {

using TokenTexts = std::vector<std::string>;
using DecoderPtr = std::unique_ptr<Decoder>;
using accelerate::replace_all;

// A decoder that calls one function.
template <typename Function>
class FunctionDecoder : public Decoder {
 public:
  explicit FunctionDecoder(Function function)
      : function_(std::move(function)) {}
  void decode(TokenTexts& tokens) const override { function_(tokens); }

 private:
  Function function_;
};

template <typename Function>
DecoderPtr decoder_from(Function function) {
  return std::make_unique<FunctionDecoder<Function>>(std::move(function));
}

void fuse(TokenTexts& tokens) {
  std::string all;
  for (const std::string& token : tokens) {
    all += token;
  }
  tokens.assign(1, std::move(all));
}

// A token with characters other than byte characters is returned unchanged.
std::string token_bytes(const std::string& token) {
  std::string bytes;
  for (std::size_t at = 0; at < token.size();) {
    std::size_t length = 0;
    const int byte = unicode_to_byte(read_character(token.data() + at, length));
    if (byte < 0) {
      return token;
    }
    bytes.push_back(static_cast<char>(byte));
    at += length;
  }
  return bytes;
}

void decode_byte_level(TokenTexts& tokens) {
  std::string all;
  for (const std::string& token : tokens) {
    all += token_bytes(token);
  }
  tokens.assign(1, replace_invalid_utf8(all));
}

// The WordPiece decoder replaces one more phrase than `clean_up_tokenization`.
std::string clean_up(std::string text) {
  static constexpr std::array<std::array<const char*, 2>, 11> kPhrases = {{
      {" .", "."},
      {" ?", "?"},
      {" !", "!"},
      {" ,", ","},
      {" ' ", "'"},
      {" n't", "n't"},
      {" 'm", "'m"},
      {" do not", " don't"},
      {" 's", "'s"},
      {" 've", "'ve"},
      {" 're", "'re"},
  }};
  for (const auto& [from, to] : kPhrases) {
    text = replace_all(std::move(text), from, to);
  }
  return text;
}

DecoderPtr make_word_piece_decoder(const JsonNode& node) {
  return decoder_from(
      [prefix = node.string("prefix", "##"),
       cleanup = node.boolean("cleanup", true)](TokenTexts& tokens) {
        for (std::size_t i = 0; i < tokens.size(); ++i) {
          if (i > 0) {
            if (tokens[i].starts_with(prefix)) {
              tokens[i].erase(0, prefix.size());
            } else {
              std::string spaced(1, ' ');
              spaced += tokens[i];
              tokens[i] = std::move(spaced);
            }
          }
          if (cleanup) {
            tokens[i] = clean_up(std::move(tokens[i]));
          }
        }
      });
}

DecoderPtr make_metaspace_decoder(const JsonNode& node) {
  return decoder_from([options = read_metaspace(node)](TokenTexts& tokens) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const bool drop = i == 0 && options.scheme != PrependScheme::never;
      tokens[i] = replace_all(
          std::move(tokens[i]), options.replacement, drop ? "" : " ");
    }
  });
}

DecoderPtr make_bpe_decoder(const JsonNode& node) {
  return decoder_from(
      [suffix = node.string("suffix", "</w>")](TokenTexts& tokens) {
        for (std::size_t i = 0; i < tokens.size() && !suffix.empty(); ++i) {
          tokens[i] = replace_all(
              std::move(tokens[i]), suffix, i + 1 < tokens.size() ? " " : "");
        }
      });
}

DecoderPtr make_ctc(const JsonNode& node) {
  return decoder_from(
      [pad = node.string("pad_token", "<pad>"),
       delimiter = node.string("word_delimiter_token", "|"),
       cleanup = node.boolean("cleanup", true)](TokenTexts& tokens) {
        TokenTexts result;
        for (std::size_t i = 0; i < tokens.size(); ++i) {
          if (i > 0 && tokens[i] == tokens[i - 1]) {
            continue;
          }
          std::string text =
              pad.empty() ? tokens[i] : replace_all(tokens[i], pad, "");
          if (cleanup) {
            text = clean_up(std::move(text));
            if (!delimiter.empty()) {
              text = replace_all(std::move(text), delimiter, " ");
            }
          }
          if (!text.empty()) {
            result.push_back(std::move(text));
          }
        }
        tokens.swap(result);
      });
}

DecoderPtr make_strip_decoder(const JsonNode& node) {
  const JsonNode content = node.at("content");
  if (count_characters(content.as_string()) != 1) {
    content.fail("expected one character");
  }
  return decoder_from([character = content.as_string(),
                       start = node.integer("start"),
                       stop = node.integer("stop")](TokenTexts& tokens) {
    for (std::string& token : tokens) {
      for (auto i = start; i > 0 && token.starts_with(character); --i) {
        token.erase(0, character.size());
      }
      for (auto i = stop; i > 0 && token.ends_with(character); --i) {
        token.resize(token.size() - character.size());
      }
    }
  });
}

// Returns the byte that a token such as `<0x41>` stands for, or -1.
int byte_of_token(const std::string& token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') {
    return -1;
  }
  int value = 0;
  for (const char c : token.substr(3, 2)) {
    const auto digit =
        std::string_view("0123456789abcdef")
            .find(static_cast<char>(c >= 'A' && c <= 'F' ? c + 32 : c));
    if (digit == std::string_view::npos) {
      return -1;
    }
    value = value * 16 + static_cast<int>(digit);
  }
  return value;
}

void decode_byte_fallback(TokenTexts& tokens) {
  TokenTexts result;
  std::string bytes;
  const auto flush = [&] {
    if (bytes.empty()) {
      return;
    }
    if (find_invalid_utf8(bytes) == std::string_view::npos) {
      result.push_back(bytes);
    } else {
      result.insert(result.end(), bytes.size(), "\xEF\xBF\xBD");
    }
    bytes.clear();
  };
  for (std::string& token : tokens) {
    const int byte = byte_of_token(token);
    if (byte >= 0) {
      bytes.push_back(static_cast<char>(byte));
    } else {
      flush();
      result.push_back(std::move(token));
    }
  }
  flush();
  tokens.swap(result);
}

class ReplaceDecoder : public Decoder {
 public:
  explicit ReplaceDecoder(const JsonNode& node)
      : pattern_(make_pattern(node.at("pattern"))),
        content_(node.string("content")) {}
  void decode(TokenTexts& tokens) const override {
    std::vector<Span> matches;
    for (std::string& token : tokens) {
      matches.clear();
      pattern_->find(token, matches);
      std::string result;
      std::size_t at = 0;
      for (const Span& match : matches) {
        result.append(token, at, match.begin - at);
        result += content_;
        at = match.end;
      }
      result.append(token, at);
      token = std::move(result);
    }
  }

 private:
  std::unique_ptr<Pattern> pattern_;
  std::string content_;
};

class SequenceDecoder : public Decoder {
 public:
  explicit SequenceDecoder(const JsonNode& node) {
    for (const JsonNode& part : node.at("decoders").elements()) {
      parts_.push_back(make_decoder(part));
    }
  }
  void decode(TokenTexts& tokens) const override {
    for (const DecoderPtr& part : parts_) {
      part->decode(tokens);
    }
  }

 private:
  std::vector<DecoderPtr> parts_;
};

template <void (*function)(TokenTexts&)>
DecoderPtr make_stateless(const JsonNode&) {
  return decoder_from([](TokenTexts& tokens) { function(tokens); });
}

template <typename Type>
DecoderPtr make_from(const JsonNode& node) {
  return std::make_unique<Type>(node);
}

}  // namespace

std::unique_ptr<Decoder> make_decoder(const JsonNode& node) {
  using Make = DecoderPtr (*)(const JsonNode&);
  static const std::vector<std::pair<std::string, Make>> factories = {
      {"BPEDecoder", make_bpe_decoder},
      {"ByteFallback", make_stateless<decode_byte_fallback>},
      {"ByteLevel", make_stateless<decode_byte_level>},
      {"CTC", make_ctc},
      {"Fuse", make_stateless<fuse>},
      {"Metaspace", make_metaspace_decoder},
      {"Replace", make_from<ReplaceDecoder>},
      {"Sequence", make_from<SequenceDecoder>},
      {"Strip", make_strip_decoder},
      {"WordPiece", make_word_piece_decoder},
  };
  const std::string type = node.type();
  std::vector<std::string> names;
  for (const auto& [name, make] : factories) {
    if (name == type) {
      return make(node);
    }
    names.push_back(name);
  }
  node.at("type").fail_unknown("decoder", type, names);
}

std::string clean_up_tokenization(std::string text) {
  static constexpr std::array<std::array<const char*, 2>, 10> kPhrases = {{
      {" .", "."},
      {" ?", "?"},
      {" !", "!"},
      {" ,", ","},
      {" ' ", "'"},
      {" n't", "n't"},
      {" 'm", "'m"},
      {" 's", "'s"},
      {" 've", "'ve"},
      {" 're", "'re"},
  }};
  for (const auto& [from, to] : kPhrases) {
    text = replace_all(std::move(text), from, to);
  }
  return text;
}

}  // namespace transformers::tokenizers
