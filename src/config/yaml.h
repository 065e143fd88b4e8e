// SPDX-License-Identifier: Apache-2.0
// Configuration text as a tree that remembers its lines.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace accelerate {

/// One value of a configuration file, before its type is known.
///
/// Scalars keep their text: which words are numbers or truth values is the
/// business of the setting that reads them.
struct ConfigNode {
  enum class Kind { null, scalar, sequence, map };
  struct Member;

  Kind kind = Kind::null;
  std::string text;
  int line = 0;  ///< From 1; 0 where it is not known.
  std::vector<ConfigNode> items;
  std::vector<Member> members;

  const ConfigNode* find(std::string_view key) const;
};

struct ConfigNode::Member {
  std::string key;
  int line = 0;
  ConfigNode value;
};

/// Parses one YAML document, or JSON when `source` ends in `.json`.
///
/// Throws `ConfigError` that starts with `source:line:` on malformed text,
/// other encodings than UTF-8, duplicate keys, a second document, keys that
/// are not scalars, more than 64 levels, and more than 10000 nodes after
/// aliases are followed.
ConfigNode parse_config(std::string_view text, const std::string& source);

}  // namespace accelerate
