// SPDX-License-Identifier: Apache-2.0
#include "launch/signal_queue.h"

#include <sys/signalfd.h>
#include <unistd.h>

namespace accelerate {

SignalQueue::SignalQueue() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal :
       {SIGINT,
        SIGTERM,
        SIGHUP,
        SIGQUIT,
        SIGUSR1,
        SIGUSR2,
        SIGTSTP,
        SIGCONT,
        SIGWINCH}) {
    ::sigaddset(&set, signal);
  }
  ::pthread_sigmask(SIG_BLOCK, &set, &before_);
  ::signal(SIGPIPE, SIG_IGN);
  fd_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

SignalQueue::~SignalQueue() {
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

std::optional<SignalQueue::ReceivedSignal> SignalQueue::take() {
  signalfd_siginfo info{};
  const ssize_t got = ::read(fd_.get(), &info, sizeof(info));
  if (got != sizeof(info)) {
    return std::nullopt;
  }
  return ReceivedSignal{
      static_cast<int>(info.ssi_signo), info.ssi_code == SI_KERNEL};
}

}  // namespace accelerate
