// Stragglers: one representative against simulations of every rank, and the laws of the largest of many.
#include "helpers/plan_cases.hpp"
#include "helpers/random_input.hpp"

#include <stepcast/cluster/stragglers.hpp>
#include <stepcast/schedule/schedule.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

using namespace stepcast;
using namespace stepcast::test;
using doctest::Approx;

namespace {

/// A profile that is late a little, so that the graphs of early and late ranks have the same tasks.
Profile hardly_late(Draw& draw, bool device = false) {
  Profile p = random_profile(draw, {.device = device});
  p.late = Seconds(1e-12);
  return p;
}

Stragglers with(std::vector<SlowWorkers> slow) { return {std::move(slow), {}}; }

Seconds step(const std::string& plan, const Profile& profile, const Cluster& cluster) {
  const Slowness worst = slowest(cluster.stragglers);
  return time_of(plan, slowed(profile, worst.factor, worst.delay), cluster);
}

/// One synchronous step after another of `ranks`, each with a profile of its own: every gradient is all-reduced in the
/// order of readiness, when its last rank has it and the previous all-reduce ended; the update waits for all. Written
/// without task graphs or the scheduler.
Seconds simulated_wfbp(const std::vector<Profile>& ranks, const CommunicationCost& cost) {
  std::vector<double> free(ranks.size(), 0);
  const std::size_t tensors = ranks.front().tensors.size();
  double before = 0, now = 0;
  for (int iteration = 0; iteration < 12; ++iteration) {
    std::vector<double> ready(tensors, 0);
    std::vector<double> end(ranks.size());
    for (std::size_t w = 0; w < ranks.size(); ++w) {
      const Profile& p = ranks[w];
      double at = free[w] + p.input.value() + p.late.value();
      for (const Layer& l : p.layers) at += l.forward.host.value();
      for (const std::uint32_t l : p.backward_order) {
        at += p.layers[l].backward.host.value();
        for (std::size_t t = 0; t < tensors; ++t)
          if (p.tensors[t].layer == l) ready[t] = std::max(ready[t], at);
      }
      end[w] = at;
    }
    double channel = 0;
    for (std::size_t t = 0; t < tensors; ++t)
      channel = std::max(channel, ready[t]) + cost(Operation::all_reduce, ranks.front().tensors[t].size).value();
    for (std::size_t w = 0; w < ranks.size(); ++w)
      free[w] = std::max(end[w], channel) + (ranks[w].optimizer.host + ranks[w].other.host).value();
    before = std::exchange(now, *std::max_element(free.begin(), free.end()));
  }
  return Seconds(now - before);
}

/// The same of ranks whose host issues what their device computes: the host runs at most one iteration ahead, or waits
/// for the device; a late rank starts both later. Gradients are ready when the device has them.
Seconds simulated_wfbp_on_devices(const std::vector<Profile>& ranks, const CommunicationCost& cost) {
  struct Clock {
    double host = 0, device = 0, before = 0;  // `before`: end of the device's last iteration but one
    void run(const PassCost& pass) {
      host += pass.host.value();
      device = std::max(device, host) + pass.device.value();
    }
  };
  std::vector<Clock> clocks(ranks.size());
  const std::size_t tensors = ranks.front().tensors.size();
  std::vector<double> ends;
  for (int iteration = 0; iteration < 40; ++iteration) {
    std::vector<double> ready(tensors, 0);
    for (std::size_t w = 0; w < ranks.size(); ++w) {
      const Profile& p = ranks[w];
      Clock& clock = clocks[w];
      const double begin = std::max(clock.host, p.host_waits_for_device ? clock.device : clock.before);
      clock.before = clock.device;
      clock.host = begin + p.late.value() + p.input.value();
      clock.device += p.late.value();
      for (const Layer& l : p.layers) clock.run(l.forward);
      for (const std::uint32_t l : p.backward_order) {
        clock.run(p.layers[l].backward);
        for (std::size_t t = 0; t < tensors; ++t)
          if (p.tensors[t].layer == l) ready[t] = std::max(ready[t], clock.device);
      }
    }
    double channel = 0;
    for (std::size_t t = 0; t < tensors; ++t)
      channel = std::max(channel, ready[t]) + cost(Operation::all_reduce, ranks.front().tensors[t].size).value();
    double end = 0;
    for (std::size_t w = 0; w < ranks.size(); ++w) {
      clocks[w].device = std::max(clocks[w].device, channel);
      clocks[w].run(ranks[w].optimizer);
      clocks[w].run(ranks[w].other);
      end = std::max(end, clocks[w].device);
    }
    ends.push_back(end);
  }
  return Seconds((ends[39] - ends[19]) / 20);
}

/// The graph of all ranks: each has its own compute, all share the transfers.
TaskGraph joined(const std::vector<TaskGraph>& ranks) {
  const TaskGraph& first = ranks.front();
  const auto shared = [&](std::uint32_t t) {
    const ResourceClass kind = first.resources[first.tasks[t].resource].kind;
    return kind == ResourceClass::communication || kind == ResourceClass::timer;
  };
  TaskGraphBuilder builder;
  std::vector<std::vector<std::uint32_t>> number(ranks.size(), std::vector<std::uint32_t>(first.tasks.size()));
  for (std::size_t w = 0; w < ranks.size(); ++w) {
    const auto offset = static_cast<std::uint32_t>(w * first.resources.size());
    for (const Resource& r : ranks[w].resources) builder.add_resource(r);
    for (std::uint32_t t = 0; t < first.tasks.size(); ++t) {
      Task task = ranks[w].tasks[t];
      task.resource += offset;
      number[w][t] = w > 0 && shared(t) ? number[0][t] : builder.add_task(task);
    }
  }
  for (std::size_t w = 0; w < ranks.size(); ++w)
    for (std::uint32_t t = 0; t < first.tasks.size(); ++t)
      for (const Arc& a : ranks[w].successors(t))
        if (w == 0 || !shared(t) || !shared(a.task)) builder.add_arc(number[w][t], number[w][a.task], a.lag);
  TaskGraph graph = builder.build();
  graph.marker = number.back()[first.marker];
  return graph;
}

TaskGraph graph_of(const std::string& plan, const Profile& profile, const Cluster& cluster) {
  return lowered(profile, plan_of(plan, profile, cluster), *communication_cost(cluster), cluster.contention,
                 {.merge = false});
}

}  // namespace

