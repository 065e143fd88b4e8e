// SPDX-License-Identifier: Apache-2.0
// The MPI library of one process: initialized once, finalized once.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <string>

#include <mpi.h>

namespace accelerate::mpi {

using Clock = std::chrono::steady_clock;

/// Throws `DistributedError` with MPI's error message unless `code` is
/// MPI_SUCCESS.
void check(int code, const char* call);

/// Initializes MPI on first use and finalizes it when the process exits.
///
/// NOTE [One lock]: every MPI call in this library is made while holding
/// `lock()`. The calls are short; only calls in `run` wait for other ranks. The
/// lock satisfies MPI_THREAD_SERIALIZED. MPI_THREAD_MULTIPLE is still
/// requested, so that the program may also use MPI itself.
///
/// NOTE [Calls that wait]: MPI_Init, the creation of communicators and
/// MPI_Finalize wait for other processes and cannot be interrupted. These calls
/// run on a separate thread, which is MPI's main thread, and the caller stops
/// waiting after its timeout.
///
/// NOTE [Finalize]: MPI_Finalize waits for all processes, so it must not run
/// when another process may be stuck in a collective with this process. At
/// exit, MPI_Finalize runs only if this library initialized MPI, no group has
/// failed, and the exit status is 0. Otherwise the process exits without
/// calling MPI_Finalize, and mpirun stops the rest of the job.
///
/// Thread-safe. Never destroyed.
class Runtime {
 public:
  /// Returns the runtime of this process, with MPI started.
  ///
  /// The first call is collective over all processes in the job. Throws
  /// `DistributedError` if starting MPI takes longer than `timeout`,
  /// `UnsupportedError` if MPI cannot be called from several threads, and
  /// `StateError` after MPI_Finalize.
  static Runtime& start(std::chrono::milliseconds timeout);

  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  [[nodiscard]] std::unique_lock<std::mutex> lock() {
    return std::unique_lock(calls_);
  }
  int rank() const { return rank_; }
  int size() const { return size_; }

  /// Runs a call that waits for other processes. Rethrows its exceptions, and
  /// throws `DistributedError` if the call has not returned after `timeout`.
  void run(
      std::function<void()> call,
      std::chrono::milliseconds timeout,
      const std::string& name);

  /// Makes the process skip MPI_Finalize when it exits, because MPI_Finalize
  /// could hang.
  void skip_finalize();
  /// Returns whether MPI has not been finalized yet. Only then are MPI calls
  /// allowed.
  bool alive();

  /// Registers `close` to run before MPI_Finalize. Returns an id; `forget(id)`
  /// undoes the registration.
  std::uint64_t before_finalize(std::function<void()> close);
  void forget(std::uint64_t id);

 private:
  Runtime() = default;
  ~Runtime() = default;

  static Runtime& instance();
  static void at_exit(int status, void* runtime);
  void start_once(std::chrono::milliseconds timeout);
  void initialize();
  void read_world();
  void close_groups();
  void finalize();
  void serve();

  std::mutex calls_;
  std::mutex start_;
  bool started_ = false;
  bool ours_ = false;
  int rank_ = 0;
  int size_ = 1;

  std::mutex mutex_;
  std::condition_variable wake_;
  bool serving_ = false;
  bool may_finalize_ = true;
  std::chrono::milliseconds longest_timeout_{0};
  std::deque<std::packaged_task<void()>> waiting_calls_;
  std::uint64_t next_id_ = 0;
  std::map<std::uint64_t, std::function<void()>> closers_;
};

}  // namespace accelerate::mpi
