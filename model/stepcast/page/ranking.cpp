// The plans of a report page: ranked, with what a step of each is made of; those that change the arithmetic apart;
// those that cannot run.
#include <stepcast/base/statistics.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/page/sections.hpp>
#include <stepcast/report/text/phrases.hpp>

#include <algorithm>
#include <ostream>
#include <set>

namespace stepcast {
namespace {

void write_row(std::ostream& out, const RankedPlan& plan, std::size_t number, Seconds longest, bool is_baseline) {
  const Prediction& p = plan.prediction;
  out << "<tr><td>" << number << "</td><th scope=\"row\">" << plan_html(p.plan);
  if (!plan.is_at_hand()) out << "<small>needs " << html(plan.elsewhere) << "</small>";
  if (is_baseline) out << "<small>the baseline</small>";
  out << "</th><td>" << html(text_of(p.iteration))
      << (p.run ? ", " + html(duration_text(p.run->duration)) + " in all" : std::string()) << "</td><td>"
      << fixed(plan.speed_up, 2) << "&times;</td><td class=\"bars\">";
  write_step_bar(out, p, longest);
  out << "</td><td>" << html(text_of(p.breakdown.exposed_communication)) << "</td><td>"
      << html(text_of(p.breakdown.hidden_communication)) << "</td><td>" << html(interval_text(p)) << "</td><td>"
      << plan.machines << "</td><td class=\"words\">" << html(short_bound(p.bound)) << "</td></tr>\n";
}

/// Plans `first` to `last`, without the last, on the scale of all of them.
void write_table(std::ostream& out, const std::vector<RankedPlan>& plans, std::size_t first, std::size_t last,
                 const Prediction& baseline, const std::string& caption) {
  Seconds longest = baseline.iteration;
  for (const RankedPlan& plan : plans) longest = std::max(longest, plan.prediction.iteration);
  open_scroller(out, caption);
  out << "<table class=\"ranking\">\n<caption>" << caption
      << "</caption>\n<thead><tr><th scope=\"col\">#</th><th scope=\"col\">plan</th><th scope=\"col\">step</th>"
         "<th scope=\"col\">gain</th><th scope=\"col\" class=\"bars\">what a step is made of</th>"
         "<th scope=\"col\">exposed</th><th scope=\"col\">hidden</th>"
         "<th scope=\"col\">80 % interval</th><th scope=\"col\">machines</th><th scope=\"col\" "
         "class=\"words\">bound</th>"
         "</tr></thead>\n<tbody>\n";
  for (std::size_t i = first; i < last; ++i)
    write_row(out, plans[i], i + 1, longest, text_of(plans[i].prediction.plan) == text_of(baseline.plan));
  out << "</tbody>\n</table>\n";
  close_scroller(out);
}

void write_legend_of(std::ostream& out, const std::vector<RankedPlan>& plans) {
  std::vector<const Prediction*> steps;
  for (const RankedPlan& plan : plans) steps.push_back(&plan.prediction);
  write_legend(out, steps);
}

void write_cautions(std::ostream& out, const std::vector<RankedPlan>& plans) {
  std::set<std::pair<std::string_view, std::string_view>> cautions;
  for (const RankedPlan& plan : plans) {
    const PlanSpec& spec = plan.prediction.plan;
    if (!spec.strategy->caution.empty()) cautions.emplace(spec.strategy->name, spec.strategy->caution);
    for (const ModifierSpec& m : spec.modifiers)
      if (!m.modifier->caution.empty()) cautions.emplace(m.modifier->name, m.modifier->caution);
  }
  if (cautions.empty()) return;
  out << "<h3>What is known to go wrong</h3>\n<dl>\n";
  for (const auto& [name, caution] : cautions)
    out << "<div><dt><code>" << html(name) << "</code></dt><dd>" << html(caution) << "</dd></div>\n";
  out << "</dl>\n";
}

}  // namespace

void write_ranking_section(std::ostream& out, const ReportPage& page) {
  const std::vector<RankedPlan>& plans = page.ranking.exact;
  if (plans.empty()) return;
  open_section(out, "ranking", "Ranking");
  // What PyTorch runs stands first, unless a ranking by step alone was asked for; then all is one table.
  const auto elsewhere = std::ranges::find_if(plans, [](const RankedPlan& plan) { return !plan.is_at_hand(); });
  const bool apart = elsewhere != plans.begin() &&
                     std::all_of(elsewhere, plans.end(), [](const RankedPlan& plan) { return !plan.is_at_hand(); });
  const auto here = apart ? static_cast<std::size_t>(elsewhere - plans.begin()) : plans.size();
  out << "<p>Plans that leave the arithmetic as it is, with their options tuned"
      << (apart ? ": what PyTorch runs as it is, by step" : ", by step")
      << ". Of plans that cannot be told from the fastest the simplest one comes first. Gain is over "
      << html(baseline_text(page.ranking.baseline)) << ", " << html(text_of(page.ranking.baseline.iteration))
      << " a step.</p>\n";
  write_legend_of(out, plans);
  write_table(out, plans, 0, here, page.ranking.baseline, "Exact plans by predicted step time");
  if (here < plans.size()) {
    const auto fastest = std::ranges::min_element(elsewhere, plans.end(), {},
                                                  [](const RankedPlan& plan) { return plan.prediction.iteration; });
    out << "<details>\n<summary>" << counted(static_cast<std::int64_t>(plans.size() - here), "more plan")
        << " with other software or servers; the fastest takes " << html(text_of(fastest->prediction.iteration))
        << "</summary>\n";
    write_table(out, plans, here, plans.size(), page.ranking.baseline,
                "Exact plans that need other software or servers, by predicted step time");
    out << "</details>\n";
  }
  constexpr std::size_t shown = 3;
  for (std::size_t i = 1; i < std::min(shown, plans.size()); ++i) {
    if (plans[i].settings.empty() || plans[i].speed_up < 1 + indifference) continue;
    const std::string id = "settings-" + std::to_string(i + 1);
    out << "<h3>Settings of " << plan_html(plans[i].prediction.plan) << "</h3>\n";
    write_to_paste(out, id, "settings of " + text_of(plans[i].prediction.plan), plans[i].settings);
  }
  close_section(out);
}

void write_other_plans_section(std::ostream& out, const ReportPage& page) {
  if (page.ranking.others.empty()) return;
  open_section(out, "others", "Plans that change the arithmetic");
  out << "<p>They drop, delay or round what is sent, and so their steps are short; what they cost in accuracy and in "
         "the "
         "number of steps to train is not predicted.</p>\n";
  write_legend_of(out, page.ranking.others);
  write_table(out, page.ranking.others, 0, page.ranking.others.size(), page.ranking.baseline,
              "Lossy, stale and periodic plans by predicted step time");
  write_cautions(out, page.ranking.others);
  close_section(out);
}

void write_rejected_section(std::ostream& out, const ReportPage& page) {
  if (page.ranking.inapplicable.empty()) return;
  open_section(out, "rejected", "Plans that cannot run");
  open_scroller(out, "Plans that cannot run here, and why");
  out << "<table class=\"plain\">\n<caption>Plans that cannot run here, and why</caption>\n<thead><tr><th "
         "scope=\"col\">plan</th><th scope=\"col\" class=\"words\">because</th></tr></thead>\n<tbody>\n";
  for (const RejectedPlan& plan : page.ranking.inapplicable)
    out << "<tr><th scope=\"row\"><code>" << html(plan.plan) << "</code></th><td class=\"words\">" << html(plan.reason)
        << "</td></tr>\n";
  out << "</tbody>\n</table>\n";
  close_scroller(out);
  close_section(out);
}

}  // namespace stepcast
