// SPDX-License-Identifier: Apache-2.0
#include "launch/program.h"

#include <filesystem>
#include <optional>

#include <unistd.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace accelerate {
namespace {

std::optional<std::string> search_path(
    const std::string& name, const Environment& environment) {
  for (const std::string& folder :
       split(environment.get("PATH").value_or("/usr/bin:/bin"), ':')) {
    const std::string candidate = str_cat(folder, "/", name);
    if (::access(candidate.c_str(), X_OK) == 0 &&
        !std::filesystem::is_directory(candidate)) {
      return candidate;
    }
  }
  return std::nullopt;
}

std::string find_python(const Environment& environment) {
  if (const auto found = search_path("python3", environment)) {
    return *found;
  }
  throw ConfigError(
      "this program needs `python3`, which is not in PATH",
      "install Python, or pass `--no_python` to run the file directly");
}

bool is_source(const std::string& name) {
  const auto extension = std::filesystem::path(name).extension();
  return extension == ".cpp" || extension == ".cc" || extension == ".cxx";
}

[[noreturn]] void throw_missing(const std::string& name) {
  throw ConfigError(
      str_cat(
          "program `",
          printable(name),
          "` was not found in this folder or in PATH"),
      "pass its path, for example `./train`");
}

// A file in the current folder takes precedence over PATH, so that `launch
// train` runs the program that was just built.
std::string find_executable(
    const std::string& name, const Environment& environment) {
  if (std::filesystem::exists(name)) {
    if (std::filesystem::is_directory(name)) {
      throw ConfigError(
          str_cat("`", printable(name), "` is a folder, not a program"));
    }
    return std::filesystem::absolute(name).string();
  }
  if (name.find('/') == std::string::npos) {
    if (const auto found = search_path(name, environment)) {
      return *found;
    }
  }
  throw_missing(name);
}

// Only a source file needs a compiler.
void check_compiler_options(
    const Settings& settings,
    const Program& program,
    const std::vector<std::string>& argv) {
  for (const char* name : {"cxx", "cxx_flags"}) {
    if (settings.is_from_command_line(name) &&
        program.kind != Program::Kind::source) {
      throw ConfigError(
          str_cat(
              settings.origin(name).where,
              " applies only if the program is a single .cpp file, but it is `",
              printable(argv[0]),
              "`"),
          str_cat("remove `", settings.origin(name).where, "`"));
    }
  }
}

Program look_up(
    const Settings& settings,
    const std::vector<std::string>& argv,
    const Environment& environment) {
  Program program;
  program.argv = argv;
  const std::string& name = argv.at(0);
  if (settings.flag("module")) {
    program.kind = Program::Kind::python;
    program.argv.insert(
        program.argv.begin(), {find_python(environment), "-u", "-m"});
    return program;
  }
  if (!settings.flag("no_python")) {
    const bool is_python = std::filesystem::path(name).extension() == ".py";
    if ((is_python || is_source(name)) && !std::filesystem::exists(name)) {
      throw_missing(name);
    }
    if (is_python) {
      program.kind = Program::Kind::python;
      program.argv.insert(
          program.argv.begin(), {find_python(environment), "-u"});
      return program;
    }
    if (is_source(name)) {
      program.kind = Program::Kind::source;
      return program;
    }
  }
  program.argv[0] = find_executable(name, environment);
  return program;
}

}  // namespace

Program find_program(
    const Settings& settings,
    const std::vector<std::string>& argv,
    const Environment& environment) {
  Program program = look_up(settings, argv, environment);
  check_compiler_options(settings, program, argv);
  return program;
}

}  // namespace accelerate
