// SPDX-License-Identifier: Apache-2.0
#include "jupyter/interpreter_command.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <iostream>
#include <map>
#include <thread>

#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "accelerate/error.h"
#include "base/file_lock.h"
#include "base/files.h"
#include "base/hmac.h"
#include "base/new_file.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "config/user_folders.h"
#include "jupyter/prelude.h"

namespace accelerate::jupyter {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHeader = "notebook.pch";

// Flags for the header in addition to the flags of cells. The last flag
// halves the start time of an interpreter.
const std::vector<std::string>& header_flags() {
  static const std::vector<std::string> flags = {
      "-Xclang", "-fincremental-extensions", "-fpch-instantiate-templates"};
  return flags;
}

fs::path find_program(
    const Environment& environment,
    const std::string& name,
    const std::string& fallback) {
  for (const auto& folder : split(environment.get("PATH").value_or(""), ':')) {
    if (::access((fs::path(folder) / name).c_str(), X_OK) == 0) {
      return fs::path(folder) / name;
    }
  }
  if (::access(fallback.c_str(), X_OK) == 0) {
    return fallback;
  }
  throw UnsupportedError(
      str_cat("`", name, "` is not installed; C++ notebooks need it"),
      "install clang 19: `apt-get install clang-tools-19`");
}

// The modification time of this library's newest header. In a source tree,
// there is no version number to compare instead.
std::string newest_header(const Toolchain& toolchain) {
  // The epoch of the file clock is in the year 2174, so today's times are
  // negative.
  fs::file_time_type newest = fs::file_time_type::min();
  std::error_code ignored;
  for (const std::string& flag : toolchain.flags) {
    for (const char* name : {"accelerate", "transformers"}) {
      for (const auto& entry :
           fs::recursive_directory_iterator(fs::path(flag) / name, ignored)) {
        newest = std::max(newest, entry.last_write_time(ignored));
      }
    }
  }
  return std::to_string(newest.time_since_epoch().count());
}

std::string fingerprint(const fs::path& path) {
  std::error_code ignored;
  return str_cat(
      path.string(),
      " ",
      fs::file_size(path, ignored),
      " ",
      fs::last_write_time(path, ignored).time_since_epoch().count(),
      "\n");
}

fs::path header_folder(const InterpreterSetup& setup, const fs::path& clang) {
  std::string key = str_cat(
      prelude_header(setup.plain),
      join(cell_flags(setup), "\n"),
      join(header_flags(), "\n"),
      fingerprint(clang),
      setup.toolchain.torch_version);
  if (!setup.plain) {
    key += newest_header(setup.toolchain);
    for (const std::string& library : setup.toolchain.libraries) {
      key += library.find("libtorch") == std::string::npos
                 ? ""
                 : fingerprint(library);
    }
  }
  return cache_folder(setup.environment) / "notebook" /
         sha256_hex(key).substr(0, 32);
}

// The interpreter trusts the header, so only this user may write it.
void check_cache(const InterpreterSetup& setup) {
  make_private_folder(cache_folder(setup.environment), "XDG_CACHE_HOME");
}

std::vector<char*> pointers_to(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& string : strings) {
    pointers.push_back(string.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

// Returns the exit code of `process`; kills it after the timeout.
int wait_for_compiler(pid_t process, std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  int status = 0;
  pid_t exited = 0;
  while ((exited = ::waitpid(process, &status, WNOHANG)) == 0) {
    if (std::chrono::steady_clock::now() >= deadline) {
      ::kill(process, SIGKILL);
      (void)::waitpid(process, &status, 0);
      throw ConfigError(
          str_cat(
              "the headers for C++ notebooks did not compile within ",
              std::chrono::duration<double>(timeout).count(),
              " s"),
          "stop other programs on this machine, then restart the Jupyter "
          "kernel");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  if (exited < 0) {
    throw ConfigError(
        str_cat("cannot wait for the compiler: ", errno_text(errno)));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int run_compiler(
    std::vector<std::string> arguments, std::chrono::milliseconds timeout) {
  pid_t process = -1;
  const auto pointers = pointers_to(arguments);
  const int error = ::posix_spawn(
      &process, pointers[0], nullptr, nullptr, pointers.data(), environ);
  if (error != 0) {
    throw ConfigError(
        str_cat("cannot run ", arguments[0], ": ", errno_text(error)));
  }
  return wait_for_compiler(process, timeout);
}

void compile_header(
    const InterpreterSetup& setup,
    const fs::path& clang,
    const fs::path& output,
    std::chrono::milliseconds timeout) {
  const fs::path header = output.parent_path() / "notebook.h";
  write_file(header, prelude_header(setup.plain));
  const fs::path temporary = output.string() + ".new";
  std::vector<std::string> arguments = {clang.string()};
  for (const std::string& flag : cell_flags(setup)) {
    arguments.push_back(flag);
  }
  arguments.insert(
      arguments.end(), header_flags().begin(), header_flags().end());
  arguments.insert(
      arguments.end(),
      {"-x", "c++-header", header.string(), "-o", temporary.string()});
  if (run_compiler(arguments, timeout) != 0) {
    throw ConfigError(
        "the headers for C++ notebooks do not compile",
        "see the compiler messages above");
  }
  fs::rename(temporary, output);
}

}  // namespace

fs::path find_clang_repl(const Environment& environment) {
  return find_program(
      environment, "clang-repl-19", "/usr/lib/llvm-19/bin/clang-repl");
}

fs::path find_clang(const Environment& environment) {
  return find_program(
      environment, "clang++-19", "/usr/lib/llvm-19/bin/clang++");
}

std::vector<std::string> cell_flags(const InterpreterSetup& setup) {
  std::vector<std::string> flags = {"-fPIC"};
  if (setup.plain) {
    flags.emplace_back("-std=c++20");
    return flags;
  }
  for (const std::string& flag : setup.toolchain.flags) {
    flags.push_back(flag);
  }
  return flags;
}

fs::path precompiled_header(
    const InterpreterSetup& setup, std::chrono::milliseconds timeout) {
  const fs::path clang = find_clang(setup.environment);
  const fs::path folder = header_folder(setup, clang);
  const fs::path result = folder / kHeader;
  check_cache(setup);
  const FileLock lock(folder / "lock", timeout);
  if (!fs::exists(result)) {
    if (!setup.plain) {
      std::cerr << "Precompiling LibTorch's headers for C++ notebooks; this "
                   "happens once per installation …"
                << std::endl;
    }
    compile_header(setup, clang, result, timeout);
  }
  return result;
}

std::optional<fs::path> existing_header(const InterpreterSetup& setup) {
  const fs::path path =
      header_folder(setup, find_clang(setup.environment)) / kHeader;
  if (!fs::exists(path)) {
    return std::nullopt;
  }
  check_cache(setup);
  return path;
}

std::string setup_text(const InterpreterSetup& setup) {
  std::string text = str_cat(
      (fs::path(setup.kernel).parent_path() / "accelerate").string(),
      "\n",
      setup.kernel,
      "\n");
  if (!setup.plain) {
    // Dependencies first, so that each library finds what it needs.
    for (auto library = setup.toolchain.libraries.rbegin();
         library != setup.toolchain.libraries.rend();
         ++library) {
      text += *library + "\n";
    }
  }
  return text;
}

void exec_interpreter(const InterpreterSetup& setup) {
  const fs::path clang_repl = find_clang_repl(setup.environment);
  std::vector<std::string> arguments = {clang_repl.string()};
  auto flags = cell_flags(setup);
  flags.insert(
      flags.end(), {"-include-pch", precompiled_header(setup).string()});
  for (const std::string& flag : flags) {
    arguments.emplace_back("-Xcc");
    arguments.push_back(flag);
  }
  auto variables = setup.environment.variables();
  const fs::path library = fs::path(setup.kernel).parent_path().parent_path() /
                           "lib" / "libaccelerate_interpreter.so";
  variables["LD_PRELOAD"] = library.string();
  std::vector<std::string> environment;
  for (const auto& [name, value] : variables) {
    environment.push_back(str_cat(name, "=", value));
  }
  // clang-repl calls the interpreter library when it reads its first line. The
  // content of the line does not matter.
  const int input = ::memfd_create("line", MFD_CLOEXEC);
  static_cast<void>(!::write(input, "0\n", 2));
  ::lseek(input, 0, SEEK_SET);
  ::dup2(input, STDIN_FILENO);
  ::execve(
      arguments[0].c_str(),
      pointers_to(arguments).data(),
      pointers_to(environment).data());
  throw_errno("start", clang_repl, errno);
}

}  // namespace accelerate::jupyter
