// SPDX-License-Identifier: Apache-2.0
#include "jupyter/interpreter_process.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iostream>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/str_cat.h"
#include "jupyter/prelude.h"

namespace accelerate::jupyter {
namespace {

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw IoError(str_cat("cannot create a pipe: ", errno_text(errno)));
  }
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// Moves `fds` to the descriptors 1, 2, 3 and 4 of the child. Copies the
// descriptors to high numbers first, so that no descriptor is overwritten.
void move_descriptors(std::array<int, 4> fds) {
  for (int& fd : fds) {
    fd = ::fcntl(fd, F_DUPFD_CLOEXEC, 16);
  }
  for (int i = 0; i < 4; ++i) {
    ::dup2(fds[static_cast<std::size_t>(i)], i + 1);
  }
}

[[noreturn]] void run_child(const InterpreterSetup& setup, pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) {
    ::_exit(1);
  }
  // The Jupyter kernel ignores SIGPIPE, but programs that a notebook starts
  // must not ignore it.
  std::signal(SIGPIPE, SIG_DFL);
  ::execl(
      setup.kernel.c_str(),
      setup.kernel.c_str(),
      "--interpret",
      setup.plain ? "--plain" : nullptr,
      nullptr);
  std::perror(setup.kernel.c_str());
  ::_exit(127);
}

}  // namespace

InterpreterProcess::InterpreterProcess(const InterpreterSetup& setup) {
  Pipe requests = make_pipe();
  Pipe replies = make_pipe();
  Pipe output = make_pipe();
  Pipe errors = make_pipe();
  const pid_t parent = ::getpid();
  process_ = ::fork();
  if (process_ < 0) {
    throw IoError(str_cat("cannot start the interpreter: ", errno_text(errno)));
  }
  if (process_ == 0) {
    move_descriptors(
        {output.write.get(),
         errors.write.get(),
         requests.read.get(),
         replies.write.get()});
    run_child(setup, parent);
  }
  ::setpgid(process_, process_);
  requests_ = std::move(requests.write);
  replies_ = std::move(replies.read);
  output_ = std::move(output.read);
  errors_ = std::move(errors.read);
  ::fcntl(output_.get(), F_SETFL, O_NONBLOCK);
  ::fcntl(errors_.get(), F_SETFL, O_NONBLOCK);
  send("setup", setup_text(setup));
  send("prelude", prelude_code());
  pending_setup_replies_ = 2;
}

InterpreterProcess::~InterpreterProcess() {
  kill();
  (void)describe_exit();
}

void InterpreterProcess::send(
    const std::string& kind, const std::string& text) {
  // If the interpreter has died, `read_reply` reports it.
  write_bytes(requests_.get(), packet_bytes(kind, text));
}

void InterpreterProcess::run(const std::string& code) {
  send("cell", code);
}

std::optional<Packet> InterpreterProcess::read_reply() {
  auto packet = read_packet(replies_.get());
  if (packet && pending_setup_replies_ > 0 && packet->kind != "ok") {
    std::cerr << packet->text;
  }
  if (packet && pending_setup_replies_ > 0 && --pending_setup_replies_ >= 0) {
    return Packet{"started", ""};
  }
  return packet;
}

void InterpreterProcess::interrupt() {
  if (process_ > 0) {
    ::kill(process_, SIGINT);
  }
}

void InterpreterProcess::kill() {
  if (process_ > 0) {
    ::kill(-process_, SIGKILL);
  }
}

std::string InterpreterProcess::describe_exit() {
  if (process_ <= 0) {
    return "exited";
  }
  int status = 0;
  while (::waitpid(process_, &status, 0) < 0 && errno == EINTR) {
  }
  // Also kills the processes that the interpreter started, which would
  // otherwise keep running.
  ::kill(-process_, SIGKILL);
  process_ = 0;
  if (WIFSIGNALED(status)) {
    return str_cat(
        "killed by signal ",
        WTERMSIG(status),
        " (",
        ::sigabbrev_np(WTERMSIG(status)),
        ")");
  }
  return str_cat("exit code ", WEXITSTATUS(status));
}

}  // namespace accelerate::jupyter
