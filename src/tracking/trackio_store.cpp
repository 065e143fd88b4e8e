// SPDX-License-Identifier: Apache-2.0
#include "tracking/trackio_store.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <random>
#include <set>
#include <string_view>
#include <utility>

#include <locale.h>
#include <wchar.h>
#include <wctype.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "base/utf8.h"
#include "config/user_folders.h"

namespace accelerate {
namespace {

// The version of the tables of Trackio 0.43, in `PRAGMA user_version`.
constexpr std::int64_t kTrackioSchema = 2;

// Without the other tables and the indexes: Trackio adds what is missing when
// it opens a project of version 0.
constexpr char kTrackioTables[] = R"sql(
CREATE TABLE metrics (
  id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL,
  timestamp TEXT NOT NULL, run_name TEXT NOT NULL, step INTEGER NOT NULL,
  metrics TEXT NOT NULL);
CREATE TABLE configs (
  id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL,
  run_name TEXT NOT NULL, config TEXT NOT NULL, created_at TEXT NOT NULL,
  UNIQUE(run_id));
)sql";

std::set<std::string> sqlite_columns(
    SqliteDatabase& database, const char* table) {
  std::set<std::string> columns;
  SqliteStatement rows(database, "SELECT name FROM pragma_table_info(?)");
  rows.bind(0, std::string_view(table));
  while (rows.step()) {
    columns.insert(rows.text(0));
  }
  return columns;
}

bool has_written_columns(SqliteDatabase& database) {
  const auto metrics = sqlite_columns(database, "metrics");
  const auto configs = sqlite_columns(database, "configs");
  return std::ranges::includes(
             metrics,
             std::set<std::string>{
                 "metrics", "run_id", "run_name", "step", "timestamp"}) &&
         std::ranges::includes(
             configs,
             std::set<std::string>{
                 "config", "created_at", "run_id", "run_name"});
}

// As Python's `str.isalnum`, except for a few rare characters.
bool is_letter_or_digit(char32_t c) {
  if (c < 0x80) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9');
  }
  static const ::locale_t unicode =
      ::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  return unicode != nullptr &&
         ::iswalnum_l(static_cast<wint_t>(c), unicode) != 0;
}

}  // namespace

std::filesystem::path trackio_folder(const Environment& environment) {
  if (const auto folder = environment.get("TRACKIO_DIR")) {
    return *folder;
  }
  return hugging_face_home(environment) / "trackio";
}

std::string trackio_project(const std::string& project) {
  std::string name;
  for (std::string_view rest = project; !rest.empty();) {
    const auto c = decode_utf8(rest);
    if (c &&
        (is_letter_or_digit(c->value) || c->value == '-' || c->value == '_')) {
      name += rest.substr(0, c->bytes);
    }
    rest.remove_prefix(c ? c->bytes : 1);
  }
  bool reserved = name.starts_with("registry-");
  for (const std::string_view suffix :
       {"_system",
        "_configs",
        "_traces",
        "_artifacts",
        "_artifact_versions",
        "_artifact_aliases",
        "_run_artifact_links",
        "_external_run_artifact_links"}) {
    reserved |= name.size() > suffix.size() && name.ends_with(suffix);
  }
  if (reserved) {
    throw ArgumentError(
        str_cat(
            "tracker `trackio` cannot store the project `",
            printable(project),
            "`: Trackio uses the name `",
            name,
            "` for its own files"),
        "choose another project name");
  }
  // Below the limit of file systems, 255 bytes, with a suffix.
  constexpr std::size_t kMaxBytes = 240;
  if (name.size() > kMaxBytes) {
    throw ArgumentError(
        str_cat(
            "the name of the project has ",
            name.size(),
            " bytes, but tracker `trackio` can store at most ",
            kMaxBytes),
        "choose a shorter project name");
  }
  return name.empty() ? "default" : name;
}

bool prepare_trackio_tables(SqliteDatabase& database) {
  std::int64_t version = 0;
  {
    SqliteStatement pragma(database, "PRAGMA user_version");
    version = pragma.step() ? pragma.integer(0) : 0;
  }
  if (version == 0 && sqlite_columns(database, "metrics").empty()) {
    database.execute(kTrackioTables);
    return false;
  }
  const bool newer = version > kTrackioSchema;
  if (!has_written_columns(database)) {
    throw UnsupportedError(
        str_cat(
            newer ? "a newer" : "an older",
            " Trackio created this project (tables of version ",
            version,
            "), but tracker `trackio` writes tables of version ",
            kTrackioSchema),
        newer ? "use another project name or another TRACKIO_DIR"
              : "open the project once with Trackio 0.43, which converts it");
  }
  return newer;
}

std::string trackio_time(std::int64_t time_us) {
  const std::time_t seconds = time_us / 1000000;
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &parts);
  char fraction[24];
  std::snprintf(
      fraction,
      sizeof(fraction),
      "%06lld",
      static_cast<long long>(time_us % 1000000));
  return str_cat(text, ".", fraction, "+00:00");
}

std::string random_uuid() {
  std::random_device random;
  std::string text;
  while (text.size() < 32) {
    char digits[16];
    std::snprintf(digits, sizeof(digits), "%08x", random());
    text += digits;
  }
  text[12] = '4';
  text[16] = "89ab"[random() % 4];
  return text;
}

}  // namespace accelerate
