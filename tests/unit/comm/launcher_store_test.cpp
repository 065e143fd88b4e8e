// SPDX-License-Identifier: Apache-2.0
#include "comm/launcher_store.h"

#include <future>
#include <thread>

#include <unistd.h>

#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "launch/store_server.h"
#include "support/temporary_directory.h"

namespace accelerate {
namespace {

using std::chrono::milliseconds;

class LauncherStoreTest : public testing::Test {
 protected:
  LauncherStoreTest()
      : server_({
            .endpoints = {{true, socket_path(), 0}},
            .secret = "secret",
        }) {}

  static std::string socket_path() { return fresh_folder() / "launcher"; }

  c10::intrusive_ptr<LauncherStore> open(std::uint32_t rank) const {
    StoreClientOptions options;
    options.endpoint = server_.endpoint(0);
    options.secret = "secret";
    options.hello = {store::Role::worker, rank, 0};
    return c10::make_intrusive<LauncherStore>(options, milliseconds(20000));
  }

  StoreServer server_;
};

TEST_F(LauncherStoreTest, BehavesLikeAStore) {
  const auto store = open(0);

  store->set("key", std::string("value"));
  EXPECT_EQ(store->get_to_str("key"), "value");
  EXPECT_EQ(store->add("n", 2), 2);
  EXPECT_EQ(store->add("n", 3), 5);
  EXPECT_EQ(store->get_to_str("n"), "5");
  EXPECT_EQ(store->compareSet("key", "value", "new"), "new");
  EXPECT_TRUE(store->check({"key", "n"}));
  EXPECT_EQ(store->getNumKeys(), 2);
  EXPECT_TRUE(store->deleteKey("key"));
  EXPECT_FALSE(store->check({"key"}));
}

TEST_F(LauncherStoreTest, AWaitDoesNotBlockOtherCalls) {
  const auto store = open(0);
  auto waiting =
      std::async(std::launch::async, [&] { return store->get_to_str("late"); });
  while (server_.status().empty() || server_.status()[0].waiting_for.empty()) {
    std::this_thread::yield();
  }

  // Uses the same object while another thread waits in it.
  store->set("late", std::string("here"));

  EXPECT_EQ(waiting.get(), "here");
}

TEST_F(LauncherStoreTest, ATimeoutThrowsLibTorchsException) {
  const auto store = open(0);

  EXPECT_THROW(store->wait({"never"}, milliseconds(20)), c10::DistStoreError);
  EXPECT_EQ(store->getNumKeys(), 0);
}

TEST_F(LauncherStoreTest, AnAbortReportsTheReason) {
  const auto store = open(0);

  server_.abort("rank 1 killed by SIGSEGV");

  try {
    store->wait({"never"});
    FAIL() << "no error";
  } catch (const DistributedError& error) {
    EXPECT_STREQ(
        error.what(),
        "wait: the launcher is stopping this job: rank 1 killed by SIGSEGV");
  }
}

TEST_F(LauncherStoreTest, AClonePointsToTheSameKeys) {
  const auto store = open(0);
  store->set("a", std::string("1"));

  EXPECT_EQ(store->clone()->get_to_str("a"), "1");
}

TEST_F(LauncherStoreTest, TheLauncherSeesTheStatusOfARank) {
  const auto store = open(2);

  store->set_status("step 3");
  store->report_failure("std::bad_alloc");

  EXPECT_EQ(server_.status()[0].rank, 2U);
  EXPECT_EQ(server_.status()[0].status, "step 3");
  EXPECT_EQ(server_.status()[0].failure, "std::bad_alloc");
}

}  // namespace
}  // namespace accelerate
