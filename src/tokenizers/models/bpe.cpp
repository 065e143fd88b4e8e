// SPDX-License-Identifier: Apache-2.0
#include "tokenizers/models/bpe.h"

#include <algorithm>
#include <set>

#include "base/str_cat.h"
#include "base/text.h"
#include "tokenizers/models/merge_reader.h"
#include "tokenizers/text/byte_level.h"

namespace transformers::tokenizers {

using accelerate::printable;
using accelerate::str_cat;

std::string byte_token(unsigned byte) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  return str_cat("<0x", kDigits[byte / 16], kDigits[byte % 16], ">");
}

Bpe::Bpe(BpeOptions options, Vocabulary vocabulary, MergeTable merges)
    : Model(std::move(vocabulary)),
      options_(std::move(options)),
      merges_(std::move(merges)) {
  if (!options_.unk_token.empty()) {
    unk_id_ = vocabulary_.find(options_.unk_token);
  }
  for (unsigned byte = 0; byte < 256; ++byte) {
    fallback_ids_[byte] = vocabulary_.find(byte_token(byte));
  }
}

accelerate::Json Bpe::merges_json() const {
  struct Entry {
    std::uint32_t rank, left, right;
  };
  std::vector<Entry> entries;
  merges_.for_each(
      [&](std::uint32_t left, std::uint32_t right, const Merge& merge) {
        entries.push_back({merge.rank, left, right});
      });
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.rank < b.rank;
  });
  accelerate::Json::Array merges;
  for (const Entry& entry : entries) {
    merges.push_back(accelerate::Json::array(
        {*vocabulary_.text(entry.left), *vocabulary_.text(entry.right)}));
  }
  return merges;
}

bool Bpe::use_raw_bytes() {
  if (has_affixes()) {
    return false;
  }
  std::array<std::uint32_t, 256> ids;
  for (unsigned byte = 0; byte < 256; ++byte) {
    std::string character;
    append_character(character, byte_to_unicode_table()[byte]);
    const auto id = vocabulary_.find(character);
    if (!id) {
      return false;
    }
    ids[byte] = *id;
  }
  byte_ids_ = ids;
  return true;
}

const CharacterIds& Bpe::character_ids() const {
  return characters_.get(
      [&] { return std::make_unique<CharacterIds>(vocabulary_); });
}

std::size_t Bpe::first_part(std::string_view piece) const {
  // With `ignore_merges`, a part whose text is a token would become this token,
  // even if the merges of the whole piece give other tokens.
  if (has_affixes() || options_.ignore_merges) {
    return piece.size();
  }
  const BpeParts& parts = parts_.get([&] {
    return byte_ids_
               ? make_byte_parts(vocabulary_, merges_)
               : make_character_parts(
                     vocabulary_,
                     merges_,
                     unknown_characters_are_separate() ? nullptr
                                                       : &character_ids());
  });
  return parts.first_part(piece);
}

bool Bpe::unknown_characters_are_separate() const {
  if (!options_.byte_fallback) {
    return false;
  }
  std::set<std::uint32_t> bytes;
  for (const auto& id : fallback_ids_) {
    if (!id) {
      return false;
    }
    bytes.insert(*id);
  }
  bool separate = true;
  merges_.for_each([&](std::uint32_t left, std::uint32_t right, const Merge&) {
    separate = separate && !bytes.contains(left) && !bytes.contains(right);
  });
  return separate;
}

bool Bpe::append_byte_tokens(
    std::string_view text, std::vector<Symbol>& symbols) const {
  for (const char byte : text) {
    if (!fallback_ids_[static_cast<unsigned char>(byte)]) {
      return false;
    }
  }
  for (const char byte : text) {
    symbols.push_back({*fallback_ids_[static_cast<unsigned char>(byte)], 1});
  }
  return true;
}

