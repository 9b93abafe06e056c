// Text of an explanation, 80 columns: the answer, what ran, the split of the step with a bar for each part, what to do
// now, next and not now.
//
//   verdict     leave it: 91.3 % of it computes, and nothing beside it is worth a change
//
//   where the step goes      time   share
//   matrix products       31.2 ms  50.6 %  ####################
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/report/explanation_report.hpp>
#include <stepcast/report/text/phrases.hpp>
#include <stepcast/report/text/table.hpp>

#include <cmath>
#include <ostream>

namespace stepcast {
namespace {

using Align = TextTable::Align;

std::string ran_text(const Explanation& e) {
  const StepSplit& split = e.split();
  std::string text = e.workers > 1 ? std::to_string(e.workers) + " x " : "";
  text += split.device.empty() ? "host, which computes" : split.device;
  if (e.workers > 1 && e.ranks.size() == 1 && split.rank >= 0) text += ", of which rank " + std::to_string(split.rank);
  if (e.ranks.size() > 1) text += ", of which " + counted(std::ssize(e.ranks), "rank");
  if (!e.plan.empty()) text += "; " + e.plan + " as traced";
  return text;
}

std::string step_text(const StepSplit& split) {
  std::string text = text_of(split.step);
  if (!split.of_steps) return text + " in all: the whole recording, in which no step is to be told";
  text += ", median of " + counted(static_cast<std::int64_t>(split.measured), "step");
  if (split.measured > split.steps) text += ", " + std::to_string(split.steps) + " of them undistorted";
  return split.noise() > 0 ? text + " (they vary by " + percent(split.noise()) + ")" : text;
}

std::string bar(double share) {
  constexpr double longest = 36;
  return std::string(static_cast<std::size_t>(std::lround(share * longest)), '#');
}

void write_parts(std::ostream& out, const StepSplit& split) {
  TextTable table({{split.of_steps ? "where the step goes" : "where the recording goes"},
                   {"time", Align::right},
                   {"share", Align::right},
                   {""}});
  const auto add = [&](std::string_view words, Seconds time) {
    const double share = time / split.step;
    if (time > Seconds(0)) table.add_row({std::string(words), text_of(time), percent(share), bar(share)});
  };
  for (std::size_t p = 0; p < split_parts; ++p) {
    const auto part = SplitPart(p);
    if (part != SplitPart::copies) {
      add(words_of(part), split[part]);
      continue;
    }
    add("copies on the device", split.copies.on_device);
    add("copies from the host", split.copies.from_host);
    add("copies to the host", split.copies.to_host);
    add(words_of(part), split.other_copies());
  }
  table.write(out);
}

void write_communication(std::ostream& out, const StepSplit& split) {
  if (split.communication.empty()) return;
  TextTable table({{"communication", Align::flexible},
                   {"times", Align::right},
                   {"bytes", Align::right},
                   {"exposed", Align::right},
                   {"hidden", Align::right}});
  for (const SplitCommunication& c : split.communication)
    table.add_row({std::string(words_of(c.role)) + ", " + c.operation, fixed(c.count, c.count < 10 ? 1 : 0),
                   c.size > Bytes(0) ? text_of(c.size) : "", text_of(c.exposed), text_of(c.hidden)});
  out << '\n';
  table.write(out);
}

void write_ranks_of(std::ostream& out, const Explanation& e) {
  if (e.ranks.size() < 2) return;
  TextTable table({{"rank", Align::right},
                   {"step", Align::right},
                   {"compute", Align::right},
                   {"communication", Align::right},
                   {"late ranks", Align::right},
                   {"input", Align::right},
                   {"host, idle", Align::right}});
  for (const StepSplit& s : e.ranks)
    table.add_row({std::to_string(s.rank), text_of(s.step), text_of(s.compute()), text_of(s[SplitPart::communication]),
                   text_of(s[SplitPart::late_ranks]), text_of(s[SplitPart::input]),
                   text_of(s[SplitPart::host] + s[SplitPart::idle])});
  out << '\n';
  table.write(out);
}

void write_levers(std::ostream& out, std::string_view label, const std::vector<Lever>& levers, bool with_action) {
  for (const Lever& lever : levers)
    write_labelled(out, label,
                   std::string(lever.what) + ": " + (with_action ? lever.action + "; " : std::string()) + lever.why);
}

}  // namespace

void write_explanation_text(std::ostream& out, const Explanation& e) {
  write_labelled(out, "verdict", std::string(name_of(e.verdict)) + ": " + e.answer);
  write_labelled(out, "ran", ran_text(e));
  write_labelled(out, "step", step_text(e.split()));
  if (!e.links.empty()) write_labelled(out, "links", e.links);
  if (!e.library.empty()) write_labelled(out, "library", e.library);
  if (!e.check.ranks.empty()) write_labelled(out, "replay", replay_text(e.check));
  if (e.without_communication)
    write_labelled(out, "without", text_of(*e.without_communication) + " if its collectives took no time, as rebuilt");
  if (!e.check.lateness.empty()) write_labelled(out, "ranks", e.check.lateness);
  if (!e.settings.empty() && !e.check.reserve().empty()) write_labelled(out, "CAUTION", e.check.reserve());
  out << '\n';
  write_parts(out, e.split());
  write_communication(out, e.split());
  write_ranks_of(out, e);
  out << '\n';
  write_levers(out, "now", e.now, true);
  write_levers(out, "next", e.next, true);
  write_levers(out, "not now", e.not_now, false);
  for (const std::string& more : e.record) write_labelled(out, "record", more);
  if (!e.split().assumed.empty()) write_labelled(out, "assumed", e.split().assumed);
  if (!e.settings.empty()) out << '\n', write_settings(out, e.settings);
}

}  // namespace stepcast
