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

// Names and layouts are those of clang 19, the release this is for. A class
// with a destructor is returned through a pointer that comes first.

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
// clang::PartialTranslationUnit: the part of the tree, and the module.
struct Unit {
  void* tree;
  void* code;
};

void* find(const char* name) {
  void* symbol = ::dlsym(RTLD_DEFAULT, name);
  if (symbol == nullptr) {
    std::fprintf(
        stderr,
        "error: this clang-repl is not of release 19: it lacks %s\n",
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

// The compiler writes its messages to the standard error.
class CapturedErrors {
 public:
  CapturedErrors()
      : file_(::memfd_create("messages", MFD_CLOEXEC)),
        before_(::dup(STDERR_FILENO)) {
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
    if (before_ >= 0) {
      std::fflush(stderr);
      ::dup2(before_, STDERR_FILENO);
      ::close(before_);
      before_ = -1;
    }
  }

  int file_;
  int before_;
};

// An object of clang's is looked at as words; the first leads to its table of
// virtual functions.
struct Word {
  char* value = nullptr;
};

// Reads a word of this process at an address that may be none.
bool peek(const void* address, Word& word) {
  iovec local = {&word, sizeof word};
  iovec remote = {const_cast<void*>(address), sizeof word};
  return ::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0) ==
         sizeof word;
}

// The first pointer among the words at `object` that leads to an object with
// the table `table`.
Word* find_object(const void* object, std::size_t words, const char* table) {
  const auto* const first = static_cast<const Word*>(object);
  for (std::size_t i = 0; i < words; ++i) {
    Word pointer;
    Word its_table;
    if (peek(first + i, pointer) && peek(pointer.value, its_table) &&
        its_table.value == table) {
      return reinterpret_cast<Word*>(pointer.value);
    }
  }
  return nullptr;
}

// Where objects point: behind the table's first two words.
const char* table_of(const char* name) {
  return static_cast<const char*>(find(name)) + 2 * sizeof(Word);
}

// NOTE [Interesting declarations]
// Declarations of a precompiled header reach the code generator when they are
// read, as `HandleInterestingDecl`. clang-repl 19 never tells the reader of a
// consumer, and its consumer drops them after the first cell; so inline
// functions would have no code. Both consumers get a copy of their table in
// which that function is `HandleTopLevelDecl`, which keeps them.
constexpr std::size_t kTopLevelSlot = 3;
constexpr std::size_t kInterestingSlot = 5;
constexpr std::size_t kTableWords = 64;

using Table = std::array<Word, kTableWords>;

void keep_interesting(Word* consumer, Table& copy) {
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
      compiler, 128, table_of("_ZTVN5clang22IncrementalASTConsumerE"));
  Word* const inner =
      outer == nullptr
          ? nullptr
          : find_object(outer, 8, table_of("_ZTVN5clang15BackendConsumerE"));
  if (inner == nullptr) {
    std::fputs(
        "error: this clang-repl is not of release 19: its consumers are "
        "elsewhere\n",
        stderr);
    ::_exit(70);
  }
  static Table inner_table;
  static Table outer_table;
  keep_interesting(inner, inner_table);
  keep_interesting(outer, outer_table);
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
