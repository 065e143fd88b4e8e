// SPDX-License-Identifier: Apache-2.0
// Machine 0: the one that is met.
#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "launch/failure_json.h"
#include "launch/machine_events.h"
#include "launch/machines.h"
#include "launch/status_text.h"

namespace accelerate {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

class Host : public Machines {
 public:
  Host(const MachinesOptions& options, StoreServer& server)
      : options_(options), server_(server), meeting_(options.num_machines) {
    server_.on_exchange([this](const StoreServer::Exchange& exchange) {
      return handle(exchange);
    });
    server_.on_machine_lost(
        [this](std::uint64_t client) { handle_loss(client); });
    server_.on_refusal(
        [this](const std::string& address, const std::string& why) {
          handle_refusal(address, why);
        });
  }
  ~Host() override {
    server_.on_exchange(nullptr);
    server_.on_machine_lost(nullptr);
    server_.on_refusal(nullptr);
  }

  MeetingResult meet(std::int64_t restart, milliseconds timeout) override {
    open(restart);
    std::unique_lock lock(mutex_);
    (void)changed_.wait_for(lock, timeout, [this] {
      return meeting_.is_complete() || is_cancelled_ || !lost_.empty();
    });
    is_open_ = false;
    const bool complete = meeting_.is_complete() && lost_.empty();
    std::string problem;
    if (is_cancelled_ || !lost_.empty()) {
      problem = is_cancelled_ ? "machine 0 was interrupted"
                              : str_cat(
                                    "machine ",
                                    lost_,
                                    " was lost before the workers could be "
                                    "started again");
    } else if (!complete) {
      const double seconds = std::chrono::duration<double>(timeout).count();
      problem = meeting_.missing_text(where(), seconds);
    } else {
      problem = meeting_.difference_text();
    }
    const MeetingResult result = make_result();
    const auto waiting = std::exchange(waiting_, {});
    start_ = Clock::now();
    lock.unlock();
    answer_all(waiting, problem, complete, result);
    if (!complete) {
      throw DistributedError(problem, lost_.empty() ? missing_hint() : "");
    }
    if (!problem.empty()) {
      throw ConfigError(problem, "give every machine the same options");
    }
    return result;
  }

  int event_fd() const override { return events_.fd(); }
  std::optional<Failure> take_failure() override {
    return events_.take_failure();
  }
  bool all_done() override { return events_.all_done(); }

