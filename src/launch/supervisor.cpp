// SPDX-License-Identifier: Apache-2.0
#include "launch/supervisor.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <ctime>

#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "launch/interruptible_meeting.h"
#include "launch/memory_kill.h"
#include "launch/signal_queue.h"
#include "launch/signals.h"
#include "launch/status_text.h"

namespace accelerate {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

struct Worker {
  WorkerProcess process;
  std::optional<WorkerProcess::End> end;
  double end_seconds = 0;
  double end_epoch = 0;          // Seconds since 1970, to compare with reports.
  bool was_stopped = false;      // Ended after we asked it to.
  bool was_interrupted = false;  // Ended after somebody interrupted us.
};

double now_epoch() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<double>(now.tv_sec) +
         static_cast<double>(now.tv_nsec) * 1e-9;
}

// One start of all workers of this machine, until all have ended.
class Generation {
 public:
  Generation(
      const SupervisorOptions& options,
      Output& output,
      SignalQueue& signals,
      std::vector<WorkerCommand> commands)
      : options_(options),
        output_(output),
        signals_(signals),
        commands_(std::move(commands)),
        start_(Clock::now()) {
    epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
    watch(signals.fd(), kSignalEvent);
    if (options.others != nullptr) {
      watch(options.others->event_fd(), kOthersEvent);
    }
  }

  void run() {
    start_workers();
    while (running_ > 0) {
      wait_and_handle();
      kill_when_due();
    }
    if (options_.others != nullptr) {
      wait_for_others();
    }
    end_left_behind();
  }

  bool was_interrupted() const { return interrupt_ != 0; }

  SupervisorResult result() {
    SupervisorResult result;
    choose_first_failure();
    if (remote_failure_) {
      result.failure = remote_failure_;
      result.exit_code = remote_failure_->code();
    } else if (first_failure_) {
      result.failure = describe(*first_failure_);
      result.exit_code = result.failure->code();
    } else if (first_left_) {
      result.failure = describe(*first_left_);
      result.exit_code = result.failure->code();
    }
    return result;
  }

 private:
  static constexpr std::uint64_t kSignalEvent = UINT64_MAX;
  static constexpr std::uint64_t kOthersEvent = UINT64_MAX - 1;

  double elapsed() const { return Seconds(Clock::now() - start_).count(); }

