// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "support/message_of.h"
#include "tracking/mlflow_tracker.h"
#include "unit/tracking/http_server.h"

namespace accelerate {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// Sets a variable of this process while it exists.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    ::setenv(name, value, 1);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { ::unsetenv(name_); }

 private:
  const char* name_;
};

// An MLflow server with the experiment `known` and the run `run-1`.
ServedReply mlflow_reply(const ServedRequest& request) {
  if (request.target.find("get-by-name?experiment_name=known") !=
      std::string::npos) {
    return {.body = "{\"experiment\": {\"experiment_id\": \"7\"}}"};
  }
  if (request.target.find("get-by-name") != std::string::npos) {
    return {.status = 404, .body = "{\"message\": \"no such experiment\"}"};
  }
  if (request.target.find("experiments/create") != std::string::npos) {
    return {.body = "{\"experiment_id\": \"8\"}"};
  }
  if (request.target.find("runs/search") != std::string::npos) {
    return {.body = "{\"runs\": [{\"info\": {\"run_id\": \"run-1\"}}]}"};
  }
  if (request.target.find("runs/create") != std::string::npos ||
      request.target.find("runs/get") != std::string::npos) {
    return {
        .body =
            "{\"run\": {\"info\": {\"run_id\": \"run-1\", \"artifact_uri\": "
            "\"mlflow-artifacts:/7/run-1/artifacts\"}, \"data\": "
            "{\"metrics\": [{\"key\": \"loss\", \"value\": 1, \"step\": "
            "3}]}}}"};
  }
  return {};
}

TrackerSetup mlflow_setup(
    const HttpServer& server, const std::string& project = "known") {
  TrackerSetup setup;
  setup.project = project;
  setup.run = "a run";
  setup.kwargs = Json::object({{"tracking_uri", server.address()}});
  return setup;
}

TrackedValues mlflow_values(
    std::int64_t step, std::vector<TrackedEntry> entries) {
  TrackedValues values;
  values.step = step;
  values.time_us = 1700000000123456;
  values.entries = std::move(entries);
  return values;
}

std::vector<Json> bodies(HttpServer& server, const std::string& part) {
  std::vector<Json> found;
  for (const ServedRequest& request : server.requests()) {
    if (request.target.find(part) != std::string::npos) {
      found.push_back(
          request.body.empty() ? Json() : Json::parse(request.body));
    }
  }
  return found;
}

TEST(Mlflow, SendsMetricsTagsAndParameters) {
  HttpServer server(mlflow_reply);
  MlflowTracker tracker;
  tracker.start(mlflow_setup(server));
  tracker.store_init_configuration(
      Json::object({{"lr", 0.1}, {"model", Json::object({{"n", "bert"}})}}));

  tracker.log(mlflow_values(
      2,
      {{"loss (%)", 0.5},
       {"bad", std::numeric_limits<double>::infinity()},
       {"note", std::string("text")}}));
  tracker.flush();
  tracker.finish();

  const auto created = bodies(server, "runs/create");
  ASSERT_EQ(created.size(), 1U);
  EXPECT_EQ(created[0].at("experiment_id").as_string(), "7");
  EXPECT_EQ(created[0].at("run_name").as_string(), "a run");
  const auto batches = bodies(server, "runs/log-batch");
  ASSERT_EQ(batches.size(), 2U);
  EXPECT_EQ(
      batches[0].at("params").dump(),
      "[{\"key\":\"lr\",\"value\":\"0.1\"},"
      "{\"key\":\"model/n\",\"value\":\"bert\"}]");
  EXPECT_EQ(
      batches[1].at("metrics").dump(),
      "[{\"key\":\"loss _x28__x25__x29_\",\"value\":0.5,"
      "\"timestamp\":1700000000123,\"step\":2},"
      "{\"key\":\"bad\",\"value\":\"Infinity\","
      "\"timestamp\":1700000000123,\"step\":2}]");
  EXPECT_EQ(
      batches[1].at("tags").dump(), "[{\"key\":\"note\",\"value\":\"text\"}]");
  EXPECT_EQ(
      bodies(server, "runs/update").at(0).at("status").as_string(), "FINISHED");
}

