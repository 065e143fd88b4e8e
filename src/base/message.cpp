// SPDX-License-Identifier: Apache-2.0
#include "base/message.h"

#include <iostream>

#include "base/str_cat.h"

namespace accelerate {

void print_line(std::string_view text) {
  std::cerr << str_cat(text, "\n") << std::flush;
}

void print_warning(std::string_view text) {
  print_line(str_cat("warning: ", text));
}

void print_error(std::string_view text) {
  print_line(str_cat("error: ", text));
}

}  // namespace accelerate
