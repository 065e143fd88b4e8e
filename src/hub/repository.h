// SPDX-License-Identifier: Apache-2.0
// A model on the Hub: its name, its revision and its URLs.
#pragma once

#include <string>
#include <string_view>

namespace transformers::hub {

struct Repository {
  std::string name;  ///< `org/name`, or `name` alone.
  std::string revision = "main";

  /// Returns the name of the model's folder in the cache: `models--org--name`.
  std::string folder() const;
  /// Returns the URL of the model's list of files.
  std::string list_url(const std::string& endpoint) const;
  /// Returns the URL of a file at a commit.
  std::string file_url(
      const std::string& endpoint,
      const std::string& commit,
      const std::string& file) const;
};

/// Parses `org/name` or `name`. Throws `ArgumentError` for a malformed name or
/// revision.
Repository make_repository(
    const std::string& name, const std::string& revision);

/// Returns whether `text` is a full commit id: 40 hexadecimal digits.
bool is_commit(std::string_view text);

/// Returns whether an untrusted path stays inside its folder: it is relative
/// and has no `..`, empty parts or control characters.
bool is_plain_path(std::string_view path);

/// Returns whether untrusted text is a safe file name.
bool is_plain_name(std::string_view name);

}  // namespace transformers::hub
