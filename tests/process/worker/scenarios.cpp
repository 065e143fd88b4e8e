// SPDX-License-Identifier: Apache-2.0
#include "process/worker/scenarios.h"

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>
#include <stdexcept>

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <ifaddrs.h>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "accelerate/error.h"
#include "accelerate/launchers.h"
#include "accelerate/logging.h"
#include "accelerate/partial_state.h"
#include "accelerate/random.h"
#include "base/str_cat.h"
#include "config/environment.h"
#include "state/rendezvous_store.h"
#include "state/topology.h"
#include "support/conformance.h"

namespace accelerate {
namespace {

// The rank that the tests kill or stop, or that makes the wrong call.
constexpr int kVictim = 1;

void print_line(const std::string& line) {
  std::cout << line + "\n" << std::flush;
}

std::string type_of(const std::exception& error) {
  if (dynamic_cast<const MismatchError*>(&error) != nullptr) {
    return "MismatchError";
  }
  if (dynamic_cast<const DistributedError*>(&error) != nullptr) {
    return "DistributedError";
  }
  if (dynamic_cast<const UnsupportedError*>(&error) != nullptr) {
    return "UnsupportedError";
  }
  if (dynamic_cast<const OutOfMemoryError*>(&error) != nullptr) {
    return "OutOfMemoryError";
  }
  return "another error";
}

// Returns the inodes of the library's memory files that this process has
// mapped.
std::set<std::string> segments() {
  std::ifstream maps("/proc/self/maps");
  std::set<std::string> inodes;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:accelerate") != std::string::npos) {
      std::istringstream fields(line);
      std::string field;
      for (int i = 0; i < 5; ++i) {
        fields >> field;
      }
      inodes.insert(field);
    }
  }
  return inodes;
}

void reduce_once(const Group& group, std::int64_t count = 4) {
  const at::Tensor input = at::full({count}, group.rank() + 1.0);
  const double sum = group.size() * (group.size() + 1) / 2.0;
  if (!group.reduce({input})[0].eq(sum).all().item<bool>()) {
    throw std::runtime_error("the sum is wrong");
  }
}

void conformance(const WorkerOptions& options) {
  Group group = join(options.group);
  for (const auto& [name, check] : conformance_checks()) {
    print_line(str_cat("check ", name));
    check(group);
  }
  if (group.size() == 2) {
    large_collectives(group);
  } else {
    large_all_reduce(group);
  }
  if (group.backend_name() != "gloo") {
    sums_in_rank_order(group);
  }
}

void mixed(const WorkerOptions& options) {
  Group group = join(options.group);
  mixed_collectives(group, std::stoi(options.argument), 20261115);
}

// The default generators of the processes have different seeds.
void random_numbers(const WorkerOptions& options) {
  const Group group = join(options.group);
  at::manual_seed(static_cast<std::uint64_t>(group.rank()) + 1);
  const at::Tensor before = at::rand({8});
  synchronize_rng_states({RngType::torch}, std::nullopt, group);
  const at::Tensor after = at::rand({8});
  print_line(str_cat("before ", before.sum().item<double>()));
  print_line(str_cat("after ", after.sum().item<double>()));
}

// The victim never calls the collective that the other ranks are in.
void absent(const WorkerOptions& options) {
  const Group group = join(options.group);
  if (group.rank() == kVictim) {
    wait_for_line();
    return;
  }
  attempt("first", [&] { reduce_once(group); });
  // All processes of a machine share this clock.
  print_line(str_cat(
      "ended at ",
      std::chrono::steady_clock::now().time_since_epoch().count()));
  attempt("second", [&] { group.barrier(); });
}

// All ranks run one collective after another and spend most of the time moving
// data.
void busy(const WorkerOptions& options) {
  const Group group = join(options.group);
  attempt("loop", [&] {
    for (int i = 0;; ++i) {
      reduce_once(group, 2 << 20);
      if (i == 3) {
        print_line("looping");
      }
    }
  });
  attempt("second", [&] { group.barrier(); });
}

// All ranks finish a collective; the test starts the next one.
void between(const WorkerOptions& options) {
  const Group group = join(options.group);
  attempt("first", [&] { reduce_once(group); });
  print_line("done");
  wait_for_line();
  attempt("second", [&] { reduce_once(group); });
  attempt("third", [&] { group.barrier(); });
}

