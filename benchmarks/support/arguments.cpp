// SPDX-License-Identifier: Apache-2.0
#include "support/arguments.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string_view>

namespace accelerate::benchmarks {
namespace {

constexpr std::string_view kSeparators = " \n[]{}|()";

bool is_flag(std::string_view word) {
  return word.starts_with("-");
}

// Returns `folder=` for `folder=DIR`, and any other argument unchanged.
std::string_view name_in(std::string_view word) {
  const auto end = word.find('=');
  return end == word.npos ? word : word.substr(0, end + 1);
}

bool is_option(std::string_view word) {
  return is_flag(word) || word.find('=') != word.npos;
}

std::set<std::string_view> names_in(std::string_view text) {
  std::set<std::string_view> names;
  while (!text.empty()) {
    const auto end = std::min(text.find_first_of(kSeparators), text.size());
    names.insert(name_in(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return names;
}

// Returns the first paragraph of the usage, which contains the command lines.
std::string_view command_lines(std::string_view text) {
  return text.substr(0, text.find("\n\n"));
}

}  // namespace

void check_arguments(int argc, char** argv, const Usage& usage) {
  const auto names = names_in(command_lines(usage.text));
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--help" || word == "-h") {
      std::printf("usage: %s\n", usage.text);
      std::exit(0);
    }
    const bool known = names.contains(name_in(word)) ||
                       (!is_option(word) && usage.takes_positional);
    if (!known) {
      std::fprintf(
          stderr,
          "error: unknown option `%s`\nusage: %s\n",
          argv[i],
          usage.text);
      std::exit(2);
    }
  }
}

bool has_flag(int argc, char** argv, const std::string& name) {
  return std::find(argv + 1, argv + argc, name) != argv + argc;
}

std::string value_of(int argc, char** argv, const std::string& name) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.starts_with(name + "=")) {
      return word.substr(name.size() + 1);
    }
  }
  return "";
}

}  // namespace accelerate::benchmarks
