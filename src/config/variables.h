// SPDX-License-Identifier: Apache-2.0
// Every environment variable that this project reads or sets, with its meaning.
#pragma once

#include <string>
#include <vector>

namespace accelerate {

struct Variable {
  enum class Use {
    setting,  ///< Sets an option of `accelerate launch`. Workers inherit it.
    read,     ///< Read by the `accelerate` command or the library.
    worker,   ///< Set for each worker by `accelerate launch`.
  };
  std::string name;
  Use use = Use::read;
  std::string help;
};

/// Returns all environment variables. Those with `Use::setting` come first, in
/// the order of `all_settings`.
std::vector<Variable> all_variables();

}  // namespace accelerate
