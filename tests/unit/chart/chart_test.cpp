#include <stepcast/chart/chart.hpp>
#include <stepcast/chart/scale.hpp>
#include <stepcast/chart/xml_text.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>

using namespace stepcast;

namespace {

std::string svg_of(const Chart& chart, std::string_view id = "chart") {
  std::ostringstream out;
  write_svg(out, chart, id);
  return out.str();
}

/// Why a text is no well-formed XML: tags in pairs, attributes quoted and once each, no naked & or <; empty if it is.
std::string flaw_of(std::string_view xml) {
  std::vector<std::string> open;
  for (std::size_t at = 0; at < xml.size();) {
    if (xml[at] == '&') {
      const std::size_t end = xml.find(';', at);
      const std::string_view name = xml.substr(at + 1, end - at - 1);
      const std::set<std::string_view> known{"amp", "lt", "gt", "quot", "#39"};
      if (!known.count(name)) return "an unknown entity at " + std::to_string(at);
      at = end + 1;
    } else if (xml[at] == '<') {
      const std::size_t end = xml.find('>', at);
      if (end == std::string_view::npos) return "a tag that does not end";
      std::string_view tag = xml.substr(at + 1, end - at - 1);
      at = end + 1;
      if (tag.front() == '/') {
        if (open.empty() || open.back() != tag.substr(1)) return "an end tag too many: " + std::string(tag);
        open.pop_back();
        continue;
      }
      const bool empty = tag.back() == '/';
      if (empty) tag.remove_suffix(1);
      const std::size_t space = tag.find(' ');
      if (!empty) open.emplace_back(tag.substr(0, space));
      std::set<std::string> names;
      std::string_view rest = space == std::string_view::npos ? std::string_view() : tag.substr(space + 1);
      while (!rest.empty()) {
        const std::size_t equals = rest.find("=\"");
        if (equals == std::string_view::npos) return "an attribute without a value: " + std::string(rest);
        if (!names.emplace(rest.substr(0, equals)).second) return "an attribute twice: " + std::string(tag);
        const std::size_t quote = rest.find('"', equals + 2);
        if (quote == std::string_view::npos) return "a value that does not end";
        if (rest.substr(equals + 2, quote - equals - 2).find('<') != std::string_view::npos) return "a < in a value";
        rest.remove_prefix(quote + 1);
        if (!rest.empty() && rest.front() != ' ') return "attributes that touch: " + std::string(tag);
        if (!rest.empty()) rest.remove_prefix(1);
      }
    } else {
      ++at;
    }
  }
  return open.empty() ? "" : "a tag that stays open: " + open.back();
}

std::size_t count_of(const std::string& text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++count;
  return count;
}

Chart chart_of(std::size_t curves) {
  Chart chart{"Step time", "for the test", {"bandwidth", true}, {"time"}, {}};
  for (std::size_t c = 0; c < curves; ++c) {
    ChartCurve curve{"plan " + std::to_string(c), {1, 10, 100}, {}};
    for (const double x : curve.x) curve.y.push_back(1 + static_cast<double>(c) / 10 + 3 / x);
    chart.curves.push_back(std::move(curve));
  }
  return chart;
}

std::vector<double> ticks_of(const ChartAxis& axis, double low, double high, double length = 500) {
  std::vector<double> values;
  for (const ChartScale::Tick& t : scale_of(axis, low, high, 0, length, true).ticks) values.push_back(t.value);
  return values;
}

}  // namespace

