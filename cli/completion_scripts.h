// SPDX-License-Identifier: Apache-2.0
// Scripts that teach a shell our commands, options and their values; made from
// what the commands say about themselves.
#pragma once

#include <string>

namespace accelerate {

std::string bash_completion();
std::string zsh_completion();
std::string fish_completion();

}  // namespace accelerate
