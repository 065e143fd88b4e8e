// SPDX-License-Identifier: Apache-2.0
// Sends any frames to the Jupyter kernel's sockets, and reads the texts inside
// the frames. The parts of an input are the frames.
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include <zmq.h>

#include "accelerate/error.h"
#include "jupyter/cell_output.h"
#include "jupyter/cell_text.h"
#include "jupyter/completion.h"
#include "jupyter/message.h"
#include "jupyter/replies.h"
#include "jupyter/sockets.h"
#include "tests/fuzz/input.h"
#include "tests/support/temporary_directory.h"

namespace {

using namespace accelerate;
using namespace accelerate::jupyter;

// A kernel's sockets, and a client that is connected to the shell.
class Chat {
 public:
  Chat() { zmq_connect(client_, ("ipc://" + address_ + "-1").c_str()); }
  Chat(const Chat&) = delete;
  Chat& operator=(const Chat&) = delete;
  ~Chat() {
    zmq_close(client_);
    zmq_ctx_term(context_);
  }

  // Without a key, the kernel takes every well-formed message.
  void send(const Frames& frames) {
    for (std::size_t i = 0; i < frames.size(); ++i) {
      const int more = i + 1 < frames.size() ? ZMQ_SNDMORE : 0;
      zmq_send(client_, frames[i].data(), frames[i].size(), more);
    }
    zmq_pollitem_t item = {sockets_.handle(Channel::shell), 0, ZMQ_POLLIN, 0};
    if (zmq_poll(&item, 1, 5000) <= 0) {
      return;
    }
    if (const auto message = sockets_.receive(Channel::shell)) {
      sockets_.send(Channel::shell, *message);
      discard_answer();
    }
  }

 private:
  static Connection connection(const std::string& address) {
    Connection result;
    result.transport = "ipc";
    result.ip = address;
    result.shell_port = 1;
    result.control_port = 2;
    result.stdin_port = 3;
    result.hb_port = 4;
    result.iopub_port = 5;
    return result;
  }

  void discard_answer() {
    zmq_pollitem_t item = {client_, 0, ZMQ_POLLIN, 0};
    char byte = 0;
    if (zmq_poll(&item, 1, 5000) > 0) {
      while (zmq_recv(client_, &byte, 1, ZMQ_DONTWAIT) >= 0) {
      }
    }
  }

  TemporaryDirectory folder_;
  std::string address_ = (folder_.path() / "kernel").string();
  Sockets sockets_{connection(address_)};
  void* context_ = zmq_ctx_new();
  void* client_ = zmq_socket(context_, ZMQ_DEALER);
};

void expect_same(const Message& left, const Message& right) {
  fuzz::expect(left.identities == right.identities);
  fuzz::expect(left.header == right.header && left.parent == right.parent);
  fuzz::expect(left.metadata == right.metadata);
  fuzz::expect(left.content == right.content);
}

void check_message(const Frames& frames) {
  // No input has a valid signature.
  fuzz::expect(!decode(frames, "key"));
  const auto message = decode(frames, "");
  if (!message) {
    return;
  }
  (void)message->type();
  const auto again = decode(encode(*message, "key"), "key");
  fuzz::expect(again.has_value());
  expect_same(*again, *message);
}

void check_code(const std::string& code) {
  (void)is_complete(code);
  (void)with_display(code, "In[1]");
  for (const std::size_t position : {code.size() / 2, code.size(), SIZE_MAX}) {
    fuzz::expect(byte_position(code, position) <= code.size());
  }
  fuzz::expect(character_position(code, code.size()) <= code.size());
}

// The interpreter's output arrives in pieces.
void check_output(const std::string& text) {
  CellOutput output;
  std::vector<OutputPiece> pieces;
  for (std::size_t at = 0; at < text.size(); at += 7) {
    for (OutputPiece& piece : output.add(text.substr(at, 7))) {
      pieces.push_back(std::move(piece));
    }
  }
  for (OutputPiece& piece : output.finish()) {
    pieces.push_back(std::move(piece));
  }
  for (const OutputPiece& piece : pieces) {
    // Throws if the text is not UTF-8.
    (void)Json::parse(Json(piece.text).dump());
  }
  (void)parse_completions(text, "a");
  for (const char* kind : {"compile", "link", "exception", "interrupted"}) {
    (void)error_of({kind, text}).content();
  }
}

void check_connection(const std::string& text) {
  static const TemporaryDirectory folder;
  try {
    (void)read_connection(folder.write("connection.json", text));
  } catch (const ConfigError&) {
    // The only allowed error for a bad file.
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(
    const std::uint8_t* data, std::size_t size) {
  static Chat chat;
  // The sockets warn about every message that they drop.
  static std::streambuf* const stderr_buffer = std::cerr.rdbuf(nullptr);
  (void)stderr_buffer;
  const Frames frames = fuzz::parts_of(data, size);
  check_message(frames);
  chat.send(frames);
  for (const std::string& frame : frames) {
    check_code(frame);
    check_output(frame);
  }
  check_connection(frames[0]);
  return 0;
}
