// SPDX-License-Identifier: Apache-2.0
// MPI itself, as one process sees it: started once, ended once.
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

/// Throws `DistributedError` with MPI's own text unless `code` is success.
void check(int code, const char* call);

/// Starts MPI on first use and ends it when the process exits.
///
/// NOTE [One lock]: every MPI call of this library is short (nothing in it
/// waits for a peer, except what `run` does) and holds `lock()`. That is all
/// MPI_THREAD_SERIALIZED asks for. MPI_THREAD_MULTIPLE is requested all the
/// same, so that a program may use MPI beside us.
///
/// NOTE [Calls that wait]: MPI_Init, the creation of communicators and
/// MPI_Finalize wait for other processes and cannot be interrupted. They run
/// on a thread of their own, the one that MPI knows as its main thread, and
/// whoever asked for them stops waiting when its time is over.
///
/// NOTE [The end]: MPI_Finalize waits for all processes, so it must not run
/// when another process may be stuck in a collective with this one. It runs
/// at exit, if MPI was started here, no group has failed, and the exit status
/// is 0. In every other case the process ends without it, which makes mpirun
/// end the rest of the job.
///
/// Thread-safe. Never destroyed.
class Runtime {
 public:
  /// Returns the runtime of this process, with MPI started.
  ///
  /// Collective over all processes of the job the first time. Throws
  /// `DistributedError` when that takes longer than `timeout`,
  /// `UnsupportedError` when MPI cannot be called from several threads,
  /// `StateError` after MPI_Finalize.
  static Runtime& start(std::chrono::milliseconds timeout);

  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  [[nodiscard]] std::unique_lock<std::mutex> lock() {
    return std::unique_lock(calls_);
  }
  int rank() const { return rank_; }
  int size() const { return size_; }
  int largest_tag() const { return largest_tag_; }

  /// Runs a call that waits for other processes. Throws what it throws, or
  /// `DistributedError` when it has not returned after `timeout`.
  void run(
      std::function<void()> call,
      std::chrono::milliseconds timeout,
      const std::string& what);

  /// From here on MPI_Finalize would hang.
  void give_up_finalize();
  /// Whether MPI calls are (still) allowed.
  bool alive();

  /// `close` runs before MPI_Finalize, unless it was forgotten before.
  std::uint64_t before_finalize(std::function<void()> close);
  void forget(std::uint64_t id);

 private:
  Runtime() = default;
  ~Runtime() = default;

  static Runtime& instance();
  static void at_exit(int status, void* runtime);
  void start_once(std::chrono::milliseconds timeout);
  void initialise();
  void read_world();
  void close_groups();
  void finalise();
  void serve();

  std::mutex calls_;
  std::mutex start_;
  bool started_ = false;
  bool ours_ = false;
  int rank_ = 0;
  int size_ = 1;
  int largest_tag_ = 32767;

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
