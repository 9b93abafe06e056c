// Laws over the whole table of strategies, on seeded random profiles and clusters: a new strategy is held to them at
// once. A law that the literature claims but that does not hold in general is stated with its exceptions.
#include "helpers/plan_cases.hpp"
#include "helpers/random_input.hpp"
#include "helpers/random_plan.hpp"
#include "helpers/traffic.hpp"

#include <stepcast/schedule/lowering.hpp>
#include <stepcast/schedule/plan_flaw.hpp>
#include <stepcast/schedule/schedule.hpp>
#include <stepcast/strategies/shared/grouping.hpp>

#include <cmath>
#include <set>

using namespace stepcast;
using namespace stepcast::test;

namespace {

constexpr double tolerance = 1e-9;  // rounding to picoseconds

Profile with_mixed_types(Profile p, Draw& draw) {
  for (Tensor& t : p.tensors)
    if (draw.coin()) t.dtype = DataType::f16, t.size = t.size * 0.5;
  return p;
}

struct Case {
  Profile profile;
  Cluster cluster;
  PlanSpec spec;
};

template <class Check>
void for_random_cases(unsigned seed, int rounds, ProfileShape shape, const Check& check) {
  Draw draw(seed);
  for (int round = 0; round < rounds; ++round) {
    Profile profile = random_profile(draw, shape);
    const Cluster cluster = random_cluster(draw);
    for (const Strategy& strategy : strategies()) {
      Draw own = draw_of(seed, round, strategy.name);
      const Case c{profile, cluster, {&strategy, random_options(own, strategy.options)}};
      CAPTURE(text_of(c.spec));
      CAPTURE(round);
      check(c);
    }
  }
}

Answer<Seconds> answer(const Profile& profile, const Cluster& cluster, const PlanSpec& spec) {
  const Answer<CommunicationCost> cost = communication_cost(cluster, spec.collective);
  REQUIRE(bool(cost));
  Timeline scratch;
  return predicted_iteration(profile, cluster, *cost, spec, scratch);
}

double seconds(const Profile& profile, const Cluster& cluster, const PlanSpec& spec) {
  const Answer<Seconds> time = answer(profile, cluster, spec);
  REQUIRE_MESSAGE(bool(time), (time ? "" : time.reason()));
  return time->value();
}
double seconds(const Case& c) { return seconds(c.profile, c.cluster, c.spec); }

CommPlan planned(const Case& c) {
  const Answer<CommPlan> plan =
      c.spec.strategy->plan({c.profile, c.cluster, *communication_cost(c.cluster), c.spec.options, 0.5});
  REQUIRE_MESSAGE(bool(plan), (plan ? "" : plan.reason()));
  return *plan;
}

// The step as the worker has it: where the servers update, the worker does not.
Profile worker_profile(const Case& c) {
  Profile p = c.profile;
  if (planned(c).update == UpdatePlace::on_server) p.optimizer = {};
  return p;
}

// What no network takes away: Horovod's cycle, whose timer adds up to a cycle where there are several workers; the host
// time of ByteScheduler's wrapper; and codecs, such as a local update.
double wait_without_network(const Case& c) {
  const CommPlan plan = planned(c);
  Seconds codecs;
  for (const Codec& codec : plan.codecs) codecs += codec.time;
  double wait = codecs.value() / plan.period;
  if (c.spec.strategy->name == "horovod" && c.cluster.workers() > 1) wait += c.spec.options[1];
  if (c.spec.strategy->name == "bytescheduler")
    wait += c.spec.options[2] * static_cast<double>(c.profile.tensors.size()) + c.spec.options[3];
  return wait;
}

// The work on the busier stream: no schedule is faster.
double compute_floor(const Profile& p) {
  Seconds host = p.input, device;
  const auto add = [&](const PassCost& c) { host += c.host, device += c.device; };
  for (const Layer& l : p.layers) add(l.forward), add(l.backward);
  add(p.optimizer), add(p.other);
  return std::max(host, device).value();
}

}  // namespace