TEST_CASE("stragglers: none of them, or all alike, is the step of one worker") {
  Draw draw(51);
  for (int round = 0; round < 50; ++round) {
    const Profile p = hardly_late(draw);
    Cluster c = random_cluster(draw);
    for (const char* plan : {"wfbp", "ddp", "dear", "bytescheduler"}) {
      c.stragglers = {};
      const Seconds lone = time_of(plan, p, c);
      CHECK(step(plan, p, c) == lone);
      c.stragglers = with({{.workers = c.workers()}});
      CHECK(step(plan, p, c) == lone);
      // All slow in the same way: the same slow worker, however many there are.
      c.stragglers = with({{.workers = c.workers(), .compute_factor = 1.5}});
      const Seconds all = step(plan, p, c);
      c.stragglers.slow[0].workers = 1;
      CHECK(step(plan, p, c) == all);
    }
  }
}

TEST_CASE("stragglers: the slowest worker's step is that of a simulation of every rank") {
  Draw draw(52);
  for (int round = 0; round < 200; ++round) {
    const Profile p = hardly_late(draw);
    Cluster c = random_cluster(draw);
    c.contention = {};
    SlowWorkers slow{.compute_factor = 1 + draw.whole(0, 20) / 10.0,
                     .delay = microseconds(draw.whole(0, 3000)),
                     .link_share = draw.whole(2, 10) / 10.0};
    c.stragglers = with({slow});
    const Profile worst = slowed(p, slow.compute_factor, slow.delay);
    std::vector<Profile> ranks(4, p);
    ranks[static_cast<std::size_t>(draw.whole(0, 3))] = worst;
    // Somebody is late, but less so.
    ranks.push_back(slowed(p, 1 + (slow.compute_factor - 1) / 2, slow.delay / 2));
    const Seconds predicted = step("wfbp", p, c);
    CHECK(predicted.value() == Approx(simulated_wfbp(ranks, *communication_cost(c)).value()).epsilon(1e-9));
    // At least the slowest rank alone, and at least the healthy job.
    CHECK(predicted >= time_of("wfbp", worst, plain_cluster(1, BytesPerSecond(1e9))) * (1 - 1e-9));
    CHECK(predicted >= time_of("wfbp", p, c) * (1 - 1e-9));
  }
}

