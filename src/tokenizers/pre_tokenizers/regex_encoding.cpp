// SPDX-License-Identifier: Apache-2.0
#include "tokenizers/pre_tokenizers/regex_encoding.h"

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <vector>

#include <oniguruma.h>

#include "tokenizers/text/unicode_properties.h"

static_assert(
    ONIGURUMA_VERSION_INT >= 60907, "Oniguruma 6.9.7 or later is needed");

namespace transformers::tokenizers {
namespace {

// A property in Oniguruma's format: the number of ranges, then their bounds.
class RegexProperty {
 public:
  explicit RegexProperty(int property) {
    const std::vector<CodeRange> ranges = property_ranges(property);
    words_.push_back(static_cast<OnigCodePoint>(ranges.size()));
    for (const CodeRange& range : ranges) {
      words_.push_back(range.first);
      words_.push_back(range.last);
    }
    for (std::uint32_t c = 0; c < ascii_.size(); ++c) {
      ascii_[c] = search(c);
    }
  }

  const OnigCodePoint* words() const { return words_.data(); }
  bool contains(OnigCodePoint c) const {
    return c < ascii_.size() ? ascii_[c] : search(c);
  }

 private:
  bool search(OnigCodePoint c) const {
    // The bounds are in ascending order, starting with the second word. A code
    // point has the property if it equals a lower bound, or if it is between a
    // lower bound and its upper bound.
    const auto bounds = words_.begin() + 1;
    const auto above = std::upper_bound(bounds, words_.end(), c);
    return ((above - bounds) & 1) != 0 || (above != bounds && above[-1] == c);
  }

  std::vector<OnigCodePoint> words_;
  std::array<bool, 128> ascii_{};
};

class RegexProperties {
 public:
  RegexProperties() : properties_(kProperties.size()) {
    for (int property = 0; property <= ONIGENC_CTYPE_ASCII; ++property) {
      standard_[static_cast<std::size_t>(property)] = &get(property);
    }
  }
  static RegexProperties& instance() {
    // Never destroyed, because a thread that outlives `main` may use a
    // tokenizer.
    static RegexProperties& properties = *new RegexProperties();
    return properties;
  }

