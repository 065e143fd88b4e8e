// SPDX-License-Identifier: Apache-2.0
#include "tracking/tracker_process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <iostream>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/socket.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace accelerate {
namespace {

using std::chrono::milliseconds;

constexpr std::int64_t kTrackerProtocol = 1;
constexpr int kSocketInChild = 3;
constexpr int kStderrInChild = 4;
constexpr std::size_t kMaxAnswer = std::size_t{1} << 20;
constexpr std::size_t kMaxShown = 200;
// How often a waiting call checks whether the child has ended. A process that
// the child started may keep the socket open.
constexpr milliseconds kCheckPeriod{200};

// The child is not a rank of the job, and does not need the job's secrets.
constexpr std::array kNotForTheChild{
    "ACCELERATE_JOB_SECRET",
    "ACCELERATE_STORE_SECRET",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT"};

std::vector<std::string> child_variables(const Environment& environment) {
  std::vector<std::string> variables;
  for (const auto& [name, value] : environment.variables()) {
    if (std::ranges::find(kNotForTheChild, name) == kNotForTheChild.end()) {
      variables.push_back(str_cat(name, "=", value));
    }
  }
  // Otherwise, Python would import modules from the current folder.
  variables.emplace_back("PYTHONSAFEPATH=1");
  return variables;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) {
    pointers.push_back(text.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

class SpawnOptions {
 public:
  /// `socket` must be greater than the descriptors that the child gets.
  explicit SpawnOptions(int socket) {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawn_file_actions_adddup2(
        &actions_, STDERR_FILENO, kStderrInChild);
    for (const int target : {kSocketInChild, STDOUT_FILENO, STDERR_FILENO}) {
      ::posix_spawn_file_actions_adddup2(&actions_, socket, target);
    }
    ::posix_spawn_file_actions_addopen(
        &actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    // A copy of a socket to another rank would hide the death of this process.
    ::posix_spawn_file_actions_addclosefrom_np(&actions_, kStderrInChild + 1);
    ::posix_spawnattr_init(&attributes_);
    ::posix_spawnattr_setflags(
        &attributes_,
        POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    ::posix_spawnattr_setpgroup(&attributes_, 0);
    sigset_t signals;
    ::sigemptyset(&signals);
    ::posix_spawnattr_setsigmask(&attributes_, &signals);
    ::sigfillset(&signals);
    ::posix_spawnattr_setsigdefault(&attributes_, &signals);
  }
  SpawnOptions(const SpawnOptions&) = delete;
  SpawnOptions& operator=(const SpawnOptions&) = delete;
  ~SpawnOptions() {
    ::posix_spawnattr_destroy(&attributes_);
    ::posix_spawn_file_actions_destroy(&actions_);
  }

  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

std::string exit_text(int status) {
  if (WIFSIGNALED(status)) {
    return str_cat(
        "was killed by signal ",
        WTERMSIG(status),
        " (",
        ::sigabbrev_np(WTERMSIG(status)),
        ")");
  }
  return str_cat("ended with exit code ", WEXITSTATUS(status));
}

std::string shown(std::string_view text) {
  return printable(text.substr(0, kMaxShown));
}

std::string last_line(const std::string& text) {
  const auto lines = split(std::string(trim(text)), '\n');
  return lines.empty() ? "" : lines.back();
}

std::optional<Json> json_object(const std::string& line) {
  try {
    Json value = Json::parse(line);
    return value.is_object() ? std::optional(std::move(value)) : std::nullopt;
  } catch (const FormatError&) {
    return std::nullopt;
  }
}

std::string no_answer_within(milliseconds time) {
  return str_cat(
      "did not answer within ",
      format_seconds(std::chrono::duration<double>(time).count()),
      " and was stopped");
}

}  // namespace

TrackerProcess::TrackerProcess(
    const std::filesystem::path& python,
    const std::string& name,
    const Environment& environment,
    milliseconds timeout)
    : command_(str_cat(
          shell_quote(python.string()),
          " -m accelerate_cpp.tracker ",
          shell_quote(name))) {
  spawn(python, name, environment);
  try {
    wait_until_ready(Clock::now() + timeout);
  } catch (...) {
    kill_and_describe();
    throw;
  }
}

TrackerProcess::~TrackerProcess() {
  kill_and_describe();
}

void TrackerProcess::spawn(
    const std::filesystem::path& python,
    const std::string& name,
    const Environment& environment) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    throw_errno("open", "a socket", errno);
  }
  socket_ = UniqueFd(ends[0]);
  const UniqueFd second(ends[1]);
  ::fcntl(socket_.get(), F_SETFL, O_NONBLOCK);
  const UniqueFd in_child(
      ::fcntl(second.get(), F_DUPFD_CLOEXEC, kStderrInChild + 1));
  std::vector<std::string> argv{
      python.string(), "-m", "accelerate_cpp.tracker", name};
  std::vector<std::string> variables = child_variables(environment);
  const SpawnOptions options(in_child.get());
  const int error = ::posix_spawn(
      &pid_,
      argv[0].c_str(),
      options.actions(),
      options.attributes(),
      pointers_to(argv).data(),
      pointers_to(variables).data());
  if (error != 0) {
    pid_ = 0;
    throw UnsupportedError(
        str_cat("cannot run ", printable(argv[0]), ": ", errno_text(error)),
        "install Python, so that `python3` on PATH runs");
  }
}

void TrackerProcess::wait_until_ready(Clock::time_point deadline) {
  std::string printed;
  for (;;) {
    std::string line;
    try {
      line = read_line(deadline);
    } catch (const IoError&) {
      refuse(printed + received_);
    }
    const auto ready = json_object(line);
    const Json* const protocol = ready ? ready->find("protocol") : nullptr;
    if (protocol != nullptr && *protocol == Json(kTrackerProtocol)) {
      std::cerr << printable_lines(printed) << std::flush;
      return;
    }
    if (protocol != nullptr) {
      throw UnsupportedError(
          str_cat(
              "`", command_, "` belongs to another version of accelerate_cpp"),
          "install the Python package of the same version as this library");
    }
    printed += line + "\n";
  }
}

void TrackerProcess::refuse(const std::string& printed) {
  const std::string reason = last_line(printed);
  throw UnsupportedError(
      str_cat(
          "cannot run this tracker: `",
          command_,
          "` ",
          failure_,
          reason.empty() ? "" : ": ",
          shown(reason)),
      "install the Python package accelerate_cpp for this Python, or add its "
      "folder to PYTHONPATH");
}

bool TrackerProcess::has_ended() {
  siginfo_t info{};
  const int options = WEXITED | WNOHANG | WNOWAIT;
  // If this process ignores SIGCHLD, a child that has ended does not exist.
  return pid_ == 0 ||
         ::waitid(P_PID, static_cast<id_t>(pid_), &info, options) != 0 ||
         info.si_pid == pid_;
}

std::string TrackerProcess::read_line(Clock::time_point deadline) {
  const auto start = Clock::now();
  std::size_t searched = 0;
  for (bool ended = false;;) {
    if (const auto end = received_.find('\n', searched);
        end != std::string::npos) {
      std::string line = received_.substr(0, end);
      received_.erase(0, end + 1);
      return line;
    }
    if (ended) {
      fail("");
    }
    searched = received_.size();
    if (searched > kMaxAnswer) {
      fail("sent more than 1 MiB without a line feed");
    }
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    if (left <= milliseconds(0)) {
      fail(
          no_answer_within(std::chrono::round<milliseconds>(deadline - start)));
    }
    // Even if the child has ended, reads what it sent until then.
    ended = has_ended();
    pollfd waiting{socket_.get(), POLLIN, 0};
    ::poll(
        &waiting,
        1,
        ended ? 0 : static_cast<int>(std::min(left, kCheckPeriod).count()));
    std::array<char, 65536> bytes{};
    const ssize_t got =
        ::recv(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got > 0) {
      received_.append(bytes.data(), static_cast<std::size_t>(got));
      ended = false;
    } else if (got == 0) {
      fail("");
    }
  }
}

std::string TrackerProcess::kill_and_describe() {
  if (pid_ == 0) {
    return "has ended";
  }
  socket_.reset();
  // The child stays a zombie until it is reaped, so its PID is not reused.
  ::kill(-pid_, SIGKILL);
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
  return exit_text(status);
}

void TrackerProcess::fail(const std::string& reason) {
  if (reason.empty()) {
    // The socket closes just before the child becomes a zombie; killing it then
    // would hide its exit code.
    const auto deadline = Clock::now() + std::chrono::seconds(1);
    while (!has_ended() && Clock::now() < deadline) {
      std::this_thread::sleep_for(milliseconds(1));
    }
  }
  const std::string end = kill_and_describe();
  failure_ = reason.empty() ? end : reason;
  throw IoError(str_cat("`", command_, "` ", failure_));
}

Json TrackerProcess::call(const Json& request, milliseconds timeout) {
  if (pid_ == 0) {
    throw IoError(str_cat("`", command_, "` ", failure_));
  }
  const auto deadline = Clock::now() + timeout;
  const std::string text = request.dump({.allow_nan = true}) + "\n";
  if (!send_all(socket_.get(), text, timeout)) {
    fail(Clock::now() < deadline ? "" : no_answer_within(timeout));
  }
  const std::string line = read_line(deadline);
  auto answer = json_object(line);
  if (!answer) {
    fail(str_cat("sent `", shown(line), "`, which is not an answer"));
  }
  return std::move(*answer);
}

void TrackerProcess::wait(milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  socket_.reset();
  while (!has_ended() && Clock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds(5));
  }
  kill_and_describe();
  failure_ = "has ended";
}

}  // namespace accelerate
