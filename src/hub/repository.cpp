// SPDX-License-Identifier: Apache-2.0
#include "hub/repository.h"

#include <algorithm>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace transformers::hub {
namespace {

using accelerate::ArgumentError;
using accelerate::str_cat;

bool is_word_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
}

/// Whether the Hub allows this part of a name.
bool is_name_part(std::string_view part) {
  return !part.empty() &&
         std::all_of(part.begin(), part.end(), is_word_character) &&
         part.front() != '.' && part.front() != '-' && part.back() != '.' &&
         part.back() != '-' && part.find("--") == std::string_view::npos &&
         part.find("..") == std::string_view::npos;
}

bool is_name(const std::string& name) {
  const auto parts = accelerate::split(name, '/');
  return name.size() <= 96 && parts.size() <= 2 &&
         std::all_of(parts.begin(), parts.end(), is_name_part);
}

std::string url_encoded(std::string_view text, bool keep_slashes) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (is_word_character(c) || c == '~' || (c == '/' && keep_slashes)) {
      result += c;
    } else {
      result += '%';
      result += kDigits[byte >> 4];
      result += kDigits[byte & 0xf];
    }
  }
  return result;
}

}  // namespace

std::string Repository::folder() const {
  return "models--" + accelerate::replace_all(name, "/", "--");
}

std::string Repository::list_url(const std::string& endpoint) const {
  return str_cat(
      endpoint,
      "/api/models/",
      name,
      "/revision/",
      url_encoded(revision, /*keep_slashes=*/false));
}

std::string Repository::file_url(
    const std::string& endpoint,
    const std::string& commit,
    const std::string& file) const {
  return str_cat(
      endpoint,
      "/",
      name,
      "/resolve/",
      commit,
      "/",
      url_encoded(file, /*keep_slashes=*/true));
}

Repository make_repository(
    const std::string& name, const std::string& revision) {
  if (!is_name(name)) {
    throw ArgumentError(
        str_cat(
            "`",
            accelerate::printable(name),
            "` is neither a folder nor a model name on the Hub"),
        "check the path, or write the name as `org/name`");
  }
  if (!is_plain_path(revision)) {
    throw ArgumentError(
        str_cat(
            "revision `",
            accelerate::printable(revision),
            "` is not a valid branch, tag or commit"),
        "leave out the revision to use `main`");
  }
  return {name, revision};
}

bool is_commit(std::string_view text) {
  return text.size() == 40 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

bool is_plain_path(std::string_view path) {
  const auto parts = accelerate::split(path, '/');
  return !path.empty() && path.size() <= 1024 &&
         std::all_of(parts.begin(), parts.end(), [](const std::string& part) {
           return !part.empty() && part != "." && part != ".." &&
                  part.size() <= 255 &&
                  std::all_of(part.begin(), part.end(), [](char c) {
                    return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f &&
                           c != '\\';
                  });
         });
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && name.size() <= 200 && name != "." && name != ".." &&
         std::all_of(name.begin(), name.end(), is_word_character);
}

}  // namespace transformers::hub
