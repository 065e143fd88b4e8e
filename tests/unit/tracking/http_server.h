// SPDX-License-Identifier: Apache-2.0
// A small HTTP server on loopback, for tests of trackers.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <poll.h>
#include <sys/socket.h>

#include "base/socket.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "base/unique_fd.h"

namespace accelerate {

struct ServedRequest {
  std::string method;
  std::string target;
  std::string headers;
  std::string body;
};

struct ServedReply {
  int status = 200;
  std::string body = "{}";
  std::string headers = {};
};

/// Answers one request per connection, one after another.
class HttpServer {
 public:
  explicit HttpServer(std::function<ServedReply(const ServedRequest&)> answer)
      : answer_(std::move(answer)),
        socket_(listen_on({.address = "127.0.0.1"})),
        thread_([this] { serve(); }) {}
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  ~HttpServer() {
    stop_ = true;
    thread_.join();
  }

  std::string address() const {
    return str_cat("http://127.0.0.1:", bound_port(socket_.get()));
  }
  std::vector<ServedRequest> requests() {
    const std::scoped_lock lock(mutex_);
    return requests_;
  }

 private:
  void serve() {
    while (!stop_) {
      pollfd waiting{socket_.get(), POLLIN, 0};
      if (::poll(&waiting, 1, 20) <= 0) {
        continue;
      }
      const UniqueFd connection(::accept(socket_.get(), nullptr, nullptr));
      if (connection) {
        handle(connection.get());
      }
    }
  }

  // Returns once `text` has `size` bytes or contains a blank line, or at the
  // end of the connection.
  static void receive(int connection, std::string& text, std::size_t size) {
    while (text.size() < size && text.find("\r\n\r\n") == std::string::npos) {
      if (!receive_some(connection, text)) {
        return;
      }
    }
  }
  static bool receive_some(int connection, std::string& text) {
    char bytes[4096];
    const auto count = ::recv(connection, bytes, sizeof(bytes), 0);
    if (count > 0) {
      text.append(bytes, static_cast<std::size_t>(count));
    }
    return count > 0;
  }

  void handle(int connection) {
    std::string text;
    receive(connection, text, SIZE_MAX);
    const auto end = text.find("\r\n\r\n");
    if (end == std::string::npos) {
      return;
    }
    ServedRequest request;
    const auto line = split(text.substr(0, text.find("\r\n")), ' ');
    request.method = line.at(0);
    request.target = line.at(1);
    request.headers = text.substr(0, end);
    request.body = text.substr(end + 4);
    const std::string lengths = lower(request.headers);
    const std::string name = "content-length: ";
    std::size_t size = 0;
    if (const auto at = lengths.find(name); at != std::string::npos) {
      size = std::stoul(lengths.substr(at + name.size()));
    }
    while (request.body.size() < size &&
           receive_some(connection, request.body)) {
    }
    const ServedReply reply = answer_(request);
    {
      const std::scoped_lock lock(mutex_);
      requests_.push_back(request);
    }
    send_all(
        connection,
        str_cat(
            "HTTP/1.1 ",
            reply.status,
            " Status\r\nContent-Length: ",
            reply.body.size(),
            "\r\nConnection: close\r\n",
            reply.headers,
            "\r\n",
            reply.body),
        std::chrono::seconds(5));
  }

  std::function<ServedReply(const ServedRequest&)> answer_;
  UniqueFd socket_;
  std::atomic<bool> stop_ = false;
  std::mutex mutex_;
  std::vector<ServedRequest> requests_;
  std::thread thread_;
};

}  // namespace accelerate
