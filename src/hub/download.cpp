// SPDX-License-Identifier: Apache-2.0
#include "hub/download.h"

#include <mutex>
#include <utility>

#include "accelerate/json.h"
#include "base/file_lock.h"
#include "base/files.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "hub/blob_file.h"
#include "hub/progress.h"
#include "hub/retry.h"

namespace transformers::hub {
namespace {

using accelerate::FormatError;
using accelerate::IoError;
using accelerate::Json;
using accelerate::str_cat;

std::optional<std::int64_t> integer_header(
    const Response& response, const std::string& name) {
  const auto text = response.header(name);
  return text ? accelerate::parse_integer(*text) : std::nullopt;
}

std::string status_text(const Response& response) {
  std::string text = str_cat(response.url, " returned ", response.status);
  if (const auto message = response.header("x-error-message")) {
    text += ": " + accelerate::printable(message->substr(0, 300));
  }
  return text;
}

constexpr const char* kUseCache =
    "try again later, or set HF_HUB_OFFLINE=1 to use only the cache";

}  // namespace

std::string normalized_etag(std::string_view etag) {
  if (etag.starts_with("W/")) {
    etag.remove_prefix(2);
  }
  while (etag.starts_with('"')) {
    etag.remove_prefix(1);
  }
  while (etag.ends_with('"')) {
    etag.remove_suffix(1);
  }
  return std::string(etag);
}

Downloader::Downloader(const HubOptions& options, Repository repository)
    : options_(options), repository_(std::move(repository)), client_(options_) {
  static std::once_flag warned;
  if (!options_.token.empty() && is_unencrypted(options_.endpoint)) {
    std::call_once(warned, [&] {
      warn(str_cat(
          "HF_ENDPOINT is ",
          options_.endpoint,
          ": the token and the files are sent unencrypted, so others on the "
          "network can read the token and change the files"));
    });
  }
}

void Downloader::refuse(const Response& response) const {
  const std::string code = response.header("x-error-code").value_or("");
  const std::string& name = repository_.name;
  const std::string text = status_text(response);
  const bool has_token = !options_.token.empty();
  if (code == "GatedRepo") {
    throw IoError(
        str_cat("`", name, "` is gated: ", text),
        str_cat(
            "request access at ",
            options_.endpoint,
            "/",
            name,
            ", then set HF_TOKEN to a token for the account that has access"));
  }
  if (response.status == 401 || response.status == 403) {
    throw IoError(
        str_cat(
            "`",
            name,
            "` does not exist or cannot be read ",
            has_token ? "with this token" : "without a token",
            ": ",
            text),
        has_token ? "check the name and the permissions of the token"
                  : "check the name; for a private model, set HF_TOKEN");
  }
  if (response.status == 404 && code == "RevisionNotFound") {
    throw IoError(
        str_cat(
            "`",
            name,
            "` has no revision `",
            repository_.revision,
            "`: ",
            text),
        "check the name of the branch, tag or commit");
  }
  if (response.status == 404 && code == "EntryNotFound") {
    throw IoError(
        str_cat("`", name, "` has no such file: ", text),
        "check the name of the file and the revision");
  }
  if (response.status == 404) {
    throw IoError(
        str_cat("there is no model `", name, "`: ", text),
        "check the name; for a private model, set HF_TOKEN");
  }
  throw IoError(text, "check HF_ENDPOINT and the proxy");
}

Response Downloader::request(const Request& request) {
  Retry retry(options_);
  while (true) {
    std::string failure;
    std::optional<std::string> retry_after;
    try {
      Response response = client_.send(request);
      if (!is_transient(response.status)) {
        return response;
      }
      failure = status_text(response);
      retry_after = response.header("retry-after");
    } catch (const ConnectionLost& error) {
      failure = str_cat("cannot reach ", request.url, ": ", error.what());
    }
    if (!retry.wait_for_next_attempt(retry_after)) {
      throw Unavailable(
          str_cat(failure, " (", retry.attempts() - 1, " attempts)"),
          kUseCache);
    }
  }
}

Listing Downloader::list() {
  Request list_request;
  list_request.url = repository_.list_url(options_.endpoint);
  const Response response = request(list_request);
  if (response.status != 200) {
    refuse(response);
  }
  const Json json = Json::parse(response.body, {.source = response.url});
  Listing listing;
  const Json* commit = json.find("sha");
  const Json* files = json.find("siblings");
  if (commit == nullptr || !commit->is_string() ||
      !is_commit(commit->as_string()) || files == nullptr ||
      !files->is_array()) {
    throw FormatError(
        str_cat(
            "the response from ", response.url, " is not in the Hub's format"),
        "check HF_ENDPOINT");
  }
  listing.commit = commit->as_string();
  for (const Json& file : files->as_array()) {
    const std::string& name = file.at("rfilename").as_string();
    if (!is_plain_path(name)) {
      throw FormatError(str_cat(
          response.url,
          " lists a file outside the model's folder: `",
          accelerate::printable(name),
          "`"));
    }
    listing.files.push_back(name);
  }
  return listing;
}

Downloader::Metadata Downloader::metadata(
    const std::string& url, const std::string& commit) {
  Request head_request;
  head_request.url = url;
  head_request.head = true;
  head_request.stop_at_other_origin = true;
  const Response response = request(head_request);
  const bool is_redirect = response.status >= 300 && response.status < 400;
  if (response.status != 200 && !is_redirect) {
    refuse(response);
  }
  const auto actual_commit = response.header("x-repo-commit");
  auto etag = response.header("x-linked-etag");
  if (!etag) {
    etag = response.header("etag");
  }
  if (!actual_commit || *actual_commit != commit || !etag) {
    throw FormatError(
        str_cat(
            url,
            !actual_commit ? " returned no commit"
            : *actual_commit != commit
                ? " returned a different commit: " + *actual_commit
                : " returned no ETag"),
        "check HF_ENDPOINT and the proxy");
  }
  Metadata result;
  result.etag = normalized_etag(*etag);
  if (!is_plain_name(result.etag)) {
    throw FormatError(str_cat(
        url,
        " returned an ETag that cannot be used as a file name: ",
        accelerate::printable(*etag)));
  }
  result.size = integer_header(response, "x-linked-size");
  if (!result.size && !is_redirect) {
    result.size = integer_header(response, "content-length");
  }
  if (result.size.value_or(0) < 0) {
    throw FormatError(
        str_cat(url, " announced a size of ", *result.size, " bytes"),
        "check HF_ENDPOINT and the proxy");
  }
  return result;
}

void Downloader::fetch(
    const ModelCache& cache,
    const std::string& commit,
    const std::string& file) {
  if (cache.has(commit, file)) {
    return;
  }
  const std::string url = repository_.file_url(options_.endpoint, commit, file);
  const Metadata expected = metadata(url, commit);
  const accelerate::FileLock lock(
      cache.lock(expected.etag), options_.lock_timeout);
  if (cache.has(commit, file)) {
    return;  // Another process has downloaded the file.
  }
  const auto blob = cache.blob(expected.etag);
  if (!std::filesystem::is_regular_file(blob)) {
    download(url, expected, file, blob);
  }
  cache.link(commit, file, expected.etag);
}

// A file that does not fit would fill the disk before the download fails.
void Downloader::check_disk(
    const BlobFile& partial,
    const std::optional<std::int64_t> size,
    const std::string& file,
    const std::filesystem::path& folder) const {
  std::error_code error;
  const auto free = std::filesystem::space(folder, error).available;
  const std::int64_t needed = size.value_or(0) - partial.size();
  if (!error && needed > 0 && static_cast<std::uintmax_t>(needed) > free) {
    throw IoError(
        str_cat(
            file,
            " of `",
            repository_.name,
            "` has ",
            *size,
            " bytes, but only ",
            free,
            " bytes are free in ",
            folder.string()),
        "free some space, or set HF_HUB_CACHE to a folder on a larger disk");
  }
}

// 1. Resume after the bytes that an earlier attempt or process has left in
//    `<blob>.incomplete`.
// 2. If the connection closes early, request the rest.
// 3. Check the size, and the digest if the ETag is a digest.
// 4. Only then rename the file to the blob.
void Downloader::download(
    const std::string& url,
    const Metadata& expected,
    const std::string& file,
    const std::filesystem::path& blob) {
  BlobFile partial(
      {.blob = blob, .etag = expected.etag, .size = expected.size, .url = url});
  check_disk(partial, expected.size, file, blob.parent_path());
  Progress progress(
      options_.progress, file, partial.size(), expected.size.value_or(0));
  Retry retry(options_);
  while (!partial.is_complete()) {
    const std::int64_t before = partial.size();
    Request range_request;
    range_request.url = url;
    range_request.from = expected.size ? before : 0;
    bool first = true;
    range_request.sink = [&](const Response& response, std::string_view bytes) {
      if (std::exchange(first, false) &&
          !partial.begin_part(response.status, response)) {
        progress.restart();
      }
      partial.append(bytes);
      progress.advance(static_cast<std::int64_t>(bytes.size()));
    };
    std::string failure;
    std::optional<std::string> retry_after;
    try {
      const Response response = client_.send(range_request);
      if (response.status == 200 || response.status == 206) {
        partial.end_of_response();
      } else if (response.status == 416) {
        partial.clear();
        progress.restart();
        failure = status_text(response);
      } else if (is_transient(response.status)) {
        failure = status_text(response);
        retry_after = response.header("retry-after");
      } else {
        refuse(response);
      }
    } catch (const ConnectionLost& error) {
      failure = str_cat("the connection to ", url, " failed: ", error.what());
    }
    if (partial.is_complete()) {
      break;
    }
    if (partial.size() > before) {
      retry.progressed();
    }
    if (!retry.wait_for_next_attempt(retry_after)) {
      throw Unavailable(
          str_cat(
              failure,
              "; downloaded ",
              partial.size(),
              expected.size ? str_cat(" of ", *expected.size) : "",
              " bytes of ",
              file,
              " in ",
              retry.attempts() - 1,
              " attempts"),
          "run the program again to resume the download");
    }
  }
  partial.finish();
}

}  // namespace transformers::hub
