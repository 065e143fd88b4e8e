// SPDX-License-Identifier: Apache-2.0
// Heads that several architectures share. Each head registers its backbone
// under the architecture's prefix, so that parameters have their Hugging Face
// names.
//
// Shapes: B batch, T tokens, D width, C classes, V vocabulary.
#pragma once

#include <memory>
#include <string>

#include "accelerate/recordable_module.h"
#include "transformers/model_module.h"
#include "transformers/model_recorder.h"

namespace transformers {

/// A model with a head on a backbone.
class HeadModule : public ModelModule, public accelerate::RecordableModule {
 public:
  explicit HeadModule(const std::shared_ptr<Backbone>& backbone);

  std::int64_t recorded_steps() const override;

  double initializer_range() const override;
  std::string base_model_prefix() const override;
  void set_gradient_checkpointing(bool on) override;
  void set_eager_attention(bool on) override;
  void set_autocast(std::optional<accelerate::AutocastPolicy> policy) override;
  void set_record_policy(const accelerate::RecordPolicy& policy) override;
  BatchLimits limits() const override;

 protected:
  /// The meaning of `labels` for this head, and the number of classes.
  struct Labels {
    LabelKind kind = LabelKind::none;
    std::int64_t classes = 0;
  };
  virtual Labels labels() const { return {}; }
  /// Runs the model. On a GPU, small steps are captured as CUDA graphs if the
  /// Accelerator allows it; see `ModelRecorder`.
  ModelResult run_checked(const ModelInputs& inputs) override;
  PretrainedConfig& common() { return config.common(); }
  const PretrainedConfig& common() const { return config.common(); }
  Backbone& backbone() { return *backbone_; }
  const Backbone& backbone() const { return *backbone_; }
  /// Returns how the batch of a captured step may be padded.
  virtual Padding padding() const { return {}; }
  /// Returns the padding for heads that have a label and a result for each
  /// token.
  Padding per_token_padding() const;

 private:
  /// Returns whether this call is a training step that the recorder supports.
  bool is_recordable(const ModelInputs& inputs) const;
  /// Returns the reason why a step must run eagerly although its inputs could
  /// be captured; empty if the step may be captured.
  std::string eager_reason(const ModelInputs& inputs) const;

  std::shared_ptr<Backbone> backbone_;
  accelerate::RecordPolicy record_policy_;
  std::unique_ptr<ModelRecorder> recorder_;
  bool gradient_checkpointing_ = false;
};

/// Predicts a class, several classes or numbers for each row, depending on
/// `PretrainedConfig::problem_type`.
class RowClassifier : public HeadModule {
 public:
  using HeadModule::HeadModule;
  ModelResult compute(const ModelInputs& inputs) override;

 protected:
  /// Computes the logits [B, C] from the result of the backbone.
  virtual at::Tensor classify(
      const ModelResult& hidden, const ModelInputs& inputs) const = 0;
  Labels labels() const override {
    return {LabelKind::row, common().num_labels};
  }
  /// Allows unpadding, because only the first token of each row is used.
  Padding padding() const override;
};

/// Predicts masked tokens.
class MaskedLanguageModel : public HeadModule {
 public:
  using HeadModule::HeadModule;
  ModelResult compute(const ModelInputs& inputs) override;

 protected:
  /// Computes the logits [B, T, V].
  virtual at::Tensor predict(const at::Tensor& hidden_BTD) const = 0;
  Labels labels() const override {
    return {LabelKind::token, backbone().input_embeddings().weight_VD.size(0)};
  }
  Padding padding() const override { return per_token_padding(); }
};

/// Predicts a class for each token.
class TokenClassifier : public HeadModule {
 public:
  TokenClassifier(
      const std::shared_ptr<Backbone>& backbone,
      const std::string& name,
      double dropout);
  ModelResult compute(const ModelInputs& inputs) override;

 protected:
  Labels labels() const override {
    return {LabelKind::token, common().num_labels};
  }
  Padding padding() const override { return per_token_padding(); }

 private:
  std::shared_ptr<Linear> classifier_;
  double dropout_;
};

/// Predicts the first and the last token of an answer.
class QuestionAnswerer : public HeadModule {
 public:
  struct Options {
    double dropout = 0.0;
    /// Whether `num_labels` must be 2. If false, `num_labels` has no effect.
    bool uses_num_labels = true;
  };
  QuestionAnswerer(
      const std::shared_ptr<Backbone>& backbone, const Options& options);
  ModelResult compute(const ModelInputs& inputs) override;

 protected:
  Labels labels() const override { return {LabelKind::span}; }

 private:
  std::shared_ptr<Linear> qa_outputs_;
  double dropout_;
};

/// Predicts a class for each row from the row's last token that is not padding.
class LastTokenClassifier : public RowClassifier {
 public:
  LastTokenClassifier(
      const std::shared_ptr<Backbone>& backbone,
      std::optional<std::int64_t> pad_token_id);

 protected:
  at::Tensor classify(
      const ModelResult& hidden, const ModelInputs& inputs) const override;
  Padding padding() const override;

 private:
  at::Tensor last_tokens_B(const ModelInputs& inputs) const;

  std::shared_ptr<Linear> score_;
  std::optional<std::int64_t> pad_token_id_;
};

/// The last layer of a language model, which computes a logit for each token in
/// the vocabulary. Its weight and its bias are parameters of this layer, or
/// tied to parameters of other layers, which are passed to each call.
class VocabularyProjection : public Layer {
 public:
  /// Which parameters belong to this layer.
  struct Owned {
    bool weight = false;
    bool bias = false;
  };
  VocabularyProjection(
      std::int64_t width, std::int64_t vocab_size, const Owned& owned);
  void initialize(const Initializer& init) override;
  /// Adds the parameter `name`, "weight" or "bias", which was tied before.
  void untie(const std::string& name);

  const at::Tensor& weight_VD(const Embedding& tied) const {
    return weight_VD_.defined() ? weight_VD_ : tied.weight_VD;
  }
  at::Tensor operator()(
      const at::Tensor& hidden_BTD,
      const Embedding& tied,
      const at::Tensor& tied_bias_V = {}) const;

 private:
  std::int64_t width_;
  std::int64_t vocab_size_;
  at::Tensor weight_VD_;
  at::Tensor bias_V_;
};

/// Predicts the next token.
class CausalLM : public HeadModule {
 public:
  CausalLM(
      const std::shared_ptr<Backbone>& backbone,
      std::int64_t vocab_size,
      bool tied,
      std::string embedding_name);
  ModelResult compute(const ModelInputs& inputs) override;
  std::map<std::string, std::string> tied_names() const override;

 protected:
  /// Runs the model. If the loss was computed without logits, the logits in the
  /// result are computed when the program reads them.
  ModelResult run_checked(const ModelInputs& inputs) override;
  Labels labels() const override {
    return {LabelKind::token, backbone().input_embeddings().weight_VD.size(0)};
  }
  Padding padding() const override { return per_token_padding(); }

 private:
  at::Tensor lazy_logits(const at::Tensor& hidden_BTD) const;

  std::shared_ptr<VocabularyProjection> lm_head_;
  std::string embedding_name_;
};

}  // namespace transformers
