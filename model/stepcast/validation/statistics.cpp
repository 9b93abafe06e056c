// Statistics of a suite: errors and coverage of the held-out cases, the order of plans, and the price of the choice.
#include <stepcast/base/statistics.hpp>
#include <stepcast/parallelism/layout_prediction.hpp>
#include <stepcast/roofline/model_shape.hpp>
#include <stepcast/validation/statistics.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>

namespace stepcast {
namespace {

/// A plan of a group, as measured and as predicted.
struct Candidate {
  std::string method;
  double measured, predicted;
  bool calibration, servers;
};
using Group = std::vector<Candidate>;

/// Plans of the same model on the same machines. Only step times can be ranked, and only measured ones are worth it.
std::vector<Group> groups_of(const ValidationSuite& suite, std::span<const CaseResult> results) {
  std::map<std::tuple<std::string, std::string, std::int64_t, double>, Group> groups;  // single worker or batch
  for (std::size_t i = 0; i < results.size(); ++i) {
    const ValidationCase& c = suite.cases[i];
    const CaseResult& r = results[i];
    if (c.subject != Subject::step || c.grade == "exact" || !r.predicted_any || r.outcome == Outcome::excluded)
      continue;
    const bool described = !c.inputs.model.empty();
    groups[{described ? c.inputs.model : c.inputs.profile, c.inputs.cluster, c.inputs.workers,
            described ? c.inputs.global_batch : c.inputs.single_worker.value()}]
        .push_back(
            {c.method, r.measured, r.predicted, c.split == CaseSplit::calibration, needs_servers(c.inputs.plan)});
  }
  std::vector<Group> out;
  for (auto& [key, group] : groups) out.push_back(std::move(group));
  return out;
}

void count_pairs(const Group& group, SuiteStatistics& s, double& concordance) {
  constexpr double clearly_apart = 1.05;
  for (std::size_t i = 0; i < group.size(); ++i)
    for (std::size_t j = i + 1; j < group.size(); ++j) {
      const bool in_order = group[i].measured <= group[j].measured;
      const Candidate &fast = in_order ? group[i] : group[j], &slow = in_order ? group[j] : group[i];
      if ((fast.calibration && slow.calibration) || fast.method == slow.method || fast.measured == slow.measured)
        continue;
      ++s.pairs;
      concordance += fast.predicted < slow.predicted ? 1 : fast.predicted > slow.predicted ? -1 : 0;
      if (slow.measured <= clearly_apart * fast.measured) continue;
      ++s.clear_pairs;
      if (fast.predicted < slow.predicted) ++s.clear_pairs_right;
    }
}

double best_measured(const Group& group) {
  double best = INFINITY;
  for (const Candidate& c : group) best = std::min(best, c.measured);
  return best;
}

/// How much slower the plan predicted to be fastest is than the best; the mean where the prediction is a tie.
double regret_of_choice(const Group& group) {
  double fastest = INFINITY, sum = 0;
  for (const Candidate& c : group) fastest = std::min(fastest, c.predicted);
  int chosen = 0;
  for (const Candidate& c : group)
    if (c.predicted <= fastest * (1 + 1e-9)) sum += c.measured, ++chosen;
  return sum / chosen / best_measured(group) - 1;
}

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

/// The method that exists in every group and has the least mean regret when it is always chosen.
void add_best_constant(const std::vector<Group>& groups, Regret& regret) {
  regret.constant_mean = INFINITY;
  for (const Candidate& candidate : groups.front()) {
    std::vector<double> regrets;
    for (const Group& group : groups)
      for (const Candidate& c : group)
        if (c.method == candidate.method) {
          regrets.push_back(c.measured / best_measured(group) - 1);
          break;
        }
    if (regrets.size() < groups.size() || mean_of(regrets) >= regret.constant_mean) continue;
    regret.constant = candidate.method;
    regret.constant_mean = mean_of(regrets);
    regret.constant_p90 = quantile(regrets, 0.9);
  }
  if (regret.constant.empty()) regret.constant_mean = 0;
}

void add_regret(const std::vector<Group>& all, bool servers, SuiteStatistics& s) {
  std::vector<Group> groups;
  for (const Group& group : all) {
    Group part;
    std::copy_if(group.begin(), group.end(), std::back_inserter(part),
                 [&](const Candidate& c) { return c.servers == servers; });
    const auto differs = [&](const Candidate& c) { return c.method != part.front().method; };
    if (std::any_of(part.begin(), part.end(), differs)) groups.push_back(std::move(part));
  }
  if (groups.empty()) return;
  std::vector<double> regrets;
  for (const Group& group : groups) regrets.push_back(regret_of_choice(group));
  Regret regret;
  regret.among = servers ? "servers" : "all-reduce";
  regret.groups = groups.size();
  regret.mean = mean_of(regrets);
  regret.p90 = quantile(regrets, 0.9);
  regret.worst = quantile(regrets, 1);
  add_best_constant(groups, regret);
  s.regrets.push_back(std::move(regret));
}

/// Headline figures are of these cases. What ran out of memory has no error: it is counted apart.
bool counts(const ValidationCase& c, const CaseResult& r) {
  return r.predicted_any && !c.inputs.exceeds_memory() && r.outcome != Outcome::excluded &&
         c.split == CaseSplit::held_out;
}

void count_outcome(const ValidationCase& c, const CaseResult& r, SuiteStatistics& s, std::vector<double>& errors) {
  ++s.cases;
  ++(r.outcome == Outcome::passed    ? s.passed
     : r.outcome == Outcome::failed  ? s.failed
     : r.outcome == Outcome::skipped ? s.skipped
                                     : s.excluded);
  if (!counts(c, r)) return;
  errors.push_back(std::abs(r.error));
  if (!r.has_interval()) return;
  ++s.with_interval;
  if (r.inside()) ++s.inside;
}

/// Errors of layouts: of all, by scale, by tokens of a sample, by precision, and by each number of layout and model.
void add_error_groups(const ValidationSuite& suite, std::span<const CaseResult> results, SuiteStatistics& s) {
  constexpr std::array<std::string_view, 10> names{"all", "devices", "tokens", "dtype",  "tp",
                                                   "pp",  "dp",      "mb",     "hidden", "layers"};
  std::map<std::tuple<std::size_t, double, std::string>, ErrorGroup> groups;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const ValidationCase& c = suite.cases[i];
    const CaseResult& r = results[i];
    if (c.inputs.model.empty() || !c.inputs.layout || !counts(c, r)) continue;
    const Layout& l = *c.inputs.layout;
    const ModelShape shape = model_shape_of(c.inputs.model);
    const double data =
        l.data > 0 ? double(l.data) : double(c.inputs.workers) / double(l.tensor * l.context * l.pipeline);
    const std::string type(name_of(shape.dtype));
    const double values[names.size()] = {0,
                                         double(c.inputs.workers),
                                         double(shape.sequence),
                                         8 * size_of(shape.dtype),
                                         double(l.tensor),
                                         double(l.pipeline),
                                         data,
                                         double(l.micro_batch),
                                         double(shape.hidden),
                                         double(shape.layers)};
    for (std::size_t k = 0; k < names.size(); ++k) {
      const std::string said = names[k] == "all"     ? ""
                               : names[k] == "dtype" ? " " + type
                                                     : " " + std::to_string(std::llround(values[k]));
      ErrorGroup& group = groups[{k, values[k], said}];
      group.by = names[k];
      group.value = values[k];
      group.label = group.by + said;
      group.with_interval += r.has_interval() ? 1 : 0;
      group.inside += r.has_interval() && r.inside() ? 1 : 0;
      ++group.cases;
      group.mean += std::abs(r.error);
      group.bias += r.error;
    }
  }
  for (auto& [key, group] : groups) {
    group.mean /= double(group.cases);
    group.bias /= double(group.cases);
    s.groups.push_back(std::move(group));
  }
}

/// Errors of forecasts by band: of each kind over everything, then of each machine and operation.
void add_size_errors(const ValidationSuite& suite, std::span<const CaseResult> results, SuiteStatistics& s) {
  struct Errors {
    std::vector<double> sizes, signs;
    std::size_t inside = 0;
  };
  using Key = std::tuple<std::string, std::string, std::string>;
  std::map<Key, std::array<Errors, size_band_count>> all;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const ValidationCase& c = suite.cases[i];
    const CaseResult& r = results[i];
    if (c.inputs.kind.empty() || !counts(c, r)) continue;
    for (const Key& key : {Key(c.inputs.kind, "", ""), Key(c.inputs.kind, "", c.method),
                           Key(c.inputs.kind, c.inputs.machine, c.method)}) {
      Errors& errors = all[key][size_band_of(c.inputs.size)];
      errors.sizes.push_back(std::abs(r.error));
      errors.signs.push_back(r.error);
      if (r.inside()) ++errors.inside;
    }
  }
  for (const auto& [key, bands] : all) {
    SizeErrors& group = s.sizes.emplace_back();
    std::tie(group.kind, group.machine, group.operation) = key;
    for (std::size_t b = 0; b < size_band_count; ++b) {
      const Errors& e = bands[b];
      group.bands[b] = {e.sizes.size(), e.inside, median(e.sizes), quantile(e.sizes, 0.9), median(e.signs)};
    }
  }
}