  void watch(int fd, std::uint64_t id) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = id;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
      throw IoError(str_cat("cannot watch a process: ", errno_text(errno)));
    }
  }

  void start_workers() {
    const bool alone = commands_.size() == 1;
    const bool has_terminal = ::isatty(STDIN_FILENO) == 1;
    for (const WorkerCommand& command : commands_) {
      WorkerStreams streams;
      streams.out_is_terminal = ::isatty(STDOUT_FILENO) == 1;
      streams.err_is_terminal = ::isatty(STDERR_FILENO) == 1;
      streams.shares_group = alone && has_terminal;
      // A background group may not read the terminal; piped input is for the
      // first worker.
      streams.reads_our_input =
          command.local_rank == 0 && (alone || !has_terminal);
      start_one(command, streams);
    }
  }

  void start_one(const WorkerCommand& command, const WorkerStreams& streams) {
    try {
      Worker worker;
      worker.process = start_worker(command, streams);
      if (worker.process.has_own_group && options_.on_group) {
        options_.on_group(worker.process.pid, true);
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
      if (worker.process.has_own_group && options_.on_group) {
        options_.on_group(worker.process.pid, false);
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
    if (options_.others != nullptr) {
      wait = std::min(wait, Seconds(1));
    }
    return std::max(1, static_cast<int>(wait.count() * 1000));
  }

  // The kernel keeps ready descriptors in the order in which they became
  // ready, so the first one listed is the first that ended.
  void wait_and_handle() {
    if (options_.others != nullptr) {
      options_.others->tick();
    }
    epoll_event events[64];
    const int ready =
        ::epoll_wait(epoll_.get(), events, 64, wait_milliseconds());
    for (int i = 0; i < ready; ++i) {
      const std::uint64_t id = events[i].data.u64;
      if (id == kSignalEvent) {
        take_signals();
      } else if (id == kOthersEvent) {
        take_remote_failure();
      } else {
        take_end(workers_[id]);
      }
    }
  }

  void take_end(Worker& worker) {
    if (worker.end) {
      return;
    }
    worker.end = worker.process.poll();
    if (!worker.end) {
      return;
    }
    worker.end_seconds = elapsed();
    worker.end_epoch = now_epoch();
    worker.was_stopped = kill_at_.has_value();
    worker.was_interrupted = interrupt_ != 0;
    ::epoll_ctl(
        epoll_.get(), EPOLL_CTL_DEL, worker.process.handle.get(), nullptr);
    --running_;
    if (worker.end->is_preemption()) {
      let_others_leave(worker);
    } else if (
        worker.end->is_failure() && !first_failure_ && !remote_failure_) {
      first_failure_ = static_cast<std::size_t>(&worker - workers_.data());
      const std::string reason = str_cat(
          "rank ",
          worker.process.rank,
          " ",
          describe_exit(worker.end->exit_code, worker.end->signal));
      if (options_.others != nullptr) {
        output_settle();
        options_.others->report_failure(describe(*first_failure_));
      }
      // The others were told already, and may still be saving.
      if (!ended_as_told(*worker.end)) {
        begin_stop(reason);
      }
    }
  }

  // All processes leave at the same step: who has not done so when the time is
  // over will not. A failure among them says more than this.
  void let_others_leave(const Worker& worker) {
    if (!first_left_) {
      first_left_ = static_cast<std::size_t>(&worker - workers_.data());
    }
    if (!grace_end_) {
      grace_end_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      options_.grace_period);
    }
  }

  bool ended_as_told(const WorkerProcess::End& end) const {
    return interrupt_ != 0 &&
           (end.signal == interrupt_ || end.exit_code == 128 + interrupt_);
  }

  // Machine 0 holds the store for all, so nobody leaves before the last. After
  // a failure or an interrupt that takes as long as stopping does.
  void wait_for_others() {
    options_.others->report_done();
    const auto limit =
        std::chrono::duration_cast<Clock::duration>(
            grace_end_ ? options_.grace_period : options_.stop_timeout) +
        std::chrono::seconds(5);
    std::optional<Clock::time_point> deadline;
    while (!options_.others->all_done()) {
      const bool ending = kill_at_ || grace_end_;
      if (ending && !deadline) {
        deadline = Clock::now() + limit;
      }
      if (deadline && Clock::now() >= *deadline) {
        break;
      }
      wait_and_handle();
    }
    take_remote_failure();
  }

  // The failed rank's last words may still be in its pipe when its end is
  // known; what it reported over the network must have them.
  void output_settle() { output_.flush(); }

  void take_remote_failure() {
    if (auto failure = options_.others->take_failure()) {
      if (!remote_failure_ && !first_failure_) {
        remote_failure_ = std::move(failure);
        begin_stop(str_cat("rank ", remote_failure_->rank, " failed"));
      }
    }
  }

  void begin_stop(const std::string& reason) {
    if (kill_at_) {
      return;
    }
    // The store first: a worker inside a collective leaves it before the
    // signal can make it start a checkpoint there.
    if (options_.abort_store) {
      options_.abort_store(reason);
    }
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
          " workers did not end within the grace period of ",
          options_.grace_period.count(),
          " s and were killed"));
    }
    signal_running(SIGKILL);
  }

  void signal_running(int signal) {
    for (const Worker& worker : workers_) {
      if (!worker.end) {
        worker.process.send(signal);
      }
    }
  }

  void take_signals() {
    while (const auto arrival = signals_.take()) {
      take_signal(*arrival);
    }
  }

  void take_signal(const SignalQueue::Arrival& arrival) {
    switch (arrival.signal) {
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
        signal_running(arrival.signal);
        return;
      default:
        interrupt(arrival);
    }
  }

  void interrupt(const SignalQueue::Arrival& arrival) {
    if (interrupt_ != 0) {
      signal_running(SIGKILL);
      return;
    }
    interrupt_ = arrival.signal;
    grace_end_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                    options_.grace_period);
    for (const Worker& worker : workers_) {
      // The terminal already sent Ctrl-C to a worker in our own group.
      const bool has_it =
          !worker.process.has_own_group && arrival.from_terminal;
      if (!worker.end && !has_it) {
        worker.process.send(arrival.signal);
      }
    }
  }

  std::string status_now() const {
    std::vector<LocalWorker> workers;
    for (const Worker& worker : workers_) {
      const std::string end =
          worker.end ? describe_exit(worker.end->exit_code, worker.end->signal)
                     : "";
      const auto rank = worker.process.rank;
      workers.push_back({rank, worker.process.pid, end, options_.step(rank)});
    }
    return status_text(
        elapsed(), options_.num_processes, workers, all_statuses());
  }

  // What the other machines say comes first: they know their ranks' steps.
  std::vector<RankStatus> all_statuses() const {
    std::vector<RankStatus> all;
    if (options_.others != nullptr) {
      all = options_.others->status();
    }
    const auto known = statuses();
    all.insert(all.end(), known.begin(), known.end());
    return all;
  }

  // A rank may know what kills it long before it is dead: the report with the
  // smallest time wins over the process that happened to end first.
  void choose_first_failure() {
    if (!first_failure_) {
      return;
    }
    double best = workers_[*first_failure_].end_epoch;
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      if (!workers_[i].end || !workers_[i].end->is_failure() ||
          workers_[i].end->is_preemption()) {
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
    const auto file = read_error_file(options_.error_file(worker.process.rank));
    if (file.timestamp) {
      return file.timestamp;
    }
    for (const RankStatus& status : statuses()) {
      if (status.rank == static_cast<std::uint32_t>(worker.process.rank) &&
          !status.failure.empty()) {
        return now_epoch() - status.failure_age;
      }
    }
    return std::nullopt;
  }

  std::vector<RankStatus> statuses() const {
    return options_.store_status ? options_.store_status()
                                 : std::vector<RankStatus>();
  }

  Failure describe(std::size_t index) const {
    const Worker& worker = workers_[index];
    Failure failure;
    failure.rank = worker.process.rank;
    failure.host = options_.host;
    failure.pid = worker.process.pid;
    failure.exit_code = worker.end->exit_code;
    failure.signal = worker.end->signal;
    failure.seconds = worker.end_seconds;
    failure.num_processes = options_.num_processes;
    count_others(index, failure);
    failure.step = options_.step(failure.rank);
    failure.exception = read_error_file(options_.error_file(failure.rank)).text;
    for (const RankStatus& status : statuses()) {
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
      failure.memory_kill = memory_.happened();
    }
    failure.log_path = options_.log_path(failure.rank);
    failure.interrupt = worker.was_interrupted ? interrupt_ : 0;
    return failure;
  }

  void count_others(std::size_t index, Failure& failure) const {
    const auto local = static_cast<std::int64_t>(workers_.size());
    // Ranks elsewhere are stopped because of this one.
    failure.others_stopped = options_.num_processes - local;
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      const Worker& other = workers_[i];
      if (i == index) {
        continue;
      }
      if (other.was_stopped || !other.end) {
        ++failure.others_stopped;
      } else if (other.end->is_failure() && !other.end->is_preemption()) {
        ++failure.others_failed;
      }
    }
  }

  // False: nobody of the group is left.
  static bool reap_group(pid_t group) {
    while (::waitpid(-group, nullptr, WNOHANG) > 0) {
    }
    return ::kill(-group, 0) == 0;
  }

  // Workers are gone; what they forked may not be.
  void end_left_behind() {
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
      // What they left is ours to wait for: we are its nearest reaper.
      while (reap_group(worker.process.pid)) {
        if (Clock::now() >= deadline) {
          worker.process.send(SIGKILL);
          break;
        }
        ::usleep(5000);
      }
    }
  }

  const SupervisorOptions& options_;
  Output& output_;
  SignalQueue& signals_;
  std::vector<WorkerCommand> commands_;
  Clock::time_point start_;
  MemoryKillWatch memory_;
  UniqueFd epoll_;
  std::vector<Worker> workers_;
  std::size_t running_ = 0;
  std::optional<std::size_t> first_failure_;
  std::optional<std::size_t> first_left_;  // After a checkpoint.
  std::optional<Failure> remote_failure_;
  std::optional<Clock::time_point> kill_at_;  // After a failure.
  // After an interrupt, or when the first has left.
  std::optional<Clock::time_point> grace_end_;
  bool killed_ = false;
  int interrupt_ = 0;
};

}  // namespace

SupervisorResult supervise(
    const SupervisorOptions& options, Output& output, SignalQueue& signals) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  for (std::int64_t restart = 0;; ++restart) {
    if (options.start_store_generation) {
      options.start_store_generation(restart);
    }
    InterruptibleMeeting meeting(options, output, signals);
    auto commands = options.others == nullptr
                        ? std::optional(options.commands(restart))
                        : meeting.run(restart);
    if (!commands) {
      return {128 + meeting.interrupt(), std::nullopt};
    }
    Generation generation(options, output, signals, std::move(*commands));
    generation.run();
    output.drain();
    SupervisorResult result = generation.result();
    // A machine that is lost cannot come to the next start.
    if (!result.failure || generation.was_interrupted() ||
        result.failure->is_preemption() || restart >= options.max_restarts ||
        !result.failure->lost_machine.empty()) {
      return result;
    }
    output.announce(str_cat(
        "warning: rank ",
        result.failure->rank,
        " ",
        describe_exit(result.failure->exit_code, result.failure->signal),
        "; restart ",
        restart + 1,
        " of ",
        options.max_restarts,
        ": starting all ",
        options.num_processes,
        options.num_processes == 1 ? " worker again" : " workers again"));
  }
}

}  // namespace accelerate
