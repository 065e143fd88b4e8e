// SPDX-License-Identifier: Apache-2.0
// The program that the user wants to run.
#pragma once

#include <string>
#include <vector>

#include "config/environment.h"
#include "config/settings.h"

namespace accelerate {

struct Program {
  enum class Kind { executable, source, python };

  Kind kind = Kind::executable;
  /// The command to run. For a source file, `argv[0]` is the path of the source
  /// instead of an executable.
  std::vector<std::string> argv;

  bool is_python() const { return kind == Kind::python; }
};

/// Finds the program `argv[0]` and determines its kind. Throws `ConfigError` if
/// the program does not exist.
Program find_program(
    const Settings& settings,
    const std::vector<std::string>& argv,
    const Environment& environment);

}  // namespace accelerate
