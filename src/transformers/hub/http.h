// SPDX-License-Identifier: Apache-2.0
// Requests to the Hub, with limits, redirects and a token that stays home.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "transformers/hub/settings.h"

namespace transformers::hub {

struct Response {
  int status = 0;
  std::string url;  ///< Of the last hop.
  /// Names in lower case. Those of all hops, a later one over an earlier: the
  /// Hub tells about a file before it sends elsewhere.
  std::map<std::string, std::string> headers;
  std::string body;
  std::int64_t received = 0;

  std::optional<std::string> header(const std::string& name) const;
};

struct Request {
  std::string url;
  bool head = false;
  /// Ask for the bytes from here on.
  std::int64_t from = 0;
  /// A HEAD request stops at a redirect to another host.
  bool stop_at_other_host = false;
  /// Takes the body of an answer with status 200 or 206; the response says
  /// which. Without one the body is kept, up to `max_body`.
  std::function<void(const Response& response, std::string_view bytes)> sink;
  std::size_t max_body = std::size_t{16} << 20;
};

/// The connection failed, or the answer was cut: worth another attempt.
class ConnectionLost : public std::exception {
 public:
  explicit ConnectionLost(std::string what) : what_(std::move(what)) {}
  const char* what() const noexcept override { return what_.c_str(); }

 private:
  std::string what_;
};

/// One connection at a time; keeps it open between requests.
class HttpClient {
 public:
  explicit HttpClient(const Settings& settings);
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;
  ~HttpClient();

  /// Follows redirects. The token goes to the host of the first address and to
  /// no other. Throws `ConnectionLost`, `FormatError` for an answer that
  /// cannot be, and what the sink throws.
  Response send(const Request& request);

 private:
  Response send_once(
      const Request& request, const std::string& url, bool with_token);

  const Settings& settings_;
  struct Handle;
  std::unique_ptr<Handle> handle_;
};

/// Scheme, host and port of an address, in lower case.
std::string origin_of(std::string_view url);
/// An address that a redirect gives, relative or not.
std::string resolve_url(std::string_view base, std::string_view location);

}  // namespace transformers::hub
