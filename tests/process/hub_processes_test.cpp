// SPDX-License-Identifier: Apache-2.0
// Downloads by several processes: two at the same time, one that is killed.
#include <csignal>
#include <thread>

#include "base/files.h"
#include "process/hub_fixture.h"
#include "support/command.h"

namespace transformers::hub {
namespace {

accelerate::test::CommandOptions client(
    const std::map<std::string, std::string>& environment) {
  accelerate::test::CommandOptions options;
  options.argv = {ACCELERATE_HUB_CLIENT, "org/model"};
  options.environment = environment;
  return options;
}

TEST_F(Hub, IsConfiguredByTheEnvironment) {
  serve(Json::object({{"token", "hf_file"}}));
  folder.write("token", "hf_file\n");

  const auto result = run_command(client(environment()));

  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  expect_model(result.out.substr(0, result.out.size() - 1));
}

// 0.0.0.0 also reaches this machine, but is not a loopback address.
TEST_F(Hub, WarnsThatATokenIsNotEncrypted) {
  HubServer& server = serve(Json::object({{"token", "hf_secret"}}));
  auto variables = environment();
  variables["HF_TOKEN"] = "hf_secret";
  variables["HF_ENDPOINT"] = str_cat("http://0.0.0.0:", server.port());

  const auto result = run_command(client(variables));

  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(
      result.err,
      str_cat(
          "warning: HF_ENDPOINT is http://0.0.0.0:",
          server.port(),
          ": the token and the files are sent unencrypted, so others on the "
          "network can read the token and change the files\n"));
}

TEST_F(Hub, OneOfTwoProcessesDownloadsAndTheOtherWaits) {
  // The download pauses halfway until both processes have sent a HEAD request,
  // so the second process finds the lock taken.
  HubServer& server = serve(Json::object({{"wait_for_heads", 2}}));
  std::vector<accelerate::test::CommandResult> results(2);
  {
    std::vector<std::jthread> threads;
    for (auto& result : results) {
      threads.emplace_back(
          [&] { result = run_command(client(environment())); });
    }
  }

  for (const auto& result : results) {
    EXPECT_EQ(result.exit_code, 0) << result.err;
    expect_model(result.out.substr(0, result.out.size() - 1));
  }
  int downloads = 0;
  for (const Json& request : server.requests("model.safetensors")) {
    downloads += request.at("method").as_string() == "GET" ? 1 : 0;
  }
  EXPECT_EQ(downloads, 1);
}

TEST_F(Hub, ResumesTheDownloadOfAKilledProcess) {
  HubServer& server = serve(Json::object({{"hang_after", 60'000}}));
  auto killed = client(environment());
  killed.watch = [&](pid_t pid, const std::string&) {
    std::error_code error;
    for (const auto& entry :
         fs::directory_iterator(model_folder() / "blobs", error)) {
      if (entry.path().extension() == ".incomplete" &&
          entry.file_size(error) == 60'000) {
        ::kill(pid, SIGKILL);
        return true;
      }
    }
    return false;
  };
  EXPECT_EQ(run_command(killed).exit_code, 128 + SIGKILL);

  const auto result = run_command(client(environment()));

  EXPECT_EQ(result.exit_code, 0) << result.err;
  expect_model(result.out.substr(0, result.out.size() - 1));
  EXPECT_EQ(
      server.requests("model.safetensors").back().at("range"),
      Json("bytes=60000-"));
}

TEST_F(Hub, PrintsAHint) {
  serve();
  auto options = client(environment());
  options.environment["HF_HUB_OFFLINE"] = "1";

  const auto result = run_command(options);

  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("hint: unset HF_HUB_OFFLINE"));
}

}  // namespace
}  // namespace transformers::hub
