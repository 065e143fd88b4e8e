// SPDX-License-Identifier: Apache-2.0
// One model's folder in the cache, in the layout of Python's huggingface_hub.
//
//     models--org--name/refs/main              the commit of `main`
//     models--org--name/blobs/<etag>           the files, by content
//     models--org--name/snapshots/<commit>/    links to the blobs, by name
//     .locks/models--org--name/<etag>.lock     held during a download
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "hub/repository.h"

namespace transformers::hub {

class ModelCache {
 public:
  ModelCache(std::filesystem::path cache, const Repository& repository);

  /// Returns the commit that the cache stores for a revision, or nothing.
  std::optional<std::string> commit_of(const std::string& revision) const;
  void set_commit(const std::string& revision, const std::string& commit) const;

  std::filesystem::path snapshot(const std::string& commit) const;
  std::filesystem::path blob(const std::string& etag) const;
  std::filesystem::path lock(const std::string& etag) const;

  /// Returns whether the cache contains a file from a commit.
  bool has(const std::string& commit, const std::string& file) const;
  /// Creates a file in a commit's snapshot as a link to a blob.
  void link(
      const std::string& commit,
      const std::string& file,
      const std::string& etag) const;

 private:
  std::filesystem::path cache_;
  std::string folder_;
};

}  // namespace transformers::hub
