// SPDX-License-Identifier: Apache-2.0
// Machine 0, which the other machines join.
#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "launch/control_plane.h"
#include "launch/failure_json.h"
#include "launch/machine_events.h"
#include "launch/status_text.h"

namespace accelerate {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

class MainMachine : public ControlPlane {
 public:
  MainMachine(
      const LaunchPlan& plan,
      const MachineInfo& machine,
      const MainMachineOptions& options,
      std::function<void(const std::string&)> warn)
      : plan_(plan),
        machine_(machine),
        shape_(JobShape::of(plan.settings).on_machine(0)),
        endpoint_(options.endpoint),
        program_port_(options.program_port),
        warn_(std::move(warn)),
        secret_(options.store.secret),
        server_(options.store),
        rendezvous_(shape_.num_machines, machine.job) {
    machine_.machine_rank = 0;
    machine_.address = endpoint_text();
    server_.on_exchange([this](const StoreServer::Exchange& exchange) {
      return handle(exchange);
    });
    server_.on_machine_disconnect(
        [this](std::uint64_t client) { handle_disconnect(client); });
    server_.on_refusal(
        [this](const std::string& address, const std::string& reason) {
          handle_refusal(address, reason);
        });
  }
  ~MainMachine() override {
    server_.on_exchange(nullptr);
    server_.on_machine_disconnect(nullptr);
    server_.on_refusal(nullptr);
  }

  Generation start_generation(std::int64_t number) override {
    server_.start_generation(static_cast<std::uint32_t>(number));
    open_rendezvous(number);
    std::unique_lock lock(mutex_);
    (void)changed_.wait_for(lock, rendezvous_timeout(plan_.settings), [this] {
      return rendezvous_.is_complete() || is_cancelled_ ||
             !disconnected_.empty();
    });
    is_open_ = false;
    const bool complete = rendezvous_.is_complete() && disconnected_.empty();
    const std::string problem = rendezvous_problem();
    const std::string other = other_address();
    reserve_main_port();
    const auto waiting = std::exchange(waiting_, {});
    start_ = Clock::now();
    lock.unlock();
    answer_all(waiting, problem, complete);
    if (!complete) {
      throw DistributedError(
          problem, disconnected_.empty() ? missing_hint() : "");
    }
    if (!problem.empty()) {
      throw ConfigError(
          problem,
          "run the same command with the same version on every machine");
    }
    return make_generation(number, other);
  }

  void cancel() override {
    const std::scoped_lock lock(mutex_);
    is_cancelled_ = true;
    changed_.notify_all();
  }

  std::vector<RankStatus> status() override {
    {
      const std::scoped_lock lock(mutex_);
      steps_.clear();
    }
    broadcast("steps_wanted", Json::object());
    std::unique_lock lock(mutex_);
    (void)changed_.wait_for(lock, std::chrono::seconds(1), [this] {
      const auto expected = static_cast<std::ptrdiff_t>(machines_.size());
      return expected <=
             std::count_if(steps_.begin(), steps_.end(), [](const auto& entry) {
               return entry.first != 0;
             });
    });
    lock.unlock();
    return merged_status();
  }

  void tick() override { answer_idle_polls(); }

  void report_failure(const Failure& failure) override {
    broadcast("failure", Json::object({{"failure", failure_to_json(failure)}}));
  }

  void report_done() override { mark_done(0); }

  void abort_store(const std::string& reason) override {
    server_.abort(reason);
  }
  std::vector<RankStatus> store_status() const override {
    return server_.status();
  }

 private:
  struct Machine {
    std::uint64_t control = 0;
    std::uint64_t poll = 0;
    Clock::time_point poll_since;
    bool is_polling = false;
    std::deque<std::string> events;
    bool is_done = false;
    std::string name;
  };

  std::string endpoint_text() const {
    return str_cat(endpoint_.address, ":", endpoint_.port);
  }

  std::string missing_hint() {
    const std::scoped_lock lock(mutex_);
    if (rendezvous_.refused_a_secret()) {
      return "give every machine the same job secret: set the same "
             "ACCELERATE_JOB_SECRET, or copy the job secret file of this "
             "machine to the other machines (see `--job_secret_file`)";
    }
    return str_cat(
        "run the same command on the missing machines; they must be able to "
        "reach ",
        endpoint_text());
  }

