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

sigjmp_buf interrupt_target;

namespace {

// The code of one loaded library. Code outside of all libraries was generated
// by the interpreter.
struct CodeRange {
  std::uintptr_t begin;
  std::uintptr_t end;
  bool is_libc;
};
constexpr std::size_t kMaxRanges = 1024;
std::array<CodeRange, kMaxRanges> ranges;
std::size_t range_count = 0;

pthread_t cell_thread;
std::atomic<bool> running{false};
std::atomic<pid_t> forward_to{0};

int add_ranges(dl_phdr_info* info, std::size_t /*size*/, void* /*unused*/) {
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& header = info->dlpi_phdr[i];
    if (header.p_type == PT_LOAD && (header.p_flags & PF_X) != 0 &&
        range_count < kMaxRanges) {
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

// Walks up the stack from the interrupted frame. Checks whether there are only
// frames in the C library between the interrupted frame and the cell.
struct StackWalk {
  std::uintptr_t from;
  bool started = false;
  bool reaches_cell = false;
};

_Unwind_Reason_Code visit(_Unwind_Context* context, void* state) {
  auto& walk = *static_cast<StackWalk*>(state);
  const auto address = _Unwind_GetIP(context);
  walk.started = walk.started || address == walk.from;
  if (!walk.started) {
    return _URC_NO_REASON;
  }
  const CodeRange* const range = find_range(address);
  walk.reaches_cell = range == nullptr;
  return range != nullptr && range->is_libc ? _URC_NO_REASON
                                            : _URC_END_OF_STACK;
}

bool is_in_system_call_of_cell(
    const ucontext_t& context, const CodeRange& range) {
#if defined(__x86_64__)
  // In an interrupted system call, the C library holds no lock.
  if (!range.is_libc || context.uc_mcontext.gregs[REG_RAX] != -EINTR) {
    return false;
  }
  StackWalk walk{
      static_cast<std::uintptr_t>(context.uc_mcontext.gregs[REG_RIP])};
  _Unwind_Backtrace(visit, &walk);
  return walk.reaches_cell;
#else
  (void)context;
  (void)range;
  return false;
#endif
}

bool can_jump_out(const ucontext_t& context) {
#if defined(__x86_64__)
  const auto address =
      static_cast<std::uintptr_t>(context.uc_mcontext.gregs[REG_RIP]);
#elif defined(__aarch64__)
  const auto address = static_cast<std::uintptr_t>(context.uc_mcontext.pc);
#endif
  const CodeRange* const range = find_range(address);
  return range == nullptr || is_in_system_call_of_cell(context, *range);
}

// Starts or stops a timer that checks again in a millisecond.
void set_retry_timer(bool enabled) {
  itimerval time{};
  time.it_value.tv_usec = enabled ? 1000 : 0;
  ::setitimer(ITIMER_REAL, &time, nullptr);
}

void on_signal(int signal, siginfo_t* /*info*/, void* context) {
  const pid_t process = forward_to.load();
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
  if (can_jump_out(*static_cast<ucontext_t*>(context))) {
    running.store(false);
    set_retry_timer(false);
    ::siglongjmp(interrupt_target, 1);
  }
  set_retry_timer(true);
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
  set_retry_timer(false);
}

void send_interrupts_to(pid_t process) {
  forward_to.store(process);
}

}  // namespace accelerate::jupyter
