// SPDX-License-Identifier: Apache-2.0
// The only file that includes yaml-cpp.
#include "config/yaml.h"

#include <algorithm>
#include <map>
#include <sstream>

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include "accelerate/error.h"
#include "accelerate/json.h"
#include "base/str_cat.h"
#include "base/utf8.h"

namespace accelerate {
namespace {

constexpr std::size_t kMaxDepth = 64;
constexpr std::size_t kMaxNodes = 10000;
constexpr std::size_t kMaxBytes = std::size_t{4} << 20;

[[noreturn]] void fail(
    const std::string& source, std::ptrdiff_t line, const std::string& text) {
  throw ConfigError(str_cat(source, ":", line, ": ", text));
}

std::ptrdiff_t line_of(std::string_view text, std::size_t offset) {
  return 1 + std::count(
                 text.begin(),
                 text.begin() + static_cast<std::ptrdiff_t>(offset),
                 '\n');
}

void check_encoding(std::string_view text, const std::string& source) {
  const std::size_t bad = find_invalid_utf8(text);
  if (bad != std::string_view::npos) {
    fail(source, line_of(text, bad), str_cat("byte ", bad, " is not UTF-8"));
  }
  const std::size_t zero = text.find('\0');
  if (zero != std::string_view::npos) {
    fail(
        source,
        line_of(text, zero),
        "the file contains a zero byte, but must be UTF-8 text");
  }
}

// Rejects deep nesting before the parser runs, because yaml-cpp is recursive
// and rescans pending keys at every level.
void check_depth(std::string_view text, const std::string& source) {
  std::size_t open = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '[' || c == '{') {
      ++open;
    } else if ((c == ']' || c == '}') && open > 0) {
      --open;
    }
    if (open > kMaxDepth) {
      fail(
          source,
          line_of(text, i),
          str_cat("nested more than ", kMaxDepth, " levels deep"));
    }
  }
}

bool is_null_word(const std::string& text) {
  return text.empty() || text == "~" || text == "null" || text == "Null" ||
         text == "NULL";
}

/// The size of a node, including the nodes in it.
struct Size {
  std::size_t nodes = 0;
  std::size_t bytes = 0;

  Size& operator+=(const Size& other) {
    nodes += other.nodes;
    bytes += other.bytes;
    return *this;
  }
};

Size size_of(const ConfigNode& node) {
  Size size{1, node.text.size()};
  for (const ConfigNode& item : node.items) {
    size += size_of(item);
  }
  for (const auto& member : node.members) {
    size += {0, member.key.size()};
    size += size_of(member.value);
  }
  return size;
}

