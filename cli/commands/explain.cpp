// SPDX-License-Identifier: Apache-2.0
// `accelerate explain`: prints the value and origin of every setting, and the
// command and environment of each worker.
#include "cli/commands/explain.h"

#include "base/str_cat.h"
#include "base/text.h"
#include "cli/commands/launch_program.h"
#include "cli/commands/launch_settings.h"
#include "cli/commands/mpirun_job.h"
#include "launch/plan.h"
#include "launch/program.h"

namespace accelerate {
namespace {

constexpr const char* kFreePort = "<free port>";

// The machines use the main port; the program gets the next port, if it is
// free. In a Slurm step, machine 0 chooses both ports. The workers on machine 0
// reach the store through a Unix socket.
void set_machine_values(const LaunchPlan& plan, Generation& generation) {
  const MainAddress main = main_address(plan.settings, plan.environment);
  const std::uint16_t port = main.program_port();
  generation.main_address = plan.settings.flag("same_network")
                                ? main.address
                                : "<address of machine 0>";
  generation.main_port = port == 0 ? kFreePort : std::to_string(port);
  if (plan.settings.integer("machine_rank") > 0) {
    generation.store = port == 0 ? str_cat("tcp:", main.address, ":", kFreePort)
                                 : main.endpoint(0).text();
  }
}

// Placeholders for values that are known only when the job starts.
Generation placeholder_generation(const LaunchPlan& plan) {
  const Settings& settings = plan.settings;
  Generation generation;
  generation.shape = JobShape::of(settings);
  generation.main_port = kFreePort;
  generation.network_interface = "<interface>";
  generation.store = "unix:" + plan.files.store_socket();
  if (settings.integer("num_machines") > 1) {
    set_machine_values(plan, generation);
  } else if (
      settings.has("main_process_port") &&
      settings.integer("main_process_port") > 0) {
    generation.main_port = settings.text("main_process_port");
  }
  generation.store_secret = "<secret>";
  generation.run_id = "<id>";
  return generation;
}

Json settings_json(const Settings& settings) {
  Json result = Json::object();
  for (const Setting& setting : all_settings()) {
    result[setting.name] = Json::object(
        {{"value", settings.value(setting.name)},
         {"origin", settings.origin(setting.name).text()}});
  }
  return result;
}

Json workers_json(
    const LaunchSettings& gathered,
    const ParsedArgs& arguments,
    CommandContext& context) {
  Json workers = Json::array();
  if (arguments.positional.empty()) {
    return workers;
  }
  const Program program = find_program(
      gathered.settings, arguments.positional, context.environment);
  LaunchPlan plan;
  plan.settings = gathered.settings;
  plan.hardware = gathered.hardware;
  plan.environment = context.environment;
  plan.argv = program.argv;
  plan.is_python = program.is_python();
  plan.launch_id = "<id>";
  plan.files.folder = "<folder>";
  if (program.kind == Program::Kind::source) {
    plan.argv[0] =
        compiled_path(plan.argv[0], compile_options(plan.settings, context))
            .string();
  }
  use_mpirun(plan, kFreePort);
  const Generation generation = placeholder_generation(plan);
  for (const WorkerCommand& command : make_worker_commands(plan, generation)) {
    Json variables = Json::object();
    for (const auto& [name, value] :
         worker_variables(plan, generation, command.local_rank)) {
      variables[name] = value;
    }
    workers.push_back(Json::object(
        {{"rank", command.rank},
         {"command", command.argv},
         {"environment", variables},
         {"cpus", command.cpus}}));
  }
  return workers;
}

std::string in_column(const std::string& name) {
  return name + std::string(name.size() < 30 ? 30 - name.size() : 1, ' ');
}

std::string settings_text(const Json& report) {
  std::string text;
  for (const Json& file : report.at("files").as_array()) {
    text += in_column("(configuration file)") + file.as_string() + "\n";
  }
  for (const auto& [name, entry] : report.at("settings").as_object()) {
    const Json& value = entry.at("value");
    const std::string shown = value.is_null() ? "-" : value_text(value);
    text += in_column(name) + shown;
    text += std::string(shown.size() < 16 ? 16 - shown.size() : 1, ' ');
    text += entry.at("origin").as_string() + "\n";
  }
  return text;
}

std::string worker_text(const Json& worker) {
  std::string text = str_cat("\nrank ", worker.at("rank").as_integer(), ":\n");
  for (const auto& [name, value] : worker.at("environment").as_object()) {
    text += str_cat("  ", name, "=", value.as_string(), "\n");
  }
  std::vector<std::string> argv;
  for (const Json& argument : worker.at("command").as_array()) {
    argv.push_back(shell_quote(argument.as_string()));
  }
  if (worker.at("cpus").size() > 0) {
    text += str_cat("  on CPUs ", worker.at("cpus").dump(), "\n");
  }
  return text + "  " + join(argv, " ") + "\n";
}

}  // namespace

const CommandInfo& explain_info() {
  static const CommandInfo info = [] {
    CommandInfo result = {
        .name = "explain",
        .summary = "Show the value of every setting and where it came from.",
        .usage = "explain [--json] [launch options] [<program> [arguments]]",
        .options = {{.name = "json", .help = "Print JSON."}},
        .runs_program = true,
        .notes =
            "Takes the options of `accelerate launch` but starts nothing. With "
            "a "
            "program, it also shows the\ncommand and environment of each "
            "worker.",
        .examples =
            {"accelerate explain",
             "accelerate explain --num_processes 2 ./train",
             "accelerate explain --json | jq .settings.mixed_precision"},
    };
    for (ArgOption& option : launch_options()) {
      result.options.push_back(std::move(option));
    }
    return result;
  }();
  return info;
}

int run_explain(const ParsedArgs& arguments, CommandContext& context) {
  const LaunchSettings gathered = gather_settings(arguments, context);
  Json files = Json::array();
  for (const auto& file : gathered.files) {
    files.push_back(file.string());
  }
  const Json report = Json::object(
      {{"files", files},
       {"settings", settings_json(gathered.settings)},
       {"workers", workers_json(gathered, arguments, context)}});
  if (arguments.has("json")) {
    context.console.print(report.dump({.indent = 2}));
    return 0;
  }
  std::string text = settings_text(report);
  for (const Json& worker : report.at("workers").as_array()) {
    text += worker_text(worker);
  }
  text.pop_back();
  context.console.print(text);
  return 0;
}

}  // namespace accelerate
