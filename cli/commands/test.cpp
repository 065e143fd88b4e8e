// SPDX-License-Identifier: Apache-2.0
// `accelerate test`: trains on this machine, through `launch`.
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
        str_cat("this installation lacks ", path.string()),
        "install the libraries too, with `make install`");
  }
  return path.string();
}

// The program is ours: there is no choice of what runs it.
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
      .summary = "Check that processes on this machine train as one would.",
      .usage = "test [launch options]",
      .options = options(),
      .notes =
          "Takes the options of `accelerate launch`, and says what it "
          "checks: how samples are shared out,\ncollectives, and that "
          "training equals that of one process.",
      .examples =
          {"accelerate test", "accelerate test --cpu --num_processes 4"},
  };
  return info;
}

int run_test(const ParsedArgs& arguments, CommandContext& context) {
  ParsedArgs launch = arguments;
  launch.words = {self_test_path(context.executable)};
  const int code = run_launch(launch, context);
  if (code == 0) {
    context.console.status("All checks passed.");
  }
  return code;
}

}  // namespace accelerate
