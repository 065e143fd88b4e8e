// SPDX-License-Identifier: Apache-2.0
#include "launch/store_server.h"

#include <filesystem>
#include <future>
#include <thread>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "base/hmac.h"
#include "base/store_client.h"
#include "support/temporary_directory.h"

namespace accelerate {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kLong{20000};

class StoreServerTest : public testing::Test {
 protected:
  StoreServerTest()
      : server_({
            .endpoints = {{true, path(), 0}, {false, "127.0.0.1", 0}},
            .secret = "secret",
            .run_id = "run 1",
            .hello_timeout = milliseconds(300),
            .max_unauthenticated = 4,
        }) {}

  static std::string path() { return fresh_folder() / "store"; }

  StoreClientOptions options(
      std::uint32_t rank, std::uint32_t generation = 0) const {
    StoreClientOptions result;
    result.endpoint = server_.endpoint(0);
    result.secret = "secret";
    result.hello = {store::Role::worker, rank, generation};
    return result;
  }

  static std::string error_of(const std::function<void()>& action) {
    try {
      action();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  StoreServer server_;
};

TEST_F(StoreServerTest, StoresValues) {
  StoreClient client(options(0));

  client.set("a", "1");
  client.set("binary", std::string("\0\xff", 2));
  client.append("a", "2");

  EXPECT_EQ(client.get("a", kLong), "12");
  EXPECT_EQ(client.get("binary", kLong), std::string("\0\xff", 2));
  EXPECT_EQ(client.count(), 2);
  EXPECT_TRUE(client.check({"a", "binary"}));
  EXPECT_FALSE(client.check({"a", "missing"}));
  EXPECT_TRUE(client.erase("a"));
  EXPECT_FALSE(client.erase("a"));
}

TEST_F(StoreServerTest, AddsFromManyClients) {
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < 8; ++rank) {
    threads.emplace_back([this, rank] {
      StoreClient client(options(rank));
      for (int i = 0; i < 100; ++i) {
        client.add("n", 1);
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  StoreClient client(options(0));

  EXPECT_EQ(client.add("n", 0), 800);
  EXPECT_EQ(client.get("n", kLong), "800");
}

TEST_F(StoreServerTest, ComparesAndSets) {
  StoreClient client(options(0));

  EXPECT_EQ(client.compare_set("k", "", "first"), "first");
  EXPECT_EQ(client.compare_set("k", "other", "second"), "first");
  EXPECT_EQ(client.compare_set("k", "first", "second"), "second");
  EXPECT_EQ(client.compare_set("absent", "x", "y"), "x");
}

TEST_F(StoreServerTest, WaitsUntilAllKeysExist) {
  StoreClient setter(options(0));
  auto waiting = std::async(std::launch::async, [this] {
    StoreClient client(options(1));
    client.wait({"a", "b", "c"}, kLong);
    return client.get("b", kLong);
  });

  setter.set("b", "B");
  setter.set("c", "C");
  setter.set("a", "A");

  EXPECT_EQ(waiting.get(), "B");
}

TEST_F(StoreServerTest, ATimeoutNamesTheMissingKey) {
  StoreClient client(options(0));
  client.set("a", "");

  EXPECT_EQ(
      error_of([&] { client.wait({"a", "b"}, milliseconds(50)); }),
      "wait: key `b` was not set within 50 ms");
  EXPECT_EQ(client.count(), 1) << "the connection stays usable";
}

TEST_F(StoreServerTest, AnAbortEndsAllWaits) {
  auto waiting = std::async(std::launch::async, [this] {
    StoreClient client(options(1));
    return error_of([&] { client.get("never", kLong); });
  });
  while (server_.status().empty() || server_.status()[0].waiting_for.empty()) {
    std::this_thread::yield();
  }
  EXPECT_EQ(server_.status()[0].waiting_for, "never");

  server_.abort("rank 0 exited with code 1");

  EXPECT_EQ(
      waiting.get(),
      "get: the launcher is stopping this job: rank 0 exited with code 1");
  StoreClient late(options(2));
  EXPECT_EQ(
      error_of([&] { late.set("a", "b"); }),
      "set: the launcher is stopping this job: rank 0 exited with code 1");
}

TEST_F(StoreServerTest, ANewGenerationClearsKeysAndRejectsOldClients) {
  StoreClient old(options(0));
  old.set("a", "old");

  server_.start_generation(1);

  StoreClient fresh(options(0, 1));
  EXPECT_FALSE(fresh.check({"a"}));
  EXPECT_EQ(
      error_of([&] { old.set("a", "again"); }),
      "set: this process was started before the launcher restarted the "
      "workers");
  EXPECT_NE(
      error_of([&] {
        StoreClient late(options(0, 0));
      }).find("earlier generation"),
      std::string::npos);
}

TEST_F(StoreServerTest, RefusesAWrongSecret) {
  std::promise<std::string> refused;
  server_.on_refusal([&](const std::string&, const std::string& reason) {
    refused.set_value(reason);
  });
  auto wrong = options(0);
  wrong.endpoint = server_.endpoint(1);
  wrong.secret = "guess";

  EXPECT_NE(
      error_of([&] {
        StoreClient client(wrong);
      }).find("rejected this process's secret"),
      std::string::npos);
  EXPECT_EQ(refused.get_future().get(), "wrong secret");
}

TEST_F(StoreServerTest, DistinguishesAMissingSecretFromAWrongOne) {
  std::promise<std::string> refused;
  server_.on_refusal([&](const std::string&, const std::string& reason) {
    refused.set_value(reason);
  });
  auto without = options(0);
  without.endpoint = server_.endpoint(1);
  without.secret = "";

  EXPECT_NE(error_of([&] { StoreClient client(without); }), "no error");
  EXPECT_EQ(refused.get_future().get(), "the client has no secret");
}

// A server that signs with the empty key, as a client without a secret would.
TEST(StoreClientWithoutSecret, TrustsNoServer) {
  const UniqueFd listener = listen_on({false, "127.0.0.1", 0});
  const Endpoint endpoint{false, "127.0.0.1", bound_port(listener.get())};
  auto impostor = std::async(std::launch::async, [&] {
    pollfd waiting{listener.get(), POLLIN, 0};
    ::poll(&waiting, 1, static_cast<int>(kLong.count()));
    const UniqueFd client(::accept(listener.get(), nullptr, nullptr));
    store::Handshake handshake{"run", std::string(32, 'n'), {}, {}};
    send_all(
        client.get(),
        store::Writer()
            .raw(store::kMagic)
            .raw(handshake.server_nonce)
            .number(std::uint8_t{3})
            .raw(handshake.run_id)
            .take(),
        kLong);
    std::string hello(store::kHelloBytes, '\0');
    receive_all(client.get(), hello.data(), hello.size(), kLong);
    handshake.client_nonce = hello.substr(0, store::kNonceBytes);
    handshake.hello = {store::Role::machine, 1, 0};
    store::FrameSealer sealer(store::derive_keys("", handshake).replies);
    send_all(client.get(), sealer.seal(0, ""), kLong);
    return hello.substr(hello.size() - store::kProofBytes);
  });
  StoreClientOptions options;
  options.endpoint = endpoint;
  options.hello = {store::Role::machine, 1, 0};
  options.connect_timeout = kLong;

  try {
    StoreClient client(options);
    FAIL() << "the client trusts the server";
  } catch (const ConfigError& error) {
    EXPECT_EQ(
        std::string(error.what()),
        "this process has no job secret, so it cannot check that the store "
        "at " +
            endpoint.text() + " belongs to its job");
    EXPECT_NE(error.hint().find("ACCELERATE_JOB_SECRET"), std::string::npos);
  }
  EXPECT_EQ(impostor.get(), std::string(store::kProofBytes, '\0'));
}

TEST_F(StoreServerTest, TellsTheClientItsRun) {
  const StoreClient client(options(0));

  EXPECT_EQ(client.options().run_id, "run 1");
}

// Another run may use the same secret and, later, the same port.
TEST_F(StoreServerTest, RefusesAClientOfAnotherRun) {
  auto other = options(0);
  other.run_id = "run 2";

  EXPECT_EQ(
      error_of([&] { StoreClient client(other); }),
      "the store at " + server_.endpoint(0).text() +
          " belongs to run `run 1`, but this process belongs to run `run 2`");
}

// A relay could change the run in the greeting.
TEST_F(StoreServerTest, ChecksTheRunInTheProof) {
  const UniqueFd client = connect_to(server_.endpoint(0), kLong);
  std::string greeting(store::kMagic.size() + store::kNonceBytes + 6, '\0');
  ASSERT_TRUE(
      receive_all(client.get(), greeting.data(), greeting.size(), kLong));
  const std::string nonce(store::kNonceBytes, 'c');
  const store::Handshake handshake{
      "run 2",
      greeting.substr(store::kMagic.size(), store::kNonceBytes),
      nonce,
      {}};
  const auto keys = store::derive_keys("secret", handshake);
  send_all(
      client.get(),
      store::Writer()
          .raw(nonce)
          .number(std::uint8_t{1})
          .number(std::uint32_t{0})
          .number(std::uint32_t{0})
          .raw(as_text(keys.client_proof))
          .take(),
      kLong);

  std::string answer(store::kWrongProof.size(), '\0');
  ASSERT_TRUE(receive_all(client.get(), answer.data(), answer.size(), kLong));
  EXPECT_EQ(answer, store::kWrongProof);
}

TEST_F(StoreServerTest, AForkedProcessDoesNotUseTheConnection) {
  auto client = std::make_unique<StoreClient>(options(0));
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string error = error_of([&] { client->set("a", "child"); });
    client.reset();
    ::_exit(error.find("was forked") == std::string::npos ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);

  EXPECT_EQ(status, 0);
  EXPECT_FALSE(client->check({"a"})) << "the connection stays usable";
}

TEST_F(StoreServerTest, ReportsClientsThatDoNotAuthenticate) {
  std::promise<std::string> refused;
  server_.on_refusal([&](const std::string&, const std::string& reason) {
    refused.set_value(reason);
  });
  {
    const UniqueFd client_socket = connect_to(server_.endpoint(1), kLong);
    send_all(client_socket.get(), "GET / HTTP/1.0\r\n\r\n", kLong);
  }

  EXPECT_EQ(refused.get_future().get(), "the client did not authenticate");
}

TEST_F(StoreServerTest, ListsDisconnectedRanks) {
  StoreClient watcher(options(0));
  {
    StoreClient gone(options(3));
    gone.set_status("step 12");
    EXPECT_TRUE(watcher.disconnected_ranks().empty());
    EXPECT_EQ(server_.status()[1].status, "step 12");
  }
  while (watcher.disconnected_ranks().empty()) {
    std::this_thread::yield();
  }

  EXPECT_EQ(watcher.disconnected_ranks(), std::vector<std::uint32_t>{3});
}

TEST_F(StoreServerTest, UnauthenticatedClientsDoNotBlockWorkers) {
  std::vector<UniqueFd> clients;
  for (int i = 0; i < 50; ++i) {
    clients.push_back(connect_to(server_.endpoint(1), kLong));
    send_all(clients.back().get(), "GET / HTTP/1.0\r\n\r\n", kLong);
  }

  StoreClient client(options(0));
  client.set("a", "1");

  EXPECT_EQ(client.get("a", kLong), "1");
}

TEST_F(StoreServerTest, LimitsUnauthenticatedConnections) {
  const auto open_files = [] {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  };
  const auto before = open_files();
  std::vector<UniqueFd> clients;
  for (int i = 0; i < 50; ++i) {
    clients.push_back(connect_to(server_.endpoint(1), kLong));
  }
  // The server accepts connections in order, and closes those that it does not
  // admit.
  char byte = 0;
  ASSERT_FALSE(receive_all(clients.back().get(), &byte, 1, kLong));
  EXPECT_LE(open_files(), before + 50 + 4);

  // This client tries again until the other connections have timed out.
  StoreClientOptions remote = options(0);
  remote.endpoint = server_.endpoint(1);
  StoreClient client(remote);

  EXPECT_EQ(client.count(), 0);
}

// A server with a low connection limit. Its timeouts are long, so it closes a
// connection only to make room for another connection.
class CrowdedStore : public testing::Test {
 protected:
  explicit CrowdedStore(milliseconds crowded_timeout = std::chrono::hours(1))
      : server_({
            .endpoints = {{false, "0.0.0.0", 0}},
            .secret = "secret",
            .hello_timeout = std::chrono::hours(1),
            .crowded_hello_timeout = crowded_timeout,
            .max_unauthenticated = 4,
        }) {}

  // Opens a connection from a loopback address that sends nothing.
  UniqueFd idle(const std::string& address) const {
    UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in from{};
    from.sin_family = AF_INET;
    ::inet_pton(AF_INET, address.c_str(), &from.sin_addr);
    ::bind(socket.get(), reinterpret_cast<sockaddr*>(&from), sizeof(from));
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(server_.endpoint(0).port);
    ::inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    ::connect(socket.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to));
    return socket;
  }

  static bool gets_greeting(const UniqueFd& socket) {
    std::string greeting(store::kMagic.size() + store::kNonceBytes + 1, '\0');
    return receive_all(socket.get(), greeting.data(), greeting.size(), kLong);
  }

  // Waits until the server closes the connection.
  static bool is_closed(const UniqueFd& socket) {
    pollfd entry{socket.get(), POLLIN, 0};
    char byte = 0;
    return ::poll(&entry, 1, static_cast<int>(kLong.count())) == 1 &&
           ::recv(socket.get(), &byte, 1, MSG_DONTWAIT) == 0;
  }

  static bool is_open(const UniqueFd& socket) {
    char byte = 0;
    return ::recv(socket.get(), &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
  }

  std::int64_t keys_seen_by_a_worker() const {
    StoreClientOptions options;
    options.endpoint = {false, "127.0.0.1", server_.endpoint(0).port};
    options.secret = "secret";
    options.hello = {store::Role::worker, 0, 0};
    options.connect_timeout = kLong;
    return StoreClient(options).count();
  }

  StoreServer server_;
};

TEST_F(CrowdedStore, ServesAMachineWhileAnotherAddressHoldsConnections) {
  std::vector<UniqueFd> idle_sockets;
  for (int i = 0; i < 300; ++i) {
    idle_sockets.push_back(idle("127.0.0.2"));
  }

  EXPECT_EQ(keys_seen_by_a_worker(), 0);
}

TEST_F(CrowdedStore, ClosesTheOldestConnectionOfTheBusiestAddress) {
  const UniqueFd oldest = idle("127.0.0.3");
  ASSERT_TRUE(gets_greeting(oldest));
  const UniqueFd first_of_busiest = idle("127.0.0.2");
  ASSERT_TRUE(gets_greeting(first_of_busiest));
  const UniqueFd second_of_busiest = idle("127.0.0.2");
  ASSERT_TRUE(gets_greeting(second_of_busiest));
  const UniqueFd newest = idle("127.0.0.4");
  ASSERT_TRUE(gets_greeting(newest));

  EXPECT_EQ(keys_seen_by_a_worker(), 0);

  EXPECT_TRUE(is_closed(first_of_busiest));
  EXPECT_TRUE(is_open(oldest));
  EXPECT_TRUE(is_open(second_of_busiest));
  EXPECT_TRUE(is_open(newest));
}

TEST_F(CrowdedStore, LimitsTheConnectionsOfOneAddress) {
  const UniqueFd first = idle("127.0.0.2");
  ASSERT_TRUE(gets_greeting(first));
  const UniqueFd second = idle("127.0.0.2");
  ASSERT_TRUE(gets_greeting(second));

  const UniqueFd third = idle("127.0.0.2");

  EXPECT_TRUE(is_closed(third));
  EXPECT_TRUE(is_open(first));
  EXPECT_TRUE(is_open(second));
}

// Starts more workers than the server admits at the same time.
TEST_F(CrowdedStore, AdmitsAllWorkersThatStartTogether) {
  std::vector<std::future<std::int64_t>> workers;
  for (int i = 0; i < 40; ++i) {
    workers.push_back(std::async(
        std::launch::async, [this] { return keys_seen_by_a_worker(); }));
  }
  for (auto& worker : workers) {
    EXPECT_EQ(worker.get(), 0);
  }
}

class FullStore : public CrowdedStore {
 protected:
  FullStore() : CrowdedStore(milliseconds(50)) {}
};

// No address has more connections than the others, so only the shorter timeout
// can end one of them.
TEST_F(FullStore, ClosesTheOldestConnectionSooner) {
  const UniqueFd first = idle("127.0.0.2");
  ASSERT_TRUE(gets_greeting(first));
  const UniqueFd second = idle("127.0.0.3");
  ASSERT_TRUE(gets_greeting(second));
  const UniqueFd third = idle("127.0.0.4");
  ASSERT_TRUE(gets_greeting(third));
  ASSERT_TRUE(is_open(first));
  const UniqueFd fourth = idle("127.0.0.5");
  ASSERT_TRUE(gets_greeting(fourth));

  EXPECT_TRUE(is_closed(first));
  EXPECT_TRUE(is_open(second));
  EXPECT_TRUE(is_open(third));
  EXPECT_TRUE(is_open(fourth));
}

TEST_F(StoreServerTest, IgnoresGarbage) {
  StoreClient client(options(0));
  client.set("a", "1");
  for (int round = 0; round < 200; ++round) {
    const UniqueFd client_socket = connect_to(server_.endpoint(1), kLong);
    send_all(
        client_socket.get(),
        random_bytes(static_cast<std::size_t>(round * 7)),
        kLong);
  }

  EXPECT_EQ(client.get("a", kLong), "1");
  EXPECT_EQ(client.count(), 1);
}

TEST_F(StoreServerTest, ClosesTheConnectionOnAnOversizedFrame) {
  StoreClient client(options(0));

  send_all(client.socket(), std::string("\xff\xff\xff\xff\x01", 5), kLong);
  char byte = 0;

  EXPECT_FALSE(receive_all(client.socket(), &byte, 1, kLong));
}

TEST_F(StoreServerTest, ClosesASilentConnection) {
  const UniqueFd client_socket = connect_to(server_.endpoint(1), kLong);
  std::string greeting(store::kMagic.size() + store::kNonceBytes + 6, '\0');
  ASSERT_TRUE(receive_all(
      client_socket.get(), greeting.data(), greeting.size(), kLong));

  char byte = 0;
  EXPECT_FALSE(receive_all(client_socket.get(), &byte, 1, kLong));
}

TEST(StoreServerShutdown, SendsPendingAnswers) {
  const Endpoint endpoint{true, fresh_folder() / "end", 0};
  for (int round = 0; round < 20; ++round) {
    auto server = std::make_unique<StoreServer>(
        StoreServerOptions{.endpoints = {endpoint}, .secret = "secret"});
    std::promise<std::uint64_t> asked;
    server->on_exchange([&](const StoreServer::Exchange& exchange) {
      asked.set_value(exchange.client);
      return std::nullopt;
    });
    auto answer = std::async(std::launch::async, [&] {
      StoreClientOptions options;
      options.endpoint = endpoint;
      options.secret = "secret";
      options.hello = {store::Role::machine, 1, 0};
      return StoreClient(options).exchange("hello", kLong);
    });

    server->answer(asked.get_future().get(), "goodbye");
    server.reset();

    EXPECT_EQ(answer.get(), "goodbye");
  }
}

// The store listens before the launcher is ready for other machines.
TEST(StoreServerStart, AnswersMachinesThatConnectEarly) {
  const Endpoint endpoint{true, fresh_folder() / "early", 0};
  for (int round = 0; round < 20; ++round) {
    StoreServer server(
        {.endpoints = {endpoint},
         .secret = "secret",
         .expects_machines = true});
    StoreClientOptions options;
    options.endpoint = endpoint;
    options.secret = "secret";
    options.hello = {store::Role::machine, 1, 0};
    StoreClient client(options);
    auto answer = std::async(
        std::launch::async, [&] { return client.exchange("hello", kLong); });
    server.on_exchange([](const StoreServer::Exchange& exchange) {
      return std::optional(exchange.payload + " to you");
    });

    EXPECT_EQ(answer.get(), "hello to you");
  }
}

TEST(Hmac, AgreesWithRfc4231) {
  const auto digest = hmac_sha256("Jefe", "what do ya want for nothing?");

  EXPECT_EQ(
      to_hex(as_text(digest)),
      "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

}  // namespace
}  // namespace accelerate
