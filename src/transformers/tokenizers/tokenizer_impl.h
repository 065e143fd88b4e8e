// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>

#include "transformers/tokenizer.h"
#include "transformers/tokenizers/engine.h"
#include "transformers/tokenizers/rows.h"
#include "transformers/tokenizers/settings.h"

namespace transformers {

class Tokenizer::Impl {
 public:
  Impl(
      tokenizers::Settings settings,
      std::unique_ptr<tokenizers::Pipeline> pipeline)
      : settings_(std::move(settings)), engine_(std::move(pipeline)) {}

  const tokenizers::Engine& engine() const { return engine_; }
  const tokenizers::Pipeline& pipeline() const { return engine_.pipeline(); }
  const tokenizers::Settings& settings() const { return settings_; }
  std::optional<std::int64_t> id_of(std::string_view token) const;
  tokenizers::RowPlan plan(const TokenizerCallOptions& options) const;

 private:
  tokenizers::Settings settings_;
  tokenizers::Engine engine_;
};

}  // namespace transformers