TEST(Mlflow, CreatesAnExperimentWithAnyName) {
  HttpServer server(mlflow_reply);
  MlflowTracker tracker;
  tracker.start(mlflow_setup(server, "team/a&b=c"));

  tracker.log(mlflow_values(0, {{"loss", 0.5}}));
  tracker.flush();

  EXPECT_THAT(
      server.requests().at(0).target,
      HasSubstr("experiment_name=team%2Fa%26b%3Dc"));
  EXPECT_EQ(
      bodies(server, "experiments/create").at(0).at("name").as_string(),
      "team/a&b=c");
  EXPECT_EQ(
      bodies(server, "runs/create").at(0).at("experiment_id").as_string(), "8");
}

TEST(Mlflow, DividesTenThousandKeysIntoRequests) {
  HttpServer server(mlflow_reply);
  MlflowTracker tracker;
  tracker.start(mlflow_setup(server));
  std::vector<TrackedEntry> entries;
  for (int i = 0; i < 10000; ++i) {
    entries.push_back({"key/" + std::to_string(i), 1.0});
  }

  tracker.log(mlflow_values(0, entries));
  tracker.flush();

  const auto batches = bodies(server, "runs/log-batch");
  EXPECT_EQ(batches.size(), 10U);
  for (const Json& batch : batches) {
    EXPECT_EQ(batch.at("metrics").size(), 1000U);
  }
}

TEST(Mlflow, SendsAStepThatGoesBack) {
  HttpServer server(mlflow_reply);
  MlflowTracker tracker;
  tracker.start(mlflow_setup(server));

  tracker.log(mlflow_values(5, {{"loss", 0.5}}));
  tracker.log(mlflow_values(3, {{"loss", 0.25}}));
  tracker.flush();

  const Json metrics = bodies(server, "runs/log-batch").at(0).at("metrics");
  ASSERT_EQ(metrics.size(), 2U);
  EXPECT_EQ(metrics.at(std::size_t{0}).at("step"), Json(5));
  EXPECT_EQ(metrics.at(std::size_t{1}).at("step"), Json(3));
}

TEST(Mlflow, ContinuesARunWithoutDuplicateSteps) {
  HttpServer server(mlflow_reply);
  MlflowTracker tracker;
  tracker.start(mlflow_setup(server));
  tracker.store_init_configuration(Json::object({{"lr", 0.1}}));

  tracker.resume(Json::object({{"run_id", "run-1"}}), 0);
  for (std::int64_t step = 2; step < 6; ++step) {
    tracker.log(mlflow_values(step, {{"loss", 0.5}}));
  }
  tracker.flush();

  EXPECT_TRUE(bodies(server, "runs/create").empty());
  const Json metrics = bodies(server, "log-batch").at(0).at("metrics");
  ASSERT_EQ(metrics.size(), 2U);
  EXPECT_EQ(metrics.at(std::size_t{0}).at("step").as_integer(), 4);
  EXPECT_EQ(tracker.state_dict().at("run_id").as_string(), "run-1");
}

TEST(Mlflow, FindsARunWhoseIdWasNotKnownAtTheCheckpoint) {
  HttpServer server(mlflow_reply);
  MlflowTracker saved;
  saved.start(mlflow_setup(server));
  const Json state = saved.state_dict();  // Before the first request.
  saved.log(mlflow_values(0, {{"loss", 0.5}}));
  saved.flush();
  MlflowTracker resumed;
  resumed.start(mlflow_setup(server));

  resumed.resume(state, 0);

  EXPECT_EQ(
      bodies(server, "runs/create").at(0).at("tags").dump(),
      "[{\"key\":\"accelerate.run\",\"value\":\"a run\"}]");
  EXPECT_EQ(
      bodies(server, "runs/search").at(0).at("filter").as_string(),
      "tags.`accelerate.run` = 'a run'");
  EXPECT_EQ(resumed.state_dict().at("run_id").as_string(), "run-1");
}

