// SPDX-License-Identifier: Apache-2.0
// The command line of a benchmark.
#pragma once

#include <string>

namespace accelerate::benchmarks {

/// The usage of a benchmark.
///
/// `text` begins with lines such as `checkpoint [--json] [folder=DIR]`. These
/// lines define the options: only options that appear in these lines (`--json`,
/// `folder=`) are accepted.
struct Usage {
  const char* text;
  /// Whether the benchmark accepts positional arguments, such as paths. The
  /// benchmark must check positional arguments itself.
  bool takes_positional = false;
};

/// Prints the usage and exits on `--help`; exits with an error and code 2 on an
/// unknown argument.
void check_arguments(int argc, char** argv, const Usage& usage);

/// Returns whether `name` is among the arguments.
bool has_flag(int argc, char** argv, const std::string& name);

/// Returns the text after `name=`; empty if there is no such argument.
std::string value_of(int argc, char** argv, const std::string& name);

}  // namespace accelerate::benchmarks
