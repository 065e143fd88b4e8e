// SPDX-License-Identifier: Apache-2.0
// A file on its way into the cache.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/unique_fd.h"
#include "transformers/hub/http.h"

namespace transformers::hub {

/// `<blob>.incomplete`, which becomes the blob when it is whole. The caller
/// holds the blob's lock.
class BlobFile {
 public:
  /// `url` is named in errors. Throws `IoError` when nothing can be written.
  BlobFile(
      const std::filesystem::path& blob,
      std::string etag,
      std::optional<std::int64_t> expected,
      std::string url);

  std::int64_t size() const { return size_; }
  bool is_whole() const { return whole_ || size_ == expected_; }
  /// The server has sent all there is. Throws `FormatError` when that is less
  /// than it promised.
  void end_of_answer();

  /// Looks where the body of an answer belongs; false: at the start, and what
  /// was there is gone. Throws `FormatError` for another part than asked for.
  bool begin_part(int status, const Response& response);
  /// Throws `FormatError` for more bytes than promised.
  void append(std::string_view bytes);
  void clear();

  /// Checks the digest and gives the file its name.
  void place();

 private:
  void check_digest();

  std::filesystem::path blob_;
  std::filesystem::path path_;
  std::string etag_;
  std::optional<std::int64_t> expected_;
  std::string url_;
  accelerate::UniqueFd fd_;
  std::int64_t size_ = 0;
  bool whole_ = false;
};

}  // namespace transformers::hub