TEST(Mlflow, UploadsImagesAndTables) {
  HttpServer server(mlflow_reply);
  MlflowTracker tracker;
  tracker.start(mlflow_setup(server));
  TrackedImages images;
  images.step = 4;
  images.time_us = 5000;
  images.entries.push_back({"a/../b", {{1, 1, "png"}}});
  TrackedTable table;
  table.key = "t";
  table.columns = {"x"};
  table.rows = {{Json(1)}};

  tracker.log_images(images);
  tracker.log_table(table);
  tracker.flush();

  std::vector<std::string> uploads;
  for (const ServedRequest& request : server.requests()) {
    if (request.method == "PUT") {
      uploads.push_back(request.target + " " + request.body);
    }
  }
  EXPECT_THAT(
      uploads,
      ElementsAre(
          "/api/2.0/mlflow-artifacts/artifacts/7/run-1/artifacts/images/"
          "a~_..~b%2Bstep%2B4%2Btimestamp%2B5%2B0.png png",
          "/api/2.0/mlflow-artifacts/artifacts/7/run-1/artifacts/t-0.json "
          "{\"columns\":[\"x\"],\"data\":[[1]]}"));
}

TEST(Mlflow, SendsThePasswordOnlyToTheChosenServer) {
  const Variable token("MLFLOW_TRACKING_TOKEN", "secret-token");
  HttpServer other([](const ServedRequest&) { return ServedReply{}; });
  HttpServer server([&](const ServedRequest&) {
    return ServedReply{
        .status = 302,
        .body = "",
        .headers = "Location: " + other.address() + "/x\r\n"};
  });
  MlflowTracker tracker;
  tracker.start(mlflow_setup(server));
  tracker.log(mlflow_values(0, {{"loss", 0.5}}));

  const std::string message = message_of<IoError>([&] { tracker.flush(); });

  EXPECT_THAT(
      message, HasSubstr("status 302, a redirect, which is not followed"));
  EXPECT_THAT(message, Not(HasSubstr("secret")));
  EXPECT_THAT(
      server.requests().at(0).headers,
      HasSubstr("Authorization: Bearer secret-token"));
  EXPECT_TRUE(other.requests().empty());
}

TEST(Mlflow, RepeatsRequestsThatFailForAMoment) {
  std::atomic<int> failures = 1;
  HttpServer server([&](const ServedRequest& request) {
    if (request.target.find("log-batch") != std::string::npos &&
        failures-- > 0) {
      return ServedReply{.status = 503};
    }
    return mlflow_reply(request);
  });
  MlflowTracker tracker;
  tracker.start(mlflow_setup(server));

  tracker.log(mlflow_values(0, {{"loss", 0.5}}));
  tracker.flush();

  EXPECT_EQ(bodies(server, "log-batch").size(), 2U);
}

TEST(Mlflow, SaysWhatTheServerRefused) {
  HttpServer server([](const ServedRequest&) {
    return ServedReply{.status = 401, .body = "{\"message\": \"who are you\"}"};
  });
  MlflowTracker tracker;
  tracker.start(mlflow_setup(server));
  tracker.log(mlflow_values(0, {{"loss", 0.5}}));

  EXPECT_EQ(
      message_of<IoError>([&] { tracker.flush(); }),
      "the MLflow server answered the request `experiments/get-by-name` with "
      "status 401: who are you");
}

TEST(Mlflow, SaysThatTheServerCannotBeReached) {
  TrackerSetup setup;
  setup.project = "p";
  {
    const HttpServer closed(mlflow_reply);
    setup.kwargs = Json::object({{"tracking_uri", closed.address()}});
  }
  MlflowTracker tracker;
  tracker.start(setup);
  tracker.log(mlflow_values(0, {{"loss", 0.5}}));

  EXPECT_THAT(
      message_of<ServerUnreachable>([&] { tracker.flush(); }),
      HasSubstr("http://127.0.0.1:"));
}

TEST(Mlflow, ChecksTheAddressOfTheServer) {
  const auto start_with = [](const std::string& uri) {
    return [uri] {
      TrackerSetup setup;
      setup.kwargs = Json::object({{"tracking_uri", uri}});
      MlflowTracker().start(setup);
    };
  };

  EXPECT_EQ(
      message_of<ArgumentError>(start_with("")),
      "tracker `mlflow` needs the address of a server");
  EXPECT_EQ(
      message_of<UnsupportedError>(start_with("file:///tmp/mlruns")),
      "tracker `mlflow` cannot use the address `file:///tmp/mlruns`");
  const std::string message =
      message_of<ArgumentError>(start_with("http://me:secret@localhost:5000"));
  EXPECT_EQ(message, "the address of the MLflow server contains a password");
}

}  // namespace
}  // namespace accelerate
