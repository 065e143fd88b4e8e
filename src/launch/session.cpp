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
#include "launch/machines.h"
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
class LaunchFolder {
 public:
  explicit LaunchFolder(const Environment& environment) {
    const std::string base = environment.get("TMPDIR").value_or("/tmp");
    // A socket's path is at most 107 bytes long.
    path_ = base.size() < 80 ? base : "/tmp";
    path_ += "/accelerate-XXXXXX";
    if (::mkdtemp(path_.data()) == nullptr) {
      throw_errno("create", path_, errno);
    }
  }
  LaunchFolder(const LaunchFolder&) = delete;
  LaunchFolder& operator=(const LaunchFolder&) = delete;
  ~LaunchFolder() {
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

// A folder of this run's own, also when two start in the same second.
fs::path make_log_folder(
    const Settings& settings, const Environment& environment) {
  const bool keeps_none = settings.has("tee") && settings.integer("tee") == 0;
  if (!settings.has("log_dir") || keeps_none) {
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

// What every machine must have said alike.
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
      std::chrono::duration<double>(meeting_timeout(options.settings)).count();
  // Python programs bring their own.
  if (!options.is_python) {
    result["LibTorch"] = options.torch_version;
  }
  std::vector<std::string> words = options.words;
  words[0] = fs::path(words[0]).filename().string();
  result["program"] = join(words, " ");
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
      find_machines();
    }
  }

  SessionResult run() {
    SignalQueue signals;
    Output output(output_options(settings_, log_folder_));
    output_ = &output;
    const SupervisorResult result =
        supervise(supervisor_options(), output, signals);
    if (result.failure) {
      // An empty line between the workers' words and ours, on a line of its
      // own whatever they left unfinished.
      output.announce("");
    }
    return {result.exit_code, result.failure};
  }

 private:
  void open_store(const std::vector<Endpoint>& more) {
    StoreServerOptions options;
    options.endpoints = {{true, folder_.path() + "/store", 0}};
    options.endpoints.insert(options.endpoints.end(), more.begin(), more.end());
    options.secret = secret_;
    options.expects_machines = !more.empty();
    store_ = std::make_unique<StoreServer>(options);
  }

  // Machine 0 listens, the others come. Without ranks given out beforehand,
  // machine 0 is the one that has the address.
  void find_machines() {
    endpoint_ = main_endpoint(settings_);
    const bool by_arrival = settings_.text("rdzv_backend") == "c10d" &&
                            !settings_.is_given("machine_rank");
    const bool may_host = by_arrival ? has_address() : shape_.machine_rank == 0;
    if (may_host) {
      secret_ = job_secret(settings_, options_.environment);
    }
    const bool hosts = may_host && (!by_arrival || try_to_listen());
    MachinesOptions machines;
    machines.card.machine_rank = by_arrival ? -1 : shape_.machine_rank;
    machines.card.host = options_.hardware.host_name;
    machines.card.agreement = agreement(options_);
    machines.num_machines = shape_.num_machines;
    machines.local_processes = shape_.local_processes;
    machines.secret = [this] { return find_secret(); };
    machines.no_secret = [this] { return no_secret_; };
    machines.endpoint = endpoint_;
    machines.launch_id = launch_id_;
    machines.warn = options_.warn;
    machines.local_steps = [this] { return local_steps(); };
    machines.reserve_port = [this] {
      reserve_main_port();
      return std::to_string(port_.port);
    };
    if (hosts) {
      listen_for_machines();
      machines_ = host_machines(machines, *store_);
    } else {
      options_.say(
          str_cat("Joining machine 0 at ", endpoint_.text().substr(4)));
      machines_ = join_machines(machines);
    }
  }

  // Some systems give their own name to the loopback. The others know machine
  // 0 by that name, too, but by another address: any of ours may be it.
  Endpoint listening_endpoint() const {
    const bool is_name = endpoint_.host != "localhost" &&
                         endpoint_.host != "::1" &&
                         !endpoint_.host.starts_with("127.");
    return is_name && is_loopback(endpoint_)
               ? Endpoint{false, "0.0.0.0", endpoint_.port}
               : endpoint_;
  }

  // For the side that comes. Without a secret it comes all the same: the main
  // machine shall hear of it.
  std::string find_secret() {
    no_secret_.reset();
    try {
      secret_ = existing_job_secret(settings_, options_.environment);
      return secret_;
    } catch (const ConfigError& error) {
      no_secret_ = error;
      return "";
    }
  }

  bool has_address() const {
    try {
      (void)reserve_port(listening_endpoint().host);
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
            "machine 0 must have this address and a free port: see "
            "`--main_process_ip` and `--main_process_port`");
      }
    }
    options_.say(str_cat(
        "Waiting for ",
        shape_.num_machines - 1,
        shape_.num_machines == 2 ? " machine at " : " machines at ",
        endpoint_.text().substr(4)));
  }

  MeetingResult meet(std::int64_t restart) {
    if (machines_ == nullptr) {
      return {0, launch_id_, "127.0.0.1", "", ""};
    }
    MeetingResult result = machines_->meet(restart, meeting_timeout(settings_));
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
    options.host = options_.hardware.host_name;
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

  // This machine's ranks, for a machine that asks.
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
    const MeetingResult meeting = meet(restart);
    RuntimeFacts facts;
    if (machines_ == nullptr) {
      reserve_main_port();
      facts.main_port = std::to_string(port_.port);
    } else {
      facts.main_port = meeting.main_port;
      facts.network_interface = interface_towards(
          meeting.other_address.empty()
              ? endpoint_
              : parse_endpoint("tcp:" + meeting.other_address));
      facts.main_address =
          settings_.flag("same_network") ? endpoint_.host : meeting.main_host;
    }
    facts.store =
        store_ != nullptr ? store_->endpoint(0).text() : endpoint_.text();
    facts.store_secret = secret_;
    facts.launch_id = launch_id_;
    facts.run_id = meeting.launch_id;
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
        options_.words,
        options_.is_python);
    if (settings_.flag("debug") && restart == 0) {
      say_environments(facts);
    }
    return commands;
  }

  void say_environments(const RuntimeFacts& facts) {
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
        const bool secret = name == "ACCELERATE_STORE_SECRET";
        text += str_cat("\n  ", name, "=", secret ? "(hidden)" : value);
      }
      output_->announce(text);
    }
  }

  // The port a program's rank 0 may open.
  void reserve_main_port() {
    port_ = ReservedPort();
    const bool several = shape_.num_machines > 1;
    const std::string host = several ? endpoint_.host : "127.0.0.1";
    std::uint16_t wanted = 0;
    if (several) {
      wanted = main_port_on_machines(endpoint_);
    } else if (settings_.has("main_process_port")) {
      wanted =
          static_cast<std::uint16_t>(settings_.integer("main_process_port"));
    }
    try {
      port_ = reserve_port(host, wanted);
    } catch (const IoError&) {
      port_ = reserve_port(host);
      if (!several) {
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
  std::optional<ConfigError> no_secret_;  // Why there is none.
  LaunchFolder folder_;
  Guardian guardian_;  // Before the first thread.
  fs::path log_folder_;
  Endpoint endpoint_;
  ReservedPort port_;
  std::unique_ptr<StoreServer> store_;
  std::unique_ptr<Machines> machines_;
  // Asked for by the threads of other machines, and known after a meeting.
  std::atomic<std::int64_t> first_rank_ = 0;
  Output* output_ = nullptr;
};

}  // namespace

Endpoint main_endpoint(const Settings& settings) {
  if (!settings.has("main_process_ip")) {
    throw ConfigError(
        "several machines need the address of machine 0",
        "add `--main_process_ip ADDRESS` on every machine");
  }
  const std::int64_t port = settings.has("main_process_port")
                                ? settings.integer("main_process_port")
                                : 29500;
  if (port == 0) {
    throw ConfigError(
        "--main_process_port 0: several machines must agree on a port",
        "choose one that is free on machine 0");
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
