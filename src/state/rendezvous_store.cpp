// SPDX-License-Identifier: Apache-2.0
#include "state/rendezvous_store.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <string_view>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "accelerate/error.h"
#include "base/new_file.h"
#include "base/socket.h"
#include "base/store_client.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "comm/bounded_call.h"
#include "comm/launcher_link.h"
#include "comm/launcher_store.h"
#include "comm/reporting_store.h"

namespace accelerate {
namespace {

using StorePtr = c10::intrusive_ptr<c10d::Store>;
using std::chrono::milliseconds;

constexpr int kDefaultPort = 29500;

struct TcpAddress {
  std::string hostname;
  int port;
};

sockaddr_in loopback(std::uint32_t address, int port) {
  sockaddr_in result{};
  result.sin_family = AF_INET;
  result.sin_addr.s_addr = htonl(address);
  result.sin_port = htons(static_cast<std::uint16_t>(port));
  return result;
}

// Whether a server listens on 127.0.0.1:`port`. Connects from 127.0.0.2; see
// `wait_for_listener`.
bool is_listening(int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in from = loopback(INADDR_LOOPBACK + 1, 0);
  const sockaddr_in to = loopback(INADDR_LOOPBACK, port);
  ::bind(fd, reinterpret_cast<const sockaddr*>(&from), sizeof from);
  const bool connected =
      ::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
  ::close(fd);
  return connected;
}

// A connection to a local port without a listener may get the same port as its
// source port and connect to itself. The client would then wait forever and
// block rank 0's port. The client therefore first checks from another address
// whether a server is listening.
void wait_for_listener(int port, milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!is_listening(port)) {
    if (std::chrono::steady_clock::now() >= deadline) {
      throw IoError(str_cat(
          "no server started listening on this port within ",
          timeout.count(),
          " ms"));
    }
    std::this_thread::sleep_for(milliseconds(5));
  }
}

// The constructor of a TCPStore waits for its server without a timeout, and the
// server process may be stopped.
StorePtr connect_to_store(
    const std::string& hostname, const c10d::TCPStoreOptions& options) {
  const auto store = std::make_shared<StorePtr>();
  if (!BoundedCall().returned_within(options.timeout, [=] {
        *store = c10::make_intrusive<c10d::TCPStore>(hostname, options);
      })) {
    throw IoError(str_cat("no answer within ", options.timeout.count(), " ms"));
  }
  return *store;
}

std::string first_line(const char* text) {
  const std::string_view all(text);
  return std::string(all.substr(0, all.find('\n')));
}

StorePtr open_tcp(
    const Topology& topology, const TcpAddress& address, milliseconds timeout) {
  const bool one_machine = topology.num_nodes == 1;
  const std::string hostname = one_machine && !topology.launcher_serves_store
                                   ? "127.0.0.1"
                                   : address.hostname;
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(address.port);
  options.isServer =
      topology.process_index == 0 && !topology.launcher_serves_store;
  options.waitWorkers = false;
  options.timeout = timeout;
  if (options.isServer && one_machine) {
    // A TCPStore that binds its own socket listens on every interface.
    options.masterListenFd = listen_on_loopback(address.port);
  }
  try {
    if (!options.isServer && hostname == "127.0.0.1") {
      wait_for_listener(address.port, timeout);
    }
    return report_errors(
        connect_to_store(hostname, options),
        lost_store_text(
            topology.launcher_serves_store ? "the launcher" : "rank 0"));
  } catch (const std::exception& error) {
    throw DistributedError(
        str_cat(
            "rank ",
            topology.process_index,
            " cannot reach the store at ",
            hostname,
            ":",
            address.port,
            ": ",
            first_line(error.what())),
        "check that rank 0 is running, and that MASTER_ADDR and MASTER_PORT "
        "are the same on every rank");
  }
}

StorePtr open_file(const std::string& path, const Topology& topology) {
  return report_errors(
      c10::make_intrusive<c10d::FileStore>(path, topology.num_processes),
      {str_cat("cannot use ", path, " as the store"),
       "check that every rank can read and write this file"});
}

// A TCPStore has no secret, so the processes of a Slurm step check that they
// found the store of their own step.
constexpr const char* kStepKey = "accelerate/slurm_step";
constexpr const char* kServerOfStep = "the first process of the step";

/// A store answered, but it belongs to another Slurm step.
class AnotherStepError : public IoError {
 public:
  using IoError::IoError;
};

StorePtr serve_on_port(
    const Topology& topology, const Endpoint& endpoint, milliseconds timeout) {
  UniqueFd socket = listen_on(listening_endpoint(endpoint));
  c10d::TCPStoreOptions options;
  options.port = endpoint.port;
  options.isServer = true;
  options.waitWorkers = false;
  options.timeout = timeout;
  options.masterListenFd = socket.release();
  StorePtr store = connect_to_store(endpoint.address, options);
  const std::string name = topology.slurm_step->name();
  store->set(kStepKey, std::vector<std::uint8_t>(name.begin(), name.end()));
  return report_errors(store, lost_store_text(kServerOfStep));
}

StorePtr join_on_port(
    const Topology& topology, const Endpoint& endpoint, milliseconds timeout) {
  constexpr milliseconds kConnect(2000);
  constexpr milliseconds kAnswer(10000);
  // A TCPStore waits until its server listens, but the server may be listening
  // on another port.
  connect_to(endpoint, std::min(kConnect, timeout));
  c10d::TCPStoreOptions options;
  options.port = endpoint.port;
  options.waitWorkers = false;
  options.timeout = std::min(kAnswer, timeout);
  StorePtr store = connect_to_store(endpoint.address, options);
  const auto bytes = store->get(kStepKey);
  const std::string name(bytes.begin(), bytes.end());
  if (name != topology.slurm_step->name()) {
    throw AnotherStepError(str_cat(
        endpoint.text(), " is the store of ", printable(name).substr(0, 100)));
  }
  store->setTimeout(timeout);
  return report_errors(store, lost_store_text(kServerOfStep));
}

// Opens the store of a Slurm step on several nodes. Rank 0 may not be on the
// first node, so the first process on that node is the server. The server uses
// the first free port, and the other processes try the ports one after another.
StorePtr open_in_slurm_step(const Topology& topology, milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  const bool is_server =
      topology.node_index == 0 && topology.local_process_index == 0;
  std::vector<std::uint16_t> ports = topology.slurm_step->ports();
  if (topology.main_port) {
    ports = {static_cast<std::uint16_t>(*topology.main_port)};
  }
  std::string problem;
  // More useful than the error of a later attempt that timed out.
  std::string other_step;
  do {
    for (const std::uint16_t port : ports) {
      const Endpoint endpoint{false, *topology.main_address, port};
      const auto left = std::chrono::duration_cast<milliseconds>(
          deadline - std::chrono::steady_clock::now());
      try {
        return is_server
                   ? serve_on_port(topology, endpoint, timeout)
                   : join_on_port(
                         topology, endpoint, std::max(left, milliseconds(1)));
      } catch (const AnotherStepError& error) {
        other_step = error.what();
      } catch (const std::exception& error) {
        problem = first_line(error.what());
      }
    }
    std::this_thread::sleep_for(milliseconds(50));
  } while (!is_server && std::chrono::steady_clock::now() < deadline);
  throw DistributedError(
      str_cat(
          "rank ",
          topology.process_index,
          is_server ? " cannot open" : " cannot reach",
          " the store of ",
          topology.slurm_step->name(),
          " at ",
          *topology.main_address,
          ": ",
          other_step.empty() ? problem : other_step),
      is_server
          ? "set MASTER_ADDR and MASTER_PORT to an address and a free port "
            "of the machine that runs rank 0"
          : "check that the first process on that node is running and that "
            "the node's name resolves to the same address everywhere");
}

// Field 22 of /proc/<pid>/stat; the name in field 2 may contain spaces.
std::string start_time_of(pid_t pid) {
  std::ifstream file(str_cat("/proc/", pid, "/stat"));
  std::string line;
  std::getline(file, line);
  std::istringstream fields(line.substr(line.rfind(')') + 1));
  std::string field;
  for (int i = 3; i <= 22; ++i) {
    fields >> field;
  }
  return field;
}

// The launcher's daemon is the parent of all processes on one machine. Its
// start time distinguishes it from an earlier process with the same pid.
StorePtr open_file_named_after_parent(const Topology& topology) {
  const pid_t parent = ::getppid();
  const std::string folder =
      str_cat(topology.scratch_folder, "/accelerate-", ::geteuid());
  make_private_folder(folder, "TMPDIR");
  const std::string path =
      str_cat(folder, "/run-", parent, "-", start_time_of(parent));
  return open_file(path, topology);
}

std::optional<TcpAddress> parse_tcp(const std::string& method) {
  if (!method.starts_with("tcp://")) {
    return std::nullopt;
  }
  const std::string rest = method.substr(std::strlen("tcp://"));
  const auto colon = rest.rfind(':');
  try {
    std::size_t used = 0;
    const int port = std::stoi(rest.substr(colon + 1), &used);
    if (colon != std::string::npos && colon > 0 && port > 0 && port < 65536 &&
        colon + 1 + used == rest.size()) {
      return TcpAddress{rest.substr(0, colon), port};
    }
  } catch (const std::exception&) {
    // The caller reports the error.
  }
  return std::nullopt;
}

StorePtr connect_to_launcher_store(
    const Topology& topology, milliseconds timeout) {
  StoreClientOptions options;
  options.endpoint = parse_endpoint(*topology.launcher_store);
  options.secret = topology.launcher_store_secret;
  options.run_id = topology.launcher_store_run;
  options.hello = {
      store::Role::worker,
      static_cast<std::uint32_t>(topology.process_index),
      static_cast<std::uint32_t>(topology.restart_count)};
  options.connect_timeout = timeout;
  set_launcher_link(options);
  return c10::make_intrusive<LauncherStore>(options, timeout);
}

StorePtr open_from_environment(const Topology& topology, milliseconds timeout) {
  if (topology.launcher_store) {
    return connect_to_launcher_store(topology, timeout);
  }
  if (topology.slurm_step) {
    return open_in_slurm_step(topology, timeout);
  }
  if (topology.num_nodes > 1 && !topology.main_address) {
    throw ConfigError(
        str_cat(
            "there are ",
            topology.num_processes,
            " processes on ",
            topology.num_nodes,
            " machines, but environment variable MASTER_ADDR is not set"),
        "set MASTER_ADDR to the address of the machine that runs rank 0, and "
        "MASTER_PORT to a free port on that machine");
  }
  if (topology.num_nodes == 1 && !topology.main_port &&
      topology.launcher != Launcher::torchrun) {
    return open_file_named_after_parent(topology);
  }
  return open_tcp(
      topology,
      {topology.main_address.value_or("127.0.0.1"),
       topology.main_port.value_or(kDefaultPort)},
      timeout);
}

StorePtr open_any(
    const Topology& topology, const std::string& method, milliseconds timeout) {
  if (method == "env://") {
    return open_from_environment(topology, timeout);
  }
  if (const auto endpoint = parse_tcp(method)) {
    return open_tcp(topology, *endpoint, timeout);
  }
  return open_file(method.substr(std::strlen("file://")), topology);
}

}  // namespace

