// SQLite on bytes in memory: sqlite3_deserialize, read only, with the limits that an untrusted file calls for.
#include <stepcast/base/error.hpp>
#include <stepcast/encodings/inflate.hpp>
#include <stepcast/encodings/sqlite_tables.hpp>

#include <sqlite3.h>

#include <algorithm>

namespace stepcast {
namespace {

constexpr std::size_t header_size = 100;
constexpr int operations_per_callback = 1 << 14;

std::uint32_t big_endian(std::span<const std::byte> bytes, std::size_t at, std::size_t count) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < count; ++i) value = value << 8 | std::to_integer<std::uint32_t>(bytes[at + i]);
  return value;
}

std::string quoted(std::string_view name) {
  std::string out = "\"";
  for (const char c : name) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

int spend(void* left) { return --*static_cast<std::int64_t*>(left) < 0 ? 1 : 0; }

}  // namespace

SqliteDatabase::SqliteDatabase(std::string source, std::span<const std::byte> stored) : source_(std::move(source)) {
  take_bytes(stored);
  require_whole_file();
  try {
    open();
  } catch (...) {
    sqlite3_close(handle_);
    throw;
  }
}

SqliteDatabase::~SqliteDatabase() { sqlite3_close(handle_); }

void SqliteDatabase::take_bytes(std::span<const std::byte> stored) {
  bytes_ = stored;
  if (PlainText::is_gzip(stored)) {
    constexpr std::size_t piece = 1u << 22;
    PlainText plain(stored);
    std::size_t size = 0;
    for (std::size_t got = piece; got == piece;) {
      copy_.resize(size + piece);
      got = plain.read({reinterpret_cast<char*>(copy_.data()) + size, piece});
      size += got;
    }
    copy_.resize(size);
    if (!plain.damage().empty())
      throw InputError(source_, "a complete SQLite file", plain.damage(),
                       "a cut database cannot be read; export again");
    bytes_ = copy_;
  }
  // A file in WAL mode is complete without its log, but a read-only one opens only in rollback mode (format 1).
  constexpr std::size_t write_version = 18, read_version = 19;
  if (bytes_.size() < header_size || bytes_[read_version] != std::byte{2}) return;
  if (copy_.empty()) copy_.assign(bytes_.begin(), bytes_.end());
  copy_[write_version] = copy_[read_version] = std::byte{1};
  bytes_ = copy_;
}

void SqliteDatabase::require_whole_file() const {
  if (bytes_.size() < header_size) throw InputError(source_, "an SQLite file", "a file that ends inside its header");
  const std::uint64_t stored_page_size = big_endian(bytes_, 16, 2);
  const std::uint64_t page_size = stored_page_size == 1 ? 65536 : stored_page_size;
  const std::uint64_t expected = page_size * big_endian(bytes_, 28, 4);
  if (bytes_.size() < expected)
    throw InputError(source_, "an SQLite file of " + std::to_string(expected) + " bytes, as its header says",
                     std::to_string(bytes_.size()) + " bytes", "the file is cut off; copy or export it again");
}

