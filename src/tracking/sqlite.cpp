// SPDX-License-Identifier: Apache-2.0
#include "tracking/sqlite.h"

#include <dlfcn.h>

#include <sqlite3.h>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace accelerate {
namespace {

struct SqliteLibrary {
  decltype(&::sqlite3_open_v2) open;
  decltype(&::sqlite3_close_v2) close;
  decltype(&::sqlite3_errmsg) errmsg;
  decltype(&::sqlite3_busy_timeout) busy_timeout;
  decltype(&::sqlite3_exec) exec;
  decltype(&::sqlite3_prepare_v2) prepare;
  decltype(&::sqlite3_step) step;
  decltype(&::sqlite3_reset) reset;
  decltype(&::sqlite3_finalize) finalize;
  decltype(&::sqlite3_bind_text) bind_text;
  decltype(&::sqlite3_bind_int64) bind_int64;
  decltype(&::sqlite3_column_blob) column_blob;
  decltype(&::sqlite3_column_bytes) column_bytes;
  decltype(&::sqlite3_column_int64) column_int64;
};

template <typename Function>
void find_sqlite_function(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr) {
    throw UnsupportedError(
        str_cat("this machine's libsqlite3 has no function `", name, "`"),
        "install SQLite 3.7.14 or later");
  }
}

SqliteLibrary open_sqlite(const char* file) {
  void* const library = ::dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    const char* const reason = ::dlerror();
    throw UnsupportedError(
        str_cat(
            "databases need libsqlite3, which cannot be loaded: ",
            reason != nullptr ? reason : file),
        "run `apt-get install libsqlite3-0`");
  }
  SqliteLibrary sqlite{};
  find_sqlite_function(library, "sqlite3_open_v2", sqlite.open);
  find_sqlite_function(library, "sqlite3_close_v2", sqlite.close);
  find_sqlite_function(library, "sqlite3_errmsg", sqlite.errmsg);
  find_sqlite_function(library, "sqlite3_busy_timeout", sqlite.busy_timeout);
  find_sqlite_function(library, "sqlite3_exec", sqlite.exec);
  find_sqlite_function(library, "sqlite3_prepare_v2", sqlite.prepare);
  find_sqlite_function(library, "sqlite3_step", sqlite.step);
  find_sqlite_function(library, "sqlite3_reset", sqlite.reset);
  find_sqlite_function(library, "sqlite3_finalize", sqlite.finalize);
  find_sqlite_function(library, "sqlite3_bind_text", sqlite.bind_text);
  find_sqlite_function(library, "sqlite3_bind_int64", sqlite.bind_int64);
  find_sqlite_function(library, "sqlite3_column_blob", sqlite.column_blob);
  find_sqlite_function(library, "sqlite3_column_bytes", sqlite.column_bytes);
  find_sqlite_function(library, "sqlite3_column_int64", sqlite.column_int64);
  return sqlite;
}

const SqliteLibrary& sqlite_library() {
  static const SqliteLibrary sqlite = open_sqlite(kSqliteLibrary);
  return sqlite;
}

}  // namespace

void require_sqlite(const char* file) {
  open_sqlite(file);
}

SqliteDatabase::SqliteDatabase(
    const std::filesystem::path& path, std::chrono::milliseconds timeout)
    : path_(path) {
  const SqliteLibrary& sqlite = sqlite_library();
  constexpr int kFlags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  if (sqlite.open(path.c_str(), &handle_, kFlags, nullptr) != SQLITE_OK) {
    try {
      fail("open");
    } catch (...) {
      sqlite.close(handle_);
      throw;
    }
  }
  sqlite.busy_timeout(handle_, static_cast<int>(timeout.count()));
}

SqliteDatabase::~SqliteDatabase() {
  sqlite_library().close(handle_);
}

void SqliteDatabase::fail(const char* action) const {
  throw IoError(
      str_cat(
          "cannot ",
          action,
          " the database ",
          path_.string(),
          ": ",
          sqlite_library().errmsg(handle_)),
      "check free space and permissions, and that no other program locks the "
      "database");
}

void SqliteDatabase::execute(const std::string& statements) {
  if (sqlite_library().exec(
          handle_, statements.c_str(), nullptr, nullptr, nullptr) !=
      SQLITE_OK) {
    fail("use");
  }
}

SqliteStatement::SqliteStatement(
    SqliteDatabase& database, std::string_view text)
    : database_(database) {
  check(sqlite_library().prepare(
      database.handle_,
      text.data(),
      static_cast<int>(text.size()),
      &handle_,
      nullptr));
}

SqliteStatement::~SqliteStatement() {
  sqlite_library().finalize(handle_);
}

void SqliteStatement::check(int code) {
  if (code != SQLITE_OK) {
    database_.fail("use");
  }
}

void SqliteStatement::bind(int index, std::string_view text) {
  // SQLite copies the text: its "transient" destructor is the address -1.
  const auto copy =
      reinterpret_cast<sqlite3_destructor_type>(std::intptr_t{-1});
  check(sqlite_library().bind_text(
      handle_, index + 1, text.data(), static_cast<int>(text.size()), copy));
}

void SqliteStatement::bind(int index, std::int64_t number) {
  check(sqlite_library().bind_int64(handle_, index + 1, number));
}

bool SqliteStatement::step() {
  const int code = sqlite_library().step(handle_);
  if (code != SQLITE_ROW && code != SQLITE_DONE) {
    database_.fail("use");
  }
  return code == SQLITE_ROW;
}

void SqliteStatement::run() {
  while (step()) {
  }
  check(sqlite_library().reset(handle_));
}

// Also reads blobs, because Trackio itself stores JSON as blobs.
std::string SqliteStatement::text(int column) const {
  const SqliteLibrary& sqlite = sqlite_library();
  const void* const bytes = sqlite.column_blob(handle_, column);
  const int size = sqlite.column_bytes(handle_, column);
  return bytes == nullptr ? std::string()
                          : std::string(
                                static_cast<const char*>(bytes),
                                static_cast<std::size_t>(size));
}

std::int64_t SqliteStatement::integer(int column) const {
  return sqlite_library().column_int64(handle_, column);
}

}  // namespace accelerate
