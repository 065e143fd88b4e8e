// SPDX-License-Identifier: Apache-2.0
#include "launch/compile.h"

#include <algorithm>
#include <cerrno>
#include <chrono>

#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "accelerate/error.h"
#include "accelerate/json.h"
#include "base/file_lock.h"
#include "base/files.h"
#include "base/hmac.h"
#include "base/new_file.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "launch/misspelled_option.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxSource = std::size_t{64} << 20;
constexpr std::chrono::minutes kMaxCompileTime{15};

// The size and modification time of a file. Cheaper than a hash of the content,
// and sufficient for files that a build installs.
std::string fingerprint(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) {
    return str_cat(path, " missing\n");
  }
  return str_cat(
      path,
      " ",
      info.st_size,
      " ",
      info.st_mtim.tv_sec,
      ".",
      info.st_mtim.tv_nsec,
      "\n");
}

// Resolves the compiler's name without running it.
std::string find_in_path(
    const std::string& name, const std::string& search_path) {
  if (name.find('/') != std::string::npos) {
    return name;
  }
  for (const std::string& folder : split(search_path, ':')) {
    const std::string candidate = str_cat(folder, "/", name);
    if (::access(candidate.c_str(), X_OK) == 0) {
      return candidate;
    }
  }
  return name;
}

// The headers in `known` that a source includes, each on a line of its own.
std::vector<std::string> included_headers(
    const std::string& content, const std::vector<std::string>& known) {
  std::vector<std::string> found;
  for (const std::string& line : split(content, '\n')) {
    std::string_view rest = trim(line);
    for (const std::string_view part : {"#", "include"}) {
      if (!rest.starts_with(part)) {
        rest = {};
        break;
      }
      rest = trim(rest.substr(part.size()));
    }
    const char end = rest.starts_with('<') ? '>' : '"';
    const auto close = rest.empty() ? rest.npos : rest.find(end, 1);
    if (close == rest.npos) {
      continue;
    }
    const std::string name(rest.substr(1, close - 1));
    if (std::ranges::count(known, name) > 0 &&
        std::ranges::count(found, name) == 0) {
      found.push_back(name);
    }
  }
  return found;
}

class Compiler {
 public:
  Compiler(const fs::path& source, const CompileOptions& options)
      : source_(fs::absolute(source)), options_(options) {
    if (!options.compiler.empty()) {
      compiler_ = options.compiler;
    } else {
      compiler_ = options.toolchain.compiler;
    }
    if (compiler_.empty()) {
      throw UnsupportedError(
          str_cat(
              "this installation has no toolchain file, so it cannot compile ",
              source.string()),
          "compile the program yourself, or pass `--cxx` and `--cxx_flags`");
    }
  }

  fs::path path() {
    const std::string content = read_file(source_, kMaxSource);
    headers_ = included_headers(content, options_.toolchain.headers);
    folder_ = programs() / key(content);
    return program();
  }

  fs::path run() {
    (void)path();
    make_private_folder(options_.cache_folder, "XDG_CACHE_HOME");
    if (is_fresh()) {
      return program();
    }
    const FileLock lock = take_lock(folder_);
    // Another launch may have compiled the program during the wait.
    if (!is_fresh()) {
      build();
    }
    return program();
  }

 private:
  fs::path programs() const { return options_.cache_folder / "programs"; }
  fs::path program() const { return folder_ / source_.stem(); }
  fs::path record() const { return folder_ / "inputs.json"; }

  // Everything that determines the result, except the source and its headers.
  std::string installation() const {
    std::string text =
        fingerprint(find_in_path(compiler_, options_.search_path));
    for (const auto* list :
         {&options_.toolchain.flags,
          &options_.toolchain.link_flags,
          &options_.extra_flags}) {
      text += join(*list, "\n") + "\n\n";
    }
    for (const std::string& library : options_.toolchain.libraries) {
      text += fingerprint(library);
    }
    return text;
  }

  std::string key(const std::string& content) const {
    // Includes the path of the source, because relative includes depend on it.
    const std::string text =
        str_cat(source_.string(), "\n", installation(), "\n", content);
    return sha256_hex(text).substr(0, 32);
  }

