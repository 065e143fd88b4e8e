// SPDX-License-Identifier: Apache-2.0
// Parses the text of a configuration file into a tree with line numbers.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace accelerate {

/// One value in a configuration file, before its type is known.
///
/// A scalar is stored as text: the setting that uses the scalar decides whether
/// the text is a number or a boolean.
struct ConfigNode {
  enum class Kind { null, scalar, sequence, map };
  struct Member;

  Kind kind = Kind::null;
  std::string text;
  int line = 0;  ///< Counted from 1; 0 if unknown.
  std::vector<ConfigNode> items;
  std::vector<Member> members;

  const ConfigNode* find(std::string_view key) const;
};

struct ConfigNode::Member {
  std::string key;
  int line = 0;
  ConfigNode value;
};

/// Parses `text` as JSON if `source` ends in `.json`, else as one YAML
/// document.
///
/// Throws a `ConfigError` that starts with `source:line:` for malformed text,
/// encodings other than UTF-8, duplicate keys, a second document, keys that are
/// not scalars, more than 64 levels of nesting, and more than 10000 nodes or
/// 4 MiB of text after aliases are expanded.
ConfigNode parse_config(std::string_view text, const std::string& source);

}  // namespace accelerate
