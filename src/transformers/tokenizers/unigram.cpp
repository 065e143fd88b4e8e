// SPDX-License-Identifier: Apache-2.0
// Unigram: the tokenization of a piece with the highest sum of scores.
#include <limits>
#include <optional>

#include "base/str_cat.h"
#include "transformers/tokenizers/json_cursor.h"
#include "transformers/tokenizers/model.h"
#include "transformers/tokenizers/trie.h"

namespace transformers::tokenizers {

std::string byte_token(unsigned byte);

namespace {

// An unknown character scores this much less than the least likely token.
constexpr double kUnknownPenalty = 10.0;

struct ScoredVocabulary {
  Vocabulary vocabulary;
  std::vector<double> scores;
};

ScoredVocabulary read_scored_vocabulary(
    const ModelText& parts, const std::string& source) {
  ScoredVocabulary result;
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
      cursor.fail(accelerate::str_cat(
          "there are more than ", Vocabulary::kMaxId, " tokens"));
    }
    result.vocabulary.add(token, id);
    result.scores.push_back(score);
  });
  cursor.end();
  return result;
}

class Unigram : public Model {
 public:
  Unigram(const JsonNode& node, ScoredVocabulary scored)
      : Model(std::move(scored.vocabulary)),
        scores_(std::move(scored.scores)),
        byte_fallback_(node.boolean("byte_fallback", false)) {
    if (const auto unknown = node.find("unk_id")) {
      const std::int64_t id = unknown->as_integer();
      if (id < 0 || id >= static_cast<std::int64_t>(scores_.size())) {
        unknown->fail(accelerate::str_cat(
            "the id ",
            id,
            " is not in the vocabulary, whose size is ",
            scores_.size()));
      }
      unk_id_ = static_cast<std::uint32_t>(id);
    } else {
      node.fail("the key `unk_id` is missing");
    }
    double lowest_score = std::numeric_limits<double>::infinity();
    for (const double score : scores_) {
      lowest_score = std::min(lowest_score, score);
    }
    unknown_score_ = lowest_score - kUnknownPenalty;
    vocabulary_.for_each([&](std::string_view token, std::uint32_t id) {
      trie_.add(token, id);
    });
    for (unsigned byte = 0; byte < 256; ++byte) {
      byte_ids_[byte] = vocabulary_.find(byte_token(byte));
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
    // Walk back from the end: the tokens in reverse order.
    thread_local std::vector<Span> path;
    path.clear();
    for (std::size_t end = piece.size(); end > 0; end = best[end].begin) {
      const bool extends_unknown = best[end].id == unk_id_ && !path.empty() &&
                                   best[path.back().end].id == unk_id_;
      const auto begin = best[end].begin;
      if (extends_unknown) {
        path.back().begin =
            begin;  // Consecutive unknown characters are one token.
      } else {
        path.push_back({begin, static_cast<std::uint32_t>(end)});
      }
    }
    for (auto at = path.rbegin(); at != path.rend(); ++at) {
      add(piece, *at, best[at->end].id, sink);
    }
    if (best.capacity() > 65536) {
      std::vector<Best>().swap(best);
      std::vector<Span>().swap(path);
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
      const double score_so_far = best[at].score;
      bool has_single_character = false;
      std::uint32_t node = Trie::kRoot;
      for (std::size_t end = at + 1; end <= piece.size(); ++end) {
        node = trie_.child(node, static_cast<unsigned char>(piece[end - 1]));
        if (node == Trie::kNone) {
          break;
        }
        const std::uint32_t id = trie_.value(node);
        if (id != Trie::kNone) {
          relax(best[end], score_so_far + scores_[id], at, id);
          has_single_character |= end - at == length;
        }
      }
      if (!has_single_character) {
        relax(best[at + length], score_so_far + unknown_score_, at, unk_id_);
      }
      at += length;
    }
  }

  static void relax(
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
    if (id != unk_id_) {
      sink.add(id, part.begin, part.end);
      return;
    }
    const std::string_view text = piece.substr(part.begin, part.size());
    // The unknown characters together may be a token with a lower score.
    if (const auto id_of_run = vocabulary_.find(text)) {
      sink.add(*id_of_run, part.begin, part.end);
    } else if (byte_fallback_ && has_bytes(text)) {
      for (const char byte : text) {
        sink.add(
            *byte_ids_[static_cast<unsigned char>(byte)], part.begin, part.end);
      }
    } else {
      sink.add(unk_id_, part.begin, part.end);
    }
  }

  bool has_bytes(std::string_view text) const {
    for (const char byte : text) {
      if (!byte_ids_[static_cast<unsigned char>(byte)]) {
        return false;
      }
    }
    return true;
  }

  std::vector<double> scores_;
  Trie trie_;
  std::uint32_t unk_id_ = 0;
  double unknown_score_ = 0;
  bool byte_fallback_;
  std::optional<std::uint32_t> byte_ids_[256];
};

}  // namespace

std::unique_ptr<Model> make_unigram(
    const JsonNode& node, const ModelText& text) {
  return std::make_unique<Unigram>(
      node, read_scored_vocabulary(text, node.source()));
}

}  // namespace transformers::tokenizers
