// SPDX-License-Identifier: Apache-2.0
#include "jupyter/completion.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/new_file.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "launch/program_output.h"

namespace accelerate::jupyter {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kTimeout{15};
constexpr std::size_t kMaxOutput = std::size_t{16} << 20;

bool is_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// Returns `push_back` for the line
// `COMPLETION: push_back : [#void#]push_back(<#…#>)`. Returns an empty string
// if the line contains no name, for example for a code pattern.
std::string name_in(std::string_view line) {
  constexpr std::string_view kStart = "COMPLETION: ";
  if (!line.starts_with(kStart)) {
    return "";
  }
  line.remove_prefix(kStart.size());
  const auto end = line.find_first_of(" :");
  const std::string_view name = line.substr(0, end);
  return !name.empty() && std::all_of(name.begin(), name.end(), is_name)
             ? std::string(name)
             : "";
}

// A folder that only this user can access: cells may contain secrets.
class PrivateDirectory {
 public:
  explicit PrivateDirectory(const Environment& environment)
      : path_(create_folder(
            environment.get("TMPDIR").value_or("/tmp") +
                "/accelerate-completion-",
            0700)) {}
  PrivateDirectory(const PrivateDirectory&) = delete;
  PrivateDirectory& operator=(const PrivateDirectory&) = delete;
  ~PrivateDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

}  // namespace

std::vector<std::string> parse_completions(
    const std::string& output, const std::string& prefix) {
  std::set<std::string> names;
  for (const std::string& line : split(output, '\n')) {
    std::string name = name_in(line);
    // Hides reserved names unless the prefix starts with an underscore.
    const bool is_hidden = name.starts_with("_") && !prefix.starts_with("_");
    if (!name.empty() && name.starts_with(prefix) && !is_hidden) {
      names.insert(std::move(name));
    }
  }
  return {names.begin(), names.end()};
}

Completion complete(
    const InterpreterSetup& setup,
    const std::vector<std::string>& cells,
    const std::string& code,
    std::size_t cursor) {
  Completion result;
  result.begin = std::min(cursor, code.size());
  result.end = result.begin;
  while (result.begin > 0 && is_name(code[result.begin - 1])) {
    --result.begin;
  }
  std::string text;
  for (const std::string& cell : cells) {
    text += cell + "\n";
  }
  text += code;
  const auto before = text.substr(0, text.size() - code.size() + result.end);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  // If there is no newline, npos + 1 is 0, which is correct.
  const auto column = before.size() - (before.rfind('\n') + 1) + 1;
  try {
    // Does not wait while the header is being compiled: the kernel must
    // respond.
    const auto header = existing_header(setup);
    if (!header) {
      return result;
    }
    const PrivateDirectory folder(setup.environment);
    const std::string file = folder.path() / "cells.cpp";
    const std::string output = folder.path() / "names.txt";
    write_file(file, text, 0600);
    // Writes to a file: the names of a large namespace exceed the limit for
    // reading a pipe.
    std::vector<std::string> arguments = {
        "/bin/sh",
        "-c",
        str_cat("exec \"$0\" \"$@\" > ", shell_quote(output)),
        find_clang(setup.environment).string()};
    for (const std::string& flag : cell_flags(setup)) {
      arguments.push_back(flag);
    }
    arguments.insert(
        arguments.end(),
        {"-Xclang",
         "-fincremental-extensions",
         "-include-pch",
         header->string(),
         "-fsyntax-only",
         "-Xclang",
         str_cat("-code-completion-at=", file, ":", line, ":", column),
         file});
    (void)program_output(arguments, kTimeout);
    result.matches = parse_completions(
        read_file(output, kMaxOutput),
        code.substr(result.begin, result.end - result.begin));
  } catch (const Error&) {
    // Completion is optional: without a compiler there are no matches.
    result.matches.clear();
  }
  return result;
}

}  // namespace accelerate::jupyter
