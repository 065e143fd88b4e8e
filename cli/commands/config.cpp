// SPDX-License-Identifier: Apache-2.0
// `accelerate config`: detects some settings and asks for the others.
#include "cli/commands/config.h"

#include <filesystem>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "cli/commands/launch_settings.h"
#include "cli/prompt.h"
#include "config/config_file.h"
#include "config/user_folders.h"
#include "launch/plan.h"
#include "launch/slurm.h"

namespace accelerate {
namespace {

constexpr const char* kAnswer = "answer";

class Questionnaire {
 public:
  Questionnaire(Settings& settings, const Hardware& hardware, Console& console)
      : settings_(settings), hardware_(hardware), prompt_(console) {}

  void run() {
    ask_device();
    ask_number("num_machines", "How many machines train together?", "1");
    if (settings_.integer("num_machines") > 1) {
      ask_number(
          "machine_rank",
          "What is the rank of this machine, counting from 0?",
          "0");
      ask_address();
      ask_number(
          "main_process_port",
          "Which port on machine 0 should the machines use?",
          "29500");
    }
    if (uses_cpu()) {
      ask_number(
          "num_processes",
          "How many processes should run in total?",
          std::to_string(settings_.integer("num_machines")));
    }
    ask_precision();
  }

 private:
  bool uses_cpu() const {
    return settings_.flag("use_cpu") || hardware_.gpus.empty();
  }

  // "Question? (--flag)", with the flag that answers the question.
  std::string with_flag(const char* name, const std::string& question) const {
    return str_cat(question, " (--", find_setting(name)->flag, ")");
  }

  void put(const char* name, const std::string& text) {
    const Setting& setting = *find_setting(name);
    settings_.set(
        name,
        parse_setting(setting, text, "the answer"),
        {Origin::Kind::command_line, kAnswer});
  }

  void ask_device() {
    if (hardware_.gpus.empty() || settings_.is_set_by_user("use_cpu") ||
        settings_.is_set_by_user("multi_gpu")) {
      return;
    }
    const std::string gpus = describe_gpus(hardware_.gpus);
    const std::string choice = prompt_.choose(
        with_flag("use_cpu", "Which device should training use?"),
        {gpus, "CPU"},
        gpus);
    if (choice == "CPU") {
      put("use_cpu", "true");
    }
  }

  void ask_number(
      const char* name, const std::string& question, std::string fallback) {
    if (settings_.is_set_by_user(name)) {
      return;
    }
    if (settings_.origin(name).kind == Origin::Kind::found) {
      fallback = settings_.text(name);
    }
    prompt_.ask(
        with_flag(name, question), fallback, [&](const std::string& answer) {
          put(name, answer);
        });
  }

  void ask_address() {
    if (settings_.is_set_by_user("main_process_ip")) {
      return;
    }
    prompt_.ask(
        with_flag("main_process_ip", "What is the address of machine 0?"),
        settings_.text("main_process_ip"),
        [&](const std::string& answer) {
          if (answer.empty()) {
            throw ConfigError("enter an address, such as 10.0.0.1");
          }
          put("main_process_ip", answer);
        });
  }

  void ask_precision() {
    if (settings_.is_set_by_user("mixed_precision")) {
      return;
    }
    put("mixed_precision",
        prompt_.choose(
            with_flag("mixed_precision", "Mixed precision?"),
            find_setting("mixed_precision")->choices,
            uses_cpu() ? "no" : "bf16"));
  }