TEST_CASE("a chart is well-formed whatever its texts hold, and the same bytes each time") {
  Chart chart = chart_of(3);
  chart.title = "a <b> & \"c\" 'd' \x01 \xff \xc3\xa4 \xed\xa0\x80";
  chart.description = chart.note = chart.x.title = chart.y.title = chart.curves[1].name = chart.title;
  chart.marks = {{10, chart.title}, {11, "near"}, {100, "end"}};
  const std::string svg = svg_of(chart);
  CHECK(flaw_of(svg) == "");
  CHECK(svg == svg_of(chart));
  CHECK(svg.find("role=\"img\"") != std::string::npos);
  CHECK(svg.find("<title id=\"chart-title\">a &lt;b&gt; &amp;") != std::string::npos);
  CHECK(svg.find("<desc id=\"chart-desc\">") != std::string::npos);
  CHECK(svg.find("prefers-color-scheme:dark") != std::string::npos);
  CHECK(svg.find("nan") == std::string::npos);
  CHECK(svg.find("inf") == std::string::npos);
  CHECK(flaw_of("<a><b></a>") != "");  // the check itself
  CHECK(flaw_of("<a x=\"1\" x=\"2\"/>") != "");
  CHECK(flaw_of("<a>&b</a>") != "");
}

TEST_CASE("text for XML") {
  CHECK(escaped_xml("a<b>&\"'") == "a&lt;b&gt;&amp;&quot;&#39;");
  CHECK(escaped_xml("\xc3\xa4 \xe2\x80\xa6 \xf0\x9f\x98\x80") == "\xc3\xa4 \xe2\x80\xa6 \xf0\x9f\x98\x80");
  const std::string replaced = "\xef\xbf\xbd";
  CHECK(escaped_xml(std::string_view("\0", 1)) == replaced);
  CHECK(escaped_xml("\xc3") == replaced);
  CHECK(escaped_xml("\xc0\x80") == replaced + replaced);
  CHECK(escaped_xml("\xed\xa0\x80") == replaced + replaced + replaced);  // half a surrogate pair
  CHECK(escaped_xml("\xef\xbf\xbf") == replaced);
  CHECK(escaped_xml("a\xe2\x80\xae"
                    "b\xe2\x81\xa6") == "a" + replaced + "b" + replaced);  // turns text around
}

TEST_CASE("a gap breaks a curve; a curve without points is not drawn, and no point is drawn as a number") {
  Chart chart = chart_of(2);
  chart.curves[0].x = {1, 2, 4, 8, 16};
  chart.curves[0].y = {5, 4, std::nan(""), 3, 2};
  chart.curves[1].y = {std::nan(""), std::nan(""), std::nan("")};
  const std::string svg = svg_of(chart);
  const std::size_t path = svg.find("<path d=\"M");
  const std::string drawn = svg.substr(path, svg.find("\"/>", path) - path);
  CHECK(count_of(drawn, "M") == 2);
  CHECK(count_of(drawn, "L") == 2);
  CHECK(count_of(svg, "<circle") == 4);
  CHECK(count_of(svg, "plan 1") == 0);
  CHECK(flaw_of(svg) == "");
  for (ChartCurve& c : chart.curves) c.y.assign(c.x.size(), std::nan(""));
  CHECK(flaw_of(svg_of(chart)) == "");
  CHECK(flaw_of(svg_of(Chart{})) == "");
}

TEST_CASE("ticks are round, within the axis, and have room") {
  ChartAxis rate{"bandwidth", true};
  rate.unit = 0.125;
  const auto gigabit = [](double g) { return g * 0.125e9; };
  CHECK(ticks_of(rate, gigabit(1), gigabit(10)) ==
        std::vector<double>{gigabit(1), gigabit(2), gigabit(5), gigabit(10)});
  ChartAxis workers{"workers", true};
  workers.binary = true;
  CHECK(ticks_of(workers, 2, 64) == std::vector<double>{2, 4, 8, 16, 32, 64});
  CHECK(ticks_of({"time"}, 0, 10).size() >= 5);
  CHECK(ticks_of({"time"}, 0.21, 0.29, 300) == std::vector<double>{0.22, 0.24, 0.26, 0.28});
  for (const bool logarithmic : {false, true})
    for (const double high : {1.1, 2.0, 7.0, 50.0, 1e3, 1e7, 1e12}) {
      CAPTURE(high);
      const std::vector<double> ticks = ticks_of({"any", logarithmic}, 1, high, 400);
      CHECK(ticks.size() >= 2);
      CHECK(ticks.size() <= 20);
      for (const double t : ticks) {
        CHECK(t >= 1 - 1e-9);
        CHECK(t <= high * (1 + 1e-9));
      }
    }
}