// Builds the tree from the parser's events.
class Builder : public YAML::EventHandler {
 public:
  explicit Builder(const std::string& source) : source_(source) {}

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add(make(mark, ConfigNode::Kind::null), anchor);
  }

  void OnScalar(
      const YAML::Mark& mark,
      const std::string& tag,
      YAML::anchor_t anchor,
      const std::string& value) override {
    // "!" marks a quoted scalar; "?" or nothing marks a plain one.
    if (tag.size() > 1) {
      fail(
          source_,
          mark.line + 1,
          str_cat("the tag `", tag, "` is not supported"));
    }
    ConfigNode node = make(mark, ConfigNode::Kind::scalar);
    if (tag != "!" && is_null_word(value)) {
      node.kind = ConfigNode::Kind::null;
    }
    grow(mark.line + 1, {0, value.size()});
    node.text = value;
    add(std::move(node), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) {
      fail(
          source_,
          mark.line + 1,
          "an alias refers to the value that contains it");
    }
    grow(mark.line + 1, size_of(found->second));
    ConfigNode copy = found->second;
    add(std::move(copy), YAML::NullAnchor);
  }

  void OnSequenceStart(
      const YAML::Mark& mark,
      const std::string&,
      YAML::anchor_t anchor,
      YAML::EmitterStyle::value) override {
    open(make(mark, ConfigNode::Kind::sequence), anchor);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(
      const YAML::Mark& mark,
      const std::string&,
      YAML::anchor_t anchor,
      YAML::EmitterStyle::value) override {
    open(make(mark, ConfigNode::Kind::map), anchor);
  }
  void OnMapEnd() override { close(); }

  ConfigNode result;

 private:
  struct Open {
    ConfigNode node;
    YAML::anchor_t anchor = YAML::NullAnchor;
    bool has_key = false;
  };

  ConfigNode make(const YAML::Mark& mark, ConfigNode::Kind kind) {
    grow(mark.line + 1, {1, 0});
    ConfigNode node;
    node.kind = kind;
    node.line = mark.line + 1;
    return node;
  }

  // Checks the limits before anything is copied.
  void grow(int line, const Size& more) {
    size_ += more;
    if (size_.nodes > kMaxNodes) {
      fail(
          source_,
          line,
          str_cat("the file has more than ", kMaxNodes, " values"));
    }
    if (size_.bytes > kMaxBytes) {
      fail(
          source_,
          line,
          str_cat(
              "the file has more than ",
              kMaxBytes,
              " bytes after its aliases are expanded"));
    }
  }

  void open(ConfigNode node, YAML::anchor_t anchor) {
    if (open_.size() >= kMaxDepth) {
      fail(
          source_,
          node.line,
          str_cat("nested more than ", kMaxDepth, " levels deep"));
    }
    if (!open_.empty() && expects_key()) {
      fail(source_, node.line, "a key must be a scalar");
    }
    open_.push_back({std::move(node), anchor});
  }

  void close() {
    Open done = std::move(open_.back());
    open_.pop_back();
    add(std::move(done.node), done.anchor);
  }

  bool expects_key() const {
    return open_.back().node.kind == ConfigNode::Kind::map &&
           !open_.back().has_key;
  }

  void add(ConfigNode node, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor) {
      grow(node.line, {0, size_of(node).bytes});  // The anchor keeps a copy.
      anchors_[anchor] = node;
    }
    if (open_.empty()) {
      result = std::move(node);
      return;
    }
    Open& parent = open_.back();
    if (parent.node.kind == ConfigNode::Kind::sequence) {
      parent.node.items.push_back(std::move(node));
    } else if (parent.has_key) {
      parent.node.members.back().value = std::move(node);
      parent.has_key = false;
    } else {
      add_key(parent, node);
    }
  }

  void add_key(Open& parent, const ConfigNode& key) {
    if (key.kind != ConfigNode::Kind::scalar) {
      fail(source_, key.line, "a key must be a scalar");
    }
    const auto& members = parent.node.members;
    const auto duplicate =
        std::find_if(members.begin(), members.end(), [&](const auto& member) {
          return member.key == key.text;
        });
    if (duplicate != members.end()) {
      fail(
          source_,
          key.line,
          str_cat(
              "the key `",
              key.text,
              "` appears twice, first on line ",
              duplicate->line));
    }
    parent.node.members.push_back({key.text, key.line, ConfigNode()});
    parent.has_key = true;
  }

  const std::string& source_;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, ConfigNode> anchors_;
  Size size_;
};

// Throws if the indentation of any line up to the given line contains a tab,
// because this tab is then the cause of the parser's error.
void refuse_indenting_tab(
    std::string_view text,
    std::ptrdiff_t last_line,
    const std::string& source) {
  std::istringstream lines{std::string(text)};
  std::string line;
  for (std::ptrdiff_t number = 1;
       number <= last_line && std::getline(lines, line);
       ++number) {
    const auto indent = line.substr(0, line.find_first_not_of(" \t"));
    if (indent.find('\t') != std::string::npos && indent.size() < line.size()) {
      throw ConfigError(
          str_cat(
              source,
              ":",
              number,
              ": the line begins with a tab, which YAML does not allow"),
          "indent with spaces");
    }
  }
}

