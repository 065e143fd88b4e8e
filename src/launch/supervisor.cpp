// SPDX-License-Identifier: Apache-2.0
#include "launch/supervisor.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <set>

#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/progress_file.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "launch/control_plane.h"
#include "launch/guardian.h"
#include "launch/oom_kill.h"
#include "launch/output.h"
#include "launch/signal_queue.h"
#include "launch/signals.h"
#include "launch/status_text.h"

namespace accelerate {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

struct Worker {
  const WorkerCommand* command = nullptr;
  WorkerProcess process;
  std::optional<WorkerProcess::ExitStatus> exit;
  double exit_seconds = 0;
  double exit_epoch = 0;         // Seconds since 1970, to compare with reports.
  bool was_stopped = false;      // Exited after the launcher sent SIGTERM.
  bool was_interrupted = false;  // Exited after the launcher was interrupted.
};

double now_epoch() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<double>(now.tv_sec) +
         static_cast<double>(now.tv_nsec) * 1e-9;
}

// One generation of this machine's workers, from their start until all have
// exited.
class Workers {
 public:
  Workers(
      const std::vector<WorkerCommand>& commands,
      const SupervisorOptions& options,
      const SupervisorContext& context)
      : commands_(commands),
        options_(options),
        control_(context.control_plane),
        guardian_(context.guardian),
        output_(context.output),
        signals_(context.signals),
        start_(Clock::now()) {
    epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
    watch(signals_.fd(), kSignalEvent);
    watch(control_.events().fd(), kMachineEvent);
  }

  void run() {
    start_workers();
    while (running_ > 0) {
      wait_and_handle();
      kill_when_due();
    }
    wait_for_others();
    stop_leftover_processes();
    output_.drain();
  }

  RunResult result() {
    RunResult result;
    result.was_interrupted = interrupt_ != 0;
    choose_first_failure();
    if (remote_failure_) {
      result.failure = remote_failure_;
    } else if (first_failure_) {
      result.failure = describe(*first_failure_);
    } else if (first_preempted_) {
      result.failure = describe(*first_preempted_);
    }
    result.exit_code = result.failure ? result.failure->code() : 0;
    const bool is_shown = result.failure && !result.failure->is_preemption() &&
                          !result.failure->is_plain_interrupt();
    print_other_errors(is_shown ? result.failure->exception : "");
    return result;
  }

 private:
  static constexpr std::uint64_t kSignalEvent = UINT64_MAX;
  static constexpr std::uint64_t kMachineEvent = UINT64_MAX - 1;

  bool has_other_machines() const { return options_.shape.num_machines > 1; }

  double elapsed() const { return Seconds(Clock::now() - start_).count(); }

