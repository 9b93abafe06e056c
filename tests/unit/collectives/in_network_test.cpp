// In-network aggregation: the identities between SwitchML, ATP, SA-ATP, the ring and an incast server.
#include "helpers/plan_cases.hpp"
#include "helpers/random_input.hpp"

#include <stepcast/cluster/collective.hpp>
#include <stepcast/cluster/in_network.hpp>
#include <stepcast/prediction/recommend.hpp>

#include <algorithm>

using namespace stepcast;
using namespace stepcast::test;
using doctest::Approx;

namespace {

/// Machines with one device and a switch between them; no latency.
Cluster with_switch(std::int64_t nodes, std::int64_t per_node = 1, Seconds latency = {}) {
  Cluster c = plain_cluster(nodes, BytesPerSecond(1.25e9), latency);
  c.devices_per_node = per_node;
  c.inside = {latency, BytesPerSecond(1e10)};
  c.servers = 1;
  c.aggregation = Aggregation{};
  return c;
}

double all_reduce(const char* algorithm, const Cluster& c, double m = 1e8) {
  const Answer<CommunicationCost> cost = communication_cost(c, algorithm);
  REQUIRE_MESSAGE(bool(cost), (cost ? "" : cost.reason()));
  return (*cost)(Operation::all_reduce, Bytes(m)).value();
}

}  // namespace

TEST_CASE("in-network: SwitchML does not depend on the number of machines") {
  const Cluster two = with_switch(2, 4, microseconds(5));
  for (std::int64_t n = 3; n <= 200; ++n)
    CHECK(all_reduce("switchml", with_switch(n, 4, microseconds(5))) == all_reduce("switchml", two));
}

TEST_CASE("in-network: with equal efficiency and no latency the ring takes 2(P-1)/P times as long") {
  for (std::int64_t n = 2; n <= 64; ++n) {
    Cluster c = with_switch(n);
    c.aggregation->payload = Bytes(1024);  // and no header: every byte on the link is a value
    const double p = static_cast<double>(n);
    CHECK(all_reduce("ring", c) / all_reduce("switchml", c) == Approx(2 * (p - 1) / p).epsilon(1e-12));
  }
}

TEST_CASE("in-network: SwitchML against its formula, each bound in turn") {
  Cluster c = with_switch(8);
  CHECK(all_reduce("switchml", c) == Approx(1e8 * (1 + 52.0 / 256) / 1.25e9));
  c.aggregation->payload = Bytes(1024), c.aggregation->header = Bytes(52);
  CHECK(all_reduce("switchml", c) == Approx(1e8 * (1 + 52.0 / 1024) / 1.25e9));
  // The window: 256 packets of 1024 bytes in a round trip of a millisecond are 262 MB/s.
  c.aggregation->round_trip = milliseconds(1);
  CHECK(all_reduce("switchml", c) == Approx(1e-3 + 1e8 * 1e-3 / (256 * 1024)));
  c.aggregation->packets_outstanding *= 100;
  CHECK(all_reduce("switchml", c) == Approx(1e-3 + 1e8 * (1 + 52.0 / 1024) / 1.25e9));
  // Hosts that convert no faster than this.
  c.aggregation->host_rate = BytesPerSecond(1e8);
  CHECK(all_reduce("switchml", c) == Approx(1e-3 + 1));
  // Cards that carry a switch's packets faster than the transport of a ring gets its bytes through.
  c.aggregation->host_rate = {};
  c.aggregation->line_rate = BytesPerSecond(2.5e9);
  CHECK(all_reduce("switchml", c) == Approx(1e-3 + 1e8 * (1 + 52.0 / 1024) / 2.5e9));
  // Several devices of a machine reduce among themselves first, each with a window of its own.
  Cluster four = with_switch(8, 4);
  CHECK(all_reduce("switchml", four) == Approx(2 * 0.75 * 1e8 / 1e10 + 1e8 * (1 + 52.0 / 256) / 1.25e9));
  four.aggregation->round_trip = milliseconds(1);
  CHECK(all_reduce("switchml", four) == Approx(2 * 0.75 * 1e8 / 1e10 + 1e-3 + 1e8 / 4 * 1e-3 / (256 * 256)));
}

