// SPDX-License-Identifier: Apache-2.0
// `from_pretrained` with a model name: downloads the configuration, the
// tokenizer and the model from a server on loopback.
#include <cstdlib>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include <torch/types.h>

#include "accelerate/error.h"
#include "accelerate/json.h"
#include "accelerate/safetensors.h"
#include "support/hub_server.h"
#include "support/temporary_directory.h"
#include "transformers/transformers.h"

namespace transformers {
namespace {

using accelerate::IoError;
using accelerate::Json;
using accelerate::test::HubServer;

class NamedModel : public testing::Test {
 protected:
  NamedModel() {
    const auto file = [](const std::string& name) {
      return Json::object({{"path", ACCELERATE_GOLDEN "/" + name}});
    };
    server_ = std::make_unique<HubServer>(
        folder_.path(),
        Json::object(
            {{"files",
              Json::object(
                  {{"config.json", file("models/bert_base/config.json")},
                   {"model.safetensors",
                    file("models/bert_base/model.safetensors")},
                   {"tokenizer.json", file("tokenizers/bert.json")}})}}));
    ::setenv("HF_ENDPOINT", server_->endpoint().c_str(), 1);
    ::setenv("HF_HOME", folder_.path().c_str(), 1);
    ::setenv("HF_HUB_CACHE", (folder_.path() / "cache").c_str(), 1);
  }

  accelerate::TemporaryDirectory folder_;
  std::unique_ptr<HubServer> server_;
};

TEST_F(NamedModel, DownloadsOnlyTheConfig) {
  const Config config = AutoConfig::from_pretrained(
      "org/model", {.revision = HubServer::kCommit});

  EXPECT_EQ(config.as<BertConfig>().hidden_size, 8);
  EXPECT_TRUE(server_->requests("model.safetensors").empty());
  EXPECT_TRUE(server_->requests("tokenizer.json").empty());
}

TEST_F(NamedModel, DownloadsOnlyTheTokenizer) {
  const auto tokenizer = AutoTokenizer::from_pretrained("org/model");
  const auto expected =
      AutoTokenizer::from_pretrained(ACCELERATE_GOLDEN "/tokenizers/bert.json");

  EXPECT_EQ(tokenizer.encode("hello world"), expected.encode("hello world"));
  EXPECT_TRUE(server_->requests("model.safetensors").empty());
}

TEST_F(NamedModel, ComputesTheSameAsAFolder) {
  const auto golden = accelerate::load_safetensors(
      ACCELERATE_GOLDEN "/models/bert_base/golden.safetensors");
  accelerate::TensorMap batch;
  for (const auto& [name, tensor] : golden) {
    if (name.starts_with("input.")) {
      batch[name.substr(6)] = tensor;
    }
  }

  const auto model =
      AutoModel::from_pretrained("org/model", {.hub = {.revision = "main"}});

  EXPECT_TRUE(at::allclose(
      model(batch).last_hidden_state,
      golden.at("output.last_hidden_state"),
      1e-5,
      1e-5));
}

TEST_F(NamedModel, LoadsFromTheCacheWithoutTheServer) {
  (void)AutoModel::from_pretrained("org/model");
  server_.reset();

  EXPECT_NO_THROW((void)AutoModel::from_pretrained(
      "org/model", {.hub = {.local_files_only = true}}));
  EXPECT_NO_THROW((void)AutoConfig::from_pretrained(
      "org/model", {.local_files_only = true}));
  EXPECT_THROW(
      (void)AutoConfig::from_pretrained(
          "org/other", {.local_files_only = true}),
      IoError);
}

}  // namespace
}  // namespace transformers
