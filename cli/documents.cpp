#include "documents.hpp"

#include "files.hpp"
#include "input.hpp"
#include "progress.hpp"

#include <stepcast/error.hpp>
#include <stepcast/format.hpp>
#include <stepcast/joined_tables.hpp>
#include <stepcast/kernel_table.hpp>
#include <stepcast/kineto_parts.hpp>

#include <algorithm>
#include <atomic>
#include <deque>
#include <exception>
#include <iterator>
#include <memory>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>
#include <utility>

namespace stepcast::cli {
namespace {

/// The schema of a stepcast document ("profile"), or empty for any other text.
std::string_view own_schema_of(std::string_view text) {
  // A profile is small; a large text is a trace, and is not searched through.
  constexpr std::size_t largest_document = std::size_t{64} << 20;
  if (text.size() > largest_document) return {};
  const auto start = text.find_first_not_of(" \t\r\n");
  if (start == std::string_view::npos || text[start] != '{') return {};
  constexpr std::string_view prefix = "\"stepcast.";
  for (auto at = text.find("\"schema\""); at != std::string_view::npos; at = text.find("\"schema\"", at + 1)) {
    const auto colon = text.find_first_not_of(" \t\r\n", at + std::string_view("\"schema\"").size());
    if (colon == std::string_view::npos || text[colon] != ':') continue;
    const auto value = text.find_first_not_of(" \t\r\n", colon + 1);
    if (value == std::string_view::npos || !text.substr(value).starts_with(prefix)) continue;
    const std::string_view rest = text.substr(value + prefix.size());
    return rest.substr(0, rest.find_first_of("/\""));
  }
  return {};
}

void refuse_repetitions(const std::vector<std::string>& files) {
  for (const std::string& path : files)
    if (std::count(files.begin(), files.end(), path) > 1)
      throw InputError("", "every input once", "'" + path + "' twice");
}

template <class T>
void append(std::vector<T>& all, std::vector<T>&& more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

/// The reading of two tables that only make sense together, if the files are such.
std::optional<Reading> reading_of_pair(const std::vector<std::string>& files, bool strict) {
  if (files.size() != 2 || std::ranges::count(files, "-") > 0) return std::nullopt;
  const FileBytes first(files[0]), second(files[1]);
  const std::string name = shown_name(files[0]) + " + " + shown_name(files[1]);
  const Source pair[] = {{shown_name(files[0]), first.bytes()}, {shown_name(files[1]), second.bytes()}};
  const std::optional<std::string> text = joined_tables(pair);
  if (!text) return std::nullopt;
  return reading_of({name, std::as_bytes(std::span(*text))}, {.strict = strict, .progress = {}});
}

/// What every file holds, in their order. Files are read side by side, each by one thread; a lone one by all.
std::vector<Reading> readings_of(const std::vector<std::string>& files, bool strict) {
  const std::size_t count = files.size();
  std::vector<Reading> readings(count);
  std::vector<std::exception_ptr> failures(count);
  std::vector<double> shares(count, 0);
  std::mutex shares_change;
  Progress progress("reading");
  std::atomic<std::size_t> next{0};
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  const auto read_some = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      const auto show = [&, i](double share) {
        const std::lock_guard lock(shares_change);
        shares[i] = share;
        progress.show(std::accumulate(shares.begin(), shares.end(), 0.0) / static_cast<double>(count));
      };
      try {
        readings[i] = reading_of_file(files[i], {.strict = strict, .progress = show, .threads = count > 1 ? 1u : 0u});
      } catch (...) { failures[i] = std::current_exception(); }
    }
  };
  std::vector<std::jthread> workers;
  for (std::size_t t = 1; t < std::min<std::size_t>(cores, count); ++t) workers.emplace_back(read_some);
  read_some();
  workers.clear();
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
  return readings;
}

/// The files from which on traces belong to the recording of file `first`, itself included.
std::vector<std::size_t> parts_from(const std::vector<Reading>& readings, std::size_t first) {
  std::vector<std::size_t> parts{first};
  if (readings[first].traces.size() != 1) return parts;
  for (std::size_t i = first + 1; i < readings.size(); ++i)
    if (readings[i].traces.size() == 1 &&
        are_parts_of_one_recording(readings[first].traces.front(), readings[i].traces.front()))
      parts.push_back(i);
  return parts;
}

/// Files that hold one recording between them are read again, as one.
void join_parts(const std::vector<std::string>& files, bool strict, std::vector<Reading>& readings) {
  for (std::size_t first = 0; first < files.size(); ++first) {
    const std::vector<std::size_t> parts = parts_from(readings, first);
    if (parts.size() == 1) continue;
    std::deque<FileBytes> bytes;
    std::vector<Source> sources;
    std::string names;
    for (const std::size_t part : parts) {
      if (files[part] == "-")
        throw InputError("", "the parts of a recording as files", "one of them on standard input");
      bytes.emplace_back(files[part]);
      sources.push_back({shown_name(files[part]), bytes.back().bytes(), {}});
      names += (names.empty() ? "" : ", ") + shown_name(files[part]);
      readings[part].traces.clear();
    }
    readings[first].traces.push_back(kineto_trace_of(sources, {.strict = strict, .progress = {}}));
    note("parts of one recording, read as one: " + names);
  }
}

/// Everything that the files hold, not yet joined with execution traces.
Reading reading_of_files(const std::vector<std::string>& files, bool strict) {
  if (std::optional<Reading> pair = reading_of_pair(files, strict)) return std::move(*pair);
  std::vector<Reading> readings = readings_of(files, strict);
  join_parts(files, strict, readings);
  Reading all;
  for (Reading& one : readings) {
    append(all.traces, std::move(one.traces));
    append(all.profiles, std::move(one.profiles));
    append(all.executions, std::move(one.executions));
    append(all.refused, std::move(one.refused));
  }
  return all;
}

}  // namespace

