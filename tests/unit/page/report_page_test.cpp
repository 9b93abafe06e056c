#include "helpers/plan_cases.hpp"

#include <stepcast/page/sections.hpp>
#include <stepcast/report/report.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <sstream>

using namespace stepcast;
using namespace stepcast::test;

namespace {

const std::string attack = "</script><img src=x onerror=\"alert(1)\">'&\x01\xff";

Profile small_profile(const std::string& name = "layer") {
  Profile p = profile_of_gradients({{milliseconds(8), Bytes(4e6)}, {milliseconds(8), Bytes(4e6)}}, milliseconds(10),
                                   milliseconds(1));
  for (Layer& layer : p.layers) layer.name = name + layer.name;
  for (Tensor& tensor : p.tensors) tensor.name = name + tensor.name;
  p.model = "small" + name;
  p.batch_samples = 4;
  p.assumed = {"assumed of " + name};
  return p;
}

std::string text_of_page(const ReportPage& page) {
  std::ostringstream out;
  write_report_page(out, page);
  return out.str();
}

PreparedQuestion small_question(const std::string& name = "layer") {
  return PreparedQuestion(
      {.profile = small_profile(name), .cluster = plain_cluster(8, BytesPerSecond(1.25e8), microseconds(20))});
}

ReportPage small_page(const std::string& name = "layer") {
  ReportPageOptions options;
  options.validation = false;
  options.threads = 2;
  return report_page_of(small_question(name), {{}, "there is no trace"}, options);
}

/// The first flaw of a document: tags that do not match, attributes without quotes, text that would be a tag.
std::string flaw_of_html(const std::string& text) {
  std::vector<std::string> open;
  for (std::size_t at = 0; (at = text.find('<', at)) != std::string::npos;) {
    if (text.compare(at, 2, "<!") == 0) {
      at = text.find('>', at);
      continue;
    }
    const bool closes = text[at + 1] == '/';
    std::size_t end = at + 1 + closes;
    while (std::isalnum(static_cast<unsigned char>(text[end]))) ++end;
    const std::string name = text.substr(at + 1 + closes, end - at - 1 - closes);
    if (name.empty()) return "a bare '<' near " + text.substr(at, 40);
    bool quoted = false;
    for (; end < text.size() && (quoted || text[end] != '>'); ++end) {
      if (text[end] == '"') quoted = !quoted;
      if (!quoted && text[end] == '<') return "'<' in a tag near " + text.substr(at, 40);
      if (!quoted && text[end] == '=' && text[end + 1] != '"') return "no quotes near " + text.substr(at, 80);
    }
    const bool empty = text[end - 1] == '/' || name == "meta" || name == "br" || name == "wbr";
    if (closes) {
      if (open.empty() || open.back() != name) return "</" + name + "> closes " + (open.empty() ? "" : open.back());
      open.pop_back();
    } else if (!empty) {
      open.push_back(name);
    }
    at = end + 1;
    if (!closes && (name == "script" || name == "style")) at = text.find("</" + name + ">", at);
  }
  return open.empty() ? "" : "<" + open.back() + "> is never closed";
}

std::size_t count_of(const std::string& part, const std::string& text) {
  std::size_t n = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++n;
  return n;
}

std::vector<std::string> values_of(const std::string& attribute, const std::string& text) {
  std::vector<std::string> out;
  const std::string start = " " + attribute + "=\"";
  for (std::size_t at = 0; (at = text.find(start, at)) != std::string::npos;) {
    at += start.size();
    out.push_back(text.substr(at, text.find('"', at) - at));
  }
  return out;
}

Prediction prediction_of(const char* plan, double step_ms, double spread = 0.05) {
  Prediction p;
  p.plan = plan_spec_of(plan);
  p.iteration = milliseconds(step_ms);
  p.interval_low = milliseconds(step_ms * (1 - spread));
  p.interval_high = milliseconds(step_ms * (1 + spread));
  p.breakdown.compute = milliseconds(step_ms);
  p.bound = "compute";
  return p;
}

/// A page about DDP at 100 ms and these plans, best first.
ReportPage page_of(const std::vector<Prediction>& plans) {
  ReportPage page;
  page.profile = small_profile();
  page.cluster = plain_cluster(8, BytesPerSecond(1.25e9));
  page.ranking.baseline = prediction_of("ddp", 100);
  for (const Prediction& p : plans)
    page.ranking.exact.push_back({p, p, page.ranking.baseline.iteration / p.iteration, "settings", 8, "",
                                  p.iteration <= plans.front().interval_high});
  return page;
}

Replay replay_off_by(double error) {
  Replay r;
  r.scored = true;
  r.measured = milliseconds(100);
  r.replayed = milliseconds(100 * (1 + error));
  r.relative_error = error;
  return r;
}

/// The answer in words: what to run, what it gains, how sure that is and how far it holds.
std::string answer_sentence(const ReportPage& page) {
  std::ostringstream out;
  write_answer_section(out, page);
  std::string rest = out.str(), sentence;
  for (const std::string opening : {"<p class=\"answer\">", "</p>\n<p>"}) {
    const std::size_t start = rest.find(opening);
    if (start > rest.find("<div")) break;
    rest = rest.substr(start + opening.size());
    sentence += (sentence.empty() ? "" : " ") + rest.substr(0, rest.find("</p>"));
  }
  return sentence;
}

}  // namespace

