// The text form of an axis:
//
//   axis   = name "=" values { "," values }
//   values = value | value ".." value [ ":" points ]
#include <stepcast/base/spec_reader.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/cluster/transport.hpp>
#include <stepcast/prediction/recommend.hpp>
#include <stepcast/sweep/axis_rules.hpp>
#include <stepcast/whatif/whatif.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

namespace stepcast {
namespace {

constexpr double most_workers = 1e8, most_factor = 1e6;

constexpr std::array rules{
    SweepQuantityRule{SweepQuantity::bandwidth, "bandwidth", "bandwidth_bytes_per_s", "bandwidth (goodput)",
                      "a bandwidth with its unit, such as '25 Gb/s'"},
    SweepQuantityRule{SweepQuantity::latency, "latency", "latency_s", "latency of a step",
                      "a time with its unit, such as '5 us'"},
    SweepQuantityRule{SweepQuantity::workers, "workers", "workers", "workers", "a whole number of workers"},
    SweepQuantityRule{SweepQuantity::batch, "batch", "batch_samples", "samples per worker and step",
                      "a positive number of samples"},
    SweepQuantityRule{SweepQuantity::compute, "compute", "compute_factor", "compute, times as fast",
                      "a positive factor"},
    SweepQuantityRule{SweepQuantity::loss, "loss", "loss", "packets lost", "a share of the packets, 0 to 0.9"},
    SweepQuantityRule{SweepQuantity::stalls, "stalls", "stalls", "time-outs per packet",
                      "a share of the packets, 0 to 0.9"},
    SweepQuantityRule{SweepQuantity::jitter, "jitter", "jitter", "jitter, relative to compute",
                      "a spread relative to compute, 0 to 0.5"},
    SweepQuantityRule{SweepQuantity::background, "background", "background", "taken by other jobs",
                      "a share of the network, 0 to 0.99"}};

std::string where_of(std::string_view name) { return "axis '" + std::string(name) + "'"; }

std::string quoted(std::string_view text) { return text.empty() ? "nothing" : "'" + std::string(text) + "'"; }

[[noreturn]] void refuse(std::string_view name, std::string expected, std::string found, std::string hint = {}) {
  throw InputError(where_of(name), std::move(expected), std::move(found), std::move(hint));
}

std::vector<PlanSpec> plans_or_presets(std::span<const Plan> plans) {
  if (plans.empty()) return preset_plans();
  std::vector<PlanSpec> strategies;
  for (const Plan& plan : plans) strategies.push_back(plan.strategy);
  return strategies;
}

/// Numbers of a layout that an axis can take: "tp", "pp", "mb", "zero", ...
std::vector<std::string> layout_numbers() {
  std::vector<std::string> names;
  for (const LayoutField& field : layout_fields())
    if (field.is_number) names.emplace_back(field.name);
  return names;
}

/// Every option that an axis could name, with and without its owner.
std::vector<std::string> option_names(const std::vector<PlanSpec>& plans) {
  std::vector<std::string> names;
  const auto add = [&](std::string_view owner, std::span<const OptionSpec> options) {
    for (const OptionSpec& o : options) {
      names.emplace_back(o.name);
      names.push_back(std::string(owner) + "." + std::string(o.name));
    }
  };
  for (const PlanSpec& plan : plans) {
    add(plan.strategy->name, plan.strategy->options);
    for (const ModifierSpec& m : plan.modifiers) add(m.modifier->name, m.modifier->options);
  }
  return names;
}

[[noreturn]] void refuse_name(std::string_view name, const std::vector<PlanSpec>& plans) {
  std::vector<std::string> known;
  for (const SweepQuantityRule& rule : rules) known.emplace_back(rule.name);
  std::vector<std::string> options = option_names(plans);
  known.insert(known.end(), options.begin(), options.end());
  for (const std::string& number : layout_numbers()) known.push_back(number);
  const std::string near = suggestion_for(name, known);
  throw InputError("axis",
                   "bandwidth, latency, workers, batch, compute, loss, stalls, jitter, background, a number of the "
                   "layout (tp, pp, ...), an option of a plan, or one of a what-if ('input.cache')",
                   quoted(name),
                   near.empty() ? "no plan of the sweep has an option of that name" : "did you mean '" + near + "'?");
}

/// What the option is, the same of all plans that have it. Throws InputError.
const OptionSpec* option_named(std::string_view name, std::vector<PlanSpec> plans) {
  const OptionSpec* first = nullptr;
  for (PlanSpec& plan : plans) {
    const OptionSpec* spec = nullptr;
    if (!option_of(plan, name, &spec)) continue;
    if (first && first->kind != spec->kind)
      refuse(name, "an option that means the same in all plans", "one that does not",
             "name its owner: '" + std::string(plan.strategy->name) + "." + std::string(name) + "'");
    if (!first) first = spec;
  }
  if (!first) refuse_name(name, plans);
  return first;
}

/// "input.cache": the option of a what-if that has numbers as values; null for all else. Throws InputError for a
/// what-if without such an option.
const OptionSpec* change_named(std::string_view name) {
  const std::size_t dot = name.find('.');
  const WhatIf* what = dot == std::string_view::npos ? nullptr : whatif_named(name.substr(0, dot));
  if (!what) return nullptr;
  std::vector<std::string> known;
  for (const OptionSpec& option : what->options) {
    if (option.kind == OptionKind::layers) continue;
    if (option.name == name.substr(dot + 1)) return &option;
    known.push_back(std::string(what->name) + "." + std::string(option.name));
  }
  const std::string near = suggestion_for(name, known);
  refuse(name,
         known.empty() ? "an axis: this what-if has no numbers to vary" : "an option of the what-if: " + listed(known),
         quoted(name), near.empty() ? std::string() : "did you mean '" + near + "'?");
}

/// The axis without values.
SweepAxis axis_named(std::string_view name, std::span<const Plan> plans) {
  SweepAxis axis;
  axis.name = name;
  for (const SweepQuantityRule& rule : rules)
    if (rule.name == name) {
      axis.quantity = rule.quantity;
      return axis;
    }
  if (const std::vector<std::string> numbers = layout_numbers(); std::ranges::find(numbers, name) != numbers.end()) {
    axis.quantity = SweepQuantity::layout;
    return axis;
  }
  if (const OptionSpec* change = change_named(name)) {
    axis.quantity = SweepQuantity::change;
    axis.option = change;
    return axis;
  }
  axis.quantity = SweepQuantity::option;
  axis.option = option_named(name, plans_or_presets(plans));
  return axis;
}

bool is_whole(const SweepAxis& axis) {
  if (axis.quantity == SweepQuantity::workers || axis.quantity == SweepQuantity::layout) return true;
  return axis.option && (axis.option->kind == OptionKind::size || axis.option->kind == OptionKind::count);
}

bool is_choice(const SweepAxis& axis) { return axis.option && axis.option->kind == OptionKind::choice; }

/// What at least one plan takes; the others say at each point why they cannot.
struct Bounds {
  double low = HUGE_VAL, high = -HUGE_VAL;
};
Bounds bounds_of(const SweepAxis& axis, std::span<const Plan> plans) {
  Bounds bounds;
  if (!axis.option) return bounds;
  if (axis.quantity == SweepQuantity::change) return {axis.option->low, axis.option->high};
  for (PlanSpec& plan : plans_or_presets(plans))
    if (const OptionSpec* spec = nullptr; option_of(plan, axis.name, &spec))
      bounds = {std::min(bounds.low, spec->low), std::max(bounds.high, spec->high)};
  return bounds;
}

std::string short_number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, value >= 1e4 && value < 1e15 && value == std::floor(value) ? "%.0f" : "%.4g", value);
  return text;
}