Reading reading_of_file(const std::string& path, const ReadOptions& options) {
  const std::string name = shown_name(path);
  const FileBytes file(path);
  const std::string_view schema = own_schema_of(file.text());
  if (schema.empty()) {
    const auto release = [&file](std::size_t count) { file.release(count); };
    return reading_of({name, file.bytes(), release}, options);
  }
  if (schema != "profile") throw InputError(name, "a trace or a profile", "a stepcast " + std::string(schema));
  Reading reading;
  reading.profiles.push_back(profile_of_json(file.text(), name));
  return reading;
}

void use_kernel_rules(const std::string& file, std::vector<Trace>& traces) {
  if (file.empty()) return;
  const KernelTable own = kernel_table_of_json(FileBytes(file).text(), shown_name(file));
  const auto table = std::make_shared<const KernelTable>(own.before(shipped_kernel_table()));
  for (Trace& trace : traces) trace.kernels = table;
}

Documents documents_of(const std::vector<std::string>& files, bool strict, const std::string& kernels) {
  refuse_repetitions(files);
  Reading reading = reading_of_files(files, strict);
  for (const std::string& refusal : reading.refused) note("left out: " + refusal);
  Documents documents;
  if (!reading.profiles.empty()) {
    if (reading.profiles.size() > 1 || !reading.traces.empty() || !reading.executions.empty())
      throw InputError("", "one profile, or traces of the ranks of one run", "a profile among several inputs");
    documents.profile = std::move(reading.profiles.front());
    return documents;
  }
  if (reading.traces.empty())
    throw InputError(reading.executions.front().source, "a trace", "an execution trace, which holds no times",
                     "give the profiler's trace of the same run as well");
  documents.traces =
      reading.executions.empty() ? std::move(reading.traces) : joined(std::move(reading.traces), reading.executions);
  use_kernel_rules(kernels, documents.traces);
  std::set<std::string> said;  // what was repaired in a file is repaired in each of its ranks
  for (const Trace& trace : documents.traces)
    for (const std::string& repair : trace.report.repaired)
      if (const std::string text = trace.source + ": " + repair; said.insert(text).second) note(text);
  return documents;
}

}  // namespace stepcast::cli