  double elapsed() const {
    return std::chrono::duration<double>(Clock::now() - start_).count();
  }

  // Starts a new rendezvous and adds the machines that joined early.
  void open_rendezvous(std::int64_t generation) {
    std::vector<std::pair<std::uint64_t, MachineInfo>> early;
    {
      const std::scoped_lock lock(mutex_);
      generation_ = generation;
      is_open_ = true;
      rendezvous_ = MachineRendezvous(shape_.num_machines, machine_.job);
      events_.reset();
      for (auto& [rank, machine] : machines_) {
        machine.is_done = false;
      }
      main_done_ = false;
      (void)rendezvous_.add(machine_);
      early.swap(early_);
    }
    for (auto& [client, info] : early) {
      if (auto answer = join(client, std::move(info))) {
        server_.answer(client, *answer);
      }
    }
  }

  // Why the workers cannot be started; empty if they can be started.
  std::string rendezvous_problem() const {
    if (is_cancelled_) {
      return "machine 0 was interrupted";
    }
    if (!disconnected_.empty()) {
      return str_cat(
          "machine ",
          disconnected_,
          " disconnected before the workers could be restarted");
    }
    if (!rendezvous_.is_complete()) {
      const std::chrono::duration<double> timeout =
          rendezvous_timeout(plan_.settings);
      return rendezvous_.missing_text(endpoint_text(), timeout.count());
    }
    return rendezvous_.difference_text();
  }

  std::string other_address() const {
    const auto& machines = rendezvous_.machines();
    const auto last = machines.rbegin();
    return last == machines.rend() || last->first == 0 ? ""
                                                       : last->second.address;
  }

  // Reserves the port that rank 0 of the program may open.
  void reserve_main_port() {
    port_ = ReservedPort();
    try {
      port_ = reserve_port(endpoint_.address, program_port_);
    } catch (const IoError&) {
      port_ = reserve_port(endpoint_.address);
    }
  }

  Generation make_generation(
      std::int64_t number, const std::string& other_address) const {
    Generation generation;
    generation.number = number;
    generation.shape = shape_;
    generation.run_id = plan_.launch_id;
    generation.store = server_.endpoint(0).text();
    generation.store_secret = secret_;
    generation.main_address = plan_.settings.flag("same_network")
                                  ? endpoint_.address
                                  : machine_.hostname;
    generation.main_port = std::to_string(port_.port);
    generation.network_interface = interface_towards(
        other_address.empty() ? endpoint_
                              : parse_endpoint("tcp:" + other_address));
    return generation;
  }

  void answer_all(
      const std::map<std::int64_t, std::uint64_t>& waiting,
      const std::string& problem,
      bool complete) {
    for (const auto& [rank, client] : waiting) {
      Json answer = Json::object();
      if (!problem.empty()) {
        answer["error"] = problem;
        answer["is_config"] = complete;
      } else {
        answer["machine_rank"] = rank;
        answer["launch_id"] = plan_.launch_id;
        answer["main_hostname"] = machine_.hostname;
        answer["main_port"] = std::to_string(port_.port);
      }
      server_.answer(client, answer.dump());
    }
  }

  // Runs on the server's thread.
  std::optional<std::string> handle(const StoreServer::Exchange& exchange) {
    try {
      const Json message = Json::parse(
          exchange.payload, {.source = exchange.address, .max_depth = 16});
      const std::string& type = message.at("type").as_string();
      if (type == "join") {
        return handle_join(exchange, message);
      }
      const std::int64_t rank = message.at("rank").as_integer();
      check_has_joined(rank);
      if (type == "poll") {
        return handle_poll(exchange.client, rank);
      }
      if (type == "status") {
        return status_for_others();
      }
      if (type == "steps") {
        handle_steps(rank, message.at("ranks"));
      } else if (is_current(message)) {
        if (type == "fail") {
          handle_failure(rank, message.at("failure"));
        } else if (type == "done") {
          mark_done(rank);
        }
      }
      return "{}";
    } catch (const Error& error) {
      return Json::object({{"error", error.what()}}).dump();
    }
  }

  // Otherwise, the job would wait for a machine that does not exist.
  void check_has_joined(std::int64_t machine) {
    const std::scoped_lock lock(mutex_);
    if (!machines_.contains(machine)) {
      throw DistributedError(str_cat("machine ", machine, " has not joined"));
    }
  }

