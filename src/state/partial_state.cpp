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
#include "base/network_interfaces.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "comm/launcher_link.h"
#include "comm/patience.h"
#include "comm/plugin.h"
#include "config/environment.h"
#include "state/placement.h"
#include "state/rendezvous_store.h"
#include "state/topology.h"

namespace accelerate {

class PartialState::Impl {
 public:
  explicit Impl(const PartialStateOptions& given);
  Impl(Group existing, c10::Device where);

  PartialStateOptions options;
  Topology topology;
  bool debug = false;
  bool fork_launched = false;
  c10::Device device = c10::Device(c10::DeviceType::CPU);
  std::optional<Group> group;
};

namespace {

struct Shared {
  std::mutex mutex;
  std::shared_ptr<void> state;
};

Shared& shared() {
  static Shared instance;
  return instance;
}

Backend backend_from_variable(const std::string& name) {
  try {
    return parse_backend(name);
  } catch (const ArgumentError& error) {
    // "backend `x` is not one of …": the variable in place of the argument.
    const std::string_view text = error.what();
    const auto choices = text.substr(text.find(" is not one of ") + 15);
    throw ConfigError(
        str_cat(
            "environment variable ACCELERATE_BACKEND is `",
            name,
            "`, not one of ",
            choices),
        "set it to one of these, or unset it");
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
            "`, not one of ",
            join(all, ", ")),
        "set it to one of these, or unset it");
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
  options.one_host = topology.num_nodes == 1;
  if (topology.num_processes > 1) {
    options.network_interface = interface_from_variable(environment);
  }
  return options;
}

// Processes of one host share its cores instead of each using all of them.
void limit_threads(const Environment& environment, const Topology& topology) {
  if (topology.num_processes == 1 || environment.has("OMP_NUM_THREADS")) {
    return;
  }
  const auto cores = static_cast<int>(count_cores(allowed_cpus()));
  const int threads = std::max(1, cores / topology.local_num_processes);
  at::set_num_threads(threads);
  if (topology.local_process_index == 0) {
    std::cerr << str_cat(
                     "warning: OMP_NUM_THREADS is not set: each of the ",
                     topology.local_num_processes,
                     " processes of this host computes with ",
                     threads,
                     " of its ",
                     cores,
                     " cores\n")
              << std::flush;
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

std::string text_of(std::chrono::milliseconds value) {
  return name_duration(value);
}

std::string text_of(const std::map<std::string, std::string>& value) {
  return str_cat("one of ", value.size(), " variables");
}

template <typename T>
void check_same(
    const char* name,
    const std::optional<T>& before,
    const std::optional<T>& now) {
  if (now && now != before) {
    throw StateError(
        str_cat(
            "this process already has a PartialState, whose `",
            name,
            "` is ",
            before ? text_of(*before) : "left out",
            "; now it is ",
            text_of(*now)),
        str_cat(
            "pass the same `",
            name,
            "` everywhere, leave it out the second time, or call "
            "PartialState::reset() first"));
  }
}

// CUDA's exit handlers run before the destructors of what was there before it
// was loaded: a group over NCCL must be gone by then.
void leave_at_exit() {
  static std::once_flag once;
  std::call_once(once, [] { std::atexit([] { PartialState::reset(); }); });
}

void check_same_options(
    const PartialStateOptions& before, const PartialStateOptions& now) {
  const auto& then = before.init_process_group;
  const auto& wanted = now.init_process_group;
  check_same("cpu", before.cpu, now.cpu);
  check_same("backend", then.backend, wanted.backend);
  check_same("init_method", then.init_method, wanted.init_method);
  check_same("timeout", then.timeout, wanted.timeout);
  check_same("warn_after", then.warn_after, wanted.warn_after);
  check_same("environment", before.environment, now.environment);
}

}  // namespace

PartialState::Impl::Impl(const PartialStateOptions& given) : options(given) {
  const Environment environment = given.environment
                                      ? Environment(*given.environment)
                                      : Environment::of_this_process();
  attach_to_launcher(environment);
  topology = detect_topology(environment);
  debug = environment.get_flag("ACCELERATE_DEBUG_MODE").value_or(false);
  fork_launched = environment.get_flag("FORK_LAUNCHED").value_or(false);
  const bool cpu = given.cpu.value_or(
      environment.get_flag("ACCELERATE_USE_CPU").value_or(false));
  GroupOptions how =
      group_options(given.init_process_group, environment, topology);
  check_group_options(how);
  device = place(environment, topology, {.cpu = cpu, .backend = how.backend});
  if (!device.is_cpu() && !how.backend) {
    how.backend = Backend::nccl;
  }
  how.device = device;
  if (!device.is_cpu()) {
    leave_at_exit();
  }
  check_init_method(given.init_process_group.init_method.value_or("env://"));
  limit_threads(environment, topology);
  if (topology.num_processes == 1) {
    group.emplace();
    return;
  }
  group.emplace(
      open_store(topology, given.init_process_group.init_method, how.timeout),
      topology.process_index,
      topology.num_processes,
      how);
}

PartialState::Impl::Impl(Group existing, c10::Device where)
    : device(where), group(std::move(existing)) {
  topology.process_index = topology.local_process_index = group->rank();
  topology.num_processes = topology.local_num_processes = group->size();
}

PartialState::PartialState(const PartialStateOptions& options) {
  Shared& all = shared();
  const std::lock_guard lock(all.mutex);
  if (!all.state) {
    all.state = std::make_shared<Impl>(options);
  }
  impl_ = std::static_pointer_cast<Impl>(all.state);
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
  Shared& all = shared();
  const std::lock_guard lock(all.mutex);
  all.state.reset();
}

bool PartialState::is_initialized() {
  Shared& all = shared();
  const std::lock_guard lock(all.mutex);
  return all.state != nullptr;
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
        "destroy_process_group() was called; this process has left its run",
        "make collective calls before it");
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
  const auto wanted = static_cast<std::int64_t>(indices.size());
  if (wanted == real) {
    return part;
  }
  auto sizes = inputs.sizes().vec();
  sizes[0] = wanted;
  Tensor padded = inputs.new_empty(sizes);
  padded.narrow(0, 0, real).copy_(part);
  padded.narrow(0, real, wanted - real)
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
      "split_between_processes: the dataset does not know its size",
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
            " but there are ",
            count,
            " processes (0–",
            count - 1,
            ")"),
        "pass the index of a process");
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
      str_cat("split_between_processes: lengths differ", table),
      "give all values of the map the same length");
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
  try {
    finish();
  } catch (const std::exception& error) {
    std::cerr << str_cat("error: ", error.what(), "\n") << std::flush;
  }
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
  }
  throw InternalError("a distributed type without a name");
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
