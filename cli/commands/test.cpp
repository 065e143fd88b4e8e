// SPDX-License-Identifier: Apache-2.0
// `accelerate test`: runs the self-test through `launch`.
#include "cli/commands/test.h"

#include <filesystem>
#include <vector>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "cli/commands/launch.h"
#include "cli/commands/launch_settings.h"

namespace accelerate {
namespace {

std::string self_test_path(const std::string& executable) {
  const auto prefix =
      std::filesystem::path(executable).parent_path().parent_path();
  const auto path = prefix / "libexec" / "accelerate" / "self_test";
  if (!std::filesystem::exists(path)) {
    throw UnsupportedError(
        str_cat("this installation does not include ", path.string()),
        "install the libraries too, with `make install`");
  }
  return path.string();
}

// The self-test is an executable, so the Python options do not apply.
std::vector<ArgOption> options() {
  std::vector<ArgOption> all = launch_options();
  std::erase_if(all, [](const ArgOption& option) {
    return option.name == "module" || option.name == "no_python";
  });
  return all;
}

}  // namespace

const CommandInfo& test_info() {
  static const CommandInfo info = {
      .name = "test",
      .summary =
          "Check that several processes on this machine train like "
          "one process.",
      .usage = "test [launch options]",
      .options = options(),
      .notes =
          "Takes the options of `accelerate launch`. Checks the distribution "
          "of samples, the collectives, and\nwhether training gives the same "
          "result as with one process; prints the result of each check.",
      .examples =
          {"accelerate test", "accelerate test --cpu --num_processes 4"},
  };
  return info;
}

int run_test(const ParsedArgs& arguments, CommandContext& context) {
  ParsedArgs launch = arguments;
  launch.positional = {self_test_path(context.executable)};
  const int code = run_launch(launch, context);
  if (code == 0) {
    context.console.status("All checks passed.");
  }
  return code;
}

}  // namespace accelerate
