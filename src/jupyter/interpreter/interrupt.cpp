// SPDX-License-Identifier: Apache-2.0
#include "jupyter/interpreter/interrupt.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>

#include <pthread.h>
#include <sys/time.h>

#include <link.h>
#include <ucontext.h>
#include <unwind.h>

namespace accelerate::jupyter {

sigjmp_buf interrupted_here;

namespace {

// Code of one loaded library. What lies in none of them was made by the
// interpreter.
struct CodeRange {
  std::uintptr_t begin;
  std::uintptr_t end;
  bool is_libc;
};
constexpr std::size_t kMostRanges = 1024;
std::array<CodeRange, kMostRanges> ranges;
std::size_t range_count = 0;

pthread_t cell_thread;
std::atomic<bool> running{false};
std::atomic<pid_t> other_process{0};

int add_ranges(dl_phdr_info* info, std::size_t /*size*/, void* /*unused*/) {
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& header = info->dlpi_phdr[i];
    if (header.p_type == PT_LOAD && (header.p_flags & PF_X) != 0 &&
        range_count < kMostRanges) {
      const auto begin = info->dlpi_addr + header.p_vaddr;
      ranges[range_count++] = {
          begin,
          begin + header.p_memsz,
          std::strstr(info->dlpi_name, "/libc.so") != nullptr};
    }
  }
  return 0;
}

const CodeRange* find_range(std::uintptr_t address) {
  const CodeRange* const begin = ranges.data();
  const CodeRange* const end = begin + range_count;
  const auto* const found =
      std::find_if(begin, end, [&](const CodeRange& range) {
        return address >= range.begin && address < range.end;
      });
  return found == end ? nullptr : found;
}

// Whether the frames above the interrupted one are the C library's up to one
// of the cell.
struct Walk {
  std::uintptr_t from;
  bool begun = false;
  bool reaches_cell = false;
};

_Unwind_Reason_Code visit(_Unwind_Context* context, void* state) {
  auto& walk = *static_cast<Walk*>(state);
  const auto address = _Unwind_GetIP(context);
  walk.begun = walk.begun || address == walk.from;
  if (!walk.begun) {
    return _URC_NO_REASON;
  }
  const CodeRange* const range = find_range(address);
  walk.reaches_cell = range == nullptr;
  return range != nullptr && range->is_libc ? _URC_NO_REASON
                                            : _URC_END_OF_STACK;
}

bool sleeps_for_cell(const ucontext_t& context, const CodeRange& range) {
#if defined(__x86_64__)
  // A system call that was cut short: no lock of the library is held there.
  if (!range.is_libc || context.uc_mcontext.gregs[REG_RAX] != -EINTR) {
    return false;
  }
  Walk walk{static_cast<std::uintptr_t>(context.uc_mcontext.gregs[REG_RIP])};
  _Unwind_Backtrace(visit, &walk);
  return walk.reaches_cell;
#else
  (void)context;
  (void)range;
  return false;
#endif
}

bool may_leave(const ucontext_t& context) {
#if defined(__x86_64__)
  const auto address =
      static_cast<std::uintptr_t>(context.uc_mcontext.gregs[REG_RIP]);
#elif defined(__aarch64__)
  const auto address = static_cast<std::uintptr_t>(context.uc_mcontext.pc);
#endif
  const CodeRange* const range = find_range(address);
  return range == nullptr || sleeps_for_cell(context, *range);
}

// Looks again in a millisecond.
void look_again(bool again) {
  itimerval time{};
  time.it_value.tv_usec = again ? 1000 : 0;
  ::setitimer(ITIMER_REAL, &time, nullptr);
}

void on_signal(int signal, siginfo_t* /*info*/, void* context) {
  const pid_t process = other_process.load();
  if (process != 0) {
    if (signal == SIGINT) {
      ::kill(process, SIGINT);
    }
    return;
  }
  if (!running.load()) {
    return;
  }
  if (::pthread_equal(::pthread_self(), cell_thread) == 0) {
    ::pthread_kill(cell_thread, signal);
    return;
  }
  if (may_leave(*static_cast<ucontext_t*>(context))) {
    running.store(false);
    look_again(false);
    ::siglongjmp(interrupted_here, 1);
  }
  look_again(true);
}

}  // namespace

void handle_interrupts() {
  cell_thread = ::pthread_self();
  struct sigaction action{};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGALRM, &action, nullptr);
}

Interruptible::Interruptible() {
  range_count = 0;
  ::dl_iterate_phdr(add_ranges, nullptr);
  running.store(true);
}

void Interruptible::end() {
  running.store(false);
  look_again(false);
}

void send_interrupts_to(pid_t process) {
  other_process.store(process);
}

}  // namespace accelerate::jupyter
