// The JSON form of suites, schema "stepcast.cases/1": read strictly, because a misspelt key would be a silent default.
//
// A case of a described model has "model", "device" and "global_batch" in place of a profile, and its plan a layout. A
// table of such cases has "rows" (CSV lines, header first) or "file", and what its rows share beside it.
//
//   {"schema": "stepcast.cases/1", "suite": "survey", "summary": "...",
//    "defaults": {"grade": "source", "tolerance": 0.1, "inputs": {"profile": "resnet50"}},
//    "profiles": {"name": {stepcast.profile/1}}, "clusters": {"name": {stepcast.cluster/1}},
//    "cases": [{"id": "...", "inputs": {"cluster": "...", "workers": 8, "plan": "wfbp"}, "measured_s": 0.3}]}
//
// A case takes what it does not say from `defaults`; within `inputs` key by key.
#include <stepcast/base/embedded.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/calibration/measured_steps.hpp>
#include <stepcast/encodings/json_node.hpp>
#include <stepcast/validation/cases.hpp>

#include <algorithm>
#include <cmath>
#include <set>

namespace stepcast {
namespace {

using Json = JsonNode::Json;
constexpr std::string_view schema = "stepcast.cases/1";

/// At least `low`; `otherwise` where the key is left out.
double number_of(const JsonNode& object, const char* key, double otherwise, double low = 0) {
  const double number = object.number(key, otherwise);
  if (object.has(key) && number < low) object.at(key).refuse("a number of at least " + Json(low).dump());
  return number;
}

/// The same, without a fraction.
std::int64_t whole_number_of(const JsonNode& object, const char* key, double low, double high) {
  const double number = number_of(object, key, 0, low);
  if (number != std::floor(number) || number > high) object.at(key).refuse("a whole number");
  return static_cast<std::int64_t>(number);
}

const std::vector<std::string> input_keys{
    "profile", "traces",    "figure",        "cluster",      "workers",         "plan",
    "over",    "model",     "device",        "global_batch", "single_worker_s", "extra_optimizer_s",
    "logs",    "operation", "size_bytes",    "pipeline",     "cached_share",    "loader_workers",
    "steps",   "part",      "traced_step_s", "memory"};
const std::vector<std::string> case_keys{"id",         "source",         "grade",          "method",   "inputs",
                                         "measured_s", "measured_ratio", "measured_bytes", "spread_s", "tolerance",
                                         "split",      "recorded_error", "excluded"};

LayoutPlan layout_plan_at(const JsonNode& inputs, const char* key) {
  if (!inputs.has(key)) return {};
  try {
    return layout_plan_of(inputs.text(key));
  } catch (const InputError& error) {
    throw InputError(inputs.place(key) + " " + error.where, error.expected, error.found, error.hint);
  }
}

/// "all_to_all@bruck", or without an algorithm.
void read_operation(const JsonNode& inputs, CaseInputs& in) {
  const std::string text = inputs.text("operation");
  const std::size_t at = std::min(text.find('@'), text.size());
  std::vector<std::string> known;
  for (std::size_t i = 0; i < operation_count; ++i) {
    in.operation = static_cast<Operation>(i);
    known.emplace_back(name_of(in.operation));
    if (known.back() != text.substr(0, at)) continue;
    if (at < text.size()) in.algorithm = text.substr(at + 1);
    return;
  }
  inputs.at("operation").refuse("an operation, such as all_to_all@bruck", did_you_mean(text.substr(0, at), known));
}

Seconds Breakdown::*part_named(const JsonNode& inputs) {
  const std::string name = inputs.text("part");
  Seconds Breakdown::*named = nullptr;
  std::vector<std::string> known;
  for_each_field<Breakdown>([&](const auto& part) {
    known.emplace_back(without_unit(part.name, "_s"));
    if (known.back() == name) named = part.get;
  });
  if (named != nullptr) return named;
  inputs.at("part").refuse("a part of the step, such as input_stall", did_you_mean(name, known));
}

/// What says how the step is fed, and what of it was measured.
void read_feeding(const JsonNode& inputs, CaseInputs& in) {
  in.pipeline = inputs.text("pipeline");
  if (inputs.has("cached_share")) in.cached_share = number_of(inputs, "cached_share", 0);
  if (inputs.has("loader_workers")) in.loader_workers = whole_number_of(inputs, "loader_workers", 0, 1e6);
  for (const char* key : {"cached_share", "loader_workers"})
    if (inputs.has(key) && in.pipeline.empty())
      static_cast<void>(inputs.at("pipeline", "the pipeline that it changes"));
  in.steps = number_of(inputs, "steps", 1, 1);
  if (inputs.has("part")) in.part = part_named(inputs);
}

/// What is compared of a recorded job.
std::string figure_of(const JsonNode& inputs) {
  const std::vector<std::string> known{"as_traced", "exchanged",  "rebuilt",     "forecast",
                                       "schedule",  "unevenness", "slow_worker", "slow_stage"};
  const JsonNode node = inputs.at("figure");
  const std::string figure = node.text();
  if (std::ranges::find(known, figure) != known.end()) return figure;
  node.refuse("a figure of a recorded job, such as as_traced or rebuilt", did_you_mean(figure, known));
}
/// A plan in the step of the traces, measured apart from them.
bool is_exchanged(const CaseInputs& in) { return in.figure == "exchanged"; }
bool is_ratio(std::string_view figure) { return figure == "unevenness" || figure.starts_with("slow"); }

CaseInputs inputs_of(const JsonNode& object) {
  object.require_keys(input_keys);
  CaseInputs in;
  read_feeding(object, in);
  in.profile = object.text("profile");
  in.cluster = object.text("cluster");
  in.workers = whole_number_of(object, "workers", 1, 1e9);
  in.model = object.text("model");
  in.device = object.text("device");
  in.global_batch = number_of(object, "global_batch", 0);
  const LayoutPlan plan = layout_plan_at(object, "plan");
  in.plan = plan.gradients;
  if (object.has("plan") && has_layout(object.text("plan"))) in.layout = plan.layout;
  in.over = layout_plan_at(object, "over").gradients;
  in.single_worker = Seconds(number_of(object, "single_worker_s", 0));
  in.traced_step = Seconds(number_of(object, "traced_step_s", 0));
  in.extra_optimizer = Seconds(number_of(object, "extra_optimizer_s", 0));
  in.size = Bytes(number_of(object, "size_bytes", 0));
  if (object.has("operation")) read_operation(object, in);
  in.logs = object.texts("logs", "a list of paths");
  in.traces = object.texts("traces", "a list of paths");
  if (object.has("figure")) static_cast<void>(object.at("traces", "the traces of a job"));
  if (!in.traces.empty()) in.figure = figure_of(object);
  in.memory = object.text("memory");
  if (object.has("memory") && in.memory != "allocated" && in.memory != "used" && in.memory != "exceeded")
    object.at("memory").refuse("'allocated', 'used' or 'exceeded'");
  return in;
}

Subject subject_of(const JsonNode& inputs, const CaseInputs& in) {
  if (inputs.has("operation")) return Subject::operation;
  if (inputs.has("memory")) return Subject::memory;
  if (!in.logs.empty()) return Subject::collective;
  if (is_exchanged(in)) return Subject::step;
  if (!in.traces.empty()) return is_ratio(in.figure) ? Subject::ratio : Subject::replay;
  if (in.over.strategy) return Subject::ratio;
  return in.plan.strategy ? Subject::step : Subject::replay;
}

std::string measured_key(Subject subject) { return "measured_" + std::string(unit_of(subject)); }

void refuse_beside_traces(const JsonNode& inputs) {
  for (const char* key : {"profile", "plan", "cluster", "model"})
    if (inputs.has(key)) inputs.at(key).refuse("the traces of a job alone");
}

void require_inputs(const JsonNode& object, const ValidationCase& c) {
  const JsonNode inputs = object.object("inputs");
  const auto require = [&](const char* key) { static_cast<void>(inputs.at(key)); };
  const bool communication = c.subject == Subject::collective || c.subject == Subject::operation;
  if (c.subject == Subject::operation && (c.inputs.plan.strategy || !c.inputs.logs.empty()))
    throw InputError(inputs.place("operation"), "an operation, a plan, or logs", "more than one of them");
  const bool exchanged = is_exchanged(c.inputs), pipelined = !c.inputs.traces.empty() && !exchanged;
  const bool described = !c.inputs.model.empty() || (c.inputs.layout && c.inputs.profile.empty() && !exchanged);
  if (inputs.has("traced_step_s") && !exchanged)
    inputs.at("traced_step_s").refuse("it beside the figure exchanged, whose traces a profiler slowed down");
  if (exchanged && (c.inputs.part || c.inputs.steps != 1 || inputs.has("profile")))
    throw InputError(inputs.place("figure"), "traces, a cluster and a plan", "more than that");
  if (exchanged) require("plan");
  else if (pipelined) refuse_beside_traces(inputs);
  else if (described)
    for (const char* key : {"model", "device", "global_batch", "workers"}) require(key);
  else require(communication ? "size_bytes" : "profile");
  if ((described || c.inputs.layout) && inputs.has("over"))
    inputs.at("over").refuse("a plan without a layout, of a profile: ratios of layouts are not compared");
  if (c.inputs.layout && !described && !exchanged)
    for (const char* key : {"global_batch", "workers"}) require(key);
  if (c.subject != Subject::replay && !pipelined) require("cluster");
  if (c.subject == Subject::ratio && !pipelined) require("plan");
  if (c.subject == Subject::replay) {
    if (object.has("measured_s"))
      throw InputError(object.place("measured_s"), "a plan to predict, or no measured value", "a measured value alone",
                       "without a plan the case is a replay, which measures its own trace");
    return;
  }
  if (c.subject != Subject::step && (c.inputs.part || c.inputs.steps != 1))
    throw InputError(inputs.place(c.inputs.part ? "part" : "steps"),
                     "a case with one plan, whose step time is measured", "another case");
  if (c.subject == Subject::memory) require("plan");
  if (c.inputs.exceeds_memory()) {
    if (object.has("measured_bytes"))
      object.at("measured_bytes").refuse("a job that ran out of memory without it: the device says how much that is");
    return;
  }
  const std::string measured = measured_key(c.subject);
  const char* key = measured.c_str();
  static_cast<void>(object.at(key, "the measured value"));
  if (c.measured <= 0) object.at(key).refuse("a positive number");
}

ValidationCase case_of(const JsonNode& object) {
  object.require_keys(case_keys);
  ValidationCase c;
  c.id = object.at("id").text();
  c.source = object.at("source").text();
  c.grade = object.at("grade").text();
  c.inputs = inputs_of(object.object("inputs"));
  c.subject = subject_of(object.object("inputs"), c.inputs);
  c.method = object.text("method");
  if (c.method.empty() && c.inputs.plan.strategy) c.method = text_of(c.inputs.plan);
  c.measured = number_of(object, measured_key(c.subject).c_str(), 0);
  c.spread = number_of(object, "spread_s", 0);
  static_cast<void>(object.at("tolerance", "the largest relative error that passes"));
  c.tolerance = number_of(object, "tolerance", 0);
  const std::string split = object.at("split").text();
  if (split != name_of(CaseSplit::calibration) && split != name_of(CaseSplit::held_out))
    object.at("split").refuse("'calibration' or 'held_out'");
  c.split = split == name_of(CaseSplit::calibration) ? CaseSplit::calibration : CaseSplit::held_out;
  if (object.has("recorded_error")) c.recorded_error = object.number("recorded_error");
  c.excluded = object.text("excluded");
  require_inputs(object, c);
  return c;
}

// ---- tables of measured steps ----

std::string case_id(const MeasuredStep& step) {
  std::string id = step.model.substr(std::min(step.model.find(':') + 1, step.model.size()));
  return id + "/" + text_of(step.plan.layout) + "/batch " + std::to_string(std::llround(step.global_batch)) + "/" +
         std::to_string(step.devices) + " devices";
}

/// The rows as text: an array of lines, header first.
std::string rows_at(const JsonNode& table) {
  std::string text;
  for (const std::string& row : table.texts("rows", "CSV lines, header first")) text += row + "\n";
  return text;
}

void read_table(const Json& json, const std::string& where, ValidationSuite& suite) {
  Json shared = json;
  const JsonNode whole(json, where);
  const bool in_file = whole.has("file");
  if (in_file == whole.has("rows")) throw InputError(where, "'rows' or 'file'", in_file ? "both" : "neither");
  shared.erase(in_file ? "file" : "rows");
  shared["id"] = "row";
  shared["measured_s"] = 1;
  // What each row says itself; here only so that the rest is read as strictly as a case.
  const Json placeholders = {{"model", "gpt"}, {"global_batch", 1}, {"workers", 1}};
  for (const auto& [key, value] : placeholders.items()) shared["inputs"][key] = value;
  MeasuredStepTable table{whole.text("file"), case_of(JsonNode(shared, where))};
  if (in_file) suite.tables.push_back(std::move(table));
  else add_rows(suite, table, rows_at(whole), where + "/rows");
}

MeasuredRows rows_of(const JsonNode& node) {
  node.require_object();
  MeasuredRows rows;
  for (const auto& [key, value] : node.members()) {
    if (key == "file") rows.file = value.text();
    else if (value.json().is_string()) rows.where.push_back({key, {value.text()}});
    else rows.where.emplace_back(key, node.texts(key.c_str(), "the values that count"));
  }
  if (rows.file.empty()) node.at("file").refuse("the path of a log or a CSV");
  return rows;
}

void read_forecast(const Json& json, const std::string& where, ValidationSuite& suite) {
  static const std::vector<std::string> own{"kind", "machine", "cluster", "fit", "predict"};
  const JsonNode whole(json, where);
  CollectiveForecast forecast;
  forecast.kind = whole.at("kind").text();
  forecast.machine = whole.at("machine").text();
  forecast.cluster = whole.at("cluster").text();
  for (const JsonNode& rows : whole.at("fit").elements("a list of files with their rows"))
    forecast.fit.push_back(rows_of(rows));
  forecast.sizes_out = !whole.has("predict");
  for (const JsonNode& rows : whole.elements("predict", "a list of files with their rows"))
    forecast.predict.push_back(rows_of(rows));
  Json shared = json;
  for (const std::string& key : own) shared.erase(key);
  // What each case says itself; here only so that the rest is read as strictly as a case.
  shared["id"] = forecast.machine;
  shared["measured_s"] = 1;
  shared["inputs"] = {{"cluster", forecast.cluster}, {"operation", "all_reduce"}, {"size_bytes", 1}};
  forecast.common = case_of(JsonNode(shared, where));
  suite.forecasts.push_back(std::move(forecast));
}

/// What a case does not say comes from the defaults.
Json completed(const Json& defaults, const Json& given) {
  Json all = defaults;
  for (const auto& [key, value] : given.items())
    if (key == "inputs" && all.contains(key) && value.is_object()) all[key].update(value);
    else all[key] = value;
  return all;
}

const EmbeddedFile& shipped_file(std::string_view name) {
  for (const EmbeddedFile& file : shipped_case_texts())
    if (file.name == name) return file;
  const std::vector<std::string> names = shipped_suite_names();
  throw InputError("validate", "a suite: " + listed(names), in_quotes(name), did_you_mean(name, names));
}

// {"counts beyond": {"to 8 KiB": {"median": 0.12, "p90": 0.6}, ...}, ...}
void read_recorded_by_size(const JsonNode& object, ValidationSuite& suite) {
  for (const auto& [kind, bands] : object.members()) {
    bands.require_keys({size_band_names.begin(), size_band_names.end()});
    for (std::size_t b = 0; b < size_band_count; ++b) {
      const std::string name(size_band_names[b]);
      if (!bands.has(name.c_str())) continue;
      const JsonNode band = bands.at(name.c_str());
      band.require_keys({"median", "p90"});
      suite.recorded_by_size[kind][b] = {number_of(band, "median", 0), number_of(band, "p90", 0)};
    }
  }
}

}  // namespace

std::string_view unit_of(Subject subject) {
  return subject == Subject::ratio ? "ratio" : subject == Subject::memory ? "bytes" : "s";
}

std::string_view name_of(CaseSplit split) { return split == CaseSplit::calibration ? "calibration" : "held_out"; }

void add_rows(ValidationSuite& suite, const MeasuredStepTable& table, std::string_view csv, std::string_view source) {
  const StepDefaults defaults{.plan = {table.common.inputs.layout.value_or(Layout{}), table.common.inputs.plan}};
  std::set<std::string> known;
  for (const ValidationCase& c : suite.cases) known.insert(c.id);
  for (const MeasuredStep& step : measured_steps_of_csv(csv, source, defaults)) {
    ValidationCase c = table.common;
    c.id = case_id(step);
    if (!known.insert(c.id).second) continue;
    c.inputs.model = step.model;
    c.inputs.layout = step.plan.layout;
    c.inputs.plan = step.plan.gradients;
    c.inputs.workers = step.devices;
    c.inputs.global_batch = step.global_batch;
    c.method = text_of(step.plan);
    c.measured = step.time.value();
    suite.cases.push_back(std::move(c));
  }
}

ValidationSuite suite_of_json(std::string_view text, std::string_view source) {
  const Json json = parsed_json(text, source);
  const JsonNode document(json, std::string(source) + "#");
  document.require_keys({"schema", "suite", "summary", "defaults", "profiles", "clusters", "devices", "pipelines",
                         "cases", "tables", "forecasts", "published", "recorded_mean_error", "recorded_accepted",
                         "recorded_errors_by_size"});
  if (document.at("schema").text() != schema) document.at("schema").refuse(in_quotes(schema));
  ValidationSuite suite;
  suite.name = document.at("suite").text();
  suite.summary = document.text("summary");
  const auto dumped = [](const JsonNode& node) {
    return node.json().dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  const JsonNode profiles = document.object("profiles"), clusters = document.object("clusters");
  for (const auto& [name, node] : profiles.members())
    suite.profiles[name] = profile_of_json(dumped(node), profiles.place(name.c_str()));
  for (const auto& [name, node] : clusters.members())
    suite.clusters[name] = cluster_of_json(dumped(node), clusters.place(name.c_str()));
  const JsonNode pipelines = document.object("pipelines"), devices = document.object("devices");
  for (const auto& [name, node] : pipelines.members())
    suite.pipelines[name] = input_pipeline_of_json(dumped(node), pipelines.place(name.c_str()));
  for (const auto& [name, node] : devices.members())
    suite.devices[name] = device_of_json(dumped(node), devices.place(name.c_str()));
  const JsonNode published = document.object("published");
  published.require_keys({"mean_absolute_error", "source"});
  suite.published = {number_of(published, "mean_absolute_error", 0), published.text("source")};
  if (document.has("recorded_mean_error")) suite.recorded_mean_error = number_of(document, "recorded_mean_error", 0);
  if (document.has("recorded_accepted"))
    suite.recorded_accepted = whole_number_of(document, "recorded_accepted", 0, 1e9);
  read_recorded_by_size(document.object("recorded_errors_by_size"), suite);
  const JsonNode defaults = document.object("defaults");
  const std::vector<JsonNode> tables = document.elements("tables", "a list of tables");
  const std::vector<JsonNode> cases = document.elements("cases", "a list of cases");
  const std::vector<JsonNode> forecasts = document.elements("forecasts", "a list of forecasts");
  if (cases.empty() && tables.empty() && forecasts.empty())
    document.at("cases", "a list of cases").refuse("at least one case");
  std::set<std::string> ids;
  for (const JsonNode& one : cases) {
    one.require_object();
    const Json whole = completed(defaults.json(), one.json());
    suite.cases.push_back(case_of(JsonNode(whole, one.place())));
    if (!ids.insert(suite.cases.back().id).second)
      throw InputError(one.place("id"), "each id once", in_quotes(suite.cases.back().id) + " twice");
  }
  for (const JsonNode& table : tables) {
    table.require_object();
    read_table(completed(defaults.json(), table.json()), table.place(), suite);
  }
  for (const JsonNode& forecast : forecasts) {
    forecast.require_object();
    read_forecast(completed(defaults.json(), forecast.json()), forecast.place(), suite);
  }
  return suite;
}

std::vector<std::string> shipped_suite_names() {
  std::vector<std::string> names;
  for (const EmbeddedFile& file : shipped_case_texts()) names.emplace_back(file.name);
  return names;
}

ValidationSuite shipped_suite(std::string_view name) {
  const EmbeddedFile& file = shipped_file(name);
  return suite_of_json(file.text, "suite " + std::string(name));
}

}  // namespace stepcast
