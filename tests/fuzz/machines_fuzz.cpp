// SPDX-License-Identifier: Apache-2.0
// Two machines exchange messages, and one of them sends arbitrary messages. The
// tested machine is machine 0 or a joining machine; the first line of an input
// selects which. Both machines have the secret. The other lines are the
// messages; a line `start` begins the next generation.
#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <future>
#include <list>
#include <mutex>
#include <optional>
#include <string>

#include <sys/socket.h>

#include "accelerate/error.h"
#include "base/hmac.h"
#include "base/store_client.h"
#include "base/text.h"
#include "launch/control_plane.h"
#include "launch/failure.h"
#include "launch/status_text.h"
#include "tests/fuzz/input.h"
#include "tests/support/temporary_directory.h"

namespace {

using namespace accelerate;
using std::chrono::milliseconds;
using Lines = std::deque<std::string>;

constexpr const char* kSecret = "a secret of this test";
// After this time without an answer, the sender waits for the answer in the
// background and sends the next message.
constexpr milliseconds kAnswerPause{2};
constexpr milliseconds kStartPause{10};
constexpr std::size_t kMaxLines = 32;

const std::filesystem::path& folder() {
  static const TemporaryDirectory directory;
  return directory.path();
}

LaunchPlan make_plan(int machine_rank, std::uint16_t port) {
  LaunchPlan plan;
  plan.environment = Environment(
      std::map<std::string, std::string>{{"ACCELERATE_JOB_SECRET", kSecret}});
  plan.hardware.cores = 2;
  plan.hardware.hostname = "machine";
  for (const auto& [name, value] : std::map<std::string, std::string>{
           {"use_cpu", "1"},
           {"num_machines", "2"},
           {"num_processes", "4"},
           {"main_process_ip", "127.0.0.1"},
           {"main_process_port", std::to_string(port)},
           {"machine_rank", std::to_string(machine_rank)},
           {"rdzv_timeout", "5"}}) {
    plan.settings.apply_flag(*find_setting(name), value, name);
  }
  complete_settings(plan.settings, plan.hardware, plan.environment);
  plan.argv = {"./train"};
  plan.launch_id = "launch";
  plan.files.folder = folder();
  return plan;
}

// Starts a generation if its rendezvous is complete. Returns whether it is.
bool start(ControlPlane& machine, std::int64_t number) {
  auto generation = std::async(std::launch::async, [&machine, number] {
    return machine.start_generation(number);
  });
  if (generation.wait_for(kStartPause) != std::future_status::ready) {
    machine.cancel();
  }
  try {
    (void)generation.get();
    return true;
  } catch (const Error&) {
    return false;  // A machine is missing or has different settings.
  }
}

// Reads the events that the launcher would print.
void read_events(ControlPlane& machine) {
  if (const auto failure = machine.events().take_failure()) {
    (void)failure_title(*failure);
    (void)failure_body(*failure);
    (void)failure_hints(*failure);
  }
  (void)machine.events().all_done();
  (void)status_text(1, 4, {}, machine.store_status());
}

// A machine that sends messages to machine 0. An answer may come later, or
// never; the next message then uses another connection.
class Sender {
 public:
  explicit Sender(Endpoint endpoint) {
    options_.endpoint = std::move(endpoint);
    options_.secret = kSecret;
    options_.hello = {store::Role::machine, 1, 0};
  }
  ~Sender() {
    for (const auto& client : clients_) {
      ::shutdown(client->socket(), SHUT_RDWR);
    }
  }

  void send(const std::string& message) {
    if (!is_free_) {
      clients_.push_back(std::make_unique<StoreClient>(options_));
    }
    StoreClient& client = *clients_.back();
    auto answer = std::async(std::launch::async, [&client, message] {
      try {
        (void)client.exchange(message, milliseconds(0));
      } catch (const Error&) {
        // The connection was closed.
      }
    });
    is_free_ = answer.wait_for(kAnswerPause) == std::future_status::ready;
    if (!is_free_) {
      answers_.push_back(std::move(answer));
    }
  }

 private:
  StoreClientOptions options_;
  // Destroyed after `answers_`, whose threads use the connections.
  std::list<std::unique_ptr<StoreClient>> clients_;
  std::list<std::future<void>> answers_;
  bool is_free_ = false;
};

void machine_0_hears(const Lines& lines) {
  static const LaunchPlan plan = make_plan(0, 29500);
  static const Endpoint endpoint = {true, folder() / "store", 0};
  std::filesystem::remove(endpoint.address);
  StoreServerOptions options;
  options.endpoints = {endpoint};
  options.secret = kSecret;
  options.expects_machines = true;
  const auto machine = create_main_machine(
      plan,
      {0, "machine", "", "", Json::object({{"version", "1"}})},
      {options, endpoint},
      [](const std::string&) {});
  {
    Sender sender(endpoint);
    std::int64_t generation = 0;
    for (const std::string& line : lines) {
      if (line != "start") {
        sender.send(line);
      } else if (generation < 3) {
        (void)start(*machine, generation++);
      }
    }
    machine->report_done();
    machine->tick();
  }
  read_events(*machine);
}

// The store of machine 0. It answers each request from the joining machine with
// the next line, and stops answering when no line is left.
class Answers {
 public:
  explicit Answers(Lines lines) : lines_(std::move(lines)) {}

  std::optional<std::string> next() {
    const std::scoped_lock lock(mutex_);
    if (lines_.empty()) {
      are_used_ = true;
      changed_.notify_all();
      return std::nullopt;
    }
    std::string line = std::move(lines_.front());
    lines_.pop_front();
    return line;
  }
  // Waits until the machine has used all answers or has given up.
  void wait(const MachineEvents& events) {
    std::unique_lock lock(mutex_);
    for (int i = 0; i < 1000 && !are_used_ && !events.all_done(); ++i) {
      (void)changed_.wait_for(lock, milliseconds(1));
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Lines lines_;
  bool are_used_ = false;
};

StoreServer& open_server() {
  // At exit, OpenSSL must release the memory of its threads after the server's
  // thread has ended.
  [[maybe_unused]] static const Digest openssl_is_ready = hmac_sha256("", "");
  static StoreServer server({{{false, "127.0.0.1", 0}}, kSecret});
  return server;
}

void joining_machine_hears(const Lines& lines) {
  StoreServer& server = open_server();
  static const LaunchPlan plan = make_plan(1, server.endpoint(0).port);
  Answers answers(lines);
  server.on_exchange(
      [&](const StoreServer::Exchange&) { return answers.next(); });
  {
    const auto machine = create_joining_machine(
        plan,
        {1, "machine", "", "", {}},
        {"127.0.0.1", {server.endpoint(0).port}, ""});
    if (start(*machine, 0)) {
      machine->report_failure(Failure{});
      answers.wait(machine->events());
    }
    read_events(*machine);
  }
  server.on_exchange([](const auto&) { return std::nullopt; });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(
    const std::uint8_t* data, std::size_t size) {
  const auto texts = split({reinterpret_cast<const char*>(data), size}, '\n');
  Lines lines(texts.begin(), texts.end());
  lines.resize(std::min(lines.size(), kMaxLines));
  const std::string listener = lines.front();
  lines.pop_front();
  if (listener == "machine 0 hears") {
    machine_0_hears(lines);
  } else if (listener == "machine 1 hears") {
    joining_machine_hears(lines);
  }
  return 0;
}
