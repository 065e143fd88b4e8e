// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/completion.h"

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "cli/completion_scripts.h"

namespace accelerate {

const CommandInfo& completion_info() {
  static const CommandInfo info = {
      .name = "completion",
      .summary = "Print the completion script for a shell.",
      .usage = "completion {bash | zsh | fish}",
      .min_positional = 1,
      .max_positional = 1,
      .first_choices = {"bash", "zsh", "fish"},
      .examples =
          {"eval \"$(accelerate completion bash)\"    # in ~/.bashrc",
           "eval \"$(accelerate completion zsh)\"     # in ~/.zshrc, after "
           "compinit",
           "accelerate completion fish > "
           "~/.config/fish/completions/accelerate.fish"},
  };
  return info;
}

int run_completion(const ParsedArgs& arguments, CommandContext& context) {
  const std::string& shell = arguments.positional[0];
  if (shell == "bash") {
    context.console.print(bash_completion());
  } else if (shell == "zsh") {
    context.console.print(zsh_completion());
  } else if (shell == "fish") {
    context.console.print(fish_completion());
  } else {
    throw ConfigError(
        str_cat("there is no completion script for `", printable(shell), "`"),
        "use bash, zsh or fish");
  }
  return 0;
}

}  // namespace accelerate
