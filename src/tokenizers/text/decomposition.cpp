// SPDX-License-Identifier: Apache-2.0
#include "tokenizers/text/decomposition.h"

#include <algorithm>
#include <unordered_map>

#include <utf8proc.h>

#include "tokenizers/text/unicode_tables.h"

namespace transformers::tokenizers {
namespace {

int combining_class(char32_t c) {
  if (c < 0x300 || !is_a(c, kHasCombiningClass)) {
    return 0;
  }
  const auto next_range = std::upper_bound(
      kMarkClasses.begin(),
      kMarkClasses.end(),
      c,
      [](char32_t value, const ClassRange& range) {
        return value < range.first;
      });
  return std::prev(next_range)->combining_class;
}

// The full decomposition of one character; at most 18 characters.
struct Decomposition {
  utf8proc_int32_t data[32];
  int size;
};

Decomposition decompose(char32_t c, bool compatibility) {
  Decomposition parts;
  parts.data[0] = static_cast<utf8proc_int32_t>(c);
  parts.size = 1;
  if (c < 0xA0 || !is_a(c, compatibility ? kCompatDecomposes : kDecomposes)) {
    return parts;
  }
  int boundary = 0;
  const auto options = static_cast<utf8proc_option_t>(
      UTF8PROC_DECOMPOSE | (compatibility ? UTF8PROC_COMPAT : 0));
  const auto size = utf8proc_decompose_char(
      static_cast<utf8proc_int32_t>(c), parts.data, 32, options, &boundary);
  if (size > 0 && size <= 32) {
    parts.size = static_cast<int>(size);
  }
  return parts;
}

// Sorts marks by combining class; marks of the same class keep their order.
void sort_marks(std::vector<Change>& changes, std::size_t begin) {
  const auto less = [](const Change& a, const Change& b) {
    return combining_class(a.character) < combining_class(b.character);
  };
  const auto first = changes.begin() + static_cast<std::ptrdiff_t>(begin);
  if (!std::is_sorted(first, changes.end(), less)) {
    std::stable_sort(first, changes.end(), less);
  }
}

std::vector<Change> decompose(std::string_view text, bool compatibility) {
  std::vector<Change> result;
  result.reserve(text.size());
  std::size_t marks = 0;  // Where the current run of marks begins.
  for (std::size_t at = 0; at < text.size();) {
    std::size_t length = 0;
    const char32_t c = read_character(text.data() + at, length);
    at += length;
    const Decomposition parts = decompose(c, compatibility);
    for (int i = 0; i < parts.size; ++i) {
      const auto part = static_cast<char32_t>(parts.data[i]);
      if (combining_class(part) == 0) {
        if (result.size() - marks > 1) {
          sort_marks(result, marks);
        }
        marks = result.size() + 1;
      }
      result.push_back({part, i == 0 ? 0 : 1});
    }
  }
  if (result.size() > marks && result.size() - marks > 1) {
    sort_marks(result, marks);
  }
  return result;
}

// The pairs that compose to one character, from utf8proc's decompositions.
class Compositions {
 public:
  static const Compositions& get() {
    static const Compositions& table = *new Compositions();
    return table;
  }
  char32_t find(char32_t first, char32_t second) const {
    const auto found = pairs_.find(key(first, second));
    return found == pairs_.end() ? 0 : found->second;
  }
  /// Calls `each(character)` for the second character of each pair.
  template <typename Each>
  void for_each_second(Each each) const {
    for (const auto& [pair, composed] : pairs_) {
      each(static_cast<char32_t>(pair & 0xFFFFFFFF));
    }
  }

 private:
  static std::uint64_t key(char32_t first, char32_t second) {
    return (static_cast<std::uint64_t>(first) << 32) | second;
  }
  // A character with n parts is composed from two characters: the composition
  // of its first n - 1 parts, and its last part. Shorter decompositions are
  // therefore added first.
  Compositions() {
    for (int size = 2; size <= 4; ++size) {
      for (char32_t c = 0xC0; c < 0x2FA1E; ++c) {
        add(c, size);
      }
    }
  }
  void add(char32_t c, int size) {
    if (c >= 0xAC00 && c < 0xE000) {
      return;  // Hangul is computed; surrogates are not characters.
    }
    const auto* properties =
        utf8proc_get_property(static_cast<utf8proc_int32_t>(c));
    if (properties->comp_exclusion ||
        properties->decomp_seqindex == UINT16_MAX ||
        properties->decomp_type != 0) {
      return;
    }
    const Decomposition parts = decompose(c, false);
    if (parts.size != size) {
      return;
    }
    auto first = static_cast<char32_t>(parts.data[0]);
    for (int i = 1; i + 1 < size; ++i) {
      first = find(first, static_cast<char32_t>(parts.data[i]));
    }
    if (first != 0) {
      pairs_.emplace(
          key(first, static_cast<char32_t>(parts.data[size - 1])), c);
    }
  }

