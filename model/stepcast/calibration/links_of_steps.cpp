// One bandwidth for each number of workers within a search for the one c of all of them.
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/calibration/device_fit.hpp>
#include <stepcast/calibration/links_of_steps.hpp>
#include <stepcast/cluster/collective.hpp>
#include <stepcast/cluster/links_of_trace.hpp>
#include <stepcast/encodings/csv.hpp>
#include <stepcast/prediction/hot_loop.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

namespace stepcast {
namespace {

// ---- the table ----

/// Where its columns are.
struct JobColumns {
  std::optional<std::size_t> profile, plan, workers, time;
  double time_unit_s = 1;
};

JobColumns columns_of(const std::vector<std::string>& names) {
  JobColumns columns;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::vector<std::string> words = title_words(names[i]);
    const auto has = [&](std::string_view word) { return std::ranges::find(words, word) != words.end(); };
    if (const std::optional<double> unit = step_time_unit(words)) {
      if (!columns.time) columns.time = i, columns.time_unit_s = *unit;
    } else if (has("profile") || has("trace")) {
      columns.profile = i;
    } else if (has("plan") || has("strategy")) {
      columns.plan = i;
    } else if (has("workers") || has("devices") || has("gpus")) {
      columns.workers = i;
    }
  }
  return columns;
}

JobStep step_of(const JobColumns& columns, const std::vector<std::string>& names, const std::vector<std::string>& cells,
                const std::string& place, const PlanSpec& otherwise) {
  const auto where = [&](std::size_t column) { return place + " column " + names[column]; };
  JobStep step;
  step.profile = cells[*columns.profile];
  if (step.profile.empty()) throw InputError(where(*columns.profile), "the file of a profile or a trace", "nothing");
  step.plan = columns.plan && !cells[*columns.plan].empty() ? plan_spec_of(cells[*columns.plan]) : otherwise;
  step.workers = integer_of(cells[*columns.workers], where(*columns.workers), 1, 100'000'000);
  const double time = number_of(cells[*columns.time], where(*columns.time));
  if (!(time > 0)) throw InputError(where(*columns.time), "a time above zero", cells[*columns.time]);
  step.time = Seconds(time * columns.time_unit_s);
  step.source = place;
  return step;
}

// ---- predictions ----

using Prepared = std::map<std::string, std::shared_ptr<const PreparedProfile>>;

/// Each profile computes as long as its steps of one worker say, all parts by the same factor.
Answer<Prepared> prepared(const std::map<std::string, Profile>& profiles, std::span<const JobStep> steps) {
  Prepared out;
  for (const auto& [name, profile] : profiles) {
    Profile p = profile;
    Seconds sum;
    int count = 0;
    for (const JobStep& step : steps)
      if (step.workers == 1 && step.profile == name) sum += step.time, ++count;
    if (count > 0) {
      const Seconds lone = lone_step_time(p);
      if (!(lone > Seconds(0))) return Inapplicable{name + " takes no time"};
      const double factor = sum / double(count) / lone;
      scale_work(p, factor);
      p.input *= factor;
    }
    out.emplace(name, std::make_shared<const PreparedProfile>(std::move(p)));
  }
  return out;
}

/// An all-reduce that sends and receives at a bandwidth: 2 (n - 1) / n of the buffer on every worker.
MeasuredCollective table_of(const FittedLinks& links, Seconds start_up, std::string provenance) {
  MeasuredCollective table{"all_reduce", links.workers, {Bytes(1024), Bytes(0x1p34)}, {}, std::move(provenance)};
  const double n = static_cast<double>(links.workers);
  for (const Bytes size : table.sizes) table.times.push_back(start_up + 2 * (n - 1) / n * size / links.bandwidth);
  return table;
}

/// The steps of one number of workers, on its part of the cluster.
class Group {
 public:
  static Answer<Group> of(const Cluster& base, std::int64_t workers, HotLoop& loop) {
    Answer<Cluster> sized = resized(base, workers);
    if (!sized) return Inapplicable{sized.reason()};
    Group group(loop);
    group.workers_ = workers;
    group.cluster_ = std::move(*sized);
    const Answer<CommunicationCost> cost = communication_cost(group.cluster_);
    if (!cost) return Inapplicable{cost.reason()};
    group.start_up_ = (*cost)(Operation::all_reduce, Bytes(1));
    // What the base says of large messages: where the fit begins, and stays if the steps do not tell.
    constexpr Bytes large(1e9);
    const double n = static_cast<double>(workers);
    group.expected_ = 2 * (n - 1) / n * large / ((*cost)(Operation::all_reduce, large) - group.start_up_);
    group.cluster_.all_reduce = "table";
    return group;
  }

  void add(const JobStep& step, std::shared_ptr<const PreparedProfile> profile) {
    rows_.push_back({&step, std::move(profile)});
  }
  [[nodiscard]] std::int64_t workers() const { return workers_; }
  [[nodiscard]] Seconds start_up() const { return start_up_; }
  [[nodiscard]] BytesPerSecond expected() const { return expected_; }

