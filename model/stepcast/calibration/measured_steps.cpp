// Tables of measured training steps: a CSV with one row a step, as papers and benchmarks publish them.
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/calibration/device_fit.hpp>
#include <stepcast/calibration/measured_steps.hpp>
#include <stepcast/encodings/csv.hpp>
#include <stepcast/roofline/model_shape.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

namespace stepcast {
namespace {

/// What a column says.
enum class Meaning : std::uint8_t {
  model,
  hidden,
  heads,
  layers,
  sequence,
  vocabulary,
  plan,
  tensor,
  data,
  pipeline,
  micro_batch,
  global_batch,
  devices,
  time,
};
constexpr std::size_t meaning_count = 14;

std::optional<Meaning> meaning_of(const std::vector<std::string>& words) {
  // The first word that decides; the more particular names come first ("micro batch" before "batch").
  static constexpr std::pair<std::string_view, Meaning> names[] = {
      {"plan", Meaning::plan},          {"layout", Meaning::plan},       {"model", Meaning::model},
      {"hidden", Meaning::hidden},      {"heads", Meaning::heads},       {"layers", Meaning::layers},
      {"seq", Meaning::sequence},       {"sequence", Meaning::sequence}, {"vocab", Meaning::vocabulary},
      {"tp", Meaning::tensor},          {"tensor", Meaning::tensor},     {"dp", Meaning::data},
      {"data", Meaning::data},          {"pp", Meaning::pipeline},       {"pipeline", Meaning::pipeline},
      {"micro", Meaning::micro_batch},  {"mb", Meaning::micro_batch},    {"global", Meaning::global_batch},
      {"batch", Meaning::global_batch}, {"devices", Meaning::devices},   {"gpus", Meaning::devices},
      {"workers", Meaning::devices}};
  for (const auto& [name, meaning] : names)
    if (std::find(words.begin(), words.end(), name) != words.end()) return meaning;
  return {};
}

/// Throws the refusal of a description with where it stands.
void check_model_at(const std::string& model, const std::string& where) {
  try {
    (void)model_shape_of(model);
  } catch (const InputError& error) {
    throw InputError(where + (error.where.empty() ? "" : ": " + error.where), error.expected, error.found, error.hint);
  }
}

/// Of a plan, or the same refusal with where it stands.
LayoutPlan plan_at(std::string_view text, const std::string& where) {
  try {
    return layout_plan_of(text);
  } catch (const InputError& error) {
    throw InputError(where + (error.where.empty() ? "" : ": " + error.where), error.expected, error.found, error.hint);
  }
}

/// The devices of a layout that says all its degrees; 0: it leaves some to be filled in.
std::int64_t devices_said_by(const Layout& l) { return l.unit_choices.empty() ? l.devices() : 0; }

/// Devices and batch of a step whose plan is known, where they are not said.
void fill_from(const StepDefaults& defaults, MeasuredStep& step, bool devices_said, bool batch_said) {
  if (!devices_said) {
    const std::int64_t own = devices_said_by(step.plan.layout);
    step.devices = own > 0 ? own : defaults.devices;
  }
  if (batch_said) return;
  step.global_batch =
      defaults.global_batch > 0 ? defaults.global_batch : defaults.batch_of_device * static_cast<double>(step.devices);
}

class Table {
 public:
  Table(std::string_view header, std::string_view source, const StepDefaults& defaults)
      : source_(source), defaults_(defaults) {
    separator_ = separator_of(header);
    names_ = cells_of(header, separator_);
    for (std::size_t i = 0; i < names_.size(); ++i) {
      const std::vector<std::string> words = title_words(names_[i]);
      const std::optional<double> unit = step_time_unit(words);
      // Without a unit in the title the cells have theirs.
      const bool time = unit || (words.size() == 1 && (words[0] == "step" || words[0] == "measured"));
      const std::optional<Meaning> meaning = time ? Meaning::time : meaning_of(words);
      if (!meaning) continue;
      if (column(*meaning))
        throw InputError(place(1), "one column of each meaning",
                         in_quotes(names_[*column(*meaning)]) + " and " + in_quotes(names_[i]));
      columns_[static_cast<std::size_t>(*meaning)] = i;
      if (time) time_unit_ = unit;
    }
    const auto require = [&](bool there, const char* what) {
      if (!there) throw InputError(place(1), what, "the columns '" + std::string(header) + "'");
    };
    require(column(Meaning::time).has_value(), "a column of step times with its unit, such as 'iteration time (ms)'");
    require(column(Meaning::global_batch) || defaults.global_batch > 0 || defaults.batch_of_device > 0,
            "a column 'global batch'");
    require(column(Meaning::devices) || defaults.devices > 0, "a column 'devices'");
    const bool shape =
        column(Meaning::hidden) && column(Meaning::heads) && column(Meaning::layers) && column(Meaning::sequence);
    require(column(Meaning::model) || shape || !defaults.model.empty(),
            "a column 'model', or 'hidden', 'heads', 'layers' and 'seq'");
  }

