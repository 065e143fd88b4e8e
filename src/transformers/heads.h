// SPDX-License-Identifier: Apache-2.0
// Heads that several architectures share. Each holds its backbone under the
// architecture's prefix, so that names are Hugging Face's.
//
// Shapes: B batch, T tokens, D width, C classes, V vocabulary.
#pragma once

#include <memory>
#include <string>

#include "transformers/model_module.h"
#include "transformers/model_recorder.h"

namespace transformers {

/// A model on a backbone.
class HeadModule : public ModelModule {
 public:
  explicit HeadModule(const std::shared_ptr<Backbone>& backbone);

  /// The same, recorded on a GPU where the step is short and the Accelerator
  /// allows it; see `ModelRecorder`.
  ModelResult forward(const ModelInputs& inputs) override;
  std::int64_t recorded_steps() const override;

  double initializer_range() const override;
  std::string base_model_prefix() const override;
  void set_gradient_checkpointing(bool on) override;
  void set_eager_attention(bool on) override;
  void set_autocast(std::optional<accelerate::AutocastPolicy> policy) override;

 protected:
  PretrainedConfig& common() { return config.common(); }
  Backbone& backbone() { return *backbone_; }
  const Backbone& backbone() const { return *backbone_; }
  /// How a recorded step may pad its batch.
  virtual Padding padding() const { return {}; }
  /// That of heads with a label and a result for each token.
  Padding padding_of_tokens() const;

 private:
  bool may_record(const ModelInputs& inputs) const;
  /// Why a step of a kind that is recorded is not; empty where it is.
  std::string why_not(const ModelInputs& inputs) const;

  std::shared_ptr<Backbone> backbone_;
  std::unique_ptr<ModelRecorder> recorder_;
  bool checkpoints_ = false;
};

/// A class for each token.
class TokenClassifier : public HeadModule {
 public:
  TokenClassifier(
      const std::shared_ptr<Backbone>& backbone,
      const std::string& name,
      double dropout);
  ModelResult compute(const ModelInputs& inputs) override;

 protected:
  Padding padding() const override { return padding_of_tokens(); }

 private:
  std::shared_ptr<Linear> classifier_;
  double dropout_;
};

/// Where an answer begins and ends.
class QuestionAnswerer : public HeadModule {
 public:
  explicit QuestionAnswerer(
      const std::shared_ptr<Backbone>& backbone, double dropout = 0.0);
  ModelResult compute(const ModelInputs& inputs) override;

 private:
  std::shared_ptr<Linear> qa_outputs_;
  double dropout_;
};

/// A class for each row, from its last token that is no padding.
class LastTokenClassifier : public HeadModule {
 public:
  LastTokenClassifier(
      const std::shared_ptr<Backbone>& backbone,
      std::optional<std::int64_t> pad_token_id);
  ModelResult compute(const ModelInputs& inputs) override;

 protected:
  Padding padding() const override;

 private:
  at::Tensor last_tokens_B(const ModelInputs& inputs) const;

  std::shared_ptr<Linear> score_;
  std::optional<std::int64_t> pad_token_id_;
};

/// The next token.
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
  Padding padding() const override { return padding_of_tokens(); }

 private:
  std::shared_ptr<Linear> lm_head_;  ///< Null when tied.
  std::string embedding_name_;
};

/// Scores of every token: a layer of its own, or the embeddings turned round.
at::Tensor vocabulary_logits(
    const at::Tensor& hidden_BTD,
    const std::shared_ptr<Linear>& decoder,
    const Embedding& embedding,
    const at::Tensor& bias_V = {});

}  // namespace transformers