TEST_CASE("the answer: a clear winner, with interval, gain and how far it holds") {
  ReportPage page = page_of({prediction_of("dear", 50), prediction_of("ddp", 100)});
  page.ranking.holds = Range{BytesPerSecond(1.25e8), BytesPerSecond(1.25e10), "wfbp", ""};
  const std::string text = answer_sentence(page);
  CHECK(text ==
        "Run dear: a step takes 50.00 ms (80 % interval 47.50 ms to 52.50 ms) instead of the 100.0 ms of DDP with "
        "25 MiB buckets, 2.00 times as fast; it stays best on networks of 1 Gb/s and more.");
  CHECK(probability_of_gain(page.ranking.exact[0].prediction, page.ranking.baseline) > 0.999);
}

TEST_CASE("the answer: the measured step, the baseline and the best plan stand on one scale") {
  ReportPage page = page_of({prediction_of("wfbp", 50)});
  AsTraced traced;
  traced.plan = "ddp";
  traced.measured = milliseconds(210), traced.predicted = milliseconds(200);
  page.check.as_traced = traced;
  std::ostringstream out;
  write_answer_section(out, page);
  const std::string text = out.str();
  CHECK(text.find(">as traced, ddp<") != std::string::npos);
  CHECK(text.find(">210.0 ms measured<") != std::string::npos);
  CHECK(text.find(">50.00 ms, 50.00 ms less<") != std::string::npos);
  // Bars as shares of the longest thing that is drawn: all of it, 100 of 210, 50 of 210.
  std::vector<std::string> widths;
  for (const std::string& width : values_of("width", text))
    if (width.ends_with('%') && width != "100%") widths.push_back(width);
  CHECK(widths == std::vector<std::string>{"100.000%", "47.619%", "23.810%"});
  page.changed = true;  // another job's measured step is no bar here
  std::ostringstream changed;
  write_answer_section(changed, page);
  CHECK(changed.str().find("measured<") == std::string::npos);
  page.changed = false;
  page.check.as_traced.reset();
  page.ranking.exact.front() = {page.ranking.baseline, page.ranking.baseline, 1, "settings", 8, "", true};
  std::ostringstream kept;
  write_answer_section(kept, page);
  CHECK(kept.str().find("measured<") == std::string::npos);
  CHECK(kept.str().find(" less<") == std::string::npos);
}

TEST_CASE("the ranking: plans that need other software are folded away behind those that do not") {
  ReportPage page = page_of({prediction_of("wfbp", 50), prediction_of("dear", 40), prediction_of("p3", 45)});
  for (std::size_t i = 1; i < 3; ++i) page.ranking.exact[i].elsewhere = "other software";
  const auto ranking_of = [](const ReportPage& shown) {
    std::ostringstream out;
    write_ranking_section(out, shown);
    return out.str();
  };
  const std::string text = ranking_of(page),
                    summary = "2 more plans with other software or servers; the fastest takes 40.00 ms";
  const std::size_t folded = text.find("<details>");
  REQUIRE(folded != std::string::npos);
  CHECK(text.find("<summary>" + summary + "</summary>") != std::string::npos);
  CHECK(text.find(">wfbp<") < folded);
  CHECK(text.find(">dear<") > folded);
  // By step alone all stand together.
  std::swap(page.ranking.exact[0], page.ranking.exact[1]);
  CHECK(ranking_of(page).find("<details>") == std::string::npos);
}

