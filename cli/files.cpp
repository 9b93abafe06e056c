// Files in and out: mapped or read, and written so that a failure leaves no half of a file.
#include "files.hpp"

#include <stepcast/base/error.hpp>
#include <stepcast/base/printable.hpp>
#include <stepcast/report/text/table.hpp>
#include <stepcast/roofline/model_shape.hpp>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

namespace stepcast::cli {
namespace {

[[noreturn]] void refuse_input(const std::string& path, const std::string& found) {
  throw InputError(path, "a readable file", found, model_hint(path));
}

std::vector<std::byte> read_to_end(int file, const std::string& path) {
  std::vector<std::byte> buffer;
  std::size_t size = 0;
  for (;;) {
    constexpr std::size_t chunk = 1 << 20;
    if (buffer.size() - size < chunk) buffer.resize(std::max(2 * buffer.size(), 2 * chunk));
    const ssize_t got = ::read(file, buffer.data() + size, buffer.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse_input(path, std::strerror(errno));
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  buffer.resize(size);
  return buffer;
}

/// The file that is being written, for a handler of signals, which may touch little else.
volatile std::sig_atomic_t being_written = 0;
std::string unfinished;  // changes only while nothing is being written

void remove_unfinished(int signal) {
  if (being_written) ::unlink(unfinished.c_str());
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

/// While it lives, signals that end the program remove the file at `path` first. Those that are ignored stay so.
class Unfinished {
 public:
  explicit Unfinished(const std::string& path) {
    unfinished = path;
    being_written = 1;
    for (std::size_t i = 0; i < signals.size(); ++i) {
      before_[i] = std::signal(signals[i], remove_unfinished);
      if (before_[i] == SIG_IGN) std::signal(signals[i], SIG_IGN);
    }
  }
  ~Unfinished() {
    for (std::size_t i = 0; i < signals.size(); ++i) std::signal(signals[i], before_[i]);
    being_written = 0;
  }
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

 private:
  static constexpr std::array signals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGXCPU, SIGXFSZ};
  void (*before_[signals.size()])(int) = {};
};

/// What is mapped and cut meanwhile has no bytes behind its end: the kernel says so where they are looked at. Of
/// several threads that look there one tells, and the others wait for the end that it brings.
void tell_of_cut_input(int) {
  static std::atomic_flag told;
  while (told.test_and_set()) ::pause();
  constexpr std::string_view line =
      "stepcast: expected files that keep their length while they are read, found one that became shorter\n";
  if (being_written) ::unlink(unfinished.c_str());
  if (::write(STDERR_FILENO, line.data(), line.size()) < 0) ::_exit(2);
  ::_exit(2);
}

/// As wide as it is, within what can be read; colours unless its owner wants none (no-color.org).
Page page_of_terminal() {
  constexpr std::size_t narrowest = 60, widest = 160;
  Page page;
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    page.width = std::clamp<std::size_t>(size.ws_col, narrowest, widest);
  const char *none = std::getenv("NO_COLOR"), *terminal = std::getenv("TERM");
  page.in_colour = (none == nullptr || *none == '\0') && terminal != nullptr && std::string_view(terminal) != "dumb";
  return page;
}

/// The file that a name stands for: where symbolic links lead.
std::string target_of(std::string path) {
  constexpr int most_links = 40;
  std::error_code unknown;
  for (int i = 0; i < most_links && std::filesystem::is_symlink(path, unknown); ++i)
    path = (std::filesystem::path(path).parent_path() / std::filesystem::read_symlink(path, unknown)).string();
  return path;
}

/// A file descriptor that closes itself; standard input stays open.
struct Descriptor {
  int number;
  ~Descriptor() {
    if (number > STDIN_FILENO) ::close(number);
  }
};

}  // namespace

std::string model_hint(const std::string& word) {
  try {
    (void)model_shape_of(word);
    return "a model by its name: recommend --model " + word;
  } catch (const InputError&) { return {}; }
}

FileBytes::FileBytes(const std::string& path) {
  const std::string name = shown_name(path);
  const Descriptor file{path == "-" ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.number < 0) refuse_input(name, std::strerror(errno));
  struct stat status {};
  if (::fstat(file.number, &status) != 0) refuse_input(name, std::strerror(errno));
  if (S_ISDIR(status.st_mode)) refuse_input(name, "a folder");
  if (S_ISREG(status.st_mode) && status.st_size > 0 && path != "-") {
    const auto size = static_cast<std::size_t>(status.st_size);
    void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number, 0);
    if (address != MAP_FAILED) {
      ::madvise(address, size, MADV_SEQUENTIAL);
      data_ = static_cast<const std::byte*>(address);
      size_ = size;
      mapped_ = true;
      std::signal(SIGBUS, tell_of_cut_input);
      return;
    }
  }
  buffer_ = read_to_end(file.number, name);
  data_ = buffer_.data();
  size_ = buffer_.size();
}

FileBytes::FileBytes(FileBytes&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      mapped_(std::exchange(other.mapped_, false)),
      buffer_(std::move(other.buffer_)) {}

FileBytes::~FileBytes() {
  if (mapped_) ::munmap(const_cast<std::byte*>(data_), size_);
}

void FileBytes::release(std::size_t count) const {
  if (!mapped_) return;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  ::madvise(const_cast<std::byte*>(data_), count / page * page, MADV_DONTNEED);
}

std::string shown_name(const std::string& path) { return path == "-" ? "standard input" : path; }

std::vector<std::string> files_in(const std::vector<std::string>& names, const std::string& what) {
  namespace fs = std::filesystem;
  std::vector<std::string> files;
  for (const std::string& name : names) {
    std::error_code failed;
    if (name == "-" || !fs::is_directory(name, failed)) {
      files.push_back(name);
      continue;
    }
    std::vector<std::string> inside;
    for (fs::recursive_directory_iterator at(name, failed), end; !failed && at != end; at.increment(failed))
      if (at->is_regular_file(failed)) inside.push_back(at->path().string());
    if (failed) throw InputError(name, "a folder that can be read", failed.message());
    if (inside.empty()) throw InputError(name, "a folder of " + what, "an empty one");
    std::ranges::sort(inside);
    files.insert(files.end(), inside.begin(), inside.end());
  }
  return files;
}

void refuse_overwriting(const std::string& output, const std::vector<std::string>& inputs) {
  if (output.empty() || output == "-") return;
  struct stat target {};
  if (::stat(output.c_str(), &target) != 0 || !S_ISREG(target.st_mode)) return;
  for (const std::string& input : inputs) {
    struct stat source {};
    if (input == "-" || ::stat(input.c_str(), &source) != 0) continue;
    if (source.st_dev == target.st_dev && source.st_ino == target.st_ino)
      throw InputError(output, "an output that is not an input as well", "'" + input + "', which would be overwritten");
  }
}

bool is_same_file(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty() || a == "-" || b == "-") return false;
  std::error_code unknown;
  if (std::filesystem::equivalent(a, b, unknown)) return std::filesystem::is_regular_file(a, unknown);
  const auto name = [&](const std::string& path) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path, unknown), unknown);
  };
  return !std::filesystem::exists(a, unknown) && name(a) == name(b);
}