void Bpe::split_characters(
    std::string_view piece, std::vector<Symbol>& symbols) const {
  const CharacterIds& characters = character_ids();
  const bool affixes = has_affixes();
  std::string affixed;
  // Length of unknown characters not yet added.
  std::uint32_t pending_unknown_bytes = 0;
  const auto flush = [&] {
    if (pending_unknown_bytes > 0) {
      symbols.push_back({*unk_id_, pending_unknown_bytes});
      pending_unknown_bytes = 0;
    }
  };
  for (std::size_t at = 0; at < piece.size();) {
    std::size_t length = 0;
    const char32_t c = read_character(piece.data() + at, length);
    std::string_view text = piece.substr(at, length);
    const bool first = at == 0;
    at += length;
    std::uint32_t id = CharacterIds::kNone;
    if (!affixes) {
      id = characters[c];
    } else {
      affixed = first ? "" : options_.continuing_subword_prefix;
      affixed += text;
      affixed += at == piece.size() ? options_.end_of_word_suffix : "";
      text = affixed;
      id = vocabulary_.find(text).value_or(CharacterIds::kNone);
    }
    if (id != CharacterIds::kNone) {
      flush();
      symbols.push_back({id, static_cast<std::uint32_t>(length)});
    } else if (options_.byte_fallback && append_byte_tokens(text, symbols)) {
      // A pending unknown symbol stays pending, as in Hugging Face
      // `tokenizers`.
    } else if (unk_id_) {
      if (!options_.fuse_unk) {
        flush();
      }
      pending_unknown_bytes += static_cast<std::uint32_t>(length);
    }
  }
  flush();
}

void Bpe::tokenize(std::string_view piece, TokenSink& sink) const {
  if (options_.ignore_merges) {
    const auto id = byte_ids_ ? vocabulary_.find(bytes_to_unicode(piece))
                              : vocabulary_.find(piece);
    if (id) {
      sink.add(*id, 0, piece.size());
      return;
    }
  }
  thread_local std::vector<Symbol> symbols;
  symbols.clear();
  if (byte_ids_) {
    for (const char byte : piece) {
      symbols.push_back({(*byte_ids_)[static_cast<unsigned char>(byte)], 1});
    }
  } else {
    split_characters(piece, symbols);
  }
  merge_all(symbols, merges_);
  std::size_t at = 0;
  for (const Symbol& symbol : symbols) {
    sink.add(symbol.id, at, at + symbol.bytes);
    at += symbol.bytes;
  }
  if (symbols.capacity() > 65536) {
    // Frees the memory of a long text.
    std::vector<Symbol>().swap(symbols);
  }
}

std::unique_ptr<Model> make_bpe(const JsonNode& node, const ModelText& text) {
  const auto dropout = node.find("dropout");
  if (dropout && dropout->as_double() != 0) {
    dropout->fail("BPE dropout is not supported; expected null or 0");
  }
  if (text.merges.empty()) {
    node.fail("the key `merges` is missing");
  }
  BpeOptions options;
  options.unk_token = node.string("unk_token", "");
  options.continuing_subword_prefix =
      node.string("continuing_subword_prefix", "");
  options.end_of_word_suffix = node.string("end_of_word_suffix", "");
  options.fuse_unk = node.boolean("fuse_unk", false);
  options.byte_fallback = node.boolean("byte_fallback", false);
  options.ignore_merges = node.boolean("ignore_merges", false);
  Vocabulary vocabulary = read_vocabulary(text, node.source());
  MergeTable merges = read_merges(
      text, node.source(), vocabulary, options.continuing_subword_prefix);
  if (!options.unk_token.empty() && !vocabulary.find(options.unk_token)) {
    node.at("unk_token")
        .fail(str_cat(
            "`", printable(options.unk_token), "` is not in the vocabulary"));
  }
  return std::make_unique<Bpe>(
      std::move(options), std::move(vocabulary), std::move(merges));
}

}  // namespace transformers::tokenizers