  [[nodiscard]] MeasuredStep row(std::string_view line, std::size_t number) {
    const std::vector<std::string> fields = cells_of(line, separator_);
    if (fields.size() != names_.size())
      throw InputError(place(number), std::to_string(names_.size()) + " fields", std::to_string(fields.size()),
                       "the file may be cut off");
    const Row row{*this, fields, number};
    MeasuredStep step;
    step.model = model_of(row);
    check_model_at(step.model, row.has(Meaning::model) ? row.where(Meaning::model) : place(number));
    step.plan = plan_of(row);
    if (row.has(Meaning::devices)) step.devices = row.integer(Meaning::devices);
    if (row.has(Meaning::global_batch)) step.global_batch = static_cast<double>(row.integer(Meaning::global_batch));
    fill_from(defaults_, step, row.has(Meaning::devices), row.has(Meaning::global_batch));
    step.source = place(number);
    const std::string_view text = row.text(Meaning::time);
    step.time = time_unit_ ? Seconds(number_of(text, row.where(Meaning::time)) * *time_unit_)
                           : seconds_of(text, row.where(Meaning::time));
    if (!(step.time > Seconds(0))) throw InputError(row.where(Meaning::time), "a time above zero", std::string(text));
    return step;
  }

 private:
  struct Row {
    const Table& table;
    const std::vector<std::string>& fields;
    std::size_t number;

