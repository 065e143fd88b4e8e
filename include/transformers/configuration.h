// SPDX-License-Identifier: Apache-2.0
// Model configurations: the typed content of a Hugging Face `config.json`.
//
//     auto config = transformers::AutoConfig::from_pretrained("bert-folder");
//     config.as<transformers::BertConfig>().hidden_size;
//
//     auto model = transformers::AutoModelForMaskedLM::from_config(
//         transformers::BertConfig{.hidden_size = 128, .num_hidden_layers = 2,
//                                  .num_attention_heads = 2,
//                                  .intermediate_size = 512});
//
// Field names and defaults are the same as in Hugging Face Transformers. Keys
// without a field are kept in `extra` and saved with the config.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/json.h"
#include "transformers/export.h"
#include "transformers/hub.h"

namespace transformers {

/// The fields that the configs of all architectures share.
struct TRANSFORMERS_API PretrainedConfig {
  std::int64_t num_labels = 2;
  /// Maps the index of each label to its name. If empty, the names are LABEL_0,
  /// LABEL_1, …
  std::map<std::int64_t, std::string> id2label = {};
  /// Selects the loss: "regression", "single_label_classification" or
  /// "multi_label_classification". Default: derived from `num_labels` and the
  /// data type of the first batch's labels.
  std::optional<std::string> problem_type = std::nullopt;
  /// Data type of the saved weights: "float32", "bfloat16", …
  std::optional<std::string> dtype = std::nullopt;
  /// Whether the model returns the hidden states and the attention weights.
  /// `CallOptions` may override this for one call.
  bool output_hidden_states = false;
  bool output_attentions = false;
  /// The Python classes that can load the model.
  std::vector<std::string> architectures = {};
  /// The entries in `config.json` for which this library has no field.
  accelerate::Json extra = accelerate::Json::object();
};

struct TRANSFORMERS_API BertConfig {
  static constexpr std::string_view model_type = "bert";
  std::int64_t vocab_size = 30522;
  std::int64_t hidden_size = 768;
  std::int64_t num_hidden_layers = 12;
  std::int64_t num_attention_heads = 12;
  std::int64_t intermediate_size = 3072;
  std::string hidden_act = "gelu";
  double hidden_dropout_prob = 0.1;
  double attention_probs_dropout_prob = 0.1;
  std::int64_t max_position_embeddings = 512;
  std::int64_t type_vocab_size = 2;
  double initializer_range = 0.02;
  double layer_norm_eps = 1e-12;
  std::optional<std::int64_t> pad_token_id = 0;
  std::optional<double> classifier_dropout = std::nullopt;
  bool is_decoder = false;
  bool tie_word_embeddings = true;
  PretrainedConfig common = {};
};

struct TRANSFORMERS_API RobertaConfig {
  static constexpr std::string_view model_type = "roberta";
  std::int64_t vocab_size = 50265;
  std::int64_t hidden_size = 768;
  std::int64_t num_hidden_layers = 12;
  std::int64_t num_attention_heads = 12;
  std::int64_t intermediate_size = 3072;
  std::string hidden_act = "gelu";
  double hidden_dropout_prob = 0.1;
  double attention_probs_dropout_prob = 0.1;
  std::int64_t max_position_embeddings = 512;
  std::int64_t type_vocab_size = 2;
  double initializer_range = 0.02;
  double layer_norm_eps = 1e-12;
  std::optional<std::int64_t> pad_token_id = 1;
  std::optional<double> classifier_dropout = std::nullopt;
  bool is_decoder = false;
  bool tie_word_embeddings = true;
  PretrainedConfig common = {};
};

struct TRANSFORMERS_API DistilBertConfig {
  static constexpr std::string_view model_type = "distilbert";
  std::int64_t vocab_size = 30522;
  std::int64_t max_position_embeddings = 512;
  bool sinusoidal_pos_embds = false;
  std::int64_t n_layers = 6;
  std::int64_t n_heads = 12;
  std::int64_t dim = 768;
  std::int64_t hidden_dim = 3072;
  double dropout = 0.1;
  double attention_dropout = 0.1;
  std::string activation = "gelu";
  double initializer_range = 0.02;
  double qa_dropout = 0.1;
  double seq_classif_dropout = 0.2;
  std::optional<std::int64_t> pad_token_id = 0;
  bool tie_word_embeddings = true;
  PretrainedConfig common = {};
};

struct TRANSFORMERS_API GPT2Config {
  static constexpr std::string_view model_type = "gpt2";
  std::int64_t vocab_size = 50257;
  std::int64_t n_positions = 1024;
  std::int64_t n_embd = 768;
  std::int64_t n_layer = 12;
  std::int64_t n_head = 12;
  /// Width of the inner layer of the MLP. Default: `4 * n_embd`.
  std::optional<std::int64_t> n_inner = std::nullopt;
  std::string activation_function = "gelu_new";
  double resid_pdrop = 0.1;
  double embd_pdrop = 0.1;
  double attn_pdrop = 0.1;
  double layer_norm_epsilon = 1e-5;
  double initializer_range = 0.02;
  bool scale_attn_weights = true;
  bool scale_attn_by_inverse_layer_idx = false;
  std::optional<std::int64_t> pad_token_id = std::nullopt;
  std::optional<double> classifier_dropout = std::nullopt;
  bool tie_word_embeddings = true;
  PretrainedConfig common = {};
};

/// Parameters of the rotary position embedding (RoPE). Set only the fields that
/// `rope_type` uses.
struct TRANSFORMERS_API RopeParameters {
  /// "default", "linear", "dynamic", "yarn", "longrope" or "llama3".
  std::string rope_type = "default";
  double rope_theta = 10000.0;
  std::optional<double> factor = std::nullopt;
  std::optional<std::int64_t> original_max_position_embeddings = std::nullopt;
  std::optional<double> attention_factor = std::nullopt;
  std::optional<double> beta_fast = std::nullopt;
  std::optional<double> beta_slow = std::nullopt;
  std::optional<double> mscale = std::nullopt;
  std::optional<double> mscale_all_dim = std::nullopt;
  std::optional<bool> truncate = std::nullopt;
  std::optional<std::vector<double>> short_factor = std::nullopt;
  std::optional<std::vector<double>> long_factor = std::nullopt;
  std::optional<double> low_freq_factor = std::nullopt;
  std::optional<double> high_freq_factor = std::nullopt;
};

struct TRANSFORMERS_API LlamaConfig {
  static constexpr std::string_view model_type = "llama";
  std::int64_t vocab_size = 32000;
  std::int64_t hidden_size = 4096;
  std::int64_t intermediate_size = 11008;
  std::int64_t num_hidden_layers = 32;
  std::int64_t num_attention_heads = 32;
  /// Number of heads for keys and values. Default: `num_attention_heads`.
  std::optional<std::int64_t> num_key_value_heads = std::nullopt;
  std::string hidden_act = "silu";
  std::int64_t max_position_embeddings = 2048;
  double initializer_range = 0.02;
  double rms_norm_eps = 1e-6;
  std::optional<std::int64_t> pad_token_id = std::nullopt;
  bool tie_word_embeddings = false;
  RopeParameters rope_parameters = {};
  bool attention_bias = false;
  double attention_dropout = 0.0;
  bool mlp_bias = false;
  /// Width of one head. Default: `hidden_size / num_attention_heads`.
  std::optional<std::int64_t> head_dim = std::nullopt;
  std::optional<double> classifier_dropout = std::nullopt;
  PretrainedConfig common = {};
};

class ConfigValue;

/// A config for any architecture. Copies are independent of each other.
class TRANSFORMERS_API Config {
 public:
  Config(BertConfig config);        // NOLINT(google-explicit-constructor)
  Config(RobertaConfig config);     // NOLINT(google-explicit-constructor)
  Config(DistilBertConfig config);  // NOLINT(google-explicit-constructor)
  Config(GPT2Config config);        // NOLINT(google-explicit-constructor)
  Config(LlamaConfig config);       // NOLINT(google-explicit-constructor)
  explicit Config(std::unique_ptr<ConfigValue> value);
  Config(const Config& other);
  Config(Config&&) noexcept;
  Config& operator=(const Config& other);
  Config& operator=(Config&&) noexcept;
  ~Config();