void SqliteDatabase::open() {
  const auto require = [this](int code, const char* what) {
    if (code == SQLITE_OK) return;
    const std::string why = handle_ != nullptr ? sqlite3_errmsg(handle_) : sqlite3_errstr(code);
    throw InputError(source_, what, "a damaged one: " + why, "export the report again");
  };
  require(
      sqlite3_open_v2(":memory:", &handle_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_MEMORY | SQLITE_OPEN_NOMUTEX, nullptr),
      "an SQLite database");
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  sqlite3_limit(handle_, SQLITE_LIMIT_LENGTH, 1 << 24);
  sqlite3_limit(handle_, SQLITE_LIMIT_SQL_LENGTH, 1 << 18);
  sqlite3_limit(handle_, SQLITE_LIMIT_EXPR_DEPTH, 50);
  sqlite3_limit(handle_, SQLITE_LIMIT_COLUMN, 500);
  sqlite3_limit(handle_, SQLITE_LIMIT_ATTACHED, 0);
  // Every row of interest takes more than eight bytes, and reading it a few dozen operations.
  rows_left_ = bytes_.size() / 8 + 1000;
  work_left_ = static_cast<std::int64_t>((bytes_.size() * 32 + (1u << 26)) / operations_per_callback);
  sqlite3_progress_handler(handle_, operations_per_callback, spend, &work_left_);
  // SQLite does not write to a database that it was given read only; its interface is only not const.
  auto* bytes = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(bytes_.data()));
  const auto size = static_cast<sqlite3_int64>(bytes_.size());
  require(sqlite3_deserialize(handle_, "main", bytes, size, size, SQLITE_DESERIALIZE_READONLY), "an SQLite database");
  require(sqlite3_exec(handle_, "PRAGMA cell_size_check=ON", nullptr, nullptr, nullptr), "an SQLite database");

  sqlite3_stmt* statement = nullptr;
  int code = sqlite3_prepare_v2(handle_, "SELECT name FROM sqlite_master WHERE type='table' AND rootpage>0", -1,
                                &statement, nullptr);
  while (code == SQLITE_OK || code == SQLITE_ROW) {
    code = sqlite3_step(statement);
    const unsigned char* name = code == SQLITE_ROW ? sqlite3_column_text(statement, 0) : nullptr;
    if (name != nullptr && tables_.size() < 10'000) tables_.emplace_back(reinterpret_cast<const char*>(name));
  }
  sqlite3_finalize(statement);
  require(code == SQLITE_DONE ? SQLITE_OK : code, "an SQLite database with a readable schema");
}

bool SqliteDatabase::has(std::string_view table) const { return std::ranges::find(tables_, table) != tables_.end(); }

SqliteRows::SqliteRows(SqliteDatabase& database, std::string_view table, std::initializer_list<const char*> columns)
    : database_(database), present_(columns.size(), false) {
  if (!database.has(table)) return;
  const std::string name(table);
  std::string sql = "SELECT ";
  std::size_t c = 0;
  for (const char* column : columns) {
    present_[c] = sqlite3_table_column_metadata(database.handle_, "main", name.c_str(), column, nullptr, nullptr,
                                                nullptr, nullptr, nullptr) == SQLITE_OK;
    sql += (c == 0 ? "" : ",") + (present_[c] ? quoted(column) : std::string("NULL"));
    ++c;
  }
  sql += " FROM main." + quoted(table);
  if (sqlite3_prepare_v2(database.handle_, sql.c_str(), -1, &statement_, nullptr) == SQLITE_OK) return;
  damage_ = sqlite3_errmsg(database.handle_);
  sqlite3_finalize(statement_);
  statement_ = nullptr;
}

SqliteRows::~SqliteRows() { sqlite3_finalize(statement_); }

bool SqliteRows::next() {
  if (statement_ == nullptr || !damage_.empty()) return false;
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_DONE) return false;
  if (code != SQLITE_ROW) {
    damage_ = code == SQLITE_INTERRUPT ? "far more work than its size explains" : sqlite3_errmsg(database_.handle_);
    return false;
  }
  if (database_.rows_left_ == 0) {
    damage_ = "more rows than its size explains";
    return false;
  }
  --database_.rows_left_;
  ++count_;
  return true;
}

bool SqliteRows::is_integer(std::size_t column) const {
  return sqlite3_column_type(statement_, static_cast<int>(column)) == SQLITE_INTEGER;
}

std::int64_t SqliteRows::integer(std::size_t column, std::int64_t absent) const {
  return is_integer(column) ? sqlite3_column_int64(statement_, static_cast<int>(column)) : absent;
}

std::string_view SqliteRows::text(std::size_t column) const {
  const int c = static_cast<int>(column);
  if (sqlite3_column_type(statement_, c) != SQLITE_TEXT) return {};
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_, c));
  if (text == nullptr) return {};
  return {text, static_cast<std::size_t>(sqlite3_column_bytes(statement_, c))};
}

}  // namespace stepcast
