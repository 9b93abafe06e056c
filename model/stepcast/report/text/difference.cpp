// Text of a difference of two recordings, 80 columns: the answer, then parts, communication and layers, each with what
// it was, what it is, and whether that is told from noise.
//
//   answer      slower: 61.71 ms a step, then 66.02 ms: +7.0 %; by noise they may differ by 0.9 %
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/report/difference_report.hpp>
#include <stepcast/report/text/phrases.hpp>
#include <stepcast/report/text/table.hpp>

#include <algorithm>
#include <ostream>

namespace stepcast {
namespace {

using Align = TextTable::Align;

std::string signed_text(Seconds by) {
  if (by < Seconds(0)) return "-" + text_of(-by);
  return by > Seconds(0) ? "+" + text_of(by) : text_of(by);
}

std::string answer_text(const StepDifference& d) {
  std::string text = std::string(name_of(d.step.change)) + ": " + text_of(d.before.step) + " a step, then " +
                     text_of(d.after.step) + ": " + percent(d.after.step / d.before.step - 1, true);
  if (d.step.change == Change::cannot_tell) return text + "; one step of one of them: how much it varies is not known";
  return text + "; by noise they may differ by " + percent(d.step.doubt / d.before.step);
}

void write_changes(std::ostream& out, std::string_view title, const std::vector<ChangedPart>& parts, bool with_doubt,
                   std::size_t most = 8) {
  if (parts.empty()) return;
  std::vector<TextTable::Column> columns{
      {std::string(title), Align::flexible}, {"before", Align::right}, {"after", Align::right}, {"by", Align::right}};
  if (with_doubt) columns.push_back({"", Align::left});
  TextTable table(std::move(columns));
  for (std::size_t i = 0; i < std::min(most, parts.size()); ++i) {
    const ChangedPart& part = parts[i];
    std::vector<std::string> row{part.what, text_of(part.before), text_of(part.after), signed_text(part.by())};
    if (with_doubt) row.emplace_back(name_of(part.change));
    table.add_row(std::move(row));
  }
  out << '\n';
  table.write(out);
  if (parts.size() > most) out << std::to_string(parts.size() - most) << " more, which changed less\n";
}

}  // namespace

void write_difference_text(std::ostream& out, const StepDifference& d) {
  write_labelled(out, "answer", answer_text(d));
  if (!d.parts.empty() && (d.step.change == Change::slower || d.step.change == Change::faster))
    write_labelled(out, "most by", d.parts.front().what + ", " + signed_text(d.parts.front().by()));
  write_labelled(out, "before", d.before.source + ", " + counted(std::ssize(d.before.durations), "step"));
  write_labelled(out, "after", d.after.source + ", " + counted(std::ssize(d.after.durations), "step"));
  for (const std::string& caution : d.cautions) write_labelled(out, "CAUTION", caution);
  write_changes(out, "part of the step", d.parts, true);
  write_changes(out, "exposed communication", d.communication, false);
  write_changes(out, "layers", d.layers, false);
  if (!d.no_layers.empty()) out << '\n', write_labelled(out, "layers", "not compared: " + d.no_layers);
}

}  // namespace stepcast
