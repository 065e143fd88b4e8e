// SPDX-License-Identifier: Apache-2.0
// `accelerate env`: prints the information for a bug report.
#include "cli/commands/env.h"

#include <filesystem>

#include "accelerate/json.h"
#include "base/files.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "config/config_file.h"
#include "config/user_folders.h"
#include "launch/hardware.h"
#include "launch/toolchain.h"

namespace accelerate {
namespace {

Json gpus_json(const Hardware& hardware) {
  Json gpus = Json::array();
  for (const Gpu& gpu : hardware.gpus) {
    gpus.push_back(Json::object(
        {{"name", gpu.name},
         {"memory", format_bytes(static_cast<double>(gpu.memory_bytes))}}));
  }
  return gpus;
}

// Returns the file unparsed, because a bug report must show the file even if it
// is malformed.
Json config_json(const ParsedArgs& arguments, const Environment& environment) {
  const auto argument = arguments.get("config_file");
  const std::filesystem::path path = argument
                                         ? expand_home(*argument, environment)
                                         : default_config_path(environment);
  Json result = Json::object({{"path", path.string()}});
  if (!std::filesystem::exists(path)) {
    result["content"] = nullptr;
    return result;
  }
  result["content"] = read_file(path, std::size_t{1} << 20);
  return result;
}

// Returns only variables that affect training, because others may be secret.
Json variables_json(const Environment& environment) {
  Json result = Json::object();
  for (const auto& [name, value] : environment.variables()) {
    const bool is_relevant =
        name.starts_with("ACCELERATE_") || name.starts_with("CUDA_VISIBLE") ||
        name.starts_with("NCCL_") || name.starts_with("GLOO_") ||
        name.starts_with("OMP_") || name.starts_with("SLURM_JOB");
    const bool is_secret = name.find("SECRET") != std::string::npos;
    if (is_relevant) {
      result[name] = is_secret ? "(hidden)" : value;
    }
  }
  return result;
}

Json collect_report(
    const ParsedArgs& arguments, const CommandContext& context) {
  const Hardware hardware = detect_hardware(context.environment);
  const Toolchain toolchain = find_toolchain(
      context.executable, context.environment.get("ACCELERATE_TOOLCHAIN"));
  return Json::object(
      {{"accelerate", version_text()},
       {"libtorch", toolchain.torch_version},
       {"compiler", toolchain.compiler},
       {"platform", hardware.system},
       {"cpu", hardware.cpu_name},
       {"cores", hardware.cores},
       {"memory", format_bytes(static_cast<double>(hardware.memory_bytes))},
       {"gpus", gpus_json(hardware)},
       {"driver", hardware.driver_version},
       {"environment", variables_json(context.environment)},
       {"config", config_json(arguments, context.environment)}});
}

std::string to_markdown(const Json& report) {
  std::string text;
  for (const auto& [key, value] : report.as_object()) {
    if (key == "config" || key == "environment") {
      continue;
    }
    if (key == "gpus") {
      std::vector<std::string> names;
      for (const Json& gpu : value.as_array()) {
        names.push_back(str_cat(
            gpu.at("name").as_string(),
            " (",
            gpu.at("memory").as_string(),
            ")"));
      }
      text +=
          str_cat("- gpus: ", names.empty() ? "none" : join(names, ", "), "\n");
      continue;
    }
    const std::string shown =
        value.is_string() ? value.as_string() : value.dump();
    text += str_cat("- ", key, ": ", shown.empty() ? "none" : shown, "\n");
  }
  text += "- environment:\n";
  for (const auto& [name, value] : report.at("environment").as_object()) {
    text += str_cat("  - ", name, "=", value.as_string(), "\n");
  }
  const Json& config = report.at("config");
  text += str_cat("- config: ", config.at("path").as_string());
  if (config.at("content").is_null()) {
    return text + " (does not exist)";
  }
  text += "\n\n```yaml\n" + config.at("content").as_string() + "```";
  return text;
}

}  // namespace

const CommandInfo& env_info() {
  static const CommandInfo info = {
      .name = "env",
      .summary = "Show the information a bug report needs.",
      .usage = "env [--json] [--config_file PATH]",
      .options =
          {{.name = "json", .help = "Print JSON."},
           {.name = "config_file",
            .value_name = "PATH",
            .help = "Show this configuration file."}},
      .examples = {"accelerate env", "accelerate env --json | jq .gpus"},
  };
  return info;
}

int run_env(const ParsedArgs& arguments, CommandContext& context) {
  const Json report = collect_report(arguments, context);
  if (arguments.has("json")) {
    context.console.print(report.dump({.indent = 2}));
    return 0;
  }
  context.console.status("Paste this into your issue:\n");
  context.console.print(to_markdown(report));
  return 0;
}

}  // namespace accelerate
