// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>

#include "tokenizers/engine.h"
#include "tokenizers/files/tokenizer_config.h"
#include "tokenizers/rows.h"
#include "transformers/tokenizer.h"

namespace transformers {

class Tokenizer::Impl {
 public:
  Impl(
      tokenizers::TokenizerConfig config,
      std::unique_ptr<tokenizers::Pipeline> pipeline)
      : config_(std::move(config)), engine_(std::move(pipeline)) {}

  const tokenizers::Engine& engine() const { return engine_; }
  const tokenizers::Pipeline& pipeline() const { return engine_.pipeline(); }
  const tokenizers::TokenizerConfig& config() const { return config_; }
  std::optional<std::int64_t> id_of(std::string_view token) const;
  tokenizers::ResolvedOptions resolve(
      const TokenizerCallOptions& options) const;

 private:
  tokenizers::TokenizerConfig config_;
  tokenizers::Engine engine_;
};

}  // namespace transformers
