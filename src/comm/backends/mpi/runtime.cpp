// SPDX-License-Identifier: Apache-2.0
#include "comm/backends/mpi/runtime.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <thread>
#include <utility>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace accelerate::mpi {
namespace {

void check_level(int level) {
  if (level >= MPI_THREAD_SERIALIZED) {
    return;
  }
  throw UnsupportedError(
      str_cat(
          "MPI was initialized with ",
          level == MPI_THREAD_SINGLE ? "MPI_THREAD_SINGLE"
                                     : "MPI_THREAD_FUNNELED",
          ", but the `mpi` backend needs MPI_THREAD_SERIALIZED or higher"),
      "call MPI_Init_thread with MPI_THREAD_MULTIPLE, or let accelerate "
      "initialize MPI");
}

// Ranks on one machine need no network, but Open MPI's network transports would
// listen on every interface. Does not override existing settings.
void disable_networks_on_one_machine() {
  const auto text = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  const std::string all = text("OMPI_COMM_WORLD_SIZE");
  if (all.empty() || text("OMPI_COMM_WORLD_LOCAL_SIZE") != all) {
    return;
  }
  constexpr int kKeep = 0;
  ::setenv("OMPI_MCA_btl", "^tcp,ofi", kKeep);
  ::setenv("OMPI_MCA_mtl", "^ofi", kKeep);
}

}  // namespace

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) {
    return;
  }
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) {
    length = 0;
  }
  throw DistributedError(
      str_cat(
          call,
          " failed: ",
          std::string(text.data(), static_cast<std::size_t>(length)),
          " (code ",
          code,
          ")"),
      "the root cause is the first error in the logs of the other ranks");
}

Runtime& Runtime::instance() {
  // Never destroyed, because worker threads and exit handlers may run after any
  // destructor.
  static auto* runtime = new Runtime();
  return *runtime;
}

Runtime& Runtime::start(std::chrono::milliseconds timeout) {
  Runtime& runtime = instance();
  runtime.start_once(timeout);
  if (!runtime.alive()) {
    throw StateError(
        "MPI_Finalize was already called in this process",
        "create process groups before MPI_Finalize is called");
  }
  return runtime;
}

void Runtime::start_once(std::chrono::milliseconds timeout) {
  const std::lock_guard guard(start_);
  {
    const std::lock_guard state(mutex_);
    longest_timeout_ = std::max(longest_timeout_, timeout);
  }
  if (started_) {
    return;
  }
  run([this] { initialize(); }, timeout, "MPI_Init_thread");
  started_ = true;
  on_exit(&Runtime::at_exit, this);
}

void Runtime::initialize() {
  int initialized = 0;
  check(MPI_Initialized(&initialized), "MPI_Initialized");
  int level = MPI_THREAD_SINGLE;
  if (initialized != 0) {
    check(MPI_Query_thread(&level), "MPI_Query_thread");
  } else {
    disable_networks_on_one_machine();
    check(
        MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level),
        "MPI_Init_thread");
    ours_ = true;
    // A program that calls MPI itself keeps its own error handler.
    check(
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN),
        "MPI_Comm_set_errhandler");
  }
  check_level(level);
  read_world();
}

void Runtime::read_world() {
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
}

void Runtime::run(
    std::function<void()> call,
    std::chrono::milliseconds timeout,
    const std::string& name) {
  std::packaged_task<void()> task(std::move(call));
  auto done = task.get_future();
  {
    const std::lock_guard guard(mutex_);
    waiting_calls_.push_back(std::move(task));
    if (!serving_) {
      // The thread is detached: it may hang in MPI forever, but the process
      // must not hang.
      std::thread([this] { serve(); }).detach();
      serving_ = true;
    }
  }
  wake_.notify_one();
  if (done.wait_for(timeout) == std::future_status::timeout) {
    skip_finalize();
    throw DistributedError(
        str_cat(name, " did not return within ", timeout.count(), " ms"),
        "check that every process in the job is running and creates the same "
        "groups in the same order");
  }
  done.get();
}

void Runtime::serve() {
  for (;;) {
    std::unique_lock guard(mutex_);
    wake_.wait(guard, [this] { return !waiting_calls_.empty(); });
    auto task = std::move(waiting_calls_.front());
    waiting_calls_.pop_front();
    guard.unlock();
    task();
  }
}

void Runtime::skip_finalize() {
  const std::lock_guard guard(mutex_);
  may_finalize_ = false;
}

bool Runtime::alive() {
  int finalized = 1;
  MPI_Finalized(&finalized);  // MPI allows this call from any thread.
  return finalized == 0;
}

std::uint64_t Runtime::before_finalize(std::function<void()> close) {
  const std::lock_guard guard(mutex_);
  closers_.emplace(++next_id_, std::move(close));
  return next_id_;
}

void Runtime::forget(std::uint64_t id) {
  const std::lock_guard guard(mutex_);
  closers_.erase(id);
}

void Runtime::close_groups() {
  std::unique_lock guard(mutex_);
  while (!closers_.empty()) {
    const auto close = std::move(closers_.extract(closers_.begin()).mapped());
    guard.unlock();
    close();
    guard.lock();
  }
}

void Runtime::finalize() {
  const auto guard = lock();
  check(MPI_Finalize(), "MPI_Finalize");
}

void Runtime::at_exit(int status, void* self) {
  auto& runtime = *static_cast<Runtime*>(self);
  if (status != 0 || !runtime.alive()) {
    return;
  }
  runtime.close_groups();
  std::unique_lock guard(runtime.mutex_);
  const bool finalize = runtime.ours_ && runtime.may_finalize_;
  const auto timeout = runtime.longest_timeout_;
  guard.unlock();
  if (!finalize) {
    return;
  }
  try {
    runtime.run([&runtime] { runtime.finalize(); }, timeout, "MPI_Finalize");
  } catch (const std::exception&) {
    // The process is exiting; mpirun reports that it did not call MPI_Finalize.
  }
}

}  // namespace accelerate::mpi
