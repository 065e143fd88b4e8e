// SPDX-License-Identifier: Apache-2.0
// The program that Jupyter starts for a C++ notebook.
//
//     accelerate-jupyter-kernel [--plain] <connection file>
//     accelerate-jupyter-kernel [--plain] --prepare   compiles the header
//     accelerate-jupyter-kernel --worker <requests>   runs a worker for a cell
//     accelerate-jupyter-kernel --interpret           runs the interpreter
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/message.h"
#include "base/standard_streams.h"
#include "jupyter/interpreter_command.h"
#include "jupyter/interpreter_protocol.h"
#include "jupyter/kernel.h"
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

// The worker's interpreter runs the requests that set up every interpreter,
// then the requests that the notebook's interpreter wrote for its workers.
[[noreturn]] void exec_worker(
    const InterpreterSetup& setup, const std::string& requests) {
  constexpr std::size_t kMaxBytes = std::size_t{1} << 30;
  const std::string cells = read_file(requests, kMaxBytes);
  const int file = ::memfd_create("requests", MFD_CLOEXEC);
  if (file < 0 ||
      !write_bytes(file, packet_bytes("setup", setup_text(setup))) ||
      !write_bytes(file, packet_bytes("prelude", prelude_code())) ||
      !write_bytes(file, cells)) {
    throw_errno("copy", requests, errno);
  }
  ::lseek(file, 0, SEEK_SET);
  const int null_device = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  const int input = ::fcntl(file, F_DUPFD_CLOEXEC, 16);
  const int output = ::fcntl(null_device, F_DUPFD_CLOEXEC, 16);
  ::dup2(input, kRequests);
  ::dup2(output, kReplies);
  exec_interpreter(setup);
}

int run(std::vector<std::string> arguments) {
  const auto plain = std::find(arguments.begin(), arguments.end(), "--plain");
  const InterpreterSetup setup = make_setup(plain != arguments.end());
  if (setup.plain) {
    arguments.erase(plain);
  }
  if (arguments.size() == 1 && arguments[0] == "--prepare") {
    (void)precompiled_header(setup);
    return 0;
  }
  if (arguments.size() == 1 && arguments[0] == "--interpret") {
    exec_interpreter(setup);
  }
  if (arguments.size() == 2 && arguments[0] == "--worker") {
    exec_worker(setup, arguments[1]);
  }
  if (arguments.size() != 1) {
    throw ConfigError(
        "the path of the connection file is missing",
        "let Jupyter start this program: run `accelerate jupyter install`, "
        "then choose the kernel `C++ (accelerate)`");
  }
  (void)find_clang_repl(setup.environment);
  return Kernel(read_connection(arguments[0]), setup).run();
}

}  // namespace
}  // namespace accelerate::jupyter

int main(int argc, char** argv) {
  accelerate::open_standard_streams();
  try {
    return accelerate::jupyter::run({argv + 1, argv + argc});
  } catch (const accelerate::Error& error) {
    accelerate::print_error(error.what());
    if (!error.hint().empty()) {
      accelerate::print_line("hint: " + error.hint());
    }
    return error.exit_code();
  } catch (const std::exception& error) {
    accelerate::print_error(error.what());
    return 1;
  }
}