/// Bands of what was left out whose median or P90 is worse than recorded.
void compare_with_recorded(const ValidationSuite& suite, SuiteStatistics& s) {
  for (SizeErrors& group : s.sizes) {
    const auto recorded = suite.recorded_by_size.find(group.kind);
    if (recorded == suite.recorded_by_size.end() || !group.machine.empty() || !group.operation.empty()) continue;
    for (std::size_t b = 0; b < size_band_count; ++b) {
      SizeErrors::Band& band = group.bands[b];
      const auto& then = recorded->second[b];
      if (!then || band.cases == 0) continue;
      band.worse = !(band.median <= then->median + ratchet_slack && band.p90 <= then->p90 + ratchet_slack);
      if (band.worse) ++s.failed;
    }
  }
}

void add_memory_verdicts(const ValidationSuite& suite, std::span<const CaseResult> results, SuiteStatistics& s) {
  for (std::size_t i = 0; i < results.size(); ++i) {
    const ValidationCase& c = suite.cases[i];
    const CaseResult& r = results[i];
    if (!(r.card > 0) || r.outcome == Outcome::excluded) continue;
    if (c.inputs.exceeds_memory()) {
      ++s.memory.exceeded;
      if (r.held > r.card) ++s.memory.refused;
      else if (r.held > r.card * tight_memory_share) ++s.memory.tight;
    } else if (c.subject == Subject::step) {
      ++s.memory.ran;
      if (r.held <= r.card) ++s.memory.accepted;
    }
  }
  if (s.skipped > 0 || !suite.recorded_accepted) return;
  s.fewer_accepted = s.memory.accepted < static_cast<std::size_t>(*suite.recorded_accepted);
  if (s.fewer_accepted) ++s.failed;
}