TEST_CASE("in-network: ATP with every packet hit moves SwitchML's payload times 308/248; with none it is an incast") {
  for (std::int64_t n = 2; n <= 40; ++n) {
    Cluster c = with_switch(n);
    const double values = 1e8 / 1.25e9;
    CHECK(all_reduce("atp", c) == Approx(values * 308 / 248));
    Cluster bare = c;
    bare.aggregation->payload = Bytes(248);
    CHECK(all_reduce("atp", c) == Approx(all_reduce("switchml", bare) * 308 / 248));
    c.aggregation->hit_fraction = 0;
    CHECK(all_reduce("atp", c) == Approx(static_cast<double>(n) * values * 308 / 248));
    // The same n V over the link of one server that a push takes.
    const double push = (*communication_cost(c))(Operation::push, Bytes(1e8 * 308 / 248)).value();
    CHECK(all_reduce("atp", c) == Approx(push));
  }
  // In between and over racks: q R + (1-q) n at the server.
  Cluster c = with_switch(16);
  c.aggregation->hit_fraction = 0.75;
  c.aggregation->racks = 2;
  CHECK(all_reduce("atp", c) == Approx((0.75 * 2 + 0.25 * 16) * 1e8 / 1.25e9 * 308 / 248));
  c.servers = 16;
  CHECK(all_reduce("atp", c) == Approx(1e8 / 1.25e9 * 308 / 248));
}

TEST_CASE("in-network: the more packets hit, the fewer racks and the more servers, the faster is ATP") {
  Draw draw(41);
  for (int round = 0; round < 300; ++round) {
    Cluster c = with_switch(draw.whole(2, 40), draw.whole(1, 8), microseconds(draw.whole(0, 50)));
    c.aggregation->hit_fraction = draw.whole(0, 99) / 100.0;
    c.aggregation->racks = draw.whole(1, 8);
    c.servers = draw.whole(1, 8);
    const double now = all_reduce("atp", c);
    Cluster better = c;
    better.aggregation->hit_fraction += 0.01;
    CHECK(all_reduce("atp", better) <= now * (1 + 1e-12));
    Cluster more = c;
    ++more.servers;
    CHECK(all_reduce("atp", more) <= now * (1 + 1e-12));
    Cluster spread = c;
    ++spread.aggregation->racks;
    CHECK(all_reduce("atp", spread) >= now * (1 - 1e-12));
  }
}

TEST_CASE("in-network: SA-ATP is never slower than ATP, and equal without help or without a slow link") {
  Draw draw(42);
  int helped = 0;
  for (int round = 0; round < 300; ++round) {
    Cluster c = with_switch(draw.whole(2, 40), draw.whole(1, 8), microseconds(draw.whole(0, 50)));
    c.servers = draw.whole(1, 8);
    CHECK(all_reduce("sa_atp", c) == all_reduce("atp", c));
    c.stragglers.slow = {{.link_share = draw.whole(1, 100) / 100.0}};
    CHECK(all_reduce("sa_atp", c) == all_reduce("atp", c));
    double before = all_reduce("atp", c);
    for (const double absorbed : {0.1, 0.3, 0.6, 1.0}) {
      c.aggregation->absorbed_share = absorbed;
      const double time = all_reduce("sa_atp", c);
      CHECK(time <= before);
      helped += time < before * 0.99;
      before = time;
    }
    // All that leaders can do is to make the slow link as good as any other, at the cost of their own.
    Cluster healthy = c;
    healthy.stragglers.slow.clear();
    CHECK(before >= all_reduce("atp", healthy) * (1 - 1e-12));
  }
  CHECK(helped > 100);
  // Half a link, a fifth of its work absorbed: 0.8/0.5. With more help all eight machines are done together, with the
  // links of seven and a half.
  Cluster c = with_switch(8);
  const double healthy = all_reduce("sa_atp", c);
  c.stragglers.slow = {{.link_share = 0.5}};
  CHECK(all_reduce("atp", c) == Approx(2 * healthy));
  c.aggregation->absorbed_share = 0.2;
  CHECK(all_reduce("sa_atp", c) == Approx(1.6 * healthy));
  for (const double absorbed : {0.5, 1.0}) {
    c.aggregation->absorbed_share = absorbed;
    CHECK(all_reduce("sa_atp", c) == Approx(8 / 7.5 * healthy));
  }
}

