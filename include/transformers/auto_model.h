// SPDX-License-Identifier: Apache-2.0
// Model classes, one for each task. The `config.json` in the model's folder
// determines the architecture.
//
//     auto model = transformers::AutoModelForSequenceClassification::
//         from_pretrained(checkpoint, {.num_labels = 2});
//     accelerator.prepare(model);
//     auto outputs = model(batch);
//
// A model takes a batch of named tensors: `input_ids` (or `inputs_embeds`),
// `attention_mask`, `token_type_ids`, `position_ids`, and the labels for its
// head. A tensor with any other name is an error. Architectures without token
// types ignore `token_type_ids`, as Hugging Face Transformers does.
#pragma once

#include <memory>
#include <string>

#include "transformers/modeling.h"
#include "transformers/modeling_outputs.h"

namespace transformers {

/// A handle to a model whose forward pass returns an `Output`. Copies of a
/// handle refer to the same model.
template <typename Output>
class TRANSFORMERS_API Model {
 public:
  PreTrainedModel* operator->() const { return model_.get(); }
  PreTrainedModel& operator*() const { return *model_; }

  /// Runs a forward pass. Throws `ArgumentError` when the model cannot process
  /// the tensors in `inputs`.
  Output operator()(
      const accelerate::TensorMap& inputs,
      const CallOptions& options = {}) const;

  /// Returns the LibTorch module, for functions that take a module.
  std::shared_ptr<torch::nn::Module> module() const;

 protected:
  explicit Model(std::shared_ptr<PreTrainedModel> model)
      : model_(std::move(model)) {}

 private:
  std::shared_ptr<PreTrainedModel> model_;
};
extern template class Model<ModelOutput>;
extern template class Model<QuestionAnsweringModelOutput>;
extern template class Model<BaseModelOutput>;

/// A model without a head; it returns hidden states.
class TRANSFORMERS_API AutoModel : public Model<BaseModelOutput> {
 public:
  /// Loads a model. `name` is a folder in Hugging Face's format or the name of
  /// a model on the Hub.
  ///
  /// Throws `IoError` when the model does not exist, `FormatError` when a file
  /// is damaged or the shape of a weight in a file does not match the config,
  /// and `UnsupportedError` when the architecture is unknown or does not
  /// support the task.
  static AutoModel from_pretrained(
      const std::string& name, const FromPretrainedOptions& options = {});
  /// Makes a model with random weights, drawn from the same distributions as
  /// in Hugging Face Transformers.
  static AutoModel from_config(
      const Config& config, const FromConfigOptions& options = {});

 private:
  using Model::Model;
};

/// A model that classifies each row of a batch.
///
/// `labels` contains one class per row (integers). If `num_labels` is 1,
/// `labels` contains one value per row instead. For multi-label classification,
/// `labels` contains a 0 or a 1 for each row and class (floats).
class TRANSFORMERS_API AutoModelForSequenceClassification
    : public Model<SequenceClassifierOutput> {
 public:
  static AutoModelForSequenceClassification from_pretrained(
      const std::string& name, const FromPretrainedOptions& options = {});
  static AutoModelForSequenceClassification from_config(
      const Config& config, const FromConfigOptions& options = {});

 private:
  using Model::Model;
};

/// A model that classifies each token.
///
/// `labels` contains one class per token. The loss ignores tokens with the
/// label -100.
class TRANSFORMERS_API AutoModelForTokenClassification
    : public Model<TokenClassifierOutput> {
 public:
  static AutoModelForTokenClassification from_pretrained(
      const std::string& name, const FromPretrainedOptions& options = {});
  static AutoModelForTokenClassification from_config(
      const Config& config, const FromConfigOptions& options = {});

 private:
  using Model::Model;
};

/// A model that finds the answer to a question in a text.
///
/// The labels are `start_positions` and `end_positions`: the indices of the
/// first and the last token of each answer.
class TRANSFORMERS_API AutoModelForQuestionAnswering
    : public Model<QuestionAnsweringModelOutput> {
 public:
  static AutoModelForQuestionAnswering from_pretrained(
      const std::string& name, const FromPretrainedOptions& options = {});
  static AutoModelForQuestionAnswering from_config(
      const Config& config, const FromConfigOptions& options = {});

 private:
  using Model::Model;
};

/// A model that predicts masked tokens.
///
/// `labels` contains the original token id at each position that the model must
/// predict, and -100 at all other positions, which the loss ignores.
class TRANSFORMERS_API AutoModelForMaskedLM : public Model<MaskedLMOutput> {
 public:
  static AutoModelForMaskedLM from_pretrained(
      const std::string& name, const FromPretrainedOptions& options = {});
  static AutoModelForMaskedLM from_config(
      const Config& config, const FromConfigOptions& options = {});

 private:
  using Model::Model;
};

/// A model that predicts the next token.
///
/// Pass the input ids as `labels`. The model shifts the labels by one position,
/// so that each token predicts the next token.
class TRANSFORMERS_API AutoModelForCausalLM : public Model<CausalLMOutput> {
 public:
  static AutoModelForCausalLM from_pretrained(
      const std::string& name, const FromPretrainedOptions& options = {});
  static AutoModelForCausalLM from_config(
      const Config& config, const FromConfigOptions& options = {});

 private:
  using Model::Model;
};

}  // namespace transformers
