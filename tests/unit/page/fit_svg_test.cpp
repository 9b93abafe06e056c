// The picture of a fit: points where nccl-tests would print them, lines and bands around them, nothing left out unsaid.
#include <stepcast/calibration/benchmark_logs.hpp>
#include <stepcast/page/fit_svg.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <sstream>
#include <string>
#include <vector>

using namespace stepcast;
using doctest::Approx;

namespace {

Cluster start(std::int64_t workers, const char* algorithm) {
  Cluster c;
  c.name = "start";
  c.nodes = workers;
  c.inside = c.network = {microseconds(10), BytesPerSecond(1e9)};
  c.all_reduce = algorithm;
  c.provenance = {"test"};
  return c;
}

/// Times of a ring over 10 Gb/s with 30 us a step, every second one longer by a share.
MeasuredCollective ring_table(const char* operation, std::int64_t workers, double longer = 0) {
  MeasuredCollective table{.operation = operation, .workers = workers, .provenance = "test"};
  const double n = static_cast<double>(workers), steps = (operation == std::string("all_reduce") ? 2 : 1) * (n - 1);
  for (double m = 1024; m <= 0x1p28; m *= 16) {
    const double off = table.sizes.size() % 2 == 0 ? 1 : 1 + longer;
    table.sizes.emplace_back(m);
    table.times.emplace_back(steps * (30e-6 + m / n / 1.25e9) * off);
  }
  return table;
}

std::string picture_of(std::int64_t workers, const char* algorithm, const std::vector<MeasuredCollective>& tables) {
  std::ostringstream out;
  write_fit_svg(out, calibrated(start(workers, algorithm), tables));
  return out.str();
}

std::size_t count_of(const std::string& text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++count;
  return count;
}

/// The numbers of a drawn path.
std::vector<double> numbers_of(const std::string& svg, const std::string& before) {
  const std::size_t begin = svg.find(before);
  REQUIRE(begin != std::string::npos);
  const std::size_t d = svg.find(" d=\"", begin) + 4;
  std::string path = svg.substr(d, svg.find('"', d) - d);
  for (char& c : path)
    if (c == 'M' || c == 'L' || c == 'Z') c = ' ';
  std::istringstream in(path);
  std::vector<double> numbers;
  for (double v = 0; in >> v;) numbers.push_back(v);
  return numbers;
}

/// Where the dots stand.
std::vector<double> dots_of(const std::string& svg) {
  std::vector<double> numbers;
  for (std::size_t at = 0; (at = svg.find("<circle cx=\"", at)) != std::string::npos; ++at) {
    numbers.push_back(std::stod(svg.substr(at + 12)));
    numbers.push_back(std::stod(svg.substr(svg.find("cy=\"", at) + 4)));
  }
  return numbers;
}

}  // namespace

TEST_CASE("bus bandwidth is what nccl-tests prints") {
  // The last row of a log of 16 A100: 1 GiB in 16170 us is 66.40 GB/s of payload and 124.50 GB/s on the bus.
  CHECK(bus_factor_of(Operation::all_reduce, 16) * 0x1p30 / 16170e-6 / 1e9 == Approx(124.50).epsilon(1e-4));
  CHECK(bus_factor_of(Operation::all_gather, 8) == 0.875);
  CHECK(bus_factor_of(Operation::reduce_scatter, 8) == 0.875);
  CHECK(bus_factor_of(Operation::all_to_all, 8) == 0.875);
  CHECK(bus_factor_of(Operation::broadcast, 8) == 1);
  CHECK(bus_factor_of(Operation::send, 2) == 1);
}

TEST_CASE("picture of a fit: where the forms are right the line goes through the points, and the band is the line") {
  const std::string svg = picture_of(8, "ring", {ring_table("all_reduce", 4), ring_table("all_reduce", 8)});
  CHECK(svg == picture_of(8, "ring", {ring_table("all_reduce", 4), ring_table("all_reduce", 8)}));
  CHECK(count_of(svg, "all_reduce on 4 to 8 workers") == 4);  // said, described, and drawn for two widths
  const std::vector<double> line = numbers_of(svg, "<title>8 workers</title>"), dots = dots_of(svg);
  REQUIRE(line.size() == 10);
  // The last curve is drawn first.
  for (std::size_t i = 0; i < line.size(); ++i) CHECK(dots[i] == Approx(line[i]).epsilon(0.002));
  const std::vector<double> band = numbers_of(svg, "class=\"band curve c2\"");
  REQUIRE(band.size() == 20);
  for (std::size_t i = 0; i < 10; ++i) CHECK(band[i] == Approx(line[i]).epsilon(0.002));
  CHECK(svg.find("16 KiB on 4 workers: measured 199.7 us, 0.12 GB/s; fitted 199.7 us, 0.0 %") != std::string::npos);
  CHECK(svg.find("8 workers measured 1.244 GB/s, fitted 1.244 GB/s") != std::string::npos);
  CHECK(svg.find("Lines: ring on the fitted links") != std::string::npos);
  CHECK(svg.find("Rings") == std::string::npos);
  CHECK(svg.find("nan") == std::string::npos);
}

