// SPDX-License-Identifier: Apache-2.0
// libcurl, opened when something is first downloaded: a program that downloads
// nothing runs on hosts that have none, and any distribution's will do.
#pragma once

#include <curl/curl.h>

namespace transformers::hub {

struct CurlLibrary {
  decltype(&::curl_global_init) global_init;
  decltype(&::curl_slist_append) slist_append;
  decltype(&::curl_slist_free_all) slist_free_all;
  decltype(&::curl_easy_init) easy_init;
  decltype(&::curl_easy_cleanup) easy_cleanup;
  decltype(&::curl_easy_reset) easy_reset;
  decltype(&::curl_easy_setopt) easy_setopt;
  decltype(&::curl_easy_getinfo) easy_getinfo;
  decltype(&::curl_easy_perform) easy_perform;
  decltype(&::curl_easy_strerror) easy_strerror;
};

/// The library, ready to use. Throws `UnsupportedError` where there is none.
const CurlLibrary& curl_library();

/// The same of another file; for tests.
CurlLibrary open_curl(const char* file);

}  // namespace transformers::hub
