// SPDX-License-Identifier: Apache-2.0
#include "jupyter/interpreter/trial_compile.h"

#include <algorithm>
#include <cerrno>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jupyter/interpreter_protocol.h"

namespace accelerate::jupyter {
namespace {

// Returns `In[3]` from the `#line` directive at the start of a cell.
std::string name_of_cell(const std::string& code) {
  const auto begin = code.find('"') + 1;
  return code.substr(begin, code.find('"', begin) - begin);
}

std::size_t count(const std::string& text, const std::string& word) {
  std::size_t found = 0;
  for (auto at = text.find(word); at != std::string::npos;
       at = text.find(word, at + word.size())) {
    ++found;
  }
  return found;
}

// Counts the compiler's notes about previous definitions in `cell`.
std::size_t count_notes(const std::string& messages, const std::string& cell) {
  std::size_t found = 0;
  std::size_t begin = 0;
  while (begin < messages.size()) {
    const auto end = std::min(messages.find('\n', begin), messages.size());
    const std::string line = messages.substr(begin, end - begin);
    begin = end + 1;
    const bool is_note =
        line.find("note: previous definition is here") != std::string::npos;
    found += is_note && line.starts_with(cell) ? 1 : 0;
  }
  return found;
}

}  // namespace

TrialResult trial_compile(
    ClangBridge& clang, const std::string& code, bool undo) {
  const int file = ::memfd_create("trial", MFD_CLOEXEC);
  const pid_t process = ::fork();
  if (process == 0) {
    if (undo) {
      clang.undo();
    }
    const ParsedCell cell = clang.parse(code);
    write_bytes(file, packet_bytes(cell.failed ? "no" : "yes", cell.messages));
    ::_exit(0);
  }
  int status = 0;
  while (process > 0 && ::waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  ::lseek(file, 0, SEEK_SET);
  const auto result = read_packet(file);
  ::close(file);
  if (!result) {
    return {true, "error: the compiler crashed on this cell\n"};
  }
  return {result->kind == "no", result->text};
}

bool only_redefines(
    const std::string& messages, const std::string& previous_cell) {
  const std::size_t errors = count(messages, ": error: ");
  return errors > 0 && errors == count(messages, ": error: redefinition of ") &&
         errors == count_notes(messages, name_of_cell(previous_cell) + ":");
}

}  // namespace accelerate::jupyter