  /// ln(predicted / measured) of the row.
  Answer<double> error(std::size_t row, BytesPerSecond bandwidth, double beside) {
    Answer<Seconds> time = predicted(row, bandwidth, beside);
    if (!time) return Inapplicable{time.reason()};
    return std::log(*time / rows_[row].step->time);
  }
  Answer<double> cost(BytesPerSecond bandwidth, double beside) {
    const double away = std::log(bandwidth / expected_);
    double sum = pull * pull * away * away;
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      const Answer<double> r = error(row, bandwidth, beside);
      if (!r) return r;
      const double size = std::abs(*r);
      sum += size <= outlier ? size * size : outlier * (2 * size - outlier);
    }
    return sum;
  }

  // Residuals beyond this count linearly; a bandwidth that is off its start by a factor e costs as much as one row that
  // is off by so much: what the rows do not show stays where it is.
  static constexpr double outlier = 0.1, pull = 2e-4;

 private:
  explicit Group(HotLoop& loop) : loop_(&loop) {}
  Answer<Seconds> predicted(std::size_t row, BytesPerSecond bandwidth, double beside) {
    cluster_.tables = {table_of({workers_, bandwidth}, start_up_, {})};
    cluster_.contention.compute_under_communication = 1 + beside;
    const Answer<CommunicationCost> cost = communication_cost(cluster_);
    if (!cost) return Inapplicable{cost.reason()};
    const JobStep& step = *rows_[row].step;
    const Answer<Seconds> time = loop_->iteration(rows_[row].profile, cluster_, *cost, step.plan);
    if (!time) return Inapplicable{step.source + ": " + time.reason()};
    return time;
  }

  struct Row {
    const JobStep* step;
    std::shared_ptr<const PreparedProfile> profile;
  };
  std::int64_t workers_ = 2;
  Cluster cluster_;
  Seconds start_up_;
  BytesPerSecond expected_;
  std::vector<Row> rows_;
  HotLoop* loop_;
};

// ---- the search ----

struct Lowest {
  double x = 0, cost = 0;
};
/// The lowest of evenly spaced points, then a golden section between its neighbours. Throws nothing; the first reason
/// of `cost` ends it.
template <class Cost>
Answer<Lowest> lowest(double low, double high, int points, const Cost& cost) {
  constexpr double golden = 0.6180339887498949, narrow = 1e-4;
  const double width = (high - low) / (points - 1);
  Lowest best{low, HUGE_VAL};
  const auto try_at = [&](double x) -> Answer<double> {
    Answer<double> there = cost(x);
    if (there && *there < best.cost) best = {x, *there};
    return there;
  };
  for (int i = 0; i < points; ++i)
    if (const Answer<double> there = try_at(low + i * width); !there) return Inapplicable{there.reason()};
  double a = std::max(low, best.x - width), b = std::min(high, best.x + width);
  double left = b - golden * (b - a), right = a + golden * (b - a);
  Answer<double> at_left = try_at(left), at_right = try_at(right);
  while (at_left && at_right && b - a > narrow) {
    if (*at_left < *at_right) {
      b = right, right = left, at_right = at_left;
      left = b - golden * (b - a), at_left = try_at(left);
    } else {
      a = left, left = right, at_left = at_right;
      right = a + golden * (b - a), at_right = try_at(right);
    }
  }
  if (!at_left) return Inapplicable{at_left.reason()};
  if (!at_right) return Inapplicable{at_right.reason()};
  return best;
}

/// A factor of 256 about what the base says, by the logarithm to base 2.
Answer<Lowest> best_bandwidth(Group& group, double beside) {
  constexpr double around = 8;
  const double middle = std::log2(group.expected().value());
  return lowest(middle - around, middle + around, 33,
                [&](double x) { return group.cost(BytesPerSecond(std::exp2(x)), beside); });
}

Answer<std::vector<Group>> groups_of(const Cluster& base, const Prepared& profiles, std::span<const JobStep> steps,
                                     HotLoop& loop) {
  std::vector<Group> groups;
  for (const JobStep& step : steps) {
    if (step.workers == 1) continue;
    auto group = std::ranges::find(groups, step.workers, &Group::workers);
    if (group == groups.end()) {
      Answer<Group> made = Group::of(base, step.workers, loop);
      if (!made) return Inapplicable{step.source + ": " + made.reason()};
      group = groups.insert(groups.end(), std::move(*made));
    }
    group->add(step, profiles.at(step.profile));
  }
  std::ranges::sort(groups, {}, &Group::workers);
  return groups;
}

}  // namespace

bool names_profiles(std::string_view csv) {
  const std::vector<CsvLine> lines = lines_of_csv(csv);
  if (lines.empty()) return false;
  return columns_of(cells_of(lines.front().text, separator_of(lines.front().text))).profile.has_value();
}

