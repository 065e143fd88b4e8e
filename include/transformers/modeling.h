// SPDX-License-Identifier: Apache-2.0
// A model of any architecture: its parameters, its mode, its folder.
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

/// How a model is loaded. A field left out keeps what the folder says.
struct FromPretrainedOptions {
  /// How many classes a head tells apart.
  std::optional<std::int64_t> num_labels = std::nullopt;
  /// Their names; gives `num_labels` too.
  std::optional<std::map<std::int64_t, std::string>> id2label = std::nullopt;
  /// "regression", "single_label_classification" or
  /// "multi_label_classification".
  std::optional<std::string> problem_type = std::nullopt;
  /// Type of the weights; else the config's, else the file's.
  std::optional<c10::ScalarType> dtype = std::nullopt;
  /// "sdpa" (LibTorch's fused attention) or "eager" (step by step).
  std::optional<std::string> attn_implementation = std::nullopt;
  /// Used in place of the folder's config.
  std::optional<Config> config = std::nullopt;
  /// Draws weights of another shape than the file's anew; else an error.
  bool ignore_mismatched_sizes = false;
  /// Which revision of a model on the Hub, and how it is fetched.
  hub::ResolveOptions hub = {};
  /// Says on stderr which weights were drawn anew and which not used; of
  /// several processes, the first.
  bool report = true;
};

/// How a model with random weights is made.
struct FromConfigOptions {
  std::optional<c10::ScalarType> dtype = std::nullopt;
  std::optional<std::string> attn_implementation = std::nullopt;
};

struct SavePretrainedOptions {
  /// Bytes of a file; larger models are cut into several.
  std::uint64_t max_shard_size = std::uint64_t{50'000'000'000};
};

/// How a model is called.
struct CallOptions {
  bool output_hidden_states = false;
  /// Attention is then computed step by step.
  bool output_attentions = false;
  /// Whether a causal model that trains with labels on a GPU computes the
  /// logits too, which its loss does without. Otherwise `logits` has their
  /// shape and no values: it lies on the device `meta`, and LibTorch throws
  /// where its values are wanted.
  bool output_logits = false;
};

/// How the weights of a model came to be.
struct LoadingReport {
  std::string source;
  std::string model;                    ///< Its class in Python.
  std::vector<std::string> missing;     ///< Not in the file: drawn anew.
  std::vector<std::string> mismatched;  ///< Of another shape: drawn anew.
  std::vector<std::string> unexpected;  ///< In the file, without a place here.

  /// One line for each of the three that is not empty.
  TRANSFORMERS_API std::string text() const;
};

/// What `->` of a model handle reaches. Not thread-safe.
class TRANSFORMERS_API PreTrainedModel {
 public:
  explicit PreTrainedModel(std::shared_ptr<ModelModule> module);
  PreTrainedModel(const PreTrainedModel&) = delete;
  PreTrainedModel& operator=(const PreTrainedModel&) = delete;
  ~PreTrainedModel();

  /// Each parameter once, under Hugging Face's name.
  std::vector<at::Tensor> parameters() const;
  std::vector<std::pair<std::string, at::Tensor>> named_parameters() const;
  std::int64_t num_parameters(bool only_trainable = false) const;

  void train(bool on = true);
  void eval();
  bool is_training() const;
  void zero_grad(bool set_to_none = true);
  void to(const c10::Device& device);
  void to(c10::ScalarType dtype);

  /// Computes each layer a second time in backward in place of remembering it.
  void gradient_checkpointing_enable();
  void gradient_checkpointing_disable();

  /// Forwards that a GPU started from a recording of an earlier one; see
  /// `AcceleratorOptions::record_steps`.
  std::int64_t recorded_steps() const;

  const Config& config() const;
  /// Which weights were found, drawn anew and left over.
  const LoadingReport& loading_report() const;

  /// Writes `config.json` and the weights as Python reads them.
  void save_pretrained(
      const std::filesystem::path& folder,
      const SavePretrainedOptions& options = {}) const;

  const std::shared_ptr<ModelModule>& implementation() const { return module_; }

 private:
  std::shared_ptr<ModelModule> module_;
};

}  // namespace transformers
