// SPDX-License-Identifier: Apache-2.0
// Every environment variable this project reads or sets, with its meaning.
#pragma once

#include <string>
#include <vector>

namespace accelerate {

struct Variable {
  enum class Use {
    setting,  ///< Sets an option of `accelerate launch`, and reaches workers.
    read,     ///< Read by the command line or the library.
    given,    ///< Given to each worker by `accelerate launch`.
  };
  std::string name;
  Use use = Use::read;
  std::string help;
};

/// Settings first, in the registry's order.
std::vector<Variable> all_variables();

}  // namespace accelerate
