// SPDX-License-Identifier: Apache-2.0
#include "hub/curl_library.h"

#include <dlfcn.h>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace transformers::hub {
namespace {

// The library has this name in every distribution.
constexpr char kLibrary[] = "libcurl.so.4";

template <typename Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr) {
    throw accelerate::UnsupportedError(
        accelerate::str_cat(
            "this machine's libcurl has no function `", name, "`"),
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
    throw accelerate::UnsupportedError(
        accelerate::str_cat(
            "downloads need libcurl, which cannot be loaded: ",
            reason != nullptr ? reason : file),
        "run `apt-get install libcurl4`, or download the files yourself and "
        "pass their folder");
  }
  CurlLibrary curl{};
  find(library, "curl_global_init", curl.global_init);
  find(library, "curl_slist_append", curl.slist_append);
  find(library, "curl_slist_free_all", curl.slist_free_all);
  find(library, "curl_easy_init", curl.easy_init);
  find(library, "curl_easy_cleanup", curl.easy_cleanup);
  find(library, "curl_easy_setopt", curl.easy_setopt);
  find(library, "curl_easy_getinfo", curl.easy_getinfo);
  find(library, "curl_easy_perform", curl.easy_perform);
  find(library, "curl_easy_strerror", curl.easy_strerror);
  find(library, "curl_share_init", curl.share_init);
  find(library, "curl_share_setopt", curl.share_setopt);
  find(library, "curl_share_cleanup", curl.share_cleanup);
  return curl;
}

const CurlLibrary& curl_library() {
  static const CurlLibrary curl = initialize_curl();
  return curl;
}

}  // namespace transformers::hub
