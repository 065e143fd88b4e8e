// SPDX-License-Identifier: Apache-2.0
#include "waiting.h"

#include <csignal>

#include <sys/syscall.h>
#include <unistd.h>

#include "accelerate/interrupt.h"

namespace accelerate::python {
namespace {

// Of the main thread only: Python handles signals there.
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
  // Who ignores SIGINT, or lets it end the process, keeps that.
  struct sigaction now = {};
  if (::sigaction(SIGINT, nullptr, &now) != 0 ||
      (now.sa_flags & SA_SIGINFO) != 0 || !is_function(now.sa_handler)) {
    return;
  }
  previous = now;
  now.sa_handler = on_interrupt;
  installed_ = ::sigaction(SIGINT, &now, nullptr) == 0;
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
