// SPDX-License-Identifier: Apache-2.0
#include "launch/session.h"

#include <atomic>
#include <cerrno>
#include <ctime>
#include <filesystem>
#include <memory>

#include <sys/stat.h>
#include <unistd.h>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/hmac.h"
#include "base/progress_file.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "config/config_file.h"
#include "launch/guardian.h"
#include "launch/machine_link.h"
#include "launch/output.h"
#include "launch/plan.h"
#include "launch/secret.h"
#include "launch/signal_queue.h"
#include "launch/store_server.h"
#include "launch/supervisor.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

// A private folder for the store's socket and the workers' error files.
class LaunchDirectory {
 public:
  explicit LaunchDirectory(const Environment& environment) {
    const std::string base = environment.get("TMPDIR").value_or("/tmp");
    // A socket's path is at most 107 bytes long.
    path_ = base.size() < 80 ? base : "/tmp";
    path_ += "/accelerate-XXXXXX";
    if (::mkdtemp(path_.data()) == nullptr) {
      throw_errno("create", path_, errno);
    }
  }
  LaunchDirectory(const LaunchDirectory&) = delete;
  LaunchDirectory& operator=(const LaunchDirectory&) = delete;
  ~LaunchDirectory() {
    std::error_code error;
    fs::remove_all(path_, error);
  }

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string timestamp() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H-%M-%S", &local);
  return text;
}

// A new folder for each run, even when two start in the same second.
fs::path make_log_folder(
    const Settings& settings, const Environment& environment) {
  const bool writes_none = settings.has("tee") && settings.integer("tee") == 0;
  if (!settings.has("log_dir") || writes_none) {
    return {};
  }
  const fs::path base = expand_home(settings.text("log_dir"), environment);
  std::error_code error;
  fs::create_directories(base, error);
  const std::string name = timestamp();
  for (int attempt = 1; attempt < 1000; ++attempt) {
    const fs::path path =
        base / (attempt == 1 ? name : str_cat(name, "-", attempt));
    if (::mkdir(path.c_str(), 0777) == 0) {
      return path;
    }
    if (errno != EEXIST) {
      throw_errno("create", path, errno);
    }
  }
  throw_errno("create", base / name, EEXIST);
}

OutputOptions output_options(const Settings& settings, const fs::path& folder) {
  OutputOptions options;
  options.num_ranks = JobShape::of(settings).local_processes;
  options.log_folder = folder;
  if (settings.has("tee")) {
    options.log_out = (settings.integer("tee") & 1) != 0;
    options.log_err = (settings.integer("tee") & 2) != 0;
  }
  return options;
}

// The settings that must be the same on every machine.
Json agreement(const SessionOptions& options) {
  Json result = Json::object({{"version", options.version}});
  for (const char* name :
       {"num_machines",
        "num_processes",
        "mixed_precision",
        "gradient_accumulation_steps",
        "use_cpu",
        "debug",
        "max_restarts",
        "rdzv_backend",
        "same_network",
        "stop_timeout",
        "grace_period"}) {
    result[name] = options.settings.value(name);
  }
  result["rdzv_timeout"] =
      std::chrono::duration<double>(rendezvous_timeout(options.settings))
          .count();
  // Python programs use the LibTorch of their own installation.
  if (!options.is_python) {
    result["LibTorch"] = options.torch_version;
  }
  std::vector<std::string> argv = options.argv;
  argv[0] = fs::path(argv[0]).filename().string();
  result["program"] = join(argv, " ");
  return result;
}

class Session {
 public:
  explicit Session(const SessionOptions& options)
      : options_(options),
        settings_(options.settings),
        shape_(JobShape::of(settings_)),
        folder_(options.environment),
        guardian_(launch_id_, folder_.path()),
        log_folder_(make_log_folder(settings_, options.environment)) {
    if (shape_.num_machines == 1) {
      open_store({});
    } else {
      connect_machines();
    }
  }

  SessionResult run() {
    SignalQueue signals;
    Output output(output_options(settings_, log_folder_));
    output_ = &output;
    const SupervisorResult result =
        supervise(supervisor_options(), output, signals);
    if (result.failure) {
      // Separates the workers' output from the report with an empty line, even
      // after an unfinished line.
      output.announce("");
    }
    return {result.exit_code, result.failure};
  }

 private:
  void open_store(const std::vector<Endpoint>& network) {
    StoreServerOptions options;
    options.endpoints = {{true, folder_.path() + "/store", 0}};
    options.endpoints.insert(
        options.endpoints.end(), network.begin(), network.end());
    options.secret = secret_;
    options.expects_machines = !network.empty();
    store_ = std::make_unique<StoreServer>(options);
  }

