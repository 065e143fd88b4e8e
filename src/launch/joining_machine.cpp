// SPDX-License-Identifier: Apache-2.0
// A machine that joins machine 0.
#include <algorithm>
#include <atomic>
#include <future>
#include <mutex>
#include <thread>

#include <sys/socket.h>

#include "accelerate/error.h"
#include "base/store_client.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "base/thread_without_signals.h"
#include "launch/control_plane.h"
#include "launch/failure_json.h"
#include "launch/machine_events.h"
#include "launch/secret.h"
#include "launch/status_text.h"

namespace accelerate {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// How long to keep trying after a machine with a different secret answered.
// That machine may belong to another user's job.
constexpr std::chrono::seconds kWrongSecret{10};

class JoiningMachine : public ControlPlane {
 public:
  JoiningMachine(
      const LaunchPlan& plan, const MachineInfo& machine, MainAddress main)
      : plan_(plan),
        machine_(machine),
        main_(std::move(main)),
        endpoint_(main_.endpoint(0)) {}
  ~JoiningMachine() override {
    stopping_ = true;
    if (is_sending()) {
      ::shutdown(control_->socket(), SHUT_RDWR);
    }
    if (poller_ != nullptr) {
      ::shutdown(poller_->socket(), SHUT_RDWR);
    }
    if (thread_.joinable()) {
      thread_.join();
    }
  }

  Generation start_generation(std::int64_t number) override {
    const milliseconds timeout = rendezvous_timeout(plan_.settings);
    search_start_ = Clock::now();
    const auto deadline = search_start_ + timeout;
    if (last_send_.valid()) {
      last_send_.wait();
    }
    reset_events(number);
    const Json answer = control_ == nullptr ? find_machine_0(number, deadline)
                                            : join(number, deadline);
    if (const Json* error = answer.find("error")) {
      const Json* is_config = answer.find("is_config");
      if (is_config != nullptr && is_config->as_bool()) {
        throw ConfigError(error->as_string(), refusal_hint(answer));
      }
      throw DistributedError(error->as_string());
    }
    rank_ = answer.at("machine_rank").as_integer();
    machine_.machine_rank = rank_;
    start_ = Clock::now();
    if (poller_ == nullptr) {
      search_start_ = Clock::now();
      poller_ = connect(search_start_ + kAnswerTimeout);
      thread_ = start_thread_without_signals([this] { poll(); });
    }
    return make_generation(number, answer);
  }

  void report_failure(const Failure& failure) override {
    send_async(Json::object(
        {{"type", "fail"},
         {"rank", rank_.load()},
         {"restart", generation_},
         {"failure", failure_to_json(failure)}}));
  }
  void report_done() override {
    send_async(Json::object(
        {{"type", "done"}, {"rank", rank_.load()}, {"restart", generation_}}));
  }

  void abort_store(const std::string&) override {}
  std::vector<RankStatus> store_status() const override { return {}; }

  std::vector<RankStatus> status() override {
    constexpr milliseconds kSecond{1000};
    if (is_sending()) {
      return {};
    }
    try {
      const Json answer =
          ask(*control_,
              Json::object({{"type", "status"}, {"rank", rank_.load()}}),
              kSecond);
      return status_from_json(answer.at("ranks"));
    } catch (const Error&) {
      // Machine 0 has exited or is busy; the local status is still shown.
      return {};
    }
  }

  void cancel() override {
    const std::scoped_lock lock(mutex_);
    is_cancelled_ = true;
    if (control_ != nullptr) {
      ::shutdown(control_->socket(), SHUT_RDWR);
    }
  }

 private:
  void reset_events(std::int64_t generation) {
    const std::scoped_lock lock(mutex_);
    generation_ = generation;
    events_.reset();
  }

  void keep_control(std::unique_ptr<StoreClient> control) {
    const std::scoped_lock lock(mutex_);
    control_ = std::move(control);
    if (is_cancelled_) {
      throw DistributedError("the rendezvous was canceled");
    }
  }

  void drop_control() {
    const std::scoped_lock lock(mutex_);
    control_.reset();
  }

