// SPDX-License-Identifier: Apache-2.0
#include "accelerate/partial_state.h"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <mutex>
#include <thread>

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "accelerate/error.h"
#include "base/cpu_cores.h"
#include "base/message.h"
#include "base/network_interfaces.h"
#include "base/standard_streams.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "comm/launcher_link.h"
#include "comm/plugin.h"
#include "comm/wait_limits.h"
#include "config/environment.h"
#include "device/device_library.h"
#include "state/placement.h"
#include "state/rendezvous_store.h"
#include "state/topology.h"

namespace accelerate {

class PartialState::Impl {
 public:
  explicit Impl(const PartialStateOptions& requested);
  Impl(Group existing_group, c10::Device group_device);

  PartialStateOptions options;
  Topology topology;
  bool debug = false;
  bool fork_launched = false;
  c10::Device device = c10::Device(c10::DeviceType::CPU);
  std::optional<Group> group;
};

namespace {

struct SharedState {
  std::mutex mutex;
  std::shared_ptr<void> state;
};

SharedState& shared_state() {
  static SharedState instance;
  return instance;
}

Backend backend_from_variable(const std::string& name) {
  try {
    return parse_backend(name);
  } catch (const ArgumentError& error) {
    throw ConfigError(
        str_cat("environment variable ACCELERATE_BACKEND: ", error.what()),
        "set the variable to one of these values, or unset it");
  }
}

std::optional<std::string> interface_from_variable(
    const Environment& environment) {
  const auto name = environment.get("GLOO_SOCKET_IFNAME");
  const auto all = network_interfaces();
  if (name && std::find(all.begin(), all.end(), *name) == all.end()) {
    throw ConfigError(
        str_cat(
            "environment variable GLOO_SOCKET_IFNAME is `",
            *name,
            "`, but must be one of ",
            join(all, ", ")),
        "set the variable to one of these values, or unset it");
  }
  return name;
}

GroupOptions group_options(
    const InitProcessGroupKwargs& kwargs,
    const Environment& environment,
    const Topology& topology) {
  GroupOptions options;
  options.backend = kwargs.backend;
  if (const auto name = environment.get("ACCELERATE_BACKEND");
      name && !options.backend) {
    options.backend = backend_from_variable(*name);
  }
  if (!options.backend && topology.launcher == Launcher::openmpi &&
      has_backend_plugin("mpi")) {
    options.backend = Backend::mpi;
  }
  options.timeout = kwargs.timeout.value_or(options.timeout);
  options.warn_after = kwargs.warn_after;
  options.one_machine = topology.num_nodes == 1;
  if (topology.num_processes > 1) {
    options.network_interface = interface_from_variable(environment);
  }
  return options;
}

// Divides the cores of a machine among its processes, which would otherwise
// each use all of them.
void limit_threads(const Environment& environment, const Topology& topology) {
  if (topology.num_processes == 1 || environment.has("OMP_NUM_THREADS")) {
    return;
  }
  const auto cores = static_cast<int>(count_cores(allowed_cpus()));
  const int threads = std::max(1, cores / topology.local_num_processes);
  at::set_num_threads(threads);
  if (topology.local_process_index == 0) {
    print_warning(str_cat(
        "OMP_NUM_THREADS is not set: each of the ",
        topology.local_num_processes,
        " processes on this machine uses ",
        threads,
        " of the ",
        cores,
        " cores"));
  }
}

std::string text_of(bool value) {
  return value ? "true" : "false";
}

std::string text_of(Backend value) {
  return std::string(name_of(value));
}

std::string text_of(const std::string& value) {
  return value;
}

std::string text_of(c10::Device value) {
  return value.str();
}

std::string text_of(std::chrono::milliseconds value) {
  return name_duration(value);
}

std::string text_of(const std::map<std::string, std::string>& value) {
  return str_cat("a map of size ", value.size());
}

template <typename T>
void check_same(
    const char* name,
    const std::optional<T>& before,
    const std::optional<T>& now) {
  if (now && now != before) {
    throw StateError(
        str_cat(
            "this process already has a PartialState whose `",
            name,
            "` is ",
            before ? text_of(*before) : "not set",
            "; the new value is ",
            text_of(*now)),
        str_cat(
            "pass the same `",
            name,
            "` everywhere, leave it out the second time, or call "
            "PartialState::reset() first"));
  }
}

// CUDA is loaded late, so its exit handlers run before the destructors of
// objects that were created earlier. An NCCL process group must be destroyed
// before the exit handlers run.
void reset_at_exit() {
  static std::once_flag once;
  std::call_once(once, [] { std::atexit([] { PartialState::reset(); }); });
}

void check_same_options(
    const PartialStateOptions& before, const PartialStateOptions& now) {
  const auto& kwargs_before = before.init_process_group;
  const auto& kwargs_now = now.init_process_group;
  check_same("cpu", before.cpu, now.cpu);
  check_same("device", before.device, now.device);
  check_same("backend", kwargs_before.backend, kwargs_now.backend);
  check_same("init_method", kwargs_before.init_method, kwargs_now.init_method);
  check_same("timeout", kwargs_before.timeout, kwargs_now.timeout);
  check_same("warn_after", kwargs_before.warn_after, kwargs_now.warn_after);
  check_same("environment", before.environment, now.environment);
}

}  // namespace

PartialState::Impl::Impl(const PartialStateOptions& requested)
    : options(requested) {
  open_standard_streams();
  const Environment environment = requested.environment
                                      ? Environment(*requested.environment)
                                      : Environment::of_this_process();
  attach_to_launcher(environment);
  topology = detect_topology(environment);
  debug = environment.get_flag("ACCELERATE_DEBUG_MODE").value_or(false);
  fork_launched = environment.get_flag("FORK_LAUNCHED").value_or(false);
  const bool cpu = requested.cpu.value_or(
      environment.get_flag("ACCELERATE_USE_CPU").value_or(false));
  GroupOptions process_group =
      group_options(requested.init_process_group, environment, topology);
  check_group_options(process_group);
  device = select_device(
      environment,
      topology,
      {.cpu = cpu,
       .device = requested.device,
       .backend = process_group.backend});
  const bool has_collectives =
      !device.is_cpu() && lazy_device_of(device) == nullptr;
  if (has_collectives && !process_group.backend) {
    process_group.backend = Backend::nccl;
  }
  process_group.device = device;
  if (!device.is_cpu()) {
    reset_at_exit();
  }
  check_init_method(
      requested.init_process_group.init_method.value_or("env://"));
  limit_threads(environment, topology);
  if (topology.num_processes == 1) {
    group.emplace();
    return;
  }
  group.emplace(
      open_store(
          topology,
          requested.init_process_group.init_method,
          process_group.timeout),
      topology.process_index,
      topology.num_processes,
      process_group);
}

PartialState::Impl::Impl(Group existing_group, c10::Device group_device)
    : device(group_device), group(std::move(existing_group)) {
  topology.process_index = topology.local_process_index = group->rank();
  topology.num_processes = topology.local_num_processes = group->size();
}

PartialState::PartialState(const PartialStateOptions& options) {
  SharedState& shared = shared_state();
  const std::lock_guard lock(shared.mutex);
  if (!shared.state) {
    shared.state = std::make_shared<Impl>(options);
  }
  impl_ = std::static_pointer_cast<Impl>(shared.state);
  check_same_options(impl_->options, options);
}

PartialState::PartialState(Group group)
    : PartialState(std::move(group), c10::Device(c10::kCPU)) {
}

PartialState::PartialState(Group group, c10::Device device)
    : impl_(std::make_shared<Impl>(std::move(group), device)) {
}

PartialState::PartialState(const PartialState&) = default;
PartialState::PartialState(PartialState&&) noexcept = default;
PartialState& PartialState::operator=(const PartialState&) = default;
PartialState& PartialState::operator=(PartialState&&) noexcept = default;
PartialState::~PartialState() = default;

void PartialState::reset() {
  SharedState& shared = shared_state();
  const std::lock_guard lock(shared.mutex);
  shared.state.reset();
}

bool PartialState::is_initialized() {
  SharedState& shared = shared_state();
  const std::lock_guard lock(shared.mutex);
  return shared.state != nullptr;
}

std::int64_t PartialState::process_index() const {
  return impl_->topology.process_index;
}
std::int64_t PartialState::num_processes() const {
  return impl_->topology.num_processes;
}
std::int64_t PartialState::local_process_index() const {
  return impl_->topology.local_process_index;
}
std::int64_t PartialState::local_num_processes() const {
  return impl_->topology.local_num_processes;
}
std::int64_t PartialState::node_index() const {
  return impl_->topology.node_index;
}
std::int64_t PartialState::num_nodes() const {
  return impl_->topology.num_nodes;
}
c10::Device PartialState::device() const {
  return impl_->device;
}
bool PartialState::fork_launched() const {
  return impl_->fork_launched;
}
bool PartialState::debug() const {
  return impl_->debug;
}

DistributedType PartialState::distributed_type() const {
  if (device().is_xla()) {
    return DistributedType::xla;
  }
  if (!use_distributed()) {
    return DistributedType::no;
  }
  return device().is_cpu() ? DistributedType::multi_cpu
                           : DistributedType::multi_gpu;
}

std::string PartialState::backend() const {
  return group().backend_name();
}

std::string PartialState::launcher() const {
  return name_of(impl_->topology.launcher);
}

const Group& PartialState::group() const {
  if (!impl_->group) {
    throw StateError(
        "destroy_process_group() was called; this process has left its process "
        "group",
        "make collective calls before destroy_process_group()");
  }
  return *impl_->group;
}

void PartialState::wait_for_everyone() const {
  group().barrier();
}

ProcessOrder PartialState::main_process_first() const {
  return {group(), is_main_process()};
}

ProcessOrder PartialState::local_main_process_first() const {
  return {group(), is_local_main_process()};
}

void PartialState::destroy_process_group() {
  impl_->group.reset();
}

Tensor PartialState::split_between_processes(
    const Tensor& inputs, SplitOptions options) const {
  const auto indices =
      split_indices(static_cast<std::size_t>(length_of(inputs)), options);
  const auto range =
      split_range(length_of(inputs), process_index(), num_processes());
  const std::int64_t real = range.end - range.begin;
  const Tensor part = inputs.narrow(0, range.begin, real);
  const auto padded_length = static_cast<std::int64_t>(indices.size());
  if (padded_length == real) {
    return part;
  }
  auto sizes = inputs.sizes().vec();
  sizes[0] = padded_length;
  Tensor padded = inputs.new_empty(sizes);
  padded.narrow(0, 0, real).copy_(part);
  padded.narrow(0, real, padded_length - real)
      .copy_(inputs.narrow(0, indices.back(), 1));
  return padded;
}

std::int64_t PartialState::length_of(const Tensor& tensor) {
  if (!tensor.defined() || tensor.dim() == 0) {
    throw ArgumentError(
        "split_between_processes needs a tensor with at least one dimension",
        "pass a batch, for example `tensor.unsqueeze(0)`");
  }
  return tensor.size(0);
}

std::size_t PartialState::refuse_unknown_length() {
  throw ArgumentError(
      "split_between_processes: the size of the dataset is unknown",
      "pass a dataset whose `size()` has a value");
}

std::vector<std::int64_t> PartialState::split_indices(
    std::size_t length, SplitOptions options) const {
  const auto total = static_cast<std::int64_t>(length);
  const SplitRange range = split_range(total, process_index(), num_processes());
  std::vector<std::int64_t> indices;
  for (std::int64_t i = range.begin; i < range.end; ++i) {
    indices.push_back(i);
  }
  const std::int64_t longest = (total + num_processes() - 1) / num_processes();
  while (options.apply_padding && total > 0 &&
         static_cast<std::int64_t>(indices.size()) < longest) {
    indices.push_back(indices.empty() ? total - 1 : indices.back());
  }
  return indices;
}

void PartialState::check_process(
    const char* name, std::int64_t index, std::int64_t count) {
  if (index < 0 || index >= count) {
    throw ArgumentError(
        str_cat(
            name,
            ": index is ",
            index,
            ", but the number of processes is ",
            count),
        str_cat("pass an index from 0 to ", count - 1));
  }
}

void PartialState::check_equal_lengths(
    const std::map<std::string, std::int64_t>& lengths) {
  const bool equal =
      std::all_of(lengths.begin(), lengths.end(), [&](const auto& entry) {
        return entry.second == lengths.begin()->second;
      });
  if (equal) {
    return;
  }
  std::string table;
  for (const auto& [key, length] : lengths) {
    table += str_cat("\n  ", key, ": ", length);
  }
  throw ArgumentError(
      str_cat(
          "split_between_processes: the values in the map differ in length",
          table),
      "give all values in the map the same length");
}

void PartialState::print_line(const std::string& line) {
  std::cout << line + "\n" << std::flush;
}

ProcessOrder::ProcessOrder(Group group, bool goes_first)
    : group_(std::move(group)), must_signal_(goes_first) {
  if (!goes_first) {
    group_.barrier();
  }
}

ProcessOrder::~ProcessOrder() {
  print_errors_of([this] { finish(); });
}

void ProcessOrder::finish() {
  if (std::exchange(must_signal_, false)) {
    group_.barrier();
  }
}

std::string_view name_of(DistributedType type) {
  switch (type) {
    case DistributedType::no:
      return "NO";
    case DistributedType::multi_cpu:
      return "MULTI_CPU";
    case DistributedType::multi_gpu:
      return "MULTI_GPU";
    case DistributedType::xla:
      return "XLA";
  }
  throw InternalError("unknown DistributedType");
}

SplitRange split_range(
    std::int64_t length,
    std::int64_t process_index,
    std::int64_t num_processes) {
  const std::int64_t each = length / num_processes;
  const std::int64_t extra = length % num_processes;
  const std::int64_t begin =
      process_index * each + std::min(process_index, extra);
  return {begin, begin + each + (process_index < extra ? 1 : 0)};
}

}  // namespace accelerate
