// SPDX-License-Identifier: Apache-2.0
// `accelerate jupyter`: installs the kernel for C++ notebooks in Jupyter.
#include "cli/commands/jupyter.h"

#include <filesystem>

#include "accelerate/error.h"
#include "accelerate/json.h"
#include "base/files.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "config/user_folders.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

constexpr char kFolder[] = "kernels/accelerate-cpp";

// Jupyter's data folder for the user, the virtual environment, or another
// prefix.
fs::path data_folder(
    const ParsedArgs& arguments, const Environment& environment) {
  const auto prefix = arguments.get("prefix");
  const int chosen = (prefix ? 1 : 0) + (arguments.has("user") ? 1 : 0) +
                     (arguments.has("sys_prefix") ? 1 : 0);
  if (chosen > 1) {
    throw ConfigError(
        "--user, --sys_prefix and --prefix cannot be used together",
        "pass only one of them");
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
        "--sys_prefix needs an active virtual environment, but neither "
        "VIRTUAL_ENV nor CONDA_PREFIX is set",
        "activate a virtual environment first, or pass `--prefix <folder>`");
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
        str_cat(
            "this build does not include the notebook kernel ", path.string()),
        "install ZeroMQ with `apt-get install libzmq3-dev`, then run `make`");
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
      .summary = "Install or remove the Jupyter kernel for C++ notebooks.",
      .usage = "jupyter {install | uninstall} [options]",
      .options =
          {{.name = "user",
            .help = "Use this user's Jupyter folder "
                    "(default)."},
           {.name = "sys_prefix",
            .help = "Use the Jupyter folder of the active virtual "
                    "environment."},
           {.name = "prefix",
            .value_name = "FOLDER",
            .help = "Use the Jupyter folder of the Python installation in "
                    "this folder."}},
      .min_positional = 1,
      .max_positional = 1,
      .first_choices = {"install", "uninstall"},
      .notes = "The kernel runs cells with clang-repl 19.",
      .examples =
          {"accelerate jupyter install",
           "accelerate jupyter install --sys_prefix",
           "accelerate jupyter uninstall"},
  };
  return info;
}

int run_jupyter(const ParsedArgs& arguments, CommandContext& context) {
  const std::string& action = arguments.positional[0];
  const fs::path folder = data_folder(arguments, context.environment) / kFolder;
  if (action == "install") {
    const Json spec = kernel_spec(kernel_program(context));
    write_file(folder / "kernel.json", spec.dump({.indent = 1}) + "\n");
    context.console.status(str_cat(
        "Installed the kernel `C++ (accelerate)` in ", folder.string()));
    if (!is_on_path(context.environment, "clang-repl-19")) {
      context.console.warning(
          "clang-repl 19, which runs the cells, is missing");
      context.console.hint("install it with `apt-get install clang-tools-19`");
    }
    return 0;
  }
  if (action == "uninstall") {
    if (fs::remove_all(folder) == 0) {
      throw ConfigError(
          str_cat("no Jupyter kernel is installed in ", folder.string()),
          "if you passed --sys_prefix or --prefix to `install`, pass it to "
          "`uninstall` too");
    }
    context.console.status(str_cat("Removed ", folder.string()));
    return 0;
  }
  throw ConfigError(
      str_cat(
          "`jupyter` has no action `",
          printable(action),
          "`; its actions are install, uninstall"),
      did_you_mean(action, jupyter_info().first_choices));
}

}  // namespace accelerate
