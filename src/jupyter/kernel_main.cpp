// SPDX-License-Identifier: Apache-2.0
// The program Jupyter starts for a C++ notebook.
//
//     accelerate-jupyter-kernel [--plain] <connection file>
//     accelerate-jupyter-kernel [--plain] --prepare   makes the header
//     accelerate-jupyter-kernel --worker <requests>   as a worker of a cell
//     accelerate-jupyter-kernel --interpret           as the interpreter
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "accelerate/error.h"
#include "base/files.h"
#include "jupyter/interpreter_command.h"
#include "jupyter/kernel.h"
#include "jupyter/link.h"
#include "jupyter/prelude.h"
#include "jupyter/sockets.h"

namespace accelerate::jupyter {
namespace {

InterpreterSetup make_setup(bool plain) {
  InterpreterSetup setup;
  setup.environment = Environment::of_this_process();
  setup.kernel = std::filesystem::read_symlink("/proc/self/exe").string();
  setup.toolchain = find_toolchain(
      setup.kernel, setup.environment.get("ACCELERATE_TOOLCHAIN"));
  setup.plain = plain;
  return setup;
}

// What a kernel would send, then what the notebook's interpreter wrote down.
[[noreturn]] void become_worker(
    const InterpreterSetup& setup, const std::string& requests) {
  constexpr std::size_t kMost = std::size_t{1} << 30;
  const std::string cells = read_file(requests, kMost);
  const int file = ::memfd_create("requests", MFD_CLOEXEC);
  if (file < 0 ||
      !write_bytes(file, packet_bytes("setup", setup_text(setup))) ||
      !write_bytes(file, packet_bytes("prelude", prelude_code())) ||
      !write_bytes(file, cells)) {
    throw_errno("copy", requests, errno);
  }
  ::lseek(file, 0, SEEK_SET);
  const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  const int from = ::fcntl(file, F_DUPFD_CLOEXEC, 16);
  const int to = ::fcntl(nowhere, F_DUPFD_CLOEXEC, 16);
  ::dup2(from, kRequests);
  ::dup2(to, kReplies);
  become_interpreter(setup);
}

int run(std::vector<std::string> words) {
  const auto plain = std::find(words.begin(), words.end(), "--plain");
  const InterpreterSetup setup = make_setup(plain != words.end());
  if (setup.plain) {
    words.erase(plain);
  }
  if (words.size() == 1 && words[0] == "--prepare") {
    (void)precompiled_header(setup);
    return 0;
  }
  if (words.size() == 1 && words[0] == "--interpret") {
    become_interpreter(setup);
  }
  if (words.size() == 2 && words[0] == "--worker") {
    become_worker(setup, words[1]);
  }
  if (words.size() != 1) {
    throw ConfigError(
        "a connection file is missing",
        "Jupyter starts this program itself: run `accelerate jupyter install`, "
        "then choose the kernel `C++ (accelerate)`");
  }
  (void)find_clang_repl(setup.environment);
  return Kernel(read_connection(words[0]), setup).run();
}

}  // namespace
}  // namespace accelerate::jupyter

int main(int argc, char** argv) {
  try {
    return accelerate::jupyter::run({argv + 1, argv + argc});
  } catch (const accelerate::Error& error) {
    std::cerr << "error: " << error.what() << '\n';
    if (!error.hint().empty()) {
      std::cerr << "hint: " << error.hint() << '\n';
    }
    return error.exit_code();
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << '\n';
    return 1;
  }
}