TEST_CASE("stragglers: a simulation of every rank's host and device gives the slowest worker's step") {
  Draw draw(520);
  int later = 0;
  for (int round = 0; round < 300; ++round) {
    const Profile p = random_profile(draw, {.device = true});
    Cluster c = random_cluster(draw);
    c.contention = {};
    const SlowWorkers slow{.compute_factor = round % 3 == 0 ? 1 + draw.whole(0, 20) / 10.0 : 1,
                           .delay = microseconds(draw.whole(0, 3000)),
                           .link_share = round % 5 == 0 ? draw.whole(2, 10) / 10.0 : 1};
    c.stragglers = with({slow});
    const Profile worst = slowed(p, slow.compute_factor, slow.delay);
    std::vector<Profile> ranks(4, p);
    ranks[static_cast<std::size_t>(draw.whole(0, 3))] = worst;
    ranks.push_back(slowed(p, 1 + (slow.compute_factor - 1) / 2, slow.delay / 2));
    const Answer<Prediction> predicted_step = predicted(p, c, plan_spec_of("wfbp"));
    REQUIRE(bool(predicted_step));
    CHECK(predicted_step->iteration.value() ==
          Approx(simulated_wfbp_on_devices(ranks, *communication_cost(c)).value()).epsilon(1e-9));
    CHECK(predicted_step->iteration >= time_of("wfbp", worst, plain_cluster(1, BytesPerSecond(1e9))) * (1 - 1e-9));
    later += predicted_step->iteration > predicted_step->stragglers->without * (1 + 1e-6);
  }
  CHECK(later > 250);
}

TEST_CASE("stragglers: a late start that nothing hides makes the step as much longer, whoever computes") {
  Draw draw(521);
  for (int round = 0; round < 100; ++round) {
    const bool device = round % 4 != 0;
    const Profile p = random_profile(draw, {.device = device});
    Cluster c = random_cluster(draw);
    c.servers = 4;
    const Seconds late = microseconds(draw.whole(1, 20000));
    c.stragglers = with({{.delay = late}});
    // All that is sent before a barrier on the device: nothing goes on meanwhile. The host may still be what counts.
    for (const char* plan : {"bsp", "wfbp", "ddp", "mg_wfbp(rule=asc)", "bsp_ps"}) {
      CAPTURE(plan);
      const Answer<Prediction> with_it = predicted(p, c, plan_spec_of(plan));
      REQUIRE(bool(with_it));
      const Seconds without = with_it->stragglers->without;
      const bool host_paces = device && !p.host_waits_for_device;
      if (host_paces) CHECK(with_it->iteration <= without + late * (1 + 1e-9));
      else CHECK(with_it->iteration.value() == Approx((without + late).value()).epsilon(1e-9));
      CHECK(with_it->iteration >= lone_step_time(slowed(p, 1, late)) * (1 - 1e-9));
      CHECK(with_it->breakdown.input_stall == Seconds(0));
    }
    // Alone with its model, a worker has nothing that could hide it.
    CHECK(time_of("wfbp", slowed(p, 1, late), plain_cluster(1, BytesPerSecond(1e9))).value() ==
          Approx((lone_step_time(p) + late).value()).epsilon(1e-9));
  }
  // By hand: 6 ms forward, 12 ms backward, 10 MB on a ring of 8 at 1.25 GB/s in 14 ms, 5 ms late.
  Profile toy = profile_of_gradients(
      {{milliseconds(4), Bytes(3e6)}, {milliseconds(4), Bytes(6e6)}, {milliseconds(4), Bytes(1e6)}}, milliseconds(6));
  for (Layer& l : toy.layers)
    std::swap(l.forward.host, l.forward.device), std::swap(l.backward.host, l.backward.device);
  toy.device = "device";
  Cluster c = plain_cluster(8, BytesPerSecond(1.25e9));
  c.stragglers = with({{.delay = milliseconds(5)}});
  CHECK(predicted(toy, c, plan_spec_of("bsp@ring"))->iteration.value() == Approx(0.037));
}

