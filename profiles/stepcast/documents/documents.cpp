// Documents: sources are read side by side, parts of one recording again as one, and what is left is joined and judged.
#include <stepcast/base/error.hpp>
#include <stepcast/base/helping_threads.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/documents/documents.hpp>
#include <stepcast/documents/reading.hpp>
#include <stepcast/encodings/inflate.hpp>
#include <stepcast/extraction/profile_of.hpp>
#include <stepcast/formats/kineto/split_recording.hpp>
#include <stepcast/formats/shared/joined_tables.hpp>
#include <stepcast/roofline/shipped_models.hpp>
#include <stepcast/trace/kernel_table.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <exception>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>
#include <utility>

namespace stepcast {
namespace {

std::string_view text_in(const Source& source) {
  return {reinterpret_cast<const char*>(source.bytes.data()), source.bytes.size()};
}

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

void refuse_repetitions(std::span<const Source> sources) {
  std::set<std::string_view> seen;
  for (const Source& source : sources)
    if (!seen.insert(source.name).second) throw InputError("", "every input once", "'" + source.name + "' twice");
}

template <class T>
void append(std::vector<T>& all, std::vector<T>&& more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

/// The same options for reading something once more, which is told nobody.
ReadOptions silent(ReadOptions options) {
  options.progress = {};
  return options;
}

/// The reading of two tables that only make sense together, if the sources are such.
std::optional<Reading> reading_of_pair(std::span<const Source> sources, const ReadOptions& options) {
  if (sources.size() != 2) return std::nullopt;
  const std::optional<std::string> text = joined_tables(sources);
  if (!text) return std::nullopt;
  const std::string name = sources[0].name + " + " + sources[1].name;
  return reading_of({name, std::as_bytes(std::span(*text))}, silent(options));
}

/// The share of all bytes that has been read, told by several threads at a time.
class SharedProgress {
 public:
  SharedProgress(std::span<const Source> sources, const std::function<void(double)>& told)
      : told_(told), bytes_(sources.size()), shares_(sources.size(), 0) {
    for (std::size_t i = 0; i < sources.size(); ++i) bytes_[i] = static_cast<double>(sources[i].bytes.size());
    all_ = std::max(1.0, std::accumulate(bytes_.begin(), bytes_.end(), 0.0));
  }
  void tell(std::size_t source, double share) {
    if (!told_) return;
    const std::lock_guard lock(change_);
    shares_[source] = share;
    told_(std::inner_product(shares_.begin(), shares_.end(), bytes_.begin(), 0.0) / all_);
  }

 private:
  const std::function<void(double)>& told_;
  std::vector<double> bytes_, shares_;
  double all_ = 1;
  std::mutex change_;
};

/// What every source holds, in their order. Sources are read side by side, each by one thread; a lone one by all.
std::vector<Reading> readings_of(std::span<const Source> sources, const ReadOptions& options) {
  const std::size_t count = sources.size();
  const std::size_t threads = threads_or_all(options.threads);
  std::vector<Reading> readings(count);
  std::vector<std::exception_ptr> failures(count);
  SharedProgress progress(sources, options.progress);
  std::atomic<std::size_t> next{0};
  const auto read_some = [&](std::size_t) {
    for (std::size_t i = next++; i < count; i = next++) {
      ReadOptions one = options;
      if (options.progress) one.progress = [&progress, i](double share) { progress.tell(i, share); };
      if (count > 1) one.threads = 1;
      try {
        readings[i] = document_of(sources[i], one);
      } catch (...) { failures[i] = std::current_exception(); }
      if (sources[i].release) sources[i].release(sources[i].bytes.size());
    }
  };
  {
    const std::vector<std::jthread> helpers = helping_threads(std::min(threads, count), read_some);
    read_some(0);
  }
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
  return readings;
}

/// The sources from which on traces belong to the recording of source `first`, itself included.
std::vector<std::size_t> parts_from(const std::vector<Reading>& readings, std::size_t first) {
  std::vector<std::size_t> parts{first};
  if (readings[first].traces.size() != 1) return parts;
  for (std::size_t i = first + 1; i < readings.size(); ++i)
    if (readings[i].traces.size() == 1 &&
        are_parts_of_one_recording(readings[first].traces.front(), readings[i].traces.front()))
      parts.push_back(i);
  return parts;
}

/// Sources that hold one recording between them are read again, as one.
void join_parts(std::span<const Source> sources, const ReadOptions& options, std::vector<Reading>& readings,
                std::vector<std::string>& notes) {
  for (std::size_t first = 0; first < sources.size(); ++first) {
    const std::vector<std::size_t> parts = parts_from(readings, first);
    if (parts.size() == 1) continue;
    std::vector<Source> together;
    std::string names;
    for (const std::size_t part : parts) {
      together.push_back(sources[part]);
      add_to_list(names, sources[part].name);
      readings[part].traces.clear();
    }
    readings[first].traces.push_back(kineto_trace_of(together, silent(options)));
    notes.push_back("parts of one recording, read as one: " + names);
  }
}

/// Everything that the sources hold, not yet joined with execution traces.
Reading reading_of_all(std::span<const Source> sources, const ReadOptions& options, std::vector<std::string>& notes) {
  if (std::optional<Reading> pair = reading_of_pair(sources, options)) return std::move(*pair);
  std::vector<Reading> readings = readings_of(sources, options);
  join_parts(sources, options, readings, notes);
  Reading all;
  for (Reading& one : readings) {
    append(all.traces, std::move(one.traces));
    append(all.profiles, std::move(one.profiles));
    append(all.executions, std::move(one.executions));
    append(all.refused, std::move(one.refused));
  }
  return all;
}

void note_repairs(Documents& documents) {
  std::set<std::string> said;  // what was repaired in a source is repaired in each of its ranks
  for (const Trace& trace : documents.traces)
    for (const std::string& repair : trace.report.repaired)
      if (std::string text = trace.source + ": " + repair; said.insert(text).second)
        documents.notes.push_back(std::move(text));
}

/// How a run was divided, as a file beside the passes of its stages says ("config.json" of Primus).
struct RunLayout {
  std::string source;
  std::int64_t chunks = 1, micro_batches = 0;
};
std::optional<RunLayout> layout_in(const Source& source) {
  constexpr std::size_t most = 4096;
  std::string text(most, '\0');
  text.resize(PlainText(source.bytes).read(text));
  if (text.size() == most || text.find("\"pp_size\"") == std::string::npos || own_schema_of(text) != "") return {};
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  const auto number = [&](const char* key, const char* other_key, std::int64_t otherwise) {
    for (const char* k : {key, other_key})
      if (const auto at = json.find(k); at != json.end() && at->is_number_integer()) return at->get<std::int64_t>();
    return otherwise;
  };
  return RunLayout{source.name, number("vp_size", "vpp_size", 1), number("num_mbs", "micro_batches", 0)};
}

/// Takes such files out of the sources, if any are left then.
std::vector<RunLayout> take_layouts(std::vector<Source>& sources) {
  std::vector<RunLayout> layouts;
  std::vector<Source> others;
  for (const Source& source : sources) {
    if (std::optional<RunLayout> layout = layout_in(source)) layouts.push_back(std::move(*layout));
    else others.push_back(source);
  }
  if (others.empty()) return {};
  sources = std::move(others);
  return layouts;
}

/// Each stage runs as many forward passes as chunks and micro-batches ask for, or the file is of another run.
void check_layout(const RunLayout& layout, std::span<const Trace> traces) {
  const double asked = static_cast<double>(layout.chunks) * static_cast<double>(layout.micro_batches);
  for (const Trace& trace : traces) {
    std::map<std::int32_t, std::int64_t> passes;  // by step, of which some may be damaged
    for (const OperationArguments& o : trace.operations)
      passes[o.step] += trace.text(trace.events[o.event].name) == "forward-compute";
    std::int64_t most = 0;
    for (const auto& [step, count] : passes) most = std::max(most, count);
    if (asked > 0 && static_cast<double>(most) != asked)
      throw InputError(layout.source, "the layout of the run of '" + trace.source + "'",
                       std::to_string(layout.chunks) + " chunks of " + std::to_string(layout.micro_batches) +
                           " micro-batches, and " + std::to_string(most) + " forward passes in a step",
                       "give the file that was written with these passes");
  }
}

}  // namespace

std::string model_named_by(std::string_view path) {
  path.remove_prefix(path.rfind('/') + 1);  // npos + 1 = 0
  for (const std::string_view ending : {".gz", ".json", ".trace", ".pt"})
    if (path.size() > ending.size() && path.ends_with(ending)) path.remove_suffix(ending.size());
  return std::string(path);
}

Reading document_of(const Source& source, const ReadOptions& options) {
  const std::string_view text = text_in(source), schema = own_schema_of(text);
  if (schema.empty()) return reading_of(source, options);
  if (schema != "profile") throw InputError(source.name, "a trace or a profile", "a stepcast " + std::string(schema));
  Reading reading;
  reading.profiles.push_back(profile_of_json(text, source.name));
  return reading;
}

void use_kernel_rules(const Source& kernels, std::span<Trace> traces) {
  if (kernels.bytes.empty()) return;
  const KernelTable own = kernel_table_of_json(text_in(kernels), kernels.name);
  const auto table = std::make_shared<const KernelTable>(own.before(shipped_kernel_table()));
  for (Trace& trace : traces) trace.kernels = table;
}

bool is_pipelined(std::span<const Trace> traces) {
  // A trace of a framework may know steps; only tables of pipelined jobs say which micro-batch a pass belongs to. Of a
  // worker all passes may be lost: the others tell.
  const auto passes = [](const Trace& trace) {
    return std::ranges::any_of(trace.operations, [](const OperationArguments& o) { return o.micro_batch >= 0; });
  };
  return std::ranges::any_of(traces, passes) &&
         std::ranges::none_of(traces, [](const Trace& trace) { return trace.operations.empty(); });
}

Documents documents_of(std::span<const Source> given, const ReadOptions& options, const Source& kernels) {
  if (given.empty()) throw InputError("", "a trace", "none");
  refuse_repetitions(given);
  std::vector<Source> sources(given.begin(), given.end());
  const std::vector<RunLayout> layouts = take_layouts(sources);
  Documents documents;
  Reading reading = reading_of_all(sources, options, documents.notes);
  for (const std::string& refusal : reading.refused) documents.notes.push_back("left out: " + refusal);
  if (!layouts.empty() && !is_pipelined(reading.traces))
    throw InputError(layouts.front().source, "a profiler trace, or the passes of pipeline stages beside it",
                     "the parallel layout of a run, which holds no times");
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
  note_repairs(documents);
  for (const RunLayout& layout : layouts) {
    check_layout(layout, documents.traces);
    documents.notes.push_back(layout.source + ": the layout of the run, which fits its passes");
  }
  return documents;
}

Profile profile_of(const Documents& documents, const ProfileOptions& options, std::string_view where) {
  if (is_pipelined(documents.traces))
    throw InputError(documents.traces.front().source, "a trace of a framework",
                     "the passes of a pipelined job, which hold no layers",
                     "'stepcast replay' rebuilds its steps and says which worker or stage is slow");
  if (documents.profile) {
    if (!options.model.empty())
      throw InputError(std::string(where), "a trace to apply it to", "a profile, which has its tensors");
    if (options.parameter_count > 0)
      throw InputError(where.starts_with("--") ? "--parameters" : "parameters", "a trace to apply them to",
                       "a profile, which has its tensors");
    Profile profile = *documents.profile;
    if (options.batch_samples > 0) profile.batch_samples = options.batch_samples;
    return profile;
  }
  if (documents.traces.empty()) throw InputError("", "a trace or a profile", "none");
  Profile profile = documents.traces.size() == 1 ? profile_of(documents.traces.front(), options)
                                                 : profile_of(std::span(documents.traces), options);
  // Nobody names the model: it is called like the file, of several ranks that of the one that stands for all.
  if (std::ranges::find(documents.traces, profile.model, &Trace::source) != documents.traces.end())
    profile.model = model_named_by(profile.model);
  return profile;
}

ProfileOptions profile_options_of(std::string_view shipped, double batch_samples, double parameter_count,
                                  std::string_view where) {
  if (!(batch_samples >= 0 && batch_samples <= 1e12))
    throw InputError("batch", "a number of samples from 0 to 1e12", std::to_string(batch_samples));
  if (!(parameter_count >= 0 && parameter_count <= 1e14))
    throw InputError("parameters", "a number of parameters from 0 to 1e14", std::to_string(parameter_count));
  ProfileOptions options;
  options.batch_samples = batch_samples;
  options.parameter_count = parameter_count;
  if (shipped.empty()) return options;
  const ModelDescription* model = shipped_model(shipped);
  if (!model) {
    std::vector<std::string> names;
    for (const ModelDescription& m : shipped_models()) names.push_back(m.name);
    throw InputError(std::string(where), "one of " + listed(names) + ", or a description such as 'gpt:layers=24,...'",
                     in_quotes(shipped), did_you_mean(shipped, names));
  }
  if (parameter_count > 0)
    throw InputError("parameters", "either a number of parameters, or a model's list of them", "both");
  options.model = model->name;
  options.parameters = model->parameters;
  return options;
}

}  // namespace stepcast