  void watch(int fd, std::uint64_t id) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = id;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
      throw IoError(
          str_cat("cannot add a descriptor to epoll: ", errno_text(errno)));
    }
  }

  void start_workers() {
    const bool single_worker = commands_.size() == 1;
    const bool has_terminal = ::isatty(STDIN_FILENO) == 1;
    for (const WorkerCommand& command : commands_) {
      WorkerStreams streams;
      streams.out_is_terminal = ::isatty(STDOUT_FILENO) == 1;
      streams.err_is_terminal = ::isatty(STDERR_FILENO) == 1;
      streams.shares_group = single_worker && has_terminal;
      // A background process group cannot read the terminal; the first worker
      // gets piped input.
      streams.reads_our_input =
          command.local_rank == 0 && (single_worker || !has_terminal);
      start_one(command, streams);
    }
  }

  void start_one(const WorkerCommand& command, const WorkerStreams& streams) {
    try {
      Worker worker;
      worker.command = &command;
      worker.process = start_worker(command, streams);
      if (worker.process.has_own_group) {
        guardian_.add_group(worker.process.pid);
      }
      output_.add(
          command.rank,
          std::move(worker.process.out),
          std::move(worker.process.err));
      watch(worker.process.handle.get(), workers_.size());
      workers_.push_back(std::move(worker));
      ++running_;
    } catch (...) {
      kill_all();
      reap_all();
      throw;
    }
  }

  void kill_all() {
    for (const Worker& worker : workers_) {
      worker.process.send(SIGKILL);
    }
  }

  void reap_all() {
    for (const Worker& worker : workers_) {
      worker.process.reap();
      if (worker.process.has_own_group) {
        guardian_.remove_group(worker.process.pid);
      }
    }
  }

  int wait_milliseconds() const {
    Seconds wait = options_.monitor_interval;
    for (const auto& due : {kill_at_, grace_end_}) {
      if (due) {
        wait = std::min(wait, Seconds(*due - Clock::now()));
      }
    }
    if (has_other_machines()) {
      wait = std::min(wait, Seconds(1));
    }
    return std::max(1, static_cast<int>(wait.count() * 1000));
  }

  // epoll lists descriptors in the order in which they became ready, so the
  // first one is the worker that exited first.
  void wait_and_handle() {
    control_.tick();
    epoll_event events[64];
    const int ready =
        ::epoll_wait(epoll_.get(), events, 64, wait_milliseconds());
    for (int i = 0; i < ready; ++i) {
      const std::uint64_t id = events[i].data.u64;
      if (id == kSignalEvent) {
        handle_signals();
      } else if (id == kMachineEvent) {
        take_remote_failure();
      } else {
        handle_exit(workers_[id]);
      }
    }
  }

  void handle_exit(Worker& worker) {
    if (worker.exit) {
      return;
    }
    worker.exit = worker.process.poll();
    if (!worker.exit) {
      return;
    }
    worker.exit_seconds = elapsed();
    worker.exit_epoch = now_epoch();
    worker.was_stopped = kill_at_.has_value();
    worker.was_interrupted = interrupt_ != 0;
    ::epoll_ctl(
        epoll_.get(), EPOLL_CTL_DEL, worker.process.handle.get(), nullptr);
    --running_;
    if (worker.exit->is_preemption()) {
      begin_grace_period(worker);
    } else if (
        worker.exit->is_failure() && !first_failure_ && !remote_failure_) {
      first_failure_ = static_cast<std::size_t>(&worker - workers_.data());
      const std::string reason = str_cat(
          "rank ",
          worker.process.rank,
          " ",
          describe_exit(worker.exit->exit_code, worker.exit->signal));
      if (has_other_machines()) {
        // The pipe may still hold the last lines of the failed rank.
        output_.flush();
        control_.report_failure(describe(*first_failure_));
      }
      // After an interrupt, the other workers have got the signal as well and
      // may still be saving.
      if (!exited_on_interrupt(*worker.exit)) {
        begin_stop(reason);
      }
    }
  }

  // A preempted worker has exited. All workers exit at the same step, so one
  // that is still running after the grace period is stuck.
  void begin_grace_period(const Worker& worker) {
    if (!first_preempted_) {
      first_preempted_ = static_cast<std::size_t>(&worker - workers_.data());
    }
    if (!grace_end_) {
      grace_end_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      options_.grace_period);
    }
  }

  bool exited_on_interrupt(const WorkerProcess::ExitStatus& exit) const {
    return interrupt_ != 0 &&
           (exit.signal == interrupt_ || exit.exit_code == 128 + interrupt_);
  }

  // Machine 0 serves the store for all machines, so no machine exits before the
  // last machine is done. After a failure or an interrupt, this wait has a
  // deadline.
  void wait_for_others() {
    control_.report_done();
    const auto timeout =
        std::chrono::duration_cast<Clock::duration>(
            grace_end_ ? options_.grace_period : options_.stop_timeout) +
        std::chrono::seconds(5);
    std::optional<Clock::time_point> deadline;
    while (!control_.events().all_done()) {
      const bool is_stopping = kill_at_ || grace_end_;
      if (is_stopping && !deadline) {
        deadline = Clock::now() + timeout;
      }
      if (deadline && Clock::now() >= *deadline) {
        break;
      }
      wait_and_handle();
    }
    take_remote_failure();
  }

  void take_remote_failure() {
    if (auto failure = control_.events().take_failure()) {
      if (!remote_failure_ && !first_failure_) {
        remote_failure_ = std::move(failure);
        announce_disconnected_machine();
        begin_stop(str_cat("rank ", remote_failure_->rank, " failed"));
      }
    }
  }

  // Prints immediately, because stopping the workers can take a long time, and
  // a batch system may kill this launcher before it prints the report.
  void announce_disconnected_machine() {
    if (!remote_failure_->disconnected_machine.empty()) {
      output_.announce(str_cat(
          "warning: machine ",
          printable(remote_failure_->disconnected_machine),
          " disconnected; this launcher is stopping its own workers"));
    }
  }

  void begin_stop(const std::string& reason) {
    if (kill_at_) {
      return;
    }
    // Abort the store first: a worker must leave the collective that it is in
    // before the signal makes the worker save a checkpoint.
    control_.abort_store(reason);
    signal_running(SIGTERM);
    kill_at_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                  options_.stop_timeout);
  }

  void kill_when_due() {
    const auto now = Clock::now();
    const bool grace_over = grace_end_ && now >= *grace_end_;
    if (killed_ || !(grace_over || (kill_at_ && now >= *kill_at_))) {
      return;
    }
    killed_ = true;
    if (grace_over && running_ > 0) {
      output_.announce(str_cat(
          "warning: ",
          running_,
          " of ",
          workers_.size(),
          " workers did not exit within the grace period of ",
          options_.grace_period.count(),
          running_ == 1 ? " s and was killed" : " s and were killed"));
    }
    signal_running(SIGKILL);
  }

  void signal_running(int signal) {
    for (const Worker& worker : workers_) {
      if (!worker.exit) {
        worker.process.send(signal);
      }
    }
  }

  void handle_signals() {
    while (const auto received = signals_.take()) {
      handle_signal(*received);
    }
  }

  void handle_signal(const SignalQueue::ReceivedSignal& received) {
    switch (received.signal) {
      case SIGQUIT:
        output_.announce(status_now());
        return;
      case SIGWINCH:
        output_.resize();
        return;
      case SIGTSTP:
        signal_running(SIGTSTP);
        ::raise(SIGSTOP);
        return;
      case SIGCONT:
      case SIGUSR1:
      case SIGUSR2:
        signal_running(received.signal);
        return;
      default:
        interrupt(received);
    }
  }

  void interrupt(const SignalQueue::ReceivedSignal& received) {
    if (interrupt_ != 0) {
      // Only a second Ctrl-C kills the workers. A batch system may send the
      // other signals several times while the workers are saving.
      if (received.signal == SIGINT) {
        signal_running(SIGKILL);
      }
      return;
    }
    interrupt_ = received.signal;
    grace_end_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                    options_.grace_period);
    for (const Worker& worker : workers_) {
      // The terminal has already sent SIGINT to a worker in the launcher's
      // process group.
      const bool already_sent =
          !worker.process.has_own_group && received.from_terminal;
      if (!worker.exit && !already_sent) {
        worker.process.send(received.signal);
      }
    }
  }

  std::string status_now() const {
    std::vector<LocalWorker> workers;
    for (const Worker& worker : workers_) {
      const std::string exit =
          worker.exit
              ? describe_exit(worker.exit->exit_code, worker.exit->signal)
              : "";
      workers.push_back(
          {worker.process.rank,
           worker.process.pid,
           exit,
           exit.empty() && worker.process.is_stopped(),
           read_progress(worker.command->progress_file)});
    }
    return status_text(
        elapsed(), options_.shape.num_processes, workers, control_.status());
  }

  // A rank may report its error long before it exits, so the earliest report
  // takes precedence over the process that exited first.
  void choose_first_failure() {
    if (!first_failure_) {
      return;
    }
    double best = workers_[*first_failure_].exit_epoch;
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      if (!workers_[i].exit || !workers_[i].exit->is_failure() ||
          workers_[i].exit->is_preemption()) {
        continue;
      }
      const auto reported = reported_time(workers_[i]);
      if (reported && *reported < best) {
        best = *reported;
        first_failure_ = i;
      }
    }
  }

  std::optional<double> reported_time(const Worker& worker) const {
    const auto file = read_error_file(worker.command->error_file);
    if (file.timestamp) {
      return file.timestamp;
    }
    for (const RankStatus& status : control_.store_status()) {
      if (status.rank == static_cast<std::uint32_t>(worker.process.rank) &&
          !status.failure.empty()) {
        return now_epoch() - status.failure_age;
      }
    }
    return std::nullopt;
  }

  // Workers leave it to the launcher to print their uncaught exceptions. The
  // report shows `shown`; other errors are printed before it, each once.
  void print_other_errors(const std::string& shown) const {
    std::set<std::string> printed = {shown};
    for (const Worker& worker : workers_) {
      // Even a worker that succeeded may have an error: it may be a script that
      // ignores the failure of its program.
      const std::string text = read_error_file(worker.command->error_file).text;
      if (text.empty()) {
        continue;
      }
      output_.append_to_log(worker.process.rank, text + "\n");
      if (printed.insert(text).second) {
        const std::string prefix = str_cat("[", worker.process.rank, "] ");
        output_.announce(prefix + replace_all(text, "\n", "\n" + prefix));
      }
    }
  }

  Failure describe(std::size_t index) const {
    const Worker& worker = workers_[index];
    Failure failure;
    failure.rank = worker.process.rank;
    failure.hostname = options_.hostname;
    failure.pid = worker.process.pid;
    failure.exit_code = worker.exit->exit_code;
    failure.signal = worker.exit->signal;
    failure.seconds = worker.exit_seconds;
    failure.num_processes = options_.shape.num_processes;
    count_others(index, failure);
    failure.step = read_progress(worker.command->progress_file);
    failure.exception = read_error_file(worker.command->error_file).text;
    for (const RankStatus& status : control_.store_status()) {
      if (status.rank == static_cast<std::uint32_t>(failure.rank)) {
        failure.status = status.status;
        if (failure.exception.empty()) {
          failure.exception = status.failure;
        }
      }
    }
    const RankTail tail = output_.tail(failure.rank);
    failure.last_lines = tail.err.empty() ? tail.out : tail.err;
    if (failure.signal == SIGKILL) {
      failure.oom_kill = oom_kills_.happened();
    }
    failure.log_path = worker.command->log_pattern;
    failure.interrupt = worker.was_interrupted ? interrupt_ : 0;
    return failure;
  }

  void count_others(std::size_t index, Failure& failure) const {
    const auto local = static_cast<std::int64_t>(workers_.size());
    // Ranks on other machines are stopped because of this failure.
    failure.others_stopped = options_.shape.num_processes - local;
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      const Worker& other = workers_[i];
      if (i == index) {
        continue;
      }
      if (other.was_stopped || !other.exit) {
        ++failure.others_stopped;
      } else if (other.exit->is_failure() && !other.exit->is_preemption()) {
        ++failure.others_failed;
      } else if (
          other.exit->code() == 0 &&
          other.exit_seconds <= workers_[index].exit_seconds) {
        failure.early_exits.push_back({other.process.rank, other.exit_seconds});
      }
    }
  }

  // Returns false if the process group is empty.
  static bool reap_group(pid_t group) {
    while (::waitpid(-group, nullptr, WNOHANG) > 0) {
    }
    return ::kill(-group, 0) == 0;
  }

  // Processes that the workers forked may still be running.
  void stop_leftover_processes() {
    for (const Worker& worker : workers_) {
      if (worker.process.has_own_group) {
        worker.process.send(SIGTERM);
      }
    }
    reap_all();
    const auto deadline =
        Clock::now() +
        std::chrono::duration_cast<Clock::duration>(options_.stop_timeout);
    for (const Worker& worker : workers_) {
      if (!worker.process.has_own_group) {
        continue;
      }
      // As the subreaper, the launcher must wait for these processes.
      while (reap_group(worker.process.pid)) {
        if (Clock::now() >= deadline) {
          worker.process.send(SIGKILL);
          break;
        }
        ::usleep(5000);
      }
    }
  }

  const std::vector<WorkerCommand>& commands_;
  const SupervisorOptions& options_;
  ControlPlane& control_;
  Guardian& guardian_;
  Output& output_;
  SignalQueue& signals_;
  Clock::time_point start_;
  OomKillMonitor oom_kills_;
  UniqueFd epoll_;
  std::vector<Worker> workers_;
  std::size_t running_ = 0;
  std::optional<std::size_t> first_failure_;
  std::optional<std::size_t> first_preempted_;
  std::optional<Failure> remote_failure_;
  std::optional<Clock::time_point> kill_at_;  // Set by a failure.
  // Set by an interrupt, or by the first preempted worker that exits.
  std::optional<Clock::time_point> grace_end_;
  bool killed_ = false;
  int interrupt_ = 0;
};

}  // namespace

RunResult supervise(
    const std::vector<WorkerCommand>& commands,
    const SupervisorOptions& options,
    const SupervisorContext& context) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  Workers workers(commands, options, context);
  workers.run();
  return workers.result();
}

}  // namespace accelerate