TEST_CASE("stragglers: the same for every plan, on the joint graph of all ranks") {
  Draw draw(53);
  for (int round = 0; round < 25; ++round) {
    const Profile p = hardly_late(draw);
    Cluster c = random_cluster(draw);
    c.contention = {};
    c.servers = 4;
    c.stragglers = with({{.compute_factor = 1 + draw.whole(1, 20) / 10.0, .delay = microseconds(draw.whole(0, 3000))}});
    const Slowness worst = slowest(c.stragglers);
    for (const char* plan : {"wfbp", "bsp", "ddp", "dear", "bytescheduler", "wfbp_ps", "p3", "lb_sgd", "mg_wfbp"}) {
      CAPTURE(plan);
      const Profile slow = slowed(p, worst.factor, worst.delay);
      // All ranks follow one plan, that of the slowest: MG-WFBP merges by times.
      const CommPlan agreed = plan_of(plan, slow, c);
      const auto graph = [&](const Profile& rank) {
        return lowered(rank, agreed, *communication_cost(c), {}, {.merge = false});
      };
      const Timeline all = schedule(joined({graph(p), graph(p), graph(slow)}));
      const Timeline alone = schedule(graph(slow));
      REQUIRE(all.steady);
      CHECK(seconds_of(all.period).value() == Approx(seconds_of(alone.period).value()).epsilon(1e-9));
      CHECK(step(plan, p, c).value() == Approx(seconds_of(alone.period).value()).epsilon(1e-9));
    }
  }
}

TEST_CASE("stragglers: several kinds lie between the worst of them and one with all their faults") {
  CHECK(one_is_slowest({}));
  CHECK(one_is_slowest(with({{.compute_factor = 2, .delay = Seconds(1)}, {.compute_factor = 1.5}})));
  CHECK(!one_is_slowest(with({{.compute_factor = 2}, {.delay = Seconds(1)}})));
  CHECK(!one_is_slowest(with({{.compute_factor = 2}, {.link_share = 0.5}})));
  Draw draw(54);
  int between = 0;
  for (int round = 0; round < 100; ++round) {
    const Profile p = hardly_late(draw);
    Cluster c = random_cluster(draw);
    c.contention = {};
    const SlowWorkers busy{.compute_factor = 1.4}, late{.delay = microseconds(draw.whole(100, 5000))};
    c.stragglers = with({busy, late});
    const Seconds both = step("wfbp", p, c);
    const Seconds joint = schedule(joined({graph_of("wfbp", p, c), graph_of("wfbp", slowed(p, 1.4), c),
                                           graph_of("wfbp", slowed(p, 1, late.delay), c)}))
                              .iteration_time();
    c.stragglers = with({busy});
    const Seconds of_busy = step("wfbp", p, c);
    c.stragglers = with({late});
    const Seconds of_late = step("wfbp", p, c);
    CHECK(joint <= both * (1 + 1e-9));
    CHECK(joint >= std::max(of_busy, of_late) * (1 - 1e-9));
    between += joint < both * (1 - 1e-6);
  }
  CHECK(between > 0);
}

