// SPDX-License-Identifier: Apache-2.0
#include "hub/resolve.h"

#include <utility>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "config/environment.h"
#include "config/user_folders.h"
#include "hub/cache.h"
#include "hub/download.h"
#include "hub/progress.h"
#include "hub/repository.h"

namespace transformers::hub {
namespace {

namespace fs = std::filesystem;
using accelerate::IoError;
using accelerate::str_cat;

bool looks_like_path(const std::string& text) {
  return text.starts_with('/') || text.starts_with('.') ||
         text.starts_with('~') || text.ends_with('/');
}

/// The cached snapshot if it is complete, otherwise a description of what is
/// missing.
struct Cached {
  std::optional<fs::path> folder;
  std::string missing;
};

Cached find_cached(
    const ModelCache& cache,
    const Repository& repository,
    const RequestedFiles& requested) {
  const auto commit = cache.commit_of(repository.revision);
  if (!commit || !fs::is_directory(cache.snapshot(*commit))) {
    return {std::nullopt, str_cat("revision `", repository.revision, "`")};
  }
  const auto folder = cache.snapshot(*commit);
  const auto missing = missing_files(requested, folder);
  if (missing.empty()) {
    return {folder, ""};
  }
  return {
      std::nullopt,
      str_cat(accelerate::join(missing, ", "), " at commit ", *commit)};
}

fs::path require_cached(
    const Cached& cached,
    const Repository& repository,
    const HubOptions& options) {
  if (cached.folder) {
    return *cached.folder;
  }
  throw IoError(
      str_cat(
          "network access is disabled, and the cache ",
          options.cache.string(),
          " does not contain ",
          cached.missing,
          " of `",
          repository.name,
          "`"),
      "unset HF_HUB_OFFLINE and `local_files_only` to download the model");
}

fs::path download_model(
    const ModelCache& cache,
    const Repository& repository,
    const RequestedFiles& requested,
    const HubOptions& options) {
  Downloader downloader(options, repository);
  const Listing listing = downloader.list();
  const auto files = choose_files(
      requested,
      listing.files,
      str_cat("`", repository.name, "` at ", listing.commit.substr(0, 8)));
  const fs::path folder = cache.snapshot(listing.commit);
  for (const std::string& file : files) {
    downloader.fetch(cache, listing.commit, file);
    if (file == kWeightsIndex && requested.files.empty()) {
      for (const std::string& shard : shards_of(folder / kWeightsIndex)) {
        downloader.fetch(cache, listing.commit, shard);
      }
    }
  }
  // Done last, so that an interrupted download does not change the revision.
  cache.set_commit(repository.revision, listing.commit);
  return folder;
}

}  // namespace

fs::path resolve_model(
    const std::string& name_or_folder,
    const std::string& revision,
    const RequestedFiles& requested,
    const HubOptions& options) {
  const Repository repository = make_repository(name_or_folder, revision);
  const ModelCache cache(options.cache, repository);
  if (options.offline || is_commit(revision)) {
    const Cached cached = find_cached(cache, repository, requested);
    if (options.offline) {
      return require_cached(cached, repository, options);
    }
    if (cached.folder) {
      return *cached.folder;  // A commit never changes.
    }
  }
  try {
    return download_model(cache, repository, requested, options);
  } catch (const Unavailable& error) {
    const Cached cached = find_cached(cache, repository, requested);
    if (!cached.folder) {
      throw;
    }
    warn(str_cat(
        error.what(), "; using the cached snapshot ", cached.folder->string()));
    return *cached.folder;
  }
}

fs::path resolve_folder(
    const std::string& name_or_folder, const ResolveOptions& options) {
  const auto environment = accelerate::Environment::of_this_process();
  const fs::path path = expand_home(name_or_folder, environment);
  std::error_code error;
  if (!name_or_folder.empty() && fs::is_directory(path, error)) {
    return path;
  }
  if (looks_like_path(name_or_folder)) {
    throw IoError(
        str_cat("there is no folder ", accelerate::printable(path.string())),
        "check the path, or pass the name of a model on the Hub as `org/name`");
  }
  return resolve_model(
      name_or_folder,
      options.revision.value_or("main"),
      {options.content, options.files},
      make_hub_options(environment, options));
}

}  // namespace transformers::hub
