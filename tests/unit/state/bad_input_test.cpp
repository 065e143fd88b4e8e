// SPDX-License-Identifier: Apache-2.0
// Passes an invalid value for every public option. Checks the type of the
// error, and that its text contains the value and the valid choices.
#include <filesystem>
#include <thread>

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "accelerate/error.h"
#include "accelerate/group.h"
#include "accelerate/launchers.h"
#include "accelerate/logging.h"
#include "accelerate/operations.h"
#include "accelerate/partial_state.h"
#include "accelerate/random.h"
#include "base/network_interfaces.h"
#include "base/text.h"

namespace accelerate {
namespace {

enum class Kind { argument, config, unsupported, state };

struct BadInput {
  std::string name;
  std::function<void()> call;
  Kind kind;
  std::string text;
  std::string hint;
};

class BadInputs : public testing::TestWithParam<BadInput> {};

Kind kind_of(const Error& error) {
  if (dynamic_cast<const ArgumentError*>(&error) != nullptr) {
    return Kind::argument;
  }
  if (dynamic_cast<const ConfigError*>(&error) != nullptr) {
    return Kind::config;
  }
  return dynamic_cast<const StateError*>(&error) != nullptr ? Kind::state
                                                            : Kind::unsupported;
}

TEST_P(BadInputs, ThrowTheRightErrorWithValueAndChoices) {
  PartialState::reset();
  try {
    GetParam().call();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), GetParam().text);
    EXPECT_EQ(kind_of(error), GetParam().kind);
    EXPECT_EQ(error.hint(), GetParam().hint);
  }
  PartialState::reset();
}

Group join_alone(int rank, int size, GroupOptions options = {}) {
  return {c10::make_intrusive<c10d::HashStore>(), rank, size, options};
}

std::function<void()> state_with(
    const std::string& name, const std::string& value) {
  return [=] {
    PartialState state(
        {.environment = std::map<std::string, std::string>{{name, value}}});
  };
}

std::function<void()> state_with(const InitProcessGroupKwargs& kwargs) {
  return [=] {
    PartialState state(
        {.init_process_group = kwargs,
         .environment = std::map<std::string, std::string>{}});
  };
}

using std::chrono::milliseconds;

// Returns the network interfaces that `ip link` lists.
std::string all_interfaces() {
  return join(network_interfaces(), ", ");
}

