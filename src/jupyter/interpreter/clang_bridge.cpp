// SPDX-License-Identifier: Apache-2.0
#include "jupyter/interpreter/clang_bridge.h"

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

namespace accelerate::jupyter {
namespace {

// The mangled names and memory layouts in this file are valid for clang 19
// only. A function that returns a class with a destructor takes a pointer to
// the result as its first argument.

// llvm::Error: a pointer, null for success.
struct Failure {
  void* payload = nullptr;
};
// llvm::Expected<T&>.
struct Expected {
  void* value = nullptr;
  std::uint8_t has_error = 0;
};
// llvm::StringRef, in two registers.
struct Text {
  const char* data;
  std::size_t size;
};
// clang::PartialTranslationUnit: the syntax tree and the module.
struct Unit {
  void* tree;
  void* code;
};

void* find(const char* name) {
  void* symbol = ::dlsym(RTLD_DEFAULT, name);
  if (symbol == nullptr) {
    std::fprintf(
        stderr,
        "error: this is not clang-repl 19: the symbol `%s` is missing\n",
        name);
    ::_exit(70);
  }
  return symbol;
}

template <typename Function>
Function function(const char* name) {
  return reinterpret_cast<Function>(find(name));
}

std::string describe(Failure failure) {
  static const auto to_string = function<std::string (*)(Failure*)>(
      "_ZN4llvm8toStringB5cxx11ENS_5ErrorE");
  return failure.payload == nullptr ? "" : to_string(&failure);
}

// Captures the messages that the compiler writes to stderr.
class CapturedErrors {
 public:
  CapturedErrors()
      : file_(::memfd_create("messages", MFD_CLOEXEC)),
        saved_stderr_(::dup(STDERR_FILENO)) {
    ::dup2(file_, STDERR_FILENO);
  }
  CapturedErrors(const CapturedErrors&) = delete;
  CapturedErrors& operator=(const CapturedErrors&) = delete;
  ~CapturedErrors() {
    restore();
    ::close(file_);
  }

  std::string take() {
    restore();
    std::string text(
        static_cast<std::size_t>(::lseek(file_, 0, SEEK_END)), '\0');
    const auto n = ::pread(file_, text.data(), text.size(), 0);
    text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    return text;
  }

 private:
  void restore() {
    if (saved_stderr_ >= 0) {
      std::fflush(stderr);
      ::dup2(saved_stderr_, STDERR_FILENO);
      ::close(saved_stderr_);
      saved_stderr_ = -1;
    }
  }

  int file_;
  int saved_stderr_;
};

// An object inside clang is read as a sequence of words. The first word points
// to the vtable.
struct Word {
  char* value = nullptr;
};

// Reads a word at an address that may be invalid.
bool peek(const void* address, Word& word) {
  iovec local = {&word, sizeof word};
  iovec remote = {const_cast<void*>(address), sizeof word};
  return ::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0) ==
         sizeof word;
}

// Returns the first pointer in the words at `object` that points to an object
// with the vtable `vtable`.
Word* find_object(const void* object, std::size_t words, const char* vtable) {
  const auto* const first = static_cast<const Word*>(object);
  for (std::size_t i = 0; i < words; ++i) {
    Word pointer;
    Word pointed_to;
    if (peek(first + i, pointer) && peek(pointer.value, pointed_to) &&
        pointed_to.value == vtable) {
      return reinterpret_cast<Word*>(pointer.value);
    }
  }
  return nullptr;
}

// Returns the address that objects store: two words into the vtable.
const char* vtable_address(const char* name) {
  return static_cast<const char*>(find(name)) + 2 * sizeof(Word);
}

// NOTE [Interesting declarations] When the AST reader reads declarations of a
// precompiled header, it passes them to its AST consumer by calling
// `HandleInterestingDecl`. clang-repl 19 gives the reader no consumer, and
// clang-repl's own consumer would drop the declarations after the first cell,
// so inline functions would have no code. Therefore, this file gives the reader
// clang-repl's consumer. That consumer, and the consumer inside it, get a copy
// of their vtable in which `HandleTopLevelDecl`, which keeps the declarations,
// replaces `HandleInterestingDecl`.
constexpr std::size_t kTopLevelSlot = 3;
constexpr std::size_t kInterestingSlot = 5;
constexpr std::size_t kVtableWords = 64;

using Vtable = std::array<Word, kVtableWords>;

void keep_interesting_declarations(Word* consumer, Vtable& copy) {
  std::memcpy(copy.data(), consumer->value - 2 * sizeof(Word), sizeof copy);
  copy[2 + kInterestingSlot] = copy[2 + kTopLevelSlot];
  consumer->value = reinterpret_cast<char*>(copy.data() + 2);
}

}  // namespace

ClangBridge::ClangBridge(void* interpreter) : interpreter_(interpreter) {
  enable_precompiled_header();
}

void ClangBridge::enable_precompiled_header() {
  const auto get_compiler = function<void* (*)(void*)>(
      "_ZN5clang11Interpreter19getCompilerInstanceEv");
  const auto get_reader = function<void (*)(void**, void*)>(
      "_ZNK5clang16CompilerInstance12getASTReaderEv");
  const auto start = function<void (*)(void*, void*)>(
      "_ZN5clang9ASTReader20StartTranslationUnitEPNS_11ASTConsumerE");
  void* const compiler = get_compiler(interpreter_);
  void* reader = nullptr;
  get_reader(&reader, compiler);
  if (reader == nullptr) {
    return;  // No precompiled header.
  }
  Word* const outer = find_object(
      compiler, 128, vtable_address("_ZTVN5clang22IncrementalASTConsumerE"));
  Word* const inner =
      outer == nullptr
          ? nullptr
          : find_object(
                outer, 8, vtable_address("_ZTVN5clang15BackendConsumerE"));
  if (inner == nullptr) {
    std::fputs(
        "error: this is not clang-repl 19: its AST consumers were not found\n",
        stderr);
    ::_exit(70);
  }
  static Vtable inner_vtable;
  static Vtable outer_vtable;
  keep_interesting_declarations(inner, inner_vtable);
  keep_interesting_declarations(outer, outer_vtable);
  start(reader, outer);
}

ParsedCell ClangBridge::parse(const std::string& code) {
  static const auto parse_text = function<void (*)(Expected*, void*, Text)>(
      "_ZN5clang11Interpreter5ParseEN4llvm9StringRefE");
  CapturedErrors errors;
  Expected unit;
  parse_text(&unit, interpreter_, {code.data(), code.size()});
  ParsedCell cell;
  cell.failed = (unit.has_error & 1) != 0;
  const std::string text = cell.failed ? describe({unit.value}) : std::string();
  cell.messages = errors.take();
  if (cell.failed) {
    if (cell.messages.empty()) {
      cell.messages = text;
    }
  } else if (static_cast<Unit*>(unit.value)->code != nullptr) {
    cell.unit = unit.value;
  }
  return cell;
}

std::string ClangBridge::execute(void* unit) {
  static const auto run = function<void (*)(Failure*, void*, void*)>(
      "_ZN5clang11Interpreter7ExecuteERNS_22PartialTranslationUnitE");
  Failure failure;
  run(&failure, interpreter_, unit);
  return describe(failure);
}

void ClangBridge::undo() {
  static const auto undo_units = function<void (*)(Failure*, void*, unsigned)>(
      "_ZN5clang11Interpreter4UndoEj");
  Failure failure;
  undo_units(&failure, interpreter_, 1);
  (void)describe(failure);
}

}  // namespace accelerate::jupyter
