// SPDX-License-Identifier: Apache-2.0
// Regular expressions with Oniguruma, the library that Hugging Face
// `tokenizers` uses, in its default syntax and without options.
#include <cstdio>
#include <initializer_list>
#include <limits>

#include <oniguruma.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "tokenizers/pre_tokenizers/pattern.h"
#include "tokenizers/pre_tokenizers/regex_encoding.h"
#include "tokenizers/text/unicode_properties.h"

namespace transformers::tokenizers {
namespace {

using accelerate::FormatError;
using accelerate::str_cat;

// A malicious expression must not run forever or use all memory. The number of
// retries at one position is Oniguruma's default, which Python uses as well. A
// search reaches the other limit after about ten seconds.
constexpr unsigned long kRetriesInMatch = 10'000'000;
constexpr unsigned long kRetriesInSearch = 1'000'000'000;
// At most 1 GiB, which suffices for a word of several megabytes.
constexpr unsigned int kStackEntries = 1 << 24;

// NOTE [Oniguruma versions] Hugging Face `tokenizers` contains Oniguruma
// 6.9.10. Older versions differ in two ways. Their Unicode tables are
// different; regex_encoding.h replaces these tables. They also have a few
// defects: `with_equal_escapes` and `RegexPattern::search` work around some
// defects, and `changed_feature` finds expressions that the other defects
// affect.
constexpr int kReferenceVersion = 60910;

int installed_version() {
  static const int version = [] {
    int major = 0;
    int minor = 0;
    int teeny = 0;
    std::sscanf(onig_version(), "%d.%d.%d", &major, &minor, &teeny);
    return major * 10'000 + minor * 100 + teeny;
  }();
  return version;
}

// Calls `visit(position, letter)` for each escape sequence, such as `\z`.
template <typename Visit>
void visit_escapes(std::string_view expression, Visit visit) {
  for (std::size_t at = expression.find('\\');
       at != std::string_view::npos && at + 1 < expression.size();
       at = expression.find('\\', at + 2)) {
    visit(at, expression[at + 1]);
  }
}

// Returns the first escape sequence with one of these letters, such as `\z`, or
// an empty text.
std::string_view find_escape(
    std::string_view expression, std::string_view letters) {
  std::string_view found;
  visit_escapes(expression, [&](std::size_t at, char letter) {
    if (found.empty() && letters.find(letter) != std::string_view::npos) {
      found = expression.substr(at, 2);
    }
  });
  return found;
}

// Returns the first group with one of the options, such as `(?I`, or an empty
// text.
std::string_view find_option(
    std::string_view expression, std::string_view letters) {
  for (std::size_t at = expression.find("(?"); at != std::string_view::npos;
       at = expression.find("(?", at + 2)) {
    const std::size_t end = expression.find_first_not_of("imxWDSPCIL-", at + 2);
    const std::string_view option = expression.substr(at, end - at);
    if (option.find_first_of(letters) != std::string_view::npos) {
      return option;
    }
  }
  return {};
}

// Returns whether an expression may have brackets that do not delimit a
// character class: brackets in a comment, or `]` as the first character of a
// class.
bool has_unclear_brackets(std::string_view expression) {
  for (const std::string_view part : {"[]", "[^]", "(?#"}) {
    if (expression.find(part) != std::string_view::npos) {
      return true;
    }
  }
  return !find_option(expression, "x").empty();
}

// Returns a part of the expression that means something else in the installed
// Oniguruma than in Python, or an empty text; see NOTE [Oniguruma versions].
std::string_view changed_feature(std::string_view expression) {
  if (installed_version() >= kReferenceVersion) {
    return {};
  }
  for (const std::string_view group : {"(?(", "(?~|"}) {
    const std::size_t at = expression.find(group);
    if (at != std::string_view::npos) {
      return expression.substr(at, group.size());
    }
  }
  // Before 6.9.8, references to one of several groups with the same name were
  // different, too.
  std::string_view found =
      find_escape(expression, installed_version() < 60908 ? "kXyY" : "XyY");
  if (found.empty() && !find_escape(expression, "zZ").empty()) {
    found = find_escape(expression, "G");
  }
  if (found.empty() && has_unclear_brackets(expression)) {
    found = find_escape(expression, "R");
  }
  return found.empty() ? find_option(expression, "CIL") : found;
}

// Returns the end of `\p{Word}`, in any spelling, at the beginning of `text`;
// sets `negative` for `\P{Word}` and `\p{^Word}`. Returns 0 for any other text.
std::size_t end_of_word_property(std::string_view text, bool& negative) {
  const std::size_t end = text.find('}');
  if (end == std::string_view::npos || text[2] != '{') {
    return 0;
  }
  const bool caret = text[3] == '^';
  negative = (text[1] == 'P') != caret;
  const std::string_view name = text.substr(0, end).substr(caret ? 4 : 3);
  return find_property(name) == ONIGENC_CTYPE_WORD ? end + 1 : 0;
}

// Replaces escapes that older versions get wrong: `\p{Word}` is the same as
// `\w` (which differs from `[\w]`, see `is_number_of_latin1`), and `\R` in a
// repetition must match `\n`.
std::string with_equal_escapes(std::string_view expression) {
  std::string result;
  std::size_t copied = 0;
  const auto replace = [&](std::size_t begin, std::size_t end, const char* by) {
    result.append(expression.substr(copied, begin - copied)).append(by);
    copied = end;
  };
  std::size_t depth = 0;  // The nesting depth of brackets.
  std::size_t seen = 0;
  visit_escapes(expression, [&](std::size_t at, char letter) {
    for (; seen < at; ++seen) {
      depth += expression[seen] == '[' ? 1 : 0;
      depth -= expression[seen] == ']' && depth > 0 ? 1 : 0;
    }
    seen = at + 2;
    bool negative = false;
    if (letter == 'R' && depth == 0) {
      replace(at, at + 2, R"((?>\r\n|[\n-\r\x{85}\x{2028}\x{2029}]))");
    } else if (letter == 'p' || letter == 'P') {
      const std::string_view rest = expression.substr(at);
      if (const std::size_t size = end_of_word_property(rest, negative)) {
        replace(at, at + size, negative ? "\\W" : "\\w");
      }
    }
  });
  return result.append(expression.substr(copied));
}

const OnigUChar* onig_bytes(std::string_view text) {
  return reinterpret_cast<const OnigUChar*>(text.data());
}

std::string error_text(int code, OnigErrorInfo* info = nullptr) {
  OnigUChar text[ONIG_MAX_ERROR_MESSAGE_LEN];
  const int size = onig_error_code_to_str(text, code, info);
  return {reinterpret_cast<const char*>(text), static_cast<std::size_t>(size)};
}

// The memory that a thread needs for matching.
class MatchState {
 public:
  MatchState() : region_(onig_region_new()), limits_(onig_new_match_param()) {
    onig_initialize_match_param(limits_);
    onig_set_match_stack_limit_size_of_match_param(limits_, kStackEntries);
    onig_set_retry_limit_in_match_of_match_param(limits_, kRetriesInMatch);
    onig_set_retry_limit_in_search_of_match_param(limits_, kRetriesInSearch);
  }
  ~MatchState() {
    onig_region_free(region_, 1);
    onig_free_match_param(limits_);
  }
  MatchState(const MatchState&) = delete;
  MatchState& operator=(const MatchState&) = delete;