TEST_CASE("stragglers: no fault ever helps; a delay that fits into the slack changes nothing") {
  Draw draw(55);
  for (int round = 0; round < 60; ++round) {
    const Profile p = hardly_late(draw);
    Cluster c = random_cluster(draw);
    for (const char* plan : {"wfbp", "ddp", "dear", "lb_sgd"}) {
      Seconds before;
      for (const double fault : {0.0, 0.1, 0.5, 2.0}) {
        c.stragglers = with({{.compute_factor = 1 + fault}});
        const Seconds now = step(plan, p, c);
        CHECK(now >= before * (1 - 1e-9));
        before = now;
      }
      before = {};
      for (const double fault : {0.0, 0.1, 0.5, 2.0}) {
        c.stragglers = with({{.delay = milliseconds(fault)}});
        const Seconds now = step(plan, p, c);
        CHECK(now >= before * (1 - 1e-9));
        before = now;
      }
      before = {};
      for (const double share : {1.0, 0.7, 0.3, 0.05}) {
        c.stragglers = with({{.link_share = share}});
        const Seconds now = step(plan, p, c);
        CHECK(now >= before * (1 - 1e-9));
        before = now;
      }
    }
  }
  // A stale all-reduce of 100 ms hides 30 ms of compute and delays of up to 70 ms.
  const Profile p = profile_of_gradients({{milliseconds(20), Bytes(1e8)}}, milliseconds(10));
  Cluster c = plain_cluster(2, BytesPerSecond(1e9));
  for (const double delay : {0.0, 30.0, 69.0}) {
    c.stragglers = with({{.delay = milliseconds(delay)}});
    CHECK(step("lb_sgd", p, c).value() == Approx(0.1));
  }
  c.stragglers = with({{.delay = milliseconds(80)}});
  CHECK(step("lb_sgd", p, c).value() == Approx(0.11));
}

TEST_CASE("stragglers: a degraded link sets the pace of every pattern that crosses it") {
  Cluster c = plain_cluster(8, BytesPerSecond(1e9), microseconds(10));
  c.devices_per_node = 2;
  c.servers = 4;
  const auto time = [&](Operation op, const char* algorithm = "") {
    return (*communication_cost(c, algorithm))(op, Bytes(1e8)).value();
  };
  const double ring = time(Operation::all_reduce, "ring"), push = time(Operation::push);
  c.stragglers = with({{.link_share = 0.5}});
  const double slow_ring = time(Operation::all_reduce, "ring");
  CHECK(slow_ring - 30 * 1e-5 == Approx(2 * (ring - 30 * 1e-5)));
  // Two workers for each server: its link is as busy as one at half the rate, so that nothing is lost.
  CHECK(time(Operation::push) == Approx(push));
  c.stragglers.slow[0].link_share = 0.25;
  CHECK(time(Operation::push) - 1e-5 == Approx(2 * (push - 1e-5)));
  CHECK(time(Operation::local_reduce_scatter) == Approx(1e-5 + 0.05));  // inside machines all is well
  // A measured table, made on healthy links, is slowed as the closed form is.
  c.tables = {{"all_reduce", 16, {Bytes(1e6), Bytes(1e8)}, {milliseconds(3), milliseconds(250)}, ""}};
  const double measured = time(Operation::all_reduce);
  c.stragglers = {};
  CHECK(time(Operation::all_reduce) == Approx(0.25));
  CHECK(measured > 0.25 * 3.9);
  CHECK(measured < 0.25 * 4);
  // On one machine it is a link inside.
  c.tables.clear();
  c.nodes = 1;
  const double inside = time(Operation::all_reduce, "ring");
  c.stragglers = with({{.link_share = 0.5}});
  CHECK(time(Operation::all_reduce, "ring") - 2e-5 == Approx(2 * (inside - 2e-5)));
}

namespace {

Stragglers jitter(Jitter::Distribution distribution, double relative) { return {{}, {distribution, relative}}; }
constexpr auto normal = Jitter::Distribution::normal, exponential = Jitter::Distribution::exponential;

/// Mean of the largest of `workers` draws, in units of their spread beyond 1.
double mean_of_largest(Jitter::Distribution distribution, std::int64_t workers) {
  const double relative = 0.01;
  const LargestFactor largest(jitter(distribution, relative), workers);
  const StepDistribution steps = step_distribution(largest, [](double f) { return Seconds(f); });
  return (steps.mean.value() - 1) / relative;
}

}  // namespace