const BadInput kBadInputs[] = {
    {"Backend",
     [] { parse_backend("nccl2"); },
     Kind::argument,
     "the backend is `nccl2`, but must be one of shm, gloo, nccl, mpi, fake",
     "pass one of shm, gloo, nccl, mpi, fake"},
    {"BackendInAnotherCase",
     [] { parse_backend("Gloo"); },
     Kind::argument,
     "the backend is `Gloo`, but must be one of shm, gloo, nccl, mpi, fake",
     "pass one of shm, gloo, nccl, mpi, fake"},
    {"Reduction",
     [] { parse_reduction("average"); },
     Kind::argument,
     "the reduction is `average`, but must be one of sum, mean, max, min",
     "pass one of sum, mean, max, min"},
    {"LogLevel",
     [] { parse_log_level("loud"); },
     Kind::argument,
     "the log level is `loud`, but must be one of debug, info, warning, error, "
     "critical",
     "pass one of debug, info, warning, error, critical"},
    {"GroupSize",
     [] { join_alone(0, 0); },
     Kind::argument,
     "size is 0, but a process group has 1 or more ranks",
     "pass a size of 1 or more"},
    {"GroupRankTooLarge",
     [] { join_alone(2, 2); },
     Kind::argument,
     "rank is 2, but the group size is 2 (ranks 0–1)",
     "pass a rank from 0 to 1"},
    {"GroupRankNegative",
     [] { join_alone(-1, 2); },
     Kind::argument,
     "rank is -1, but the group size is 2 (ranks 0–1)",
     "pass a rank from 0 to 1"},
    {"GroupTimeout",
     [] { join_alone(0, 2, {.timeout = milliseconds(0)}); },
     Kind::argument,
     "timeout is 0 ms, but must be positive",
     "pass 1 ms or more, or leave it out to use 600 s"},
    {"GroupWarnAfter",
     [] { join_alone(0, 2, {.warn_after = milliseconds(-5)}); },
     Kind::argument,
     "warn_after is -5 ms, but must be positive",
     "pass 1 ms or more, or leave it out to use 30 s"},
    {"SubgroupRank",
     [] { static_cast<void>(Group().subgroup({0, 1})); },
     Kind::argument,
     "subgroup: rank 1 is not in this group, which has only rank 0",
     "pass only ranks in this group"},
    {"SubgroupTwice",
     [] { static_cast<void>(Group().subgroup({0, 0})); },
     Kind::argument,
     "subgroup needs one or more distinct ranks, got [0, 0]",
     "pass one or more ranks, and list each rank only once"},
    {"SubgroupEmpty",
     [] { static_cast<void>(Group().subgroup({})); },
     Kind::argument,
     "subgroup needs one or more distinct ranks, got []",
     "pass one or more ranks, and list each rank only once"},
    {"BroadcastFrom",
     [] { Group().broadcast({at::ones({1})}, 1); },
     Kind::argument,
     "broadcast: `from` is 1, but this group has only rank 0",
     "pass a rank in this group"},
    {"BroadcastObjectsFrom",
     [] {
       std::vector<Json> objects;
       Group().broadcast_object_list(objects, -1);
     },
     Kind::argument,
     "broadcast_object_list: `from` is -1, but this group has only rank 0",
     "pass a rank in this group"},
    {"UndefinedTensor",
     [] { static_cast<void>(Group().gather({at::Tensor()})); },
     Kind::argument,
     "gather got an undefined tensor",
     "pass defined tensors on every rank"},
    {"MeanOfIntegers",
     [] {
       static_cast<void>(
           Group().reduce({at::ones({1}, at::kLong)}, Reduction::mean));
     },
     Kind::argument,
     "reduce: cannot compute the mean of Long tensors",
     "convert with `tensor.to(torch::kFloat)`, or use Reduction::sum"},
    {"PadDim",
     [] {
       static_cast<void>(
           Group().pad_across_processes({at::ones({1})}, {.dim = -1}));
     },
     Kind::argument,
     "pad_across_processes: dim is -1",
     "pass a dimension of 0 or more"},
    {"PadIndexTooLarge",
     [] {
       static_cast<void>(Group().pad_across_processes(
           {at::ones({1}, at::kByte)}, {.pad_index = 300}));
     },
     Kind::argument,
     "pad_across_processes: pad_index is 300, which a tensor of type Byte "
     "cannot represent",
     "pass a value that this type can represent, or convert the tensor "
     "first"},
    {"PadIndexNotWhole",
     [] {
       static_cast<void>(Group().pad_across_processes(
           {at::ones({1}, at::kLong)}, {.pad_index = 0.5}));
     },
     Kind::argument,
     "pad_across_processes: pad_index is 0.5, which a tensor of type Long "
     "cannot represent",
     "pass a value that this type can represent, or convert the tensor "
     "first"},
    {"AllocateCount",
     [] { static_cast<void>(Group().allocate(-1, at::ones({1}))); },
     Kind::argument,
     "allocate: count is -1",
     "pass 0 or more"},
    {"RngWithoutGenerator",
     [] { synchronize_rng_state(RngType::generator, std::nullopt, Group()); },
     Kind::argument,
     "synchronize_rng_state: RngType::generator needs a generator, but none "
     "was passed",
     "pass the generator as the second argument of `synchronize_rng_state` or "
     "`synchronize_rng_states`, or use RngType::torch"},
    {"LauncherProcesses",
     [] { debug_launcher([] {}, {.num_processes = 0}); },
     Kind::argument,
     "num_processes is 0",
     "pass 1 or more"},
    {"LauncherTimeout",
     [] { debug_launcher([] {}, {.timeout = milliseconds(-1)}); },
     Kind::argument,
     "timeout is -1 ms",
     "pass a positive `timeout`, or leave it out"},
    {"StateTimeout",
     state_with({.timeout = milliseconds(0)}),
     Kind::argument,
     "timeout is 0 ms, but must be positive",
     "pass 1 ms or more, or leave it out to use 600 s"},
    {"StateWarnAfter",
     state_with({.warn_after = milliseconds(-1)}),
     Kind::argument,
     "warn_after is -1 ms, but must be positive",
     "pass 1 ms or more, or leave it out to use 30 s"},
    {"StateInitMethod",
     state_with({.init_method = "udp://x"}),
     Kind::argument,
     "init_method is `udp://x`, but must be one of env://, tcp://host:port, "
     "file:///path",
     "leave `init_method` out to use the launcher's variables"},
    {"BackendVariable",
     state_with("ACCELERATE_BACKEND", "smoke"),
     Kind::config,
     "environment variable ACCELERATE_BACKEND: the backend is `smoke`, but "
     "must be one of "
     "shm, "
     "gloo, nccl, mpi, fake",
     "set the variable to one of these values, or unset it"},
    {"UseCpuVariable",
     state_with("ACCELERATE_USE_CPU", "perhaps"),
     Kind::config,
     "environment variable ACCELERATE_USE_CPU is `perhaps`, not a boolean",
     "set ACCELERATE_USE_CPU to true or false"},
    {"ForkLaunchedVariable",
     state_with("FORK_LAUNCHED", "maybe"),
     Kind::config,
     "environment variable FORK_LAUNCHED is `maybe`, not a boolean",
     "set FORK_LAUNCHED to true or false"},
    {"NcclWithoutDevice",
     [] { join_alone(0, 1, {.backend = Backend::nccl}); },
     Kind::argument,
     "backend `nccl` needs a GPU, but `GroupOptions::device` is not set to one",
     "leave the backend out, or set `GroupOptions::device` to a GPU"},
    {"CudaGeneratorOnACpu",
     [] {
       const auto store = c10::make_intrusive<c10d::HashStore>();
       std::thread other([&] { Group(store, 1, 2, {}).barrier(); });
       const Group group(store, 0, 2, {});
       try {
         synchronize_rng_state(RngType::cuda, std::nullopt, group);
       } catch (const Error&) {
         group.barrier();
         other.join();
         throw;
       }
     },
     Kind::unsupported,
     "synchronize_rng_state: RngType::cuda selects the generator of this "
     "process's GPU, but the process runs on the CPU",
     "use RngType::torch, or run on a GPU"},
    {"DebugVariable",
     state_with("ACCELERATE_DEBUG_MODE", "2"),
     Kind::config,
     "environment variable ACCELERATE_DEBUG_MODE is `2`, not a boolean",
     "set ACCELERATE_DEBUG_MODE to true or false"},
    {"DeviceVariable",
     state_with("ACCELERATE_TORCH_DEVICE", "gpu"),
     Kind::config,
     "environment variable ACCELERATE_TORCH_DEVICE is `gpu`, not a device",
     "set it to `cpu`, `cuda`, `cuda:N` or `xla`, or unset it"},
    {"DeviceThisBuildLacks",
     state_with("ACCELERATE_TORCH_DEVICE", "xpu"),
     Kind::unsupported,
     "this build has no support for device `xpu`",
     "set ACCELERATE_TORCH_DEVICE to `cpu`, `cuda` or `xla`, or unset it"},
    {"GroupWarnAfterTimeout",
     [] {
       join_alone(
           0, 2, {.timeout = milliseconds(50), .warn_after = milliseconds(51)});
     },
     Kind::argument,
     "warn_after is 51 ms, but timeout is 50 ms, so the warning would never "
     "appear",
     "pass a warn_after of at most 50 ms, or leave it out"},
    {"StateWarnAfterTimeout",
     state_with({.warn_after = std::chrono::minutes(11)}),
     Kind::argument,
     "warn_after is 660000 ms, but timeout is 600000 ms, so the warning would "
     "never appear",
     "pass a warn_after of at most 600000 ms, or leave it out"},
    {"GroupInterface",
     [] { join_alone(0, 2, {.network_interface = "wire7"}); },
     Kind::argument,
     "network_interface is `wire7`, but must be one of " + all_interfaces(),
     "pass one of the existing interfaces, or leave it out"},
    {"InterfaceVariable",
     [] {
       PartialState state(
           {.environment = std::map<std::string, std::string>{
                {"RANK", "0"},
                {"WORLD_SIZE", "2"},
                {"GLOO_SOCKET_IFNAME", "wire7"}}});
     },
     Kind::config,
     "environment variable GLOO_SOCKET_IFNAME is `wire7`, but must be one of " +
         all_interfaces(),
     "set the variable to one of these values, or unset it"},
    {"DeviceOfManyCpus",
     state_with("ACCELERATE_TORCH_DEVICE", "cpu:3"),
     Kind::config,
     "environment variable ACCELERATE_TORCH_DEVICE is `cpu:3`, but the "
     "only CPU device is `cpu`",
     "set ACCELERATE_TORCH_DEVICE to `cpu`, or unset it"},
    {"DeviceOfManyMeshes",
     state_with("ACCELERATE_TORCH_DEVICE", "xla:1"),
     Kind::config,
     "environment variable ACCELERATE_TORCH_DEVICE is `xla:1`, but the "
     "only XLA device is `xla`",
     "set ACCELERATE_TORCH_DEVICE to `xla`, or unset it"},
    {"OptionsWithTwoDevices",
     [] { PartialState({.cpu = true, .device = c10::kXLA}); },
     Kind::config,
     "the option `device` is `xla`, but the CPU was requested",
     "omit it, or remove what requests the CPU: `--cpu`, ACCELERATE_USE_CPU or "
     "the option `cpu`"},
    {"XlaKind",
     state_with("PJRT_DEVICE", "NPU"),
     Kind::config,
     "environment variable PJRT_DEVICE is `NPU`, but must be CPU, TPU or CUDA",
     "set the variable to one of these values, or unset it to train without "
     "XLA"},
    {"XlaWithoutPlugin",
     state_with("PJRT_DEVICE", "TPU"),
     Kind::config,
     "XLA was chosen, but PJRT_PLUGIN_PATH is not set",
     "set PJRT_PLUGIN_PATH to the absolute path of a PJRT plugin, for example "
     "the plugin in the wheel `xla-cpu-pjrt`"},
    {"XlaPluginByRelativePath",
     [] {
       PartialState(
           {.environment = std::map<std::string, std::string>{
                {"PJRT_DEVICE", "CPU"}, {"PJRT_PLUGIN_PATH", "../plugin.so"}}});
     },
     Kind::config,
     "environment variable PJRT_PLUGIN_PATH is `../plugin.so`, which is not an "
     "absolute path",
     "set it to `" +
         (std::filesystem::current_path().parent_path() / "plugin.so")
             .string() +
         "`"},
    {"XlaInSeveralProcesses",
     [] {
       PartialState(
           {.environment = std::map<std::string, std::string>{
                {"PJRT_DEVICE", "CPU"}, {"RANK", "0"}, {"WORLD_SIZE", "2"}}});
     },
     Kind::unsupported,
     "XLA was chosen in a run of 2 processes, but one process uses all XLA "
     "devices of a machine, and runs on several machines are not supported yet",
     "start one process with `--num_processes 1`"},
};

INSTANTIATE_TEST_SUITE_P(
    Public, BadInputs, testing::ValuesIn(kBadInputs), [](const auto& test) {
      return test.param.name;
    });

}  // namespace
}  // namespace accelerate
