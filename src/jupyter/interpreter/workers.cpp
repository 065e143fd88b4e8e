// SPDX-License-Identifier: Apache-2.0
#include "jupyter/interpreter/workers.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/notebook_launch.h"
#include "jupyter/interpreter/interrupt.h"
#include "jupyter/interpreter/pseudo_terminal.h"
#include "jupyter/interpreter_protocol.h"

namespace accelerate::jupyter {
namespace {

// Writes the requests for a worker to an unnamed file.
int requests_for_workers() {
  const Notebook& book = notebook();
  std::string bytes;
  for (const std::string& cell : book.cells) {
    bytes += packet_bytes("replay", cell);
  }
  bytes +=
      packet_bytes("target " + std::to_string(book.launches - 1), book.current);
  // The file stays open across exec, because the workers open it through /proc.
  const int file = ::memfd_create("cells", 0);
  return file >= 0 && write_bytes(file, bytes) ? file : -1;
}

std::vector<std::string> launch_arguments(
    const NotebookLaunch& launch, int requests) {
  std::vector<std::string> arguments = {
      notebook().accelerate,
      "launch",
      "--num_processes",
      std::to_string(launch.num_processes),
      "--mixed_precision",
      launch.mixed_precision,
      // Workers must have exited 5 s after the end of their notebook.
      "--stop_timeout",
      "3",
      "--grace_period",
      "3"};
  if (launch.cpu != 0) {
    arguments.emplace_back("--cpu");
  }
  arguments.push_back(notebook().kernel);
  arguments.emplace_back("--worker");
  arguments.push_back(
      "/proc/" + std::to_string(::getpid()) + "/fd/" +
      std::to_string(requests));
  return arguments;
}

[[noreturn]] void exec_launcher(
    std::vector<std::string> arguments, pid_t parent, int stderr_fd) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) {
    ::_exit(1);
  }
  ::dup2(stderr_fd, STDERR_FILENO);
  ::setenv("NO_COLOR", "1", 1);
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGALRM, SIG_DFL);
  std::vector<char*> argv;
  for (std::string& argument : arguments) {
    argv.push_back(argument.data());
  }
  argv.push_back(nullptr);
  ::execv(argv[0], argv.data());
  std::perror(argv[0]);
  ::_exit(127);
}

std::int32_t start_workers(const NotebookLaunch& launch) {
  const int requests = requests_for_workers();
  if (requests < 0) {
    std::perror("cannot pass the cells to the workers");
    return 1;
  }
  std::cout << std::flush;
  std::fflush(nullptr);
  auto arguments = launch_arguments(launch, requests);
  PseudoTerminal terminal;
  const pid_t parent = ::getpid();
  const pid_t process = ::fork();
  if (process == 0) {
    exec_launcher(std::move(arguments), parent, terminal.child_fd());
  }
  if (process < 0) {
    std::perror("cannot start the workers");
    ::close(requests);
    return 1;
  }
  send_interrupts_to(process);
  const int status = terminal.forward_until_exit(process);
  send_interrupts_to(0);
  ::close(requests);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

Notebook& notebook() {
  static Notebook book;
  return book;
}

void mute_stdout(bool muted) {
  static const int saved_stdout = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 64);
  std::cout << std::flush;
  std::fflush(nullptr);
  if (!muted) {
    ::dup2(saved_stdout, STDOUT_FILENO);
    return;
  }
  const int null_device = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  ::dup2(null_device, STDOUT_FILENO);
  ::close(null_device);
}

}  // namespace accelerate::jupyter

// Called by libaccelerate's `notebook_launcher`, which finds it by this name.
extern "C" __attribute__((visibility("default"))) std::int32_t
accelerate_notebook_launch(const accelerate::NotebookLaunch* launch) {
  using accelerate::jupyter::notebook;
  const int call = notebook().launches++;
  if (!notebook().is_worker) {
    return accelerate::jupyter::start_workers(*launch);
  }
  if (call != notebook().target) {
    return accelerate::kNotebookRepeated;
  }
  accelerate::jupyter::mute_stdout(false);
  return accelerate::kNotebookWorker;
}
