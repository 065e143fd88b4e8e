// SPDX-License-Identifier: Apache-2.0
// Runs the stages over one text.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "transformers/tokenizers/pipeline.h"
#include "transformers/tokenizers/word_cache.h"

namespace transformers::tokenizers {

/// Spaces at the ends of a token's own text.
struct Blanks {
  std::uint32_t leading = 0;
  std::uint32_t trailing = 0;
};

/// How much of a text a token stands for.
struct TokenShape {
  std::uint32_t bytes = 0;
  Blanks blanks;
};

/// The tokens of one sequence. The other vectors are as long as `ids` when the
/// sequence was tracked, and empty otherwise; `blanks` only where the
/// post-processor trims offsets.
struct Tokens {
  std::vector<std::uint32_t> ids;
  std::vector<Span> offsets;  // In characters.
  std::vector<std::uint32_t> words;
  std::vector<Blanks> blanks;
  std::uint32_t next_word = 0;

  void clear();
  std::size_t size() const { return ids.size(); }
};

/// What one thread needs while it encodes; kept between calls, since the
/// words it remembers are what makes encoding fast.
struct Workspace {
  Workspace();

  ShortWords short_words;
  LongWords long_words;
  Pieces pieces;
  std::vector<Cut> before;
  std::vector<Cut> after;
  Tokens scratch;
  AlignedText normalized;
  std::string padded;
};

class Engine {
 public:
  explicit Engine(std::unique_ptr<Pipeline> pipeline);

  const Pipeline& pipeline() const { return *pipeline_; }
  /// Appends the tokens of a text, without special tokens. Throws
  /// `ArgumentError` when it is not UTF-8. Thread-safe with a workspace each.
  void encode(
      std::string_view text,
      bool track,
      Workspace& workspace,
      Tokens& tokens) const;

  /// Lends a workspace until the pointer goes.
  class Lease {
   public:
    explicit Lease(const Engine& engine);
    ~Lease();
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    Workspace& operator*() { return *workspace_; }

   private:
    const Engine& engine_;
    std::unique_ptr<Workspace> workspace_;
  };

 private:
  enum class Path { general, bytes, bert };

  void encode_plain(
      std::string_view text, Workspace& workspace, Tokens& tokens) const;
  void encode_bytes(
      std::string_view text, Workspace& workspace, Tokens& tokens) const;
  void encode_bert(
      std::string_view text, Workspace& workspace, Tokens& tokens) const;
  void encode_bert_chunk(
      std::string_view chunk, bool plain, Workspace& workspace) const;
  /// The same with offsets, of a text that begins at `base`.
  void track_plain(
      std::string_view text,
      std::uint32_t base,
      Workspace& workspace,
      Tokens& tokens) const;
  void track_bytes(
      std::string_view text,
      std::uint32_t base,
      Workspace& workspace,
      Tokens& tokens) const;
  void track_bert(
      std::string_view text,
      std::uint32_t base,
      Workspace& workspace,
      Tokens& tokens) const;
  void track_bert_chunk(
      std::string_view chunk,
      std::uint32_t base,
      Workspace& workspace,
      Tokens& tokens) const;
  const TokenShape& shape_of(std::uint32_t id) const { return shapes_[id]; }
  void make_shapes() const;
  void encode_pieces(Workspace& workspace, Tokens& tokens) const;
  void encode_segment(
      std::string_view text,
      Span range,
      bool track,
      Workspace& workspace,
      Tokens& tokens) const;
  void encode_normalized(
      const Span& range, Workspace& workspace, Tokens& tokens) const;
  void add_added(
      const AddedToken& token,
      std::string_view text,
      const Span& original,
      bool track,
      Tokens& tokens) const;
  bool begins_sentence(std::string_view text, const Span& range) const;
  Blanks blanks_of(std::string_view token) const;

  std::unique_ptr<Pipeline> pipeline_;
  Path path_ = Path::general;
  Scanner scanner_ = Scanner::none;
  bool lowercase_ = false;
  std::size_t subword_prefix_ = 0;  // Bytes of WordPiece's `##`.
  bool tracks_plain_ = false;       // Whether `track_plain` can be used.
  mutable std::once_flag shapes_once_;
  mutable std::vector<TokenShape> shapes_;  // By id, once offsets are wanted.
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Workspace>> idle_;
};

}  // namespace transformers::tokenizers
