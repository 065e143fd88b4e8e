// SPDX-License-Identifier: Apache-2.0
// Simulates an attacker without the secret between a client and the launcher's
// store.
#include <functional>
#include <mutex>
#include <thread>

#include <poll.h>
#include <sys/socket.h>

#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "base/store_client.h"
#include "launch/store_server.h"
#include "support/temporary_directory.h"

namespace accelerate {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kLimit{20000};

// Forwards bytes between one client and the server, and lets a test change
// them. The handshake passes unchanged.
class Relay {
 public:
  // Gets the bytes of one message, and returns the bytes to pass on.
  using Change = std::function<std::string(std::string)>;

  explicit Relay(const Endpoint& server)
      : listener_(listen_on({false, "127.0.0.1", 0})),
        thread_([this, server] { run(server); }) {}
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;
  ~Relay() { thread_.join(); }

  Endpoint endpoint() const {
    return {false, "127.0.0.1", bound_port(listener_.get())};
  }
  void change_requests(Change change) { set(to_server_, std::move(change)); }
  void change_answers(Change change) { set(to_client_, std::move(change)); }

  std::string seen() const {
    const std::scoped_lock lock(mutex_);
    return seen_;
  }

 private:
  void set(Change& target, Change change) {
    const std::scoped_lock lock(mutex_);
    target = std::move(change);
  }

  void run(const Endpoint& server) {
    pollfd waiting{listener_.get(), POLLIN, 0};
    ::poll(&waiting, 1, static_cast<int>(kLimit.count()));
    const UniqueFd client(
        ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const UniqueFd store = connect_to(server, kLimit);
    while (forward(client.get(), store.get())) {
    }
  }

  // Forwards the next bytes. Returns false if either side has closed the
  // connection.
  bool forward(int client, int store) {
    pollfd entries[] = {{client, POLLIN, 0}, {store, POLLIN, 0}};
    if (::poll(entries, 2, static_cast<int>(kLimit.count())) <= 0) {
      return false;
    }
    const bool from_client = entries[0].revents != 0;
    char buffer[65536];
    const ssize_t got =
        ::recv(from_client ? client : store, buffer, sizeof(buffer), 0);
    if (got <= 0) {
      return false;
    }
    std::string bytes(buffer, static_cast<std::size_t>(got));
    Change change;
    {
      const std::scoped_lock lock(mutex_);
      seen_ += bytes;
      change = from_client ? to_server_ : to_client_;
    }
    bytes = change ? change(std::move(bytes)) : bytes;
    return send_all(from_client ? store : client, bytes, kLimit);
  }

  UniqueFd listener_;
  mutable std::mutex mutex_;
  std::string seen_;
  Change to_server_;
  Change to_client_;
  std::thread thread_;
};

class StoreRelayTest : public testing::Test {
 protected:
  StoreRelayTest()
      : server_(
            {.endpoints =
                 {{true, fresh_folder() / "store", 0}, {false, "127.0.0.1", 0}},
             .secret = "secret"}),
        relay_(server_.endpoint(1)),
        client_(std::make_unique<StoreClient>(options(relay_.endpoint()))) {}
  ~StoreRelayTest() override { client_.reset(); }

  static StoreClientOptions options(const Endpoint& endpoint) {
    StoreClientOptions result;
    result.endpoint = endpoint;
    result.secret = "secret";
    result.hello = {store::Role::worker, 0, 0};
    result.connect_timeout = kLimit;
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

  // Returns the value of a key, read by a client without an attacker.
  std::string value(const std::string& key) const {
    StoreClient direct(options(server_.endpoint(0)));
    return direct.check({key}) ? direct.get(key, kLimit) : "not set";
  }

  StoreServer server_;
  std::string kept_;  // Stored by a change function; outlives the relay.
  Relay relay_;
  std::unique_ptr<StoreClient> client_;
};

TEST_F(StoreRelayTest, ReadsNoKeysAndValues) {
  client_->set("the key", "the value");
  EXPECT_EQ(client_->get("the key", kLimit), "the value");

  EXPECT_EQ(relay_.seen().find("the key"), std::string::npos);
  EXPECT_EQ(relay_.seen().find("the value"), std::string::npos);
}

TEST_F(StoreRelayTest, CannotInventAnAnswer) {
  client_->set("k", "right");
  relay_.change_answers(
      [](const std::string&) { return std::string("\x06\0\0\0\0wrong", 10); });

  EXPECT_NE(
      error_of([&] { client_->get("k", kLimit); }).find("does not come from"),
      std::string::npos);
}

TEST_F(StoreRelayTest, CannotChangeAnAnswer) {
  client_->set("k", "right");
  relay_.change_answers([](std::string bytes) {
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    return bytes;
  });

  EXPECT_NE(
      error_of([&] { client_->get("k", kLimit); }).find("does not come from"),
      std::string::npos);
}

TEST_F(StoreRelayTest, CannotRepeatAnOldAnswer) {
  client_->set("k", "old");
  relay_.change_answers(
      [this](const std::string& bytes) { return kept_ = bytes; });
  ASSERT_EQ(client_->get("k", kLimit), "old");
  client_->set("k", "new");
  relay_.change_answers([this](const std::string&) { return kept_; });

  EXPECT_NE(
      error_of([&] { client_->get("k", kLimit); }).find("does not come from"),
      std::string::npos);
}

TEST_F(StoreRelayTest, CannotReturnARequestAsItsAnswer) {
  relay_.change_requests(
      [this](const std::string& bytes) { return kept_ = bytes; });
  relay_.change_answers([this](const std::string&) { return kept_; });

  EXPECT_NE(
      error_of([&] { client_->set("k", "v"); }).find("does not come from"),
      std::string::npos);
}

TEST_F(StoreRelayTest, CannotChangeARequest) {
  relay_.change_requests([](std::string bytes) {
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    return bytes;
  });

  EXPECT_NE(error_of([&] { client_->set("k", "v"); }), "no error");
  EXPECT_EQ(value("k"), "not set");
}

TEST_F(StoreRelayTest, CannotRepeatARequest) {
  relay_.change_requests(
      [](const std::string& bytes) { return bytes + bytes; });

  // The first copy may or may not be answered, depending on when the second
  // copy arrives.
  (void)error_of([&] { client_->append("k", "once "); });

  EXPECT_EQ(value("k"), "once ");
}

}  // namespace
}  // namespace accelerate