/// `text`: of the value as it was written; empty: as a number.
void check_value(const SweepAxis& axis, double value, std::string_view text, const Bounds& bounds) {
  const auto demand = [&](bool good, std::string_view expected) {
    if (!good) refuse(axis.name, std::string(expected), quoted(text.empty() ? short_number(value) : text));
  };
  const bool finite = std::isfinite(value);
  switch (axis.quantity) {
    case SweepQuantity::bandwidth:
      return demand(finite && value > 0, "a bandwidth above zero");
    case SweepQuantity::latency:
      return demand(finite && value >= 0, "a latency of at least zero");
    case SweepQuantity::workers:
      return demand(value >= 1 && value <= most_workers && value == std::floor(value),
                    "a whole number of workers from 1 to 100000000");
    case SweepQuantity::batch:
      return demand(value > 0 && value <= 1e9, "a number of samples above 0, at most 1e9");
    case SweepQuantity::compute:
      return demand(value > 0 && value <= most_factor, "a factor above 0, at most 1e6");
    case SweepQuantity::loss:
    case SweepQuantity::stalls:
      return demand(value >= 0 && value <= 0.9, "a share of the packets, 0 to 0.9");
    case SweepQuantity::background:
      return demand(value >= 0 && value <= 0.99, "a share of the network, 0 to 0.99");
    case SweepQuantity::jitter:
      return demand(value >= 0 && value <= 0.5, "a spread relative to compute, 0 to 0.5");
    case SweepQuantity::layout:
      demand(value == std::floor(value) && std::abs(value) <= most_workers, "a whole number");
      (void)with_field({}, axis.name, short_number(value));
      return;
    case SweepQuantity::change:
    case SweepQuantity::option: {
      const OptionSpec& o = *axis.option;
      demand(finite && (!(is_whole(axis) || is_choice(axis)) || value == std::floor(value)), "a whole number");
      if (!(value >= bounds.low && value <= bounds.high))
        refuse(axis.name, option_value_text(o, bounds.low) + " to " + option_value_text(o, bounds.high),
               quoted(text.empty() ? short_number(value) : text));
    }
  }
}

