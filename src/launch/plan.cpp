// SPDX-License-Identifier: Apache-2.0
#include "launch/plan.h"

#include <algorithm>
#include <optional>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "launch/slurm.h"

namespace accelerate {
namespace {

Origin found(std::string description) {
  return {Origin::Kind::found, std::move(description)};
}

std::vector<std::string> chosen_gpus(const Settings& settings) {
  const std::string ids = settings.text("gpu_ids");
  return ids.empty() || lower(ids) == "all" ? std::vector<std::string>()
                                            : split(ids, ',');
}

std::int64_t gpu_count(const Settings& settings, const Hardware& hardware) {
  const auto chosen = chosen_gpus(settings);
  return static_cast<std::int64_t>(
      chosen.empty() ? hardware.gpus.size() : chosen.size());
}

std::optional<std::size_t> gpu_index(
    const std::string& id, const Hardware& hardware) {
  const auto index = parse_integer(trim(id));
  const bool exists = index && *index >= 0 &&
                      *index < static_cast<std::int64_t>(hardware.gpus.size());
  return exists ? std::optional(static_cast<std::size_t>(*index))
                : std::nullopt;
}

void check_gpu_ids(const Settings& settings, const Hardware& hardware) {
  for (const std::string& id : chosen_gpus(settings)) {
    if (!gpu_index(id, hardware)) {
      throw ConfigError(
          str_cat(
              "`gpu_ids` (",
              settings.origin("gpu_ids").text(),
              ") lists GPU `",
              id,
              "`, but this machine has ",
              describe_gpus(hardware.gpus)),
          hardware.gpus.empty()
              ? "use `--cpu`"
              : "number the GPUs from 0; if CUDA_VISIBLE_DEVICES is set, count "
                "only the GPUs that it lists");
    }
  }
}

bool wants_gpus(const Settings& settings) {
  return settings.flag("multi_gpu") ||
         settings.text("distributed_type") == "MULTI_GPU";
}

void choose_device(Settings& settings, const Hardware& hardware) {
  if (settings.flag("use_cpu")) {
    return;
  }
  if (settings.text("distributed_type") == "MULTI_CPU" &&
      !settings.flag("multi_gpu")) {
    settings.set("use_cpu", true, found("distributed_type is MULTI_CPU"));
    return;
  }
  check_gpu_ids(settings, hardware);
  if (!hardware.gpus.empty()) {
    return;
  }
  if (wants_gpus(settings)) {
    const char* name =
        settings.flag("multi_gpu") ? "multi_gpu" : "distributed_type";
    throw ConfigError(
        str_cat(
            "`",
            name,
            "` (",
            settings.origin(name).text(),
            ") requests GPUs, but this machine has none"),
        "use `--cpu` to train on the CPU");
  }
  settings.set("use_cpu", true, found("no GPU"));
}

void choose_processes(Settings& settings, const Hardware& hardware) {
  const std::int64_t machines = settings.integer("num_machines");
  const bool cpu = settings.flag("use_cpu");
  const bool is_single =
      settings.text("distributed_type") == "NO" && !settings.flag("multi_gpu");
  if (!settings.has("num_processes")) {
    const std::int64_t per_machine =
        cpu || is_single
            ? 1
            : std::max<std::int64_t>(1, gpu_count(settings, hardware)) *
                  settings.integer("ranks_per_gpu");
    settings.set(
        "num_processes",
        per_machine * machines,
        found(cpu ? "no GPU" : describe_gpus(hardware.gpus)));
  }
  const std::int64_t total = settings.integer("num_processes");
  if (total % machines != 0) {
    throw ConfigError(str_cat(
        "`num_processes` is ",
        total,
        " (",
        settings.origin("num_processes").text(),
        "), but must be a multiple of `num_machines`, which is ",
        machines));
  }
  if (settings.flag("multi_gpu") && total == 1) {
    throw ConfigError(
        "--multi_gpu needs two or more processes",
        "add `--num_processes 2`, or remove --multi_gpu");
  }
}

void choose_type(Settings& settings) {
  const bool is_single = settings.integer("num_processes") == 1;
  const char* type = is_single                  ? "NO"
                     : settings.flag("use_cpu") ? "MULTI_CPU"
                                                : "MULTI_GPU";
  if (settings.text("distributed_type") != type) {
    settings.set(
        "distributed_type",
        type,
        found(str_cat(
            settings.integer("num_processes"),
            is_single ? " process" : " processes",
            settings.flag("use_cpu") ? " on the CPU" : " on GPUs")));
  }
}

void choose_threads(Settings& settings, const Hardware& hardware) {
  if (settings.has("num_cpu_threads_per_process")) {
    return;
  }
  const JobShape shape = JobShape::of(settings);
  settings.set(
      "num_cpu_threads_per_process",
      std::max<std::int64_t>(1, hardware.cores / shape.local_processes),
      found(str_cat(
          hardware.cores,
          hardware.cores == 1 ? " core, " : " cores, ",
          shape.local_processes,
          shape.local_processes == 1 ? " process" : " processes")));
}

// Converts "550.40.07" to {550, 40, 7}.
std::vector<std::int64_t> version_numbers(const std::string& text) {
  std::vector<std::int64_t> numbers;
  for (const std::string& part : split(text, '.')) {
    numbers.push_back(parse_integer(part).value_or(0));
  }
  return numbers;
}

// Drivers before 550.40.07 report P2P access between RTX 40 GPUs, but it does
// not work, and NCCL hangs.
bool has_broken_p2p_access(const Hardware& hardware) {
  const auto is_affected = [](const Gpu& gpu) {
    return gpu.name.find("RTX 40") != std::string::npos;
  };
  return hardware.gpus.size() > 1 && !hardware.driver_version.empty() &&
         std::any_of(hardware.gpus.begin(), hardware.gpus.end(), is_affected) &&
         version_numbers(hardware.driver_version) <
             version_numbers("550.40.07");
}

// Workers must not inherit these variables from another launcher or from an
// outer launch.
constexpr const char* kLauncherVariables[] = {
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "ROLE_NAME",
    "ROLE_RANK",
    "ROLE_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_RESTART_COUNT",
    "TORCHELASTIC_MAX_RESTARTS",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_ERROR_FILE",
    "TORCHELASTIC_USE_AGENT_STORE",
    "ACCELERATE_STORE",
    "ACCELERATE_STORE_SECRET",
    "ACCELERATE_STORE_RANK",
    "ACCELERATE_STORE_RUN",
    "ACCELERATE_LAUNCH_ID",
    "ACCELERATE_RESTART_COUNT",
    "ACCELERATE_PROGRESS_FILE",
    "ACCELERATE_GRACE_PERIOD",
};

using Variables = std::map<std::string, std::string>;

// The variables that Hugging Face Accelerate sets.
void add_python_variables(const Settings& settings, Variables& variables) {
  variables["ACCELERATE_MIXED_PRECISION"] = settings.text("mixed_precision");
  variables["ACCELERATE_USE_CPU"] = settings.flag("use_cpu") ? "True" : "False";
  variables["OMP_NUM_THREADS"] = settings.text("num_cpu_threads_per_process");
  variables["ACCELERATE_DYNAMO_BACKEND"] = "NO";
  variables["ACCELERATE_DYNAMO_MODE"] = "default";
  variables["ACCELERATE_DYNAMO_USE_FULLGRAPH"] = "False";
  variables["ACCELERATE_DYNAMO_USE_DYNAMIC"] = "False";
  variables["ACCELERATE_DYNAMO_USE_REGIONAL_COMPILATION"] = "False";
  if (settings.flag("debug")) {
    variables["ACCELERATE_DEBUG_MODE"] = "true";
  }
  if (settings.flag("enable_cpu_affinity")) {
    variables["ACCELERATE_CPU_AFFINITY"] = "1";
  }
  if (settings.has("gradient_accumulation_steps")) {
    variables["ACCELERATE_GRADIENT_ACCUMULATION_STEPS"] =
        settings.text("gradient_accumulation_steps");
  }
}

// `--gpu_ids 0` selects the first GPU that this process may use: GPU 2 if a
// scheduler assigned GPUs 2 and 3.
void add_gpu_variables(
    const LaunchPlan& plan,
    const Generation& generation,
    Variables& variables) {
  if (plan.settings.flag("use_cpu")) {
    return;
  }
  const auto inherited = plan.environment.get("CUDA_VISIBLE_DEVICES");
  const auto names =
      inherited ? split(*inherited, ',') : std::vector<std::string>();
  std::vector<std::string> chosen;
  for (const std::string& id : chosen_gpus(plan.settings)) {
    const auto index = gpu_index(id, plan.hardware);
    chosen.emplace_back(
        index && *index < names.size() ? trim(names[*index]) : trim(id));
  }
  if (!chosen.empty()) {
    variables["CUDA_VISIBLE_DEVICES"] = join(chosen, ",");
  }
  if (has_broken_p2p_access(plan.hardware) &&
      generation.shape.num_processes > 1) {
    for (const char* name : {"NCCL_P2P_DISABLE", "NCCL_IB_DISABLE"}) {
      if (!plan.environment.has(name)) {
        variables[name] = "1";
      }
    }
  }
}

// With several ranks per GPU, local ranks 0, 1, ... have GPUs 0, 1, ...; then
// GPU 0 gets its second rank. NCCL treats ranks with different NCCL_HOSTIDs as
// ranks on different machines, so it lets them use the same GPU.
void add_shared_gpu_variables(
    const LaunchPlan& plan,
    const Generation& generation,
    std::int64_t local_rank,
    Variables& variables) {
  const std::int64_t ranks = plan.settings.integer("ranks_per_gpu");
  if (ranks == 1 || plan.settings.flag("use_cpu")) {
    return;
  }
  const std::int64_t gpus =
      std::max<std::int64_t>(1, gpu_count(plan.settings, plan.hardware));
  variables["ACCELERATE_RANKS_PER_GPU"] = std::to_string(ranks);
  variables["NCCL_HOSTID"] = str_cat(
      plan.launch_id,
      "-",
      generation.shape.machine_rank,
      "-",
      local_rank / gpus);
}

// The variables that torchrun sets. A single process gets none of them, so that
// a script can detect that it is a single process.
void add_rank_variables(
    const Settings& settings,
    const Generation& generation,
    std::int64_t local_rank,
    Variables& variables) {
  const JobShape& shape = generation.shape;
  if (shape.num_processes == 1) {
    return;
  }
  const std::string rank = std::to_string(shape.first_rank + local_rank);
  const std::string world = std::to_string(shape.num_processes);
  variables["RANK"] = rank;
  variables["WORLD_SIZE"] = world;
  variables["LOCAL_RANK"] = std::to_string(local_rank);
  variables["LOCAL_WORLD_SIZE"] = std::to_string(shape.local_processes);
  variables["GROUP_RANK"] = std::to_string(shape.machine_rank);
  variables["GROUP_WORLD_SIZE"] = std::to_string(shape.num_machines);
  variables["ROLE_NAME"] = settings.text("role");
  variables["ROLE_RANK"] = rank;
  variables["ROLE_WORLD_SIZE"] = world;
  variables["MASTER_ADDR"] = generation.main_address;
  variables["MASTER_PORT"] = generation.main_port;
  variables["TORCHELASTIC_RESTART_COUNT"] = std::to_string(generation.number);
  variables["TORCHELASTIC_MAX_RESTARTS"] = settings.text("max_restarts");
  variables["TORCHELASTIC_RUN_ID"] = generation.run_id;
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "False";
}

void add_store_variables(
    const LaunchPlan& plan,
    const Generation& generation,
    std::int64_t local_rank,
    Variables& variables) {
  const std::int64_t rank = generation.shape.first_rank + local_rank;
  variables["ACCELERATE_STORE"] = generation.store;
  variables["ACCELERATE_STORE_SECRET"] = generation.store_secret;
  variables["ACCELERATE_STORE_RANK"] = std::to_string(rank);
  variables["ACCELERATE_STORE_RUN"] = generation.run_id;
  variables["ACCELERATE_LAUNCH_ID"] = plan.launch_id;
  variables["ACCELERATE_RESTART_COUNT"] = std::to_string(generation.number);
  variables["TORCHELASTIC_ERROR_FILE"] = plan.files.error_file(rank);
  variables["ACCELERATE_PROGRESS_FILE"] = plan.files.progress_file(rank);
  variables["ACCELERATE_GRACE_PERIOD"] = plan.settings.text("grace_period");
}

// With one machine, only the loopback interface is used. With several machines,
// Gloo needs a network interface: by default, it publishes the address to which
// the hostname resolves, which is often 127.0.1.1.
void add_interface_variables(
    const Environment& environment,
    const Generation& generation,
    Variables& variables) {
  const JobShape& shape = generation.shape;
  if (shape.num_processes == 1) {
    return;
  }
  const bool one_machine = shape.num_machines == 1;
  const std::string name = one_machine ? "lo" : generation.network_interface;
  if (!name.empty() && !environment.has("GLOO_SOCKET_IFNAME")) {
    variables["GLOO_SOCKET_IFNAME"] = name;
  }
  if (one_machine && !environment.has("NCCL_SOCKET_IFNAME")) {
    variables["NCCL_SOCKET_IFNAME"] = name;
  }
}

// Empty if the system does not report these CPUs: the file is missing in some
// containers. The caller then uses an equal share of all CPUs.
std::vector<int> cpus_near(const Gpu& gpu, const Hardware& hardware) {
  if (gpu.pci_address.empty()) {
    return {};
  }
  std::string text;
  try {
    text = read_file(
        str_cat("/sys/bus/pci/devices/", gpu.pci_address, "/local_cpulist"),
        4096);
  } catch (const IoError&) {
    return {};
  }
  std::vector<int> near;
  const auto listed = parse_cpu_list(text);
  std::set_intersection(
      listed.begin(),
      listed.end(),
      hardware.cpus.begin(),
      hardware.cpus.end(),
      std::back_inserter(near));
  return near;
}

}  // namespace

JobShape JobShape::of(const Settings& settings) {
  JobShape shape;
  shape.num_processes = settings.integer("num_processes");
  shape.num_machines = settings.integer("num_machines");
  shape.local_processes = shape.num_processes / shape.num_machines;
  return shape.on_machine(settings.integer("machine_rank"));
}

JobShape JobShape::on_machine(std::int64_t rank) const {
  JobShape shape = *this;
  shape.machine_rank = rank;
  shape.first_rank = rank * local_processes;
  return shape;
}

std::string LaunchFiles::store_socket() const {
  return folder + "/store";
}
std::string LaunchFiles::error_file(std::int64_t rank) const {
  return str_cat(folder, "/rank_", rank, ".error.json");
}
std::string LaunchFiles::progress_file(std::int64_t rank) const {
  return str_cat(folder, "/rank_", rank, ".step");
}
std::string LaunchFiles::log_pattern(std::int64_t rank) const {
  return log_folder.empty() ? std::string()
                            : str_cat(log_folder, "/rank_", rank, ".*.log");
}

void complete_settings(
    Settings& settings,
    const Hardware& hardware,
    const Environment& environment) {
  apply_slurm(settings, environment);
  check_contradictions(settings);
  (void)rendezvous_timeout(settings);
  choose_device(settings, hardware);
  choose_processes(settings, hardware);
  choose_type(settings);
  choose_threads(settings, hardware);
}

std::chrono::milliseconds rendezvous_timeout(const Settings& settings) {
  double seconds = static_cast<double>(settings.integer("rdzv_timeout"));
  if (settings.has("rdzv_conf")) {
    for (const std::string& pair : split(settings.text("rdzv_conf"), ',')) {
      const auto equals = pair.find('=');
      const std::string key = pair.substr(0, equals);
      if (equals == std::string::npos ||
          (key != "timeout" && key != "join_timeout")) {
        throw ConfigError(
            str_cat("--rdzv_conf does not support `", printable(pair), "`"),
            "use `timeout=SECONDS` or its synonym `join_timeout`");
      }
      const auto value = parse_double(pair.substr(equals + 1));
      const Setting& limits = *find_setting("rdzv_timeout");
      if (!value || *value < static_cast<double>(limits.minimum) ||
          *value > static_cast<double>(limits.maximum)) {
        throw ConfigError(str_cat(
            "--rdzv_conf has `",
            printable(pair),
            "`, but the timeout must be a number of seconds from ",
            limits.minimum,
            " to ",
            limits.maximum));
      }
      seconds = *value;
    }
  }
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

MainAddress main_address(
    const Settings& settings, const Environment& environment) {
  if (!settings.has("main_process_ip")) {
    throw ConfigError(
        "a job on several machines needs the address of machine 0",
        "add `--main_process_ip ADDRESS` on every machine");
  }
  MainAddress main;
  main.address = settings.text("main_process_ip");
  const auto step = step_of_machines(settings, environment);
  main.job = step ? step->name() : "";
  if (step && !settings.has("main_process_port")) {
    main.ports = step->ports();
    return main;
  }
  const std::int64_t port = settings.has("main_process_port")
                                ? settings.integer("main_process_port")
                                : 29500;
  if (port == 0) {
    throw ConfigError(
        "--main_process_port is 0, but several machines must use the same port",
        "choose a port that is free on machine 0");
  }
  main.ports = {static_cast<std::uint16_t>(port)};
  return main;
}

std::uint16_t MainAddress::program_port() const {
  return ports.size() == 1 ? static_cast<std::uint16_t>(ports[0] + 1) : 0;
}

std::string MainAddress::text() const {
  if (ports.size() == 1) {
    return endpoint(0).text().substr(4);
  }
  std::vector<std::string> numbers;
  for (const std::uint16_t port : ports) {
    numbers.push_back(std::to_string(port));
  }
  return str_cat(address, ", ports ", join(numbers, ", "));
}

std::string describe_choice(
    const Settings& settings, const Hardware& hardware) {
  const std::int64_t processes = settings.integer("num_processes");
  const std::string precision = settings.text("mixed_precision");
  return str_cat(
      "Found ",
      describe_gpus(hardware.gpus),
      ": ",
      processes,
      processes == 1 ? " process" : " processes",
      settings.flag("use_cpu") ? " on the CPU, " : ", ",
      settings.integer("num_cpu_threads_per_process"),
      settings.integer("num_cpu_threads_per_process") == 1 ? " thread"
                                                           : " threads",
      processes == 1 ? "" : " each",
      precision == "no" ? "" : str_cat(", ", precision));
}

std::map<std::string, std::string> worker_variables(
    const LaunchPlan& plan,
    const Generation& generation,
    std::int64_t local_rank) {
  Variables variables;
  add_python_variables(plan.settings, variables);
  add_gpu_variables(plan, generation, variables);
  add_shared_gpu_variables(plan, generation, local_rank, variables);
  add_rank_variables(plan.settings, generation, local_rank, variables);
  add_store_variables(plan, generation, local_rank, variables);
  if (!plan.is_python) {
    add_interface_variables(plan.environment, generation, variables);
  }
  return variables;
}

std::vector<Gpu> gpus_in_use(
    const Settings& settings, const Hardware& hardware) {
  if (settings.flag("use_cpu")) {
    return {};
  }
  const auto ids = chosen_gpus(settings);
  if (ids.empty()) {
    return hardware.gpus;
  }
  std::vector<Gpu> gpus;
  for (const std::string& id : ids) {
    if (const auto index = gpu_index(id, hardware)) {
      gpus.push_back(hardware.gpus[*index]);
    }
  }
  return gpus;
}

std::vector<int> cpus_of_worker(
    const Settings& settings,
    const Hardware& hardware,
    std::int64_t local_rank) {
  const auto index = static_cast<std::size_t>(local_rank);
  const auto gpus = gpus_in_use(settings, hardware);
  if (index < gpus.size()) {
    std::vector<int> near = cpus_near(gpus[index], hardware);
    if (!near.empty()) {
      return near;
    }
  }
  const std::int64_t local_processes = JobShape::of(settings).local_processes;
  const auto count = static_cast<std::int64_t>(hardware.cpus.size());
  if (count < local_processes) {
    return {};
  }
  const auto begin = hardware.cpus.begin();
  return {
      begin + count * local_rank / local_processes,
      begin + count * (local_rank + 1) / local_processes};
}

std::vector<WorkerCommand> make_worker_commands(
    const LaunchPlan& plan, const Generation& generation) {
  const JobShape& shape = generation.shape;
  Variables inherited = plan.environment.variables();
  for (const char* name : kLauncherVariables) {
    inherited.erase(name);
  }
  std::vector<WorkerCommand> commands;
  for (std::int64_t local = 0; local < shape.local_processes; ++local) {
    WorkerCommand command;
    command.rank = shape.first_rank + local;
    command.local_rank = local;
    command.argv = plan.argv;
    command.environment = inherited;
    for (const auto& [name, value] :
         worker_variables(plan, generation, local)) {
      command.environment[name] = value;
    }
    if (plan.settings.flag("enable_cpu_affinity")) {
      command.cpus = cpus_of_worker(plan.settings, plan.hardware, local);
    }
    command.error_file = plan.files.error_file(command.rank);
    command.progress_file = plan.files.progress_file(command.rank);
    command.log_pattern = plan.files.log_pattern(command.rank);
    commands.push_back(std::move(command));
  }
  return commands;
}

}  // namespace accelerate
