// SPDX-License-Identifier: Apache-2.0
// Shell completion scripts for commands, options and their values, generated
// from the descriptions of the commands.
#pragma once

#include <string>

namespace accelerate {

std::string bash_completion();
std::string zsh_completion();
std::string fish_completion();

}  // namespace accelerate
