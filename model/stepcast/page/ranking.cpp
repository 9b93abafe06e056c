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

struct Part {
  const char* css;
  const char* name;
  Seconds Breakdown::*time;
};
/// In the order in which a bar stacks them; hidden communication is drawn beside the stack.
constexpr Part parts[] = {{"compute", "compute", &Breakdown::compute},
                          {"codec", "encoding and decoding", &Breakdown::codec},
                          {"input", "waiting for input", &Breakdown::input_stall},
                          {"exposed", "exposed communication", &Breakdown::exposed_communication},
                          {"idle", "idle", &Breakdown::idle}};

std::string bar_text(const Prediction& p) {
  std::string text;
  for (const Part& part : parts)
    if (p.breakdown.*part.time > Seconds(0))
      add_to_list(text, std::string(part.name) + " " + text_of(p.breakdown.*part.time));
  return text + "; hidden communication " + text_of(p.breakdown.hidden_communication);
}

/// Stacked parts of the step, and below them, outlined, the communication that runs under compute.
void write_bar(std::ostream& out, const Prediction& p, Seconds longest) {
  out << "<svg class=\"bar\" width=\"100%\" height=\"24\" role=\"img\" aria-label=\"" << html(bar_text(p)) << "\">";
  double at = 0, compute_end = 0;
  for (const Part& part : parts) {
    const double share = p.breakdown.*part.time / longest;
    if (!(share > 0)) continue;
    const auto rectangle = [&](const char* css) {
      out << "<rect class=\"" << css << "\" x=\"" << width_share(at) << "\" y=\"1\" width=\"" << width_share(share)
          << "\" height=\"14\"/>";
    };
    rectangle(part.css);
    if (part.time == &Breakdown::exposed_communication) rectangle("hatched");
    at += share;
    if (part.time == &Breakdown::compute) compute_end = at;
  }
  const double hidden = p.breakdown.hidden_communication / longest;
  if (hidden > 0)
    out << "<rect class=\"hidden-part\" x=\"" << width_share(std::max(0.0, compute_end - hidden))
        << "\" y=\"17\" width=\"" << width_share(hidden) << "\" height=\"5\"/>";
  out << "</svg>";
}

void write_row(std::ostream& out, const RankedPlan& plan, std::size_t number, Seconds longest, bool is_baseline) {
  const Prediction& p = plan.prediction;
  out << "<tr><td>" << number << "</td><th scope=\"row\">" << plan_html(p.plan);
  if (!plan.is_at_hand()) out << "<small>needs " << html(plan.elsewhere) << "</small>";
  if (is_baseline) out << "<small>the baseline</small>";
  out << "</th><td>" << html(text_of(p.iteration))
      << (p.run ? ", " + html(duration_text(p.run->duration)) + " in all" : std::string()) << "</td><td>"
      << fixed(plan.speed_up, 2) << "&times;</td><td class=\"bars\">";
  write_bar(out, p, longest);
  out << "</td><td>" << html(text_of(p.breakdown.exposed_communication)) << "</td><td>"
      << html(text_of(p.breakdown.hidden_communication)) << "</td><td>" << html(interval_text(p)) << "</td><td>"
      << plan.machines << "</td><td class=\"words\">" << html(short_bound(p.bound)) << "</td></tr>\n";
}

void write_table(std::ostream& out, const std::vector<RankedPlan>& plans, const Prediction& baseline,
                 const std::string& caption) {
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
  for (std::size_t i = 0; i < plans.size(); ++i)
    write_row(out, plans[i], i + 1, longest, text_of(plans[i].prediction.plan) == text_of(baseline.plan));
  out << "</tbody>\n</table>\n";
  close_scroller(out);
}

/// Only the parts that occur.
void write_legend(std::ostream& out, const std::vector<RankedPlan>& plans) {
  out << "<ul class=\"legend\">\n";
  const auto entry = [&](const char* css, const char* name) {
    out << "<li><svg width=\"22\" height=\"14\" aria-hidden=\"true\"><rect class=\"" << css
        << "\" x=\"1\" y=\"1\" width=\"20\" height=\"12\"/>";
    if (std::string_view(css) == "exposed")
      out << "<rect class=\"hatched\" x=\"1\" y=\"1\" width=\"20\" height=\"12\"/>";
    out << "</svg> " << name << "</li>\n";
  };
  for (const Part& part : parts)
    if (std::ranges::any_of(plans, [&](const RankedPlan& p) { return p.prediction.breakdown.*part.time > Seconds(0); }))
      entry(part.css, part.name);
  entry("hidden-part", "hidden communication, under compute");
  out << "</ul>\n";
}

/// The pattern of exposed communication, once for all bars.
void write_hatching(std::ostream& out) {
  out << "<svg class=\"unseen\" width=\"0\" height=\"0\" aria-hidden=\"true\"><defs><pattern id=\"hatch\" width=\"6\" "
         "height=\"6\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><rect class=\"hatch-line\" "
         "width=\"2\" height=\"6\"/></pattern></defs></svg>\n";
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
  write_hatching(out);
  if (plans.empty()) return;
  open_section(out, "ranking", "Ranking");
  out << "<p>Plans that leave the arithmetic as it is, with their options tuned: first what PyTorch runs as it is, "
         "then "
         "what needs other software or servers, each by step. Of plans that cannot be told from the fastest the "
         "simplest "
         "one comes first. Gain is over "
      << html(baseline_text(page.ranking.baseline)) << ", " << html(text_of(page.ranking.baseline.iteration))
      << " a step.</p>\n";
  write_legend(out, plans);
  write_table(out, plans, page.ranking.baseline, "Exact plans by what they need and predicted step time");
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
  write_legend(out, page.ranking.others);
  write_table(out, page.ranking.others, page.ranking.baseline,
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
