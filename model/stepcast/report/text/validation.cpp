// A line a suite, then what failed or was skipped.
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/report/text/table.hpp>
#include <stepcast/report/validation_report.hpp>

#include <nlohmann/json.hpp>

#include <cmath>
#include <map>
#include <ostream>

namespace stepcast {
namespace {

using Json = nlohmann::ordered_json;

/// In per cent, which the head of the column says.
std::string points(double share) { return fixed(100 * share, 1); }
std::string signed_points(double share) { return std::abs(share) < 0.0005 ? "+0.0" : fixed(100 * share, 1, true); }
std::string share_of(std::size_t part, std::size_t whole) {
  return whole == 0 ? "-" : std::to_string((100 * part + whole / 2) / whole) + " %";
}

std::string value_text(const ValidationCase& c, double value) {
  if (c.subject == Subject::memory) return text_of(Bytes(value));
  return c.subject == Subject::ratio ? fixed(value, 3) : text_of(Seconds(value));
}

// ---- text ----

void write_summary(std::ostream& out, std::span<const SuiteResult> results) {
  using enum TextTable::Align;
  TextTable table({{"suite", flexible},
                   {"cases", right},
                   {"held", right},
                   {"median", right},
                   {"P90", right},
                   {"worst %", right},
                   {"inside", right},
                   {"tau", right},
                   {"pairs", right},
                   {"failed", right}});
  for (const SuiteResult& r : results) {
    const SuiteStatistics& s = r.statistics;
    const bool any = s.held_out > 0;
    table.add_row({r.suite.name, std::to_string(s.cases), std::to_string(s.held_out), any ? points(s.median) : "-",
                   any ? points(s.p90) : "-", any ? points(s.worst) : "-", share_of(s.inside, s.with_interval),
                   s.pairs > 0 ? fixed(s.kendall, 2) : "-", share_of(s.clear_pairs_right, s.clear_pairs),
                   std::to_string(s.failed)});
  }
  table.write(out);
}

void write_regrets(std::ostream& out, std::span<const SuiteResult> results) {
  using enum TextTable::Align;
  TextTable table({{"choice in", flexible},
                   {"among", left},
                   {"groups", right},
                   {"regret", right},
                   {"P90", right},
                   {"worst %", right},
                   {"best constant", right},
                   {"P90 %", right}});
  for (const SuiteResult& r : results)
    for (const Regret& regret : r.statistics.regrets)
      table.add_row({r.suite.name, regret.among, std::to_string(regret.groups), points(regret.mean), points(regret.p90),
                     points(regret.worst),
                     regret.constant.empty() ? "-" : regret.constant + " " + points(regret.constant_mean),
                     regret.constant.empty() ? "-" : points(regret.constant_p90)});
  if (table.empty()) return;
  out << '\n';
  table.write(out);
}

/// Of layouts, by scale, tokens, precision and each of their numbers: the means of |error| and of the signed error, and
/// how often the interval holds.
void write_error_groups(std::ostream& out, std::span<const SuiteResult> results) {
  using enum TextTable::Align;
  for (const SuiteResult& r : results) {
    if (r.statistics.groups.empty()) continue;
    TextTable table({{r.suite.name + " by", flexible},
                     {"cases", right},
                     {"mean |error|", right},
                     {"mean error %", right},
                     {"inside", right}});
    for (const ErrorGroup& group : r.statistics.groups)
      table.add_row({group.label, std::to_string(group.cases), points(group.mean), signed_points(group.bias),
                     share_of(group.inside, group.with_interval)});
    out << '\n';
    table.write(out);
  }
}

/// Of described layouts that ran and of those that ran out of memory: whether they are predicted to fit.
void write_memory_verdicts(std::ostream& out, std::span<const SuiteResult> results) {
  using enum TextTable::Align;
  TextTable table({{"memory in", flexible},
                   {"ran", right},
                   {"accepted", right},
                   {"ran out of it", right},
                   {"refused", right},
                   {"tight", right}});
  for (const SuiteResult& r : results) {
    const MemoryVerdicts& m = r.statistics.memory;
    if (m.ran + m.exceeded == 0) continue;
    const auto of = [](std::size_t all, std::size_t part) { return all > 0 ? std::to_string(part) : "-"; };
    table.add_row({r.suite.name, of(m.ran, m.ran), of(m.ran, m.accepted), of(m.exceeded, m.exceeded),
                   of(m.exceeded, m.refused), of(m.exceeded, m.tight)});
  }
  if (table.empty()) return;
  out << '\n';
  table.write(out);
}

/// Of collectives: median, P90 and share inside the interval by size; by machine and operation if `in_full`.
void write_size_errors(std::ostream& out, std::span<const SuiteResult> results, bool in_full) {
  using enum TextTable::Align;
  for (const SuiteResult& r : results) {
    std::vector<TextTable::Column> columns{{r.suite.name + ", %", flexible}, {"of", left}};
    for (const std::string_view band : size_band_names) columns.push_back({std::string(band), right});
    TextTable table(columns);
    for (const SizeErrors& group : r.statistics.sizes) {
      if (!in_full && !group.machine.empty()) continue;
      std::vector<std::string> row{group.machine.empty() ? group.kind : group.kind + ", " + group.machine,
                                   group.operation.empty() ? "all" : group.operation};
      for (const SizeErrors::Band& b : group.bands)
        row.push_back(b.cases == 0 ? "-"
                                   : fixed(100 * b.median, 0) + "/" + fixed(100 * b.p90, 0) + " in " +
                                         fixed(100 * double(b.inside) / double(b.cases), 0));
      table.add_row(std::move(row));
    }
    if (table.empty()) continue;
    out << '\n';
    table.write(out);
    write_labelled(out, "", "median/P90 of |error| by size, and the share inside the 80 % interval", 0);
  }
}

/// Of collectives: median of P90 over P10 and the share inside by size, by what was measured.
void write_widths(std::ostream& out, std::span<const SuiteResult> results) {
  using enum TextTable::Align;
  for (const SuiteResult& r : results) {
    if (r.statistics.widths.empty()) continue;
    std::vector<TextTable::Column> columns{{r.suite.name + ", measured", flexible}, {"rows", left}};
    for (const std::string_view band : size_band_names) columns.push_back({std::string(band), right});
    TextTable table(columns);
    for (const IntervalWidths& group : r.statistics.widths) {
      std::vector<std::string> row{group.measured_there, group.split == CaseSplit::calibration ? "fitted" : "held out"};
      for (const IntervalWidths::Band& b : group.bands)
        row.push_back(b.cases == 0 ? "-"
                                   : fixed(b.width, 2) + " in " + fixed(100 * double(b.inside) / double(b.cases), 0));
      table.add_row(std::move(row));
    }
    out << '\n';
    table.write(out);
    write_labelled(out, "", "P90 over P10 of the 80 % interval (median), and the share inside, per cent", 0);
  }
}

void write_cases(std::ostream& out, std::span<const SuiteResult> results) {
  using enum TextTable::Align;
  for (const SuiteResult& r : results) {
    TextTable table(
        {{r.suite.name, flexible}, {"measured", right}, {"predicted", right}, {"error %", right}, {"", left}});
    for (std::size_t i = 0; i < r.results.size(); ++i) {
      const ValidationCase& c = r.suite.cases[i];
      const CaseResult& result = r.results[i];
      const bool known = result.predicted_any;
      const bool exceeded = c.inputs.exceeds_memory();
      table.add_row({c.id, result.measured > 0 ? (exceeded ? "over " : "") + value_text(c, result.measured) : "-",
                     known ? value_text(c, result.predicted) : "-", known ? signed_points(result.error) : "-",
                     result.outcome != Outcome::passed   ? std::string(name_of(result.outcome))
                     : c.split == CaseSplit::calibration ? "fitted"
                                                         : ""});
    }
    out << '\n';
    table.write(out);
  }
}

void write_failures(std::ostream& out, std::span<const SuiteResult> results) {
  for (const SuiteResult& r : results) {
    const PublishedError& published = r.suite.published;
    if (published.mean > 0 && r.statistics.held_out > 0)
      write_labelled(out, r.statistics.worse_than_published ? "failed:" : "published:",
                     r.suite.name + ": mean error " + points(r.statistics.mean) + " %, " + published.source + " " +
                         fixed(100 * published.mean, 2) + " %",
                     11);
    for (const SizeErrors& group : r.statistics.sizes)
      for (std::size_t b = 0; b < size_band_count; ++b)
        if (const SizeErrors::Band& band = group.bands[b]; band.worse) {
          const ValidationSuite::MedianAndP90 then = *r.suite.recorded_by_size.at(group.kind)[b];
          write_labelled(out, "failed:",
                         r.suite.name + " " + group.kind + " " + std::string(size_band_names[b]) + ": median/P90 " +
                             points(band.median) + "/" + points(band.p90) + " %, recorded " + points(then.median) +
                             "/" + points(then.p90) + " %",
                         11);
        }
    if (r.statistics.fewer_accepted)
      write_labelled(out, "failed:",
                     r.suite.name + ": " + std::to_string(r.statistics.memory.accepted) +
                         " steps that ran are predicted to fit, recorded " + std::to_string(*r.suite.recorded_accepted),
                     11);
    if (r.statistics.worse_than_recorded)
      write_labelled(out, "failed:",
                     r.suite.name + ": mean error " + fixed(100 * r.statistics.mean, 2) + " %, recorded " +
                         fixed(100 * *r.suite.recorded_mean_error, 2) + " %",
                     11);
  }
  for (const SuiteResult& r : results)
    for (std::size_t i = 0; i < r.results.size(); ++i)
      if (r.results[i].outcome == Outcome::failed)
        write_labelled(out, "failed:", r.suite.name + " " + r.suite.cases[i].id + ": " + r.results[i].reason, 9);
}

/// One line for all cases of a suite that were skipped for the same reason.
void write_skipped(std::ostream& out, std::span<const SuiteResult> results) {
  for (const SuiteResult& r : results) {
    std::map<std::string, std::size_t> reasons;
    for (const CaseResult& result : r.results)
      if (result.outcome == Outcome::skipped) ++reasons[result.reason];
    std::size_t shown = 0;
    for (const auto& [reason, count] : reasons) {
      constexpr std::size_t most = 3;
      if (++shown > most) {
        write_labelled(
            out, "skipped:",
            r.suite.name + ": and for " + std::to_string(reasons.size() - most) + " more reasons of this kind", 9);
        break;
      }
      write_labelled(out, "skipped:", r.suite.name + ": " + counted(std::int64_t(count), "case") + ": " + reason, 9);
    }
  }
}

void write_verdict(std::ostream& out, std::span<const SuiteResult> results) {
  SuiteStatistics all;
  for (const SuiteResult& r : results) {
    all.cases += r.statistics.cases;
    all.passed += r.statistics.passed;
    all.failed += r.statistics.failed;
    all.skipped += r.statistics.skipped;
    all.excluded += r.statistics.excluded;
  }
  out << (all.failed == 0 ? "passed: " : "FAILED: ") << all.failed << " of " << all.cases << " cases failed, "
      << all.passed << " passed, " << all.skipped << " skipped, " << all.excluded << " excluded\n";
}

// ---- JSON ----

Json case_json(const ValidationCase& c, const CaseResult& r) {
  const auto key = [&](const char* name) { return std::string(name) + "_" + std::string(unit_of(c.subject)); };
  Json json = {{"id", c.id}, {"source", c.source}, {"grade", c.grade}, {"split", name_of(c.split)}};
  if (!c.inputs.model.empty()) json["model"] = c.inputs.model;
  if (c.inputs.plan.strategy)
    json["plan"] = c.inputs.layout ? text_of(LayoutPlan{*c.inputs.layout, c.inputs.plan}) : text_of(c.inputs.plan);
  if (c.subject == Subject::operation) json["operation"] = name_of(c.inputs.operation);
  if (!c.inputs.memory.empty()) json["memory"] = c.inputs.memory;
  const bool exceeded = c.inputs.exceeds_memory();  // nobody measured how much it would have been
  json[key("measured")] = r.measured > 0 && !exceeded ? Json(r.measured) : Json(nullptr);
  json[key("predicted")] = r.predicted_any ? Json(r.predicted) : Json(nullptr);
  json["error"] = r.predicted_any && !exceeded ? Json(r.error) : Json(nullptr);
  json["recorded_error"] = c.recorded_error ? Json(*c.recorded_error) : Json(nullptr);
  json["tolerance"] = c.tolerance;
  json[key("interval")] = r.predicted_any && r.has_interval() ? Json{r.low, r.high} : Json(nullptr);
  json["outcome"] = name_of(r.outcome);
  if (!r.reason.empty()) json["reason"] = r.reason;
  return json;
}

Json size_errors_json(const std::vector<SizeErrors>& all) {
  Json out = Json::array();
  for (const SizeErrors& group : all) {
    Json json = {{"left_out", group.kind}};
    json["machine"] = group.machine.empty() ? Json(nullptr) : Json(group.machine);
    json["operation"] = group.operation.empty() ? Json(nullptr) : Json(group.operation);
    for (std::size_t b = 0; b < size_band_count; ++b) {
      const SizeErrors::Band& band = group.bands[b];
      if (band.cases == 0) continue;
      json["bands"].push_back({{"sizes", size_band_names[b]},
                               {"cases", band.cases},
                               {"median_absolute_error", band.median},
                               {"p90_absolute_error", band.p90},
                               {"median_error", band.bias},
                               {"worse_than_recorded", band.worse},
                               {"inside_interval", double(band.inside) / double(band.cases)}});
    }
    out.push_back(std::move(json));
  }
  return out;
}

Json widths_json(const std::vector<IntervalWidths>& all) {
  Json out = Json::array();
  for (const IntervalWidths& group : all) {
    Json json = {{"measured", group.measured_there}, {"split", name_of(group.split)}};
    for (std::size_t b = 0; b < size_band_count; ++b) {
      const IntervalWidths::Band& band = group.bands[b];
      if (band.cases == 0) continue;
      json["bands"].push_back({{"sizes", size_band_names[b]},
                               {"cases", band.cases},
                               {"median_p90_over_p10", band.width},
                               {"inside_interval", double(band.inside) / double(band.cases)}});
    }
    out.push_back(std::move(json));
  }
  return out;
}

Json statistics_json(const SuiteStatistics& s) {
  const auto known = [](std::size_t n, double value) { return n > 0 ? Json(value) : Json(nullptr); };
  const auto share = [&](std::size_t part, std::size_t whole) {
    return known(whole, whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0);
  };
  Json regrets = Json::array();
  for (const Regret& r : s.regrets)
    regrets.push_back({{"among", r.among},
                       {"groups", r.groups},
                       {"mean", r.mean},
                       {"p90", r.p90},
                       {"worst", r.worst},
                       {"best_constant", r.constant.empty() ? Json(nullptr) : Json(r.constant)},
                       {"best_constant_mean", r.constant.empty() ? Json(nullptr) : Json(r.constant_mean)},
                       {"best_constant_p90", r.constant.empty() ? Json(nullptr) : Json(r.constant_p90)}});
  Json groups = Json::array();
  for (const ErrorGroup& g : s.groups)
    groups.push_back({{"by", g.by},
                      {"value", g.value},
                      {"label", g.label},
                      {"cases", g.cases},
                      {"mean_absolute_error", g.mean},
                      {"mean_error", g.bias},
                      {"inside_interval", share(g.inside, g.with_interval)}});
  return {{"cases", s.cases},
          {"passed", s.passed},
          {"failed", s.failed},
          {"skipped", s.skipped},
          {"excluded", s.excluded},
          {"held_out", s.held_out},
          {"median_absolute_error", known(s.held_out, s.median)},
          {"p90_absolute_error", known(s.held_out, s.p90)},
          {"worst_absolute_error", known(s.held_out, s.worst)},
          {"mean_absolute_error", known(s.held_out, s.mean)},
          {"inside_interval", share(s.inside, s.with_interval)},
          {"kendall_tau", known(s.pairs, s.kendall)},
          {"clear_pairs", s.clear_pairs},
          {"clear_pairs_in_order", share(s.clear_pairs_right, s.clear_pairs)},
          {"regret", std::move(regrets)},
          {"memory",
           {{"ran", s.memory.ran},
            {"accepted", s.memory.accepted},
            {"exceeded", s.memory.exceeded},
            {"refused", s.memory.refused},
            {"tight", s.memory.tight}}},
          {"layouts", std::move(groups)},
          {"sizes", size_errors_json(s.sizes)},
          {"intervals", widths_json(s.widths)}};
}

}  // namespace

void write_validation_text(std::ostream& out, std::span<const SuiteResult> results, bool in_full) {
  write_summary(out, results);
  write_regrets(out, results);
  write_memory_verdicts(out, results);
  write_size_errors(out, results, in_full);
  if (in_full) write_widths(out, results), write_error_groups(out, results), write_cases(out, results);
  out << '\n';
  write_failures(out, results);
  write_skipped(out, results);
  write_labelled(out, "note:",
                 "errors in per cent of the measured value, over the cases that are held out of calibration; inside: "
                 "measured within the prediction's P10-P90; tau: Kendall's rank correlation of plans of one model, "
                 "cluster and size; pairs: of those more than 5 % apart, predicted in the right order",
                 9);
  write_verdict(out, results);
}

void write_validation_json(std::ostream& out, std::span<const SuiteResult> results) {
  Json suites = Json::array();
  for (const SuiteResult& r : results) {
    Json cases = Json::array();
    for (std::size_t i = 0; i < r.results.size(); ++i) cases.push_back(case_json(r.suite.cases[i], r.results[i]));
    suites.push_back({{"suite", r.suite.name},
                      {"summary", r.suite.summary},
                      {"statistics", statistics_json(r.statistics)},
                      {"cases", std::move(cases)}});
  }
  out << Json{{"schema", "stepcast.validation/1"}, {"suites", std::move(suites)}}.dump(2) << '\n';
}

}  // namespace stepcast