TEST_CASE("law: a plan has no flaw, sends every gradient once, and is the same every time") {
  // DeAR may pad; the others send two bits an element, every k-th iteration only, or to several neighbours.
  const std::set<std::string_view> other_traffic{
      "dear", "cd_sgd", "bit_sgd", "overlap_local_sgd", "overlay", "dc_dgd", "ist", "easgd", "d_psgd", "ad_psgd"};
  Draw types(5);
  for (const bool device : {false, true})
    for_random_cases(21, 100, {.device = device}, [&](Case c) {
      c.profile = with_mixed_types(c.profile, types);
      const CommunicationCost cost = *communication_cost(c.cluster);
      const StrategyInput input{c.profile, c.cluster, cost, c.spec.options, 0.3};
      const Answer<CommPlan> plan = c.spec.strategy->plan(input), again = c.spec.strategy->plan(input);
      REQUIRE_MESSAGE(bool(plan), (plan ? "" : plan.reason()));
      CHECK(flaw_of(*plan, c.profile) == "");
      CHECK(plan->uncovered == "");
      if (!other_traffic.contains(c.spec.strategy->name))
        CHECK(gradient_traffic(*plan).value() == doctest::Approx(c.profile.gradient_size().value()));
      CHECK(plan->edges.size() == again->edges.size());
      CHECK(schedule(lowered(c.profile, *plan, cost, {})).period ==
            schedule(lowered(c.profile, *again, cost, {})).period);
    });
}

TEST_CASE("law: a plan that is said to be the same on all links is") {
  constexpr unsigned seed = 41;
  Draw draw(seed);
  for (int round = 0; round < 30; ++round) {
    const Profile profile = random_profile(draw, {});
    const Cluster one = random_cluster(draw);
    Cluster other = random_cluster(draw);
    other.nodes = one.nodes, other.devices_per_node = one.devices_per_node;
    for (const Strategy& strategy : strategies()) {
      if (!strategy.same_on_all_links) continue;
      Draw own = draw_of(seed, round, strategy.name);
      const PlanSpec spec{&strategy, random_options(own, strategy.options)};
      CAPTURE(text_of(spec));
      const CommPlan a = *comm_plan_of(spec, profile, one, *communication_cost(one, ""));
      const CommPlan b = *comm_plan_of(spec, profile, other, *communication_cost(other, ""));
      CHECK(same_structure(a, b));
      CHECK(std::equal(a.transfers.begin(), a.transfers.end(), b.transfers.begin(), b.transfers.end(),
                       [](const Transfer& x, const Transfer& y) {
                         return x.size == y.size && x.delay == y.delay && x.overhead == y.overhead &&
                                x.after == y.after;
                       }));
      CHECK(std::equal(a.channels.begin(), a.channels.end(), b.channels.begin(), b.channels.end(),
                       [](const Channel& x, const Channel& y) { return x.credit == y.credit; }));
    }
  }
}

TEST_CASE("law: a model without parameters trains in its compute time under every plan") {
  Profile p = profile_of_gradients({{Seconds(0.002), Bytes(4)}}, Seconds(0.001), Seconds(0.001));
  p.tensors.clear();
  Cluster cluster = plain_cluster(4, BytesPerSecond(1e9), microseconds(10));
  for (const std::int64_t servers : {0, 4})
    for (const Strategy& s : strategies()) {
      CAPTURE(s.name);
      cluster.servers = servers;
      const Case c{p, cluster, {&s, standard_options(s)}};
      CHECK(seconds(c) == doctest::Approx(lone_step_time(worker_profile(c)).value()));
    }
}

TEST_CASE("law: no plan is faster than compute, and one worker needs no more") {
  for (const bool device : {false, true})
    for_random_cases(22, 100, {.device = device}, [](Case c) {
      const Profile worker = worker_profile(c);
      CHECK(seconds(c) >= compute_floor(worker) * (1 - tolerance));
      c.cluster.nodes = c.cluster.devices_per_node = 1;
      const double alone = seconds(c), lone = lone_step_time(worker).value();
      // With the update inside the forward pass the two streams overlap otherwise than with one common update.
      const bool same_order = !c.profile.has_device() || planned(c).update != UpdatePlace::before_forward;
      CHECK(alone >= compute_floor(worker) * (1 - tolerance));
      if (same_order) CHECK(alone <= (lone + wait_without_network(c)) * (1 + tolerance));
      if (!c.profile.has_device()) CHECK(alone >= lone * (1 - tolerance));
    });
}

