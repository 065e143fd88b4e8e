// SPDX-License-Identifier: Apache-2.0
#include "tracking/sqlite.h"

#include <chrono>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "support/message_of.h"
#include "support/temporary_directory.h"

namespace accelerate {
namespace {

using testing::HasSubstr;

constexpr std::chrono::milliseconds kSqliteTimeout{20};

TEST(Sqlite, KeepsTextsAndNumbers) {
  const TemporaryDirectory folder;
  SqliteDatabase database(folder.path() / "x.db", kSqliteTimeout);
  database.execute("CREATE TABLE t (name TEXT, number INTEGER)");
  const std::string name("it's; a\0b", 9);
  {
    SqliteStatement insert(database, "INSERT INTO t VALUES (?, ?)");
    insert.bind(0, name);
    insert.bind(1, INT64_MIN);
    insert.run();
    insert.bind(1, std::int64_t{2});
    insert.run();
  }

  SqliteStatement rows(database, "SELECT name, number FROM t");
  ASSERT_TRUE(rows.step());
  EXPECT_EQ(rows.text(0), name);
  EXPECT_EQ(rows.integer(1), INT64_MIN);
  ASSERT_TRUE(rows.step());
  EXPECT_EQ(rows.integer(1), 2);
  EXPECT_FALSE(rows.step());
}

TEST(Sqlite, UndoesATransactionThatIsNotCommitted) {
  const TemporaryDirectory folder;
  {
    SqliteDatabase database(folder.path() / "x.db", kSqliteTimeout);
    database.execute("CREATE TABLE t (x); BEGIN; INSERT INTO t VALUES (1)");
  }

  SqliteDatabase database(folder.path() / "x.db", kSqliteTimeout);
  EXPECT_FALSE(SqliteStatement(database, "SELECT x FROM t").step());
}

TEST(Sqlite, SaysWhyItIsMissing) {
  EXPECT_EQ(
      message_of<UnsupportedError>(
          [] { require_sqlite("libsqlite_that_does_not_exist.so.0"); }),
      "databases need libsqlite3, which cannot be loaded: "
      "libsqlite_that_does_not_exist.so.0: cannot open shared object file: No "
      "such file or directory");
}

TEST(Sqlite, SaysThatAFileIsNoDatabase) {
  const TemporaryDirectory folder;
  const std::filesystem::path file =
      folder.write("p.db", std::string(2000, 'x'));
  SqliteDatabase database(file, kSqliteTimeout);

  EXPECT_THAT(
      message_of<IoError>([&] { database.execute("SELECT * FROM x"); }),
      HasSubstr("p.db: file is not a database"));
}

}  // namespace
}  // namespace accelerate
