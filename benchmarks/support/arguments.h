// SPDX-License-Identifier: Apache-2.0
// The command line of a benchmark.
#pragma once

#include <string>

namespace accelerate::benchmarks {

/// How a benchmark is called, and what it measures.
///
/// `text` begins with lines such as `checkpoint [--json] [folder=DIR]`; what
/// looks like an option there (`--json`, `folder=`) is one, and nothing else.
struct Usage {
  const char* text;
  /// It takes words that are no options, such as paths, and looks at them
  /// itself.
  bool takes_words = false;
};

/// Answers `--help` with the usage and ends the program; a word that the usage
/// does not have ends it too, with an error and code 2.
void check_arguments(int argc, char** argv, const Usage& usage);

/// Whether `name` is among the arguments.
bool has_flag(int argc, char** argv, const std::string& name);

/// What stands after `name=`; empty if it is not there.
std::string value_of(int argc, char** argv, const std::string& name);

}  // namespace accelerate::benchmarks
