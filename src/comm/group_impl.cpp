// SPDX-License-Identifier: Apache-2.0
#include "comm/group_impl.h"

#include <algorithm>
#include <csignal>
#include <exception>
#include <filesystem>
#include <system_error>
#include <utility>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "accelerate/error.h"
#include "base/kernel_id.h"
#include "base/str_cat.h"
#include "comm/backends/connection.h"
#include "comm/backends/fake_transport.h"
#include "comm/backends/gloo_backend.h"
#include "comm/backends/shm_transport.h"
#include "comm/backends/transport_backend.h"
#include "comm/distinct_gpus.h"
#include "comm/plugin.h"
#include "comm/shm_exchange.h"
#include "comm/wait_beats.h"
#include "config/environment.h"
#include "device/device_library.h"

namespace accelerate {
namespace {

// The shared memory contains the exchange, then the transport, then the wait
// beats.
std::size_t memory_bytes(int size) {
  return ShmExchange::bytes(size) + ShmTransport::bytes(size) +
         WaitBeats::bytes(size);
}

PluginGroupOptions plugin_options(
    const RankContext& context,
    const WaitLimits& limits,
    std::shared_ptr<SharedMemory> memory) {
  PluginGroupOptions options;
  const bool all_processes = context.members.empty();
  options.process_index =
      all_processes ? context.rank : context.members[context.rank];
  options.num_processes = all_processes ? context.size : context.num_processes;
  options.members = context.members;
  options.limits = limits;
  if (memory) {
    options.exited_ranks =
        [memory = std::move(memory), rank = context.rank, size = context.size] {
          return memory->absent_ranks(rank, size);
        };
  }
  return options;
}

// Succeeds on all ranks or on no rank.
std::unique_ptr<FakeTransport> join_fake_network(
    const RankContext& context, const WaitLimits& limits) {
  const std::string created =
      context.rank == 0 ? open_fake_network(context.size) : "";
  const std::string name =
      gather_through_store(context, "fake network", created, limits).front();
  std::unique_ptr<FakeTransport> transport;
  const RankOutcomes joined = try_collectively(
      through_store(context, "connection to the fake network", limits), [&] {
        transport = std::make_unique<FakeTransport>(
            name, context.rank, context.size, limits);
        return Json();
      });
  if (!joined.all_succeeded()) {
    throw UnsupportedError(
        str_cat(
            "backend `fake` needs all ",
            context.size,
            " ranks in one process",
            joined.table()),
        "use backend `shm` or `gloo` between processes");
  }
  return transport;
}

// Whether all ranks can reach each other on the loopback interface. Containers
// on one machine may share memory but not a network.
bool share_loopback(const RankContext& context, const WaitLimits& limits) {
  std::error_code error;
  const auto name = std::filesystem::read_symlink("/proc/self/ns/net", error);
  const auto networks = gather_through_store(
      context, "network", str_cat(kernel_id(), " ", name.string()), limits);
  return std::ranges::count(networks, networks.front()) ==
         static_cast<std::ptrdiff_t>(networks.size());
}

// Gloo's timeout is a little longer than the group's, so that the group's
// error, which names the ranks and the call, is thrown first.
constexpr std::chrono::seconds kGrace(5);

// Gloo writes to sockets whose other end may be closed. By default, such a
// write kills the process with SIGPIPE; if the signal is ignored, the write
// fails with an error. Does not replace a handler that the program has
// installed.
void ignore_broken_pipes() {
  struct sigaction now{};
  ::sigaction(SIGPIPE, nullptr, &now);
  if (now.sa_handler == SIG_DFL) {
    ::signal(SIGPIPE, SIG_IGN);
  }
}

constexpr std::chrono::milliseconds kWarnAfter = std::chrono::seconds(30);
// A short timeout is enough, because all ranks are ready before they connect.
constexpr std::chrono::milliseconds kConnectLimit(20'000);

}  // namespace

Group::Impl::Impl(RankContext context_, GroupOptions options_)
    : context(std::move(context_)), options(std::move(options_)) {
  limits = {
      options.warn_after.value_or(std::min(kWarnAfter, options.timeout)),
      options.timeout,
      options.warn,
      aborted.get()};
  CommonMemory common;
  if (options.shared_memory) {
    common = share_memory(context, memory_bytes(context.size), limits);
    memory = common.memory;
  }
  if (memory) {
    limits.beats = std::make_shared<WaitBeats>(
        memory,
        memory->data() + memory_bytes(context.size) -
            WaitBeats::bytes(context.size),
        context.rank);
  }
  make_backend(common);
  make_device_backend();
  backend_wait.emplace(context, memory);
  if (memory) {
    exchange = std::make_unique<ShmExchange>(
        memory, memory->data(), context.rank, context.size);
  } else {
    exchange = std::make_unique<BackendExchange>(backend, *backend_wait);
  }
}

// After a failure, or when other ranks have exited, the destructor must not
// wait for data that will never arrive.
Group::Impl::~Impl() {
  if (!device_backend) {
    return;
  }
  try {
    const bool healthy = failure_.empty() && !aborted->load() &&
                         !rank_monitor_->has_aborted() &&
                         std::uncaught_exceptions() == 0;
    rank_monitor_.reset();
    if (healthy) {
      device_backend->shutdown();
    } else {
      device_backend->abort();
    }
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch)
    // A destructor must not throw.
  }
}

void Group::Impl::make_device_backend() {
  if (options.backend != Backend::nccl) {
    return;
  }
  if (!options.device || options.device->is_cpu()) {
    throw ArgumentError(
        "backend `nccl` needs a GPU, but `GroupOptions::device` is not set to "
        "one",
        "leave the backend out, or set `GroupOptions::device` to a GPU");
  }
  DeviceBackend* device = device_backend_of(*options.device);
  const auto nccl_id =
      Environment::of_this_process().get("NCCL_HOSTID").value_or("");
  check_distinct_gpus(
      gather_through_store(
          context, "gpu", device->identity(options.device->index()), limits),
      gather_through_store(context, "NCCL_HOSTID", nccl_id, limits),
      device->describe(options.device->index()));
  const auto store =
      c10::make_intrusive<c10d::PrefixStore>("device", context.store);
  device_backend =
      c10::intrusive_ptr<c10d::Backend>::reclaim(device->create_group(
          {.store = store.get(),
           .rank = context.rank,
           .size = context.size,
           .timeout = limits.timeout,
           .device = *options.device}));
  rank_monitor_ = std::make_unique<RankMonitor>(
      memory, context.rank, context.size, [backend = device_backend] {
        backend->abort();
      });
}

void Group::Impl::make_backend(const CommonMemory& common) {
  const Backend default_backend = memory ? Backend::shm : Backend::gloo;
  const Backend requested = options.backend.value_or(default_backend);
  switch (requested == Backend::nccl ? default_backend : requested) {
    case Backend::nccl:
      return;  // not reached: the default replaces nccl
    case Backend::shm:
      if (!memory) {
        throw UnsupportedError(
            str_cat(
                "backend `shm` needs all ",
                context.size,
                " ranks on one machine, but they share no memory",
                common.problems),
            "use `ACCELERATE_BACKEND=gloo`, or leave the backend out");
      }
      backend = c10::make_intrusive<TransportBackend>(
          std::make_unique<ShmTransport>(
              memory,
              memory->data() + ShmExchange::bytes(context.size),
              context.rank,
              context.size,
              limits),
          "shm",
          aborted);
      return;
    case Backend::gloo: {
      ignore_broken_pipes();
      const bool one_machine = memory != nullptr || options.one_machine;
      const GlooNetwork network{
          .loopback = one_machine && share_loopback(context, limits),
          .interface = options.network_interface.value_or("")};
      backend = connect_all(
          context,
          limits,
          [rank = context.rank,
           size = context.size,
           network,
           limit = std::min(kConnectLimit, limits.timeout)](const auto& store) {
            return make_gloo_backend(store, rank, size, network, limit);
          });
      backend->setTimeout(limits.timeout + kGrace);
      return;
    }
    case Backend::fake:
      backend = c10::make_intrusive<TransportBackend>(
          join_fake_network(context, limits), "fake", aborted);
      return;
    case Backend::mpi:
      backend = c10::make_intrusive<TransportBackend>(
          create_plugin_transport(
              "mpi", plugin_options(context, limits, memory)),
          "mpi",
          aborted);
      return;
  }
}

void Group::Impl::refuse_if_failed() const {
  if (aborted->load()) {
    throw DistributedError(
        str_cat(
            "this group of ",
            context.size,
            " ranks was aborted on rank ",
            context.rank),
        "no action needed: the process group was shut down on purpose");
  }
  if (!failure_.empty()) {
    throw DistributedError(
        str_cat(
            "this group of ",
            context.size,
            " ranks is unusable after an error: ",
            failure_),
        "restart the run; it can resume from a checkpoint");
  }
}

CallRecord Group::Impl::record_of(
    const Call& call, const Tensors& tensors, const std::string& arguments) {
  CallRecord record{call.operation, call.sequence, arguments, {}};
  for (const at::Tensor& tensor : tensors) {
    record.tensors.push_back({tensor.scalar_type(), tensor.sizes().vec()});
  }
  return record;
}

std::vector<CallRecord> Group::Impl::agree(
    const CallRecord& record,
    const Call& call,
    std::optional<std::int64_t> free_dim) {
  if (context.size == 1) {
    return {record};
  }
  const auto records =
      read_records(exchange->all_gather(record.encode(), call, limits));
  check_agreement(records, free_dim);
  return records;
}

std::vector<CallRecord> Group::Impl::agree_on_objects(
    const Call& call, const std::string& arguments, std::string payload) {
  CallRecord record = record_of(call, {}, arguments);
  record.payload = std::move(payload);
  return agree(record, call, std::nullopt);
}

std::vector<CallRecord> Group::Impl::read_records(
    const std::vector<std::string>& texts) const {
  std::vector<CallRecord> records;
  for (const auto& text : texts) {
    records.push_back(CallRecord::decode(text));
  }
  return records;
}

Call Group::Impl::announce(const std::string& operation) {
  if (context.size == 1) {
    return {operation, sequence_};
  }
  return guarded(operation.c_str(), [&](const Call& call) {
    announced_ = call;
    exchange->post(record_of(call, {}, {}).encode());
    return call;
  });
}

bool Group::Impl::all_announced() const {
  return !announced_ || exchange->all_posted();
}

void Group::Impl::settle() {
  if (announced_) {
    const Call call = *std::exchange(announced_, std::nullopt);
    check_agreement(read_records(exchange->collect(call, limits)));
  }
}

}  // namespace accelerate
