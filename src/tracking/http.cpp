// SPDX-License-Identifier: Apache-2.0
#include "tracking/http.h"

#include "accelerate/error.h"
#include "base/curl_library.h"
#include "base/str_cat.h"

namespace accelerate {
namespace {

constexpr std::size_t kMaxBody = std::size_t{16} << 20;

// Written as numbers: newer headers deprecate the first, and older headers lack
// the second.
constexpr auto kAllowedProtocols =
    static_cast<CURLoption>(CURLOPTTYPE_LONG + 181);
constexpr auto kAllowedProtocolNames =
    static_cast<CURLoption>(CURLOPTTYPE_STRINGPOINT + 318);

class CurlHandle {
 public:
  CurlHandle() : curl_(curl_library().easy_init()) {
    if (curl_ == nullptr) {
      throw InternalError("libcurl did not create a handle");
    }
  }
  CurlHandle(const CurlHandle&) = delete;
  CurlHandle& operator=(const CurlHandle&) = delete;
  ~CurlHandle() {
    curl_library().easy_cleanup(curl_);
    curl_library().slist_free_all(headers_);
  }

  bool set(CURLoption option, auto value) {
    return curl_library().easy_setopt(curl_, option, value) == CURLE_OK;
  }
  void add_header(const std::string& line) {
    headers_ = curl_library().slist_append(headers_, line.c_str());
    set(CURLOPT_HTTPHEADER, headers_);
  }
  CURLcode perform() { return curl_library().easy_perform(curl_); }
  int status() {
    long status = 0;
    curl_library().easy_getinfo(curl_, CURLINFO_RESPONSE_CODE, &status);
    return static_cast<int>(status);
  }

 private:
  CURL* curl_;
  curl_slist* headers_ = nullptr;
};

std::size_t collect_body(
    char* data, std::size_t, std::size_t size, void* user) {
  auto& body = *static_cast<std::string*>(user);
  if (body.size() + size > kMaxBody) {
    return 0;  // Ends the transfer with an error.
  }
  body.append(data, size);
  return size;
}

void restrict_to_http(CurlHandle& curl) {
  if (!curl.set(kAllowedProtocolNames, "http,https") &&
      !curl.set(
          kAllowedProtocols,
          static_cast<long>(CURLPROTO_HTTP | CURLPROTO_HTTPS))) {
    throw InternalError("libcurl cannot be restricted to HTTP");
  }
}

}  // namespace

HttpResponse send_http(const HttpRequest& request, const HttpOptions& options) {
  HttpResponse response;
  char reason[CURL_ERROR_SIZE] = {};
  CurlHandle curl;
  restrict_to_http(curl);
  curl.set(CURLOPT_ERRORBUFFER, reason);
  curl.set(CURLOPT_URL, request.url.c_str());
  curl.set(CURLOPT_USERAGENT, "accelerate-cpp");
  curl.set(CURLOPT_NOSIGNAL, 1L);
  curl.set(CURLOPT_FOLLOWLOCATION, 0L);
  curl.set(
      CURLOPT_CONNECTTIMEOUT_MS,
      static_cast<long>(options.connect_timeout.count()));
  curl.set(CURLOPT_TIMEOUT_MS, static_cast<long>(options.timeout.count()));
  curl.set(CURLOPT_WRITEFUNCTION, collect_body);
  curl.set(CURLOPT_WRITEDATA, &response.body);
  curl.add_header("Expect:");  // No round trip before the body is sent.
  if (options.authorization.empty()) {
    curl.set(CURLOPT_NETRC, static_cast<long>(CURL_NETRC_OPTIONAL));
  } else {
    curl.add_header("Authorization: " + options.authorization);
  }
  if (request.method != "GET") {
    curl.set(CURLOPT_CUSTOMREQUEST, request.method.c_str());
    curl.set(CURLOPT_POSTFIELDSIZE, static_cast<long>(request.body.size()));
    curl.set(CURLOPT_POSTFIELDS, request.body.data());
    curl.add_header("Content-Type: " + request.content_type);
  }
  if (const CURLcode code = curl.perform(); code != CURLE_OK) {
    throw ServerUnreachable(str_cat(
        request.url.substr(0, request.url.find('?')),
        ": ",
        reason[0] != '\0' ? reason : curl_library().easy_strerror(code)));
  }
  response.status = curl.status();
  return response;
}

std::string url_escaped(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  constexpr std::string_view kPlain = "-._~";
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       (c >= '0' && c <= '9') ||
                       kPlain.find(c) != std::string_view::npos;
    if (plain) {
      result += c;
    } else {
      result += {'%', kDigits[byte >> 4U], kDigits[byte & 15U]};
    }
  }
  return result;
}

}  // namespace accelerate