TEST_CASE("values that differ in their last digit only are one value") {
  for (const double low : {1e-3, 0.212349499, 1e9, 1e300})
    for (const bool logarithmic : {false, true}) {
      CAPTURE(low);
      const double high = std::nextafter(low, HUGE_VAL);
      const std::vector<double> ticks = ticks_of({"any", logarithmic}, low, high, 400);
      CHECK(ticks.size() <= 20);
      Chart chart = chart_of(1);
      chart.x.logarithmic = chart.y.logarithmic = logarithmic;
      chart.curves[0].x = {low, high};
      chart.curves[0].y = {high, low};
      const std::string svg = svg_of(chart);
      CHECK(flaw_of(svg) == "");
      CHECK(svg.find("nan") == std::string::npos);
    }
}

TEST_CASE(
    "many curves: the lowest ones and those that are spoken of keep their names, the others are named in the note") {
  Chart chart = chart_of(20);
  chart.curves[15].named = true;
  mute_but_lowest(chart);
  CHECK(chart.curves.size() == 20);
  std::set<std::string> named;
  for (const ChartCurve& c : chart.curves)
    if (!c.muted) named.insert(c.name);
  CHECK(named ==
        std::set<std::string>{"plan 0", "plan 1", "plan 2", "plan 3", "plan 4", "plan 5", "plan 6", "plan 15"});
  CHECK(chart.note.find("plan 19") != std::string::npos);
  CHECK(chart.note.find("plan 15") == std::string::npos);
  const std::string svg = svg_of(chart);
  CHECK(count_of(svg, "class=\"name ") == most_named_curves);
  CHECK(count_of(svg, "class=\"curve muted\"") == 12);
  CHECK(flaw_of(svg) == "");
}

TEST_CASE("names beside curves that end together stand apart and within the chart") {
  Chart chart = chart_of(8);
  for (ChartCurve& c : chart.curves) c.y.back() = 1;
  const std::string svg = svg_of(chart);
  std::vector<double> places;
  for (std::size_t at = 0; (at = svg.find("class=\"name ", at)) != std::string::npos; ++at) {
    const std::size_t y = svg.rfind(" y=\"", at);
    places.push_back(std::stod(svg.substr(y + 4)));
  }
  REQUIRE(places.size() == 8);
  std::sort(places.begin(), places.end());
  for (std::size_t i = 1; i < places.size(); ++i) CHECK(places[i] - places[i - 1] > 14);
  CHECK(places.front() > 0);
  CHECK(places.back() < chart.height);
}

TEST_CASE("several charts stand one below the other in one drawing") {
  const std::vector<Chart> charts{chart_of(2), chart_of(3)};
  std::ostringstream out;
  write_svg(out, charts, "two");
  CHECK(flaw_of(out.str()) == "");
  CHECK(out.str().find("viewBox=\"0 0 640 720\"") != std::string::npos);
  CHECK(out.str().find("translate(0 360)") != std::string::npos);
  CHECK(count_of(out.str(), "id=\"two\"") == 1);
}

