// SPDX-License-Identifier: Apache-2.0
// A partially downloaded file in the cache.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/unique_fd.h"
#include "hub/http.h"

namespace transformers::hub {

/// The file `<blob>.incomplete`, which is renamed to `<blob>` when it is
/// complete. The caller must hold the blob's lock.
class BlobFile {
 public:
  /// Error messages name `url`. Throws `IoError` when the file cannot be
  /// written.
  BlobFile(
      const std::filesystem::path& blob,
      std::string etag,
      std::optional<std::int64_t> expected,
      std::string url);

  std::int64_t size() const { return size_; }
  bool is_complete() const { return complete_ || size_ == expected_; }
  /// Call this when the server has sent its whole response. Throws
  /// `FormatError` if the response is shorter than announced.
  void end_of_response();

  /// Prepares for the body of a response. Returns false if the body starts at
  /// byte 0 and earlier bytes were therefore discarded. Throws `FormatError` if
  /// the server does not send the requested range.
  bool begin_part(int status, const Response& response);
  /// Appends bytes to the file. Throws `FormatError` if the file becomes larger
  /// than the server announced.
  void append(std::string_view bytes);
  void clear();

  /// Checks the digest and renames the file to the blob.
  void finish();

 private:
  void check_digest();

  std::filesystem::path blob_;
  std::filesystem::path path_;
  std::string etag_;
  std::optional<std::int64_t> expected_;
  std::string url_;
  accelerate::UniqueFd fd_;
  std::int64_t size_ = 0;
  bool complete_ = false;
};

}  // namespace transformers::hub
