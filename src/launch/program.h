// SPDX-License-Identifier: Apache-2.0
// What the user asked to run.
#pragma once

#include <string>
#include <vector>

#include "config/environment.h"
#include "config/settings.h"

namespace accelerate {

struct Program {
  enum class Kind { executable, source, python };

  Kind kind = Kind::executable;
  /// Ready to run, but for a source, whose first word is the source's path.
  std::vector<std::string> words;

  bool is_python() const { return kind == Kind::python; }
};

/// Tells what `words[0]` is and where it lies. Throws `ConfigError` when it is
/// nowhere.
Program find_program(
    const Settings& settings,
    const std::vector<std::string>& words,
    const Environment& environment);

}  // namespace accelerate
