// SPDX-License-Identifier: Apache-2.0
// `accelerate jupyter`: tells Jupyter of the kernel for C++ notebooks.
#include "cli/commands/jupyter.h"

#include <filesystem>

#include "accelerate/error.h"
#include "accelerate/json.h"
#include "base/files.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "config/config_file.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

constexpr char kFolder[] = "kernels/accelerate-cpp";

// Where Jupyter looks: below the user's folder, the virtual environment, or
// any other prefix.
fs::path data_folder(
    const ParsedArgs& arguments, const Environment& environment) {
  const auto prefix = arguments.get("prefix");
  const int chosen = (prefix ? 1 : 0) + (arguments.has("user") ? 1 : 0) +
                     (arguments.has("sys_prefix") ? 1 : 0);
  if (chosen > 1) {
    throw ConfigError(
        "--user, --sys_prefix and --prefix are three places", "pass one");
  }
  if (prefix) {
    return expand_home(*prefix, environment) / "share/jupyter";
  }
  if (arguments.has("sys_prefix")) {
    for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
      if (const auto folder = environment.get(name)) {
        return fs::path(*folder) / "share/jupyter";
      }
    }
    throw ConfigError(
        "--sys_prefix is for a virtual environment, and none is active "
        "(neither VIRTUAL_ENV nor CONDA_PREFIX is set)",
        "activate it first, or pass `--prefix <folder>`");
  }
  if (const auto folder = environment.get("JUPYTER_DATA_DIR")) {
    return *folder;
  }
  const auto data = environment.get("XDG_DATA_HOME");
  return expand_home(data.value_or("~/.local/share"), environment) / "jupyter";
}

fs::path kernel_program(const CommandContext& context) {
  fs::path path =
      fs::path(context.executable).parent_path() / "accelerate-jupyter-kernel";
  if (!fs::exists(path)) {
    throw UnsupportedError(
        str_cat("this build has no kernel for notebooks: ", path.string()),
        "build it with ZeroMQ: `apt-get install libzmq3-dev`, then `make`");
  }
  return path;
}

Json kernel_spec(const fs::path& program) {
  return Json::object(
      {{"argv", Json::array({program.string(), "{connection_file}"})},
       {"display_name", "C++ (accelerate)"},
       {"language", "C++"},
       {"interrupt_mode", "message"},
       {"metadata", Json::object({{"debugger", false}})}});
}

bool is_on_path(const Environment& environment, const std::string& name) {
  for (const auto& folder : split(environment.get("PATH").value_or(""), ':')) {
    if (fs::exists(fs::path(folder) / name)) {
      return true;
    }
  }
  return fs::exists("/usr/lib/llvm-19/bin/clang-repl");
}

}  // namespace

const CommandInfo& jupyter_info() {
  static const CommandInfo info = {
      .name = "jupyter",
      .summary = "Install or remove the kernel for C++ notebooks.",
      .usage = "jupyter {install | uninstall} [options]",
      .options =
          {{.name = "user", .help = "For this user; the default."},
           {.name = "sys_prefix",
            .help = "For the virtual environment that is active."},
           {.name = "prefix",
            .value_name = "FOLDER",
            .help = "For the Python that is installed there."}},
      .least_words = 1,
      .most_words = 1,
      .first_words = {"install", "uninstall"},
      .notes = "The kernel runs cells with clang-repl 19.",
      .examples =
          {"accelerate jupyter install",
           "accelerate jupyter install --sys_prefix",
           "accelerate jupyter uninstall"},
  };
  return info;
}

int run_jupyter(const ParsedArgs& arguments, CommandContext& context) {
  const std::string& action = arguments.words[0];
  const fs::path folder = data_folder(arguments, context.environment) / kFolder;
  if (action == "install") {
    const Json spec = kernel_spec(kernel_program(context));
    write_file(folder / "kernel.json", spec.dump({.indent = 1}) + "\n");
    context.console.status(str_cat(
        "Installed the kernel `C++ (accelerate)` in ", folder.string()));
    if (!is_on_path(context.environment, "clang-repl-19")) {
      context.console.warning(
          "clang-repl 19, which runs the cells, is missing");
      context.console.hint("apt-get install clang-tools-19");
    }
    return 0;
  }
  if (action == "uninstall") {
    if (fs::remove_all(folder) == 0) {
      throw ConfigError(
          str_cat("there is no kernel in ", folder.string()),
          "pass the option it was installed with");
    }
    context.console.status(str_cat("Removed ", folder.string()));
    return 0;
  }
  throw ConfigError(
      str_cat(
          "`jupyter ", printable(action), "` is not one of install, uninstall"),
      did_you_mean(action, jupyter_info().first_words));
}

}  // namespace accelerate