ConfigNode parse_yaml(std::string_view text, const std::string& source) {
  check_depth(text, source);
  std::istringstream stream{std::string(text)};
  Builder builder(source);
  try {
    YAML::Parser parser(stream);
    parser.HandleNextDocument(builder);
    Builder second(source);
    if (parser.HandleNextDocument(second)) {
      fail(
          source,
          second.result.line,
          "the file has a second document; only one is allowed");
    }
  } catch (const YAML::Exception& error) {
    refuse_indenting_tab(text, error.mark.line + 1, source);
    fail(source, error.mark.line + 1, str_cat("malformed YAML: ", error.msg));
  }
  return std::move(builder.result);
}

std::size_t count_values(const Json& json) {
  std::size_t count = 1;
  if (json.is_array()) {
    for (const Json& element : json.as_array()) {
      count += count_values(element);
    }
  } else if (json.is_object()) {
    for (const auto& member : json.as_object()) {
      count += count_values(member.value);
    }
  }
  return count;
}

// The JSON parser reports no line numbers. Keys are looked up in the order of
// the text, so that one pass over the text finds all their lines.
class KeyLines {
 public:
  explicit KeyLines(std::string_view text) : text_(text) {}

  /// Returns the last known line when a key is written with escapes.
  int next(const std::string& key) {
    const std::string quoted = Json(key).dump();
    for (std::size_t at = at_; !not_found_; ++at) {
      at = text_.find(quoted, at);
      not_found_ = at == std::string_view::npos;
      if (!not_found_ && is_key(at + quoted.size())) {
        const std::string_view passed = text_.substr(at_, at - at_);
        line_ += std::count(passed.begin(), passed.end(), '\n');
        at_ = at + quoted.size();
        break;
      }
    }
    return static_cast<int>(line_);
  }

 private:
  // Returns whether the quoted text that ends at `end` is a key, not a value.
  bool is_key(std::size_t end) const {
    const auto after = text_.find_first_not_of(" \t\r\n", end);
    return after != std::string_view::npos && text_[after] == ':';
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::ptrdiff_t line_ = 1;
  bool not_found_ = false;
};

ConfigNode from_json(const Json& json, KeyLines& lines) {
  ConfigNode node;
  switch (json.type()) {
    case Json::Type::null:
      break;
    case Json::Type::boolean:
    case Json::Type::integer:
    case Json::Type::real:
      node.kind = ConfigNode::Kind::scalar;
      node.text = json.dump();
      break;
    case Json::Type::string:
      node.kind = ConfigNode::Kind::scalar;
      node.text = json.as_string();
      break;
    case Json::Type::array:
      node.kind = ConfigNode::Kind::sequence;
      for (const Json& element : json.as_array()) {
        node.items.push_back(from_json(element, lines));
      }
      break;
    case Json::Type::object:
      node.kind = ConfigNode::Kind::map;
      for (const auto& [key, value] : json.as_object()) {
        const int line = lines.next(key);
        node.members.push_back({key, line, from_json(value, lines)});
        node.members.back().value.line = line;
      }
      break;
  }
  return node;
}

}  // namespace

const ConfigNode* ConfigNode::find(std::string_view key) const {
  const auto found =
      std::find_if(members.begin(), members.end(), [&](const Member& member) {
        return member.key == key;
      });
  return found == members.end() ? nullptr : &found->value;
}

ConfigNode parse_config(std::string_view text, const std::string& source) {
  check_encoding(text, source);
  if (!source.ends_with(".json")) {
    return parse_yaml(text, source);
  }
  try {
    const Json json =
        Json::parse(text, {.source = source, .max_depth = kMaxDepth});
    if (count_values(json) > kMaxNodes) {
      fail(source, 1, str_cat("the file has more than ", kMaxNodes, " values"));
    }
    KeyLines lines(text);
    return from_json(json, lines);
  } catch (const FormatError& error) {
    throw ConfigError(error.what());
  }
}

}  // namespace accelerate
