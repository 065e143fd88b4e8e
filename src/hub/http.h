// SPDX-License-Identifier: Apache-2.0
// HTTP requests to the Hub. The token is never sent to another server.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "hub/hub_options.h"

namespace transformers::hub {

struct Response {
  int status = 0;
  std::string url;  ///< The URL after the last redirect.
  /// The headers of this response and of the redirects that led to it, with
  /// names in lower case. Headers of later responses override headers of
  /// earlier responses. Redirects are included because the Hub describes a
  /// file in the headers of the redirect.
  std::map<std::string, std::string> headers;
  std::string body;
  std::int64_t received = 0;

  std::optional<std::string> header(const std::string& name) const;
};

struct Request {
  std::string url;
  bool head = false;
  /// The offset of the first byte to request.
  std::int64_t from = 0;
  /// Whether to stop at a redirect to another origin.
  bool stop_at_other_origin = false;
  /// Receives the body of a response with status 200 or 206. All other bodies,
  /// or all bodies if `sink` is empty, are stored in the response and must not
  /// exceed `max_body` bytes.
  std::function<void(const Response& response, std::string_view bytes)> sink;
  std::size_t max_body = std::size_t{16} << 20;
};

/// Thrown if the connection failed or was closed early. Another attempt may
/// succeed.
class ConnectionLost : public std::exception {
 public:
  explicit ConnectionLost(std::string message) : message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;
};

/// Sends one request at a time and keeps the connection open between requests.
class HttpClient {
 public:
  explicit HttpClient(const HubOptions& options);
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;
  ~HttpClient();

  /// Sends a request and follows redirects. Sends the token only to the origin
  /// of the first URL. Throws `ConnectionLost` if the connection fails, and
  /// `FormatError` for an unacceptable response. Rethrows exceptions from the
  /// sink.
  Response send(const Request& request);

 private:
  Response send_once(
      const Request& request, const std::string& url, bool with_token);

  const HubOptions& options_;
  struct OpenConnections;
  std::unique_ptr<OpenConnections> connections_;
};

/// Returns the origin of a URL (scheme, server name and port), in lower case.
std::string origin_of(std::string_view url);
/// Resolves the location of a redirect, which may be relative.
std::string resolve_url(std::string_view base, std::string_view location);

}  // namespace transformers::hub
