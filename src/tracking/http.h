// SPDX-License-Identifier: Apache-2.0
// HTTP requests of trackers to a server that the user chose.
#pragma once

#include <chrono>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

namespace accelerate {

struct HttpOptions {
  /// The value of the header `Authorization`. If empty, `.netrc` provides the
  /// credentials. Never part of an error message.
  std::string authorization = {};
  std::chrono::milliseconds connect_timeout{5'000};
  std::chrono::milliseconds timeout{10'000};
};

struct HttpRequest {
  std::string method;  ///< `GET`, `POST` or `PUT`
  std::string url;
  std::string body = {};
  std::string content_type = "application/json";
};

struct HttpResponse {
  int status = 0;
  std::string body;
};

/// The server could not be reached, or the connection failed. Another attempt
/// may succeed.
class ServerUnreachable : public std::exception {
 public:
  explicit ServerUnreachable(std::string message)
      : message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;
};

/// Sends a request. Never follows a redirect, so that the authorization stays
/// with the server that the user chose. Throws `ServerUnreachable`, or
/// `UnsupportedError` if libcurl is not installed.
HttpResponse send_http(const HttpRequest& request, const HttpOptions& options);

/// Escapes text for the query or the path of a URL.
std::string url_escaped(std::string_view text);

}  // namespace accelerate