TEST_CASE("jitter: the largest of P exponential draws has the mean H_P, of normal ones the tabulated one") {
  for (const std::int64_t p : {1, 2, 8, 64, 1000, 100000}) {
    double harmonic = 0;
    for (std::int64_t k = 1; k <= p; ++k) harmonic += 1 / static_cast<double>(k);
    CHECK(mean_of_largest(exponential, p) == Approx(harmonic).epsilon(2e-3));
  }
  // Expected maxima of standard normal samples (Harter, Biometrika 1961).
  const struct {
    std::int64_t workers;
    double mean;
  } table[] = {{1, 0}, {2, 0.56419}, {4, 1.02938}, {10, 1.53875}, {100, 2.50759}, {400, 2.96818}};
  for (const auto& row : table) CHECK(mean_of_largest(normal, row.workers) == Approx(row.mean).epsilon(2e-3));
  // sqrt(2 ln P) is the limit, from below and slowly.
  double before = 0;
  for (const std::int64_t p : {10, 1000, 100000, 10000000}) {
    const double ratio = mean_of_largest(normal, p) / std::sqrt(2 * std::log(static_cast<double>(p)));
    CHECK(ratio > before);
    CHECK(ratio < 1);
    before = ratio;
  }
  CHECK(before > 0.9);
}

TEST_CASE("jitter: quantiles invert the distribution, mixed kinds and no jitter included") {
  Stragglers mixed = jitter(normal, 0.05);
  mixed.slow = {{.workers = 2, .compute_factor = 1.3}};
  const LargestFactor largest(mixed, 64);
  double before = 0;
  for (const double p : {0.001, 0.1, 0.5, 0.9, 0.999}) {
    const double q = largest.quantile(p);
    CHECK(largest.probability_up_to(q) == Approx(p).epsilon(1e-6));
    CHECK(q > before);
    before = q;
  }
  // Two workers 30 % slower, with 6.5 % of a step each of their own: hardly ever is it somebody else.
  CHECK(largest.quantile(0.5) == Approx(LargestFactor(jitter(normal, 0.05), 2).quantile(0.5) * 1.3).epsilon(0.01));
  const LargestFactor fixed(with({{.compute_factor = 1.7}}), 8);
  CHECK(fixed.quantile(0.1) == Approx(1.7));
  CHECK(fixed.quantile(0.9) == Approx(1.7));
  const StepDistribution steps = step_distribution(fixed, [](double f) { return Seconds(2 * f); });
  CHECK(steps.mean.value() == Approx(3.4));
  CHECK(steps.deviation.value() == Approx(0));
}

TEST_CASE("jitter: the integrated step is that of a Monte Carlo simulation of every rank") {
  Draw draw(57);
  for (const auto distribution : {normal, exponential}) {
    for (int round = 0; round < 3; ++round) {
      const bool device = round == 2;
      const Profile p = hardly_late(draw, device);
      const auto step_of = device ? simulated_wfbp_on_devices : simulated_wfbp;
      Cluster c = plain_cluster(8, BytesPerSecond(2e9), microseconds(20));
      c.stragglers = jitter(distribution, 0.1);
      c.stragglers.slow = {{.compute_factor = 1.1}};
      const StepDistribution steps = step_distribution(LargestFactor(c.stragglers, c.workers()),
                                                       [&](double f) { return time_of("wfbp", slowed(p, f), c); });
      std::mt19937_64 random(7);
      std::vector<double> simulated;
      const CommunicationCost cost = *communication_cost(c);
      for (int n = 0; n < 6000; ++n) {
        std::vector<Profile> ranks;
        double largest = 0;
        for (int w = 0; w < 8; ++w) {
          const double slow = w == 0 ? 1.1 : 1;
          const double extra = distribution == normal ? std::normal_distribution<double>(0, 0.1)(random)
                                                      : std::exponential_distribution<double>(10)(random);
          largest = std::max(largest, slow * (1 + extra));
          if (n % 20 == 0) ranks.push_back(slowed(p, slow * (1 + extra)));
        }
        // One rank stands for all; a part of the draws checks that in full.
        const double one = step_of({slowed(p, largest)}, cost).value();
        if (!ranks.empty()) CHECK(one == Approx(step_of(ranks, cost).value()).epsilon(1e-9));
        simulated.push_back(one);
      }
      std::sort(simulated.begin(), simulated.end());
      const double n = static_cast<double>(simulated.size());
      const double mean = std::accumulate(simulated.begin(), simulated.end(), 0.0) / n;
      double square = 0;
      for (const double s : simulated) square += (s - mean) * (s - mean);
      const double deviation = std::sqrt(square / n);
      CHECK(steps.mean.value() == Approx(mean).epsilon(4 * deviation / std::sqrt(n) / mean + 1e-4));
      CHECK(steps.deviation.value() == Approx(deviation).epsilon(0.06));
      CHECK(steps.p10.value() == Approx(simulated[600]).epsilon(0.01));
      CHECK(steps.p90.value() == Approx(simulated[5400]).epsilon(0.01));
      // The factor whose step is the mean.
      CHECK(time_of("wfbp", slowed(p, steps.typical_factor), c).value() == Approx(steps.mean.value()).epsilon(0.003));
      CHECK(steps.mean >= step("wfbp", p, c) * (1 - 1e-9));
    }
  }
}

