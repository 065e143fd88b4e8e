// SPDX-License-Identifier: Apache-2.0
// A model on the Hub, by name and revision: addresses and folder names.
#pragma once

#include <string>
#include <string_view>

namespace transformers::hub {

struct Repository {
  std::string name;  ///< `org/name`, or `name` alone.
  std::string revision = "main";

  /// `models--org--name`.
  std::string folder() const;
  /// Where the list of files is.
  std::string list_url(const std::string& endpoint) const;
  /// Where a file of a commit is.
  std::string file_url(
      const std::string& endpoint,
      const std::string& commit,
      const std::string& file) const;
};

/// Throws `ArgumentError` unless both can be what they shall be.
Repository make_repository(
    const std::string& name, const std::string& revision);

/// 40 hexadecimal digits.
bool is_commit(std::string_view text);

/// Whether a name from outside stays inside a folder: relative, no `..`, no
/// empty part, no control character.
bool is_plain_path(std::string_view path);

/// Whether text from outside can be a file's name.
bool is_plain_name(std::string_view name);

}  // namespace transformers::hub