  // Machine 0 listens and the others join. Without fixed ranks, machine 0 is
  // the one that has the main address.
  void connect_machines() {
    endpoint_ = main_endpoint(settings_);
    const bool assigns_ranks = settings_.text("rdzv_backend") == "c10d" &&
                               !settings_.is_set_by_user("machine_rank");
    const bool may_be_main =
        assigns_ranks ? has_main_address() : shape_.machine_rank == 0;
    if (may_be_main) {
      secret_ = job_secret(settings_, options_.environment);
    }
    const bool is_main = may_be_main && (!assigns_ranks || try_to_listen());
    MachineLinkOptions link;
    link.machine.machine_rank = assigns_ranks ? -1 : shape_.machine_rank;
    link.machine.hostname = options_.hardware.hostname;
    link.machine.agreement = agreement(options_);
    link.num_machines = shape_.num_machines;
    link.local_processes = shape_.local_processes;
    link.secret = [this] { return find_secret(); };
    link.secret_error = [this] { return secret_error_; };
    link.endpoint = endpoint_;
    link.launch_id = launch_id_;
    link.warn = options_.warn;
    link.local_steps = [this] { return local_steps(); };
    link.reserve_port = [this] {
      reserve_main_port();
      return std::to_string(port_.port);
    };
    if (is_main) {
      listen_for_machines();
      machines_ = create_main_machine(link, *store_);
    } else {
      options_.print_status(
          str_cat("Joining machine 0 at ", endpoint_.text().substr(4)));
      machines_ = create_joining_machine(link);
    }
  }

  // On some systems the machine's own hostname resolves to the loopback. Other
  // machines resolve it to another of our addresses, so listen on all of them.
  Endpoint listening_endpoint() const {
    const bool is_hostname = endpoint_.address != "localhost" &&
                             endpoint_.address != "::1" &&
                             !endpoint_.address.starts_with("127.");
    return is_hostname && is_loopback(endpoint_)
               ? Endpoint{false, "0.0.0.0", endpoint_.port}
               : endpoint_;
  }

  // For a joining machine. Without a secret it still connects, so that machine
  // 0 can report it.
  std::string find_secret() {
    secret_error_.reset();
    try {
      secret_ = existing_job_secret(settings_, options_.environment);
      return secret_;
    } catch (const ConfigError& error) {
      secret_error_ = error;
      return "";
    }
  }

  bool has_main_address() const {
    try {
      (void)reserve_port(listening_endpoint().address);
      return true;
    } catch (const IoError&) {
      return false;
    }
  }

  bool try_to_listen() {
    try {
      open_store({listening_endpoint()});
      return true;
    } catch (const IoError&) {
      return false;
    }
  }

  void listen_for_machines() {
    if (store_ == nullptr) {
      try {
        open_store({listening_endpoint()});
      } catch (const IoError& error) {
        throw IoError(
            error.what(),
            "pass an address of machine 0 and a free port with "
            "`--main_process_ip` and `--main_process_port`");
      }
    }
    options_.print_status(str_cat(
        "Waiting for ",
        shape_.num_machines - 1,
        shape_.num_machines == 2 ? " machine at " : " machines at ",
        endpoint_.text().substr(4)));
  }

  RendezvousResult rendezvous(std::int64_t restart) {
    if (machines_ == nullptr) {
      return {0, launch_id_, "127.0.0.1", "", ""};
    }
    RendezvousResult result =
        machines_->rendezvous(restart, rendezvous_timeout(settings_));
    settings_.set(
        "machine_rank", result.machine_rank, settings_.origin("machine_rank"));
    shape_ = JobShape::of(settings_);
    first_rank_ = shape_.first_rank;
    return result;
  }

  SupervisorOptions supervisor_options() {
    SupervisorOptions options;
    options.num_processes = shape_.num_processes;
    options.max_restarts = settings_.integer("max_restarts");
    options.stop_timeout =
        std::chrono::duration<double>(settings_.real("stop_timeout"));
    options.grace_period =
        std::chrono::duration<double>(settings_.real("grace_period"));
    options.monitor_interval =
        std::chrono::duration<double>(settings_.real("monitor_interval"));
    options.hostname = options_.hardware.hostname;
    options.launch_id = launch_id_;
    options.others = machines_.get();
    options.error_file = [this](std::int64_t rank) {
      return str_cat(folder_.path(), "/rank_", rank, ".error.json");
    };
    options.log_path = [this](std::int64_t rank) {
      return log_folder_.empty()
                 ? std::string()
                 : str_cat(log_folder_.string(), "/rank_", rank, ".*.log");
    };
    options.step = [this](std::int64_t rank) {
      return read_progress(step_file(rank));
    };
    options.commands = [this](std::int64_t restart) {
      return make_commands(restart);
    };
    if (store_ != nullptr) {
      options.abort_store = [this](const std::string& reason) {
        store_->abort(reason);
      };
      options.start_store_generation = [this](std::int64_t restart) {
        store_->start_generation(static_cast<std::uint32_t>(restart));
      };
      options.store_status = [this] { return store_->status(); };
    }
    options.on_group = [this](pid_t group, bool added) {
      added ? guardian_.add_group(group) : guardian_.remove_group(group);
    };
    return options;
  }

  std::string step_file(std::int64_t rank) const {
    return str_cat(folder_.path(), "/rank_", rank, ".step");
  }

