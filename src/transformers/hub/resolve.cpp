// SPDX-License-Identifier: Apache-2.0
#include "transformers/hub/resolve.h"

#include <utility>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "config/environment.h"
#include "transformers/cache_folder.h"
#include "transformers/hub/cache.h"
#include "transformers/hub/download.h"
#include "transformers/hub/progress.h"
#include "transformers/hub/repository.h"

namespace transformers::hub {
namespace {

namespace fs = std::filesystem;
using accelerate::IoError;
using accelerate::str_cat;

bool looks_like_path(const std::string& text) {
  return text.starts_with('/') || text.starts_with('.') ||
         text.starts_with('~') || text.ends_with('/');
}

/// The snapshot in the cache, if it has all that is wanted; else what it lacks.
struct Cached {
  std::optional<fs::path> folder;
  std::string lacks;
};

Cached find_cached(
    const ModelCache& cache,
    const Repository& repository,
    const Wanted& wanted) {
  const auto commit = cache.commit_of(repository.revision);
  if (!commit || !fs::is_directory(cache.snapshot(*commit))) {
    return {
        std::nullopt,
        str_cat("nothing of its revision `", repository.revision, "`")};
  }
  const auto folder = cache.snapshot(*commit);
  const auto missing = missing_files(wanted, folder);
  if (missing.empty()) {
    return {folder, ""};
  }
  return {
      std::nullopt,
      str_cat("no ", accelerate::join(missing, ", "), " of commit ", *commit)};
}

fs::path from_cache_alone(
    const Cached& cached,
    const Repository& repository,
    const Settings& settings) {
  if (cached.folder) {
    return *cached.folder;
  }
  throw IoError(
      str_cat(
          "the network is forbidden, and the cache ",
          settings.cache.string(),
          " has ",
          cached.lacks,
          " of `",
          repository.name,
          "`"),
      "unset HF_HUB_OFFLINE (and `local_files_only`) once to download it");
}

fs::path download_model(
    const ModelCache& cache,
    const Repository& repository,
    const Wanted& wanted,
    const Settings& settings) {
  Downloader downloader(settings, repository);
  const Listing listing = downloader.list();
  const auto files = choose_files(
      wanted,
      listing.files,
      str_cat("`", repository.name, "` at ", listing.commit.substr(0, 8)));
  const fs::path folder = cache.snapshot(listing.commit);
  for (const std::string& file : files) {
    downloader.fetch(cache, listing.commit, file);
    if (file == kWeightsIndex && wanted.files.empty()) {
      for (const std::string& shard : shards_of(folder / kWeightsIndex)) {
        downloader.fetch(cache, listing.commit, shard);
      }
    }
  }
  // Last, so that a download that was cut leaves the revision what it was.
  cache.set_commit(repository.revision, listing.commit);
  return folder;
}

}  // namespace

fs::path resolve_model(
    const std::string& name_or_folder,
    const std::string& revision,
    const Wanted& wanted,
    const Settings& settings) {
  const Repository repository = make_repository(name_or_folder, revision);
  const ModelCache cache(settings.cache, repository);
  if (settings.offline || is_commit(revision)) {
    const Cached cached = find_cached(cache, repository, wanted);
    if (settings.offline) {
      return from_cache_alone(cached, repository, settings);
    }
    if (cached.folder) {
      return *cached.folder;  // A commit never changes.
    }
  }
  try {
    return download_model(cache, repository, wanted, settings);
  } catch (const Unavailable& error) {
    const Cached cached = find_cached(cache, repository, wanted);
    if (!cached.folder) {
      throw;
    }
    warn(str_cat(error.what(), "; using the cached ", cached.folder->string()));
    return *cached.folder;
  }
}

fs::path resolve_folder(
    const std::string& name_or_folder, const ResolveOptions& options) {
  const auto environment = accelerate::Environment::of_this_process();
  const fs::path path = with_home(name_or_folder, environment);
  std::error_code error;
  if (!name_or_folder.empty() && fs::is_directory(path, error)) {
    return path;
  }
  if (looks_like_path(name_or_folder)) {
    throw IoError(
        str_cat("there is no folder ", accelerate::printable(path.string())),
        "check the path, or name a model on the Hub as `org/name`");
  }
  return resolve_model(
      name_or_folder,
      options.revision.value_or("main"),
      {options.content, options.files},
      make_settings(environment, options));
}

}  // namespace transformers::hub
