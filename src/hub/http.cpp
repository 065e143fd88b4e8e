// SPDX-License-Identifier: Apache-2.0
#include "hub/http.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "accelerate/error.h"
#include "base/curl_library.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace transformers::hub {
namespace {

using accelerate::curl_library;
using accelerate::FormatError;
using accelerate::str_cat;

constexpr int kMaxRedirects = 10;
constexpr std::size_t kMaxHeaders = 200;

// CURLOPT_PROTOCOLS_STR, and CURLOPT_PROTOCOLS for libcurl before 7.85. Both
// constants are numbers here, because older headers lack the first constant,
// newer headers deprecate the second, and the loaded library may not match the
// headers.
constexpr auto kProtocolNames =
    static_cast<CURLoption>(CURLOPTTYPE_STRINGPOINT + 318);
constexpr auto kProtocols = static_cast<CURLoption>(CURLOPTTYPE_LONG + 181);

struct Headers {
  curl_slist* list = nullptr;

  ~Headers() { curl_library().slist_free_all(list); }
  void add(const std::string& line) {
    list = curl_library().slist_append(list, line.c_str());
  }
};

/// The libcurl handle of one request. A handle is not reused, because libcurl
/// 7.83 to 8.0 would read freed memory if the first header line of a response
/// begins with a space (curl issue 11101).
struct EasyHandle {
  CURL* curl = curl_library().easy_init();

  EasyHandle() {
    if (curl == nullptr) {
      throw accelerate::InternalError("libcurl did not create a handle");
    }
  }
  EasyHandle(const EasyHandle&) = delete;
  EasyHandle& operator=(const EasyHandle&) = delete;
  ~EasyHandle() { curl_library().easy_cleanup(curl); }
};

/// The state of libcurl's callbacks. An exception cannot pass through C code,
/// so it is stored and rethrown after the transfer.
struct Transfer {
  const Request& request;
  Response& response;
  CURL* curl = nullptr;
  std::exception_ptr error;

  std::size_t guarded(std::size_t size, const std::function<void()>& body) {
    try {
      body();
      return size;
    } catch (...) {
      error = std::current_exception();
      return 0;
    }
  }
};

std::size_t on_header(char* data, std::size_t, std::size_t size, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  return transfer.guarded(size, [&] {
    const std::string_view line(data, size);
    const auto colon = line.find(':');
    if (colon == std::string_view::npos) {
      return;
    }
    auto& headers = transfer.response.headers;
    headers[accelerate::lower(accelerate::trim(line.substr(0, colon)))] =
        accelerate::printable(accelerate::trim(line.substr(colon + 1)));
    if (headers.size() > kMaxHeaders) {
      throw FormatError(str_cat(
          transfer.response.url, " sent more than ", kMaxHeaders, " headers"));
    }
  });
}

std::size_t on_body(char* data, std::size_t, std::size_t size, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  return transfer.guarded(size, [&] {
    Response& response = transfer.response;
    long status = 0;
    curl_library().easy_getinfo(transfer.curl, CURLINFO_RESPONSE_CODE, &status);
    response.status = static_cast<int>(status);
    const std::string_view bytes(data, size);
    if (transfer.request.sink && (status == 200 || status == 206)) {
      response.received += static_cast<std::int64_t>(size);
      transfer.request.sink(response, bytes);
      return;
    }
    if (response.body.size() + size > transfer.request.max_body) {
      throw FormatError(str_cat(
          response.url,
          " sent more than ",
          transfer.request.max_body,
          " bytes"));
    }
    response.body += bytes;
  });
}

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 ||
         status == 308;
}

}  // namespace

/// The libcurl state that the handles of all requests share.
struct HttpClient::OpenConnections {
  CURLSH* share = curl_library().share_init();

  OpenConnections() {
    for (const auto data :
         {CURL_LOCK_DATA_CONNECT,
          CURL_LOCK_DATA_DNS,
          CURL_LOCK_DATA_SSL_SESSION}) {
      curl_library().share_setopt(share, CURLSHOPT_SHARE, data);
    }
  }
  OpenConnections(const OpenConnections&) = delete;
  OpenConnections& operator=(const OpenConnections&) = delete;
  ~OpenConnections() { curl_library().share_cleanup(share); }
};

std::optional<std::string> Response::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::nullopt : std::optional(found->second);
}

std::string origin_of(std::string_view url) {
  const auto scheme = url.find("://");
  const auto authority = scheme == std::string_view::npos ? 0 : scheme + 3;
  std::string origin =
      accelerate::lower(url.substr(0, url.find_first_of("/?#", authority)));
  // Removes the user information before `@`.
  if (const auto at = origin.rfind('@');
      at != std::string::npos && at >= authority) {
    origin.erase(authority, at + 1 - authority);
  }
  for (const auto& [name, port] :
       {std::pair("http://", ":80"), std::pair("https://", ":443")}) {
    if (origin.starts_with(name) && origin.ends_with(port)) {
      origin.resize(origin.size() - std::string_view(port).size());
    }
  }
  return origin;
}