  static MatchState& of_this_thread() {
    thread_local MatchState state;
    return state;
  }
  OnigRegion* region() { return region_; }
  OnigMatchParam* limits() { return limits_; }

 private:
  OnigRegion* region_;
  OnigMatchParam* limits_;
};

class RegexPattern : public Pattern {
 public:
  RegexPattern(const std::string& expression, const JsonNode& node)
      : expression_(expression) {
    refuse_changed_feature(node);
    const std::string compatible = installed_version() < kReferenceVersion
                                       ? with_equal_escapes(expression_)
                                       : expression_;
    const OnigUChar* begin = onig_bytes(compatible);
    OnigRegex regex = nullptr;
    OnigErrorInfo info{};
    const int error = onig_new(
        &regex,
        begin,
        begin + compatible.size(),
        ONIG_OPTION_NONE,
        regex_encoding(),
        ONIG_SYNTAX_ONIGURUMA,
        &info);
    if (error != ONIG_NORMAL) {
      node.fail(str_cat(
          "cannot compile the regular expression `",
          expression_,
          "`: ",
          error_text(error, &info)));
    }
    regex_.reset(regex);
    tries_every_position_ = installed_version() < kReferenceVersion &&
                            !find_escape(expression_, "zZ").empty();
  }

  void find(std::string_view text, std::vector<Span>& matches) const override {
    if (text.empty()) {
      return;
    }
    MatchState& state = MatchState::of_this_thread();
    constexpr std::size_t kNone = std::string_view::npos;
    std::size_t last_end = kNone;
    for (std::size_t at = 0; at <= text.size();) {
      const int found = search(text, at, state);
      if (found == ONIG_MISMATCH) {
        return;
      }
      check(found, text, state);
      const auto begin = static_cast<std::size_t>(state.region()->beg[0]);
      const auto end = static_cast<std::size_t>(state.region()->end[0]);
      if (begin == end && end == last_end) {
        // An empty match right after the last match is ignored.
        at += at < text.size()
                  ? utf8_length(static_cast<unsigned char>(text[at]))
                  : 1;
        continue;
      }
      matches.push_back(
          {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)});
      at = last_end = end;
    }
  }