void exits_early(const WorkerOptions& options) {
  const Group group = join(options.group);
  if (group.rank() != kVictim) {
    attempt("first", [&] { reduce_once(group); });
    attempt("second", [&] { group.barrier(); });
  }
}

void check_still_usable(const Group& group) {
  attempt("barrier", [&] { group.barrier(); });
  attempt("reduce", [&] { reduce_once(group); });
}

void different_calls(const WorkerOptions& options) {
  const Group group = join(options.group);
  const at::Tensor tensor = at::zeros({2, 3});
  attempt("call", [&] {
    static_cast<void>(
        group.rank() == kVictim ? group.gather({tensor})
                                : group.reduce({tensor}));
  });
  check_still_usable(group);
}

void different_shapes(const WorkerOptions& options) {
  const Group group = join(options.group);
  const at::Tensor tensor = at::zeros({8, group.rank() == kVictim ? 96 : 128});
  attempt("call", [&] { static_cast<void>(group.gather({tensor})); });
  check_still_usable(group);
}

void different_types(const WorkerOptions& options) {
  const Group group = join(options.group);
  const at::Tensor tensor =
      at::zeros({2}, group.rank() == kVictim ? at::kDouble : at::kFloat);
  attempt("call", [&] { static_cast<void>(group.reduce({tensor})); });
  check_still_usable(group);
}

// The classic mistake: only the main process calls a public collective.
void main_only(const WorkerOptions& options) {
  PartialStateOptions state_options;
  state_options.init_process_group = {
      .backend = options.group.backend,
      .timeout = options.group.timeout,
      .warn_after = options.group.warn_after};
  const PartialState state(state_options);
  print_line(str_cat("joined ", state.backend()));
  if (state.is_main_process()) {
    attempt("gather", [&] {
      static_cast<void>(state.group().gather({at::ones({1})}));
    });
    return;
  }
  wait_for_line();
  attempt("barrier", [&] { state.wait_for_everyone(); });
}

// Joins the run three times, each time through the same store.
void joins_again(const WorkerOptions& options) {
  for (int i = 0; i < 3; ++i) {
    PartialStateOptions state_options;
    state_options.init_process_group = {
        .backend = options.group.backend, .timeout = options.group.timeout};
    attempt("join", [&] { reduce_once(PartialState(state_options).group()); });
    PartialState::reset();
  }
}

// Prevents rank 0 from creating files that are larger than a page, including
// memory files.
void forbid_segments() {
  if (Environment::of_this_process().get("RANK") == "0") {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
}

void listen(const WorkerOptions& options) {
  const Group group = join(options.group);
  reduce_once(group);
  print_line("ready");
  wait_for_line();
  group.barrier();
}

// Simulates a machine whose hostname does not resolve to a loopback address,
// with ranks that share no memory because rank 0 cannot create any.
void listen_with_outside_hostname(const WorkerOptions& options) {
  std::string address = "192.0.2.1";  // Reserved for documentation.
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) == 0) {
    for (const ifaddrs* entry = all; entry != nullptr;
         entry = entry->ifa_next) {
      if (entry->ifa_addr != nullptr && entry->ifa_addr->sa_family == AF_INET &&
          (entry->ifa_flags & IFF_LOOPBACK) == 0) {
        std::array<char, INET_ADDRSTRLEN> text{};
        const auto* ip = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr);
        ::inet_ntop(AF_INET, &ip->sin_addr, text.data(), text.size());
        address = text.data();
      }
    }
    ::freeifaddrs(all);
  }
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  const auto name_file =
      std::filesystem::temp_directory_path() / str_cat("hosts-", ::getpid());
  std::ofstream(name_file) << address << " " << name.data() << "\n";
  const bool mounted =
      ::unshare(CLONE_NEWNS) == 0 &&
      ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
      ::mount(name_file.c_str(), "/etc/hosts", nullptr, MS_BIND, nullptr) == 0;
  std::filesystem::remove(name_file);
  if (!mounted) {
    print_line("not allowed to mount");
    return;
  }
  print_line(str_cat("this machine is ", address));
  forbid_segments();
  PartialStateOptions state_options;
  state_options.init_process_group = {.timeout = options.group.timeout};
  const PartialState state(state_options);
  print_line(str_cat("joined ", state.backend()));
  print_line("ready");
  wait_for_line();
  state.wait_for_everyone();
}

