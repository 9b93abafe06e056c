#pragma once
// Files: whole inputs as bytes, and outputs that are complete or absent. "-" is standard input or output.
//
// The only place of the project that touches the disk; the library takes bytes and streams.
#include <cstddef>
#include <functional>
#include <iosfwd>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast::cli {

/// The bytes of one input: mapped where it is a regular file, else read to its end.
class FileBytes {
 public:
  /// Throws InputError when `path` cannot be read.
  explicit FileBytes(const std::string& path);
  FileBytes(FileBytes&&) noexcept;
  FileBytes& operator=(FileBytes&&) = delete;
  ~FileBytes();

  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, size_}; }
  /// Gives the memory of the first `count` bytes back; they are read again from the file when they are looked at.
  void release(std::size_t count) const;
  [[nodiscard]] std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  bool mapped_ = false;
  std::vector<std::byte> buffer_;
};

/// The name of an input in messages: its path, or "standard input".
[[nodiscard]] std::string shown_name(const std::string& path);

/// The files themselves, and of folders all that they hold, in the order of their names. `what` is looked for in them.
[[nodiscard]] std::vector<std::string> files_in(const std::vector<std::string>& names, const std::string& what);

/// Throws InputError if writing to `output` would overwrite one of `inputs`, by whatever names they go.
void refuse_overwriting(const std::string& output, const std::vector<std::string>& inputs);

/// Two names of one file, which may not exist yet.
[[nodiscard]] bool is_same_file(const std::string& a, const std::string& b);

/// Throws InputError if no file can be made at `path` ("" or "-": there is none to make), before hours of work are
/// lost.
void check_writable(const std::string& path);

/// Throws InputError, before any work, unless a picture ("": none) can go to a file of its own. `what` goes to
/// `output`: "the rows".
void check_plot(const std::string& plot, const std::vector<std::string>& inputs, const std::string& output,
                std::string_view what);

/// Calls `write` with a stream to `path` ("" or "-": standard output). A file appears under its name only when it is
/// complete; one that is not is removed, also when the user interrupts. Throws InputError when it cannot be written.
void write_output(const std::string& path, const std::function<void(std::ostream&)>& write);

/// The same for results that do not fit into memory: what `write` writes goes out as it is made.
void write_output_as_made(const std::string& path, const std::function<void(std::ostream&)>& write);

/// Where a word in the place of a file is the name of a model: how to ask about it. Empty for all else.
[[nodiscard]] std::string model_hint(const std::string& word);

}  // namespace stepcast::cli
