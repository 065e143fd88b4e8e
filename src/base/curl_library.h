// SPDX-License-Identifier: Apache-2.0
// Loads libcurl at the first request, so that a program that sends no request
// runs even on machines without libcurl. Works with the libcurl of any
// distribution.
#pragma once

#include <curl/curl.h>

namespace accelerate {

struct CurlLibrary {
  decltype(&::curl_global_init) global_init;
  decltype(&::curl_slist_append) slist_append;
  decltype(&::curl_slist_free_all) slist_free_all;
  decltype(&::curl_easy_init) easy_init;
  decltype(&::curl_easy_cleanup) easy_cleanup;
  decltype(&::curl_easy_setopt) easy_setopt;
  decltype(&::curl_easy_getinfo) easy_getinfo;
  decltype(&::curl_easy_perform) easy_perform;
  decltype(&::curl_easy_strerror) easy_strerror;
  decltype(&::curl_share_init) share_init;
  decltype(&::curl_share_setopt) share_setopt;
  decltype(&::curl_share_cleanup) share_cleanup;
};

/// Returns the initialized library. Throws `UnsupportedError` if libcurl is not
/// installed.
const CurlLibrary& curl_library();

/// Loads libcurl from a file; for tests.
CurlLibrary open_curl(const char* file);

}  // namespace accelerate