void check_writable(const std::string& path) {
  if (path.empty() || path == "-") return;
  const auto refuse = [&](int reason) { throw InputError(path, "a file that can be written", std::strerror(reason)); };
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) refuse(EISDIR);
    if (!S_ISREG(status.st_mode)) return;
    if (::access(path.c_str(), W_OK) != 0) refuse(errno);
  }
  const std::string folder = std::filesystem::path(target_of(path)).parent_path().string();
  if (::access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) != 0) refuse(errno);
}

void check_plot(const std::string& plot, const std::vector<std::string>& inputs, const std::string& output,
                std::string_view what) {
  if (plot.empty()) return;
  if (plot == "-") throw InputError("--plot", "a file, since standard output has " + std::string(what), "-");
  refuse_overwriting(plot, inputs);
  check_writable(plot);
  if (is_same_file(plot, output))
    throw InputError("--plot", "another file than that of " + std::string(what), "'" + plot + "' for both");
}

void write_output(const std::string& path, const std::function<void(std::ostream&)>& write) {
  std::ostringstream text;
  if (path.empty() && ::isatty(STDOUT_FILENO) == 1) set_page(text, page_of_terminal());
  write(text);
  write_output_as_made(path, [&](std::ostream& out) { out << text.view(); });
}

void write_output_as_made(const std::string& path, const std::function<void(std::ostream&)>& write) {
  if (path.empty() || path == "-") {
    write(std::cout);
    std::cout << std::flush;
    if (!std::cout) throw InputError("standard output", "a stream that takes the result", std::strerror(errno));
    return;
  }
  struct stat status {};
  // Devices and pipes cannot be renamed over.
  const bool regular = ::stat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode);
  check_writable(path);
  const std::string target = target_of(path);
  const std::string temporary = regular ? target + ".part" + std::to_string(::getpid()) : path;
  std::optional<Unfinished> unfinished_file;
  if (regular) unfinished_file.emplace(temporary);
  std::ofstream file(temporary, std::ios::binary);
  try {
    if (file) write(file);
  } catch (...) {
    if (regular) std::remove(temporary.c_str());
    throw;
  }
  file.close();
  const bool written = static_cast<bool>(file);
  if (written && (!regular || std::rename(temporary.c_str(), target.c_str()) == 0)) {
    // People want to know; scripts have asked for the file themselves.
    if (regular && ::isatty(STDERR_FILENO)) std::cerr << "stepcast: note: wrote " << printable(path) << '\n';
    return;
  }
  const std::string reason = std::strerror(errno);
  if (regular) std::remove(temporary.c_str());
  throw InputError(path, "a file that can be written", reason);
}

}  // namespace stepcast::cli
