// SPDX-License-Identifier: Apache-2.0
#include "launch/control_plane.h"

#include <filesystem>

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

// On some systems the machine's own hostname resolves to the loopback. Other
// machines resolve it to another of our addresses, so listen on all of them.
Endpoint listening_endpoint(const Endpoint& endpoint) {
  const bool is_hostname = endpoint.address != "localhost" &&
                           endpoint.address != "::1" &&
                           !endpoint.address.starts_with("127.");
  return is_hostname && is_loopback(endpoint)
             ? Endpoint{false, "0.0.0.0", endpoint.port}
             : endpoint;
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

// Machine 0 listens and the others join. Without fixed ranks, machine 0 is the
// one that has the main address.
std::unique_ptr<ControlPlane> connect_machines(
    const LaunchPlan& plan, const LaunchMessages& messages) {
  const JobShape shape = JobShape::of(plan.settings);
  const Endpoint endpoint = main_endpoint(plan.settings);
  const bool assigns_ranks = plan.settings.text("rdzv_backend") == "c10d" &&
                             !plan.settings.is_set_by_user("machine_rank");
  const MachineInfo machine = {
      assigns_ranks ? -1 : shape.machine_rank,
      plan.hardware.hostname,
      "",
      agreement(plan)};
  const bool may_be_main =
      assigns_ranks ? has_main_address(endpoint) : shape.machine_rank == 0;
  if (may_be_main) {
    StoreServerOptions store =
        store_options(plan, job_secret(plan.settings, plan.environment));
    if (const auto text = weak_secret_warning(store.secret); !text.empty()) {
      messages.warn(text);
    }
    store.expects_machines = true;
    try {
      store.endpoints.push_back(listening_endpoint(endpoint));
      auto main = create_main_machine(plan, machine, store, messages.warn);
      messages.print_status(str_cat(
          "Waiting for ",
          shape.num_machines - 1,
          shape.num_machines == 2 ? " machine at " : " machines at ",
          endpoint.text().substr(4)));
      return main;
    } catch (const IoError& error) {
      if (!assigns_ranks) {
        throw IoError(
            error.what(),
            "pass an address of machine 0 and a free port with "
            "`--main_process_ip` and `--main_process_port`");
      }
    }
  }
  messages.print_status(
      str_cat("Joining machine 0 at ", endpoint.text().substr(4)));
  return create_joining_machine(plan, machine);
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
