// SPDX-License-Identifier: Apache-2.0
// Models from the Hugging Face Hub, by way of the cache that Python shares.
//
//     const auto folder = transformers::hub::resolve_folder("org/name");
//
// The cache is HF_HUB_CACHE, else `hub` in HF_HOME, else in
// `~/.cache/huggingface`. HF_ENDPOINT is another server, HF_TOKEN (or the file
// that `hf auth login` writes) a token, HF_HUB_OFFLINE=1 forbids the network.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "transformers/export.h"

namespace transformers::hub {

/// What a folder is wanted for.
enum class Content {
  model,      ///< configuration, weights, and the tokenizer where there is one
  tokenizer,  ///< configuration and tokenizer
  config,     ///< `config.json` alone
};

struct ResolveOptions {
  /// A branch, a tag or a commit; `main` unless told.
  std::optional<std::string> revision = std::nullopt;
  /// Instead of HF_TOKEN; an empty one sends none.
  std::optional<std::string> token = std::nullopt;
  /// Instead of the cache that the environment names.
  std::filesystem::path cache_dir = {};
  /// Uses what is in the cache and never the network.
  bool local_files_only = false;
  Content content = Content::model;
  /// Names of files, or shell patterns of them (`*.json`), instead of what
  /// `content` says. A name must be there, a pattern may match nothing.
  std::vector<std::string> files = {};
  /// Whether a bar shows how far a download is; left out: when stderr is a
  /// terminal and HF_HUB_DISABLE_PROGRESS_BARS is not set.
  std::optional<bool> progress = std::nullopt;
  /// Longest wait for another process that is downloading the same file.
  std::chrono::seconds lock_timeout = std::chrono::hours(6);
};

/// Returns a folder with the files of a model: `name_or_folder` itself when it
/// is a folder, else the snapshot of the model `org/name` in the cache, after
/// downloading what is missing.
///
/// Of several processes one downloads a file and the others wait for it. A
/// file is complete or absent; a download that was cut goes on where it ended.
/// Weights come as safetensors only: pickled ones could run code.
///
/// Without a connection the cache is used as it is, if it has what is needed.
/// Throws `ArgumentError` for a name that cannot be one, `IoError` that names
/// address, status and remedy when the server refuses or cannot be reached,
/// `FormatError` when what it sends is not what it promised,
/// `UnsupportedError` for a model that has pickled weights alone.
[[nodiscard]] TRANSFORMERS_API std::filesystem::path resolve_folder(
    const std::string& name_or_folder, const ResolveOptions& options = {});

}  // namespace transformers::hub