std::vector<JobStep> job_steps_of_csv(std::string_view text, std::string_view source, const PlanSpec& otherwise) {
  const std::vector<CsvLine> lines = lines_of_csv(text);
  const auto place = [&](const CsvLine& line) { return std::string(source) + ":" + std::to_string(line.number); };
  if (lines.size() < 2)
    throw InputError(std::string(source), "a CSV table with a header and at least one measured step",
                     lines.empty() ? "no table" : "a header only");
  const char separator = separator_of(lines.front().text);
  const std::vector<std::string> names = cells_of(lines.front().text, separator);
  const JobColumns columns = columns_of(names);
  const auto require = [&](bool there, const char* what) {
    if (!there) throw InputError(place(lines.front()), what, "the columns '" + std::string(lines.front().text) + "'");
  };
  require(columns.profile.has_value(), "a column 'profile'");
  require(columns.workers.has_value(), "a column 'workers'");
  require(columns.time.has_value(), "a column of step times with its unit, such as 'step_ms'");
  std::vector<JobStep> steps;
  for (const CsvLine& line : std::span(lines).subspan(1)) {
    const std::vector<std::string> cells = cells_of(line.text, separator);
    if (cells.size() != names.size())
      throw InputError(place(line), std::to_string(names.size()) + " fields", std::to_string(cells.size()),
                       "the file may be cut off");
    steps.push_back(step_of(columns, names, cells, place(line), otherwise));
  }
  return steps;
}

Answer<LinksFit> links_of_steps(const Cluster& base, const std::map<std::string, Profile>& profiles,
                                std::span<const JobStep> steps) {
  const Answer<Prepared> ready = prepared(profiles, steps);
  if (!ready) return Inapplicable{ready.reason()};
  HotLoop loop;
  Answer<std::vector<Group>> groups = groups_of(base, *ready, steps, loop);
  if (!groups) return Inapplicable{groups.reason()};
  if (groups->empty()) return Inapplicable{"no step of several workers was measured"};
  const auto at = [&](double beside) -> Answer<double> {
    double sum = Group::pull * Group::pull * beside * beside;
    for (Group& group : *groups) {
      const Answer<Lowest> best = best_bandwidth(group, beside);
      if (!best) return Inapplicable{best.reason()};
      sum += best->cost;
    }
    return sum;
  };
  constexpr double most = 4;
  const Answer<Lowest> found = lowest(0, most, 17, at);
  if (!found) return Inapplicable{found.reason()};

  LinksFit fit;
  fit.beside = found->x;
  fit.cluster = base;
  fit.cluster.all_reduce = "table";
  fit.cluster.contention.compute_under_communication = 1 + fit.beside;
  std::erase_if(fit.cluster.tables, [](const MeasuredCollective& t) { return t.operation == "all_reduce"; });
  fit.residuals.assign(steps.size(), 0);
  std::vector<double> of_several;
  for (Group& group : *groups) {
    const BytesPerSecond bandwidth(std::exp2(best_bandwidth(group, fit.beside)->x));
    fit.links.push_back({group.workers(), bandwidth});
    std::size_t row = 0;
    for (std::size_t i = 0; i < steps.size(); ++i)
      if (steps[i].workers == group.workers()) {
        fit.residuals[i] = std::exp(*group.error(row++, bandwidth, fit.beside)) - 1;
        of_several.push_back(fit.residuals[i]);
      }
    fit.cluster.tables.push_back(table_of(fit.links.back(), group.start_up(),
                                          "fitted to " + counted(std::int64_t(row), "measured step") + " of " +
                                              std::to_string(group.workers()) + " workers"));
    if (row < 2)
      fit.notes.push_back("of " + std::to_string(group.workers()) +
                          " workers one step was measured: what its transfers take and what they take from compute is "
                          "told apart by the others");
  }
  // How far off the steps are where nothing is taken from compute, and bandwidths fit that best.
  constexpr double telling = 0.005;
  const double count = static_cast<double>(of_several.size());
  const double without = std::sqrt(*at(0) / count), with = std::sqrt(found->cost / count);
  if (without - with < telling)
    fit.notes.push_back("the steps hardly tell what a transfer takes from compute: they are off by " + percent(with) +
                        " rms, and by " + percent(without) + " where it takes nothing");
  // As many numbers as steps say nothing of how far off others are: then what was assumed stays.
  const std::size_t free_numbers = groups->size() + 1;
  const bool tells = of_several.size() > free_numbers;
  if (!tells)
    fit.notes.push_back("as many numbers are fitted as steps were measured: the residuals say nothing of other steps");
  const double rms = root_mean_square(of_several, tells ? of_several.size() - free_numbers : 1);
  fit.cluster.relative_error = tells ? rms : std::max(base.relative_error, rms);
  std::erase_if(fit.cluster.provenance, [&](const std::string& line) {
    return line.starts_with("all-reduce:") || line == unsaid_contention ||
           (tells && line.starts_with("relative error:"));
  });
  fit.cluster.provenance.push_back("contention: compute takes " + fixed(1 + fit.beside, 2) +
                                   " times as long beside a transfer, fitted to " +
                                   counted(std::ssize(of_several), "measured step") + ", residual rms " + percent(rms));
  fit.cluster = checked(std::move(fit.cluster), "fitted cluster");
  return fit;
}

}  // namespace stepcast