TEST_CASE("in-network: SA-ATP's leaders carry what they take over, and no leader takes over nothing") {
  Draw draw(44);
  for (int round = 0; round < 300; ++round) {
    Cluster c = with_switch(draw.whole(2, 40));
    c.servers = 100;  // never the bottleneck
    const int stragglers = draw.whole(1, static_cast<int>(c.nodes));
    const double share = draw.whole(1, 99) / 100.0;
    c.stragglers.slow = {{.workers = stragglers, .link_share = share}};
    c.aggregation->absorbed_share = draw.whole(0, 100) / 100.0;
    const double n = static_cast<double>(c.nodes), links = n - stragglers + stragglers * share;
    const double all = 1e8 * 308 / 248 / 1.25e9, time = all_reduce("sa_atp", c);
    CAPTURE(n);
    CAPTURE(stragglers);
    CAPTURE(share);
    CAPTURE(c.aggregation->absorbed_share);
    // What all machines have to send takes the links of all of them at least this long.
    CHECK(time >= n * all / links * (1 - 1e-12));
    CHECK(time >= (1 - c.aggregation->absorbed_share) * all / share * (1 - 1e-12));
    if (stragglers == c.nodes) CHECK(time == Approx(all_reduce("atp", c)).epsilon(1e-12));
    // Machine by machine, with the share that was asked for, unless that made the leaders later than ATP is.
    const double leaders = n - stragglers;
    if (leaders == 0) continue;
    const double asked =
        std::max((1 - c.aggregation->absorbed_share) / share, 1 + c.aggregation->absorbed_share * stragglers / leaders);
    CHECK(time <= std::max(asked, n / links) * all * (1 + 1e-12));
  }
}

TEST_CASE("in-network: a switch runs the program that its cluster names, and only that is recommended") {
  const Profile profile =
      profile_of_gradients({{milliseconds(2), Bytes(4e6)}, {milliseconds(2), Bytes(4e6)}}, milliseconds(1));
  for (const char* program : {"switchml", "atp", "sa_atp"}) {
    Cluster c = with_switch(8);
    c.aggregation->program = program;
    bool over_switch = false;
    for (const RankedPlan& plan : recommended(profile, c).exact) {
      const std::string_view collective = collective_of(plan.prediction.plan);
      CAPTURE(text_of(plan.prediction.plan));
      CHECK((collective.empty() || collective == program));
      over_switch = over_switch || collective == program;
    }
    CHECK(over_switch);
  }
}

TEST_CASE("in-network: nothing is assumed that the cluster does not have") {
  Cluster c = with_switch(8);
  c.servers = 0;
  CHECK(bool(communication_cost(c, "switchml")));
  for (const char* name : {"atp", "sa_atp"}) {
    const auto without_server = communication_cost(c, name);
    REQUIRE(!without_server);
    CHECK(without_server.reason().find("server machine") != std::string::npos);
  }
  c.aggregation.reset();
  for (const char* name : {"switchml", "atp", "sa_atp"}) {
    const auto without_switch = communication_cost(c, name);
    REQUIRE(!without_switch);
    CHECK(without_switch.reason().find("no switch") != std::string::npos);
    // One machine needs none: the ring among its devices.
    CHECK(all_reduce(name, plain_cluster(1, BytesPerSecond(1e9))) == 0);
    Cluster machine = plain_cluster(1, BytesPerSecond(1e9), microseconds(1));
    machine.devices_per_node = 8;
    CHECK(all_reduce(name, machine) == all_reduce("ring", machine));
  }
}

TEST_CASE("in-network: plans of all strategies over a switch take at least compute and the link, or say why not") {
  Draw draw(43);
  int planned = 0;
  for (int round = 0; round < 60; ++round) {
    const Profile profile = random_profile(draw, {.device = draw.coin()});
    Cluster c = random_cluster(draw);
    c.aggregation = Aggregation{};
    c.servers = std::max<std::int64_t>(1, c.servers);
    for (const Strategy& s : strategies())
      for (const char* collective : {"switchml", "atp", "sa_atp"}) {
        PlanSpec spec{};
        spec.strategy = &s;
        spec.options = standard_options(s);
        spec.collective = collective;
        const Answer<Prediction> p = predicted(profile, c, spec);
        if (!p) {
          INFO(p.reason());
          CHECK(p.reason().find("reduce-scatter") != std::string::npos);
          continue;
        }
        ++planned;
        CHECK(p->iteration >= lone_step_time(profile) * 0.5);
        CHECK(p->iteration.value() < 1e4);
      }
  }
  CHECK(planned > 1000);
}
