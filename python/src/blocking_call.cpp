// SPDX-License-Identifier: Apache-2.0
#include "blocking_call.h"

#include <csignal>

#include <sys/syscall.h>
#include <unistd.h>

#include "accelerate/interrupt.h"

namespace accelerate::python {
namespace {

// Used only in the main thread, in which Python handles signals.
int depth = 0;
struct sigaction previous;

bool is_main_thread() {
  return ::getpid() == static_cast<pid_t>(::syscall(SYS_gettid));
}

extern "C" void on_interrupt(int number) {
  interrupt_waits();
  previous.sa_handler(number);
}

bool is_function(void (*handler)(int)) {
  return handler != SIG_DFL && handler != SIG_IGN && handler != nullptr;
}

}  // namespace

InterruptibleScope::InterruptibleScope() {
  if (!is_main_thread() || ++depth > 1) {
    return;
  }
  // If SIGINT is ignored or terminates the process, leave it that way.
  struct sigaction current = {};
  if (::sigaction(SIGINT, nullptr, &current) != 0 ||
      (current.sa_flags & SA_SIGINFO) != 0 ||
      !is_function(current.sa_handler)) {
    return;
  }
  previous = current;
  current.sa_handler = on_interrupt;
  installed_ = ::sigaction(SIGINT, &current, nullptr) == 0;
}

InterruptibleScope::~InterruptibleScope() {
  if (!is_main_thread() || --depth > 0) {
    return;
  }
  if (installed_) {
    ::sigaction(SIGINT, &previous, nullptr);
  }
  resume_waits();
}

}  // namespace accelerate::python