TEST_CASE("the answer: equals are told") {
  const std::string one = answer_sentence(page_of({prediction_of("dear", 50), prediction_of("wfbp", 50.1)}));
  CHECK(one.ends_with("wfbp is as fast as far as this answer can tell: what is simplest to run was put first."));
  const std::string two =
      answer_sentence(page_of({prediction_of("dear", 50), prediction_of("wfbp", 50.1), prediction_of("p3", 50.2)}));
  CHECK(two.find("2 other plans are as fast as far as this answer can tell, wfbp and p3:") != std::string::npos);
  // Not those beyond its interval.
  const std::string none = answer_sentence(page_of({prediction_of("dear", 50), prediction_of("wfbp", 52.6)}));
  CHECK(none.find("can tell") == std::string::npos);
}

TEST_CASE("the answer: where nothing gains, the baseline stays") {
  for (const char* best : {"ddp", "wfbp"}) {
    const std::string text = answer_sentence(page_of({prediction_of(best, 99.8), prediction_of("dear", 120)}));
    CHECK(text.starts_with("Keep DDP with 25 MiB buckets: a step takes 100.0 ms (80 % interval 95.00 ms to 105.0 ms)"));
  }
  const Prediction same = prediction_of("ddp", 100);
  CHECK(probability_of_gain(same, same) == doctest::Approx(0.5));
}

TEST_CASE("the answer: nothing can run") {
  ReportPage page = page_of({});
  page.ranking.inapplicable = {{"dear", "no ring"}};
  CHECK(answer_sentence(page) == "No plan can run on this cluster.");
  const std::string text = text_of_page(page);
  CHECK(flaw_of_html(text) == "");
  CHECK(text.find("no ring") != std::string::npos);
  page.ranking.others.push_back({prediction_of("ddp", 50), prediction_of("ddp", 50), 2, "", 8});
  CHECK(answer_sentence(page) == "No plan that leaves the arithmetic as it is can run on this cluster.");
}

TEST_CASE("the answer: a trace that is not reproduced makes it doubtful, in the sentence and right below") {
  ReportPage page = page_of({prediction_of("dear", 50)});
  page.check.ranks = {replay_off_by(0.02)};
  CHECK(answer_sentence(page).find("doubtful") == std::string::npos);
  CHECK(text_of_page(page).find("Self-check passed") != std::string::npos);
  page.check.ranks = {replay_off_by(0.3)};
  CHECK(answer_sentence(page).find("This is doubtful, because the model does not reproduce") != std::string::npos);
  const std::string text = text_of_page(page);
  CHECK(text.find("class=\"check doubtful\"") < text.find("<nav"));
  page.check = {{}, "a profile has no steps"};
  CHECK(text_of_page(page).find("a profile has no steps") != std::string::npos);
}

TEST_CASE("the page is well-formed, its links and labels lead somewhere, and every id is there once") {
  const std::string text = text_of_page(small_page());
  CHECK(flaw_of_html(text) == "");
  std::vector<std::string> ids = values_of("id", text);
  std::sort(ids.begin(), ids.end());
  CHECK(std::adjacent_find(ids.begin(), ids.end()) == ids.end());
  for (const char* attribute : {"href", "data-copy", "aria-labelledby"})
    for (const std::string& value : values_of(attribute, text)) {
      std::istringstream words(value[0] == '#' ? value.substr(1) : value);
      for (std::string id; words >> id;) {
        CAPTURE(id);
        CHECK(std::binary_search(ids.begin(), ids.end(), id));
      }
    }
  for (const char* id :
       {"answer", "ranking", "timelines", "sensitivity", "memory", "trace", "cluster", "accuracy", "about", "record"})
    CHECK(std::binary_search(ids.begin(), ids.end(), id));
  CHECK(count_of("<figure class=\"timeline\"", text) >= 1);
  CHECK(count_of("<figure class=\"sweep\"", text) == 3);
  CHECK(text.size() < 1'000'000);
}