namespace {

// Where a slower network may lower the time: a scheduling anomaly in the sense of Graham (1969).
//   mg_wfbp           merges otherwise when a or b change; greedy, so sometimes better at a worse line
//   horovod           loop=blocking packs by when transfers end
//   priority queues   a transfer is not pre-empted, so what is issued just before an urgent one depends on timing
//   co-located or balanced servers: one queue carries two roles, whose order depends on timing
//   hashed keys       pulls come in the order in which unequally loaded servers answer
// first-in first-out chains and fixed orders are monotone, as every start is a maximum of sums.
bool may_be_anomalous(const Case& c) {
  static const std::set<std::string_view> timed{"mg_wfbp", "bytescheduler", "bytescheduler_ps", "p3",      "dist_sync",
                                                "od_sgd",  "ssd_sgd",       "cd_sgd",           "bit_sgd", "ssp",
                                                "asgd"};
  const std::string_view name = c.spec.strategy->name;
  if (timed.contains(name)) return true;
  if (name == "horovod") return c.spec.options[2] == 1;
  if (name == "byteps" && (c.spec.options[1] > 0 || c.cluster.servers < c.cluster.nodes)) return true;
  if (name == "wfbp_ps" || name == "bsp_ps") return c.cluster.servers == 0 || c.spec.options[1] == 0;
  return name == "byteps" && c.cluster.servers == 0;
}

}  // namespace

TEST_CASE("law: a faster network and a lower latency never hurt") {
  int anomalies = 0, exempt = 0;
  double worst = 0;
  for_random_cases(23, 150, {}, [&](const Case& c) {
    Cluster faster = c.cluster, sooner = c.cluster;
    faster.network.bandwidth *= 1.3, faster.inside.bandwidth *= 1.3;
    sooner.network.latency *= 0.7, sooner.inside.latency *= 0.7, sooner.message_overhead *= 0.7;
    const double now = seconds(c);
    for (const Cluster& better : {faster, sooner}) {
      const double then = seconds(c.profile, better, c.spec);
      if (!may_be_anomalous(c)) {
        CHECK(then <= now * (1 + tolerance));
        continue;
      }
      ++exempt;
      anomalies += then > now * (1 + tolerance);
      worst = std::max(worst, then / now - 1);
    }
  });
  MESSAGE("timing-dependent plans: " << anomalies << " of " << exempt
                                     << " improvements of the network hurt, at most by " << 100 * worst << " %");
  CHECK(anomalies < exempt / 10);
}

TEST_CASE("law: an infinitely fast network leaves compute alone") {
  for_random_cases(24, 60, {}, [](Case c) {
    for (Link* link : {&c.cluster.network, &c.cluster.inside}) *link = {Seconds(0), BytesPerSecond(1e30)};
    c.cluster.message_overhead = Seconds(0);
    const double lone = lone_step_time(worker_profile(c)).value();
    CHECK(seconds(c) >= lone * (1 - tolerance));
    CHECK(seconds(c) <= (lone + wait_without_network(c)) * (1 + tolerance));
  });
}

TEST_CASE("law: the stale all-reduce bounds every exact plan on one all-reduce channel from below") {
  const std::set<std::string_view> all_reduce{"bsp",     "wfbp",          "ddp",          "horovod",
                                              "mg_wfbp", "optimal_merge", "bytescheduler"};
  for_random_cases(25, 150, {}, [&](const Case& c) {
    const std::string_view name = c.spec.strategy->name;
    // A ring is a reduce-scatter and an all-gather, so DeAR's two halves are no less than the whole.
    if (!all_reduce.contains(name) && name != "dear") return;
    CHECK(seconds(c) >= time_of("lb_sgd", c.profile, c.cluster).value() * (1 - tolerance));
  });
}

