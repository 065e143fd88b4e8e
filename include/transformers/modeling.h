// SPDX-License-Identifier: Apache-2.0
// The interface that models of all architectures share.
//
//     auto model = transformers::AutoModelForSequenceClassification::
//         from_pretrained("bert-base-uncased", {.num_labels = 3});
//     model->train();
//     auto outputs = model(batch);          // loss, logits
//     model->save_pretrained("fine-tuned");
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "accelerate/fwd.h"
#include "accelerate/tensor_map.h"
#include "transformers/configuration.h"
#include "transformers/export.h"
#include "transformers/hub.h"

namespace transformers {

class ModelModule;

/// Options for `from_pretrained`. For an optional field that is not set, the
/// model's config provides the value.
struct FromPretrainedOptions {
  /// Number of classes that the head predicts.
  std::optional<std::int64_t> num_labels = std::nullopt;
  /// Maps the index of each class to its name. Also sets `num_labels`.
  std::optional<std::map<std::int64_t, std::string>> id2label = std::nullopt;
  /// Selects the loss: "regression", "single_label_classification" or
  /// "multi_label_classification".
  std::optional<std::string> problem_type = std::nullopt;
  /// Data type of the weights. Default: the config's `dtype`, or else the type
  /// of the weights in the file.
  std::optional<c10::ScalarType> dtype = std::nullopt;
  /// "sdpa" (LibTorch's fused attention) or "eager" (separate operations).
  std::optional<std::string> attn_implementation = std::nullopt;
  /// The config to use instead of the `config.json` in the model's folder.
  std::optional<Config> config = std::nullopt;
  /// Whether to initialize a weight randomly if its shape in the file differs
  /// from its shape in the model. If false, such a difference is an error.
  bool ignore_mismatched_sizes = false;
  /// For a model on the Hub: its revision, and how to download it.
  hub::ResolveOptions hub = {};
  /// Whether to print to stderr which weights were initialized randomly and
  /// which weights in the files were not used. Only the main process prints
  /// this report.
  bool report = true;
};

/// Options for `from_config`.
struct FromConfigOptions {
  /// Data type of the weights. Default: the config's `dtype`, or else float32.
  std::optional<c10::ScalarType> dtype = std::nullopt;
  std::optional<std::string> attn_implementation = std::nullopt;
};

struct SavePretrainedOptions {
  /// Maximum size of a weights file in bytes. The weights of a larger model are
  /// split into several files.
  std::uint64_t max_shard_size = std::uint64_t{50'000'000'000};
};

/// Options for one forward pass.
struct CallOptions {
  /// Whether to return the hidden states of all layers. Default: the config's
  /// `output_hidden_states`.
  std::optional<bool> output_hidden_states = std::nullopt;
  /// Whether to return the attention weights. If true, the model uses eager
  /// attention. Default: the config's `output_attentions`.
  std::optional<bool> output_attentions = std::nullopt;
  /// In bf16 on a GPU, a causal model that trains with labels computes its loss
  /// without logits. The model computes `logits` only when an operator first
  /// reads `logits`, which must happen before the weights change. If this
  /// option is true, the model computes `logits` in the forward pass instead.
  bool output_logits = false;
};

/// Describes how the weights in a model's files differ from the weights of the
/// model.
struct LoadingReport {
  std::string source;
  std::string model;  ///< The Python class of the model.
  /// Weights that are not in the files and were initialized randomly.
  std::vector<std::string> missing;
  /// Weights whose shape in the files differs from their shape in the model.
  /// They were initialized randomly.
  std::vector<std::string> mismatched;
  /// Weights in the files that the model does not have.
  std::vector<std::string> unexpected;
  /// Pairs of weights that the config ties, but whose values in the files
  /// differ. Both weights keep their values from the files.
  std::vector<std::pair<std::string, std::string>> untied;

  /// Returns one line for each list that is not empty.
  TRANSFORMERS_API std::string text() const;
};

/// The model that a handle such as `AutoModel` refers to. Use the handle's `->`
/// to call these functions.
///
/// Thread safety: only one thread at a time may use a model.
class TRANSFORMERS_API PreTrainedModel {
 public:
  explicit PreTrainedModel(std::shared_ptr<ModelModule> module);
  PreTrainedModel(const PreTrainedModel&) = delete;
  PreTrainedModel& operator=(const PreTrainedModel&) = delete;
  ~PreTrainedModel();

  /// Returns all parameters; tied parameters are returned only once. Names are
  /// the same as in Hugging Face Transformers.
  std::vector<at::Tensor> parameters() const;
  std::vector<std::pair<std::string, at::Tensor>> named_parameters() const;
  std::int64_t num_parameters(bool only_trainable = false) const;

  void train(bool on = true);
  void eval();
  bool is_training() const;
  void zero_grad(bool set_to_none = true);
  void to(const c10::Device& device);
  void to(c10::ScalarType dtype);

  /// Saves memory by recomputing each layer in the backward pass instead of
  /// storing its activations.
  void gradient_checkpointing_enable();
  void gradient_checkpointing_disable();

  /// Returns how many forward passes were replayed from a CUDA graph; see
  /// `AcceleratorOptions::record_steps`.
  std::int64_t recorded_steps() const;

  const Config& config() const;
  /// Returns which weights were missing from the files, mismatched or unused.
  const LoadingReport& loading_report() const;

  /// Writes `config.json` and the weights in the format that Hugging Face
  /// Transformers reads.
  void save_pretrained(
      const std::filesystem::path& folder,
      const SavePretrainedOptions& options = {}) const;

  const std::shared_ptr<ModelModule>& implementation() const { return module_; }

 private:
  std::shared_ptr<ModelModule> module_;
};

}  // namespace transformers
