// SPDX-License-Identifier: Apache-2.0
// Takes over clang-repl's process and runs the requests from the kernel.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>

#include <dlfcn.h>
#include <unistd.h>

#include <cxxabi.h>

#include "jupyter/interpreter/clang_bridge.h"
#include "jupyter/interpreter/interrupt.h"
#include "jupyter/interpreter/trial_compile.h"
#include "jupyter/interpreter/workers.h"
#include "jupyter/interpreter_protocol.h"

namespace accelerate::jupyter {
namespace {

void flush_all() {
  std::cout << std::flush;
  std::cerr << std::flush;
  std::fflush(nullptr);
}

std::string type_name() {
  const std::type_info* const type = abi::__cxa_current_exception_type();
  if (type == nullptr) {
    return "unknown exception";
  }
  int status = 0;
  char* const name =
      abi::__cxa_demangle(type->name(), nullptr, nullptr, &status);
  std::string result = status == 0 ? name : type->name();
  std::free(name);
  return result;
}

// Set by the prelude; describes the exceptions of LibTorch and of this library.
using Describe = void (*)(std::string*);
Describe describe_exception = nullptr;

// Returns the type of the current exception, a newline, and its text.
std::string exception_text() {
  std::string text = type_name() + '\n';
  try {
    if (describe_exception != nullptr) {
      std::string description;
      describe_exception(&description);
      return text + description;
    }
    throw;
  } catch (const std::exception& error) {
    return text + error.what();
  } catch (...) {
    return text;
  }
}

// clang tries to link a failed cell again together with the next cell. This
// function therefore runs an empty cell, so that the second failure does not
// affect the user's next cell.
void discard_failed_cell(ClangBridge& clang) {
  clang.undo();
  const ParsedCell empty = clang.parse("static_cast<void>(0);");
  if (empty.unit != nullptr && !clang.execute(empty.unit).empty()) {
    clang.undo();
  }
}

Packet execute(ClangBridge& clang, void* unit) {
  if (sigsetjmp(interrupt_target, 1) != 0) {
    return {"interrupted", ""};
  }
  try {
    const Interruptible guard;
    std::string message = clang.execute(unit);
    if (message.empty()) {
      return {"ok", ""};
    }
    Interruptible::end();
    discard_failed_cell(clang);
    return {"link", message};
  } catch (...) {
    return {"exception", exception_text()};
  }
}

Packet run(ClangBridge& clang, const std::string& code) {
  const ParsedCell cell = clang.parse(code);
  if (cell.failed) {
    return {"compile", cell.messages};
  }
  std::cerr << cell.messages << std::flush;
  Packet result =
      cell.unit == nullptr ? Packet{"ok", ""} : execute(clang, cell.unit);
  flush_all();
  return result;
}

// Warns about a library that cannot be loaded; cells that do not use it work.
void load(const std::string& library) {
  if (::dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    std::cerr << "warning: " << ::dlerror() << '\n';
  }
}

void set_up(const std::string& lines) {
  std::size_t begin = 0;
  for (int number = 0; begin < lines.size(); ++number) {
    const auto end = std::min(lines.find('\n', begin), lines.size());
    const std::string line = lines.substr(begin, end - begin);
    begin = end + 1;
    if (number == 0) {
      notebook().accelerate = line;
    } else if (number == 1) {
      notebook().kernel = line;
    } else {
      load(line);
    }
  }
}

Packet run_cell(ClangBridge& clang, const std::string& code) {
  Notebook& book = notebook();
  TrialResult trial = trial_compile(clang, code, false);
  if (trial.failed && !book.cells.empty() &&
      only_redefines(trial.messages, book.cells.back())) {
    // The user ran the last cell again, perhaps with changes. The new version
    // replaces the old version.
    trial = trial_compile(clang, code, true);
    if (!trial.failed) {
      clang.undo();
      book.cells.pop_back();
    }
  }
  if (trial.failed) {
    return {"compile", trial.messages};
  }
  book.current = code;
  book.launches = 0;
  Packet result = run(clang, code);
  // A cell that did not compile or link defines nothing that a worker needs.
  if (result.kind != "compile" && result.kind != "link") {
    book.cells.push_back(code);
  }
  return result;
}

// `messages` come from the compiler or linker; empty if the cell ran fully.
std::string missed_launch(const std::string& messages) {
  return "a worker did not reach the call to `notebook_launcher` when it "
         "repeated the notebook's cells" +
         (messages.empty() ? "" : ": " + messages) +
         "\nhint: check that the cells do the same thing when they run again; "
         "for example, no cell may read a file that another cell changes";
}

// A repeated cell may fail, as it did in the notebook. The cell whose call to
// `notebook_launcher` started this worker must not fail.
Packet repeat_cell(ClangBridge& clang, const Packet& request) {
  Notebook& book = notebook();
  book.is_worker = true;
  const bool is_target = request.kind != "replay";
  book.target = is_target ? std::atoi(request.kind.c_str() + 7) : -1;
  book.launches = 0;
  mute_stdout(true);
  Packet result = run(clang, request.text);
  if (!is_target) {
    return result;
  }
  if (result.kind == "interrupted") {
    flush_all();
    ::_exit(128 + SIGINT);  // The launcher reports the interrupt.
  }
  std::cerr << "error: "
            << (result.kind == "exception"
                    ? result.text.substr(result.text.find('\n') + 1)
                    : missed_launch(result.text))
            << std::endl;
  flush_all();
  ::_exit(1);
}

Packet answer(ClangBridge& clang, const Packet& request) {
  if (request.kind == "setup") {
    set_up(request.text);
    return {"ok", ""};
  }
  if (request.kind == "prelude") {
    return run(clang, request.text);
  }
  if (request.kind == "cell") {
    return run_cell(clang, request.text);
  }
  return repeat_cell(clang, request);
}

[[noreturn]] void serve(void* interpreter) {
  // Programs that a cell starts must not load this library.
  ::unsetenv("LD_PRELOAD");
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  handle_interrupts();
  ClangBridge clang(interpreter);
  while (const auto request = read_packet(kRequests)) {
    const Packet reply = answer(clang, *request);
    if (!write_bytes(kReplies, packet_bytes(reply.kind, reply.text))) {
      break;
    }
  }
  flush_all();
  // Skips destructors of the notebook's globals, which may use objects that are
  // already destroyed.
  ::_exit(0);
}

}  // namespace
}  // namespace accelerate::jupyter

// Replaces clang's own `Interpreter::ParseAndExecute`, which clang-repl calls
// with its first line.
extern "C" __attribute__((visibility("default"))) void*
accelerate_take_over(void* failure, void* interpreter, const char* text, std::size_t size, void* value) __asm__(
    "_ZN5clang11Interpreter15ParseAndExecuteEN4llvm9StringRefEPNS_5ValueE");

void* accelerate_take_over(
    void* /*failure*/,
    void* interpreter,
    const char* /*text*/,
    std::size_t /*size*/,
    void* /*value*/) {
  accelerate::jupyter::serve(interpreter);
}

extern "C" __attribute__((visibility("default"))) void
accelerate_interpreter_describe(void (*describe)(std::string*)) {
  accelerate::jupyter::describe_exception = describe;
}
