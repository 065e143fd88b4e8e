// SPDX-License-Identifier: Apache-2.0
// The contents of replies: what a client asked about this kernel or a text.
#pragma once

#include <string>
#include <vector>

#include "accelerate/json.h"
#include "jupyter/link.h"

namespace accelerate::jupyter {

Json kernel_info();
Json is_complete(const std::string& code);

/// How a cell failed, as an `error` message has it.
struct CellError {
  std::string name;
  std::string value;
  std::vector<std::string> traceback;

  Json content() const;
};

/// From the interpreter's reply to a cell, any but `ok`.
CellError error_of(const Packet& reply);

/// The interpreter is gone, and with it all that cells had defined.
CellError lost_state(const std::string& how, bool interrupted);

/// `text` with U+FFFD for whatever is no UTF-8: JSON cannot hold it. Leaves the
/// beginning of a character at the end in `rest`.
std::string valid_utf8(const std::string& text, std::string& rest);

/// What a terminal is told, for a cell, which knows the carriage return alone:
/// blanks instead of the code that clears a line. Leaves the beginning of that
/// code at the end in `rest`, where there is nothing yet.
std::string for_cell(std::string text, std::string& rest);

}  // namespace accelerate::jupyter