// Rank 0 joins when the test sends a line.
void late_first_rank(const WorkerOptions& options) {
  if (Environment::of_this_process().get("RANK") == "0") {
    wait_for_line();
  }
  print_line("looking");
  attempt("join", [&] { reduce_once(join(options.group)); });
}

// All ranks except rank 0 join when the test sends a line.
void late_others(const WorkerOptions& options) {
  if (Environment::of_this_process().get("RANK") != "0") {
    wait_for_line();
  }
  print_line("looking");
  attempt("join", [&] { reduce_once(join(options.group)); });
}

// Fills /dev/shm completely, in a private mount namespace.
void full_dev_shm(const WorkerOptions& options) {
  if (::unshare(CLONE_NEWNS) != 0 ||
      ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("small", "/dev/shm", "tmpfs", 0, "size=64k") != 0) {
    print_line("not allowed to mount");
    return;
  }
  std::ofstream filler("/dev/shm/filler", std::ios::binary);
  filler << std::string(1 << 20, 'x') << std::flush;
  print_line(filler ? "there is space left" : "no space left");
  attempt("join", [&] { reduce_once(join(options.group)); });
}

// One rank cannot map more memory.
void no_address_space(const WorkerOptions& options) {
  if (Environment::of_this_process().get("RANK") == options.argument) {
    std::ifstream status("/proc/self/statm");
    rlim_t pages = 0;
    status >> pages;
    rlimit limit{};
    ::getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = pages * 4096 + (1 << 20);
    ::setrlimit(RLIMIT_AS, &limit);
  }
  attempt("join", [&] { reduce_once(join(options.group)); });
}

void no_segment(const WorkerOptions& options) {
  forbid_segments();
  attempt("join", [&] { reduce_once(join(options.group)); });
}

// Child processes print to the stdout of this one.
void launches(const WorkerOptions& /*options*/) {
  debug_launcher([] {
    print_line("child");
    wait_for_line();
  });
}

void logs(const WorkerOptions& /*options*/) {
  debug_launcher(
      [] {
        const PartialState state;
        const Logger logger = get_logger("test");
        logger.warning("once");
        logger.info("never");
        logger.warning("in order", {.in_order = true});
        state.wait_for_everyone();
        logger.warning(
            "last", {.main_process_only = state.process_index() != 2});
      },
      {.num_processes = 3});
}

// Simulates two machines with ranks 0 and 1, and ranks 2 and 3. The first rank
// of each machine writes a file.
void two_machines(const WorkerOptions& options) {
  auto variables = Environment::of_this_process().variables();
  const int rank = std::stoi(variables["RANK"]);
  variables["LOCAL_RANK"] = std::to_string(rank % 2);
  variables["LOCAL_WORLD_SIZE"] = "2";
  variables["GROUP_RANK"] = std::to_string(rank / 2);
  variables["GROUP_WORLD_SIZE"] = "2";
  const PartialState state({.environment = variables});
  const auto file_of = [&](std::int64_t machine) {
    return str_cat(options.argument, "/", machine);
  };
  {
    const auto order = state.local_main_process_first();
    state.on_local_main_process(
        [&] { std::ofstream(file_of(state.node_index())) << "here"; })();
    if (!std::ifstream(file_of(state.node_index()))) {
      print_line("did not wait for the first rank of its machine");
    }
  }
  state.on_local_main_process([] { print_line("first of its machine"); })();
  state.on_main_process([] { print_line("first of all"); })();
  state.print("printed");
  state.wait_for_everyone();
}

// Rank 0 serves the store and throws as soon as all ranks are joining.
void lost_store(const WorkerOptions& /*options*/) {
  const Environment environment = Environment::of_this_process();
  const Topology topology = detect_topology(environment);
  if (topology.process_index != 0) {
    attempt("constructor", [] { const PartialState state; });
    return;
  }
  const auto store =
      open_store(topology, std::nullopt, std::chrono::seconds(20));
  for (int rank = 1; rank < topology.num_processes; ++rank) {
    store->get(str_cat("shared memory/", rank));
  }
  throw std::runtime_error("the data set is empty");
}

