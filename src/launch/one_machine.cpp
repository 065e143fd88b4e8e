// SPDX-License-Identifier: Apache-2.0
// A job on one machine: there are no other machines to talk to.
#include "accelerate/error.h"
#include "base/str_cat.h"
#include "launch/control_plane.h"

namespace accelerate {
namespace {

class OneMachine : public ControlPlane {
 public:
  OneMachine(
      const LaunchPlan& plan,
      const StoreServerOptions& store,
      std::function<void(const std::string&)> warn)
      : plan_(plan),
        warn_(std::move(warn)),
        secret_(store.secret),
        server_(store) {}

  Generation start_generation(std::int64_t number) override {
    server_.start_generation(static_cast<std::uint32_t>(number));
    events_.reset();
    reserve_main_port();
    Generation generation;
    generation.number = number;
    generation.shape = JobShape::of(plan_.settings);
    generation.run_id = plan_.launch_id;
    generation.store = server_.endpoint(0).text();
    generation.store_secret = secret_;
    generation.main_port = std::to_string(port_.port);
    return generation;
  }
  void cancel() override {}

  void report_failure(const Failure&) override {}
  void report_done() override { events_.set_all_done(); }

  void abort_store(const std::string& reason) override {
    server_.abort(reason);
  }
  std::vector<RankStatus> store_status() const override {
    return server_.status();
  }
  std::vector<RankStatus> status() override { return store_status(); }

 private:
  // Reserves the port that rank 0 of the program may open.
  void reserve_main_port() {
    constexpr const char* kAddress = "127.0.0.1";
    port_ = ReservedPort();
    const auto wanted = static_cast<std::uint16_t>(
        plan_.settings.has("main_process_port")
            ? plan_.settings.integer("main_process_port")
            : 0);
    try {
      port_ = reserve_port(kAddress, wanted);
    } catch (const IoError&) {
      port_ = reserve_port(kAddress);
      warn_(str_cat(
          "port ",
          wanted,
          " (",
          plan_.settings.origin("main_process_port").text(),
          ") is in use; using ",
          port_.port,
          " instead"));
    }
  }

  const LaunchPlan& plan_;
  const std::function<void(const std::string&)> warn_;
  const std::string secret_;
  StoreServer server_;
  ReservedPort port_;
};

}  // namespace

std::unique_ptr<ControlPlane> create_one_machine(
    const LaunchPlan& plan,
    const StoreServerOptions& store,
    std::function<void(const std::string&)> warn) {
  return std::make_unique<OneMachine>(plan, store, std::move(warn));
}

}  // namespace accelerate
