// SPDX-License-Identifier: Apache-2.0
// Runs the tokenizer stages on one text.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "tokenizers/models/word_cache.h"
#include "tokenizers/pipeline.h"

namespace transformers::tokenizers {

/// The numbers of spaces at the beginning and at the end of a token's text.
struct EdgeSpaces {
  std::uint32_t leading = 0;
  std::uint32_t trailing = 0;
};

/// How much text a token covers.
struct TokenExtent {
  std::uint32_t bytes = 0;
  EdgeSpaces edge_spaces;
};

/// The tokens of one sequence. `offsets` and `words` are empty unless offsets
/// are tracked. `edge_spaces` is empty unless offsets are tracked and the
/// post-processor trims them. Vectors that are not empty are as long as `ids`.
struct Tokens {
  std::vector<std::uint32_t> ids;
  std::vector<Span> offsets;  // Offsets are in characters.
  std::vector<std::uint32_t> words;
  std::vector<EdgeSpaces> edge_spaces;
  std::uint32_t next_word = 0;

  void clear();
  std::size_t size() const { return ids.size(); }
};

/// The state of one encoding thread. A workspace is reused between calls,
/// because its word caches make encoding fast.
struct Workspace {
  Workspace();

  ShortWords short_words;
  LongWords long_words;
  Pieces pieces;
  std::vector<Segment> raw_segments;
  std::vector<Segment> normalized_segments;
  Tokens scratch;
  AlignedText normalized;
  std::string lowercased;
};

class Engine {
 public:
  explicit Engine(std::unique_ptr<Pipeline> pipeline);

  const Pipeline& pipeline() const { return *pipeline_; }
  /// Appends the tokens of a text, without adding special tokens. Also appends
  /// the tokens' offsets if `track` is true. Throws `ArgumentError` when the
  /// text is not UTF-8. Thread-safe if each thread uses its own workspace.
  void encode(
      std::string_view text,
      bool track,
      Workspace& workspace,
      Tokens& tokens) const;

  /// Borrows a workspace from the engine for the lifetime of the lease.
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

  void encode_fast(
      std::string_view text, Workspace& workspace, Tokens& tokens) const;
  void encode_bytes(
      std::string_view text, Workspace& workspace, Tokens& tokens) const;
  void encode_bert(
      std::string_view text, Workspace& workspace, Tokens& tokens) const;
  void encode_bert_chunk(
      std::string_view chunk, bool plain_ascii, Workspace& workspace) const;
  /// Like `encode_fast`, but with offsets. `text` is the part of the sentence
  /// that begins at byte `base`.
  void track_fast(
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
  const TokenExtent& extent_of(std::uint32_t id) const { return extents_[id]; }
  void compute_extents() const;
  void encode_pieces(Workspace& workspace, Tokens& tokens) const;
  void encode_segment(
      std::string_view text,
      Span range,
      bool track,
      Workspace& workspace,
      Tokens& tokens) const;
  void encode_normalized(
      const Span& range, Workspace& workspace, Tokens& tokens) const;
  void add_added_token(
      const AddedToken& token,
      std::string_view text,
      const Span& original,
      bool track,
      Tokens& tokens) const;
  bool begins_sentence(std::string_view text, const Span& range) const;
  EdgeSpaces edge_spaces_of(std::string_view token) const;

  std::unique_ptr<Pipeline> pipeline_;
  Path path_ = Path::general;
  std::vector<Scanner> scanners_;  // The scanners of `Path::bytes`.
  bool lowercase_ = false;
  std::size_t subword_prefix_ = 0;  // Size of WordPiece's `##` in bytes.
  bool tracks_fast_ = false;        // Whether `track_fast` can be used.
  mutable std::once_flag extents_once_;
  // Indexed by id; computed on first use.
  mutable std::vector<TokenExtent> extents_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Workspace>> idle_workspaces_;
};

}  // namespace transformers::tokenizers