TEST_CASE("a fitted curve has a band and the points that it was fitted to, within the chart") {
  Chart chart = chart_of(1);
  ChartCurve& curve = chart.curves[0];
  curve.low = {1, std::nan(""), 0.5}, curve.high = {9, std::nan(""), 8};
  curve.fitted_to = {{1, 1000}, {20, 2}, {"first <&>", "second"}, {false, true}};
  const std::string svg = svg_of(chart);
  CHECK(flaw_of(svg) == "");
  CHECK(svg.find("nan") == std::string::npos);
  CHECK(count_of(svg, "class=\"band curve c1\"") == 1);
  const std::size_t band = svg.find("class=\"band curve c1\"");
  CHECK(count_of(svg.substr(band, svg.find("/>", band) - band), "L") == 3);  // two points, there and back
  CHECK(count_of(svg, "<circle") == 2);                                      // and none of the curve's own
  CHECK(count_of(svg, "fill=\"none\"><title>second") == 1);
  CHECK(svg.find("first &lt;&amp;&gt;") != std::string::npos);
  for (std::size_t at = 0; (at = svg.find("<circle cx=\"", at)) != std::string::npos; ++at) {
    CHECK(std::stod(svg.substr(at + 12)) <= chart.width);
    const double y = std::stod(svg.substr(svg.find("cy=\"", at) + 4));
    CHECK(y > 0);
    CHECK(y < chart.height);
  }
  curve.low = curve.high = {std::nan(""), std::nan(""), std::nan("")};
  CHECK(count_of(svg_of(chart), "class=\"band ") == 0);
}

TEST_CASE("names above a narrow chart stand in rows, clear of one another and within its width") {
  Chart chart = chart_of(8);
  chart.width = telephone_width;
  chart.names_above = true;
  const std::string svg = svg_of(chart);
  CHECK(flaw_of(svg) == "");
  CHECK(count_of(svg, "class=\"lead\"") == 0);
  std::vector<std::pair<double, double>> places;  // row, left
  for (std::size_t at = 0; (at = svg.find("class=\"name ", at)) != std::string::npos; ++at) {
    const std::size_t x = svg.rfind("<text x=\"", at) + 9, y = svg.rfind(" y=\"", at) + 4;
    places.emplace_back(std::stod(svg.substr(y)), std::stod(svg.substr(x)));
  }
  REQUIRE(places.size() == 8);
  CHECK(std::is_sorted(places.begin(), places.end()));
  const double wide = text_width("plan 0", 12);
  for (std::size_t i = 0; i < places.size(); ++i) {
    CHECK(places[i].second + wide <= chart.width);
    if (i > 0 && places[i].first == places[i - 1].first) CHECK(places[i].second - places[i - 1].second > wide);
  }
  CHECK(places.back().first > places.front().first);
}

TEST_CASE("a picture for any screen holds a drawing for each, and shows the wide one to who reads no rules of style") {
  Chart chart = chart_of(3);
  chart.width = 800;
  chart.note = std::string(30, 'n') + " " + std::string(30, 'o') + " " + std::string(30, 'p');
  const Chart charts[] = {chart, chart};
  std::ostringstream out;
  write_svg_for_any_screen(out, charts, "any");
  const std::string svg = out.str();
  CHECK(flaw_of(svg) == "");
  CHECK(count_of(svg, "<svg ") == 3);
  CHECK(count_of(svg, "class=\"title\"") == 4);
  CHECK(svg.find("<svg class=\"wide\" viewBox=\"0 0 800 720\">") != std::string::npos);
  CHECK(svg.find("<svg class=\"narrow\" display=\"none\" viewBox=\"0 0 390 7") != std::string::npos);  // a longer note
  CHECK(count_of(svg, "role=\"img\"") == 1);
  CHECK(svg.find("@media (max-width:560px)") != std::string::npos);
}

TEST_CASE("charts that are compared have one scale") {
  Chart charts[] = {chart_of(1), chart_of(1)};
  charts[1].curves[0].high = {90, 90, 90}, charts[1].curves[0].low = {0.5, 0.5, 0.5};
  share_scale(charts);
  for (const Chart& c : charts) {
    CHECK(c.y.logarithmic);
    CHECK(c.y.low < 0.5);
    CHECK(c.y.high > 90);
    CHECK(c.y.low == charts[0].y.low);
  }
}
