// SPDX-License-Identifier: Apache-2.0
// Unigram: tokenizes each piece so that the sum of the tokens' scores is as
// high as possible.
#include <limits>
#include <optional>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "tokenizers/files/json_cursor.h"
#include "tokenizers/models/model.h"
#include "tokenizers/text/trie.h"

namespace transformers::tokenizers {

std::string byte_token(unsigned byte);

namespace {

// An unknown character scores this much less than the least likely token.
constexpr double kUnknownPenalty = 10.0;

struct ScoredVocabulary {
  Vocabulary vocabulary;
  std::vector<double> scores;
};

// Calls `each(token, score)` for every entry. `each` may use the cursor to
// report an error at the entry.
template <typename Each>
void for_each_scored_token(
    const ModelText& parts, const std::string& source, Each each) {
  JsonCursor cursor(parts.vocab, source, "$.model.vocab", parts.mapped);
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
    each(cursor, token, score);
  });
  cursor.end();
}

ScoredVocabulary read_scored_vocabulary(
    const ModelText& parts, const std::string& source) {
  ScoredVocabulary result;
  result.vocabulary.reserve(parts.vocab_size, parts.vocab.size() / 2);
  for_each_scored_token(
      parts,
      source,
      [&](const JsonCursor& cursor, std::string_view token, double score) {
        const auto id = static_cast<std::uint32_t>(result.scores.size());
        if (id >= Vocabulary::kMaxId) {
          cursor.fail(accelerate::str_cat(
              "there are more than ", Vocabulary::kMaxId, " tokens"));
        }
        if (!result.vocabulary.add(token, id)) {
          cursor.fail(accelerate::str_cat(
              "the token `", accelerate::printable(token), "` appears twice"));
        }
        result.scores.push_back(score);
      });
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

  // The text of an unknown token consists of the unknown characters.
  std::string_view token_text(
      std::uint32_t id,
      std::string_view piece,
      const Span& part) const override {
    return id == unk_id_ ? piece.substr(part.begin, part.size())
                         : Model::token_text(id, piece, part);
  }

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
    // Walks back from the end, so the tokens are in reverse order.
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
        relax(
            best[at + length],
            score_so_far + unknown_score_,
            at,
            unknown_id(piece.substr(at, length)));
      }
      at += length;
    }
  }

  std::uint32_t unknown_id(std::string_view character) const {
    if (unk_id_ == Trie::kNone) {
      throw accelerate::ArgumentError(
          accelerate::str_cat(
              "`",
              accelerate::printable(character),
              "` is not in the vocabulary, and the tokenizer has no unknown "
              "token (`unk_id` is null)"),
          "use a tokenizer with an unknown token");
    }
    return unk_id_;
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
    // The whole run of unknown characters may be a token whose score is lower
    // than the score of the unknown characters.
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
  std::uint32_t unk_id_ = Trie::kNone;
  double unknown_score_ = 0;
  bool byte_fallback_;
  std::optional<std::uint32_t> byte_ids_[256];
};

}  // namespace

std::optional<std::uint32_t> find_in_unigram_vocabulary(
    const ModelText& text,
    const std::string& source,
    std::string_view token,
    std::optional<double> score) {
  std::optional<std::uint32_t> found;
  std::uint32_t id = 0;
  for_each_scored_token(
      text,
      source,
      [&](const JsonCursor&, std::string_view entry, double entry_score) {
        if (!found && entry == token && (!score || entry_score == *score)) {
          found = id;
        }
        ++id;
      });
  return found;
}

std::unique_ptr<Model> make_unigram(
    const JsonNode& node, const ModelText& text) {
  return std::make_unique<Unigram>(
      node, read_scored_vocabulary(text, node.source()));
}

}  // namespace transformers::tokenizers
