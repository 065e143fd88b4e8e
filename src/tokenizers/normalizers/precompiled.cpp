// SPDX-License-Identifier: Apache-2.0
// `Precompiled`: SentencePiece's charsmap, encoded as base64. It is a
// double-array trie whose leaves point into a block of NUL-terminated
// replacements.
#include <cstring>

#include <utf8proc.h>

#include "tokenizers/normalizers/normalizer.h"

namespace transformers::tokenizers {
namespace {

std::string decode_base64(const JsonNode& node) {
  std::string bytes;
  std::uint32_t bits = 0;
  int num_bits = 0;
  for (const char c : node.as_string()) {
    static constexpr std::string_view kDigits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if (c == '=') {
      break;
    }
    const std::size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) {
      node.fail("not valid base64");
    }
    bits = (bits << 6) | static_cast<std::uint32_t>(digit);
    num_bits += 6;
    if (num_bits >= 8) {
      num_bits -= 8;
      bytes.push_back(static_cast<char>((bits >> num_bits) & 0xFF));
    }
  }
  return bytes;
}

class Precompiled : public Normalizer {
 public:
  explicit Precompiled(const JsonNode& node) {
    const JsonNode map = node.at("precompiled_charsmap");
    const std::string bytes = decode_base64(map);
    std::uint32_t size = 0;
    if (bytes.size() < 4) {
      map.fail("the charsmap is too short: it must begin with a 4-byte size");
    }
    std::memcpy(&size, bytes.data(), 4);
    if (size % 4 != 0 || size > bytes.size() - 4) {
      map.fail("the charsmap is truncated");
    }
    units_.resize(size / 4);
    if (!units_.empty()) {
      std::memcpy(units_.data(), bytes.data() + 4, size);
    }
    replacements_ = bytes.substr(4 + size);
  }

  void normalize(AlignedText& text) const override {
    std::vector<Change> changes;
    bool changed = false;
    const std::string_view view = text.text;
    for (std::size_t at = 0; at < view.size();) {
      const std::size_t end = end_of_grapheme(view, at);
      changed |= add_grapheme(view.substr(at, end - at), changes);
      text.check_size(changes.size());
      at = end;
    }
    if (changed) {
      transform(text, changes);
    }
  }

 private:
  static std::size_t end_of_grapheme(std::string_view text, std::size_t at) {
    std::size_t length = 0;
    utf8proc_int32_t state = 0;
    char32_t previous = read_character(text.data() + at, length);
    at += length;
    while (at < text.size()) {
      const char32_t c = read_character(text.data() + at, length);
      if (utf8proc_grapheme_break_stateful(
              static_cast<utf8proc_int32_t>(previous),
              static_cast<utf8proc_int32_t>(c),
              &state)) {
        break;
      }
      previous = c;
      at += length;
    }
    return at;
  }

  // Looks up short graphemes as a whole, and others character by character.
  bool add_grapheme(
      std::string_view grapheme, std::vector<Change>& changes) const {
    std::string_view found;
    if (grapheme.size() < 6 && look_up(grapheme, found)) {
      replace(grapheme, found, changes);
      return true;
    }
    bool changed = false;
    for (std::size_t at = 0; at < grapheme.size();) {
      std::size_t length = 0;
      const char32_t c = read_character(grapheme.data() + at, length);
      const std::string_view part = grapheme.substr(at, length);
      if (look_up(part, found)) {
        replace(part, found, changes);
        changed = true;
      } else {
        changes.push_back({c, 0});
      }
      at += length;
    }
    return changed;
  }

  static void replace(
      std::string_view from,
      std::string_view to,
      std::vector<Change>& changes) {
    for (std::size_t at = 0; at < to.size();) {
      std::size_t length = 0;
      changes.push_back({read_character(to.data() + at, length), 0});
      at += length;
    }
    const auto count = [](std::string_view text) {
      return static_cast<int>(count_characters(text));
    };
    int extra = count(to) - count(from);
    if (extra < 0 && !changes.empty()) {
      changes.back().change += extra;
    }
    for (std::size_t i = changes.size(); extra > 0; --extra) {
      changes[--i].change = 1;
    }
  }

  // Uses the shortest matching prefix, as Hugging Face `tokenizers` does.
  bool look_up(std::string_view text, std::string_view& found) const {
    if (units_.empty()) {
      return false;
    }
    std::size_t node = offset(units_[0]);
    for (const char byte : text) {
      const auto label = static_cast<unsigned char>(byte);
      node ^= label;
      if (label == 0 || node >= units_.size() ||
          (units_[node] & 0x800000FFu) != label) {
        return false;
      }
      const std::uint32_t unit = units_[node];
      node ^= offset(unit);
      if ((unit >> 8) & 1) {
        return node < units_.size() &&
               replacement_at(units_[node] & 0x7FFFFFFFu, found);
      }
    }
    return false;
  }

  bool replacement_at(std::size_t begin, std::string_view& found) const {
    if (begin >= replacements_.size()) {
      return false;
    }
    const std::size_t end = replacements_.find('\0', begin);
    found = std::string_view(replacements_)
                .substr(begin, end == std::string::npos ? end : end - begin);
    return find_invalid_utf8(found) == std::string_view::npos;
  }

  static std::size_t offset(std::uint32_t unit) {
    return static_cast<std::size_t>(unit >> 10) << ((unit & (1u << 9)) >> 6);
  }

  std::vector<std::uint32_t> units_;
  std::string replacements_;
};

}  // namespace

std::unique_ptr<Normalizer> make_precompiled(const JsonNode& node) {
  return std::make_unique<Precompiled>(node);
}

}  // namespace transformers::tokenizers