  Generation make_generation(std::int64_t number, const Json& answer) const {
    Generation generation;
    generation.number = number;
    generation.shape = JobShape::of(plan_.settings).on_machine(rank_);
    generation.run_id = answer.at("launch_id").as_string();
    generation.store = endpoint_.text();
    generation.store_secret = secret_;
    generation.main_address = plan_.settings.flag("same_network")
                                  ? endpoint_.address
                                  : answer.at("main_hostname").as_string();
    generation.main_port = answer.at("main_port").as_string();
    generation.network_interface = interface_towards(endpoint_);
    return generation;
  }

  // Called only after machine 0 has answered, because machine 0 may create the
  // secret in a shared home folder. If there is no secret, this machine still
  // reports that to machine 0 and then stops.
  std::string find_secret() {
    secret_error_.reset();
    try {
      secret_ = existing_job_secret(plan_.settings, plan_.environment);
      return secret_;
    } catch (const ConfigError& error) {
      secret_error_ = error;
      return "";
    }
  }

  Json join(std::int64_t number, Clock::time_point deadline) {
    return ask(
        *control_,
        Json::object(
            {{"type", "join"},
             {"restart", number},
             {"machine", machine_.to_json()}}),
        // Machine 0 has the same timeout, and then answers with a table of the
        // missing machines.
        time_until(deadline) + kAnswerTimeout);
  }

  static bool is_stranger(const Json& answer) {
    const Json* found = answer.find("is_stranger");
    return found != nullptr && found->as_bool();
  }

  static std::string refusal_hint(const Json& answer) {
    return is_stranger(answer)
               ? "use a different `--main_process_port` for each Slurm step"
               : "";
  }

  // Tries the ports one after another. Machine 0 may not have started yet, and
  // machines of other jobs may listen on some of the ports.
  Json find_machine_0(std::int64_t number, Clock::time_point deadline) {
    const std::size_t num_ports = main_.ports.size();
    for (std::size_t i = 0;; i = (i + 1) % num_ports) {
      endpoint_ = main_.endpoint(i);
      if (auto control = connect_once(deadline)) {
        keep_control(std::move(control));
        Json answer = join(number, deadline);
        if (num_ports == 1 || !is_stranger(answer)) {
          return answer;
        }
        last_problem_ = answer.at("error").as_string();
        drop_control();
      }
      if (i + 1 == num_ports) {
        wait_for_next_round(deadline);
      }
    }
  }

  std::unique_ptr<StoreClient> connect(Clock::time_point deadline) {
    while (true) {
      if (auto client = connect_once(deadline)) {
        return client;
      }
      wait_for_next_round(deadline);
    }
  }

  void wait_for_next_round(Clock::time_point deadline) const {
    if (Clock::now() < deadline && !is_cancelled_) {
      std::this_thread::sleep_for(milliseconds(100));
      return;
    }
    throw DistributedError(
        str_cat(
            "machine 0 did not answer within ",
            format_seconds(
                std::chrono::duration<double>(deadline - search_start_)
                    .count()),
            main_.ports.size() == 1 ? "" : str_cat(" at ", main_.text()),
            ": ",
            last_problem_),
        "run the same command on machine 0, and check that this machine can "
        "reach it");
  }

  // Returns null if no machine answers now.
  std::unique_ptr<StoreClient> connect_once(Clock::time_point deadline) {
    try {
      return std::make_unique<StoreClient>(client_options(deadline));
    } catch (const ConfigError& error) {
      // Machine 0 has rejected this machine and reports the rejection as well.
      // If there are several ports, the machine that answered may belong to
      // another user.
      if (secret_error_) {
        throw ConfigError(*secret_error_);
      }
      if (main_.ports.size() == 1 ||
          Clock::now() >= search_start_ + kWrongSecret) {
        throw;
      }
      last_problem_ = error.what();
    } catch (const IoError& error) {
      last_problem_ = error.what();
    }
    return nullptr;
  }

