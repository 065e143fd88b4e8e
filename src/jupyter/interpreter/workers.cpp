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

#include "base/notebook_host.h"
#include "jupyter/interpreter/interrupt.h"
#include "jupyter/interpreter/screen.h"
#include "jupyter/link.h"

namespace accelerate::jupyter {
namespace {

// A file without a name that holds all that a worker is told.
int requests_for_workers() {
  const Notebook& book = notebook();
  std::string bytes;
  for (const std::string& cell : book.cells) {
    bytes += packet_bytes("replay", cell);
  }
  bytes +=
      packet_bytes("target " + std::to_string(book.launches - 1), book.current);
  // Not closed by exec: the workers open it through /proc.
  const int file = ::memfd_create("cells", 0);
  return file >= 0 && write_bytes(file, bytes) ? file : -1;
}

std::vector<std::string> launch_words(
    const NotebookLaunch& launch, int requests) {
  std::vector<std::string> words = {
      notebook().accelerate,
      "launch",
      "--num_processes",
      std::to_string(launch.num_processes),
      "--mixed_precision",
      launch.mixed_precision,
      // A notebook's workers end within 5 s of it, whatever they do.
      "--stop_timeout",
      "3",
      "--grace_period",
      "3"};
  if (launch.cpu != 0) {
    words.emplace_back("--cpu");
  }
  words.push_back(notebook().kernel);
  words.emplace_back("--worker");
  words.push_back(
      "/proc/" + std::to_string(::getpid()) + "/fd/" +
      std::to_string(requests));
  return words;
}

[[noreturn]] void become(
    std::vector<std::string> words, pid_t parent, int errors) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) {
    ::_exit(1);
  }
  ::dup2(errors, STDERR_FILENO);
  ::setenv("NO_COLOR", "1", 1);
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGALRM, SIG_DFL);
  std::vector<char*> pointers;
  for (std::string& word : words) {
    pointers.push_back(word.data());
  }
  pointers.push_back(nullptr);
  ::execv(pointers[0], pointers.data());
  std::perror(pointers[0]);
  ::_exit(127);
}

std::int32_t start_workers(const NotebookLaunch& launch) {
  const int requests = requests_for_workers();
  if (requests < 0) {
    std::perror("cannot hand the cells to the workers");
    return 1;
  }
  std::cout << std::flush;
  std::fflush(nullptr);
  auto words = launch_words(launch, requests);
  Screen screen;
  const pid_t parent = ::getpid();
  const pid_t process = ::fork();
  if (process == 0) {
    become(std::move(words), parent, screen.end());
  }
  if (process < 0) {
    std::perror("cannot start the workers");
    ::close(requests);
    return 1;
  }
  send_interrupts_to(process);
  const int status = screen.watch(process);
  send_interrupts_to(0);
  ::close(requests);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

Notebook& notebook() {
  static Notebook book;
  return book;
}

void silence(bool silent) {
  static const int kept = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 64);
  std::cout << std::flush;
  std::fflush(nullptr);
  if (!silent) {
    ::dup2(kept, STDOUT_FILENO);
    return;
  }
  const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  ::dup2(nowhere, STDOUT_FILENO);
  ::close(nowhere);
}

}  // namespace accelerate::jupyter

// Called by libaccelerate's `notebook_launcher`, which finds it by this name.
extern "C" __attribute__((visibility("default"))) std::int32_t
accelerate_notebook_host(const accelerate::NotebookLaunch* launch) {
  using accelerate::jupyter::notebook;
  const int call = notebook().launches++;
  if (!notebook().is_worker) {
    return accelerate::jupyter::start_workers(*launch);
  }
  if (call != notebook().target) {
    return accelerate::kNotebookRepeated;
  }
  accelerate::jupyter::silence(false);
  return accelerate::kNotebookWorker;
}