std::string resolve_url(std::string_view base, std::string_view location) {
  if (location.find("://") != std::string_view::npos) {
    return std::string(location);
  }
  const auto scheme = base.find("://");
  if (location.starts_with("//")) {
    return str_cat(base.substr(0, scheme + 1), location);
  }
  const auto path = base.find('/', scheme + 3);
  if (location.starts_with('/')) {
    return str_cat(base.substr(0, path), location);
  }
  const auto last = base.substr(0, base.find_first_of("?#")).rfind('/');
  return str_cat(base.substr(0, last + 1), location);
}

HttpClient::HttpClient(const HubOptions& options)
    : options_(options), connections_(std::make_unique<OpenConnections>()) {
}

HttpClient::~HttpClient() = default;

Response HttpClient::send_once(
    const Request& request, const std::string& url, bool with_token) {
  Response response;
  response.url = url;
  Headers headers;
  char reason[CURL_ERROR_SIZE] = {};
  const EasyHandle handle;
  CURL* const curl = handle.curl;
  Transfer transfer{request, response, curl, nullptr};
  // Sizes and ranges must refer to the uncompressed file.
  headers.add("Accept-Encoding: identity");
  if (with_token && !options_.token.empty()) {
    headers.add("Authorization: Bearer " + options_.token);
  }
  if (request.from > 0) {
    headers.add(str_cat("Range: bytes=", request.from, "-"));
  }
  const auto set = [&](CURLoption option, auto value) {
    return curl_library().easy_setopt(curl, option, value) == CURLE_OK;
  };
  set(CURLOPT_SHARE, connections_->share);
  set(CURLOPT_ERRORBUFFER, reason);
  set(CURLOPT_URL, url.c_str());
  set(CURLOPT_HTTPHEADER, headers.list);
  set(CURLOPT_USERAGENT, "accelerate-cpp");
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_NOBODY, request.head ? 1L : 0L);
  if (!set(kProtocolNames, "http,https") &&
      !set(kProtocols, static_cast<long>(CURLPROTO_HTTP | CURLPROTO_HTTPS))) {
    throw accelerate::InternalError("libcurl cannot be restricted to HTTP");
  }
  set(CURLOPT_CONNECTTIMEOUT_MS,
      static_cast<long>(options_.connect_timeout.count()));
  if (request.sink) {
    // A file transfer may take any amount of time, but it must not stall.
    set(CURLOPT_LOW_SPEED_LIMIT, 1L);
    set(CURLOPT_LOW_SPEED_TIME,
        std::max<long>(
            1, static_cast<long>(options_.stall_timeout.count() / 1000)));
  } else {
    set(CURLOPT_TIMEOUT_MS,
        static_cast<long>(options_.response_timeout.count()));
  }
  set(CURLOPT_HEADERFUNCTION, on_header);
  set(CURLOPT_HEADERDATA, &transfer);
  set(CURLOPT_WRITEFUNCTION, on_body);
  set(CURLOPT_WRITEDATA, &transfer);

  const CURLcode code = curl_library().easy_perform(curl);
  if (transfer.error) {
    std::rethrow_exception(transfer.error);
  }
  if (code != CURLE_OK) {
    throw ConnectionLost(
        reason[0] != '\0' ? reason : curl_library().easy_strerror(code));
  }
  long status = 0;
  curl_library().easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  response.status = static_cast<int>(status);
  return response;
}

Response HttpClient::send(const Request& request) {
  const std::string first_origin = origin_of(request.url);
  std::string url = request.url;
  std::map<std::string, std::string> headers;
  for (int hop = 0; hop <= kMaxRedirects; ++hop) {
    Response response = send_once(request, url, origin_of(url) == first_origin);
    const auto location = response.header("location");
    for (auto& [name, value] : response.headers) {
      headers[name] = value;
    }
    response.headers = headers;
    if (!is_redirect(response.status) || !location) {
      return response;
    }
    const std::string next = resolve_url(url, *location);
    if (origin_of(url).starts_with("https:") &&
        !origin_of(next).starts_with("https:")) {
      throw FormatError(
          str_cat(url, " redirects to an unencrypted address: ", next));
    }
    if (request.stop_at_other_origin && origin_of(next) != first_origin) {
      return response;
    }
    url = next;
  }
  throw FormatError(
      str_cat(request.url, " redirects more than ", kMaxRedirects, " times"));
}

}  // namespace transformers::hub