TEST_CASE("stragglers: predictions say what they cost, and their parts still make up the step") {
  Draw draw(58);
  for (int round = 0; round < 20; ++round) {
    const Profile p = random_profile(draw, {.device = draw.coin()});
    Cluster c = random_cluster(draw);
    const PlanSpec spec = plan_spec_of(draw.coin() ? "ddp" : "dear");
    const Prediction plain = *predicted(p, c, spec);
    CHECK(!plain.stragglers);
    c.stragglers = with({{.compute_factor = 1.4, .delay = microseconds(200), .link_share = 0.8}});
    const Prediction slow = *predicted(p, c, spec);
    REQUIRE(slow.stragglers);
    CHECK(slow.stragglers->without == plain.iteration);
    CHECK(slow.iteration.value() == Approx(step(text_of(spec), p, c).value()));
    CHECK(slow.iteration >= plain.iteration * (1 - 1e-9));
    c.stragglers.jitter = {normal, 0.1};
    const Prediction irregular = *predicted(p, c, spec);
    REQUIRE(irregular.stragglers);
    CHECK(irregular.iteration >= plain.iteration * (1 - 1e-6));
    CHECK(irregular.stragglers->step_low <= irregular.iteration * (1 + 1e-3));
    CHECK(irregular.stragglers->step_high >= irregular.iteration * (1 - 1e-3));
    for (const Prediction* q : {&slow, &irregular}) {
      const Breakdown& b = q->breakdown;
      const Seconds sum = b.compute + b.exposed_communication + b.codec + b.input_stall + b.bubble + b.idle;
      CHECK(sum.value() == Approx(q->iteration.value()).epsilon(1e-6));
    }
    // Options are searched with the slowest worker in mind.
    PlanSpec automatic = plan_spec_of("ddp(bucket=auto)");
    CHECK(predicted(p, c, automatic)->iteration <= predicted(p, c, plan_spec_of("ddp"))->iteration * 1.02);
  }
}

TEST_CASE("switchml: its plan runs on a switch or says that there is none, and needs no barrier") {
  Draw draw(59);
  for (int round = 0; round < 40; ++round) {
    const Profile p = random_profile(draw);
    Cluster c = random_cluster(draw);
    c.nodes = std::max<std::int64_t>(2, c.nodes);
    const Answer<Prediction> refused = predicted(p, c, plan_spec_of("switchml"));
    REQUIRE(!refused);
    CHECK(refused.reason().find("no switch") != std::string::npos);
    CHECK(bool(predicted(p, c, plan_spec_of("switchml@ring"))));
    c.aggregation = Aggregation{};
    const Answer<Prediction> own = predicted(p, c, plan_spec_of("switchml"));
    REQUIRE(bool(own));
    CHECK(own->iteration == predicted(p, c, plan_spec_of("switchml@switchml"))->iteration);
    CHECK(own->iteration <= predicted(p, c, plan_spec_of("wfbp@switchml"))->iteration * (1 + 1e-9));
  }
}

TEST_CASE("stragglers: said in words") {
  CHECK(text_of(Stragglers{}) == "");
  Stragglers s = with({{.compute_factor = 1.3, .delay = milliseconds(5)}, {.workers = 2, .link_share = 0.5}});
  s.jitter = {exponential, 0.05};
  CHECK(text_of(s) ==
        "1 slow worker (compute 1.3 x, 5.000 ms late), 2 slow workers (link 0.5 x), exponential jitter of "
        "5 %");
}
