// SPDX-License-Identifier: Apache-2.0
// Regular expressions. The only file that includes PCRE2.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "transformers/tokenizers/pattern.h"

namespace transformers::tokenizers {
namespace {

using accelerate::str_cat;

// Heap limit of one match in KiB: enough for a word of one megabyte.
constexpr std::uint32_t kHeapKib = 1 << 20;

struct Pcre2Deleter {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  void operator()(pcre2_match_context* context) const {
    pcre2_match_context_free(context);
  }
};

std::string pcre2_message(int error) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(error, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

class RegexPattern : public Pattern {
 public:
  RegexPattern(const std::string& expression, const JsonNode& node)
      : expression_(expression) {
    int error = 0;
    PCRE2_SIZE offset = 0;
    code_.reset(pcre2_compile(
        reinterpret_cast<PCRE2_SPTR>(expression.data()),
        expression.size(),
        PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C,
        &error,
        &offset,
        nullptr));
    if (!code_) {
      node.fail(str_cat(
          "cannot compile the regular expression `",
          expression,
          "`: ",
          pcre2_message(error),
          " at byte ",
          offset));
    }
    pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);
  }

  void find(std::string_view text, std::vector<Span>& matches) const override {
    const std::unique_ptr<pcre2_match_data, Pcre2Deleter> data(
        pcre2_match_data_create_from_pattern(code_.get(), nullptr));
    const std::unique_ptr<pcre2_match_context, Pcre2Deleter> context(
        pcre2_match_context_create(nullptr));
    // A malicious expression must not run forever.
    pcre2_set_match_limit(context.get(), 10'000'000);
    pcre2_set_heap_limit(context.get(), kHeapKib);
    std::size_t at = 0;
    while (at < text.size() && match_next(text, at, *data, *context)) {
      const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(data.get());
      if (bounds[1] > bounds[0]) {
        matches.push_back(
            {static_cast<std::uint32_t>(bounds[0]),
             static_cast<std::uint32_t>(bounds[1])});
        at = bounds[1];
      } else {
        at = bounds[1] >= text.size()
                 ? text.size()
                 : bounds[1] +
                       utf8_length(static_cast<unsigned char>(text[bounds[1]]));
      }
    }
  }

 private:
  int match(
      std::string_view text,
      std::size_t at,
      std::uint32_t options,
      pcre2_match_data& data,
      pcre2_match_context& context) const {
    return pcre2_match(
        code_.get(),
        reinterpret_cast<PCRE2_SPTR>(text.data()),
        text.size(),
        at,
        PCRE2_NO_UTF_CHECK | options,
        &data,
        &context);
  }
  bool match_next(
      std::string_view text,
      std::size_t at,
      pcre2_match_data& data,
      pcre2_match_context& context) const {
    int found = match(text, at, 0, data, context);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) {
      // JIT code has 32 KiB of stack, and a repeated group can exceed it on one
      // long word; the interpreter uses the heap.
      found = match(text, at, PCRE2_NO_JIT, data, context);
    }
    if (found >= 0) {
      return true;
    }
    if (found == PCRE2_ERROR_NOMATCH) {
      return false;
    }
    throw accelerate::ArgumentError(str_cat(
        "matching the tokenizer's regular expression `",
        expression_,
        "` failed at byte ",
        at,
        " of a text of ",
        text.size(),
        " bytes: ",
        pcre2_message(found)));
  }

  std::string expression_;
  std::unique_ptr<pcre2_code, Pcre2Deleter> code_;
};

}  // namespace

std::unique_ptr<Pattern> make_regex(
    const std::string& expression, const JsonNode& node) {
  return std::make_unique<RegexPattern>(expression, node);
}

}  // namespace transformers::tokenizers
