// SPDX-License-Identifier: Apache-2.0
#include "transformers/hub/download.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "accelerate/json.h"
#include "base/file_lock.h"
#include "base/files.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "transformers/hub/blob_file.h"
#include "transformers/hub/progress.h"
#include "transformers/hub/retry.h"

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
  std::string text = str_cat(response.url, " answered ", response.status);
  if (const auto message = response.header("x-error-message")) {
    text += ": " + accelerate::printable(message->substr(0, 300));
  }
  return text;
}

constexpr const char* kUseCache =
    "try again later, or set HF_HUB_OFFLINE=1 to use what is in the cache";

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

Downloader::Downloader(const Settings& settings, Repository repository)
    : settings_(settings),
      repository_(std::move(repository)),
      client_(settings_) {
}

void Downloader::refuse(const Response& response) const {
  const std::string code = response.header("x-error-code").value_or("");
  const std::string& name = repository_.name;
  const std::string text = status_text(response);
  const bool has_token = !settings_.token.empty();
  if (code == "GatedRepo") {
    throw IoError(
        str_cat("`", name, "` is gated: ", text),
        str_cat(
            "ask for access at ",
            settings_.endpoint,
            "/",
            name,
            ", then set HF_TOKEN to a token of that account"));
  }
  if (response.status == 401 || response.status == 403) {
    throw IoError(
        str_cat(
            "`",
            name,
            "` does not exist or may not be read ",
            has_token ? "with this token" : "without a token",
            ": ",
            text),
        has_token ? "check the name, and what the token in use may read"
                  : "check the name; for a private model set HF_TOKEN");
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
        "check the name; if it is a private model, set HF_TOKEN");
  }
  throw IoError(text, "check HF_ENDPOINT and the network's proxy");
}

Response Downloader::request(const Request& request) {
  Retry retry(settings_);
  while (true) {
    std::string failure;
    std::optional<std::string> retry_after;
    try {
      Response response = client_.send(request);
      if (!is_passing(response.status)) {
        return response;
      }
      failure = status_text(response);
      retry_after = response.header("retry-after");
    } catch (const ConnectionLost& error) {
      failure = str_cat("cannot reach ", request.url, ": ", error.what());
    }
    if (!retry.again(retry_after)) {
      throw Unavailable(
          str_cat(failure, " (", retry.attempts() - 1, " attempts)"),
          kUseCache);
    }
  }
}

Listing Downloader::list() {
  Request question;
  question.url = repository_.list_url(settings_.endpoint);
  const Response response = request(question);
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
        str_cat(response.url, " did not answer as the Hub does"),
        "check HF_ENDPOINT");
  }
  listing.commit = commit->as_string();
  for (const Json& file : files->as_array()) {
    const std::string& name = file.at("rfilename").as_string();
    if (!is_plain_path(name)) {
      throw FormatError(str_cat(
          response.url,
          " lists a file outside its folder: `",
          accelerate::printable(name),
          "`"));
    }
    listing.files.push_back(name);
  }
  return listing;
}

Downloader::Metadata Downloader::metadata(
    const std::string& url, const std::string& commit) {
  Request question;
  question.url = url;
  question.head = true;
  question.stop_at_other_host = true;
  const Response response = request(question);
  const bool elsewhere = response.status >= 300 && response.status < 400;
  if (response.status != 200 && !elsewhere) {
    refuse(response);
  }
  const auto there = response.header("x-repo-commit");
  auto etag = response.header("x-linked-etag");
  if (!etag) {
    etag = response.header("etag");
  }
  if (!there || *there != commit || !etag) {
    throw FormatError(
        str_cat(
            url,
            !there             ? " does not say which commit it is of"
            : *there != commit ? " is of another commit: " + *there
                               : " has no ETag"),
        "check HF_ENDPOINT and the network's proxy");
  }
  Metadata result;
  result.etag = normalized_etag(*etag);
  if (!is_plain_name(result.etag)) {
    throw FormatError(str_cat(
        url,
        " has an ETag that names no file: ",
        accelerate::printable(*etag)));
  }
  result.size = integer_header(response, "x-linked-size");
  if (!result.size && !elsewhere) {
    result.size = integer_header(response, "content-length");
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
  const std::string url =
      repository_.file_url(settings_.endpoint, commit, file);
  const Metadata about = metadata(url, commit);
  const accelerate::FileLock lock(
      cache.lock(about.etag), settings_.lock_timeout);
  if (cache.has(commit, file)) {
    return;  // Another process was faster.
  }
  const auto blob = cache.blob(about.etag);
  if (!std::filesystem::is_regular_file(blob)) {
    download(url, about, file, blob);
  }
  cache.link(commit, file, about.etag);
}

// 1. Go on after the bytes that an earlier attempt, or an earlier process,
//    has left in `<blob>.incomplete`.
// 2. When the connection ends early, ask for the rest.
// 3. Compare the length, and the digest if the ETag is one.
// 4. Only then give the file its name.
void Downloader::download(
    const std::string& url,
    const Metadata& about,
    const std::string& file,
    const std::filesystem::path& blob) {
  BlobFile partial(blob, about.etag, about.size, url);
  Progress progress(
      settings_.progress, file, partial.size(), about.size.value_or(0));
  Retry retry(settings_);
  while (!partial.is_whole()) {
    const std::int64_t before = partial.size();
    Request question;
    question.url = url;
    question.from = about.size ? before : 0;
    bool first = true;
    question.sink = [&](const Response& response, std::string_view bytes) {
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
      const Response response = client_.send(question);
      if (response.status == 200 || response.status == 206) {
        partial.end_of_answer();
      } else if (response.status == 416) {
        partial.clear();
        progress.restart();
        failure = status_text(response);
      } else if (is_passing(response.status)) {
        failure = status_text(response);
        retry_after = response.header("retry-after");
      } else {
        refuse(response);
      }
    } catch (const ConnectionLost& error) {
      failure = str_cat("lost the connection to ", url, ": ", error.what());
    }
    if (partial.is_whole()) {
      break;
    }
    if (partial.size() > before) {
      retry.progressed();
    }
    if (!retry.again(retry_after)) {
      throw Unavailable(
          str_cat(
              failure,
              "; ",
              partial.size(),
              " of ",
              about.size.value_or(0),
              " bytes of ",
              file,
              " are there after ",
              retry.attempts() - 1,
              " attempts"),
          "run it again; it goes on where it ended");
    }
  }
  partial.place();
}

}  // namespace transformers::hub