  // The steps of this machine's ranks, for other machines.
  std::vector<RankStatus> local_steps() const {
    std::vector<RankStatus> ranks;
    for (std::int64_t local = 0; local < shape_.local_processes; ++local) {
      const std::int64_t rank = first_rank_ + local;
      RankStatus status;
      status.rank = static_cast<std::uint32_t>(rank);
      status.step = read_progress(step_file(rank));
      ranks.push_back(std::move(status));
    }
    return ranks;
  }

  RuntimeFacts runtime_facts(std::int64_t restart) {
    const RendezvousResult result = rendezvous(restart);
    RuntimeFacts facts;
    if (machines_ == nullptr) {
      reserve_main_port();
      facts.main_port = std::to_string(port_.port);
    } else {
      facts.main_port = result.main_port;
      facts.network_interface = interface_towards(
          result.other_address.empty()
              ? endpoint_
              : parse_endpoint("tcp:" + result.other_address));
      facts.main_address = settings_.flag("same_network")
                               ? endpoint_.address
                               : result.main_hostname;
    }
    facts.store =
        store_ != nullptr ? store_->endpoint(0).text() : endpoint_.text();
    facts.store_secret = secret_;
    facts.launch_id = launch_id_;
    facts.run_id = result.launch_id;
    facts.folder = folder_.path();
    facts.restart_count = restart;
    return facts;
  }

  std::vector<WorkerCommand> make_commands(std::int64_t restart) {
    const RuntimeFacts facts = runtime_facts(restart);
    for (std::int64_t local = 0; local < shape_.local_processes; ++local) {
      const std::int64_t rank = shape_.first_rank + local;
      ::unlink(str_cat(folder_.path(), "/rank_", rank, ".error.json").c_str());
      create_progress_file(step_file(rank));
    }
    auto commands = make_worker_commands(
        settings_,
        options_.hardware,
        options_.environment,
        facts,
        options_.argv,
        options_.is_python);
    if (settings_.flag("debug") && restart == 0) {
      print_environments(facts);
    }
    return commands;
  }

  void print_environments(const RuntimeFacts& facts) {
    for (std::int64_t local = 0; local < shape_.local_processes; ++local) {
      std::string text =
          str_cat("environment of rank ", shape_.first_rank + local, ":");
      for (const auto& [name, value] : worker_variables(
               settings_,
               options_.hardware,
               options_.environment,
               facts,
               local,
               options_.is_python)) {
        const bool is_secret = name == "ACCELERATE_STORE_SECRET";
        text += str_cat("\n  ", name, "=", is_secret ? "(hidden)" : value);
      }
      output_->announce(text);
    }
  }

  // Reserves the port that rank 0 of the program may open.
  void reserve_main_port() {
    port_ = ReservedPort();
    const bool several_machines = shape_.num_machines > 1;
    const std::string address =
        several_machines ? endpoint_.address : "127.0.0.1";
    std::uint16_t wanted = 0;
    if (several_machines) {
      wanted = main_port_on_machines(endpoint_);
    } else if (settings_.has("main_process_port")) {
      wanted =
          static_cast<std::uint16_t>(settings_.integer("main_process_port"));
    }
    try {
      port_ = reserve_port(address, wanted);
    } catch (const IoError&) {
      port_ = reserve_port(address);
      if (!several_machines) {
        options_.warn(str_cat(
            "port ",
            wanted,
            " (",
            settings_.origin("main_process_port").text(),
            ") is in use; using ",
            port_.port,
            " instead"));
      }
    }
  }

  const SessionOptions& options_;
  Settings settings_;
  JobShape shape_;
  std::string launch_id_ = to_hex(random_bytes(8));
  std::string secret_ = to_hex(random_bytes(32));
  std::optional<ConfigError> secret_error_;  // Why there is no secret.
  LaunchDirectory folder_;
  Guardian guardian_;  // Before the first thread.
  fs::path log_folder_;
  Endpoint endpoint_;
  ReservedPort port_;
  std::unique_ptr<StoreServer> store_;
  std::unique_ptr<MachineLink> machines_;
  // Read by the threads that serve other machines; set by the rendezvous.
  std::atomic<std::int64_t> first_rank_ = 0;
  Output* output_ = nullptr;
};

}  // namespace

Endpoint main_endpoint(const Settings& settings) {
  if (!settings.has("main_process_ip")) {
    throw ConfigError(
        "a job on several machines needs the address of machine 0",
        "add `--main_process_ip ADDRESS` on every machine");
  }
  const std::int64_t port = settings.has("main_process_port")
                                ? settings.integer("main_process_port")
                                : 29500;
  if (port == 0) {
    throw ConfigError(
        "--main_process_port is 0, but several machines must use the same port",
        "choose a port that is free on machine 0");
  }
  return {
      false,
      settings.text("main_process_ip"),
      static_cast<std::uint16_t>(port)};
}

std::uint16_t main_port_on_machines(const Endpoint& endpoint) {
  return static_cast<std::uint16_t>(endpoint.port + 1);
}

SessionResult run_session(const SessionOptions& options) {
  Session session(options);
  return session.run();
}

}  // namespace accelerate