  std::unordered_map<std::uint64_t, char32_t> pairs_;
};

char32_t compose(char32_t first, char32_t second) {
  constexpr char32_t kL = 0x1100, kV = 0x1161, kT = 0x11A7, kS = 0xAC00;
  if (first - kL < 19 && second - kV < 21) {
    return kS + ((first - kL) * 21 + (second - kV)) * 28;
  }
  if (first - kS < 11172 && (first - kS) % 28 == 0 && second - kT - 1 < 27) {
    return first + (second - kT);
  }
  return Compositions::get().find(first, second);
}

std::vector<Change> recompose(const std::vector<Change>& parts) {
  std::vector<Change> result;
  result.reserve(parts.size());
  // Index into `result`; `parts.size()` if there is no starter yet.
  std::size_t starter = parts.size();
  int last_class = -1;
  for (const Change& part : parts) {
    const int current_class = combining_class(part.character);
    if (starter < result.size() &&
        (last_class < current_class || last_class == -1)) {
      const char32_t composed =
          compose(result[starter].character, part.character);
      if (composed != 0) {
        result[starter].character = composed;
        result[starter].change += part.change - 1;
        continue;
      }
    }
    if (current_class == 0) {
      starter = result.size();
      last_class = -1;
    } else {
      last_class = current_class;
    }
    result.push_back(part);
  }
  return result;
}

bool composes(NormalForm form) {
  return form == NormalForm::nfc || form == NormalForm::nfkc;
}

bool is_compatible(NormalForm form) {
  return form == NormalForm::nfkc || form == NormalForm::nfkd;
}

std::vector<Change> normalized(std::string_view text, NormalForm form) {
  std::vector<Change> changes = decompose(text, is_compatible(form));
  return composes(form) ? recompose(changes) : changes;
}

// The characters that a normalization form changes or may compose with the
// previous character.
class UnstableCharacters {
 public:
  static const UnstableCharacters& get(NormalForm form) {
    switch (form) {
      case NormalForm::nfc: {
        static const auto& table = *new UnstableCharacters(NormalForm::nfc);
        return table;
      }
      case NormalForm::nfd: {
        static const auto& table = *new UnstableCharacters(NormalForm::nfd);
        return table;
      }
      case NormalForm::nfkc: {
        static const auto& table = *new UnstableCharacters(NormalForm::nfkc);
        return table;
      }
      case NormalForm::nfkd:
        break;
    }
    static const auto& table = *new UnstableCharacters(NormalForm::nfkd);
    return table;
  }
  bool contains(char32_t c) const { return c < kLimit && unstable_[c] != 0; }

 private:
  // No larger character decomposes.
  static constexpr char32_t kLimit = 0x30000;

  explicit UnstableCharacters(NormalForm form) : unstable_(kLimit) {
    for (char32_t c = 0xA0; c < kLimit; ++c) {
      unstable_[c] = changes(c, form) ? 1 : 0;
    }
    if (composes(form)) {
      Compositions::get().for_each_second(
          [&](char32_t c) { unstable_[c] = 1; });
      for (char32_t jamo = 0x1161; jamo < 0x11C3; ++jamo) {
        unstable_[jamo] = 1;
      }
    }
  }
  static bool changes(char32_t c, NormalForm form) {
    if (!is_a(c, is_compatible(form) ? kCompatDecomposes : kDecomposes)) {
      return false;
    }
    std::string text;
    append_character(text, c);
    const std::vector<Change> result = normalized(text, form);
    return result.size() != 1 || result[0].character != c;
  }

  std::vector<std::uint8_t> unstable_;
};

// Returns the next part of a text that must be normalized; empty if there is no
// such part. The rest of the text does not change and does not affect the part,
// because both the part and the text after the part begin with a character that
// never changes or moves.
Span next_unstable_part(
    std::string_view text, std::size_t at, const UnstableCharacters& unstable) {
  std::size_t begin = at;
  bool found = false;
  int last_class = 0;
  while (at < text.size()) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      if (found) {
        break;
      }
      begin = at++;
      last_class = 0;
      continue;
    }
    std::size_t length = 0;
    const char32_t c = read_character(text.data() + at, length);
    const int mark_class = combining_class(c);
    const bool stable = !unstable.contains(c);
    if (stable && mark_class == 0) {
      if (found) {
        break;
      }
      begin = at;
    }
    found = found || !stable || (mark_class != 0 && mark_class < last_class);
    last_class = mark_class;
    at += length;
  }
  return found
             ? Span{static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(at)}
             : Span{};
}

void normalize_untracked(std::string& text, NormalForm form) {
  const UnstableCharacters& unstable = UnstableCharacters::get(form);
  std::string result;
  std::size_t copied = 0;
  for (Span part = next_unstable_part(text, 0, unstable); part.size() > 0;
       part = next_unstable_part(text, copied, unstable)) {
    result.append(text, copied, part.begin - copied);
    const std::string_view view = text;
    for (const Change& change :
         normalized(view.substr(part.begin, part.size()), form)) {
      append_character(result, change.character);
    }
    copied = part.end;
  }
  if (copied > 0) {
    text = result.append(text, copied);
  }
}

}  // namespace

void normalize(AlignedText& text, NormalForm form) {
  if (is_ascii(text.text)) {
    return;
  }
  if (!text.tracked) {
    return normalize_untracked(text.text, form);
  }
  transform(text, normalized(text.text, form));
}

}  // namespace transformers::tokenizers
