// SPDX-License-Identifier: Apache-2.0
#include "process/jupyter_client.h"

#include <csignal>
#include <stdexcept>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include <zmq.h>

#include "base/files.h"
#include "base/str_cat.h"

namespace accelerate::jupyter {
namespace {

constexpr char kKey[] = "a key";

void send_frames(void* socket, const Frames& frames) {
  for (std::size_t i = 0; i < frames.size(); ++i) {
    zmq_send(
        socket,
        frames[i].data(),
        frames[i].size(),
        i + 1 < frames.size() ? ZMQ_SNDMORE : 0);
  }
}

Frames receive_frames(void* socket) {
  Frames frames;
  int more = 1;
  while (more != 0) {
    zmq_msg_t part;
    zmq_msg_init(&part);
    if (zmq_msg_recv(&part, socket, 0) < 0) {
      zmq_msg_close(&part);
      throw std::runtime_error("no message before the timeout");
    }
    frames.emplace_back(
        static_cast<const char*>(zmq_msg_data(&part)), zmq_msg_size(&part));
    more = zmq_msg_more(&part);
    zmq_msg_close(&part);
  }
  return frames;
}

Json execute_content(const std::string& code) {
  return Json::object({{"code", code}, {"silent", false}});
}

}  // namespace

JupyterClient::JupyterClient(const std::vector<std::string>& options)
    : session_(make_id()) {
  // Must be short, because the path of a socket may have at most 107
  // characters.
  std::string name = "/tmp/jupyter_test_XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) {
    throw std::runtime_error("cannot create a folder");
  }
  folder_ = name;
  write_file(
      folder_ / "connection.json",
      Json::object({{"transport", "ipc"},
                    {"ip", (folder_ / "socket").string()},
                    {"key", kKey},
                    {"signature_scheme", "hmac-sha256"},
                    {"shell_port", 1},
                    {"iopub_port", 2},
                    {"stdin_port", 3},
                    {"control_port", 4},
                    {"hb_port", 5}})
          .dump());
  std::vector<std::string> arguments = {ACCELERATE_KERNEL};
  arguments.insert(arguments.end(), options.begin(), options.end());
  arguments.push_back((folder_ / "connection.json").string());
  std::vector<char*> argv;
  for (std::string& argument : arguments) {
    argv.push_back(argument.data());
  }
  argv.push_back(nullptr);
  kernel_ = ::fork();
  if (kernel_ == 0) {
    ::setenv("XDG_CACHE_HOME", ACCELERATE_NOTEBOOK_CACHE, 1);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  connect();
}

void JupyterClient::connect() {
  context_ = zmq_ctx_new();
  const auto open = [this](int type, int port) {
    void* const socket = zmq_socket(context_, type);
    const int limit = static_cast<int>(
        std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count());
    const int no_linger = 0;
    zmq_setsockopt(socket, ZMQ_RCVTIMEO, &limit, sizeof limit);
    zmq_setsockopt(socket, ZMQ_LINGER, &no_linger, sizeof no_linger);
    zmq_connect(
        socket,
        str_cat("ipc://", (folder_ / "socket").string(), "-", port).c_str());
    return socket;
  };
  shell_ = open(ZMQ_DEALER, 1);
  iopub_ = open(ZMQ_SUB, 2);
  control_ = open(ZMQ_DEALER, 4);
  heartbeat_ = open(ZMQ_REQ, 5);
  zmq_setsockopt(iopub_, ZMQ_SUBSCRIBE, "", 0);
  // Messages that are published before the subscription arrives are lost, so
  // the client sends requests until it receives a message.
  zmq_pollitem_t item = {iopub_, 0, ZMQ_POLLIN, 0};
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  do {
    (void)ask("kernel_info_request", Json::object());
  } while (zmq_poll(&item, 1, 50) == 0 &&
           std::chrono::steady_clock::now() < deadline);
}

JupyterClient::~JupyterClient() {
  if (kernel_ > 0) {
    ::kill(kernel_, SIGKILL);
    ::waitpid(kernel_, nullptr, 0);
  }
  for (void* socket : {shell_, control_, iopub_, heartbeat_}) {
    zmq_close(socket);
  }
  zmq_ctx_term(context_);
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

Message JupyterClient::receive(void* socket) {
  auto message = decode(receive_frames(socket), kKey);
  if (!message) {
    throw std::runtime_error("a message of the kernel has a wrong signature");
  }
  return std::move(*message);
}

Json JupyterClient::ask(const std::string& type, Json content, bool control) {
  Message message;
  message.header = make_header(type, session_);
  message.content = std::move(content);
  void* const socket = control ? control_ : shell_;
  send_frames(socket, encode(message, kKey));
  return receive(socket).content;
}

void JupyterClient::begin(const std::string& code) {
  Message message;
  message.header = make_header("execute_request", session_);
  message.content = execute_content(code);
  request_ = message.header.at("msg_id").as_string();
  result_ = {};
  idle_ = false;
  send_frames(shell_, encode(message, kKey));
}

void JupyterClient::take_published(const Message& message) {
  const Json* const id = message.parent.find("msg_id");
  if (id == nullptr || id->as_string() != request_) {
    return;
  }
  const Json& content = message.content;
  if (message.type() == "stream") {
    (content.at("name").as_string() == "stdout" ? result_.output
                                                : result_.errors) +=
        content.at("text").as_string();
  } else if (
      message.type() == "display_data" ||
      message.type() == "update_display_data") {
    result_.displays.push_back(content);
    result_.displays.back()["type"] = message.type();
  } else if (message.type() == "error") {
    result_.error = content;
  } else if (message.type() == "status") {
    idle_ = content.at("execution_state").as_string() == "idle";
  }
}

CellResult JupyterClient::finish() {
  result_.reply = receive(shell_).content;
  while (!idle_) {
    take_published(receive(iopub_));
  }
  return result_;
}

CellResult JupyterClient::run(const std::string& code) {
  begin(code);
  return finish();
}

std::string JupyterClient::await_output(const std::string& text) {
  while (result_.output.find(text) == std::string::npos) {
    take_published(receive(iopub_));
  }
  return result_.output;
}

void JupyterClient::send_forged(const std::string& code) {
  Message message;
  message.header = make_header("execute_request", session_);
  message.content = execute_content(code);
  send_frames(shell_, encode(message, "another key"));
}

bool JupyterClient::heartbeat() {
  send_frames(heartbeat_, {"ping"});
  return receive_frames(heartbeat_) == Frames{"ping"};
}

std::optional<int> JupyterClient::wait_for_exit(std::chrono::seconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  int status = 0;
  while (::waitpid(kernel_, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() >= deadline) {
      return std::nullopt;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  kernel_ = 0;
  return status;
}

}  // namespace accelerate::jupyter
