// Cases to results: inputs are found, every case is predicted on its own thread, and judged.
#include <stepcast/base/embedded.hpp>
#include <stepcast/base/helping_threads.hpp>
#include <stepcast/base/statistics.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/baseline/self_check.hpp>
#include <stepcast/calibration/benchmark_logs.hpp>
#include <stepcast/calibration/calibration.hpp>
#include <stepcast/cluster/carried.hpp>
#include <stepcast/documents/documents.hpp>
#include <stepcast/documents/reading.hpp>
#include <stepcast/extraction/profile_of.hpp>
#include <stepcast/parallelism/layout_prediction.hpp>
#include <stepcast/prediction/prediction.hpp>
#include <stepcast/replay/pipelined/pipeline_replay.hpp>
#include <stepcast/replay/replay.hpp>
#include <stepcast/validation/forecasts.hpp>
#include <stepcast/validation/validation.hpp>
#include <stepcast/validation/verdict.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <mutex>
#include <thread>

namespace stepcast {
namespace {

/// A file that a case needs and that is not there.
struct Absent {
  std::string path;
};

Source source_of(const std::string& path, const std::string& text) { return {path, std::as_bytes(std::span(text))}; }

/// Times as one worker measures them: all parts by the same factor, then what its step does not contain.
Profile as_measured(Profile p, const CaseInputs& in) {
  if (in.single_worker > Seconds(0)) {
    const double factor = in.single_worker / lone_step_time(p);
    scale_work(p, factor);
    p.input *= factor;
    for (Seconds& step : p.step_times) step *= factor;
  }
  (p.has_device() ? p.optimizer.device : p.optimizer.host) += in.extra_optimizer;
  return p;
}

/// Finds what cases name; profiles made from files are kept, since many cases share one.
class Library {
 public:
  explicit Library(const ValidationOptions& options) : options_(options) {}

  [[nodiscard]] std::string file(const std::string& path) const {
    std::optional<std::string> text = options_.file ? options_.file(path) : std::nullopt;
    if (!text) throw Absent{path};
    return std::move(*text);
  }
  /// The same for a `name` that is none of `known`: without a dot or a slash it is no path but misspelt.
  [[nodiscard]] std::string file(const std::string& name, const char* what,
                                 const std::vector<std::string>& known) const {
    if (name.find_first_of("./") != std::string::npos) return file(name);
    throw InputError(what, "a known name or the path of a file", in_quotes(name), did_you_mean(name, known));
  }

  [[nodiscard]] Profile profile(const ValidationSuite& suite, const CaseInputs& in, const Cluster& cluster) {
    const auto own = suite.profiles.find(in.profile);
    Profile p = as_measured(own != suite.profiles.end() ? own->second : shared_profile(in.profile), in);
    return in.pipeline.empty() ? p : with_input_pipeline(std::move(p), pipeline(suite, in), cluster);
  }

  [[nodiscard]] Device device(const ValidationSuite& suite, const std::string& name) const {
    const auto own = suite.devices.find(name);
    if (own != suite.devices.end()) return own->second;
    if (const Device* shipped = shipped_device(name)) return *shipped;
    std::vector<std::string> known;
    for (const Device& d : shipped_devices()) known.push_back(d.name);
    return device_of_json(file(name, "device", known), name);
  }

  [[nodiscard]] InputPipeline pipeline(const ValidationSuite& suite, const CaseInputs& in) const {
    const auto own = suite.pipelines.find(in.pipeline);
    std::vector<std::string> known;
    for (const auto& [name, pipeline] : suite.pipelines) known.push_back(name);
    InputPipeline p = own != suite.pipelines.end()
                          ? own->second
                          : input_pipeline_of_json(file(in.pipeline, "pipeline", known), in.pipeline);
    if (in.cached_share) p.cached_share = *in.cached_share;
    if (in.loader_workers) p.workers = *in.loader_workers;
    return checked(std::move(p), "pipeline " + in.pipeline);
  }

