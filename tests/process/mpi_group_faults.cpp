// SPDX-License-Identifier: Apache-2.0
// One rank of a run under mpirun that uses `Group` and has a fault, which the
// first argument selects. Each line of output starts with the rank;
// mpi_group_test.cpp reads the lines.
#include <csignal>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>
#include <thread>

#include <unistd.h>

#include <ATen/ATen.h>

#include "accelerate/error.h"
#include "accelerate/partial_state.h"
#include "comm/group_call.h"

namespace accelerate {
namespace {

using std::chrono::milliseconds;

// The rank that is stopped or killed, or makes the wrong call.
constexpr int kVictim = 1;

// The timeout for cases that must not time out. On a busy machine, ranks may
// start seconds apart.
constexpr milliseconds kLongTimeout(60'000);

PartialState join(milliseconds timeout = kLongTimeout) {
  InitProcessGroupKwargs kwargs;
  kwargs.timeout = timeout;
  kwargs.warn_after = milliseconds(500);
  return PartialState({.init_process_group = kwargs});
}

// Prints the text as one line, because mpirun interleaves the lines of ranks.
void print_line(int rank, std::string text) {
  for (auto at = text.find('\n'); at != std::string::npos;
       at = text.find('\n')) {
    text.replace(at, 1, " |");
  }
  std::ostringstream line;
  line << rank << ": " << text << "\n";
  std::cout << line.str() << std::flush;
}

std::string type_of(const Error& error) {
  if (dynamic_cast<const MismatchError*>(&error) != nullptr) {
    return "MismatchError";
  }
  return dynamic_cast<const DistributedError*>(&error) != nullptr
             ? "DistributedError"
             : "another error";
}

void report(
    const Group& group,
    const std::string& name,
    const std::function<void()>& call) {
  try {
    call();
    print_line(group.rank(), name + ": ok");
  } catch (const Error& error) {
    print_line(
        group.rank(), name + ": " + type_of(error) + ": " + error.what());
  }
}

void reduce(const Group& group, std::int64_t count = 4) {
  static_cast<void>(group.reduce({at::ones({count})}));
}

int different_calls() {
  const PartialState state = join();
  const Group& group = state.group();
  report(group, "call", [&] {
    const at::Tensor tensor = at::zeros({2, 3});
    static_cast<void>(
        group.rank() == kVictim ? group.gather({tensor})
                                : group.reduce({tensor}));
  });
  report(group, "then", [&] { reduce(group); });
  return 0;
}

int different_shapes() {
  const PartialState state = join();
  const Group& group = state.group();
  report(group, "call", [&] {
    const at::Tensor rows = at::zeros({8, group.rank() == kVictim ? 96 : 128});
    static_cast<void>(group.gather({rows}));
  });
  report(group, "then", [&] { reduce(group); });
  return 0;
}

// A rank is late for an asynchronous operation.
int late() {
  const PartialState state = join();
  const Group& group = state.group();
  if (group.rank() == kVictim) {
    std::this_thread::sleep_for(milliseconds(700));
  }
  Pending pending =
      GroupCall(group, "backward").all_reduce(at::ones({4}), Reduction::sum);
  report(group, "call", [&] { pending.wait(); });
  report(group, "then", [&] { reduce(group); });
  return 0;
}

// mpirun stops a job in which a rank died. The survivors run long enough to
// print their errors, and exit together.
int survive(
    int signal, const std::function<void(const Group&)>& before_signal) {
  const PartialState state =
      join(signal == SIGSTOP ? milliseconds(5000) : kLongTimeout);
  const Group& group = state.group();
  const auto survivors = group.subgroup({0, 2});
  reduce(group);
  if (!survivors) {
    std::jthread end([signal] {
      std::this_thread::sleep_for(milliseconds(100));
      ::kill(::getpid(), signal);
    });
    before_signal(group);
    ::pause();
  }
  ::signal(SIGTERM, SIG_IGN);
  report(group, "call", [&] {
    for (;;) {
      reduce(group, 1 << 20);
    }
  });
  report(group, "then", [&] { group.barrier(); });
  survivors->barrier();
  return 5;
}

void stay_away(const Group& /*group*/) {
}

void take_part(const Group& group) {
  for (;;) {
    reduce(group, 1 << 20);
  }
}

const std::map<std::string, std::function<int()>> kFaults = {
    {"different_calls", different_calls},
    {"different_shapes", different_shapes},
    {"late", late},
    {"stopped", [] { return survive(SIGSTOP, stay_away); }},
    {"stopped_inside", [] { return survive(SIGSTOP, take_part); }},
    {"killed", [] { return survive(SIGKILL, stay_away); }},
    {"killed_inside", [] { return survive(SIGKILL, take_part); }},
};

}  // namespace
}  // namespace accelerate

int main(int argc, char** argv) {
  return accelerate::kFaults.at(argc > 1 ? argv[1] : "")();
}
