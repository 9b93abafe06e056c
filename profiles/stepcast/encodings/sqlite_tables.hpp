#pragma once
// SqliteDatabase and SqliteRows: the tables of an SQLite file that is a span of bytes, read once from first row to
// last.
//
// The bytes are read where they lie; only gzip, and a file in WAL mode, is copied. The file is not trusted: no views,
// triggers or virtual tables, bounded values, rows and work, every return code looked at. SQLite has no checksums: a
// damaged page shows as a table that ends early (`damage`), or not at all. Not modelled: joins, writing, indices.
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

struct sqlite3;
struct sqlite3_stmt;

namespace stepcast {

class SqliteDatabase {
 public:
  /// Plain or gzip. Throws InputError when the bytes are no complete SQLite file with a readable schema.
  SqliteDatabase(std::string source, std::span<const std::byte> stored);
  ~SqliteDatabase();
  SqliteDatabase(const SqliteDatabase&) = delete;
  SqliteDatabase& operator=(const SqliteDatabase&) = delete;

  [[nodiscard]] const std::vector<std::string>& tables() const { return tables_; }
  [[nodiscard]] bool has(std::string_view table) const;
  /// Plain bytes of the file.
  [[nodiscard]] std::uint64_t size() const { return bytes_.size(); }

 private:
  friend class SqliteRows;
  void take_bytes(std::span<const std::byte> stored);
  void require_whole_file() const;
  void open();

  std::string source_;
  std::vector<std::byte> copy_;
  std::span<const std::byte> bytes_;
  sqlite3* handle_ = nullptr;
  std::vector<std::string> tables_;
  std::uint64_t rows_left_ = 0;  ///< a tree whose pages name each other could give rows for ever
  std::int64_t work_left_ = 0;   ///< counted in progress callbacks
};

/// The rows of one table, of which some columns, or the table itself, may be absent.
class SqliteRows {
 public:
  SqliteRows(SqliteDatabase&, std::string_view table, std::initializer_list<const char*> columns);
  ~SqliteRows();
  SqliteRows(const SqliteRows&) = delete;
  SqliteRows& operator=(const SqliteRows&) = delete;

  /// Steps to the next row; false behind the last readable one.
  bool next();
  [[nodiscard]] bool has(std::size_t column) const { return present_[column]; }
  /// The value if it is an integer, else `absent`.
  [[nodiscard]] std::int64_t integer(std::size_t column, std::int64_t absent = -1) const;
  [[nodiscard]] bool is_integer(std::size_t column) const;
  /// The value if it is text, valid until the next row; else empty.
  [[nodiscard]] std::string_view text(std::size_t column) const;
  [[nodiscard]] std::uint64_t count() const { return count_; }
  /// Empty, or why the rows ended before the table did.
  [[nodiscard]] const std::string& damage() const { return damage_; }

 private:
  SqliteDatabase& database_;
  sqlite3_stmt* statement_ = nullptr;
  std::vector<bool> present_;
  std::uint64_t count_ = 0;
  std::string damage_;
};

}  // namespace stepcast