bool run_ip(const std::string& arguments) {
  return std::system(("/usr/sbin/ip " + arguments).c_str()) == 0;
}

// Two network namespaces that are connected by a virtual cable and share /proc.
void two_networks(const WorkerOptions& options) {
  const Topology topology = detect_topology(Environment::of_this_process());
  const int rank = topology.process_index;
  const auto store =
      open_store(topology, "file://" + options.argument, options.group.timeout);
  if (::unshare(CLONE_NEWNET) != 0) {
    print_line("not allowed to create a network");
    return;
  }
  store->set(str_cat("pid", rank), std::to_string(::getpid()));
  const std::string other = store->get_to_str(str_cat("pid", 1 - rank));
  if (rank == 0) {
    run_ip("link add link0 type veth peer name link0 netns " + other);
    store->set("linked", "yes");
  }
  store->get_to_str("linked");
  const bool is_up =
      run_ip(str_cat("address add 10.77.0.", rank + 1, "/24 dev link0")) &&
      run_ip("link set link0 up") && run_ip("link set lo up");
  store->set(str_cat("up", rank), is_up ? "yes" : "no");
  store->get_to_str(str_cat("up", 1 - rank));
  if (!is_up) {
    print_line("not allowed to create a network");
    return;
  }
  GroupOptions group = options.group;
  group.network_interface = "link0";
  attempt("reduce", [&] { reduce_once(Group(store, rank, 2, group)); });
}

// Simulates a program that was started with `<&-`.
void closed_stdin(const WorkerOptions& /*options*/) {
  ::close(STDIN_FILENO);
  const PartialState state;
  print_line(std::filesystem::read_symlink("/proc/self/fd/0").string());
}

void threads(const WorkerOptions& /*options*/) {
  const PartialState state;
  print_line(str_cat("threads: ", at::get_num_threads()));
}

void exit_with(const WorkerOptions& options) {
  print_line("leaving");
  std::exit(std::stoi(options.argument));
}

void wait_forever(const WorkerOptions& /*options*/) {
  print_line("waiting");
  wait_for_line();
  print_line("continued");
}

}  // namespace

Group join(const GroupOptions& options) {
  const auto topology = detect_topology(Environment::of_this_process());
  Group group(
      open_store(topology, std::nullopt, options.timeout),
      topology.process_index,
      topology.num_processes,
      options);
  for (const std::string& inode : segments()) {
    print_line(str_cat("segment ", inode));
  }
  print_line(str_cat("joined ", group.backend_name()));
  return group;
}

void attempt(const std::string& name, const std::function<void()>& body) {
  try {
    body();
    print_line(str_cat(name, ": ok"));
  } catch (const Error& error) {
    print_line(str_cat(
        name,
        ": ",
        type_of(error),
        ": ",
        error.what(),
        "\nhint: ",
        error.hint()));
  }
}

void wait_for_line() {
  std::string line;
  if (!std::getline(std::cin, line)) {
    throw std::runtime_error("the test has exited");
  }
}

const std::map<std::string, Scenario>& scenarios() {
  static const std::map<std::string, Scenario> all = {
      {"conformance", conformance},
      {"mixed", mixed},
      {"random_numbers", random_numbers},
      {"absent", absent},
      {"busy", busy},
      {"between", between},
      {"exits_early", exits_early},
      {"different_calls", different_calls},
      {"different_shapes", different_shapes},
      {"different_types", different_types},
      {"main_only", main_only},
      {"joins_again", joins_again},
      {"listen", listen},
      {"listen_with_outside_hostname", listen_with_outside_hostname},
      {"late_first_rank", late_first_rank},
      {"late_others", late_others},
      {"full_dev_shm", full_dev_shm},
      {"no_address_space", no_address_space},
      {"no_segment", no_segment},
      {"launches", launches},
      {"logs", logs},
      {"two_machines", two_machines},
      {"lost_store", lost_store},
      {"closed_stdin", closed_stdin},
      {"two_networks", two_networks},
      {"threads", threads},
      {"exit_with", exit_with},
      {"wait_forever", wait_forever},
  };
  return all;
}

}  // namespace accelerate
