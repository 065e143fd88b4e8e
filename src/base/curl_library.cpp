// SPDX-License-Identifier: Apache-2.0
#include "base/curl_library.h"

#include <dlfcn.h>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace accelerate {
namespace {

// The library has this name in every distribution.
constexpr char kLibrary[] = "libcurl.so.4";

template <typename Function>
void find_curl_function(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr) {
    throw UnsupportedError(
        str_cat("this machine's libcurl has no function `", name, "`"),
        "install libcurl 7 or later");
  }
}

CurlLibrary initialize_curl() {
  const CurlLibrary curl = open_curl(kLibrary);
  curl.global_init(CURL_GLOBAL_DEFAULT);
  return curl;
}

}  // namespace

CurlLibrary open_curl(const char* file) {
  void* const library = ::dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    const char* const reason = ::dlerror();
    throw UnsupportedError(
        str_cat(
            "HTTP requests need libcurl, which cannot be loaded: ",
            reason != nullptr ? reason : file),
        "run `apt-get install libcurl4`");
  }
  CurlLibrary curl{};
  find_curl_function(library, "curl_global_init", curl.global_init);
  find_curl_function(library, "curl_slist_append", curl.slist_append);
  find_curl_function(library, "curl_slist_free_all", curl.slist_free_all);
  find_curl_function(library, "curl_easy_init", curl.easy_init);
  find_curl_function(library, "curl_easy_cleanup", curl.easy_cleanup);
  find_curl_function(library, "curl_easy_setopt", curl.easy_setopt);
  find_curl_function(library, "curl_easy_getinfo", curl.easy_getinfo);
  find_curl_function(library, "curl_easy_perform", curl.easy_perform);
  find_curl_function(library, "curl_easy_strerror", curl.easy_strerror);
  find_curl_function(library, "curl_share_init", curl.share_init);
  find_curl_function(library, "curl_share_setopt", curl.share_setopt);
  find_curl_function(library, "curl_share_cleanup", curl.share_cleanup);
  return curl;
}

const CurlLibrary& curl_library() {
  static const CurlLibrary curl = initialize_curl();
  return curl;
}

}  // namespace accelerate