  bool is_current(const Json& message) {
    const std::scoped_lock lock(mutex_);
    return message.at("restart").as_integer() == generation_;
  }

  std::optional<std::string> handle_join(
      const StoreServer::Exchange& exchange, const Json& message) {
    MachineInfo machine = MachineInfo::from_json(message.at("machine"));
    machine.address = exchange.address;
    const std::scoped_lock lock(mutex_);
    if (const auto error = rendezvous_.stranger_text(machine); !error.empty()) {
      rendezvous_.add_refusal(exchange.address, error);
      return Json::object(
                 {{"error", error}, {"is_config", true}, {"is_stranger", true}})
          .dump();
    }
    const std::int64_t restart = message.at("restart").as_integer();
    if (restart < generation_) {
      return Json::object(
                 {{"error", "the workers of this job are already running"},
                  {"is_config", true}})
          .dump();
    }
    if (restart > generation_) {
      early_.emplace_back(exchange.client, std::move(machine));
      return std::nullopt;
    }
    return join(exchange.client, std::move(machine));
  }

  std::optional<std::string> join(std::uint64_t client, MachineInfo info) {
    const std::scoped_lock lock(mutex_);
    const std::string name = str_cat(info.hostname, ", ", info.address);
    const MachineRendezvous::Entry entry = rendezvous_.add(std::move(info));
    if (!entry.error.empty()) {
      return Json::object({{"error", entry.error}, {"is_config", true}}).dump();
    }
    Machine& machine = machines_[entry.rank];
    machine.control = client;
    machine.name = str_cat(entry.rank, " (", name, ")");
    waiting_[entry.rank] = client;
    changed_.notify_all();
    return std::nullopt;
  }

  void handle_steps(std::int64_t machine, const Json& ranks) {
    auto steps = status_from_json(ranks);
    const std::scoped_lock lock(mutex_);
    steps_[machine] = std::move(steps);
    changed_.notify_all();
  }

  // The store's status, with the steps that the machines reported.
  std::vector<RankStatus> merged_status() {
    auto ranks = server_.status();
    const std::scoped_lock lock(mutex_);
    std::map<std::uint32_t, std::int64_t> known;
    for (const auto& [machine, statuses] : steps_) {
      for (const RankStatus& status : statuses) {
        if (status.step) {
          known[status.rank] = *status.step;
        }
      }
    }
    for (RankStatus& rank : ranks) {
      if (const auto found = known.find(rank.rank); found != known.end()) {
        rank.step = found->second;
      }
    }
    return ranks;
  }

  // The status to send to another machine. The steps of this machine's ranks
  // are current; the steps of a third machine's ranks date from its last
  // answer. The receiver adds the steps of its own ranks.
  std::string status_for_others() {
    const std::scoped_lock lock(mutex_);
    steps_[0] = local_steps(plan_, 0);
    return Json::object({{"ranks", status_to_json(merged_status())}}).dump();
  }

  std::optional<std::string> handle_poll(
      std::uint64_t client, std::int64_t rank) {
    const std::scoped_lock lock(mutex_);
    Machine& machine = machines_[rank];
    machine.poll = client;
    if (!machine.events.empty()) {
      std::string event = std::move(machine.events.front());
      machine.events.pop_front();
      return event;
    }
    machine.is_polling = true;
    machine.poll_since = Clock::now();
    return std::nullopt;
  }

  void handle_failure(std::int64_t rank, const Json& json) {
    Failure failure = failure_from_json(json);
    events_.add_failure(std::move(failure));
    broadcast("failure", Json::object({{"failure", json}}), rank);
  }

  // Each event contains its restart number, because a machine may read the
  // event after the next restart has begun.
  void broadcast(const char* type, Json body, std::int64_t except = 0) {
    std::vector<std::uint64_t> ready;
    std::string text;
    {
      const std::scoped_lock lock(mutex_);
      body["restart"] = generation_;
      text = event_text(type, std::move(body));
      for (auto& [rank, machine] : machines_) {
        if (rank == except) {
          continue;
        }
        if (machine.is_polling) {
          machine.is_polling = false;
          ready.push_back(machine.poll);
        } else {
          machine.events.push_back(text);
        }
      }
    }
    for (const std::uint64_t client : ready) {
      server_.answer(client, text);
    }
  }

