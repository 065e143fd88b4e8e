// SPDX-License-Identifier: Apache-2.0
// Downloads the list of a model's files, and the files themselves.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/error.h"
#include "hub/cache.h"
#include "hub/http.h"
#include "hub/hub_options.h"
#include "hub/repository.h"

namespace transformers::hub {

class BlobFile;

/// Thrown if the server cannot be reached or is overloaded. The model may still
/// be in the cache.
class Unavailable : public accelerate::IoError {
 public:
  using IoError::IoError;
};

struct Listing {
  std::string commit;
  std::vector<std::string> files;
};

/// Downloads the files of one model.
class Downloader {
 public:
  Downloader(const HubOptions& options, Repository repository);

  /// Returns the list of the model's files. Throws the same exceptions as
  /// `resolve_folder`, and `Unavailable` when the last attempt fails.
  Listing list();

  /// Downloads a file from a commit into the cache, unless the cache already
  /// contains the file.
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
  void check_disk(
      const BlobFile& partial,
      std::optional<std::int64_t> size,
      const std::string& file,
      const std::filesystem::path& folder) const;
  [[noreturn]] void refuse(const Response& response) const;

  const HubOptions& options_;
  Repository repository_;
  HttpClient client_;
};

/// Removes the prefix and the quotes from an ETag: `W/"abc"` becomes `abc`.
std::string normalized_etag(std::string_view etag);

}  // namespace transformers::hub