 private:
  struct Free {
    void operator()(OnigRegexType* regex) const { onig_free(regex); }
  };

  void refuse_changed_feature(const JsonNode& node) const {
    const std::string_view feature = changed_feature(expression_);
    if (!feature.empty()) {
      node.fail(str_cat(
          "the regular expression `",
          expression_,
          "` uses `",
          feature,
          "`, which needs Oniguruma 6.9.10 to give the same result as Python; "
          "this machine has version ",
          onig_version()));
    }
  }

  int search(std::string_view text, std::size_t at, MatchState& state) const {
    const OnigUChar* begin = onig_bytes(text);
    const OnigUChar* end = begin + text.size();
    if (!tries_every_position_) {
      return onig_search_with_param(
          regex_.get(),
          begin,
          end,
          begin + at,
          end,
          state.region(),
          ONIG_OPTION_NONE,
          state.limits());
    }
    while (true) {
      const int length = onig_match_with_param(
          regex_.get(),
          begin,
          end,
          begin + at,
          state.region(),
          ONIG_OPTION_NONE,
          state.limits());
      if (length != ONIG_MISMATCH || at >= text.size()) {
        return length;
      }
      at += utf8_length(static_cast<unsigned char>(text[at]));
    }
  }

  void check(int found, std::string_view text, MatchState& state) const {
    if (found >= 0 && state.region()->beg[0] <= state.region()->end[0]) {
      return;
    }
    throw FormatError(
        str_cat(
            "cannot match the tokenizer's regular expression `",
            expression_,
            "` against a text of ",
            text.size(),
            " bytes: ",
            found < 0 ? error_text(found)
                      : "the match ends before the position of `\\K`"),
        "simplify the expression (for example, remove a repetition inside a "
        "repetition), or split the text");
  }

  std::string expression_;
  std::unique_ptr<OnigRegexType, Free> regex_;
  bool tries_every_position_ = false;
};

}  // namespace

std::unique_ptr<Pattern> make_regex(
    const std::string& expression, const JsonNode& node) {
  return std::make_unique<RegexPattern>(expression, node);
}

}  // namespace transformers::tokenizers
