// SPDX-License-Identifier: Apache-2.0
#include "hub/cache.h"

#include <cerrno>
#include <system_error>
#include <utility>

#include <unistd.h>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/hmac.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace transformers::hub {
namespace {

namespace fs = std::filesystem;

void make_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) {
    accelerate::throw_errno("create", path, error.value());
  }
}

}  // namespace

ModelCache::ModelCache(fs::path cache, const Repository& repository)
    : cache_(std::move(cache)), folder_(repository.folder()) {
}

std::optional<std::string> ModelCache::commit_of(
    const std::string& revision) const {
  if (is_commit(revision)) {
    return revision;
  }
  const fs::path path = cache_ / folder_ / "refs" / revision;
  std::error_code error;
  if (!fs::is_regular_file(path, error)) {
    return std::nullopt;
  }
  const std::string commit(accelerate::trim(accelerate::read_file(path, 4096)));
  if (!is_commit(commit)) {
    throw accelerate::FormatError(
        accelerate::str_cat(path.string(), " does not contain a commit hash"),
        "remove the file; the next download writes it again");
  }
  return commit;
}

void ModelCache::set_commit(
    const std::string& revision, const std::string& commit) const {
  if (is_commit(revision) || commit_of(revision) == commit) {
    return;
  }
  accelerate::write_file(cache_ / folder_ / "refs" / revision, commit);
}

fs::path ModelCache::snapshot(const std::string& commit) const {
  return cache_ / folder_ / "snapshots" / commit;
}

fs::path ModelCache::blob(const std::string& etag) const {
  return cache_ / folder_ / "blobs" / etag;
}

fs::path ModelCache::lock(const std::string& etag) const {
  return cache_ / ".locks" / folder_ / (etag + ".lock");
}

bool ModelCache::has(const std::string& commit, const std::string& file) const {
  std::error_code error;
  // Follows the link: if the blob is missing, the file does not exist.
  return fs::is_regular_file(snapshot(commit) / file, error);
}

void ModelCache::link(
    const std::string& commit,
    const std::string& file,
    const std::string& etag) const {
  const fs::path name = snapshot(commit) / file;
  make_folder(name.parent_path());
  const fs::path target = blob(etag).lexically_relative(name.parent_path());
  // `symlink` cannot replace a link, but `rename` can: the new link appears
  // atomically, even over a dangling one.
  const fs::path temporary =
      name.string() + ".tmp-" + accelerate::to_hex(accelerate::random_bytes(4));
  if (::symlink(target.c_str(), temporary.c_str()) != 0) {
    accelerate::throw_errno("link", name, errno);
  }
  if (::rename(temporary.c_str(), name.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary.c_str());
    accelerate::throw_errno("link", name, error);
  }
}

}  // namespace transformers::hub
