// SPDX-License-Identifier: Apache-2.0
// Models by what they are for; which architecture, the folder says.
//
//     auto model = transformers::AutoModelForSequenceClassification::
//         from_pretrained(checkpoint, {.num_labels = 2});
//     accelerator.prepare(model);
//     auto outputs = model(batch);
//
// A model takes a batch of tensors by name: `input_ids` (or `inputs_embeds`),
// `attention_mask`, `token_type_ids`, `position_ids`, and the `labels` of its
// head. Token types are left aside by architectures that have none, as the
// peer does; another name is an error.
#pragma once

#include <memory>
#include <string>

#include "transformers/modeling.h"
#include "transformers/modeling_outputs.h"

namespace transformers {

/// A model that returns an `Output`. Copies are handles to the same model.
template <typename Output>
class TRANSFORMERS_API Model {
 public:
  PreTrainedModel* operator->() const { return model_.get(); }
  PreTrainedModel& operator*() const { return *model_; }

  /// Runs the model. Throws `ArgumentError` naming what is wrong with the
  /// batch.
  Output operator()(
      const accelerate::TensorMap& inputs,
      const CallOptions& options = {}) const;

  /// The module itself, for `prepare` and for LibTorch's functions.
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

/// The model without a head.
class TRANSFORMERS_API AutoModel : public Model<BaseModelOutput> {
 public:
  /// From a Hugging Face folder. Throws `IoError` when there is none,
  /// `FormatError` when a file is broken or a weight has another shape,
  /// `UnsupportedError` when the architecture is unknown or has no such head.
  static AutoModel from_pretrained(
      const std::string& name, const FromPretrainedOptions& options = {});
  /// With random weights, drawn as the peer draws them.
  static AutoModel from_config(
      const Config& config, const FromConfigOptions& options = {});

 private:
  using Model::Model;
};

/// `labels`: a class for each row (whole numbers), a value when `num_labels`
/// is 1, or 0 and 1 for each of several classes (floats).
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

/// `labels`: a class for each token; -100 does not count.
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

/// `start_positions` and `end_positions`: where the answer is.
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

/// `labels`: the token that stands at each place; -100 does not count.
class TRANSFORMERS_API AutoModelForMaskedLM : public Model<MaskedLMOutput> {
 public:
  static AutoModelForMaskedLM from_pretrained(
      const std::string& name, const FromPretrainedOptions& options = {});
  static AutoModelForMaskedLM from_config(
      const Config& config, const FromConfigOptions& options = {});

 private:
  using Model::Model;
};

/// `labels`: the tokens themselves; the model moves them by one.
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
