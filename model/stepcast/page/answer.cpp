// The answer of a report page: one sentence, how sure it is, what to paste, and how well the trace is understood.
#include <stepcast/base/statistics.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/page/sections.hpp>
#include <stepcast/report/text/phrases.hpp>

#include <algorithm>
#include <cmath>
#include <ostream>

namespace stepcast {
namespace {

bool are_equal(double ratio) { return ratio < 1 + indifference && ratio > 1 / (1 + indifference); }

/// "it stays best on networks of 816.5 Mb/s and more", or as good as the best as far as the answer can tell.
std::string holding_text(const Range& range) {
  const std::string low = text_of(range.low), high = text_of(range.high);
  const std::string stays =
      range.tolerance > indifference ? "it stays within " + percent(range.tolerance) + " of the best" : "it stays best";
  const std::string what(range.what());
  if (!range.below.empty() && !range.above.empty()) return stays + " on " + what + "s of " + low + " to " + high;
  if (!range.below.empty()) return stays + " on " + what + "s of " + low + " and more";
  if (!range.above.empty()) return stays + " on " + what + "s of up to " + high;
  return stays + " on every " + what + " that was tried, " + low + " to " + high;
}

/// The plans that this answer cannot tell from the best one, apart from it and from the baseline.
std::vector<std::string> equals_of_best(const Ranking& ranking) {
  std::vector<std::string> names;
  const std::string baseline = text_of(ranking.baseline.plan);
  for (const RankedPlan& plan : ranking.exact) {
    const std::string name = text_of(plan.prediction.plan);
    const bool equal = plan.is_at_hand() && plan.as_good_as_any;
    if (&plan != &ranking.exact.front() && equal && name != baseline) names.push_back(name);
  }
  return names;
}

std::string equals_sentence(const std::vector<std::string>& names) {
  if (names.empty()) return {};
  std::string text = names.size() == 1 ? names[0] + " is" : counted(std::ssize(names), "other plan") + " are";
  text += " as fast as far as this answer can tell";
  if (names.size() > 1) { text += ", " + names[0] + (names.size() == 2 ? " and " + names[1] : " first among them"); }
  return text + ": what is simplest to run was put first.";
}

std::string gain_words(const RankedPlan& best, const Prediction& baseline) {
  return "instead of the " + text_of(baseline.iteration) + " of " + baseline_text(baseline) + ", " +
         fixed(best.speed_up, 2) + " times as fast";
}

std::string keep_sentence(const ReportPage& page) {
  const RankedPlan& best = page.ranking.exact.front();
  const Prediction& baseline = page.ranking.baseline;
  std::string text = "Keep " + baseline_text(baseline) + ": a step takes " + text_of(baseline.iteration) +
                     " (80 % interval " + interval_text(baseline) +
                     "), and no plan that leaves the arithmetic as it is and needs nothing else gains more than " +
                     (equals_of_best(page.ranking).empty() ? "0.5 %" : "this answer can tell");
  if (page.ranking.holds && text_of(best.prediction.plan) == text_of(baseline.plan))
    text += "; " + holding_text(*page.ranking.holds);
  return text + ".";
}

std::string run_sentence(const ReportPage& page) {
  const RankedPlan& best = page.ranking.exact.front();
  std::string text = "Run " + text_of(best.prediction.plan) + ": a step takes " + text_of(best.prediction.iteration) +
                     " (80 % interval " + interval_text(best.prediction) + ") " +
                     gain_words(best, page.ranking.baseline);
  if (page.ranking.holds) text += "; " + holding_text(*page.ranking.holds);
  return text + ".";
}

/// The best plan that needs neither another framework nor more machines, where it is not the best of all.
const RankedPlan* simplest_of(const Ranking& ranking) {
  const auto needs_nothing = [](const RankedPlan& p) { return requirements_of(p.prediction.plan).empty(); };
  const auto simplest = std::ranges::find_if(ranking.exact, needs_nothing);
  return simplest == ranking.exact.begin() || simplest == ranking.exact.end() ? nullptr : &*simplest;
}

std::string certainty_text(double probability) {
  return probability > 0.99 ? "more than 99 %" : fixed(100 * probability, 0) + " %";
}

Terms facts_of(const ReportPage& page) {
  const Ranking& ranking = page.ranking;
  const RankedPlan& best = ranking.exact.front();
  const Prediction& p = best.prediction;
  Terms facts;
  if (best.speed_up >= 1 + indifference)
    facts.emplace_back("certainty", "faster than the baseline with a probability of " +
                                        certainty_text(probability_of_gain(p, ranking.baseline)) +
                                        ", if the errors of both predictions were independent; they share most "
                                        "causes, so that it is rather more");
  if (p.run) facts.emplace_back("run", html(run_text(*p.run)));
  if (best.standard.iteration > p.iteration)
    facts.emplace_back("tuning", "with its default options " + html(text_of(best.standard.iteration)));
  if (p.throughput_samples_per_s > 0)
    facts.emplace_back("throughput", fixed(p.throughput_samples_per_s, 1) + " samples/s on all workers");
  facts.emplace_back("bound", html(p.bound));
  if (const RankedPlan* simplest = simplest_of(ranking)) {
    const double slower = simplest->prediction.iteration / p.iteration - 1;
    facts.emplace_back("or simply", plan_html(simplest->prediction.plan) + ", " +
                                        html(text_of(simplest->prediction.iteration)) + ", " +
                                        (slower < indifference ? "as fast" : percent(slower) + " slower") +
                                        ": needs no further software or machines");
  }
  if (const std::optional<OtherCollective>& other = ranking.other_collective) {
    const Prediction &faster = other->plan.prediction, &instead = other->instead.prediction;
    facts.emplace_back("also try", plan_html(faster.plan) + ", " + html(text_of(faster.iteration)) +
                                       ", if the library can be set to that collective: " +
                                       percent(1 - faster.iteration / instead.iteration) + " less than " +
                                       plan_html(instead.plan) + " over " + html(page.cluster.all_reduce));
  }
  if (const std::optional<RankedPlan>& halves = ranking.halves)
    facts.emplace_back("also try", plan_html(halves->prediction.plan) + ", " +
                                       html(text_of(halves->prediction.iteration)) +
                                       ": gradients travel in two bytes, which rounds them");
  if (const std::string buffers = buffers_text(page.profile); !buffers.empty())
    facts.emplace_back("buffers", html(buffers));
  if (ranking.holds && !ranking.holds->below.empty())
    facts.emplace_back("below " + text_of(ranking.holds->low),
                       "<code>" + html(ranking.holds->below) + "</code> is better");
  if (ranking.holds && !ranking.holds->above.empty())
    facts.emplace_back("above " + text_of(ranking.holds->high),
                       "<code>" + html(ranking.holds->above) + "</code> is better");
  if (p.stragglers)
    facts.emplace_back("stragglers",
                       html(p.stragglers->description) + "; without them " + html(text_of(p.stragglers->without)));
  for (const std::string& warning : p.warnings) facts.emplace_back("note", html(warning));
  return facts;
}

/// Where the weights, gradients and activations of a worker are more than its device holds.
std::string memory_caution(const ReportPage& page) {
  const Bytes needed = page.profile.activation_memory + 2 * page.profile.gradient_size();
  const Bytes cap = page.cluster.device_memory;
  if (cap <= Bytes(0) || needed <= cap) return {};
  return "These plans do not fit: a worker needs " + text_of(needed) + " and a device has " + text_of(cap) +
         "; 'stepcast recommend --layouts' says how to divide the model";
}

void write_check(std::ostream& out, const ReportPage& page) {
  const std::string caution = page.check.caution();
  const bool known = page.check.worst() != nullptr;
  out << "<div class=\"check" << (caution.empty() && memory_caution(page).empty() ? "" : " doubtful")
      << "\">\n<p><strong>"
      << (!caution.empty() ? "Caution"
          : known          ? "Self-check passed"
                           : "Self-check not possible")
      << ".</strong> ";
  if (!caution.empty()) out << "This advice is doubtful: " << html(caution) << ". ";
  std::string found = replay_text(page.check);
  if (!found.empty()) found[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(found[0])));
  out << html(found) << ".</p>\n";
  if (page.check.as_traced) {
    const std::string mild = page.check.reserve();
    out << "<p>The job as it was traced, " << html(as_traced_text(*page.check.as_traced)) << '.'
        << (mild.empty() ? "" : " Caution: " + html(mild) + ".") << "</p>\n";
  }
  if (const std::string caution_of_memory = memory_caution(page); !caution_of_memory.empty())
    out << "<p><strong>" << html(caution_of_memory) << ".</strong></p>\n";
  if (!page.profile.lateness.empty()) out << "<p>" << html(page.profile.lateness) << "</p>\n";
  out << "</div>\n";
}

/// No plan stands for the traced job: nothing is compared with it.
bool is_alone(const ReportPage& page) {
  const std::vector<RankedPlan>& plans = page.ranking.exact;
  return plans.size() == 1 && page.check.is_recorded(plans.front().prediction.plan);
}

std::string alone_sentence(const Prediction& p) {
  return "No plan describes the traced job, so that none can be compared with it; as it was recorded it takes " +
         text_of(p.iteration) + " a step on this cluster (80 % interval " + interval_text(p) + "), of which " +
         text_of(p.breakdown.exposed_communication) + " exposed communication.";
}

bool keeps_baseline(const Ranking& ranking) { return are_equal(ranking.exact.front().speed_up); }

std::string lead_of_answer(const ReportPage& page) {
  const Ranking& ranking = page.ranking;
  if (ranking.exact.empty())
    return ranking.others.empty() ? "No plan can run on this cluster."
                                  : "No plan that leaves the arithmetic as it is can run on this cluster.";
  if (is_alone(page)) return alone_sentence(ranking.exact.front().prediction);
  return keeps_baseline(ranking) ? keep_sentence(page) : run_sentence(page);
}

/// What belongs to the answer but is no part of its one sentence.
std::string more_of_answer(const ReportPage& page) {
  if (!page.check.caution().empty()) return "This is doubtful, because " + page.check.caution() + ".";
  if (page.ranking.exact.empty() || keeps_baseline(page.ranking)) return {};
  return equals_sentence(equals_of_best(page.ranking));
}

}  // namespace

