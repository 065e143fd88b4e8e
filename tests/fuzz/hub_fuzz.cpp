// SPDX-License-Identifier: Apache-2.0
// Downloads a model from a Hub that answers with any bytes: headers, listings,
// redirects, file names. Nothing may be written outside the cache, and the
// token must not reach another server. The parts of an input are the answers.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include <poll.h>
#include <sys/socket.h>

#include "accelerate/error.h"
#include "base/socket.h"
#include "base/unique_fd.h"
#include "hub/download.h"
#include "hub/http.h"
#include "hub/repository.h"
#include "hub/resolve.h"
#include "tests/fuzz/input.h"
#include "tests/support/temporary_directory.h"

namespace {

using namespace transformers::hub;
using accelerate::UniqueFd;
using accelerate::fuzz::expect;

constexpr const char* kHub = "http://hub.test";
constexpr const char* kToken = "hf_secret";
constexpr const char* kTokenHeader = "\r\nAuthorization: Bearer ";

// Sends each connection the next answer. The server is also the proxy for all
// requests, so redirects to any address reach this server.
class Server {
 public:
  Server()
      : listener_(accelerate::listen_on({false, "127.0.0.1", 0})),
        thread_([this] { serve(); }) {
    const std::string address =
        "http://127.0.0.1:" +
        std::to_string(accelerate::bound_port(listener_.get()));
    for (const char* name : {"http_proxy", "https_proxy", "all_proxy"}) {
      ::setenv(name, address.c_str(), 1);
    }
    ::unsetenv("no_proxy");
    ::unsetenv("NO_PROXY");
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server() {
    stopping_ = true;
    ::shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }

  void set_answers(std::vector<std::string> answers) {
    const std::scoped_lock lock(mutex_);
    answers_ = std::move(answers);
    next_ = 0;
  }

 private:
  void serve() {
    while (!stopping_) {
      pollfd waiting = {listener_.get(), POLLIN, 0};
      if (::poll(&waiting, 1, 1000) <= 0) {
        continue;
      }
      const UniqueFd socket(::accept(listener_.get(), nullptr, nullptr));
      if (socket) {
        answer(socket.get());
      }
    }
  }

  void answer(int socket) {
    const std::string request = read_request(socket);
    if (request.find(kTokenHeader) != std::string::npos) {
      const std::string url = request.substr(request.find(' ') + 1);
      expect(origin_of(url.substr(0, url.find(' '))) == kHub);
    }
    const std::string text = next_answer();
    (void)::send(socket, text.data(), text.size(), MSG_NOSIGNAL);
  }

  static std::string read_request(int socket) {
    std::string request;
    char bytes[4096];
    while (request.find("\r\n\r\n") == std::string::npos) {
      pollfd waiting = {socket, POLLIN, 0};
      const ssize_t count = ::poll(&waiting, 1, 1000) > 0
                                ? ::recv(socket, bytes, sizeof bytes, 0)
                                : 0;
      if (count <= 0) {
        break;
      }
      request.append(bytes, static_cast<std::size_t>(count));
    }
    return request;
  }

  std::string next_answer() {
    const std::scoped_lock lock(mutex_);
    return next_ < answers_.size() ? answers_[next_++]
                                   : "HTTP/1.0 404 Not Found\r\n\r\n";
  }

  UniqueFd listener_;
  std::mutex mutex_;
  std::vector<std::string> answers_;
  std::size_t next_ = 0;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

HubOptions options_for(const std::filesystem::path& cache) {
  HubOptions options;
  options.endpoint = kHub;
  options.token = kToken;
  options.cache = cache;
  options.connect_timeout = std::chrono::seconds(5);
  options.response_timeout = std::chrono::seconds(5);
  options.stall_timeout = std::chrono::seconds(5);
  options.attempts = 1;
  options.first_pause = std::chrono::milliseconds(0);
  return options;
}

void resolve(const HubOptions& options) {
  try {
    (void)resolve_model("org/name", "main", {}, options);
  } catch (const accelerate::FormatError&) {
    // A bad answer.
  } catch (const accelerate::IoError&) {
    // A rejected request, or a connection that was closed early.
  } catch (const accelerate::UnsupportedError&) {
    // Only pickled weights.
  }
}

std::set<std::string> names_in(const std::filesystem::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.insert(entry.path().filename());
  }
  return names;
}

// Every link in the cache must point into the cache.
void check_links(const std::filesystem::path& cache) {
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(cache)) {
    if (entry.is_symlink()) {
      const auto target = std::filesystem::weakly_canonical(entry.path());
      const auto root = std::filesystem::weakly_canonical(cache);
      expect(target.string().starts_with(root.string() + "/"));
    }
  }
}

void download(const std::vector<std::string>& answers) {
  static Server server;
  static const accelerate::TemporaryDirectory folder;
  const auto cache = folder.path() / "cache";
  server.set_answers(answers);
  // The second call continues the downloads that the first call left
  // incomplete.
  resolve(options_for(cache));
  resolve(options_for(cache));
  if (std::filesystem::exists(cache)) {
    expect(names_in(folder.path()) == std::set<std::string>{"cache"});
    check_links(cache);
    std::filesystem::remove_all(cache);
  } else {
    expect(names_in(folder.path()).empty());
  }
}

void check_names(const std::string& text) {
  (void)origin_of(text);
  (void)origin_of(resolve_url("https://hub.test/a/b?c", text));
  (void)normalized_etag(text);
  try {
    const Repository repository = make_repository(text, text);
    expect(repository.folder().find('/') == std::string::npos);
    expect(repository.file_url(kHub, "main", text).starts_with(kHub));
  } catch (const accelerate::ArgumentError&) {
    // The only allowed error for a bad name.
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(
    const std::uint8_t* data, std::size_t size) {
  const std::vector<std::string> parts = accelerate::fuzz::parts_of(data, size);
  check_names(parts[0]);
  download(parts);
  return 0;
}
