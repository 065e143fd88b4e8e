// SPDX-License-Identifier: Apache-2.0
#include "jupyter/replies.h"

#include <algorithm>

#include "base/str_cat.h"
#include "base/text.h"
#include "base/utf8.h"
#include "jupyter/cell_text.h"

namespace accelerate::jupyter {
namespace {

constexpr std::string_view kRedefined =
    "hint: a name can be defined only once, unless you change and rerun the "
    "last cell; use another name, or restart the kernel";
constexpr std::string_view kUnlinked =
    "hint: load a library that defines the missing symbol";
constexpr std::string_view kInterrupted =
    "the cell was interrupted; its definitions are kept, but destructors of "
    "its local objects did not run";

// The lines the compiler printed, except those about the interpreter's input.
std::vector<std::string> message_lines(const std::string& text) {
  std::vector<std::string> lines;
  for (const std::string& line : split(text, '\n')) {
    if (!line.empty() && line.find("In file included from <<< inputs >>>") ==
                             std::string::npos) {
      lines.push_back(line);
    }
  }
  return lines;
}

std::string first_error(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    if (line.find("error: ") != std::string::npos) {
      return line;
    }
  }
  return lines.empty() ? "" : lines.front();
}

// Whether `text`, which is not UTF-8, is the beginning of a character.
bool is_incomplete_character(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  return lead >= 0xC2 && lead <= 0xF4 && text.size() < length &&
         std::all_of(
             text.begin() + 1,
             text.end(),
             [](char c) {
               return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
             });
}

CellError compile_error(const Packet& reply) {
  CellError error{"CompileError", "", message_lines(reply.text)};
  error.value = first_error(error.traceback);
  if (reply.text.find("error: redefinition of") != std::string::npos) {
    error.traceback.emplace_back(kRedefined);
  }
  return error;
}

CellError exception_error(const Packet& reply) {
  const auto end = reply.text.find('\n');
  CellError error{reply.text.substr(0, end), reply.text.substr(end + 1), {}};
  error.traceback = {
      error.value.empty() ? error.name
                          : str_cat(error.name, ": ", error.value)};
  return error;
}

}  // namespace

Json kernel_info() {
  return Json::object(
      {{"status", "ok"},
       {"protocol_version", "5.3"},
       {"implementation", "accelerate-cpp"},
       {"implementation_version", "0.1"},
       {"language_info",
        Json::object(
            {{"name", "C++"},
             {"version", "20"},
             {"mimetype", "text/x-c++src"},
             {"file_extension", ".cpp"},
             {"codemirror_mode", "text/x-c++src"},
             {"pygments_lexer", "cpp"}})},
       {"banner", "C++20 with LibTorch and accelerate, run by clang-repl"},
       {"help_links", Json::array()}});
}

Json is_complete(const std::string& code) {
  switch (completeness(code)) {
    case Completeness::complete:
      return Json::object({{"status", "complete"}});
    case Completeness::incomplete:
      return Json::object({{"status", "incomplete"}, {"indent", "  "}});
    case Completeness::invalid:
      break;
  }
  return Json::object({{"status", "invalid"}});
}

Json CellError::content() const {
  return Json::object(
      {{"status", "error"},
       {"ename", name},
       {"evalue", value},
       {"traceback", Json(traceback)}});
}

CellError error_of(const Packet& reply) {
  std::string rest;
  const Packet clean = {reply.kind, valid_utf8(reply.text, rest)};
  if (reply.kind == "compile") {
    return compile_error(clean);
  }
  if (reply.kind == "link") {
    return {"LinkError", clean.text, {clean.text, std::string(kUnlinked)}};
  }
  if (reply.kind == "interrupted") {
    return {
        "Interrupted",
        std::string(kInterrupted),
        {str_cat("Interrupted: ", kInterrupted)}};
  }
  return exception_error(clean);
}

CellError interpreter_died(const std::string& exit_status, bool interrupted) {
  const std::string value = str_cat(
      interrupted ? "the cell did not respond to the interrupt, so the "
                    "interpreter was killed"
                  : "the interpreter died",
      " (",
      exit_status,
      "); all definitions are lost");
  return {
      "InterpreterDied",
      value,
      {str_cat("InterpreterDied: ", value),
       "hint: a new interpreter was started; run all cells again"}};
}

std::string valid_utf8(const std::string& text, std::string& rest) {
  std::string result;
  std::string_view left = text;
  rest.clear();
  for (;;) {
    const auto bad = find_invalid_utf8(left);
    result += left.substr(0, bad);
    if (bad == std::string_view::npos) {
      return result;
    }
    left.remove_prefix(bad);
    if (is_incomplete_character(left)) {
      rest = left;
      return result;
    }
    result += "\xEF\xBF\xBD";
    left.remove_prefix(1);
  }
}

}  // namespace accelerate::jupyter