TEST_CASE("picture of a fit: points that are off stand off the line, and the band is as wide as they are off") {
  const std::string svg = picture_of(8, "ring", {ring_table("all_reduce", 8, 0.3)});
  const std::vector<double> line = numbers_of(svg, "<title>8 workers</title>"), dots = dots_of(svg),
                            band = numbers_of(svg, "class=\"band curve c1\"");
  REQUIRE(band.size() == 2 * line.size());
  CHECK(dots[3] > line[3] + 2);  // slower: lower in the picture
  for (std::size_t i = 0; i + 1 < line.size(); i += 2) {
    const double high = line[i + 1] - band[i + 1], low = band[band.size() - 1 - i] - line[i + 1];
    CHECK(high == Approx(low).epsilon(0.01));  // a factor is symmetric on a logarithmic axis
    CHECK(high > 1);
  }
}

TEST_CASE("picture of a fit: a panel an operation, of six curves at most, and all of one scale") {
  std::vector<MeasuredCollective> tables{ring_table("all_gather", 4)};
  for (const std::int64_t workers : {64, 2, 4, 8, 16, 32, 128}) tables.push_back(ring_table("all_reduce", workers));
  const std::string svg = picture_of(128, "ring", tables);
  std::size_t at = 0;
  for (const char* title :
       {">all_reduce on 2 to 8 workers<", ">all_reduce on 16 to 128 workers<", ">all_gather on 4 workers<"}) {
    CHECK(count_of(svg, title) == 2);
    CHECK(svg.find(title) > at);
    at = svg.find(title);
  }
  // The ring is fitted to all-reduces.
  CHECK(count_of(svg, ">4 workers, alone</text>") == 2);
  CHECK(svg.find("Alone: the links say nothing of it") != std::string::npos);
  std::vector<std::string> ticks;
  for (std::size_t tick = 0; (tick = svg.find("text-anchor=\"end\">", tick)) != std::string::npos; ++tick)
    ticks.push_back(svg.substr(tick + 18, svg.find('<', tick) - tick - 18));
  CHECK(std::count(ticks.begin(), ticks.end(), ticks.front()) == 6);
}

TEST_CASE("picture of a fit: what the host's launches bound is left out of the fit of nccl, and drawn as rings") {
  MeasuredCollective table{
      .operation = "all_reduce", .workers = 8, .provenance = "test", .nodes = 1, .devices_per_process = 8};
  for (double m = 8; m <= 0x1p30; m *= 4) {
    table.sizes.emplace_back(m);
    table.times.emplace_back(std::max(60e-6, 20e-6 + 1.75 * m / 200e9));
  }
  Cluster machine = start(1, "nccl");
  machine.devices_per_node = 8;
  std::ostringstream out;
  write_fit_svg(out, calibrated(machine, std::vector{table}));
  const std::string svg = out.str();
  const std::size_t rings = count_of(svg, "fill=\"none\"><title>"), dots = count_of(svg, "<circle");
  CHECK(dots == 2 * table.sizes.size());
  CHECK(rings > 0);
  CHECK(rings < dots);
  CHECK(count_of(svg, "; left out of the fit<") == rings);
  CHECK(svg.find("8 workers, 8 a process") != std::string::npos);
  CHECK(svg.find("Lines: nccl on the fitted links") != std::string::npos);
  CHECK(svg.find("Rings: left out of the fit.") != std::string::npos);
}

TEST_CASE("picture of a fit: one worker has no bandwidth, alone it is refused") {
  const MeasuredCollective one{.operation = "all_reduce",
                               .workers = 1,
                               .sizes = {Bytes(8), Bytes(64)},
                               .times = {Seconds(1), Seconds(1)},
                               .provenance = "test"};
  const std::string svg = picture_of(4, "ring", {one, ring_table("all_reduce", 4)});
  CHECK(svg.find("all_reduce on 4 workers") != std::string::npos);
  CHECK(svg.find("1 worker") == std::string::npos);
  Calibration alone;
  alone.entries.push_back({one, line_fit(one.sizes, one.times), {}});
  std::ostringstream out;
  CHECK_THROWS_AS(write_fit_svg(out, alone), InputError);
}