  [[nodiscard]] Cluster cluster(const ValidationSuite& suite, const CaseInputs& in) const {
    const auto own = suite.clusters.find(in.cluster);
    const Cluster* shipped = shipped_cluster(in.cluster);
    std::vector<std::string> known;
    for (const Cluster& c : shipped_clusters()) known.push_back(c.name);
    Cluster c = own != suite.clusters.end() ? own->second
                : shipped                   ? *shipped
                                            : cluster_of_json(file(in.cluster, "cluster", known), in.cluster);
    if (in.workers == 0) return c;
    Answer<Cluster> sized = resized(std::move(c), in.workers);
    if (!sized) throw InputError("cluster " + in.cluster, "a possible number of workers", sized.reason());
    return std::move(*sized);
  }

 private:
  const Profile& shared_profile(const std::string& name) {
    const std::lock_guard lock(mutex_);
    const auto known = profiles_.find(name);
    return known != profiles_.end() ? known->second : profiles_.emplace(name, loaded_profile(name)).first->second;
  }
  [[nodiscard]] Profile loaded_profile(const std::string& name) const {
    std::vector<std::string> known;
    for (const EmbeddedFile& shipped : shipped_profile_texts()) {
      if (shipped.name == name) return profile_of_json(shipped.text, "profile " + name);
      known.emplace_back(shipped.name);
    }
    const std::string text = file(name, "profile", known);
    const bool is_profile = text.substr(0, 4096).find("\"stepcast.profile/") != std::string::npos;
    return is_profile ? profile_of_json(text, name) : profile_of(trace_of(source_of(name, text)));
  }

