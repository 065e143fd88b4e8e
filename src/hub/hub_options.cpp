// SPDX-License-Identifier: Apache-2.0
#include "hub/hub_options.h"

#include <algorithm>

#include <arpa/inet.h>
#include <unistd.h>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "config/user_folders.h"
#include "hub/http.h"

namespace transformers::hub {
namespace {

using accelerate::ConfigError;
using accelerate::Environment;
using accelerate::str_cat;

std::string read_endpoint(const Environment& environment) {
  std::string endpoint =
      environment.get("HF_ENDPOINT").value_or(HubOptions().endpoint);
  while (endpoint.ends_with('/')) {
    endpoint.pop_back();
  }
  if (!endpoint.starts_with("https://") && !endpoint.starts_with("http://")) {
    throw ConfigError(
        str_cat(
            "environment variable HF_ENDPOINT is `",
            accelerate::printable(endpoint),
            "`, which starts with neither `https://` nor `http://`"),
        "set it to a URL such as https://huggingface.co, or unset it");
  }
  return endpoint;
}

/// Checks that a token cannot break the HTTP header it is sent in.
std::string checked_token(std::string_view text, const std::string& source) {
  const std::string token(accelerate::trim(text));
  for (const char c : token) {
    if (c <= ' ' || c > '~') {
      throw ConfigError(
          str_cat(
              "the token from ",
              source,
              " contains a space or a character that is not printable ASCII"),
          "copy it again from https://huggingface.co/settings/tokens");
    }
  }
  return token;
}

std::string read_token(
    const Environment& environment, const ResolveOptions& options) {
  if (options.token) {
    return checked_token(*options.token, "`token`");
  }
  for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}) {
    if (const auto token = environment.get(name)) {
      return checked_token(*token, name);
    }
  }
  if (environment.get_flag("HF_HUB_DISABLE_IMPLICIT_TOKEN").value_or(false)) {
    return {};
  }
  const auto token_path = environment.get("HF_TOKEN_PATH");
  const std::filesystem::path path =
      token_path ? expand_home(*token_path, environment)
                 : hugging_face_home(environment) / "token";
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    return {};
  }
  return checked_token(accelerate::read_file(path, 4096), path.string());
}

std::filesystem::path read_cache(
    const Environment& environment, const ResolveOptions& options) {
  if (!options.cache_dir.empty()) {
    return expand_home(options.cache_dir.string(), environment);
  }
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (const auto cache = environment.get(name)) {
      return expand_home(*cache, environment);
    }
  }
  return hugging_face_home(environment) / "hub";
}

}  // namespace

bool is_unencrypted(std::string_view endpoint) {
  constexpr std::string_view kScheme = "http://";
  const std::string origin = origin_of(endpoint);
  if (!origin.starts_with(kScheme)) {
    return false;
  }
  std::string name = origin.substr(kScheme.size());
  if (name.starts_with('[')) {
    return !name.starts_with("[::1]");
  }
  name.resize(std::min(name.find(':'), name.size()));
  in_addr address{};
  const bool is_address = ::inet_pton(AF_INET, name.c_str(), &address) == 1;
  const bool is_loopback =
      is_address && ntohl(address.s_addr) >> 24 == IN_LOOPBACKNET;
  return name != "localhost" && !is_loopback;
}

HubOptions make_hub_options(
    const Environment& environment, const ResolveOptions& options) {
  HubOptions hub_options;
  hub_options.endpoint = read_endpoint(environment);
  hub_options.token = read_token(environment, options);
  hub_options.cache = read_cache(environment, options);
  hub_options.offline =
      options.local_files_only ||
      environment.get_flag("HF_HUB_OFFLINE").value_or(false) ||
      environment.get_flag("TRANSFORMERS_OFFLINE").value_or(false);
  hub_options.progress = options.progress.value_or(
      ::isatty(STDERR_FILENO) == 1 &&
      !environment.get_flag("HF_HUB_DISABLE_PROGRESS_BARS").value_or(false));
  hub_options.lock_timeout = options.lock_timeout;
  if (const auto limit = environment.get_integer("HF_HUB_ETAG_TIMEOUT", 1)) {
    hub_options.response_timeout = std::chrono::seconds(*limit);
  }
  if (const auto limit =
          environment.get_integer("HF_HUB_DOWNLOAD_TIMEOUT", 1)) {
    hub_options.stall_timeout = std::chrono::seconds(*limit);
  }
  return hub_options;
}

}  // namespace transformers::hub