  StoreClientOptions client_options(Clock::time_point deadline) {
    StoreClientOptions options;
    options.endpoint = endpoint_;
    options.run_id = control_ == nullptr ? "" : control_->options().run_id;
    options.find_secret = [this] { return find_secret(); };
    options.hello = {
        store::Role::machine,
        static_cast<std::uint32_t>(
            std::max<std::int64_t>(0, machine_.machine_rank)),
        0};
    // A firewall that drops packets on one of several ports must not use up the
    // whole timeout.
    const milliseconds longest =
        main_.ports.size() == 1 ? kAnswerTimeout : milliseconds(2000);
    options.connect_timeout =
        std::min(longest, time_until(deadline) + milliseconds(1));
    return options;
  }

  static milliseconds time_until(Clock::time_point deadline) {
    return std::max(
        milliseconds(0),
        std::chrono::duration_cast<milliseconds>(deadline - Clock::now()));
  }

  static Json ask(
      StoreClient& client, const Json& message, milliseconds timeout) {
    return Json::parse(
        client.exchange(message.dump(), timeout), {.source = "machine 0"});
  }

  // Sends messages in order but does not block, so that signals can be handled
  // in the meantime. If machine 0 has disconnected, `poll` reports it.
  void send_async(const Json& message) {
    last_send_ = std::async(
        std::launch::async,
        [this, message, previous = std::move(last_send_)]() mutable {
          if (previous.valid()) {
            previous.wait();
          }
          try {
            (void)ask(*control_, message, kAnswerTimeout);
          } catch (const Error&) {
            events_.set_all_done();
          }
        });
  }

  bool is_sending() const {
    return last_send_.valid() && last_send_.wait_for(std::chrono::seconds(0)) !=
                                     std::future_status::ready;
  }

  void poll() {
    try {
      while (!stopping_) {
        const Json event =
            ask(*poller_,
                Json::object({{"type", "poll"}, {"rank", rank_.load()}}),
                kAnswerTimeout);
        handle_event(event);
      }
    } catch (const Error&) {
      if (!stopping_ && !events_.all_done()) {
        events_.add_failure(disconnected_machine(
            str_cat("0 (", endpoint_.address, ":", endpoint_.port, ")"),
            0,
            std::chrono::duration<double>(Clock::now() - start_).count()));
        events_.set_all_done();
      }
    }
  }

  void handle_event(const Json& event) {
    const std::string& type = event.at("type").as_string();
    if (type == "steps_wanted") {
      send_steps();
      return;
    }
    if (type == "nothing") {
      return;
    }
    const std::scoped_lock lock(mutex_);
    if (event.at("restart").as_integer() != generation_) {
      return;
    }
    if (type == "failure") {
      events_.add_failure(failure_from_json(event.at("failure")));
    } else if (type == "all_done") {
      events_.set_all_done();
    }
  }

  void send_steps() {
    (void)ask(
        *poller_,
        Json::object(
            {{"type", "steps"},
             {"rank", rank_.load()},
             {"ranks", status_to_json(local_steps(plan_, rank_))}}),
        kAnswerTimeout);
  }

  const LaunchPlan& plan_;
  MachineInfo machine_;
  const MainAddress main_;
  Endpoint endpoint_;  // The port where machine 0 was found.
  std::string last_problem_;
  Clock::time_point search_start_ = Clock::now();
  std::string secret_;
  // The reason why there is no secret.
  std::optional<ConfigError> secret_error_;
  std::atomic<std::int64_t> rank_ = -1;
  Clock::time_point start_ = Clock::now();
  // Guards `generation_`, and `control_` while another thread may cancel.
  std::mutex mutex_;
  std::int64_t generation_ = 0;
  std::atomic<bool> is_cancelled_ = false;
  std::unique_ptr<StoreClient> control_;
  std::unique_ptr<StoreClient> poller_;
  std::future<void> last_send_;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<ControlPlane> create_joining_machine(
    const LaunchPlan& plan, const MachineInfo& machine, MainAddress main) {
  return std::make_unique<JoiningMachine>(plan, machine, std::move(main));
}

}  // namespace accelerate
