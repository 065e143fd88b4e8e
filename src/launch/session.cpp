// SPDX-License-Identifier: Apache-2.0
#include "launch/session.h"

#include <cerrno>
#include <ctime>
#include <filesystem>
#include <memory>

#include <sys/stat.h>
#include <unistd.h>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/hmac.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "config/config_file.h"
#include "launch/guardian.h"
#include "launch/output.h"
#include "launch/plan.h"
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
  if (!settings.has("log_dir")) {
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

class Session {
 public:
  explicit Session(const SessionOptions& options)
      : options_(options),
        shape_(JobShape::of(options.settings)),
        folder_(options.environment),
        guardian_(launch_id_, folder_.path()),
        log_folder_(make_log_folder(options.settings, options.environment)),
        store_({
            .endpoints = {{true, folder_.path() + "/store", 0}},
            .secret = secret_,
        }),
        output_(output_options(options.settings, log_folder_)) {}

  SessionResult run() {
    const SupervisorResult result =
        supervise(supervisor_options(), output_, signals_);
    if (result.failure) {
      // An empty line between the workers' words and ours, on a line of its
      // own whatever they left unfinished.
      output_.announce("");
    }
    return {result.exit_code, result.failure};
  }

 private:
  SupervisorOptions supervisor_options() {
    SupervisorOptions options;
    options.num_processes = shape_.num_processes;
    options.max_restarts = options_.settings.integer("max_restarts");
    options.stop_timeout =
        std::chrono::duration<double>(options_.settings.real("stop_timeout"));
    options.monitor_interval = std::chrono::duration<double>(
        options_.settings.real("monitor_interval"));
    options.host = options_.hardware.host_name;
    options.launch_id = launch_id_;
    options.error_file = [this](std::int64_t rank) {
      return str_cat(folder_.path(), "/rank_", rank, ".error.json");
    };
    options.log_path = [this](std::int64_t rank) {
      return log_folder_.empty()
                 ? std::string()
                 : str_cat(log_folder_.string(), "/rank_", rank, ".*.log");
    };
    options.commands = [this](std::int64_t restart) {
      return make_commands(restart);
    };
    options.abort_store = [this](const std::string& reason) {
      store_.abort(reason);
    };
    options.start_store_generation = [this](std::int64_t restart) {
      store_.start_generation(static_cast<std::uint32_t>(restart));
    };
    options.store_status = [this] { return store_.status(); };
    options.on_group = [this](pid_t group, bool added) {
      added ? guardian_.add_group(group) : guardian_.remove_group(group);
    };
    return options;
  }

  std::vector<WorkerCommand> make_commands(std::int64_t restart) {
    reserve_main_port();
    RuntimeFacts facts;
    facts.main_port = std::to_string(port_.port);
    facts.store = store_.endpoint(0).text();
    facts.store_secret = secret_;
    facts.launch_id = launch_id_;
    facts.error_folder = folder_.path();
    facts.restart_count = restart;
    for (std::int64_t rank = 0; rank < shape_.num_processes; ++rank) {
      ::unlink(str_cat(folder_.path(), "/rank_", rank, ".error.json").c_str());
    }
    auto commands = make_worker_commands(
        options_.settings,
        options_.hardware,
        options_.environment,
        facts,
        options_.words,
        options_.is_python);
    if (options_.settings.flag("debug") && restart == 0) {
      say_environments(facts);
    }
    return commands;
  }

  void say_environments(const RuntimeFacts& facts) {
    for (std::int64_t local = 0; local < shape_.local_processes; ++local) {
      std::string text =
          str_cat("environment of rank ", shape_.first_rank + local, ":");
      for (const auto& [name, value] : worker_variables(
               options_.settings,
               options_.environment,
               facts,
               local,
               options_.is_python)) {
        const bool secret = name == "ACCELERATE_STORE_SECRET";
        text += str_cat("\n  ", name, "=", secret ? "(hidden)" : value);
      }
      output_.announce(text);
    }
  }

  void reserve_main_port() {
    port_ = ReservedPort();
    const auto& settings = options_.settings;
    const auto wanted = static_cast<std::uint16_t>(
        settings.has("main_process_port")
            ? settings.integer("main_process_port")
            : 0);
    try {
      port_ = reserve_port("127.0.0.1", wanted);
    } catch (const IoError&) {
      port_ = reserve_port("127.0.0.1");
      options_.warn(str_cat(
          "port ",
          wanted,
          " (",
          settings.origin("main_process_port").text(),
          ") is in use; using ",
          port_.port,
          " instead"));
    }
  }

  const SessionOptions& options_;
  JobShape shape_;
  std::string launch_id_ = to_hex(random_bytes(8));
  std::string secret_ = to_hex(random_bytes(32));
  LaunchFolder folder_;
  Guardian guardian_;
  SignalQueue signals_;  // Before the threads of the store and the output.
  fs::path log_folder_;
  StoreServer store_;
  ReservedPort port_;
  Output output_;
};

}  // namespace

SessionResult run_session(const SessionOptions& options) {
  Session session(options);
  return session.run();
}

}  // namespace accelerate
