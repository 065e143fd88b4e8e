// SPDX-License-Identifier: Apache-2.0
// Unigram: the way through a piece whose tokens' scores add up highest.
#include <limits>
#include <optional>

#include "base/str_cat.h"
#include "transformers/tokenizers/json_cursor.h"
#include "transformers/tokenizers/model.h"
#include "transformers/tokenizers/trie.h"

namespace transformers::tokenizers {

std::string byte_token(unsigned byte);

namespace {

// An unknown character costs this much more than the least likely token.
constexpr double kUnknownPenalty = 10.0;

struct Scored {
  Vocabulary vocabulary;
  std::vector<double> scores;
};

Scored read_scored(const ModelText& parts, const std::string& source) {
  Scored result;
  const std::string_view text = parts.vocab;
  result.vocabulary.reserve(parts.vocab_size, text.size() / 2);
  JsonCursor cursor(text, source, "$.model.vocab", parts.mapped);
  cursor.array([&] {
    std::size_t part = 0;
    std::string scratch;
    std::string_view token;
    double score = 0;
    cursor.array([&] {
      if (part == 0) {
        token = cursor.string(scratch);
      } else {
        score = cursor.number();
      }
      ++part;
    });
    if (part != 2) {
      cursor.fail("expected a token and its score");
    }
    const auto id = static_cast<std::uint32_t>(result.scores.size());
    if (id >= Vocabulary::kMaxId) {
      cursor.fail("too many tokens");
    }
    result.vocabulary.add(token, id);
    result.scores.push_back(score);
  });
  cursor.end();
  return result;
}

class Unigram : public Model {
 public:
  Unigram(const JsonNode& node, Scored scored)
      : Model(std::move(scored.vocabulary)),
        scores_(std::move(scored.scores)),
        byte_fallback_(node.boolean("byte_fallback", false)) {
    if (const auto unknown = node.find("unk_id")) {
      const std::int64_t id = unknown->as_integer();
      if (id < 0 || id >= static_cast<std::int64_t>(scores_.size())) {
        unknown->fail(accelerate::str_cat(
            id, " is no id of a vocabulary of ", scores_.size()));
      }
      unknown_ = static_cast<std::uint32_t>(id);
    } else {
      node.fail("the key `unk_id` is missing");
    }
    double least = std::numeric_limits<double>::infinity();
    for (const double score : scores_) {
      least = std::min(least, score);
    }
    unknown_score_ = least - kUnknownPenalty;
    vocabulary_.for_each([&](std::string_view token, std::uint32_t id) {
      trie_.add(token, id);
    });
    for (unsigned byte = 0; byte < 256; ++byte) {
      bytes_[byte] = vocabulary_.find(byte_token(byte));
    }
  }

  std::string_view name() const override { return "Unigram"; }

  accelerate::Json vocab_json() const override {
    accelerate::Json::Array entries;
    for (std::uint32_t id = 0; id < scores_.size(); ++id) {
      entries.push_back(accelerate::Json::array(
          {vocabulary_.text(id).value_or(""), scores_[id]}));
    }
    return entries;
  }

  void tokenize(std::string_view piece, TokenSink& sink) const override {
    thread_local std::vector<Best> best;
    find_best(piece, best);
    // The way back, from the end: tokens in reverse.
    thread_local std::vector<Span> way;
    way.clear();
    for (std::size_t end = piece.size(); end > 0; end = best[end].begin) {
      const bool joins = best[end].id == unknown_ && !way.empty() &&
                         best[way.back().end].id == unknown_;
      const auto begin = best[end].begin;
      if (joins) {
        way.back().begin = begin;  // Unknown characters in a row are one.
      } else {
        way.push_back({begin, static_cast<std::uint32_t>(end)});
      }
    }
    for (auto at = way.rbegin(); at != way.rend(); ++at) {
      add(piece, *at, best[at->end].id, sink);
    }
    if (best.capacity() > 65536) {
      std::vector<Best>().swap(best);
      std::vector<Span>().swap(way);
    }
  }

 private:
  struct Best {
    double score = 0;
    std::uint32_t begin = 0;
    std::uint32_t id = 0;
    bool reached = false;
  };

  void find_best(std::string_view piece, std::vector<Best>& best) const {
    best.assign(piece.size() + 1, {});
    for (std::size_t at = 0; at < piece.size();) {
      const std::size_t length =
          utf8_length(static_cast<unsigned char>(piece[at]));
      const double till_here = best[at].score;
      bool single = false;
      std::uint32_t node = Trie::kRoot;
      for (std::size_t end = at + 1; end <= piece.size(); ++end) {
        node = trie_.child(node, static_cast<unsigned char>(piece[end - 1]));
        if (node == Trie::kNone) {
          break;
        }
        const std::uint32_t id = trie_.value(node);
        if (id != Trie::kNone) {
          offer(best[end], till_here + scores_[id], at, id);
          single |= end - at == length;
        }
      }
      if (!single) {
        offer(best[at + length], till_here + unknown_score_, at, unknown_);
      }
      at += length;
    }
  }

  static void offer(
      Best& target, double score, std::size_t begin, std::uint32_t id) {
    if (!target.reached || score > target.score) {
      target = {score, static_cast<std::uint32_t>(begin), id, true};
    }
  }

  void add(
      std::string_view piece,
      const Span& part,
      std::uint32_t id,
      TokenSink& sink) const {
    if (id != unknown_) {
      sink.add(id, part.begin, part.end);
      return;
    }
    const std::string_view text = piece.substr(part.begin, part.size());
    // Unknown characters together may spell a token that scores less.
    if (const auto known = vocabulary_.find(text)) {
      sink.add(*known, part.begin, part.end);
    } else if (byte_fallback_ && has_bytes(text)) {
      for (const char byte : text) {
        sink.add(
            *bytes_[static_cast<unsigned char>(byte)], part.begin, part.end);
      }
    } else {
      sink.add(unknown_, part.begin, part.end);
    }
  }

  bool has_bytes(std::string_view text) const {
    for (const char byte : text) {
      if (!bytes_[static_cast<unsigned char>(byte)]) {
        return false;
      }
    }
    return true;
  }

  std::vector<double> scores_;
  Trie trie_;
  std::uint32_t unknown_ = 0;
  double unknown_score_ = 0;
  bool byte_fallback_;
  std::optional<std::uint32_t> bytes_[256];
};

}  // namespace

std::unique_ptr<Model> make_unigram(
    const JsonNode& node, const ModelText& text) {
  return std::make_unique<Unigram>(node, read_scored(text, node.source()));
}

}  // namespace transformers::tokenizers
