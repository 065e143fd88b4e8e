// SPDX-License-Identifier: Apache-2.0
// The Hub's answers: the list of a model's files, and the files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/error.h"
#include "transformers/hub/cache.h"
#include "transformers/hub/http.h"
#include "transformers/hub/repository.h"
#include "transformers/hub/settings.h"

namespace transformers::hub {

/// The server cannot be reached, or is not well: what is in the cache may do.
class Unavailable : public accelerate::IoError {
 public:
  using IoError::IoError;
};

struct Listing {
  std::string commit;
  std::vector<std::string> files;
};

/// Talks to the Hub about one model.
class Downloader {
 public:
  Downloader(const Settings& settings, Repository repository);

  /// Throws as `resolve_folder`; `Unavailable` after the last attempt.
  Listing list();

  /// Puts a file of a commit into the cache, unless it is there.
  void fetch(
      const ModelCache& cache,
      const std::string& commit,
      const std::string& file);

 private:
  struct Metadata {
    std::string etag;
    std::optional<std::int64_t> size;
  };

  Response request(const Request& request);
  Metadata metadata(const std::string& url, const std::string& commit);
  void download(
      const std::string& url,
      const Metadata& metadata,
      const std::string& file,
      const std::filesystem::path& blob);
  [[noreturn]] void refuse(const Response& response) const;

  const Settings& settings_;
  Repository repository_;
  HttpClient client_;
};

/// `W/"abc"` as `abc`.
std::string normalized_etag(std::string_view etag);

}  // namespace transformers::hub