double probability_of_gain(const Prediction& best, const Prediction& baseline) {
  const auto deviation = [](const Prediction& p) {
    return (p.interval_high - p.interval_low).value() / (2 * normal_p90);
  };
  const double spread = std::hypot(deviation(best), deviation(baseline));
  const double gain = (baseline.iteration - best.iteration).value();
  if (spread <= 0) return gain > 0 ? 1 : gain < 0 ? 0 : 0.5;
  return 0.5 * std::erfc(-gain / spread / std::sqrt(2.0));
}

void write_answer_section(std::ostream& out, const ReportPage& page) {
  out << "<section id=\"answer\" aria-label=\"Answer\">\n<p class=\"answer\">" << html(lead_of_answer(page))
      << "</p>\n";
  if (const std::string more = more_of_answer(page); !more.empty()) out << "<p>" << html(more) << "</p>\n";
  write_hatching(out);
  if (!page.ranking.exact.empty()) write_steps_compared(out, page);
  write_check(out, page);
  if (!page.ranking.exact.empty()) {
    write_terms(out, facts_of(page));
    const RankedPlan& best = page.ranking.exact.front();
    if (!best.settings.empty()) {
      out << "<h2>Settings</h2>\n<p>To paste into the training script, for " << plan_html(best.prediction.plan)
          << ":</p>\n";
      write_to_paste(out, "settings-1", "settings", best.settings);
    }
  }
  close_section(out);
}

}  // namespace stepcast