    [[nodiscard]] bool has(Meaning m) const { return table.column(m).has_value(); }
    [[nodiscard]] std::string_view text(Meaning m) const { return fields[*table.column(m)]; }
    [[nodiscard]] std::string where(Meaning m) const {
      return table.place(number) + " column " + table.names_[*table.column(m)];
    }
    [[nodiscard]] std::int64_t integer(Meaning m) const { return integer_of(text(m), where(m), 1, 1'000'000'000); }
  };

  [[nodiscard]] std::optional<std::size_t> column(Meaning m) const { return columns_[static_cast<std::size_t>(m)]; }
  [[nodiscard]] std::string place(std::size_t line) const { return source_ + ":" + std::to_string(line); }

  [[nodiscard]] std::string model_of(const Row& row) const {
    if (row.has(Meaning::model)) return std::string(row.text(Meaning::model));
    if (!row.has(Meaning::hidden)) return defaults_.model;
    const auto part = [&](const char* key, Meaning m) { return key + std::to_string(row.integer(m)); };
    std::string model = part("gpt:hidden=", Meaning::hidden) + part(",layers=", Meaning::layers) +
                        part(",heads=", Meaning::heads) + part(",seq=", Meaning::sequence);
    if (row.has(Meaning::vocabulary)) model += part(",vocab=", Meaning::vocabulary);
    return model;
  }
  [[nodiscard]] LayoutPlan plan_of(const Row& row) const {
    LayoutPlan plan =
        row.has(Meaning::plan) ? plan_at(row.text(Meaning::plan), row.where(Meaning::plan)) : defaults_.plan;
    const auto set = [&](Meaning m, std::int64_t& number) {
      if (row.has(m)) number = row.integer(m);
    };
    set(Meaning::tensor, plan.layout.tensor);
    set(Meaning::data, plan.layout.data);
    set(Meaning::pipeline, plan.layout.pipeline);
    set(Meaning::micro_batch, plan.layout.micro_batch);
    return plan;
  }

  std::string source_;
  const StepDefaults& defaults_;
  char separator_ = ',';
  std::vector<std::string> names_;
  std::array<std::optional<std::size_t>, meaning_count> columns_;
  std::optional<double> time_unit_;
};

// ---- rows that fill the space ----

constexpr std::size_t extent_count = 8;
using Extents = std::array<double, extent_count>;

Extents extents_of(const MeasuredStep& step) {
  const Layout& l = step.plan.layout;
  const ModelShape shape = model_shape_of(step.model);
  const double replica = double(l.tensor * l.context * l.pipeline);
  const double data = l.data > 0 ? double(l.data) : std::max(1.0, double(step.devices) / replica);
  const double micro_batch = double(std::max<std::int64_t>(1, l.micro_batch));
  const double micro_batches = std::max(1.0, step.global_batch / (data * micro_batch));
  const auto at_least_one = [](std::int64_t n) { return double(std::max<std::int64_t>(1, n)); };
  Extents x{at_least_one(shape.layers),
            at_least_one(shape.hidden),
            at_least_one(shape.sequence),
            double(l.tensor),
            double(l.pipeline),
            data,
            micro_batch,
            micro_batches};
  for (double& extent : x) extent = std::log2(extent);
  return x;
}

/// Each extent from 0 to 1.
std::vector<Extents> scaled_extents(std::span<const MeasuredStep> steps) {
  std::vector<Extents> all;
  for (const MeasuredStep& step : steps) all.push_back(extents_of(step));
  for (std::size_t k = 0; k < extent_count; ++k) {
    double low = INFINITY, high = -INFINITY;
    for (const Extents& x : all) low = std::min(low, x[k]), high = std::max(high, x[k]);
    for (Extents& x : all) x[k] = high > low ? (x[k] - low) / (high - low) : 0;
  }
  return all;
}

double squared_distance(const Extents& a, const Extents& b) {
  double sum = 0;
  for (std::size_t k = 0; k < extent_count; ++k) sum += (a[k] - b[k]) * (a[k] - b[k]);
  return sum;
}

}  // namespace

std::vector<std::size_t> spread_rows(std::span<const MeasuredStep> steps, std::size_t count) {
  const std::vector<Extents> all = scaled_extents(steps);
  Extents middle{};
  for (const Extents& x : all)
    for (std::size_t k = 0; k < extent_count; ++k) middle[k] += x[k] / double(all.size());
  std::vector<double> distance;
  for (const Extents& x : all) distance.push_back(-squared_distance(x, middle));
  std::vector<std::size_t> taken;
  while (taken.size() < std::min(count, all.size())) {
    const auto next = std::size_t(std::max_element(distance.begin(), distance.end()) - distance.begin());
    for (std::size_t i = 0; i < all.size(); ++i) {
      const double here = squared_distance(all[i], all[next]);
      distance[i] = taken.empty() ? here : std::min(distance[i], here);
    }
    // A taken row is never the farthest again, not even among rows of the same extents.
    taken.push_back(next);
    for (const std::size_t i : taken) distance[i] = -1;
  }
  std::sort(taken.begin(), taken.end());
  return taken;
}

bool is_measured_step(std::string_view text) {
  int open = 0;
  std::size_t equals = std::string_view::npos;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '(') ++open;
    if (text[i] == ')') --open;
    if (text[i] == '=' && open <= 0) equals = i;
  }
  return equals != std::string_view::npos || has_layout(text);
}

MeasuredStep measured_step_of(std::string_view text, std::string_view source, const StepDefaults& defaults) {
  const std::string where(source);
  const std::size_t equals = text.rfind('='), closing = text.rfind(')');
  if (equals == std::string_view::npos || (closing != std::string_view::npos && closing > equals))
    throw InputError(where, "a plan and its measured step, such as 'layout(tp=8)/ddp=12.3 s'", in_quotes(text));
  MeasuredStep step;
  step.model = defaults.model;
  step.plan = plan_at(trimmed(text.substr(0, equals)), where);
  step.time = seconds_of(trimmed(text.substr(equals + 1)), where);
  step.source = where + " " + in_quotes(text);
  if (!(step.time > Seconds(0))) throw InputError(where, "a step above zero", in_quotes(text));
  fill_from(defaults, step, false, false);
  if (!(step.global_batch > 0))
    throw InputError(where, "the samples of the measured step: --global-batch, --batch or a table with 'global batch'",
                     "nothing");
  return step;
}

std::vector<MeasuredStep> measured_steps_of_csv(std::string_view text, std::string_view source,
                                                const StepDefaults& defaults) {
  std::optional<Table> table;
  std::vector<MeasuredStep> steps;
  for (const CsvLine& line : lines_of_csv(text))
    if (table) steps.push_back(table->row(line.text, line.number));
    else table.emplace(line.text, source, defaults);
  if (steps.empty())
    throw InputError(std::string(source), "a CSV table with a header and at least one measured step",
                     table ? "a header only" : "no table");
  return steps;
}

}  // namespace stepcast
