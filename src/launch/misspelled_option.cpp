// SPDX-License-Identifier: Apache-2.0
#include "launch/misspelled_option.h"

#include <algorithm>
#include <filesystem>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxHeader = std::size_t{1} << 20;
constexpr std::string_view kBlanks = " \t\r\n";

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || c == '_';
}

std::size_t end_of_word(std::string_view text, std::size_t begin) {
  while (begin < text.size() && is_word(text[begin])) {
    ++begin;
  }
  return begin;
}

// The name that `line` declares, if it looks like `type name = value;`.
std::string_view declared_name(std::string_view line) {
  line = trim(line);
  if (!line.ends_with(';') || line.starts_with("return ") ||
      line.starts_with("using ")) {
    return {};
  }
  line = trim(line.substr(0, std::min(line.find('='), line.size() - 1)));
  std::size_t begin = line.size();
  while (begin > 0 && is_word(line[begin - 1])) {
    --begin;
  }
  return line.substr(begin);
}

void add_fields(const fs::path& folder, std::vector<std::string>& fields) {
  std::error_code error;  // No such folder: no fields.
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() != ".h") {
      continue;
    }
    for (const std::string& line :
         split(read_file(entry.path(), kMaxHeader), '\n')) {
      if (const auto name = declared_name(line); !name.empty()) {
        fields.emplace_back(name);
      }
    }
  }
}

// Whether `name` is set at `begin`: `{.name = value` or `, .name{value}`.
bool is_designator(
    std::string_view source, std::size_t begin, std::string_view name) {
  const auto before = source.find_last_not_of(kBlanks, begin - 2);
  const auto after = source.find_first_not_of(kBlanks, begin + name.size());
  return !name.empty() && before != source.npos && after != source.npos &&
         (source[before] == '{' || source[before] == ',') &&
         (source[after] == '=' || source[after] == '{');
}

// Whether `name` also appears without a dot, as in a declaration.
bool is_declared(std::string_view source, std::string_view name) {
  for (auto at = source.find(name); at != source.npos;
       at = source.find(name, at + 1)) {
    const char before = at == 0 ? ' ' : source[at - 1];
    if (before != '.' && !is_word(before) &&
        end_of_word(source, at) == at + name.size()) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::vector<std::string> public_fields(const std::vector<std::string>& flags) {
  std::vector<std::string> fields;
  for (std::size_t i = 0; i + 1 < flags.size(); ++i) {
    if (flags[i] == "-isystem" || flags[i] == "-I") {
      add_fields(fs::path(flags[i + 1]) / "accelerate", fields);
      add_fields(fs::path(flags[i + 1]) / "transformers", fields);
    }
  }
  return fields;
}

std::string misspelled_option(
    std::string_view source, const std::vector<std::string>& fields) {
  for (auto dot = source.find('.', 1); dot != source.npos;
       dot = source.find('.', dot + 1)) {
    const std::size_t begin = dot + 1;
    const auto name = source.substr(begin, end_of_word(source, begin) - begin);
    if (!is_designator(source, begin, name) ||
        std::ranges::count(fields, name) > 0 || is_declared(source, name)) {
      continue;
    }
    if (const auto nearest = nearest_name(name, fields)) {
      const auto line = 1 + std::ranges::count(source.substr(0, dot), '\n');
      return str_cat(
          "line ",
          line,
          " sets `.",
          name,
          "`; did you mean `.",
          *nearest,
          "`?");
    }
  }
  return "";
}

}  // namespace accelerate