  std::string_view model_type() const;
  const PretrainedConfig& common() const;
  PretrainedConfig& common();

  /// Returns the struct for the architecture, such as `BertConfig`. Throws
  /// `ArgumentError` when the config belongs to a different architecture.
  template <typename Typed>
  const Typed& as() const;
  template <typename Typed>
  Typed& as();

  accelerate::Json to_json() const;
  /// Reads a config from JSON. The member `model_type` selects the
  /// architecture.
  ///
  /// Throws `UnsupportedError` for an unknown `model_type` (the message lists
  /// the supported types) and for a model that needs its own Python code.
  /// Throws `FormatError` for a value of the wrong type. Error messages name
  /// `source`.
  static Config from_json(
      const accelerate::Json& json, const std::string& source = "config");

  /// Writes `config.json` into a folder.
  void save_pretrained(const std::filesystem::path& folder) const;

  const ConfigValue& value() const { return *value_; }
  ConfigValue& value() { return *value_; }

 private:
  std::unique_ptr<ConfigValue> value_;
};

/// Reads the config of any architecture.
class TRANSFORMERS_API AutoConfig {
 public:
  /// Reads a `config.json`. `name` is the path of the file, the folder that
  /// contains the file, or the name of a model on the Hub. From the Hub, only
  /// the config is downloaded.
  static Config from_pretrained(
      const std::string& name, hub::ResolveOptions options = {});
  /// Returns the supported values of `model_type`.
  static std::vector<std::string> model_types();
};

}  // namespace transformers
