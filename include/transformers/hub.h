// SPDX-License-Identifier: Apache-2.0
// Downloads models from the Hugging Face Hub into the cache that the Python
// libraries use.
//
//     const auto folder = transformers::hub::resolve_folder("org/name");
//
// Environment variables configure the downloads. The cache is the folder
// HF_HUB_CACHE, or else `hub` in the folder HF_HOME. By default, HF_HOME is
// `huggingface` in the folder XDG_CACHE_HOME, or else `~/.cache/huggingface`.
// HF_ENDPOINT selects a different server. HF_TOKEN, or the file that `hf auth
// login` writes, provides the access token. HF_HUB_OFFLINE=1 disables network
// access.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "transformers/export.h"

namespace transformers::hub {

/// The parts of a model to fetch.
enum class Content {
  model,      ///< configuration, weights, and the tokenizer if there is one
  tokenizer,  ///< configuration and tokenizer
  config,     ///< only `config.json`
};

struct ResolveOptions {
  /// A branch, a tag or a commit. Default: `main`.
  std::optional<std::string> revision = std::nullopt;
  /// The access token. If it is an empty string, no token is sent. Default:
  /// HF_TOKEN, or else the token that `hf auth login` saved.
  std::optional<std::string> token = std::nullopt;
  /// The cache folder. Default: the folder that the environment variables
  /// select.
  std::filesystem::path cache_dir = {};
  /// Whether to use only the cache, never the network.
  bool local_files_only = false;
  Content content = Content::model;
  /// The names of the files to fetch, or shell patterns such as `*.json`. If
  /// set, `content` is ignored. A named file must exist; a pattern may match
  /// nothing.
  std::vector<std::string> files = {};
  /// Whether to show a progress bar. Default: true if stderr is a terminal and
  /// HF_HUB_DISABLE_PROGRESS_BARS is not set.
  std::optional<bool> progress = std::nullopt;
  /// How long to wait for another process that is downloading the same file.
  std::chrono::seconds lock_timeout = std::chrono::hours(6);
};

/// Returns a folder with the files of a model: `name_or_folder` itself if it
/// is a folder, otherwise the cached snapshot of the model `org/name`. Missing
/// files are downloaded first.
///
/// If several processes need a file, one process downloads the file and the
/// other processes wait. A file in the cache is always complete; an interrupted
/// download resumes. Only safetensors weights are downloaded, because pickle
/// files can run code.
///
/// If the server cannot be reached but the cached snapshot is complete, the
/// cached snapshot is used.
///
/// Throws `ArgumentError` for a malformed name; `IoError` with the URL, the
/// status and a hint when the server rejects the request, or when it cannot be
/// reached and the cached snapshot is incomplete; `FormatError` when the
/// server's response is inconsistent; and `UnsupportedError` for a model that
/// has only pickled weights.
[[nodiscard]] TRANSFORMERS_API std::filesystem::path resolve_folder(
    const std::string& name_or_folder, const ResolveOptions& options = {});

}  // namespace transformers::hub
