// SPDX-License-Identifier: Apache-2.0
#include "comm/group_impl.h"

#include <algorithm>
#include <csignal>
#include <exception>
#include <utility>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "comm/backends/connection.h"
#include "comm/backends/device_work.h"
#include "comm/backends/fake_transport.h"
#include "comm/backends/gloo_backend.h"
#include "comm/backends/shm_transport.h"
#include "comm/backends/transport_backend.h"
#include "comm/backends/transport_work.h"
#include "comm/plugin.h"
#include "comm/shm_exchange.h"
#include "device/device_library.h"
#include "device/error_line.h"

namespace accelerate {
namespace {

std::string problem_table(const std::vector<std::string>& problems) {
  std::string text;
  for (std::size_t rank = 0; rank < problems.size(); ++rank) {
    if (!problems[rank].empty()) {
      text += str_cat("\n  rank ", rank, ": ", problems[rank]);
    }
  }
  return text;
}

std::size_t memory_bytes(int size) {
  return ShmExchange::bytes(size) + ShmTransport::bytes(size);
}

// A backend's own limit is a little later than ours: our message names ranks
// and what the user called.
constexpr std::chrono::seconds kGrace(5);

PluginGroupOptions plugin_options(const Seat& seat, const Patience& patience) {
  PluginGroupOptions options;
  const bool all = seat.members.empty();
  options.process_index = all ? seat.rank : seat.members[seat.rank];
  options.num_processes = all ? seat.size : seat.num_processes;
  options.members = seat.members;
  options.timeout = patience.timeout + kGrace;
  options.store = seat.store.get();
  return options;
}

bool is_empty(const std::string& text) {
  return text.empty();
}

// On every rank or on none: rank 0 is in its own process in any case.
std::unique_ptr<FakeTransport> join_fake_hub(
    const Seat& seat, const Patience& patience) {
  const std::string mine = seat.rank == 0 ? open_fake_hub(seat.size) : "";
  const std::string hub = meet(seat, "hub", mine, patience).front();
  std::unique_ptr<FakeTransport> transport;
  std::string problem;
  try {
    transport =
        std::make_unique<FakeTransport>(hub, seat.rank, seat.size, patience);
  } catch (const Error& error) {
    problem = error.what();
  }
  const auto problems = meet(seat, "at_hub", problem, patience);
  if (!std::all_of(problems.begin(), problems.end(), is_empty)) {
    throw UnsupportedError(
        str_cat(
            "backend `fake` needs all ",
            seat.size,
            " ranks in one process",
            problem_table(problems)),
        "use backend `shm` or `gloo` between processes");
  }
  return transport;
}

// NCCL would say so too, of bus numbers.
void check_own_devices(
    const std::vector<std::string>& identities, const std::string& text) {
  for (std::size_t rank = 0; rank < identities.size(); ++rank) {
    std::vector<int> same;
    for (std::size_t other = rank; other < identities.size(); ++other) {
      if (identities[other] == identities[rank]) {
        same.push_back(static_cast<int>(other));
      }
    }
    if (same.size() > 1) {
      throw UnsupportedError(
          str_cat(
              name_ranks(same),
              " are on one GPU, ",
              text,
              ", and NCCL wants one for each"),
          "unset ACCELERATE_TORCH_DEVICE, which each process gets the same "
          "of, or set ACCELERATE_BACKEND=gloo to let processes share a GPU");
    }
  }
}

// Gloo writes to sockets whose other end may be gone. Unless the program has
// an opinion of its own, that is an error to report, not the end.
void keep_broken_pipes_quiet() {
  struct sigaction now{};
  ::sigaction(SIGPIPE, nullptr, &now);
  if (now.sa_handler == SIG_DFL) {
    ::signal(SIGPIPE, SIG_IGN);
  }
}

constexpr std::chrono::milliseconds kWarnAfter = std::chrono::seconds(30);
// All ranks are there when they begin to connect.
constexpr std::chrono::milliseconds kConnectLimit(20'000);

}  // namespace

Group::Impl::Impl(Seat seat_, GroupOptions options_)
    : seat(std::move(seat_)), options(std::move(options_)) {
  patience = {
      options.warn_after.value_or(std::min(kWarnAfter, options.timeout)),
      options.timeout,
      options.warn,
      aborted.get()};
  CommonMemory common;
  if (options.shared_memory) {
    common = share_memory(seat, memory_bytes(seat.size), patience);
    memory = common.memory;
  }
  make_backend(common);
  make_device_backend();
  const bool plugin = options.backend == Backend::mpi;
  backend_wait.emplace(
      seat, memory, plugin ? backend : c10::intrusive_ptr<c10d::Backend>());
  if (memory) {
    exchange = std::make_unique<ShmExchange>(
        memory, memory->data(), seat.rank, seat.size);
  } else {
    exchange = std::make_unique<BackendExchange>(backend, *backend_wait);
  }
}

// A group whose program is in trouble, or whose peers are gone, must not wait
// for what they have yet to send.
Group::Impl::~Impl() {
  if (!device_backend) {
    return;
  }
  try {
    const bool in_peace = failure_.empty() && !aborted->load() &&
                          !watch_->has_aborted() &&
                          std::uncaught_exceptions() == 0;
    watch_.reset();
    if (in_peace) {
      device_backend->shutdown();
    } else {
      device_backend->abort();
    }
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch)
    // It is on its way out.
  }
}

void Group::Impl::make_device_backend() {
  if (options.backend != Backend::nccl) {
    return;
  }
  if (!options.device || options.device->is_cpu()) {
    throw ArgumentError(
        "backend `nccl` carries tensors between GPUs, and the group has none",
        "leave the backend out, or set `GroupOptions::device`");
  }
  DeviceBackend* device = device_backend_of(*options.device);
  check_own_devices(
      meet(seat, "gpu", device->identity(options.device->index()), patience),
      device->describe(options.device->index()));
  const auto store =
      c10::make_intrusive<c10d::PrefixStore>("device", seat.store);
  device_backend =
      c10::intrusive_ptr<c10d::Backend>::reclaim(device->create_group(
          {.store = store.get(),
           .rank = seat.rank,
           .size = seat.size,
           .timeout = patience.timeout,
           .device = *options.device}));
  watch_ = std::make_unique<PeerWatch>(
      memory, seat.rank, seat.size, [backend = device_backend] {
        backend->abort();
      });
}

void Group::Impl::make_backend(const CommonMemory& common) {
  const Backend usual = memory ? Backend::shm : Backend::gloo;
  const Backend asked = options.backend.value_or(usual);
  switch (asked == Backend::nccl ? usual : asked) {
    case Backend::nccl:
      return;  // Replaced by the usual one above.
    case Backend::shm:
      if (!memory) {
        throw UnsupportedError(
            str_cat(
                "backend `shm` needs all ",
                seat.size,
                " ranks on one host, and they share no memory",
                problem_table(common.problems)),
            "use `ACCELERATE_BACKEND=gloo`, or leave the backend out");
      }
      backend = c10::make_intrusive<TransportBackend>(
          std::make_unique<ShmTransport>(
              memory,
              memory->data() + ShmExchange::bytes(seat.size),
              seat.rank,
              seat.size,
              patience),
          "shm",
          aborted);
      return;
    case Backend::gloo:
      keep_broken_pipes_quiet();
      backend = connect_all(
          seat,
          patience,
          [rank = seat.rank,
           size = seat.size,
           network =
               GlooNetwork{
                   .loopback = memory != nullptr || options.one_host,
                   .interface = options.network_interface.value_or("")},
           limit =
               std::min(kConnectLimit, patience.timeout)](const auto& store) {
            return make_gloo_backend(store, rank, size, network, limit);
          });
      backend->setTimeout(patience.timeout + kGrace);
      return;
    case Backend::fake:
      backend = c10::make_intrusive<TransportBackend>(
          join_fake_hub(seat, patience), "fake", aborted);
      return;
    case Backend::mpi:
      backend = c10::intrusive_ptr<c10d::Backend>::reclaim(
          create_plugin_backend("mpi", plugin_options(seat, patience)));
      return;
  }
}

void Group::Impl::refuse_if_failed() const {
  if (aborted->load()) {
    throw DistributedError(
        str_cat(
            "this group of ",
            seat.size,
            " ranks was aborted on rank ",
            seat.rank),
        "nothing to do: the group was shut down on purpose");
  }
  if (!failure_.empty()) {
    throw DistributedError(
        str_cat(
            "this group of ", seat.size, " ranks is unusable since ", failure_),
        "end this process; a new run can resume from a checkpoint");
  }
}

std::vector<CallRecord> Group::Impl::agree(
    const Call& call,
    const Tensors& tensors,
    const std::string& arguments,
    std::optional<std::int64_t> free_dim) {
  CallRecord mine{call.operation, call.sequence, arguments, {}};
  for (const at::Tensor& tensor : tensors) {
    mine.tensors.push_back({tensor.scalar_type(), tensor.sizes().vec()});
  }
  const auto records =
      read_records(exchange->all(mine.encode(), call, patience));
  check_agreement(records, free_dim);
  return records;
}

std::vector<CallRecord> Group::Impl::read_records(
    const std::vector<std::string>& texts) const {
  std::vector<CallRecord> records;
  for (const auto& text : texts) {
    records.push_back(CallRecord::decode(text));
  }
  return records;
}

void Group::Impl::announce(const Call& call, const std::string& arguments) {
  announced_ = call;
  exchange->post(
      CallRecord{call.operation, call.sequence, arguments, {}}.encode());
}

bool Group::Impl::all_announced() const {
  return !announced_ || exchange->all_posted();
}

void Group::Impl::settle() {
  if (announced_) {
    const Call call = *std::exchange(announced_, std::nullopt);
    check_agreement(read_records(exchange->collect(call, patience)));
  }
}

void Group::Impl::wait(
    const c10::intrusive_ptr<c10d::Work>& work, const Call& call) {
  // Not dynamic_intrusive_pointer_cast, which leaks a reference when the type
  // is another one.
  if (dynamic_cast<const TransportWork*>(work.get()) != nullptr) {
    work->wait();  // Our own transports watch the ranks while they work.
  } else {
    (*backend_wait)(work, call, patience);
  }
}

void Group::Impl::wait_on_device(
    const c10::intrusive_ptr<c10d::Work>& work, const Call& call) const {
  if (!work) {
    return;  // It was put into the current stream itself.
  }
  try {
    work->wait();
  } catch (const std::exception& error) {
    backend_wait->rethrow(call, patience, error_line(error));
  }
}

bool Group::Impl::must_stage(const Tensors& tensors) const {
  return !device_backend &&
         std::any_of(tensors.begin(), tensors.end(), [](const auto& tensor) {
           return !tensor.is_cpu();
         });
}

void Group::Impl::run(
    const at::Tensor& tensor,
    const Call& call,
    const std::function<c10::intrusive_ptr<c10d::Work>(c10d::Backend&)>&
        start) {
  if (tensor.is_cpu()) {
    wait(start(*backend), call);
  } else {
    wait_on_device(
        started_on_device([&] { return start(*device_backend); }), call);
  }
}

}  // namespace accelerate