TEST_CASE("law: the optimal merge bounds every contiguous fusion behind a barrier from below") {
  const std::set<std::string_view> fusions{"bsp", "wfbp", "ddp", "horovod", "mg_wfbp"};
  for_random_cases(26, 150, {}, [&](const Case& c) {
    if (!fusions.contains(c.spec.strategy->name)) return;
    CHECK(seconds(c) >= time_of("optimal_merge", c.profile, c.cluster).value() * (1 - tolerance));
  });
}

TEST_CASE("law: exact plans over servers take at least the busiest direction of a worker's card") {
  const std::set<std::string_view> over_servers{"bsp_ps", "wfbp_ps", "bytescheduler_ps", "p3", "tictac"};
  for_random_cases(27, 150, {}, [&](const Case& c) {
    if (!over_servers.contains(c.spec.strategy->name) || c.cluster.nodes == 1) return;
    const CommunicationCost cost = *communication_cost(c.cluster);
    const double directions = c.cluster.servers == 0 ? 2 : 1;
    const double link = directions * cost.line(Operation::push).seconds_per_byte * c.profile.gradient_size().value();
    CHECK(seconds(c) >= link * (1 - tolerance));
  });
}

TEST_CASE("law: a link with a share 1/k of the others' never takes less than its bytes over that link") {
  int seen = 0;
  for_random_cases(28, 150, {}, [&](Case c) {
    if (c.cluster.nodes == 1) return;
    const int k = 1 << (seen % 6);
    c.cluster.stragglers.slow = {{.link_share = 1.0 / k}};
    const CommPlan plan = planned(c);
    const bool over_servers =
        std::ranges::any_of(plan.transfers, [](const Transfer& t) { return t.operation == Operation::push; });
    if (!over_servers) return;
    ++seen;
    // What a machine does not push it adds up itself, and then returns to all others: as many bytes or more, either
    // way. Where pulls are rare, that is so of pushes alone.
    Bytes gradients;
    for (const Transfer& t : plan.transfers)
      if (t.carries_gradient) gradients += t.size;
    const double own = c.cluster.servers == 0 ? 1 - 1 / static_cast<double>(c.cluster.nodes) : 1;
    const double slowest = gradients.value() / plan.period * own * k / c.cluster.network.bandwidth.value();
    CAPTURE(k);
    CAPTURE(c.cluster.nodes);
    CAPTURE(c.cluster.servers);
    CHECK(seconds(c) >= slowest * (1 - tolerance));
  });
  CHECK(seen > 500);
}

TEST_CASE("law: BytePS with fewer servers than workers waits for a slow link, as the traffic of its machine does") {
  // Section 4.1 of the paper: a worker machine pushes what it does not add up, and takes in what it adds up for others.
  const Profile toy = profile_of_gradients(
      {{milliseconds(4), Bytes(3e6)}, {milliseconds(4), Bytes(6e6)}, {milliseconds(4), Bytes(1e6)}}, milliseconds(6));
  for (const std::int64_t servers : {1, 2, 3, 7, 8, 12})
    for (const double share : {1.0, 0.5, 0.1, 0.01}) {
      Cluster c = plain_cluster(8, BytesPerSecond(1.175e9));
      c.servers = servers;
      c.stragglers.slow = {{.link_share = share}};
      const ServerSplit split = byteps_split(8, std::min<std::int64_t>(8, servers));
      const double card = (1 - split.per_worker + 7 * split.per_worker) * 1e7 / 1.175e9 / share;
      CAPTURE(servers);
      CAPTURE(share);
      CHECK(time_of("byteps(partition=1 MB)", toy, c).value() >= std::max(0.018, 0.010 + card * 0.999));
      if (share <= 0.1)  // the link sets the pace: last bytes out, then back
        CHECK(time_of("byteps(partition=1 MB)", toy, c).value() <= 0.018 + 2 * card);
    }
}