  const RegexProperty& get(int property) {
    const std::lock_guard lock(mutex_);
    auto& entry = properties_[static_cast<std::size_t>(property)];
    if (!entry) {
      entry = std::make_unique<RegexProperty>(property);
    }
    return *entry;
  }
  /// Returns a standard property without a lock, because matching calls this
  /// function very often.
  const RegexProperty* standard(OnigCtype property) const {
    return property < standard_.size() ? standard_[property] : nullptr;
  }
  bool exists(OnigCtype property) const {
    return property < properties_.size();
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<RegexProperty>> properties_;
  std::array<const RegexProperty*, ONIGENC_CTYPE_ASCII + 1> standard_{};
};

int property_name_to_ctype(
    OnigEncodingTypeST* /*encoding*/, OnigUChar* begin, OnigUChar* end) {
  const int property = find_property(
      {reinterpret_cast<const char*>(begin),
       static_cast<std::size_t>(end - begin)});
  return property >= 0 ? property : ONIGERR_INVALID_CHAR_PROPERTY_NAME;
}

// Outside of brackets, Oniguruma's `\w` and `\b` use a table for Latin-1 in
// which superscripts and fractions (²³¹¼½¾) are word characters; `[\w]` and
// `\p{Word}` do not match them.
bool is_number_of_latin1(OnigCodePoint c) {
  return c == 0xB2 || c == 0xB3 || c == 0xB9 || (c >= 0xBC && c <= 0xBE);
}

int is_code_ctype(OnigCodePoint c, OnigCtype property) {
  auto& properties = RegexProperties::instance();
  if (property == ONIGENC_CTYPE_WORD && is_number_of_latin1(c)) {
    return 1;
  }
  if (const RegexProperty* standard = properties.standard(property)) {
    return standard->contains(c) ? 1 : 0;
  }
  return properties.exists(property) &&
                 properties.get(static_cast<int>(property)).contains(c)
             ? 1
             : 0;
}

int get_ctype_code_range(
    OnigCtype property,
    OnigCodePoint* single_byte_end,
    const OnigCodePoint* ranges[]) {
  auto& properties = RegexProperties::instance();
  if (!properties.exists(property)) {
    return ONIGERR_TYPE_BUG;
  }
  *single_byte_end = 0x80;
  *ranges = properties.get(static_cast<int>(property)).words();
  return ONIG_NORMAL;
}

// An expression with `\xE3` may have incomplete characters, so this does not
// use `read_character`.
OnigCodePoint code_point(const OnigUChar* at, const OnigUChar* end) {
  return OnigEncodingUTF8.mbc_to_code(at, end);
}

// The pairs of `kNewCaseFolds` that the installed Oniguruma does not have.
const std::vector<CaseFold>& missing_folds() {
  static const std::vector<CaseFold>& folds = *[] {
    auto* missing = new std::vector<CaseFold>();
    for (const CaseFold& fold : kNewCaseFolds) {
      OnigUChar upper[8];
      OnigUChar folded[32];
      const OnigUChar* at = upper;
      const int size = OnigEncodingUTF8.code_to_mbc(fold.upper, upper);
      const int folded_size = OnigEncodingUTF8.mbc_case_fold(
          ONIGENC_CASE_FOLD_MIN, &at, upper + size, folded);
      if (code_point(folded, folded + folded_size) != fold.lower) {
        missing->push_back(fold);
      }
    }
    return missing;
  }();
  return folds;
}

// Returns the other letter of a missing pair, or 0.
OnigCodePoint other_case(
    OnigCaseFoldType flag, OnigCodePoint c, bool to_lower) {
  if ((flag & ONIGENC_CASE_FOLD_ASCII_ONLY) != 0) {
    return 0;
  }
  for (const CaseFold& fold : missing_folds()) {
    if (c == fold.upper) {
      return fold.lower;
    }
    if (c == fold.lower && !to_lower) {
      return fold.upper;
    }
  }
  return 0;
}

int mbc_case_fold(
    OnigCaseFoldType flag,
    const OnigUChar** at,
    const OnigUChar* end,
    OnigUChar* to) {
  if (**at >= 0x80) {
    const OnigCodePoint c = code_point(*at, end);
    if (const OnigCodePoint lower = other_case(flag, c, true)) {
      *at += OnigEncodingUTF8.mbc_enc_len(*at);
      return OnigEncodingUTF8.code_to_mbc(lower, to);
    }
  }
  return OnigEncodingUTF8.mbc_case_fold(flag, at, end, to);
}

int apply_all_case_fold(
    OnigCaseFoldType flag, OnigApplyAllCaseFoldFunc apply, void* argument) {
  const int result =
      OnigEncodingUTF8.apply_all_case_fold(flag, apply, argument);
  if (result != 0 || (flag & ONIGENC_CASE_FOLD_ASCII_ONLY) != 0) {
    return result;
  }
  for (const CaseFold& fold : missing_folds()) {
    OnigCodePoint upper = fold.upper;
    OnigCodePoint lower = fold.lower;
    for (const int error :
         {apply(lower, &upper, 1, argument),
          apply(upper, &lower, 1, argument)}) {
      if (error != 0) {
        return error;
      }
    }
  }
  return 0;
}

int get_case_fold_codes_by_str(
    OnigCaseFoldType flag,
    const OnigUChar* at,
    const OnigUChar* end,
    OnigCaseFoldCodeItem items[]) {
  if (at < end && *at >= 0x80) {
    const OnigCodePoint c = code_point(at, end);
    if (const OnigCodePoint other = other_case(flag, c, false)) {
      items[0].byte_len = OnigEncodingUTF8.mbc_enc_len(at);
      items[0].code_len = 1;
      items[0].code[0] = other;
      return 1;
    }
  }
  return OnigEncodingUTF8.get_case_fold_codes_by_str(flag, at, end, items);
}

OnigEncodingType* make_encoding() {
  static OnigEncodingType encoding = OnigEncodingUTF8;
  encoding.mbc_case_fold = mbc_case_fold;
  encoding.apply_all_case_fold = apply_all_case_fold;
  encoding.get_case_fold_codes_by_str = get_case_fold_codes_by_str;
  encoding.property_name_to_ctype = property_name_to_ctype;
  encoding.is_code_ctype = is_code_ctype;
  encoding.get_ctype_code_range = get_ctype_code_range;
  OnigEncoding used[] = {&encoding};
  onig_initialize(used, 1);
  return &encoding;
}

}  // namespace

OnigEncodingTypeST* regex_encoding() {
  static OnigEncodingType* const encoding = make_encoding();
  return encoding;
}

}  // namespace transformers::tokenizers
