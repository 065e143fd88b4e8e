// SPDX-License-Identifier: Apache-2.0
// Parses any arguments of any command; zero bytes separate the arguments.
#include <cstddef>
#include <cstdint>
#include <string>

#include "accelerate/error.h"
#include "base/text.h"
#include "cli/command.h"
#include "config/settings.h"

extern "C" int LLVMFuzzerTestOneInput(
    const std::uint8_t* data, std::size_t size) {
  using namespace accelerate;
  if (size == 0) {
    return 0;
  }
  const auto& commands = all_commands();
  const Command& command = commands[data[0] % commands.size()];
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    const ParsedArgs parsed = parse_args(command.info(), split(text, '\0'));
    Settings settings;
    for (const ParsedOption& option : parsed.options) {
      if (const Setting* setting = find_setting_by_flag(option.name)) {
        settings.apply_flag(*setting, option.text, option.flag);
      }
    }
    check_contradictions(settings);
  } catch (const ConfigError&) {
    // The only allowed error for bad arguments.
  }
  return 0;
}