double choice_of(const SweepAxis& axis, std::string_view text) {
  std::string names;
  for (std::size_t i = 0; i < axis.option->choices.size() && !axis.option->choices[i].empty(); ++i) {
    if (axis.option->choices[i] == text) return static_cast<double>(i);
    names += (names.empty() ? "" : ", ") + std::string(axis.option->choices[i]);
  }
  refuse(axis.name, "one of " + names, quoted(text));
}

double value_of(const SweepAxis& axis, std::string_view text) {
  const std::string where = where_of(axis.name);
  switch (axis.quantity) {
    case SweepQuantity::bandwidth:
      return bandwidth_of(text, where).value() * (text.ends_with("GbE") ? goodput_of_tcp : 1);
    case SweepQuantity::latency:
      return seconds_of(text, where).value();
    case SweepQuantity::change:
    case SweepQuantity::option:
      switch (axis.option->kind) {
        case OptionKind::rate:
          return bandwidth_of(text, where).value();
        case OptionKind::size:
          return std::round(bytes_of(text, where).value());
        case OptionKind::duration:
          return seconds_of(text, where).value();
        case OptionKind::choice:
          return choice_of(axis, text);
        default:
          return number_of(text, where);
      }
    default:
      return number_of(text, where);
  }
}

/// From `low` to `high` in factors of two, or in `points` equal ratios; both ends are exact.
std::vector<double> spaced(double low, double high, std::size_t points) {
  std::vector<double> values;
  if (points == 0) {
    for (double v = low; v < high; v *= 2) values.push_back(v);
  } else {
    for (std::size_t i = 0; i + 1 < points; ++i)
      values.push_back(low * std::pow(high / low, static_cast<double>(i) / static_cast<double>(points - 1)));
  }
  values.push_back(high);
  return values;
}

std::vector<double> range_of(const SweepAxis& axis, std::string_view text, std::size_t dots) {
  if (is_choice(axis)) refuse(axis.name, "names, such as 'a,b'", quoted(text));
  const std::string_view from = trimmed(text.substr(0, dots));
  std::string_view to = trimmed(text.substr(dots + 2));
  std::size_t points = 0;
  if (const std::size_t colon = to.find(':'); colon != std::string_view::npos) {
    points = static_cast<std::size_t>(
        integer_of(trimmed(to.substr(colon + 1)), where_of(axis.name) + ", points of the range", 2, most_sweep_rows));
    to = trimmed(to.substr(0, colon));
  }
  if (from.empty() || to.empty())
    refuse(axis.name, "a range with two ends, such as '1Gb/s..400Gb/s' or '2..64'", quoted(text));
  const double low = value_of(axis, from), high = value_of(axis, to);
  if (low > high)
    refuse(axis.name, "a range that ascends", quoted(text), "write " + std::string(to) + ".." + std::string(from));
  if (low == high) return {low};
  if (!(low > 0))
    refuse(axis.name, "a range that starts above zero, since it is spaced by factors", quoted(text),
           "name the values, separated by commas");
  std::vector<double> values = spaced(low, high, points);
  if (!is_whole(axis)) return values;
  for (double& v : values) v = std::round(v);
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

}  // namespace

const SweepQuantityRule* rule_of(SweepQuantity quantity) {
  const auto found =
      std::find_if(rules.begin(), rules.end(), [&](const SweepQuantityRule& r) { return r.quantity == quantity; });
  return found == rules.end() ? nullptr : &*found;
}

double* option_of(PlanSpec& plan, std::string_view name, const OptionSpec** spec) {
  const std::size_t dot = name.find('.');
  const std::string_view owner = dot == std::string_view::npos ? std::string_view() : name.substr(0, dot);
  const std::string_view option = dot == std::string_view::npos ? name : name.substr(dot + 1);
  const auto among = [&](std::string_view of, std::span<const OptionSpec> options, OptionValues& values) -> double* {
    if (dot != std::string_view::npos && owner != of) return nullptr;
    const std::size_t i = position_of(option, options);
    if (i == options.size()) return nullptr;
    if (spec) *spec = &options[i];
    return &values[i];
  };
  if (double* at = among(plan.strategy->name, plan.strategy->options, plan.options)) return at;
  for (ModifierSpec& m : plan.modifiers)
    if (double* at = among(m.modifier->name, m.modifier->options, m.options)) return at;
  return nullptr;
}