  bool is_fresh() const {
    if (::access(program().c_str(), X_OK) != 0) {
      return false;
    }
    try {
      const Json json = Json::parse(read_file(record(), kMaxSource));
      if (json.find(source_.string()) == nullptr) {
        return false;
      }
      for (const auto& [path, hash] : json.as_object()) {
        if (sha256_hex(read_file(path, kMaxSource)) != hash.as_string()) {
          return false;
        }
      }
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  // Of several concurrent launches, only one compiles. The Linux kernel
  // releases the lock of a launch that dies, so the timeout expires only if a
  // compiler hangs.
  FileLock take_lock(const fs::path& folder) const {
    return FileLock(folder / "lock", kMaxCompileTime, [this] {
      options_.print_status(
          "Waiting for another launch that is compiling the same program …");
    });
  }

  void build() {
    options_.print_status(
        str_cat("Compiling ", source_.filename().string(), " …"));
    const fs::path header = precompiled_header();
    const fs::path output = folder_ / str_cat("program.", ::getpid());
    const fs::path depends = folder_ / str_cat("depends.", ::getpid());
    std::vector<std::string> argv = common_arguments();
    if (!header.empty()) {
      argv.insert(argv.end(), {"-include", header.string()});
    }
    argv.insert(
        argv.end(),
        {"-MMD",
         "-MF",
         depends.string(),
         "-o",
         output.string(),
         source_.string()});
    argv.insert(
        argv.end(),
        options_.toolchain.link_flags.begin(),
        options_.toolchain.link_flags.end());
    if (const int status = execute(argv)) {
      fs::remove(depends);
      throw ConfigError(
          str_cat(
              source_.filename().string(),
              " does not compile (",
              fs::path(compiler_).filename().string(),
              " exited with code ",
              status,
              ")"),
          hint_for_errors());
    }
    write_record(depends);
    fs::remove(depends);
    fs::rename(output, program());
  }

  std::string hint_for_errors() const {
    const std::string option = misspelled_option(
        read_file(source_, kMaxSource),
        public_fields(options_.toolchain.flags));
    return option.empty()
               ? "see the compiler's messages above"
               : str_cat("in ", source_.filename().string(), ", ", option);
  }

  std::vector<std::string> common_arguments() const {
    std::vector<std::string> argv = {compiler_};
    argv.insert(
        argv.end(),
        options_.toolchain.flags.begin(),
        options_.toolchain.flags.end());
    argv.insert(
        argv.end(), options_.extra_flags.begin(), options_.extra_flags.end());
    return argv;
  }

  // Built once per installation and shared by all programs that include the
  // same headers. The precompiled header contains only headers that the source
  // includes, so that a missing include is still an error. clang and g++ use
  // different file names, but both accept `-include name.h`.
  fs::path precompiled_header() const {
    if (headers_.empty()) {
      return {};
    }
    const std::string headers_key = installation() + join(headers_, "\n");
    const fs::path folder =
        programs() / "headers" / sha256_hex(headers_key).substr(0, 32);
    fs::path header = folder / "program.h";
    const bool is_clang = compiler_.find("clang") != std::string::npos;
    const fs::path result = header.string() + (is_clang ? ".pch" : ".gch");
    const FileLock lock = take_lock(folder);
    if (fs::exists(result)) {
      return header;
    }
    options_.print_status("Precompiling headers, once for this installation …");
    std::string text;
    for (const std::string& name : headers_) {
      text += str_cat("#include <", name, ">\n");
    }
    write_file(header, text);
    const fs::path temporary = result.string() + ".new";
    std::vector<std::string> argv = common_arguments();
    argv.insert(
        argv.end(),
        {"-x", "c++-header", "-o", temporary.string(), header.string()});
    if (execute(argv) != 0) {
      options_.print_status(
          "The headers could not be precompiled (see above); programs still "
          "compile, but more slowly");
      return {};
    }
    fs::rename(temporary, result);
    return header;
  }

  // Runs the compiler, with its messages on stderr.
  static int execute(std::vector<std::string>& argv) {
    std::vector<char*> pointers;
    for (std::string& argument : argv) {
      pointers.push_back(argument.data());
    }
    pointers.push_back(nullptr);
    pid_t pid = -1;
    // stdout is reserved for the program's output.
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    const int error = ::posix_spawnp(
        &pid, pointers[0], &actions, nullptr, pointers.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    if (error != 0) {
      throw ConfigError(
          str_cat("cannot run the compiler ", argv[0], ": ", errno_text(error)),
          "install the compiler, or pass another compiler with `--cxx`");
    }
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  // Records the files that the compiler read, except system headers. The list
  // comes from the compiler's make rule.
  void write_record(const fs::path& depends) const {
    std::string rule = read_file(depends, kMaxSource);
    rule = replace_all(std::move(rule), "\\\n", " ");
    rule = replace_all(std::move(rule), "\\ ", "\x01");
    const auto colon = rule.find(": ");
    Json inputs = Json::object();
    for (const std::string& word : split(rule.substr(colon + 2), ' ')) {
      const std::string path =
          replace_all(std::string(trim(word)), "\x01", " ");
      const bool is_cache =
          path.starts_with(options_.cache_folder.string() + "/");
      if (!path.empty() && !is_cache) {
        inputs[fs::absolute(path).string()] =
            sha256_hex(read_file(path, kMaxSource));
      }
    }
    write_file(record(), inputs.dump({.indent = 1}));
  }

  fs::path source_;
  const CompileOptions& options_;
  std::string compiler_;
  fs::path folder_;
  std::vector<std::string> headers_;
};

}  // namespace

fs::path compile_program(
    const fs::path& source, const CompileOptions& options) {
  return Compiler(source, options).run();
}

fs::path compiled_path(const fs::path& source, const CompileOptions& options) {
  return Compiler(source, options).path();
}

}  // namespace accelerate
