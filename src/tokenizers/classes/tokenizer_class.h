// SPDX-License-Identifier: Apache-2.0
// The tokenizer classes of Hugging Face Transformers. Most of them build their
// own pipeline: they read only the vocabulary, the added tokens and sometimes
// the post-processor from tokenizer.json.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "tokenizers/classes/class_arguments.h"
#include "tokenizers/models/model.h"
#include "tokenizers/pipeline.h"
#include "transformers/tokenizer_options.h"

namespace transformers::tokenizers {

/// A special token that is an argument of the class's constructor in Python.
struct TokenParameter {
  /// How the class converts a token without flags: `text` keeps the text;
  /// `token` creates an added token without flags; `lstrip` creates an added
  /// token with the flag `lstrip`.
  enum class Form { text, token, lstrip };

  const char* name;
  const char* text;  // The default; null if there is none.
  Form form = Form::text;
};

/// The files that a class reads if there is no tokenizer.json.
enum class VocabularyFiles { none, vocab_txt, vocab_json_and_merges };

/// Finds the special tokens of a pipeline, for the description of a
/// post-processor.
class PipelineTokens {
 public:
  PipelineTokens(const ClassArguments& arguments, const Pipeline& pipeline)
      : arguments_(arguments), pipeline_(pipeline) {}

  const ClassArguments& arguments() const { return arguments_; }
  /// Return the text and the id of the special token with this name. Both
  /// throw `FormatError` when the tokenizer does not have this token.
  const std::string& text(const std::string& name) const;
  std::int64_t id(const std::string& name) const;

 private:
  const ClassArguments& arguments_;
  const Pipeline& pipeline_;
};

struct TokenizerClass {
  /// How a class uses the post-processor in tokenizer.json.
  enum class Processing {
    from_file,       ///< Uses the file's post-processor, if any.
    own,             ///< Ignores it; uses `post_processor`.
    own_if_missing,  ///< Uses `post_processor` if the file has none.
    bos_eos,         ///< Ignores it; follows `add_bos_token`, `add_eos_token`.
  };
  /// Whether all special tokens are added a second time, with or without their
  /// flags. With `with_flags`, the post-processor is also chosen a second time.
  enum class Readds { none, without_flags, with_flags };

  const char* name;
  /// The required model type in tokenizer.json. Null if any type is accepted.
  const char* model;
  std::vector<TokenParameter> special_tokens = {};
  VocabularyFiles files = VocabularyFiles::none;
  /// Sets `normalizer`, `pre_tokenizer`, `decoder` and `model` in the
  /// description. Null if the class uses tokenizer.json unchanged.
  void (*describe)(
      const ClassArguments& arguments,
      const accelerate::Json* tokenizer_json,
      const ModelText& text,
      accelerate::Json& description) = nullptr;
  Processing processing = Processing::from_file;
  accelerate::Json (*post_processor)(const PipelineTokens&) = nullptr;
  Side padding_side = Side::right;
  std::vector<std::string> model_input_names{"input_ids", "attention_mask"};
  Readds readds = Readds::none;
  /// Whether tokenizer.json is used unchanged. If there is no tokenizer.json,
  /// `describe` is used.
  bool keeps_tokenizer_json = false;
  /// Whether the class reads `add_prefix_space`.
  bool reads_prefix_space = false;
  /// If not null, modifies the arguments before they are used.
  void (*adjust)(ClassArguments&) = nullptr;
  /// The text at the end of each decoded word, such as `</w>`, which decoding
  /// replaces with a space. Null if there is no such text.
  const char* end_of_word = nullptr;

  bool is_backend() const { return describe == nullptr; }
};

/// Returns the class that uses tokenizer.json unchanged.
const TokenizerClass& tokenizers_backend();
/// Returns the class with this name, which must not end in `Fast`; null if the
/// class is not supported.
const TokenizerClass* find_supported_class(std::string_view name);
/// Returns the names of all supported classes.
std::vector<std::string> supported_class_names();

/// What is known about the tokenizer before its class is chosen.
struct ClassQuery {
  /// The argument of `from_pretrained`.
  std::string name_or_path;
  const TokenizerFolder& folder;
  /// The text of tokenizer.json; empty if there is none.
  std::string_view tokenizer_json_text;
};

/// Finds the class that Hugging Face Transformers would use. Throws
/// `UnsupportedError` with the name of the class when this library does not
/// support it.
const TokenizerClass& choose_class(const ClassQuery& query);

// Return the supported classes, one function for each type of model.
std::vector<TokenizerClass> word_piece_classes();
std::vector<TokenizerClass> byte_level_classes();
std::vector<TokenizerClass> bpe_classes();
std::vector<TokenizerClass> unigram_classes();

// Parts of descriptions that several classes share.

/// Parses JSON text that is part of this program's source code.
accelerate::Json stage(std::string_view json_text);
/// Returns the description of a `TemplateProcessing` post-processor. `single`
/// and `pair` contain the pieces of its templates, separated by spaces, such as
/// `cls_token:0 $A:0 sep_token:0`.
accelerate::Json describe_template(
    const PipelineTokens& tokens,
    std::string_view single,
    std::string_view pair);
/// Returns the description of a `TemplateProcessing` post-processor that
/// inserts the tokens that `add_bos_token` and `add_eos_token` request.
accelerate::Json describe_bos_eos_template(const PipelineTokens& tokens);

}  // namespace transformers::tokenizers