  void mark_done(std::int64_t rank) {
    bool all = false;
    {
      const std::scoped_lock lock(mutex_);
      if (rank == 0) {
        main_done_ = true;
      } else {
        machines_[rank].is_done = true;
      }
      all = main_done_;
      for (const auto& [number, machine] : machines_) {
        all = all && machine.is_done;
      }
    }
    if (all) {
      events_.set_all_done();
      broadcast("all_done", Json::object());
    }
  }

  void answer_idle_polls() {
    std::vector<std::uint64_t> idle;
    {
      const std::scoped_lock lock(mutex_);
      for (auto& [rank, machine] : machines_) {
        if (machine.is_polling &&
            Clock::now() - machine.poll_since > kPollInterval) {
          machine.is_polling = false;
          idle.push_back(machine.poll);
        }
      }
    }
    for (const std::uint64_t client : idle) {
      server_.answer(client, event_text("nothing"));
    }
  }

  void handle_disconnect(std::uint64_t client) {
    std::optional<std::int64_t> disconnected;
    std::string name;
    {
      const std::scoped_lock lock(mutex_);
      std::erase_if(
          early_, [&](const auto& entry) { return entry.first == client; });
      for (auto& [rank, machine] : machines_) {
        const bool is_client =
            machine.control == client || machine.poll == client;
        if (is_client && !machine.is_done) {
          disconnected = rank;
          name = machine.name;
          machine.is_polling = false;
        }
      }
      if (disconnected && is_open_) {
        remove_from_rendezvous(*disconnected, name);
        return;
      }
    }
    if (!disconnected) {
      return;
    }
    const Failure failure = disconnected_machine(
        name, *disconnected * shape_.local_processes, elapsed());
    events_.add_failure(failure);
    broadcast(
        "failure",
        Json::object({{"failure", failure_to_json(failure)}}),
        *disconnected);
    // The machine cannot report its failure itself.
    mark_done(*disconnected);
  }

  // Before the first start, the machine may join again. After the first start,
  // the job cannot continue without the machine.
  void remove_from_rendezvous(std::int64_t rank, const std::string& name) {
    rendezvous_.remove(rank);
    waiting_.erase(rank);
    if (generation_ == 0) {
      machines_.erase(rank);
    } else {
      disconnected_ = name;
      changed_.notify_all();
    }
  }

  void handle_refusal(const std::string& address, const std::string& reason) {
    {
      const std::scoped_lock lock(mutex_);
      rendezvous_.add_refusal(address, reason);
      // Warns once per IP address and reason.
      const std::string ip = address.substr(0, address.rfind(':'));
      if (warned_.size() >= 16 || !warned_.insert(ip + " " + reason).second) {
        return;
      }
    }
    warn_(str_cat("refused a connection from ", address, ": ", reason));
  }

  const LaunchPlan& plan_;
  MachineInfo machine_;
  const JobShape shape_;
  const Endpoint endpoint_;
  const std::uint16_t program_port_;
  const std::function<void(const std::string&)> warn_;
  const std::string secret_;
  StoreServer server_;
  ReservedPort port_;
  Clock::time_point start_ = Clock::now();

  // Recursive: `open_rendezvous` adds early machines. The server's lock is
  // always taken first.
  std::recursive_mutex mutex_;
  std::condition_variable_any changed_;
  MachineRendezvous rendezvous_;
  std::int64_t generation_ = -1;
  std::map<std::int64_t, Machine> machines_;
  std::map<std::int64_t, std::uint64_t> waiting_;
  std::vector<std::pair<std::uint64_t, MachineInfo>> early_;
  std::set<std::string> warned_;
  // The steps that each machine reported, by machine.
  std::map<std::int64_t, std::vector<RankStatus>> steps_;
  bool is_open_ = false;  // A rendezvous is in progress.
  bool is_cancelled_ = false;
  // The machine that disconnected during the rendezvous for a restart.
  std::string disconnected_;
  bool main_done_ = false;
};

}  // namespace

std::unique_ptr<ControlPlane> create_main_machine(
    const LaunchPlan& plan,
    const MachineInfo& machine,
    const MainMachineOptions& options,
    std::function<void(const std::string&)> warn) {
  return std::make_unique<MainMachine>(plan, machine, options, std::move(warn));
}

}  // namespace accelerate