void check_init_method(const std::string& method) {
  const bool known =
      method == "env://" || parse_tcp(method) || method.starts_with("file:///");
  if (!known) {
    throw ArgumentError(
        str_cat(
            "init_method is `",
            method,
            "`, but must be one of env://, tcp://host:port, file:///path"),
        "leave `init_method` out to use the launcher's variables");
  }
}

StorePtr open_store(
    const Topology& topology,
    const std::optional<std::string>& init_method,
    milliseconds timeout) {
  const std::string method = init_method.value_or("env://");
  check_init_method(method);
  const StorePtr store = open_any(topology, method, timeout);
  // Keys from before a restart, or from before `PartialState::reset`, must not
  // be read again.
  static std::atomic<int> num_joins = 0;
  return c10::make_intrusive<c10d::PrefixStore>(
      str_cat("accelerate/", topology.restart_count, "/", num_joins++), store);
}

int listen_on_loopback(int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  const sockaddr_in address = loopback(INADDR_LOOPBACK, port);
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) !=
          0 ||
      ::listen(fd, SOMAXCONN) != 0) {
    const int error = errno;
    ::close(fd);
    throw IoError(
        str_cat(
            "cannot listen on 127.0.0.1:", port, ": ", std::strerror(error)),
        "set MASTER_PORT to the same free port on every rank");
  }
  return fd;
}

}  // namespace accelerate
