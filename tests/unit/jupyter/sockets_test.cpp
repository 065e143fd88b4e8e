// SPDX-License-Identifier: Apache-2.0
// Tests with a client that sends messages that a kernel must not accept.
#include "jupyter/sockets.h"

#include <array>

#include <gtest/gtest.h>
#include <zmq.h>

#include "base/socket.h"
#include "base/str_cat.h"

namespace accelerate::jupyter {
namespace {

constexpr long kLimitMs = 20000;

int free_port() {
  return reserve_port("127.0.0.1").port;
}

class SocketsTest : public testing::Test {
 protected:
  SocketsTest()
      : connection_{"tcp", "127.0.0.1", "key", free_port(), free_port(), free_port(), free_port(), free_port()},
        sockets_(connection_),
        context_(zmq_ctx_new()),
        client_(zmq_socket(context_, ZMQ_DEALER)) {
    const int linger = 0;
    zmq_setsockopt(client_, ZMQ_LINGER, &linger, sizeof linger);
    const std::string address =
        str_cat("tcp://127.0.0.1:", connection_.shell_port);
    EXPECT_EQ(zmq_connect(client_, address.c_str()), 0);
  }
  ~SocketsTest() override {
    zmq_close(client_);
    zmq_ctx_term(context_);
  }

  void send(const Frames& frames) const {
    for (std::size_t i = 0; i < frames.size(); ++i) {
      const int flags = i + 1 < frames.size() ? ZMQ_SNDMORE : 0;
      ASSERT_GE(
          zmq_send(client_, frames[i].data(), frames[i].size(), flags), 0);
    }
  }

  Frames message(const std::string& type) const {
    Message message;
    message.header = make_header(type, "session");
    return encode(message, connection_.key);
  }

  // The types of the messages that the kernel accepts, up to `last`.
  std::vector<std::string> accepted_until(const std::string& last) {
    std::vector<std::string> types;
    while (types.empty() || types.back() != last) {
      std::array<zmq_pollitem_t, 1> items = {
          {{sockets_.handle(Channel::shell), 0, ZMQ_POLLIN, 0}}};
      if (zmq_poll(items.data(), 1, kLimitMs) <= 0) {
        types.push_back("nothing arrived");
        return types;
      }
      if (const auto received = sockets_.receive(Channel::shell)) {
        types.push_back(received->type());
      }
    }
    return types;
  }

  using Types = std::vector<std::string>;

  Connection connection_;
  Sockets sockets_;
  void* context_;
  void* client_;
};

TEST_F(SocketsTest, AcceptsSignedMessages) {
  send(message("first"));
  send(message("last"));

  EXPECT_EQ(accepted_until("last"), (Types{"first", "last"}));
}

TEST_F(SocketsTest, DropsAMessageThatIsRepeated) {
  const Frames repeated = message("repeated");
  send(repeated);
  send(repeated);
  send(message("last"));

  EXPECT_EQ(accepted_until("last"), (Types{"repeated", "last"}));
}

// The frame is rejected although its signature is correct.
TEST_F(SocketsTest, DoesNotReadAFrameThatIsTooLarge) {
  Message large;
  large.header = make_header("large", "session");
  large.content["code"] = std::string(kMaxFrameBytes, ' ');
  send(encode(large, connection_.key));
  send(message("last"));

  EXPECT_EQ(accepted_until("last"), Types{"last"});
}

TEST_F(SocketsTest, DropsAMessageOfTooManyFrames) {
  Frames frames(kMaxFrames, "identity");
  const Frames rest = message("many");
  frames.insert(frames.end(), rest.begin(), rest.end());
  send(frames);
  send(message("last"));

  EXPECT_EQ(accepted_until("last"), Types{"last"});
}

}  // namespace
}  // namespace accelerate::jupyter