TEST_CASE("the same input gives the same bytes, on any number of threads") {
  ReportPageOptions one;
  one.validation = false;
  one.threads = 1;
  const ReportPage alone = report_page_of(small_question(), {{}, "there is no trace"}, one);
  CHECK(text_of_page(alone) == text_of_page(small_page()));
}

TEST_CASE("names from traces are text wherever they stand") {
  ReportPage page = small_page(attack);
  page.command = "stepcast report '" + attack + "'";
  page.cluster.name = attack;
  page.cluster.provenance = {attack};
  page.check.missing = attack;
  page.profile.lateness = attack;
  page.profile.collectives = {{attack, 1, Bytes(1), Seconds(1), {}, -1, BytesSource::unknown}};
  page.ranking.inapplicable.push_back({attack, attack});
  page.ranking.exact.front().settings = attack;
  page.ranking.exact.front().prediction.warnings = {attack};
  page.ranking.exact.front().prediction.critical_path = {attack};
  const std::string text = text_of_page(page);
  CHECK(flaw_of_html(text) == "");
  CHECK(count_of("<img", text) == 0);
  CHECK(count_of("<script", text) == 2);
  CHECK(count_of("</script", text) == 2);
  CHECK(text.find("\x01") == std::string::npos);
  CHECK(text.find("\xff") == std::string::npos);
  CHECK(text.find("&lt;/script&gt;&lt;img src=x onerror=&quot;alert(1)&quot;&gt;&#39;&amp;") != std::string::npos);
  CHECK(text.find("\\u003c/script>\\u003cimg") != std::string::npos);
}

TEST_CASE("what is no UTF-8 is replaced byte by byte") {
  const std::string replaced = "\xef\xbf\xbd";
  CHECK(html("a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80z") == "a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80z");
  CHECK(html("\xc0\xaf") == replaced + replaced);                 // overlong '/'
  CHECK(html("\xed\xa0\x80") == replaced + replaced + replaced);  // a surrogate
  CHECK(html("\xe2\x82") == replaced + replaced);                 // cut off
  CHECK(html(std::string("\0\n\t", 3)) == replaced + "\n\t");
}

TEST_CASE("the page carries the record of --json, and its policy allows its own script only") {
  const ReportPage page = small_page();
  const std::string text = text_of_page(page);
  const std::string start = "<script type=\"application/json\" id=\"record\">\n";
  const std::size_t from = text.find(start) + start.size();
  std::ostringstream json;
  report_named("json")->ranking(json, {page.profile, page.cluster, page.check, page.ranking});
  CHECK(text.substr(from, text.find("</script>", from) - from) == json.str());
  const std::size_t at = text.rfind("<script>") + 8;
  const std::string script = text.substr(at, text.find("</script>", at) - at);
  CHECK(text.find("default-src 'none'") < text.find("<style>"));
  CHECK(script.starts_with("\n//"));
  // 32 bytes in base64; tests/golden/cases/report.txt computes them anew.
  const std::size_t policy = text.find("script-src '") + 12;
  CHECK(text.substr(policy, 7) == "sha256-");
  CHECK(text.find_first_of("'\"", policy) == policy + 7 + 44);
  // Nothing is fetched from elsewhere.
  CHECK(count_of(" src=", text) == 0);
  for (const std::string& target : values_of("href", text)) CHECK(target.starts_with("#"));
}

TEST_CASE("a big model's timeline is merged, and says so") {
  std::vector<Produced> gradients(4000, {microseconds(50), Bytes(4e4)});
  Profile profile = profile_of_gradients(gradients, milliseconds(100), milliseconds(1));
  ReportPage page;
  page.profile = profile;
  page.cluster = plain_cluster(4, BytesPerSecond(1.25e9), microseconds(2));
  page.ranking.baseline = prediction_of("ddp", 100);
  const Answer<DetailedTimeline> detail = detailed_timeline(profile, page.cluster, page.ranking.baseline.plan);
  REQUIRE(detail);
  page.timelines.push_back({page.ranking.baseline.plan, *detail});
  std::ostringstream out;
  write_timelines_section(out, page);
  CHECK(count_of("<rect", out.str()) < 1600);
  CHECK(out.str().find(" tasks)") != std::string::npos);
  CHECK(out.str().find("are drawn as one") != std::string::npos);
  CHECK(flaw_of_html(out.str()) == "");
}