  void cancel_meeting() override {
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
      const auto asked = static_cast<std::ptrdiff_t>(peers_.size());
      return asked <=
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

 private:
  struct Peer {
    std::uint64_t control = 0;
    std::uint64_t poll = 0;
    Clock::time_point poll_since;
    bool is_polling = false;
    std::deque<std::string> events;
    bool is_done = false;
    std::string name;
  };

  std::string where() const {
    return str_cat(options_.endpoint.host, ":", options_.endpoint.port);
  }

  std::string missing_hint() const {
    return str_cat(
        "run the same command on the missing machines; they must reach ",
        where());
  }

  double elapsed() const {
    return std::chrono::duration<double>(Clock::now() - start_).count();
  }

  // Clears the table and lets in those who came early.
  void open(std::int64_t restart) {
    std::vector<std::pair<std::uint64_t, MachineCard>> early;
    {
      const std::scoped_lock lock(mutex_);
      restart_ = restart;
      is_open_ = true;
      meeting_ = Meeting(options_.num_machines);
      events_.reset();
      for (auto& [rank, peer] : peers_) {
        peer.is_done = false;
      }
      host_done_ = false;
      MachineCard card = options_.card;
      card.machine_rank = 0;
      card.address = where();
      (void)meeting_.add(card);
      early.swap(early_);
    }
    for (auto& [client, card] : early) {
      if (auto answer = enter(client, std::move(card))) {
        server_.answer(client, *answer);
      }
    }
  }

  MeetingResult make_result() const {
    MeetingResult result;
    result.machine_rank = 0;
    result.launch_id = options_.launch_id;
    result.main_host = options_.card.host;
    result.main_port = options_.reserve_port();
    for (const auto& [rank, card] : meeting_.machines()) {
      if (rank != 0) {
        result.other_address = card.address;
      }
    }
    return result;
  }

  void answer_all(
      const std::map<std::int64_t, std::uint64_t>& waiting,
      const std::string& problem,
      bool complete,
      const MeetingResult& result) {
    for (const auto& [rank, client] : waiting) {
      Json answer = Json::object();
      if (!problem.empty()) {
        answer["error"] = problem;
        answer["is_config"] = complete;
      } else {
        answer["machine_rank"] = rank;
        answer["launch_id"] = result.launch_id;
        answer["main_host"] = result.main_host;
        answer["main_port"] = result.main_port;
      }
      server_.answer(client, answer.dump());
    }
  }

  // On the server's thread.
  std::optional<std::string> handle(const StoreServer::Exchange& exchange) {
    try {
      const Json message = Json::parse(
          exchange.payload, {.source = exchange.address, .max_depth = 16});
      const std::string& type = message.at("type").as_string();
      if (type == "enter") {
        return take_enter(exchange, message);
      }
      const std::int64_t rank = message.at("rank").as_integer();
      if (type == "poll") {
        return take_poll(exchange.client, rank);
      }
      if (type == "status") {
        return status_for_others();
      }
      if (type == "steps") {
        take_steps(rank, message.at("ranks"));
      } else if (is_about_now(message)) {
        if (type == "fail") {
          take_failure_of(rank, message.at("failure"));
        } else if (type == "done") {
          mark_done(rank);
        }
      }
      return "{}";
    } catch (const Error& error) {
      return Json::object({{"error", error.what()}}).dump();
    }
  }

  bool is_about_now(const Json& message) {
    const std::scoped_lock lock(mutex_);
    return message.at("restart").as_integer() == restart_;
  }

  std::optional<std::string> take_enter(
      const StoreServer::Exchange& exchange, const Json& message) {
    MachineCard card = MachineCard::from_json(message.at("card"));
    card.address = exchange.address;
    const std::scoped_lock lock(mutex_);
    const std::int64_t restart = message.at("restart").as_integer();
    if (restart < restart_) {
      return Json::object({{"error", "the workers of this job run already"},
                           {"is_config", true}})
          .dump();
    }
    if (restart > restart_) {
      early_.emplace_back(exchange.client, std::move(card));
      return std::nullopt;
    }
    return enter(exchange.client, std::move(card));
  }

  std::optional<std::string> enter(std::uint64_t client, MachineCard card) {
    const std::scoped_lock lock(mutex_);
    const std::string name = str_cat(card.host, ", ", card.address);
    const Meeting::Entry entry = meeting_.add(std::move(card));
    if (!entry.error.empty()) {
      return Json::object({{"error", entry.error}, {"is_config", true}}).dump();
    }
    Peer& peer = peers_[entry.rank];
    peer.control = client;
    peer.name = str_cat(entry.rank, " (", name, ")");
    waiting_[entry.rank] = client;
    changed_.notify_all();
    return std::nullopt;
  }

  void take_steps(std::int64_t machine, const Json& ranks) {
    auto steps = status_from_json(ranks);
    const std::scoped_lock lock(mutex_);
    steps_[machine] = std::move(steps);
    changed_.notify_all();
  }

  // What the store knows, with the steps that machines have said.
  std::vector<RankStatus> merged_status() {
    auto ranks = server_.status();
    const std::scoped_lock lock(mutex_);
    std::map<std::uint32_t, std::int64_t> known;
    for (const auto& [machine, said] : steps_) {
      for (const RankStatus& one : said) {
        if (one.step) {
          known[one.rank] = *one.step;
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

  // Another machine asks. Its own steps it knows itself; ours are at hand,
  // those of a third are as old as its last answer.
  std::string status_for_others() {
    const std::scoped_lock lock(mutex_);
    steps_[0] = options_.local_steps();
    return Json::object({{"ranks", status_to_json(merged_status())}}).dump();
  }

  std::optional<std::string> take_poll(
      std::uint64_t client, std::int64_t rank) {
    const std::scoped_lock lock(mutex_);
    Peer& peer = peers_[rank];
    peer.poll = client;
    if (!peer.events.empty()) {
      std::string event = std::move(peer.events.front());
      peer.events.pop_front();
      return event;
    }
    peer.is_polling = true;
    peer.poll_since = Clock::now();
    return std::nullopt;
  }

  void take_failure_of(std::int64_t rank, const Json& json) {
    Failure failure = failure_from_json(json);
    events_.add_failure(std::move(failure));
    broadcast("failure", Json::object({{"failure", json}}), rank);
  }

  // Each event says which start of the workers it is about: it may be read
  // when the next has begun.
  void broadcast(const char* type, Json body, std::int64_t but = 0) {
    std::vector<std::uint64_t> ready;
    std::string text;
    {
      const std::scoped_lock lock(mutex_);
      body["restart"] = restart_;
      text = event_text(type, std::move(body));
      for (auto& [rank, peer] : peers_) {
        if (rank == but) {
          continue;
        }
        if (peer.is_polling) {
          peer.is_polling = false;
          ready.push_back(peer.poll);
        } else {
          peer.events.push_back(text);
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
        host_done_ = true;
      } else {
        peers_[rank].is_done = true;
      }
      all = host_done_;
      for (const auto& [number, peer] : peers_) {
        all = all && peer.is_done;
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
      for (auto& [rank, peer] : peers_) {
        if (peer.is_polling && Clock::now() - peer.poll_since > kPollInterval) {
          peer.is_polling = false;
          idle.push_back(peer.poll);
        }
      }
    }
    for (const std::uint64_t client : idle) {
      server_.answer(client, event_text("nothing"));
    }
  }

  void handle_loss(std::uint64_t client) {
    std::optional<std::int64_t> lost;
    std::string name;
    {
      const std::scoped_lock lock(mutex_);
      std::erase_if(
          early_, [&](const auto& entry) { return entry.first == client; });
      for (auto& [rank, peer] : peers_) {
        const bool is_his = peer.control == client || peer.poll == client;
        if (is_his && !peer.is_done) {
          lost = rank;
          name = peer.name;
          peer.is_polling = false;
        }
      }
      if (lost && is_open_) {
        leave_meeting(*lost, name);
        return;
      }
    }
    if (!lost) {
      return;
    }
    const Failure failure =
        lost_machine(name, *lost * options_.local_processes, elapsed());
    events_.add_failure(failure);
    broadcast(
        "failure",
        Json::object({{"failure", failure_to_json(failure)}}),
        *lost);
    // Nobody will say it for him.
    mark_done(*lost);
  }

  // Before the first start it may come again; after that it has lost its
  // place in the job.
  void leave_meeting(std::int64_t rank, const std::string& name) {
    meeting_.remove(rank);
    waiting_.erase(rank);
    if (restart_ == 0) {
      peers_.erase(rank);
    } else {
      lost_ = name;
      changed_.notify_all();
    }
  }

  void handle_refusal(const std::string& address, const std::string& why) {
    {
      const std::scoped_lock lock(mutex_);
      meeting_.add_refusal(address, why);
      // One line for each host and reason is enough for people.
      const std::string host = address.substr(0, address.rfind(':'));
      if (warned_.size() >= 16 || !warned_.insert(host + " " + why).second) {
        return;
      }
    }
    options_.warn(str_cat("refused ", address, ": ", why));
  }

  MachinesOptions options_;
  StoreServer& server_;
  MachineEvents events_;
  Clock::time_point start_ = Clock::now();

  // Recursive: opening a meeting lets early machines in. The server's own lock
  // is always taken first.
  std::recursive_mutex mutex_;
  std::condition_variable_any changed_;
  Meeting meeting_;
  std::int64_t restart_ = -1;
  std::map<std::int64_t, Peer> peers_;
  std::map<std::int64_t, std::uint64_t> waiting_;
  std::vector<std::pair<std::uint64_t, MachineCard>> early_;
  std::set<std::string> warned_;
  std::map<std::int64_t, std::vector<RankStatus>> steps_;  // By machine.
  bool is_open_ = false;  // A meeting is under way.
  bool is_cancelled_ = false;
  std::string lost_;  // Who left a meeting that cannot do without.
  bool host_done_ = false;
};

}  // namespace

std::unique_ptr<Machines> host_machines(
    const MachinesOptions& options, StoreServer& server) {
  return std::make_unique<Host>(options, server);
}

}  // namespace accelerate
