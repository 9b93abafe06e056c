#pragma once
// Sections: the parts of the report page, one function each, and how text gets into HTML (internal to the library).
//
// html.cpp: the frame of the page, its record, and the elements that all sections use. answer.cpp: what to run, what it
// gains and how sure that is. step_bars.cpp: what a step is made of. ranking.cpp: all plans, and those that cannot run.
// timeline_svg.cpp: the drawn timelines. sweeps.cpp: step time against bandwidth, workers and batch. input.cpp: memory,
// trace and cluster. accuracy.cpp: how the model does against measurements.
//
// asked.cpp writes the plans that were asked for by name.
// Every name comes from a trace or a file and is not to be trusted: text passes through `html`, documents through
// `json_in_html`. Lengths within pictures are shares of a width that only the browser knows (SVG percentages), so that
// the page needs no script to fit a telephone.
#include <stepcast/base/embedded.hpp>
#include <stepcast/chart/xml_text.hpp>
#include <stepcast/page/report_page.hpp>

#include <iosfwd>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stepcast {

/// What page/ holds: "style", the style sheet; "script", both scripts; and "script_hash", the source expression of a
/// Content-Security-Policy that allows exactly this script ("'sha256-...'").
[[nodiscard]] std::span<const EmbeddedFile> page_texts();

/// `text` safe between tags and in quoted attributes; what is no UTF-8, a control character or turns the direction of
/// the text is replaced.
[[nodiscard]] inline std::string html(std::string_view text) { return escaped_xml(text); }
/// A JSON document safe inside <script>: no '<' is left in it.
[[nodiscard]] std::string json_in_html(std::string_view json);
/// `share` of the width: "12.34%".
[[nodiscard]] std::string width_share(double share);
/// "<code>dear</code>".
[[nodiscard]] std::string plan_html(const Plan&);

void open_section(std::ostream&, std::string_view id, std::string_view title);
void close_section(std::ostream&);
/// A list of terms and what they are; the right-hand sides are HTML already.
using Terms = std::vector<std::pair<std::string, std::string>>;
void write_terms(std::ostream&, const Terms&);
/// Where wide content scrolls by itself, reachable by keyboard; `name` is said of it.
void open_scroller(std::ostream&, std::string_view name);
void close_scroller(std::ostream&);
/// Text to paste, with a button that copies it.
void write_to_paste(std::ostream&, std::string_view id, std::string_view name, std::string_view text);

/// What a step is made of; as wide as the page allows for `longest`.
void write_step_bar(std::ostream&, const Prediction&, Seconds longest);
/// The colours of bars, of those parts that occur.
void write_legend(std::ostream&, std::span<const Prediction* const>);
/// The pattern of exposed communication, once for all bars.
void write_hatching(std::ostream&);
/// The measured step, the baseline and the best plan as bars on one scale, with intervals. Some plan can run.
void write_steps_compared(std::ostream&, const ReportPage&);

/// How likely the best plan is the faster of the two, if the errors of both were independent of one another.
[[nodiscard]] double probability_of_gain(const Prediction& best, const Prediction& baseline);

void write_answer_section(std::ostream&, const ReportPage&);
void write_ranking_section(std::ostream&, const ReportPage&);
void write_other_plans_section(std::ostream&, const ReportPage&);
void write_asked_section(std::ostream&, const ReportPage&);
void write_rejected_section(std::ostream&, const ReportPage&);
void write_timelines_section(std::ostream&, const ReportPage&);
void write_sweeps_section(std::ostream&, const ReportPage&);
void write_memory_section(std::ostream&, const ReportPage&);
void write_trace_section(std::ostream&, const ReportPage&);
void write_cluster_section(std::ostream&, const ReportPage&);
void write_accuracy_section(std::ostream&, const ReportPage&);
void write_record_section(std::ostream&, const ReportPage&);

}  // namespace stepcast