void set_change(Scenario& scenario, const SweepAxis& axis, double value) {
  const std::string_view owner = std::string_view(axis.name).substr(0, axis.name.find('.'));
  const auto same = [&](const WhatIfSpec& spec) { return spec.what->name == owner; };
  auto last = std::find_if(scenario.rbegin(), scenario.rend(), same);
  if (last == scenario.rend()) {
    for (const OptionSpec& option : whatif_named(owner)->options)
      if (option.required && &option != axis.option)
        refuse(axis.name, "the what-if with its option '" + std::string(option.name) + "'", "nothing",
               "name it, such as --what '" + std::string(owner) + "(" + std::string(option.name) + "=...)'");
    scenario.push_back(whatif_with(owner, axis.option->name, value));
    return;
  }
  last->options[position_of(axis.option->name, last->what->options)] = value;
}

SweepAxis sweep_axis_of(std::string_view text, std::span<const Plan> plans) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos)
    throw InputError("axis", "a quantity and its values, such as 'bandwidth=1Gb/s..400Gb/s' or 'workers=2,4,8'",
                     quoted(text));
  SweepAxis axis = axis_named(trimmed(text.substr(0, equals)), plans);
  const Bounds bounds = bounds_of(axis, plans);
  std::string_view rest = text.substr(equals + 1);
  while (true) {
    const std::size_t comma = rest.find(',');
    const std::string_view part = trimmed(rest.substr(0, comma));
    if (part.empty()) refuse(axis.name, "a value or a range, such as '1..8'", "nothing");
    const std::size_t dots = part.find("..");
    const std::vector<double> values =
        dots == std::string_view::npos ? std::vector{value_of(axis, part)} : range_of(axis, part, dots);
    for (const double v : values) check_value(axis, v, part, bounds);
    axis.values.insert(axis.values.end(), values.begin(), values.end());
    if (comma == std::string_view::npos) return axis;
    rest.remove_prefix(comma + 1);
  }
}

SweepAxis sweep_axis_of(std::string_view name, std::span<const double> values, std::span<const Plan> plans) {
  SweepAxis axis = axis_named(name, plans);
  axis.values.assign(values.begin(), values.end());
  check_axis(axis, plans);
  return axis;
}

void check_axis(const SweepAxis& axis, std::span<const Plan> plans) {
  const SweepAxis named = axis_named(axis.name, plans);
  if (named.quantity != axis.quantity || !named.option != !axis.option)
    refuse(axis.name, "an axis as sweep_axis_of makes it", "another quantity");
  if (axis.values.empty()) refuse(axis.name, "at least one value", "none");
  const Bounds bounds = bounds_of(axis, plans);
  for (const double v : axis.values) check_value(axis, v, {}, bounds);
}

std::string trimmed_text_of(Seconds time) {
  std::string text = text_of(time);
  const std::size_t point = text.find('.'), end = text.find(' ');
  if (point == std::string::npos) return text;
  std::size_t keep = end;
  while (text[keep - 1] == '0') --keep;
  if (keep == point + 1) --keep;
  return text.erase(keep, end - keep);
}

std::string value_text(const SweepAxis& axis, double value) {
  switch (axis.quantity) {
    case SweepQuantity::bandwidth:
      return text_of(BytesPerSecond(value));
    case SweepQuantity::latency:
      return trimmed_text_of(Seconds(value));
    case SweepQuantity::compute:
      return short_number(value) + "x";
    case SweepQuantity::change:
    case SweepQuantity::option:
      return option_value_text(*axis.option, value);
    default:
      return short_number(value);
  }
}

std::string column_of(const SweepAxis& axis) {
  if (const SweepQuantityRule* rule = rule_of(axis.quantity)) return std::string(rule->column);
  if (axis.quantity == SweepQuantity::layout) return axis.name;
  const OptionKind kind = axis.option->kind;
  return axis.name + (kind == OptionKind::size       ? "_bytes"
                      : kind == OptionKind::rate     ? "_bytes_per_s"
                      : kind == OptionKind::duration ? "_s"
                                                     : "");
}

std::string title_of(const SweepAxis& axis) {
  if (const SweepQuantityRule* rule = rule_of(axis.quantity)) return std::string(rule->title);
  const std::size_t dot = axis.name.find('.');
  if (dot == std::string::npos) return axis.name;
  return axis.name.substr(dot + 1) + " of " + axis.name.substr(0, dot);
}

}  // namespace stepcast