  const ValidationOptions& options_;
  std::mutex mutex_;
  std::map<std::string, Profile> profiles_;
};

void predict_step(const ValidationSuite& suite, const ValidationCase& c, Library& library, CaseResult& result) {
  const Cluster cluster = library.cluster(suite, c.inputs);
  const Profile profile = library.profile(suite, c.inputs, cluster);
  const Answer<Prediction> prediction = predicted(profile, cluster, c.inputs.plan);
  if (!prediction) {
    result.reason = prediction.reason();
    return;
  }
  double unit = 1;
  if (c.subject == Subject::ratio) {
    const Answer<Prediction> other = predicted(profile, cluster, c.inputs.over);
    if (!other) {
      result.reason = other.reason();
      return;
    }
    unit = other->iteration.value();
  }
  const Seconds time = c.inputs.part ? prediction->breakdown.*c.inputs.part : prediction->iteration;
  result.predicted_any = true;
  result.predicted = result.low = result.high = time.value() * c.inputs.steps / unit;
  // The errors of the two steps of a ratio largely cancel; no interval is stated for it, nor for a part.
  if (c.subject == Subject::ratio || c.inputs.part) return;
  result.low = prediction->interval_low.value() * c.inputs.steps;
  result.high = prediction->interval_high.value() * c.inputs.steps;
}

/// A time on links that were fitted with `relative_error`.
void set_communication_time(Seconds time, double relative_error, CaseResult& result) {
  const double half = normal_p90 * relative_error * time.value();
  result.predicted_any = true;
  result.predicted = time.value();
  result.low = result.predicted - half;
  result.high = result.predicted + half;
}

/// What a layout divides: a described model on its device, or the model of a profile.
Answer<Workload> workload_in(const ValidationSuite& suite, const CaseInputs& in, const Cluster& cluster,
                             Library& library) {
  if (in.model.empty()) return workload_of(library.profile(suite, in, cluster));
  return workload_of(model_shape_of(in.model), library.device(suite, in.device));
}

/// A step under a layout, or what it holds.
void predict_layout(const ValidationSuite& suite, const ValidationCase& c, Library& library, CaseResult& result) {
  const Cluster cluster = library.cluster(suite, c.inputs);
  LayoutOptions options;
  options.global_batch = c.inputs.global_batch;
  // Whether memory is predicted to suffice is another question (MemoryVerdicts).
  options.memory_cap = Bytes(1e18);
  const Answer<Workload> workload = workload_in(suite, c.inputs, cluster, library);
  if (!workload) {
    result.reason = workload.reason();
    return;
  }
  const Answer<LayoutPrediction> prediction =
      predicted(*workload, cluster, {c.inputs.layout.value_or(Layout{}), c.inputs.plan}, options);
  if (!prediction) {
    result.reason = prediction.reason();
    return;
  }
  result.predicted_any = true;
  const MemoryUse& m = prediction->memory;
  if (workload->device && !c.inputs.model.empty())
    result.held = m.total().value(), result.card = workload->device->memory.value();
  if (c.inputs.exceeds_memory()) {
    result.predicted_any = result.card > 0;
    if (!result.predicted_any) result.reason = "the memory of the device is not known";
    result.predicted = result.low = result.high = result.held;
    result.measured = result.card;
    return;
  }
  if (c.subject == Subject::memory) {
    const Bytes held = c.inputs.memory == "used" ? m.total() : m.total() - m.margin;
    result.predicted = result.low = result.high = held.value();
    return;
  }
  result.predicted = prediction->iteration.value();
  result.low = prediction->interval_low.value();
  result.high = prediction->interval_high.value();
}

void predict_collective(const ValidationSuite& suite, const ValidationCase& c, const Library& library,
                        CaseResult& result) {
  std::vector<MeasuredCollective> measured;
  for (const std::string& path : c.inputs.logs)
    for (MeasuredCollective& table : collectives_of_nccl_tests(library.file(path), path))
      measured.push_back(std::move(table));
  Cluster base = library.cluster(suite, c.inputs);
  base.tables.clear();  // the links alone predict
  const Calibration fitted = calibrated(std::move(base), measured);
  const Answer<CommunicationCost> cost = communication_cost(fitted.cluster, fitted.cluster.all_reduce);
  if (!cost) {
    result.reason = cost.reason();
    return;
  }
  set_communication_time((*cost)(Operation::all_reduce, c.inputs.size), fitted.cluster.relative_error, result);
}

void predict_operation(const ValidationSuite& suite, const ValidationCase& c, const Library& library,
                       CaseResult& result) {
  const Cluster cluster = library.cluster(suite, c.inputs);
  const Answer<CommunicationCost> cost = communication_cost(cluster, c.inputs.algorithm);
  if (!cost || !cost->defines(c.inputs.operation)) {
    result.reason =
        cost ? std::string(cost->algorithm()) + " does not define " + std::string(name_of(c.inputs.operation))
             : cost.reason();
    return;
  }
  result.predicted_any = true;
  result.predicted = (*cost)(c.inputs.operation, c.inputs.size).value();
  result.measured_there = what_was_measured(cluster, c.inputs.operation);
  const double spread = spread_of(cluster, c.inputs.operation, c.inputs.size);
  result.low = result.predicted / spread;
  result.high = result.predicted * spread;
}

void predict_replay(const ValidationCase& c, const Library& library, CaseResult& result) {
  const std::string text = library.file(c.inputs.profile);
  const Answer<Replay> replay = replay_of(trace_of(source_of(c.inputs.profile, text)));
  if (!replay || !replay->scored) {
    result.reason = replay ? replay->note : replay.reason();
    return;
  }
  result.predicted_any = true;
  result.predicted = result.low = result.high = replay->replayed.value();
  result.measured = replay->measured.value();
}

/// What the cases compare of a pipelined job: (predicted, measured); a figure that the job does not have is a reason.
Answer<std::pair<double, double>> figure_of(const PipelineReplay& replay, const ValidationCase& c) {
  using Both = std::pair<double, double>;
  const std::string& figure = c.inputs.figure;
  if (figure == "rebuilt") return Both{replay.rebuilt.value(), replay.measured.value()};
  if (figure == "forecast") return Both{replay.forecast.value(), replay.measured.value()};
  if (figure == "unevenness") return Both{replay.unevenness, c.measured};
  if (figure == "schedule") {
    for (const ReorderedPipeline& schedule : replay.schedules)
      if (schedule.recorded) return Both{schedule.step.value(), replay.held_out.value()};
    return Inapplicable{"the recorded order of passes is that of no schedule"};
  }
  const std::vector<Slowness>& slow = figure == "slow_worker" ? replay.workers : replay.stages_slow;
  if (slow.empty()) return Inapplicable{"nothing slow was found"};
  return Both{slow.front().factor, c.measured};
}

std::vector<Trace> traces_of(const ValidationCase& c, const Library& library) {
  std::vector<Trace> traces;
  for (const std::string& path : c.inputs.traces) {
    const std::string text = library.file(path);
    for (Trace& trace : reading_of(source_of(path, text)).traces) traces.push_back(std::move(trace));
  }
  return traces;
}

void predict_as_traced(const ValidationCase& c, const Library& library, CaseResult& result) {
  const Documents documents{traces_of(c, library), {}, {}};
  const auto traced = [&]() -> std::optional<AsTraced> {
    try {
      return self_check_of(documents, profile_of(documents, {})).as_traced;
    } catch (const InputError& refusal) { return recorded_only(documents, refusal.what()).as_traced; }
  };
  const std::optional<AsTraced> found = traced();
  if (!found || !found->known()) {
    result.reason = found ? found->missing : "the step was not measured";
    return;
  }
  result.predicted_any = true;
  result.predicted = result.low = result.high = found->predicted.value();
  result.measured = found->measured.value();
}

/// The recorded step with other messages, or under the layout that was traced elsewhere, and of a job whose profiler
/// slowed it down what they change of its own step.
void predict_exchanged(const ValidationSuite& suite, const ValidationCase& c, const Library& library,
                       CaseResult& result) {
  const Documents documents{traces_of(c, library), {}, {}};
  const Profile profile = profile_of(documents, {});
  const SelfCheck check = recorded_check_of(documents, profile, "figure");
  const RecordedJob& job = *check.recorded;
  const Cluster cluster = library.cluster(suite, c.inputs);
  if (c.inputs.layout && text_of(LayoutPlan{*c.inputs.layout, c.inputs.plan}) != check.as_traced->plan) {
    result.reason = "the traced plan is " + check.as_traced->plan;
    return;
  }
  const Answer<Prediction> prediction = c.inputs.layout ? job.on(cluster) : job.with(c.inputs.plan, profile, cluster);
  if (!prediction) {
    result.reason = prediction.reason();
    return;
  }
  const Seconds profiler = c.inputs.traced_step > Seconds(0) ? job.step() - c.inputs.traced_step : Seconds(0);
  result.predicted_any = true;
  result.predicted = (prediction->iteration - profiler).value();
  result.low = (prediction->interval_low - profiler).value();
  result.high = (prediction->interval_high - profiler).value();
}

void predict_pipelined(const ValidationCase& c, const Library& library, CaseResult& result) {
  const std::vector<Trace> traces = traces_of(c, library);
  const Answer<PipelineReplay> replay = pipeline_replay_of(traces);
  const Answer<std::pair<double, double>> both =
      replay ? figure_of(*replay, c) : Answer<std::pair<double, double>>(Inapplicable{replay.reason()});
  if (!both) {
    result.reason = both.reason();
    return;
  }
  result.predicted_any = true;
  result.predicted = result.low = result.high = both->first;
  result.measured = both->second;
}

CaseResult result_of(const ValidationSuite& suite, const ValidationCase& c, Library& library) {
  CaseResult result;
  result.measured = c.measured;
  try {
    switch (c.subject) {
      case Subject::step:
      case Subject::ratio:
        if (c.inputs.figure == "exchanged") predict_exchanged(suite, c, library, result);
        else if (!c.inputs.traces.empty()) predict_pipelined(c, library, result);
        else if (c.inputs.model.empty() && !c.inputs.layout) predict_step(suite, c, library, result);
        else predict_layout(suite, c, library, result);
        break;
      case Subject::memory:
        predict_layout(suite, c, library, result);
        break;
      case Subject::collective:
        predict_collective(suite, c, library, result);
        break;
      case Subject::operation:
        predict_operation(suite, c, library, result);
        break;
      case Subject::replay:
        if (c.inputs.traces.empty()) predict_replay(c, library, result);
        else if (c.inputs.figure == "as_traced") predict_as_traced(c, library, result);
        else predict_pipelined(c, library, result);
    }
  } catch (const Absent& absent) {
    result.outcome = Outcome::skipped;
    result.reason = "no file " + absent.path;
    return result;
  } catch (const InputError& error) { result.reason = error.what(); }
  judge(c, result);
  return result;
}

}  // namespace

namespace {

/// The rows of the tables in files become cases; a table whose file is absent is one case, which is skipped.
void read_tables(ValidationSuite& suite, const ValidationOptions& options) {
  for (const MeasuredStepTable& table : suite.tables) {
    if (const std::optional<std::string> text = options.file ? options.file(table.file) : std::nullopt) {
      add_rows(suite, table, *text, table.file);
      continue;
    }
    ValidationCase absent = table.common;
    absent.id = "rows of " + table.file;
    absent.inputs.model.clear();
    absent.inputs.profile = table.file;
    suite.cases.push_back(std::move(absent));
  }
  suite.tables.clear();
}

/// Forecasts become their cases; one whose file is absent is one case, which is skipped.
void read_forecasts(ValidationSuite& suite, const ValidationOptions& options) {
  for (const CollectiveForecast& forecast : suite.forecasts) {
    const std::optional<std::string> missing = add_forecast(suite, forecast, options.file);
    if (!missing) continue;
    ValidationCase absent = forecast.common;
    absent.id = forecast.kind + "/" + forecast.machine;
    absent.inputs.cluster = *missing;
    suite.cases.push_back(std::move(absent));
  }
  suite.forecasts.clear();
}

}  // namespace

std::vector<SuiteResult> validated(std::vector<ValidationSuite> suites, const ValidationOptions& options) {
  std::vector<SuiteResult> out;
  struct Job {
    std::size_t suite, index;
  };
  std::vector<Job> jobs;
  for (ValidationSuite& suite : suites) {
    read_tables(suite, options);
    read_forecasts(suite, options);
    for (std::size_t i = 0; i < suite.cases.size(); ++i) jobs.push_back({out.size(), i});
    const std::size_t n = suite.cases.size();
    out.push_back({std::move(suite), std::vector<CaseResult>(n), {}});
  }
  Library library(options);
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;  // guards `done`, `failure` and the progress callback
  std::size_t done = 0;
  std::exception_ptr failure;
  const auto work = [&](std::size_t) {
    for (std::size_t j = next++; j < jobs.size(); j = next++) {
      SuiteResult& suite = out[jobs[j].suite];
      try {
        suite.results[jobs[j].index] = result_of(suite.suite, suite.suite.cases[jobs[j].index], library);
        const std::lock_guard lock(mutex);
        if (options.progress) options.progress(static_cast<double>(++done) / static_cast<double>(jobs.size()));
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
        next = jobs.size();
        return;
      }
    }
  };
  {
    const std::vector<std::jthread> helpers = helping_threads(threads_or_all(options.threads), work);
    work(0);
  }
  if (failure) std::rethrow_exception(failure);
  for (SuiteResult& suite : out) suite.statistics = statistics_of(suite.suite, suite.results);
  return out;
}

}  // namespace stepcast