void add_widths(const ValidationSuite& suite, std::span<const CaseResult> results, SuiteStatistics& s) {
  struct Widths {
    std::vector<double> all;
    std::size_t inside = 0;
  };
  std::map<std::pair<std::string, CaseSplit>, std::array<Widths, size_band_count>> groups;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const ValidationCase& c = suite.cases[i];
    const CaseResult& r = results[i];
    if (c.inputs.kind.empty() || !r.has_interval() || r.outcome == Outcome::excluded) continue;
    Widths& widths = groups[{std::string(r.measured_there), c.split}][size_band_of(c.inputs.size)];
    widths.all.push_back(r.high / r.low);
    if (r.inside()) ++widths.inside;
  }
  for (const auto& [key, bands] : groups) {
    IntervalWidths& group = s.widths.emplace_back();
    std::tie(group.measured_there, group.split) = key;
    for (std::size_t b = 0; b < size_band_count; ++b)
      group.bands[b] = {bands[b].all.size(), bands[b].inside, median(bands[b].all)};
  }
}

}  // namespace

SuiteStatistics statistics_of(const ValidationSuite& suite, std::span<const CaseResult> results) {
  SuiteStatistics s;
  std::vector<double> errors;
  for (std::size_t i = 0; i < results.size(); ++i) count_outcome(suite.cases[i], results[i], s, errors);
  s.held_out = errors.size();
  s.mean = mean_of(errors);
  s.median = median(errors);
  s.p90 = quantile(errors, 0.9);
  s.worst = quantile(errors, 1);
  const std::vector<Group> groups = groups_of(suite, results);
  double concordance = 0;
  for (const Group& group : groups) count_pairs(group, s, concordance);
  if (s.pairs > 0) s.kendall = concordance / static_cast<double>(s.pairs);
  add_regret(groups, false, s);
  add_regret(groups, true, s);
  add_error_groups(suite, results, s);
  add_size_errors(suite, results, s);
  if (s.skipped == 0) compare_with_recorded(suite, s);
  add_widths(suite, results, s);
  add_memory_verdicts(suite, results, s);
  s.worse_than_published = suite.published.mean > 0 && s.mean > suite.published.mean;
  if (s.worse_than_published) ++s.failed;
  const std::optional<double>& recorded = suite.recorded_mean_error;
  s.worse_than_recorded = recorded && s.held_out > 0 && s.skipped == 0 && !(s.mean <= *recorded + ratchet_slack);
  if (s.worse_than_recorded) ++s.failed;
  return s;
}

}  // namespace stepcast
