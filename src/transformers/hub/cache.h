// SPDX-License-Identifier: Apache-2.0
// One model's folder in the cache, as Python's huggingface_hub lays it out.
//
//     models--org--name/refs/main              the commit that `main` was
//     models--org--name/blobs/<etag>           files, by their content
//     models--org--name/snapshots/<commit>/    links to them, by their names
//     .locks/models--org--name/<etag>.lock     held while one is downloaded
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "transformers/hub/repository.h"

namespace transformers::hub {

class ModelCache {
 public:
  ModelCache(std::filesystem::path cache, const Repository& repository);

  /// The commit that a revision is, as far as the cache knows.
  std::optional<std::string> commit_of(const std::string& revision) const;
  void set_commit(const std::string& revision, const std::string& commit) const;

  std::filesystem::path snapshot(const std::string& commit) const;
  std::filesystem::path blob(const std::string& etag) const;
  std::filesystem::path lock(const std::string& etag) const;

  /// Whether a file of a commit is there, whole.
  bool has(const std::string& commit, const std::string& file) const;
  /// Lets a file of a commit be that blob.
  void link(
      const std::string& commit,
      const std::string& file,
      const std::string& etag) const;

 private:
  std::filesystem::path cache_;
  std::string folder_;
};

}  // namespace transformers::hub
