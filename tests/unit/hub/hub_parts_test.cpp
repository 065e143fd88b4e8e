// SPDX-License-Identifier: Apache-2.0
// Tests the names, URLs, options and file lists of downloads without a server.
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "base/curl_library.h"
#include "hub/blob_file.h"
#include "hub/download.h"
#include "hub/http.h"
#include "hub/hub_options.h"
#include "hub/progress.h"
#include "hub/repository.h"
#include "hub/repository_files.h"
#include "support/message_of.h"
#include "support/temporary_directory.h"

namespace transformers::hub {
namespace {

using accelerate::ArgumentError;
using accelerate::ConfigError;
using accelerate::Environment;
using accelerate::message_of;
using accelerate::TemporaryDirectory;

class MalformedName : public testing::TestWithParam<const char*> {};

TEST_P(MalformedName, IsRejected) {
  EXPECT_THROW(make_repository(GetParam(), "main"), ArgumentError);
}

INSTANTIATE_TEST_SUITE_P(
    Table,
    MalformedName,
    testing::Values(
        "",
        "/",
        "a/b/c",
        "a//b",
        "org/",
        "/name",
        "org/na me",
        "org/../x",
        ".org/name",
        "org/name-",
        "org/na--me",
        "org/näme",
        "org/name?x",
        "org\\name"));

TEST(Repository, HasAFolderAndUrls) {
  const auto model = make_repository("org/My_model.v2", "refs/pr/1");

  EXPECT_EQ(model.folder(), "models--org--My_model.v2");
  EXPECT_EQ(
      model.list_url("https://h"),
      "https://h/api/models/org/My_model.v2/revision/refs%2Fpr%2F1");
  EXPECT_EQ(
      model.file_url("https://h", "abc", "a b/c#.json"),
      "https://h/org/My_model.v2/resolve/abc/a%20b/c%23.json");
  EXPECT_EQ(make_repository("bert", "main").folder(), "models--bert");
}

TEST(Repository, RejectsRevisionsOutsideTheFolder) {
  EXPECT_EQ(
      message_of<ArgumentError>([] { make_repository("a/b", "../x"); }),
      "revision `../x` is not a valid branch, tag or commit");
  EXPECT_THROW(make_repository("a/b", ""), ArgumentError);
  EXPECT_THROW(make_repository("a/b", "x\n"), ArgumentError);
}

TEST(Http, DistinguishesOrigins) {
  EXPECT_EQ(origin_of("HTTPS://Hub.co:443/a"), "https://hub.co");
  EXPECT_EQ(origin_of("http://hub.co:80"), "http://hub.co");
  EXPECT_NE(origin_of("http://hub.co:81/"), origin_of("http://hub.co/"));
  EXPECT_NE(origin_of("http://hub.co/"), origin_of("https://hub.co/"));
  // The part before `@` is user information.
  EXPECT_EQ(origin_of("https://hub.co@evil.net/x"), "https://evil.net");
  EXPECT_EQ(origin_of("https://evil.net?@hub.co"), "https://evil.net");
}

TEST(Http, ResolvesRedirects) {
  EXPECT_EQ(resolve_url("https://h/a/b?c", "/d"), "https://h/d");
  EXPECT_EQ(resolve_url("https://h/a/b?c", "d"), "https://h/a/d");
  EXPECT_EQ(resolve_url("https://h/a", "//g/d"), "https://g/d");
  EXPECT_EQ(resolve_url("https://h/a", "http://g/d"), "http://g/d");
}

TEST(Download, NormalizesETags) {
  EXPECT_EQ(normalized_etag("\"abc\""), "abc");
  EXPECT_EQ(normalized_etag("W/\"abc\""), "abc");
  EXPECT_EQ(normalized_etag("abc"), "abc");
}

TEST(BlobFile, LimitsAFileOfUnannouncedSize) {
  const TemporaryDirectory folder;
  BlobFile file(
      {.blob = folder.path() / "blob",
       .etag = "x",
       .url = "https://h/f",
       .max_unannounced = 10});
  file.append("0123456789");

  EXPECT_EQ(
      message_of<accelerate::FormatError>([&] { file.append("0"); }),
      "https://h/f sent more than 10 bytes without announcing a size");
}

TEST(HubOptions, KnowWhichServersAreReachedUnencrypted) {
  for (const char* endpoint :
       {"http://hub.co",
        "HTTP://hub.co:80",
        "http://127.0.0.1.evil.net",
        "http://localhost@evil.net",
        "http://0.0.0.0:1"}) {
    EXPECT_TRUE(is_unencrypted(endpoint)) << endpoint;
  }
  for (const char* endpoint :
       {"https://hub.co",
        "http://localhost:8000",
        "http://127.0.0.1:1",
        "http://127.1.2.3",
        "http://[::1]:80",
        "http://Localhost"}) {
    EXPECT_FALSE(is_unencrypted(endpoint)) << endpoint;
  }
}

TEST(Progress, IsOneLine) {
  EXPECT_EQ(
      progress_line("f", 50, 100, 10),
      "f:  50%|##########          | 50 bytes of 100 bytes, 10 bytes/s");
  EXPECT_EQ(
      progress_line("f", 100, 100, 1024),
      "f: 100%|####################| 100 bytes of 100 bytes, 1.00 KiB/s");
  EXPECT_EQ(
      progress_line("f", 0, 0, 0),
      "f:   0%|                    | 0 bytes of 0 bytes, 0 bytes/s");
}

HubOptions hub_options_from(
    const std::map<std::string, std::string>& variables,
    const ResolveOptions& options = {}) {
  return make_hub_options(Environment(variables), options);
}

TEST(HubOptions, ComeFromTheEnvironment) {
  const HubOptions hub_options = hub_options_from(
      {{"HF_HUB_CACHE", "~/c"},
       {"HOME", "/h"},
       {"HF_ENDPOINT", "http://mirror/"},
       {"HF_TOKEN", " hf_x\n"},
       {"HF_HUB_OFFLINE", "YES"},
       {"HF_HUB_ETAG_TIMEOUT", "7"},
       {"HF_HUB_DOWNLOAD_TIMEOUT", "9"}});

  EXPECT_EQ(hub_options.cache, "/h/c");
  EXPECT_EQ(hub_options.endpoint, "http://mirror");
  EXPECT_EQ(hub_options.token, "hf_x");
  EXPECT_TRUE(hub_options.offline);
  EXPECT_EQ(hub_options.response_timeout, std::chrono::seconds(7));
  EXPECT_EQ(hub_options.stall_timeout, std::chrono::seconds(9));
}

TEST(HubOptions, FindTheCache) {
  EXPECT_EQ(hub_options_from({{"HF_HOME", "/x"}}).cache, "/x/hub");
  EXPECT_EQ(
      hub_options_from({{"XDG_CACHE_HOME", "/x"}}).cache, "/x/huggingface/hub");
  EXPECT_EQ(
      hub_options_from({{"HOME", "/x"}}).cache, "/x/.cache/huggingface/hub");
  EXPECT_EQ(
      hub_options_from({{"HF_HOME", "/x"}}, {.cache_dir = "/y"}).cache, "/y");
}

TEST(HubOptions, PreferAnExplicitToken) {
  const TemporaryDirectory folder;
  folder.write("token", "hf_file\n");
  const std::map<std::string, std::string> home = {
      {"HF_HOME", folder.path().string()}};
  auto with_variable = home;
  with_variable["HF_TOKEN"] = "hf_variable";
  auto without_file = home;
  without_file["HF_HUB_DISABLE_IMPLICIT_TOKEN"] = "1";

  EXPECT_EQ(hub_options_from(home).token, "hf_file");
  EXPECT_EQ(hub_options_from(with_variable).token, "hf_variable");
  EXPECT_EQ(hub_options_from(with_variable, {.token = "hf_o"}).token, "hf_o");
  EXPECT_EQ(hub_options_from(with_variable, {.token = ""}).token, "");
  EXPECT_EQ(hub_options_from(without_file).token, "");
}

TEST(HubOptions, RejectInvalidValues) {
  EXPECT_EQ(
      message_of<ConfigError>([] {
        hub_options_from({{"HOME", "/"}, {"HF_ENDPOINT", "ftp://x"}});
      }),
      "environment variable HF_ENDPOINT is `ftp://x`, which starts with "
      "neither "
      "`https://` nor `http://`");
  EXPECT_EQ(
      message_of<ConfigError>(
          [] { hub_options_from({{"HOME", "/"}, {"HF_TOKEN", "a\nX: y"}}); }),
      "the token from HF_TOKEN contains a space or a character that is not "
      "printable ASCII");
  EXPECT_THROW(
      hub_options_from({{"HOME", "/"}, {"HF_HUB_ETAG_TIMEOUT", "0"}}),
      ConfigError);
}

TEST(RepositoryFiles, RejectAnIndexWithFilesOutsideItsFolder) {
  const TemporaryDirectory folder;
  for (const char* shard :
       {"../x.safetensors", "/x.safetensors", "x.bin", ""}) {
    const auto index = folder.write(
        "i.json", std::string("{\"weight_map\": {\"w\": \"") + shard + "\"}}");

    EXPECT_THROW(shards_of(index), accelerate::FormatError) << shard;
  }
  EXPECT_THROW(
      shards_of(folder.write("i.json", "{}")), accelerate::FormatError);
}

TEST(CurlLibrary, IsLoadedOnDemandWithAHelpfulError) {
  EXPECT_NE(accelerate::curl_library().easy_perform, nullptr);
  try {
    (void)accelerate::open_curl("libcurl_that_does_not_exist.so.4");
    FAIL() << "the library exists";
  } catch (const accelerate::UnsupportedError& error) {
    EXPECT_THAT(
        error.what(),
        testing::HasSubstr(
            "HTTP requests need libcurl, which cannot be loaded"));
    EXPECT_THAT(error.hint(), testing::HasSubstr("apt-get install libcurl4"));
  }
}

}  // namespace
}  // namespace transformers::hub
