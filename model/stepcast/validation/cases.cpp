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
#include <stepcast/calibration/measured_steps.hpp>
#include <stepcast/validation/cases.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <set>

namespace stepcast {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::string_view schema = "stepcast.cases/1";

std::string dumped(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

/// A JSON object with its place in the document.
class Object {
 public:
  Object(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json.is_object()) throw InputError(where_, "an object", dumped(json));
  }
  void require_keys(const std::vector<std::string>& known) const {
    for (const auto& [key, value] : json_.items()) {
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      const std::string near = suggestion_for(key, known);
      throw InputError(where_ + "/" + key, "a known key", "'" + key + "'",
                       near.empty() ? "" : "did you mean '" + near + "'?");
    }
  }
  [[nodiscard]] bool has(const char* key) const { return json_.contains(key); }
  [[nodiscard]] const Json& at(const char* key, const char* expected) const {
    if (!has(key)) throw InputError(where_ + "/" + key, expected, "nothing");
    return json_[key];
  }
  [[nodiscard]] std::string text(const char* key, bool required = false) const {
    if (!required && !has(key)) return {};
    const Json& value = at(key, "a text");
    if (!value.is_string()) refuse(key, "a text", value);
    return value.get<std::string>();
  }
  /// A finite number of at least `low`; `otherwise` when it is absent.
  [[nodiscard]] double number(const char* key, double otherwise, double low = 0) const {
    if (!has(key)) return otherwise;
    const Json& value = json_[key];
    if (!value.is_number() || !std::isfinite(value.get<double>())) refuse(key, "a finite number", value);
    if (value.get<double>() < low) refuse(key, "a number of at least " + dumped(Json(low)), value);
    return value.get<double>();
  }
  [[nodiscard]] Object child(const char* key) const {
    static const Json none = Json::object();
    return {has(key) ? json_[key] : none, where_ + "/" + key};
  }
  [[noreturn]] void refuse(const char* key, std::string expected, const Json& found) const {
    throw InputError(where_ + "/" + key, std::move(expected), dumped(found));
  }
  [[nodiscard]] const Json& json() const { return json_; }
  [[nodiscard]] std::string place(const char* key) const { return where_ + "/" + key; }

 private:
  const Json& json_;
  std::string where_;
};

const std::vector<std::string> input_keys{
    "profile", "traces",    "figure",     "cluster",      "workers",         "plan",
    "over",    "model",     "device",     "global_batch", "single_worker_s", "extra_optimizer_s",
    "logs",    "operation", "size_bytes", "pipeline",     "cached_share",    "loader_workers",
    "steps",   "part"};
const std::vector<std::string> case_keys{"id",        "source",     "grade",          "method",
                                         "inputs",    "measured_s", "measured_ratio", "spread_s",
                                         "tolerance", "split",      "recorded_error", "excluded"};

LayoutPlan layout_plan_at(const Object& inputs, const char* key) {
  if (!inputs.has(key)) return {};
  try {
    return layout_plan_of(inputs.text(key));
  } catch (const InputError& error) {
    throw InputError(inputs.place(key) + " " + error.where, error.expected, error.found, error.hint);
  }
}

/// "all_to_all@bruck", or without an algorithm.
void read_operation(const Object& inputs, CaseInputs& in) {
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
  const std::string near = suggestion_for(text.substr(0, at), known);
  throw InputError(inputs.place("operation"), "an operation, such as all_to_all@bruck", "'" + text + "'",
                   near.empty() ? "" : "did you mean '" + near + "'?");
}

Seconds Breakdown::*part_named(const Object& inputs) {
  constexpr std::pair<std::string_view, Seconds Breakdown::*> parts[] = {
      {"compute", &Breakdown::compute},
      {"exposed_communication", &Breakdown::exposed_communication},
      {"hidden_communication", &Breakdown::hidden_communication},
      {"codec", &Breakdown::codec},
      {"input_stall", &Breakdown::input_stall},
      {"bubble", &Breakdown::bubble},
      {"idle", &Breakdown::idle}};
  const std::string name = inputs.text("part");
  std::vector<std::string> known;
  for (const auto& [known_name, part] : parts) {
    if (known_name == name) return part;
    known.emplace_back(known_name);
  }
  const std::string near = suggestion_for(name, known);
  throw InputError(inputs.place("part"), "a part of the step, such as input_stall", "'" + name + "'",
                   near.empty() ? "" : "did you mean '" + near + "'?");
}

/// What says how the step is fed, and what of it was measured.
void read_feeding(const Object& inputs, CaseInputs& in) {
  in.pipeline = inputs.text("pipeline");
  if (inputs.has("cached_share")) in.cached_share = inputs.number("cached_share", 0);
  if (inputs.has("loader_workers")) {
    const double workers = inputs.number("loader_workers", 0);
    if (workers != std::floor(workers) || workers > 1e6)
      inputs.refuse("loader_workers", "a whole number", inputs.json()["loader_workers"]);
    in.loader_workers = static_cast<std::int64_t>(workers);
  }
  for (const char* key : {"cached_share", "loader_workers"})
    if (inputs.has(key) && in.pipeline.empty())
      static_cast<void>(inputs.at("pipeline", "the pipeline that it changes"));
  in.steps = inputs.number("steps", 1, 1);
  if (inputs.has("part")) in.part = part_named(inputs);
}

std::vector<std::string> paths_at(const Object& object, const char* key) {
  std::vector<std::string> paths;
  if (!object.has(key)) return paths;
  const Json& all = object.at(key, "a list of paths");
  if (!all.is_array()) object.refuse(key, "a list of paths", all);
  for (const Json& path : all) {
    if (!path.is_string()) object.refuse(key, "a list of paths", all);
    paths.push_back(path.get<std::string>());
  }
  return paths;
}

/// What is compared of a pipelined job.
std::string figure_of(const Object& inputs) {
  const std::vector<std::string> known{"rebuilt", "forecast", "schedule", "unevenness", "slow_worker", "slow_stage"};
  const std::string figure = inputs.text("figure", true);
  if (std::ranges::find(known, figure) != known.end()) return figure;
  const std::string near = suggestion_for(figure, known);
  throw InputError(inputs.place("figure"), "a figure of a pipeline's replay, such as rebuilt", "'" + figure + "'",
                   near.empty() ? "" : "did you mean '" + near + "'?");
}
bool is_ratio(std::string_view figure) { return figure == "unevenness" || figure.starts_with("slow"); }

CaseInputs inputs_of(const Object& object) {
  object.require_keys(input_keys);
  CaseInputs in;
  read_feeding(object, in);
  in.profile = object.text("profile");
  in.cluster = object.text("cluster");
  const double workers = object.number("workers", 0, 1);
  if (workers != std::floor(workers) || workers > 1e9)
    object.refuse("workers", "a whole number", object.json()["workers"]);
  in.workers = static_cast<std::int64_t>(workers);
  in.model = object.text("model");
  in.device = object.text("device");
  in.global_batch = object.number("global_batch", 0);
  const LayoutPlan plan = layout_plan_at(object, "plan");
  in.plan = plan.gradients;
  if (object.has("plan") && has_layout(object.text("plan"))) in.layout = plan.layout;
  in.over = layout_plan_at(object, "over").gradients;
  in.single_worker = Seconds(object.number("single_worker_s", 0));
  in.extra_optimizer = Seconds(object.number("extra_optimizer_s", 0));
  in.size = Bytes(object.number("size_bytes", 0));
  if (object.has("operation")) read_operation(object, in);
  in.logs = paths_at(object, "logs");
  in.traces = paths_at(object, "traces");
  if (object.has("figure")) static_cast<void>(object.at("traces", "the traces of a pipelined job"));
  if (!in.traces.empty()) in.figure = figure_of(object);
  return in;
}

Subject subject_of(const Object& inputs, const CaseInputs& in) {
  if (inputs.has("operation")) return Subject::operation;
  if (!in.logs.empty()) return Subject::collective;
  if (!in.traces.empty()) return is_ratio(in.figure) ? Subject::ratio : Subject::replay;
  if (in.over.strategy) return Subject::ratio;
  return in.plan.strategy ? Subject::step : Subject::replay;
}

void refuse_beside_traces(const Object& inputs) {
  for (const char* key : {"profile", "plan", "cluster", "model"})
    if (inputs.has(key)) inputs.refuse(key, "the traces of a pipelined job alone", inputs.json()[key]);
}

void require_inputs(const Object& object, const ValidationCase& c) {
  const Object inputs = object.child("inputs");
  const auto require = [&](const char* key) { static_cast<void>(inputs.at(key, "a value")); };
  const bool communication = c.subject == Subject::collective || c.subject == Subject::operation;
  if (c.subject == Subject::operation && (c.inputs.plan.strategy || !c.inputs.logs.empty()))
    throw InputError(inputs.place("operation"), "an operation, a plan, or logs", "more than one of them");
  const bool described = !c.inputs.model.empty() || c.inputs.layout;
  const bool pipelined = !c.inputs.traces.empty();
  if (pipelined) refuse_beside_traces(inputs);
  else if (described)
    for (const char* key : {"model", "device", "global_batch", "workers"}) require(key);
  else require(communication ? "size_bytes" : "profile");
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
  const char* key = c.subject == Subject::ratio ? "measured_ratio" : "measured_s";
  static_cast<void>(object.at(key, "the measured value"));
  if (c.measured <= 0) object.refuse(key, "a positive number", object.json()[key]);
}

ValidationCase case_of(const Object& object) {
  object.require_keys(case_keys);
  ValidationCase c;
  c.id = object.text("id", true);
  c.source = object.text("source", true);
  c.grade = object.text("grade", true);
  c.inputs = inputs_of(object.child("inputs"));
  c.subject = subject_of(object.child("inputs"), c.inputs);
  c.method = object.text("method");
  if (c.method.empty() && c.inputs.plan.strategy) c.method = text_of(c.inputs.plan);
  c.measured = object.number(c.subject == Subject::ratio ? "measured_ratio" : "measured_s", 0);
  c.spread = object.number("spread_s", 0);
  static_cast<void>(object.at("tolerance", "the largest relative error that passes"));
  c.tolerance = object.number("tolerance", 0);
  const std::string split = object.text("split", true);
  if (split != name_of(CaseSplit::calibration) && split != name_of(CaseSplit::held_out))
    object.refuse("split", "'calibration' or 'held_out'", Json(split));
  c.split = split == name_of(CaseSplit::calibration) ? CaseSplit::calibration : CaseSplit::held_out;
  if (object.has("recorded_error")) c.recorded_error = object.number("recorded_error", 0, -1e300);
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
std::string rows_at(const Object& table) {
  const Json& rows = table.at("rows", "CSV lines, header first");
  if (!rows.is_array()) table.refuse("rows", "CSV lines, header first", rows);
  std::string text;
  for (const Json& row : rows) {
    if (!row.is_string()) table.refuse("rows", "CSV lines, header first", row);
    text += row.get<std::string>() + "\n";
  }
  return text;
}

void read_table(const Json& json, const std::string& where, ValidationSuite& suite) {
  Json shared = json;
  const Object whole(json, where);
  const bool in_file = whole.has("file");
  if (in_file == whole.has("rows")) throw InputError(where, "'rows' or 'file'", in_file ? "both" : "neither");
  shared.erase(in_file ? "file" : "rows");
  shared["id"] = "row";
  shared["measured_s"] = 1;
  // What each row says itself; here only so that the rest is read as strictly as a case.
  const Json placeholders = {{"model", "gpt"}, {"global_batch", 1}, {"workers", 1}};
  for (const auto& [key, value] : placeholders.items()) shared["inputs"][key] = value;
  MeasuredStepTable table{whole.text("file"), case_of(Object(shared, where))};
  if (in_file) suite.tables.push_back(std::move(table));
  else add_rows(suite, table, rows_at(whole), where + "/rows");
}

/// What a case does not say comes from the defaults.
Json completed(const Json& defaults, const Json& given) {
  Json all = defaults;
  for (const auto& [key, value] : given.items())
    if (key == "inputs" && all.contains(key) && value.is_object()) all[key].update(value);
    else all[key] = value;
  return all;
}

Json parsed(std::string_view text, std::string_view source) {
  // Deeper than any suite; values are walked recursively later.
  const auto shallow = [&](int depth, Json::parse_event_t, Json&) {
    if (depth > 32) throw InputError(std::string(source), "a document of at most 32 levels", "a deeper one");
    return true;
  };
  try {
    return Json::parse(text, shallow);
  } catch (const Json::parse_error& error) {
    throw InputError(std::string(source) + "@" + std::to_string(error.byte), "a JSON document", error.what());
  } catch (const Json::exception& error) { throw InputError(std::string(source), "a JSON document", error.what()); }
}

const EmbeddedFile& shipped_file(std::string_view name) {
  for (const EmbeddedFile& file : shipped_case_texts())
    if (file.name == name) return file;
  const std::vector<std::string> names = shipped_suite_names();
  const std::string near = suggestion_for(name, names);
  std::string listed;
  for (const std::string& n : names) listed += (listed.empty() ? "" : ", ") + n;
  throw InputError("validate", "a suite: " + listed, "'" + std::string(name) + "'",
                   near.empty() ? "" : "did you mean '" + near + "'?");
}

}  // namespace

std::string_view name_of(CaseSplit split) { return split == CaseSplit::calibration ? "calibration" : "held_out"; }

void add_rows(ValidationSuite& suite, const MeasuredStepTable& table, std::string_view csv, std::string_view source) {
  const LayoutPlan defaults{table.common.inputs.layout.value_or(Layout{}), table.common.inputs.plan};
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
  const Json json = parsed(text, source);
  const Object document(json, std::string(source) + "#");
  document.require_keys({"schema", "suite", "summary", "defaults", "profiles", "clusters", "devices", "pipelines",
                         "cases", "tables", "published", "recorded_mean_error"});
  if (document.text("schema", true) != schema)
    document.refuse("schema", "'" + std::string(schema) + "'", json["schema"]);
  ValidationSuite suite;
  suite.name = document.text("suite", true);
  suite.summary = document.text("summary");
  const Object profiles = document.child("profiles"), clusters = document.child("clusters");
  for (const auto& [name, value] : profiles.json().items())
    suite.profiles[name] = profile_of_json(dumped(value), profiles.place(name.c_str()));
  for (const auto& [name, value] : clusters.json().items())
    suite.clusters[name] = cluster_of_json(dumped(value), clusters.place(name.c_str()));
  const Object pipelines = document.child("pipelines");
  for (const auto& [name, value] : pipelines.json().items())
    suite.pipelines[name] = input_pipeline_of_json(dumped(value), pipelines.place(name.c_str()));
  const Object devices = document.child("devices");
  for (const auto& [name, value] : devices.json().items())
    suite.devices[name] = device_of_json(dumped(value), devices.place(name.c_str()));
  const Object published = document.child("published");
  published.require_keys({"mean_absolute_error", "source"});
  suite.published = {published.number("mean_absolute_error", 0), published.text("source")};
  if (document.has("recorded_mean_error")) suite.recorded_mean_error = document.number("recorded_mean_error", 0);
  const Object defaults = document.child("defaults");
  static const Json none = Json::array();
  const Json& tables = document.has("tables") ? json["tables"] : none;
  if (!tables.is_array()) document.refuse("tables", "a list of tables", tables);
  const Json& cases = document.has("cases") || tables.empty() ? document.at("cases", "a list of cases") : none;
  if (!cases.is_array() || (cases.empty() && tables.empty())) document.refuse("cases", "a list of cases", cases);
  std::set<std::string> ids;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const std::string where = document.place("cases") + "/" + std::to_string(i);
    if (!cases[i].is_object()) throw InputError(where, "an object", dumped(cases[i]));
    const Json whole = completed(defaults.json(), cases[i]);
    suite.cases.push_back(case_of(Object(whole, where)));
    if (!ids.insert(suite.cases.back().id).second)
      throw InputError(where + "/id", "each id once", "'" + suite.cases.back().id + "' twice");
  }
  for (std::size_t i = 0; i < tables.size(); ++i) {
    const std::string where = document.place("tables") + "/" + std::to_string(i);
    if (!tables[i].is_object()) throw InputError(where, "an object", dumped(tables[i]));
    read_table(completed(defaults.json(), tables[i]), where, suite);
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
