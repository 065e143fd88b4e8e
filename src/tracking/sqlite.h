// SPDX-License-Identifier: Apache-2.0
// SQLite databases. libsqlite3 is loaded at the first use, so that a program
// that uses no SQLite database also runs on machines without libsqlite3.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace accelerate {

/// The library has this file name in every Linux distribution.
constexpr char kSqliteLibrary[] = "libsqlite3.so.0";

/// Throws `UnsupportedError` if libsqlite3 is not installed.
void require_sqlite(const char* file = kSqliteLibrary);

/// An open database. All functions throw `IoError` with SQLite's message.
class SqliteDatabase {
 public:
  /// Opens or creates a database. While another process has locked it,
  /// operations wait for up to `timeout`.
  SqliteDatabase(
      const std::filesystem::path& path, std::chrono::milliseconds timeout);
  SqliteDatabase(const SqliteDatabase&) = delete;
  SqliteDatabase& operator=(const SqliteDatabase&) = delete;
  /// Closes the database. Rolls back a transaction that is not committed.
  ~SqliteDatabase();

  /// Runs statements without parameters and ignores their rows.
  void execute(const std::string& statements);

 private:
  friend class SqliteStatement;
  [[noreturn]] void fail(const char* action) const;

  std::filesystem::path path_;
  sqlite3* handle_ = nullptr;
};

/// A statement with `?` parameters. Parameters and columns are numbered from 0.
class SqliteStatement {
 public:
  SqliteStatement(SqliteDatabase& database, std::string_view text);
  SqliteStatement(const SqliteStatement&) = delete;
  SqliteStatement& operator=(const SqliteStatement&) = delete;
  ~SqliteStatement();

  void bind(int index, std::string_view text);
  void bind(int index, std::int64_t number);
  /// Goes to the next row; returns false if there is none.
  bool step();
  /// Runs the statement to its end, and resets it for new parameters.
  void run();

  std::string text(int column) const;
  std::int64_t integer(int column) const;

 private:
  void check(int code);

  SqliteDatabase& database_;
  sqlite3_stmt* handle_ = nullptr;
};

}  // namespace accelerate
