#include "documents.hpp"

#include "files.hpp"
#include "input.hpp"
#include "progress.hpp"

#include <stepcast/error.hpp>
#include <stepcast/format.hpp>
#include <stepcast/joined_tables.hpp>
#include <stepcast/kernel_table.hpp>

#include <algorithm>
#include <iterator>
#include <memory>
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

/// Everything that the files hold, not yet joined.
Reading reading_of_files(const std::vector<std::string>& files, bool strict) {
  if (std::optional<Reading> pair = reading_of_pair(files, strict)) return std::move(*pair);
  Reading all;
  Progress progress("reading");
  const std::size_t count = files.size();
  for (std::size_t i = 0; i < count; ++i) {
    const auto show = [&](double share) {
      progress.show((static_cast<double>(i) + share) / static_cast<double>(count));
    };
    Reading one = reading_of_file(files[i], strict, show);
    append(all.traces, std::move(one.traces));
    append(all.profiles, std::move(one.profiles));
    append(all.executions, std::move(one.executions));
    append(all.refused, std::move(one.refused));
  }
  return all;
}

}  // namespace

Reading reading_of_file(const std::string& path, bool strict, const std::function<void(double)>& progress) {
  const std::string name = shown_name(path);
  const FileBytes file(path);
  const std::string_view schema = own_schema_of(file.text());
  if (schema.empty()) {
    const auto release = [&file](std::size_t count) { file.release(count); };
    return reading_of({name, file.bytes(), release}, {.strict = strict, .progress = progress});
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
  for (const Trace& trace : documents.traces)
    for (const std::string& repair : trace.report.repaired) note(trace.source + ": " + repair);
  return documents;
}

}  // namespace stepcast::cli
