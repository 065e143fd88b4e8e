// SPDX-License-Identifier: Apache-2.0
// The contents of replies to a client.
#pragma once

#include <string>
#include <vector>

#include "accelerate/json.h"
#include "jupyter/interpreter_protocol.h"

namespace accelerate::jupyter {

Json kernel_info();
Json is_complete(const std::string& code);

/// The error from a cell, with the fields of a Jupyter `error` message.
struct CellError {
  std::string name;
  std::string value;
  std::vector<std::string> traceback;

  Json content() const;
};

/// Converts `reply`, the interpreter's reply for a failed cell, to a
/// `CellError`.
CellError error_of(const Packet& reply);

/// Returns the error for the cell that was running when the interpreter died.
/// The error text states that all definitions are lost.
CellError interpreter_died(const std::string& exit_status, bool interrupted);

/// Replaces invalid UTF-8 in `text`, which JSON cannot contain, with U+FFFD.
/// Moves an incomplete character at the end of `text` to `rest`.
std::string valid_utf8(const std::string& text, std::string& rest);

}  // namespace accelerate::jupyter
