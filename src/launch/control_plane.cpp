// SPDX-License-Identifier: Apache-2.0
#include "launch/control_plane.h"

#include <chrono>
#include <filesystem>
#include <thread>

#include "accelerate/error.h"
#include "base/hmac.h"
#include "base/progress_file.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "launch/secret.h"

namespace accelerate {
namespace {

// The settings that must be the same on every machine.
Json agreement(const LaunchPlan& plan) {
  Json result = Json::object({{"version", plan.version}});
  for (const char* name :
       {"num_machines",
        "num_processes",
        "mixed_precision",
        "gradient_accumulation_steps",
        "use_cpu",
        "debug",
        "max_restarts",
        "rdzv_backend",
        "same_network",
        "stop_timeout",
        "grace_period"}) {
    result[name] = plan.settings.value(name);
  }
  result["rdzv_timeout"] =
      std::chrono::duration<double>(rendezvous_timeout(plan.settings)).count();
  // Python programs use the LibTorch of their own installation.
  if (!plan.is_python) {
    result["LibTorch"] = plan.torch_version;
  }
  std::vector<std::string> argv = plan.argv;
  argv[0] = std::filesystem::path(argv[0]).filename().string();
  result["program"] = join(argv, " ");
  return result;
}

bool has_main_address(const Endpoint& endpoint) {
  try {
    (void)reserve_port(listening_endpoint(endpoint).address);
    return true;
  } catch (const IoError&) {
    return false;
  }
}

StoreServerOptions store_options(const LaunchPlan& plan, std::string secret) {
  StoreServerOptions options;
  options.endpoints = {{true, plan.files.store_socket(), 0}};
  options.secret = std::move(secret);
  options.run_id = plan.launch_id;
  return options;
}

// Opens the store on the first port that is free. Returns null if this machine
// cannot listen on the address: another machine may then be machine 0.
std::unique_ptr<ControlPlane> listen_as_machine_0(
    const LaunchPlan& plan,
    const MachineInfo& machine,
    const MainAddress& main,
    const LaunchMessages& messages) {
  StoreServerOptions store =
      store_options(plan, job_secret(plan.settings, plan.environment));
  if (const auto text = weak_secret_warning(store.secret); !text.empty()) {
    messages.warn(text);
  }
  store.expects_machines = true;
  std::string problem;
  for (std::size_t i = 0; i < main.ports.size(); ++i) {
    const Endpoint endpoint = main.endpoint(i);
    try {
      StoreServerOptions with_port = store;
      with_port.endpoints.push_back(listening_endpoint(endpoint));
      auto result = create_main_machine(
          plan,
          machine,
          {std::move(with_port), endpoint, main.program_port()},
          messages.warn);
      const auto others = JobShape::of(plan.settings).num_machines - 1;
      messages.print_status(str_cat(
          "Waiting for ",
          others,
          others == 1 ? " machine at " : " machines at ",
          endpoint.text().substr(4)));
      return result;
    } catch (const IoError& error) {
      problem = error.what();
    }
  }
  if (machine.machine_rank < 0) {
    return nullptr;
  }
  throw IoError(
      problem,
      "pass the address of machine 0 and a free port with "
      "`--main_process_ip` and `--main_process_port`");
}

// Slurm's names do not change, so a name that cannot be resolved for a few
// seconds is an error. Other names, such as names of containers, may become
// valid later.
void check_name_of_machine_0(
    const LaunchPlan& plan,
    const MainAddress& main,
    const LaunchMessages& messages) {
  const bool from_slurm =
      plan.settings.origin("main_process_ip").kind == Origin::Kind::found;
  constexpr std::chrono::seconds kWait(3);
  const auto deadline = std::chrono::steady_clock::now() + kWait;
  auto problem = resolve_problem(main.address);
  while (problem && from_slurm && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    problem = resolve_problem(main.address);
  }
  if (!problem) {
    return;
  }
  const std::string text = str_cat(
      "this machine cannot resolve `",
      printable(main.address),
      "`, the name of machine 0: ",
      *problem);
  if (from_slurm) {
    throw ConfigError(
        text,
        "add the name to DNS or to /etc/hosts on every node, or pass the "
        "address of the first node with `--main_process_ip`");
  }
  messages.warn(str_cat(text, "; trying again"));
}

// Machine 0 listens, and the other machines join. If the ranks are not fixed,
// the machine that has the main address is machine 0.
std::unique_ptr<ControlPlane> connect_machines(
    const LaunchPlan& plan, const LaunchMessages& messages) {
  const JobShape shape = JobShape::of(plan.settings);
  const MainAddress main = main_address(plan.settings, plan.environment);
  const bool has_rank =
      plan.settings.origin("machine_rank").kind != Origin::Kind::built_in;
  const bool assigns_ranks =
      plan.settings.text("rdzv_backend") == "c10d" && !has_rank;
  const MachineInfo machine = {
      assigns_ranks ? -1 : shape.machine_rank,
      plan.hardware.hostname,
      "",
      main.job,
      agreement(plan)};
  const bool may_be_main = assigns_ranks ? has_main_address(main.endpoint(0))
                                         : shape.machine_rank == 0;
  if (may_be_main) {
    if (auto result = listen_as_machine_0(plan, machine, main, messages)) {
      return result;
    }
  }
  check_name_of_machine_0(plan, main, messages);
  messages.print_status(str_cat("Joining machine 0 at ", main.text()));
  return create_joining_machine(plan, machine, main);
}

}  // namespace

std::unique_ptr<ControlPlane> open_control_plane(
    const LaunchPlan& plan, const LaunchMessages& messages) {
  if (JobShape::of(plan.settings).num_machines > 1) {
    return connect_machines(plan, messages);
  }
  return create_one_machine(
      plan, store_options(plan, to_hex(random_bytes(32))), messages.warn);
}

std::vector<RankStatus> local_steps(
    const LaunchPlan& plan, std::int64_t machine_rank) {
  const JobShape shape = JobShape::of(plan.settings).on_machine(machine_rank);
  std::vector<RankStatus> ranks;
  for (std::int64_t local = 0; local < shape.local_processes; ++local) {
    const std::int64_t rank = shape.first_rank + local;
    RankStatus status;
    status.rank = static_cast<std::uint32_t>(rank);
    status.step = read_progress(plan.files.progress_file(rank));
    ranks.push_back(std::move(status));
  }
  return ranks;
}

}  // namespace accelerate
