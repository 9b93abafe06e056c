// The report page as HTML: the frame, and how text gets into it safely.
#include <stepcast/base/words.hpp>
#include <stepcast/page/sections.hpp>
#include <stepcast/report/report.hpp>

#include <algorithm>
#include <ostream>
#include <sstream>

namespace stepcast {
namespace {

std::string_view page_text(std::string_view name) {
  const auto files = page_texts();
  const auto found = std::ranges::find(files, name, &EmbeddedFile::name);
  return found == files.end() ? std::string_view() : found->text;
}

void write_head(std::ostream& out, const ReportPage& page) {
  const std::string model = page.profile.model.empty() ? "unnamed model" : page.profile.model;
  out << "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
         "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; base-uri 'none'; "
         "form-action 'none'; style-src 'unsafe-inline'; script-src "
      << page_text("script_hash")
      << "\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
         "<meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"generator\" content=\"stepcast\">\n<title>"
      << html(model) << " on " << counted(page.cluster.workers(), "worker") << " - stepcast</title>\n<style>\n"
      << page_text("style") << "</style>\n</head>\n";
}

void write_contents(std::ostream& out, const ReportPage& page) {
  const Ranking& ranking = page.ranking;
  const auto link = [&](bool there, std::string_view id, std::string_view title) {
    if (there) out << "<li><a href=\"#" << id << "\">" << title << "</a></li>\n";
  };
  out << "<nav aria-label=\"Contents\">\n<ul>\n";
  link(!ranking.exact.empty(), "ranking", "Ranking");
  link(!ranking.others.empty(), "others", "Plans that change the arithmetic");
  link(page.recorded || !page.timelines.empty(), "timelines", "Timelines");
  link(!page.sweeps.empty(), "sensitivity", "Sensitivity");
  link(true, "memory", "Memory");
  link(true, "trace", "Trace");
  link(true, "cluster", "Cluster");
  link(!ranking.inapplicable.empty(), "rejected", "Plans that cannot run");
  link(true, "accuracy", "Accuracy");
  link(true, "about", "Record");
  out << "</ul>\n</nav>\n";
}

}  // namespace

std::string json_in_html(std::string_view json) {
  // '<' occurs in strings only, where \u003c is the same; without it there is neither </script> nor <!--.
  std::string out;
  out.reserve(json.size());
  for (const char c : json)
    if (c == '<') out += "\\u003c";
    else out += c;
  return out;
}

std::string width_share(double share) { return fixed(100 * share, 3) + "%"; }

std::string plan_html(const Plan& plan) {
  // Where a narrow column may break it.
  std::string out = "<code>";
  for (const char c : html(text_of(plan))) {
    if (c == '+') out += "<wbr>";
    out += c;
    if (c == '(' || c == '_') out += "<wbr>";
  }
  return out + "</code>";
}

void open_section(std::ostream& out, std::string_view id, std::string_view title) {
  out << "<section id=\"" << id << "\" aria-labelledby=\"" << id << "-title\">\n<h2 id=\"" << id << "-title\">" << title
      << "</h2>\n";
}
void close_section(std::ostream& out) { out << "</section>\n"; }

void write_terms(std::ostream& out, const Terms& terms) {
  out << "<dl>\n";
  for (const auto& [term, meaning] : terms)
    out << "<div><dt>" << html(term) << "</dt><dd>" << meaning << "</dd></div>\n";
  out << "</dl>\n";
}

void open_scroller(std::ostream& out, std::string_view name) {
  out << "<div class=\"scroller\" tabindex=\"0\" role=\"region\" aria-label=\"" << html(name) << "\">\n";
}
void close_scroller(std::ostream& out) { out << "</div>\n"; }

void write_to_paste(std::ostream& out, std::string_view id, std::string_view name, std::string_view text) {
  out << "<div class=\"paste\">\n<pre id=\"" << id << "\" tabindex=\"0\" role=\"region\" aria-label=\"" << html(name)
      << "\"><code>" << html(text) << "</code></pre>\n<button type=\"button\" class=\"copy\" data-copy=\"" << id
      << "\" hidden>Copy<span class=\"unseen\"> " << html(name) << "</span></button>\n</div>\n";
}

void write_record_section(std::ostream& out, const ReportPage& page) {
  open_section(out, "about", "Record");
  if (!page.command.empty()) {
    out << "<p>This page was made by</p>\n";
    write_to_paste(out, "command", "command", page.command);
  }
  std::ostringstream record;
  report_named("json")->ranking(record, {page.profile, page.cluster, page.check, page.ranking});
  const std::string json = record.str();
  out << "<p>It carries the record that <code>stepcast recommend --json</code> writes of the same question, for "
         "programs: the element <code>#record</code>, "
      << html(std::to_string(json.size() / 1024 + 1))
      << " KiB of JSON (schema <code>stepcast.ranking/1</code>).</p>\n"
         "<script type=\"application/json\" id=\"record\">\n"
      << json_in_html(json) << "</script>\n";
  close_section(out);
}

void write_report_page(std::ostream& out, const ReportPage& page) {
  write_head(out, page);
  out << "<body>\n<a class=\"skip\" href=\"#answer\">Skip to the answer</a>\n<header>\n<p class=\"kind\">stepcast "
         "report</p>\n<h1>"
      << html(page.profile.model.empty() ? "Unnamed model" : page.profile.model) << " <span>on "
      << counted(page.cluster.workers(), "worker") << "</span></h1>\n</header>\n";
  out << "<main>\n";
  write_answer_section(out, page);
  write_contents(out, page);
  write_ranking_section(out, page);
  write_asked_section(out, page);
  write_other_plans_section(out, page);
  write_timelines_section(out, page);
  write_sweeps_section(out, page);
  write_memory_section(out, page);
  write_trace_section(out, page);
  write_cluster_section(out, page);
  write_rejected_section(out, page);
  write_accuracy_section(out, page);
  write_record_section(out, page);
  out << "</main>\n<footer><p>Made by stepcast: predictions from a profiler trace, not measurements. Times are those "
         "of "
         "the mean step in the steady state.</p></footer>\n<script>"
      << page_text("script") << "</script>\n</body>\n</html>\n";
}

}  // namespace stepcast
