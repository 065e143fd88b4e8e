// SPDX-License-Identifier: Apache-2.0
// Help texts, from the same tables the parser reads.
#pragma once

#include <string>

#include "cli/args.h"

namespace accelerate {

/// `accelerate --help`.
std::string overview_help();
/// `accelerate <command> --help`, at most 100 columns.
std::string command_help(const CommandInfo& info);
/// `accelerate help environment` and `accelerate help exit-codes`.
std::string environment_help();
std::string exit_codes_help();

/// The pages of docs/reference/, as Markdown: `cli`, `environment`,
/// `exit-codes`, `configuration`. Empty for other names.
std::string reference_page(const std::string& name);

}  // namespace accelerate