  Settings& settings_;
  const Hardware& hardware_;
  Prompt prompt_;
};

std::string summary(const Settings& settings) {
  const std::int64_t machines = settings.integer("num_machines");
  const std::int64_t processes = settings.integer("num_processes");
  const std::string precision = settings.text("mixed_precision");
  std::string machines_text = "1";
  if (machines > 1) {
    machines_text = str_cat(
        machines,
        "; this machine has rank ",
        settings.integer("machine_rank"),
        ", and machine 0 is at ",
        settings.text("main_process_ip"));
  }
  return str_cat(
      "Machines:   ",
      machines_text,
      "\nProcesses:  ",
      processes,
      settings.flag("use_cpu") ? " on the CPU"
      : processes == 1         ? " on a GPU"
                               : " on GPUs",
      "\nPrecision:  ",
      precision == "no" ? "float32" : precision + ", weights in float32");
}

std::filesystem::path target_path(
    const ParsedArgs& arguments, const Environment& environment) {
  const auto path = arguments.get("config_file");
  return path ? expand_home(*path, environment)
              : default_config_path(environment);
}

void check_target(
    const std::filesystem::path& path,
    const std::string& mode,
    const ParsedArgs& arguments) {
  const bool exists = std::filesystem::exists(path);
  if (mode == "update" && !exists) {
    throw ConfigError(
        str_cat(path.string(), " does not exist"),
        "create it with `accelerate config`");
  }
  if (mode == "update" || arguments.has("overwrite")) {
    return;
  }
  if (exists) {
    throw ConfigError(
        str_cat(path.string(), " already exists"),
        "add `--overwrite`, or change it with `accelerate config update`");
  }
  // accelerate_cpp.yaml may contain settings that belong to another
  // configuration file in the same folder.
  const auto cpp_path = cpp_config_path(path);
  if (std::filesystem::exists(cpp_path)) {
    throw ConfigError(
        str_cat(cpp_path.string(), " already exists and would be overwritten"),
        "add `--overwrite`, or write to another folder");
  }
}

void apply_flags(Settings& settings, const ParsedArgs& arguments) {
  for (const ParsedOption& option : arguments.options) {
    const Setting* setting = find_setting_by_flag(option.name);
    if (setting != nullptr && option.name != "config_file") {
      settings.apply_flag(*setting, option.text, option.flag);
    }
  }
}

void write_files(const Settings& settings, const std::filesystem::path& path) {
  write_file(path, python_file_text(settings, path));
  const std::string cpp_text = cpp_file_text(settings);
  const auto cpp_path = cpp_config_path(path);
  if (!cpp_text.empty()) {
    // Other users must not be able to change this file, because it can contain
    // the path of a compiler.
    write_file(cpp_path, cpp_text, 0644);
  } else {
    std::filesystem::remove(cpp_path);
  }
}

// The number of threads depends on the machine, so `launch` detects it.
void clear_threads(Settings& settings) {
  if (!settings.is_set_by_user("num_cpu_threads_per_process")) {
    settings.set("num_cpu_threads_per_process", Json(), Origin());
  }
}

// The options of `launch` that a configuration file can contain.
std::vector<ArgOption> config_options() {
  std::vector<ArgOption> options = {
      {.name = "config_file",
       .value_name = "PATH",
       .help = "Write this file; JSON if its name ends in .json.",
       .default_text = "default_config.yaml in the cache folder"},
      {.name = "overwrite", .help = "Replace an existing file."},
  };
  for (const Setting& setting : all_settings()) {
    const bool is_saved =
        setting.file != SettingFile::none || setting.name == "multi_gpu";
    if (!setting.flag.empty() && is_saved) {
      options.push_back(option_of(setting));
    }
  }
  return options;
}

}  // namespace

const CommandInfo& config_info() {
  static const CommandInfo info = {
      .name = "config",
      .summary = "Ask how training should run, and save the answers.",
      .usage = "config [{default | update}] [options]",
      .options = config_options(),
      .max_positional = 1,
      .first_choices = {"default", "update"},
      .notes =
          "Without an argument, asks for each setting that it cannot detect "
          "and that no option sets. `default`\nasks nothing. `update` "
          "rewrites an existing file with the current keys and the options "
          "you pass.",
      .examples =
          {"accelerate config",
           "accelerate config default --mixed_precision bf16",
           "accelerate config update --num_processes 4"},
  };
  return info;
}

int run_config(const ParsedArgs& arguments, CommandContext& context) {
  const std::string mode =
      arguments.positional.empty() ? "ask" : arguments.positional[0];
  if (mode != "ask" && mode != "default" && mode != "update") {
    throw ConfigError(
        str_cat("unknown argument `", printable(mode), "`"),
        did_you_mean(mode, {"default", "update"}));
  }
  const auto path = target_path(arguments, context.environment);
  check_target(path, mode, arguments);
  Settings settings;
  if (mode == "update") {
    apply_config_files(settings, path.string(), context.environment);
  }
  apply_flags(settings, arguments);
  check_can_be_saved(settings, path, context.environment);
  const Hardware hardware = detect_hardware(context.environment);
  Console& console = context.console;
  console.status(str_cat(
      "Found ",
      describe_gpus(hardware.gpus),
      ", ",
      hardware.cores,
      hardware.cores == 1 ? " core, " : " cores, ",
      format_bytes(static_cast<double>(hardware.memory_bytes)),
      " of memory."));
  apply_slurm(settings, context.environment);
  if (mode == "ask") {
    Questionnaire(settings, hardware, console).run();
  }
  complete_settings(settings, hardware, context.environment);
  clear_threads(settings);
  write_files(settings, path);
  console.status(summary(settings));
  console.status(str_cat("Saved ", path.string()));
  console.status(
      arguments.has("config_file")
          ? str_cat(
                "Next: accelerate launch --config_file ",
                shell_quote(path.string()),
                " ./train")
          : "Next: accelerate launch ./train");
  return 0;
}

}  // namespace accelerate
