// SPDX-License-Identifier: Apache-2.0
#include "jupyter/sockets.h"

#include <array>
#include <cerrno>
#include <deque>
#include <unordered_set>

#include <zmq.h>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/message.h"
#include "base/str_cat.h"

namespace accelerate::jupyter {
namespace {

constexpr std::size_t kChannels = 5;
constexpr std::size_t kMaxFile = 64 * 1024;

std::size_t index_of(Channel channel) {
  return static_cast<std::size_t>(channel);
}

// Reads all frames of the next message, but keeps at most `kMaxFrames` + 1 of
// them; empty if there is no message.
Frames read_frames(void* socket) {
  Frames frames;
  int more = 1;
  while (more != 0) {
    zmq_msg_t part;
    zmq_msg_init(&part);
    if (zmq_msg_recv(&part, socket, ZMQ_DONTWAIT) < 0) {
      zmq_msg_close(&part);
      return {};
    }
    if (frames.size() <= kMaxFrames) {
      frames.emplace_back(
          static_cast<const char*>(zmq_msg_data(&part)), zmq_msg_size(&part));
    }
    more = zmq_msg_more(&part);
    zmq_msg_close(&part);
  }
  return frames;
}

// Does not block; a client that has disconnected gets nothing.
void write_frames(void* socket, const Frames& frames) {
  for (std::size_t i = 0; i < frames.size(); ++i) {
    const int more = i + 1 < frames.size() ? ZMQ_SNDMORE : 0;
    if (zmq_send(
            socket, frames[i].data(), frames[i].size(), more | ZMQ_DONTWAIT) <
        0) {
      return;
    }
  }
}

// The signatures of the last messages. Every message has a unique ID, so a
// message with a known signature is a repeated message.
class SeenSignatures {
 public:
  // Returns false if the signature was added before.
  bool add(const std::string& signature) {
    constexpr std::size_t kKept = 65536;
    if (!known_.insert(signature).second) {
      return false;
    }
    in_order_.push_back(signature);
    if (in_order_.size() > kKept) {
      known_.erase(in_order_.front());
      in_order_.pop_front();
    }
    return true;
  }

 private:
  std::unordered_set<std::string> known_;
  std::deque<std::string> in_order_;
};

}  // namespace

Connection read_connection(const std::filesystem::path& path) {
  try {
    const Json json =
        Json::parse(read_file(path, kMaxFile), {.source = path.string()});
    const auto port = [&json](std::string_view name) {
      return static_cast<int>(json.at(name).as_integer());
    };
    return {
        json.at("transport").as_string(),
        json.at("ip").as_string(),
        json.at("key").as_string(),
        port("shell_port"),
        port("iopub_port"),
        port("stdin_port"),
        port("control_port"),
        port("hb_port")};
  } catch (const FormatError& error) {
    throw ConfigError(
        str_cat("cannot read the connection file: ", error.what()),
        "let Jupyter start this program; see `accelerate help jupyter`");
  }
}

class Sockets::Impl {
 public:
  explicit Impl(const Connection& connection)
      : key(connection.key), context_(zmq_ctx_new()) {
    constexpr std::array<int, kChannels> kTypes = {
        ZMQ_ROUTER, ZMQ_ROUTER, ZMQ_ROUTER, ZMQ_REP, ZMQ_PUB};
    const std::array<int, kChannels> ports = {
        connection.shell_port,
        connection.control_port,
        connection.stdin_port,
        connection.hb_port,
        connection.iopub_port};
    for (std::size_t i = 0; i < kChannels; ++i) {
      sockets[i] = zmq_socket(context_, kTypes[i]);
      bind(sockets[i], connection, ports[i]);
    }
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    for (void* socket : sockets) {
      zmq_close(socket);
    }
    zmq_ctx_term(context_);
  }

  // Why a message must be dropped; empty if it can be handled.
  std::string problem_of(
      const Frames& frames, const std::optional<Message>& message) {
    if (frames.size() > kMaxFrames) {
      return str_cat("has more than ", kMaxFrames, " frames");
    }
    if (!message) {
      return "is not signed with this kernel's key";
    }
    // Without a key there are no signatures.
    const bool is_new = key.empty() || seen_.add(message->signature);
    return is_new ? "" : "was sent before";
  }

  std::string key;
  std::array<void*, kChannels> sockets{};

 private:
  static void bind(void* socket, const Connection& connection, int port) {
    // Gives the kernel one second to send its last reply.
    const int linger = 1000;
    zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof linger);
    zmq_setsockopt(
        socket, ZMQ_MAXMSGSIZE, &kMaxFrameBytes, sizeof kMaxFrameBytes);
    // Prevents ZeroMQ from dropping output of a fast cell.
    const int no_limit = 0;
    zmq_setsockopt(socket, ZMQ_SNDHWM, &no_limit, sizeof no_limit);
    const std::string address = str_cat(
        connection.transport,
        "://",
        connection.ip,
        connection.transport == "ipc" ? "-" : ":",
        port);
    if (zmq_bind(socket, address.c_str()) != 0) {
      throw IoError(
          str_cat("cannot listen on ", address, ": ", zmq_strerror(errno)),
          "restart the Jupyter kernel");
    }
  }

  void* context_;
  SeenSignatures seen_;
};

Sockets::Sockets(const Connection& connection)
    : impl_(std::make_unique<Impl>(connection)) {
}
Sockets::~Sockets() = default;

void* Sockets::handle(Channel channel) const {
  return impl_->sockets[index_of(channel)];
}

std::optional<Message> Sockets::receive(Channel channel) {
  while (true) {
    const Frames frames = read_frames(handle(channel));
    if (frames.empty()) {
      return std::nullopt;
    }
    auto message = decode(frames, impl_->key);
    const std::string problem = impl_->problem_of(frames, message);
    if (problem.empty()) {
      return message;
    }
    print_warning(str_cat("dropped a message that ", problem));
  }
}

void Sockets::send(Channel channel, const Message& message) {
  write_frames(handle(channel), encode(message, impl_->key));
}

void Sockets::echo_heartbeat() {
  write_frames(
      handle(Channel::heartbeat), read_frames(handle(Channel::heartbeat)));
}

}  // namespace accelerate::jupyter
