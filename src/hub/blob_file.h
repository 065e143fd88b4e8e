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

/// What is known about a file before it is downloaded.
struct ExpectedBlob {
  std::filesystem::path blob;
  std::string etag;
  /// The size that the server has announced.
  std::optional<std::int64_t> size = std::nullopt;
  /// The URL of the file, for error messages.
  std::string url;
  /// The largest accepted size of a file whose size is not announced.
  std::int64_t max_unannounced = std::int64_t{1} << 30;
};

/// The file `<blob>.incomplete`, which is renamed to `<blob>` when it is
/// complete. The caller must hold the blob's lock.
class BlobFile {
 public:
  /// Continues a file that an earlier download by this user left behind.
  /// Anything else with that name is removed: in a shared cache, another user
  /// could have put a link to one of this user's files there. Throws `IoError`
  /// when the file cannot be written.
  explicit BlobFile(ExpectedBlob expected);

  std::int64_t size() const { return size_; }
  bool is_complete() const { return complete_ || size_ == expected_.size; }
  /// Ends a response; must be called when the server has sent all of it. Throws
  /// `FormatError` if the response is shorter than announced.
  void end_of_response();

  /// Prepares for the body of a response. Returns false if the body starts at
  /// byte 0 and earlier bytes were therefore discarded. Throws `FormatError` if
  /// the server does not send the requested range.
  bool begin_part(int status, const Response& response);
  /// Appends bytes to the file. Throws `FormatError` if the file becomes larger
  /// than the server announced, or than `max_unannounced`.
  void append(std::string_view bytes);
  void clear();

  /// If the ETag is a SHA-256 or the SHA-1 of a git blob, compares the digest
  /// of the file with the ETag. Then renames the file to `<blob>`.
  void finish();

 private:
  void check_digest();

  ExpectedBlob expected_;
  std::filesystem::path path_;
  accelerate::UniqueFd fd_;
  std::int64_t size_ = 0;
  bool complete_ = false;
};

}  // namespace transformers::hub
