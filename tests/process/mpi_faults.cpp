// SPDX-License-Identifier: Apache-2.0
// One rank of a run with a fault, which the first argument selects. Each line
// of output starts with the rank; mpi_test.cpp reads the lines.
#include <algorithm>
#include <csignal>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>

#include <mpi.h>

#include "accelerate/error.h"
#include "mpi_support.h"

namespace accelerate {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Longer than any test, because faults must be detected before a timeout.
constexpr seconds kLongTimeout{120};

void print_line(const std::string& text) {
  std::ostringstream line;
  line << world_rank() << ": " << text << "\n";
  std::cout << line.str() << std::flush;
}

/// Calls `call` and prints its exception. Returns false if there is no
/// exception.
bool report(const std::function<void()>& call) {
  try {
    call();
    print_line("no error");
    return false;
  } catch (const ConfigError& error) {
    print_line(std::string("ConfigError: ") + error.what());
  } catch (const UnsupportedError& error) {
    print_line(std::string("UnsupportedError: ") + error.what());
  } catch (const StateError& error) {
    print_line(std::string("StateError: ") + error.what());
  } catch (const DistributedError& error) {
    print_line(std::string("DistributedError: ") + error.what());
  } catch (const MismatchError& error) {
    std::string text = error.what();
    std::replace(text.begin(), text.end(), '\n', '|');
    print_line("MismatchError: " + text);
  }
  return true;
}

void all_reduce(const BackendPtr& group, std::int64_t count = 4) {
  TensorList tensors = {at::ones({count})};
  group->allreduce(tensors, {})->wait();
}

// A rank does not make the call, but is alive and works in another process
// group.
int late() {
  auto healthy = new_group({}, kLongTimeout);
  auto group = new_group({}, milliseconds(300));
  all_reduce(group);
  if (world_rank() == 0) {
    report([&] { all_reduce(group); });
    report([&] { all_reduce(group); });
  }
  all_reduce(healthy);
  print_line("healthy group works");
  return 0;
}

// The ranks pass tensors of different lengths.
int mismatch() {
  auto group = new_group({}, seconds(2));
  report([&] { all_reduce(group, world_rank() == 0 ? 20000 : 30000); });
  return 0;
}

int exit_early(int status) {
  auto group = new_group({}, kLongTimeout);
  all_reduce(group);
  if (world_rank() == 1) {
    return status;
  }
  report([&] { all_reduce(group); });
  return 5;
}

int killed() {
  auto group = new_group({}, kLongTimeout);
  all_reduce(group);
  if (world_rank() == 1) {
    std::raise(SIGKILL);
  }
  all_reduce(group);
  return 0;
}

// An exception of one rank leaves `main` while its collective is pending.
int unwinding() {
  auto group = new_group({}, kLongTimeout);
  if (world_rank() == 1) {
    try {
      TensorList tensors = {at::ones({1})};
      auto inner = new_group({}, kLongTimeout);
      auto work = inner->allreduce(tensors, {});
      throw StateError("an error of the user");
    } catch (const StateError& error) {
      print_line(error.what());
      return 3;
    }
  }
  auto inner = new_group({}, kLongTimeout);
  all_reduce(group);
  return 0;
}

int wrong_world() {
  report([] {
    PluginGroupOptions options;
    options.process_index = world_rank();
    options.num_processes = world_size() + 2;
    static_cast<void>(create_plugin_transport("mpi", options));
  });
  return 0;
}

int missing_member() {
  auto world = new_group({}, kLongTimeout);
  if (world_rank() == 0) {
    report([] { new_group({0, 1}, milliseconds(300)); });
  }
  all_reduce(world);
  return 0;
}

// A program that initializes and finalizes MPI itself.
int own_mpi() {
  int level = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level);
  auto group = new_group({}, kLongTimeout);
  all_reduce(group);
  group->barrier({})->wait();
  MPI_Finalize();
  report([] { new_group(); });
  return 0;
}

int own_mpi_single() {
  MPI_Init(nullptr, nullptr);
  report([] { new_group(); });
  MPI_Finalize();
  return 0;
}

// A process group that is never destroyed, so the exit handler must close it.
int never_destroyed() {
  static BackendPtr group;
  group = new_group({}, kLongTimeout);
  auto* leaked = new BackendPtr(new_group({}, kLongTimeout));
  all_reduce(group);
  all_reduce(*leaked);
  return 0;
}

// A tensor with more bytes than an `int` can represent.
int huge() {
  constexpr std::int64_t kCount = (std::int64_t{1} << 31) + 12345;
  auto group = new_group({}, kLongTimeout);
  TensorList tensors = {at::empty({kCount}, at::kByte)};
  tensors[0].fill_(world_rank() + 7);
  tensors[0][-1].fill_(world_rank() + 9);
  group->broadcast(tensors, {})->wait();
  const bool good = tensors[0].min().item<int>() == 7 &&
                    tensors[0].max().item<int>() == 9 &&
                    tensors[0][-1].item<int>() == 9;
  print_line(good ? "the huge tensor arrived" : "wrong data");
  return 0;
}

const std::map<std::string, std::function<int()>> kFaults = {
    {"late", late},
    {"mismatch", mismatch},
    {"exit_with_0", [] { return exit_early(0); }},
    {"exit_with_3", [] { return exit_early(3); }},
    {"killed", killed},
    {"unwinding", unwinding},
    {"wrong_world", wrong_world},
    {"missing_member", missing_member},
    {"own_mpi", own_mpi},
    {"own_mpi_single", own_mpi_single},
    {"never_destroyed", never_destroyed},
    {"huge", huge},
};

}  // namespace
}  // namespace accelerate

int main(int argc, char** argv) {
  at::set_num_threads(1);
  return accelerate::kFaults.at(argc > 1 ? argv[1] : "")();
}
