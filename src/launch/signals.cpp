// SPDX-License-Identifier: Apache-2.0
#include "launch/signals.h"

#include <csignal>
#include <cstring>

#include "base/str_cat.h"

namespace accelerate {

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? str_cat("signal ", signal) : str_cat("SIG", name);
}

std::string describe_exit(int exit_code, int signal) {
  return signal != 0 ? str_cat("killed by ", signal_name(signal))
                     : str_cat("exited with code ", exit_code);
}

}  // namespace accelerate
