// SPDX-License-Identifier: Apache-2.0
// `accelerate estimate-memory` describes the layers of each architecture
// without LibTorch. Here the description is compared with the modules.
#include "launch/model_size.h"

#include <gtest/gtest.h>

#include "transformers/models/registry.h"

namespace transformers {
namespace {

// With the names of the sizes in all architectures.
Config small_config(const std::string& model_type, bool is_tied) {
  using accelerate::Json;
  Json json = Json::parse(R"({
    "vocab_size": 50, "max_position_embeddings": 20, "type_vocab_size": 2,
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 24, "dim": 16,
    "n_layers": 2, "n_heads": 4, "hidden_dim": 24, "n_embd": 16, "n_layer": 2,
    "n_head": 4, "n_positions": 20, "num_labels": 2})");
  json["model_type"] = Json(model_type);
  json["tie_word_embeddings"] = Json(is_tied);
  return Config::from_json(json);
}

TEST(ModelSize, CountsTheParametersOfEveryClass) {
  int classes = 0;
  for (const std::string& model_type : known_model_types()) {
    for (const auto& [task, model_class] :
         architecture(model_type, "test").classes) {
      for (const bool is_tied : {true, false}) {
        SCOPED_TRACE(model_class.name + (is_tied ? ", tied" : ", not tied"));
        Config config = small_config(model_type, is_tied);
        config.common().architectures = {model_class.name};
        std::int64_t parameters = 0;
        for (const at::Tensor& tensor :
             model_class.make(config)->parameters()) {
          parameters += tensor.numel();
        }

        EXPECT_EQ(
            accelerate::size_from_config(config.to_json(), "test").parameters(),
            parameters);
        ++classes;
      }
    }
  }
  EXPECT_GE(classes, 40);
}

}  // namespace
}  // namespace transformers
