// SPDX-License-Identifier: Apache-2.0
// Help texts, generated from the tables that the parser uses.
#pragma once

#include <string>

#include "cli/args.h"

namespace accelerate {

/// Returns the output of `accelerate --help`.
std::string overview_help();
/// Returns the output of `accelerate <command> --help`, at most 100 columns
/// wide.
std::string command_help(const CommandInfo& info);
/// Returns the output of `accelerate help environment` and of `accelerate help
/// exit-codes`.
std::string environment_help();
std::string exit_codes_help();

/// Returns the page `name` of docs/reference/ as Markdown. `name` is `cli`,
/// `environment`, `exit-codes` or `configuration`; the result is empty for any
/// other name.
std::string reference_page(const std::string& name);

}  // namespace accelerate
