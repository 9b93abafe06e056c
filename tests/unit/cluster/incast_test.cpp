// Several senders at one card or one receiver: what the forms charge against bytes counted on explicit machines.
#include "helpers/plan_cases.hpp"
#include "oracles/card_traffic.hpp"
#include "oracles/level_traffic.hpp"

#include <stepcast/baseline/recorded_prices.hpp>
#include <stepcast/cluster/closed_forms.hpp>
#include <stepcast/cluster/collective.hpp>
#include <stepcast/layout/process_group.hpp>
#include <stepcast/strategies/shared/neighbours.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <vector>

using namespace stepcast;
using namespace stepcast::test;
using doctest::Approx;

namespace {

constexpr double card_rate = 2e10;

Cluster machines(std::int64_t nodes, std::int64_t per_node, std::int64_t cards) {
  Cluster c;
  c.name = "test";
  c.nodes = nodes;
  c.devices_per_node = per_node;
  c.nics_per_node = cards;
  c.inside = {Seconds(0), BytesPerSecond(1e15)};  // so that cards alone take time
  c.network = {Seconds(0), BytesPerSecond(card_rate)};
  c.provenance = {"test"};
  return c;
}

/// Calls `use` with machines of 1, 2, 4 and 8 devices and all numbers of cards that devices share evenly.
template <class Use>
void for_each_machine(const Use& use) {
  for (const std::int64_t per_node : {1, 2, 4, 8})
    for (std::int64_t cards = 1; cards <= per_node; cards *= 2) {
      CAPTURE(per_node);
      CAPTURE(cards);
      use(machines(4, per_node, cards));
    }
}

double per_byte(const Cluster& c, const char* algorithm, Operation op) {
  const Answer<CommunicationCost> cost = communication_cost(c, algorithm);
  REQUIRE(cost);
  return (*cost)(op, Bytes(1e12)).value() / 1e12;
}

/// Groups of `members` ranks, `stride` apart, that fill the machines.
std::vector<std::vector<std::int64_t>> groups(const Cluster& c, std::int64_t stride, std::int64_t members) {
  std::vector<std::vector<std::int64_t>> all;
  for (std::int64_t first = 0; first < c.workers(); ++first) {
    if (first / stride % members != 0) continue;
    all.emplace_back();
    for (std::int64_t i = 0; i < members; ++i) all.back().push_back(first + i * stride);
  }
  return all;
}

/// What algorithms charge groups of any stride for an operation, against the fullest card when `send` says what the
/// members of a group send.
template <class Send>
void check_groups(Operation operation, std::initializer_list<const char*> algorithms, const Send& send) {
  for_each_machine([&](const Cluster& c) {
    for (std::int64_t stride = 1; stride < c.workers(); stride *= 2)
      for (std::int64_t members = 2; members * stride <= c.workers(); members *= 2) {
        CAPTURE(stride);
        CAPTURE(members);
        CardTraffic traffic(c.devices_per_node, c.nics_per_node);
        for (const auto& group : groups(c, stride, members)) send(traffic, group);
        const RankAxis axis{stride, members};
        Cluster group = group_cluster(c, group_shape(c, c.workers(), std::span(&axis, 1)));
        group.nccl.all_to_all = group.nccl.send = 1;
        for (const char* algorithm : algorithms)
          CHECK(per_byte(group, algorithm, operation) == Approx(traffic.fullest() / card_rate).epsilon(1e-3));
      }
  });
}

}  // namespace

TEST_CASE("incast: an all-to-all of groups of any stride loads the cards that their members share") {
  check_groups(Operation::all_to_all, {"pairwise", "nccl"}, [](CardTraffic& traffic, const auto& group) {
    for (const std::int64_t a : group)
      for (const std::int64_t b : group)
        if (a != b) traffic.send(a, b, 1.0 / static_cast<double>(group.size()));
  });
}

TEST_CASE("incast: sends around the rings of groups of any stride load the cards that they share") {
  check_groups(Operation::send, {"ring", "nccl"}, [](CardTraffic& traffic, const auto& group) {
    for (std::size_t i = 0; i < group.size(); ++i) traffic.send(group[i], group[(i + 1) % group.size()], 1);
  });
}

TEST_CASE("incast: all devices of a stage send to the next stage together") {
  for_each_machine([](const Cluster& c) {
    for (std::int64_t tensor = 1; tensor <= c.workers() / 2; tensor *= 2)
      for (std::int64_t stages = 2; stages * tensor <= c.workers(); stages *= 2) {
        CAPTURE(tensor);
        CAPTURE(stages);
        Layout l;
        l.tensor = tensor;
        l.pipeline = stages;
        l.data = c.workers() / tensor / stages;
        for (const bool data_inside : {true, false}) {
          l.order = data_inside
                        ? std::array{Dimension::tensor, Dimension::context, Dimension::data, Dimension::pipeline}
                        : std::array{Dimension::tensor, Dimension::context, Dimension::pipeline, Dimension::data};
          const std::int64_t stride = rank_axis(l, Dimension::pipeline).stride;
          double fullest = 0;  // of all boundaries, one at a time: stages send at different times
          for (std::int64_t s = 0; s + 1 < stages; ++s) {
            CardTraffic traffic(c.devices_per_node, c.nics_per_node);
            for (const auto& group : groups(c, stride, stages))
              traffic.send(group[static_cast<std::size_t>(s)], group[static_cast<std::size_t>(s) + 1], 1);
            fullest = std::max(fullest, traffic.fullest());
          }
          const Link link = stage_link(c, l);
          if (fullest == 0) CHECK(link.bandwidth == c.inside.bandwidth);
          else CHECK(1 / link.bandwidth.value() == Approx(fullest / card_rate));
        }
      }
  });
}

TEST_CASE("incast: messages to neighbours load the cards of a machine, in and out") {
  for_each_machine([](const Cluster& c) {
    for (std::int64_t degree = 1; degree < c.workers(); ++degree) {
      CAPTURE(degree);
      // Cards share evenly what leaves a machine.
      CardTraffic traffic(c.devices_per_node, 1);
      for (std::int64_t r = 0; r < c.workers(); ++r)
        for (std::int64_t k = 0; k < degree; ++k) {
          const std::int64_t step = k % 2 == 0 ? k / 2 + 1 : -(k / 2 + 1);
          traffic.send(r, ((r + step) % c.workers() + c.workers()) % c.workers(), 1);
        }
      const double charged = neighbour_load(c, degree).flows() * per_byte(c, "ring", Operation::send);
      CHECK(charged == Approx(traffic.fullest() / (card_rate * static_cast<double>(c.nics_per_node))).epsilon(1e-3));
    }
  });
}

TEST_CASE("incast: messages to neighbours load the uplinks that machines share") {
  for (const std::int64_t per_node : {1, 2, 4})
    for (const double oversubscription : {1.0, 2.0, 8.0, 64.0}) {
      Cluster c = machines(16, per_node, 1);
      c.levels = {{"leaf", 4, {}, {}, 1, 0},
                  {"spine", 2, Seconds(0), BytesPerSecond(card_rate), 2, 0},
                  {"core", 2, Seconds(0), BytesPerSecond(card_rate), oversubscription, 0}};
      c = checked(c, "test");
      for (std::int64_t degree = 1; degree < c.workers(); degree += 3) {
        CAPTURE(per_node);
        CAPTURE(oversubscription);
        CAPTURE(degree);
        Round round;
        for (std::int64_t r = 0; r < c.workers(); ++r)
          for (std::int64_t k = 0; k < degree; ++k) {
            const std::int64_t step = k % 2 == 0 ? k / 2 + 1 : -(k / 2 + 1);
            round.push_back({r, ((r + step) % c.workers() + c.workers()) % c.workers(), 1});
          }
        const double counted = time_of_bytes(c, bytes_on_links(c, round));
        const double charged = neighbour_load(c, degree).flows() * per_byte(c, "ring", Operation::send);
        CHECK(charged >= counted * 0.999);
        // A card may be charged as if the narrowest level were all that its messages cross.
        const double narrowest = std::min(1.0, 8.0 / oversubscription);
        CHECK(charged <= counted / narrowest * 1.001);
      }
    }
}

TEST_CASE("incast: recorded groups of any share of a machine have that share of its cards") {
  for_each_machine([](const Cluster& c) {
    for (std::int64_t per_machine = 1; per_machine < c.devices_per_node; per_machine *= 2) {
      CAPTURE(per_machine);
      const std::int64_t members = per_machine * c.nodes, stride = c.devices_per_node / per_machine;
      CardTraffic ring(c.devices_per_node, c.nics_per_node);
      for (std::int64_t first = 0; first < stride; ++first)
        for (std::int64_t i = 0; i < members; ++i) ring.send(first + i * stride, first + (i + 1) % members * stride, 1);
      GroupCosts costs(c);
      const Answer<CommunicationCost>& cost = costs.of({members, per_machine});
      REQUIRE(cost);
      CHECK((*cost)(Operation::send, Bytes(1e12)).value() == Approx(1e12 * ring.fullest() / card_rate).epsilon(1e-3));
      const double each = (*cost)(Operation::reduce_scatter, Bytes(1e12)).value();  // the ring's, of a part each
      const double steps = static_cast<double>(members - 1) / static_cast<double>(members);
      const double groups_there = static_cast<double>(stride);  // one ring each leaves the machine, over all cards
      CHECK(each ==
            Approx(1e12 * steps * groups_there / (card_rate * static_cast<double>(c.nics_per_node))).epsilon(1e-3));
    }
  });
}

TEST_CASE("incast: a plan over servers loads worker cards, uplinks and servers with all bytes that they carry") {
  const std::vector<Produced> gradients(16, {Seconds(1e-9), Bytes(4e9)});
  const Profile profile = profile_of_gradients(gradients, Seconds(1e-9));
  const double model = 16 * 4e9;
  for (const std::int64_t servers : {1, 2, 4, 8})
    for (const double server_rate : {0.0, 0.25, 1.0, 4.0, 64.0})
      for (const double oversubscription : {1.0, 16.0}) {
        Cluster c = machines(8, 1, 1);
        c.servers = servers;
        c.server_rate = BytesPerSecond(server_rate * card_rate);
        if (oversubscription > 1)
          c.levels = {{"leaf", 4, {}, {}, 1, 0},
                      {"spine", 2, Seconds(0), BytesPerSecond(card_rate), oversubscription, 0}};
        c = checked(c, "test");
        CAPTURE(servers);
        CAPTURE(server_rate);
        CAPTURE(oversubscription);
        for (const char* plan :
             {"wfbp_ps", "wfbp_ps(keys=even)", "bsp_ps", "byteps", "dist_sync", "asgd(fetch=blocking)"}) {
          CAPTURE(plan);
          const CommPlan written = plan_of(plan, profile, c);
          const Answer<CommunicationCost> cost = communication_cost(c);
          std::vector<double> of_channel(written.channels.size(), 0);
          for (const Transfer& t : written.transfers) of_channel[t.channel] += (*cost)(t.operation, t.size).value();
          std::map<std::string, double> busy;  // of several channels of a name the fullest
          for (std::size_t i = 0; i < of_channel.size(); ++i) {
            double& most = busy[std::string(written.channels[i].name)];
            most = std::max(most, of_channel[i]);
          }
          // Out of a worker's card goes the model; BytePS keeps what it adds up itself, and passes on what others sent.
          const bool balanced = std::string(plan) == "byteps" && servers <= 8;
          const ServerSplit split = byteps_split(8, servers);
          const double worker = balanced ? split.time_factor * model : model;
          CHECK(busy["up"] >= worker / card_rate * 0.999);
          CHECK(busy["dn"] >= worker / card_rate * 0.999);
          if (!balanced) CHECK(busy["up"] >= model * oversubscription / card_rate * 0.999);
          // Into the servers goes what all machines send, evenly or not.
          const double to_servers = balanced ? 8 * split.per_server * model : 8 * model / static_cast<double>(servers);
          const double card = server_rate > 0 ? server_rate * card_rate : card_rate;
          CHECK(std::max(busy["up"], busy["server in"]) >= to_servers / card * 0.999);
          // Nothing but these holds it up; of separate servers it is taken that all bytes cross the uplinks.
          const double most = std::max(worker * oversubscription / card_rate, to_servers / card);
          if (busy["server in"] == 0) CHECK(busy["up"] <= most * 1.001);
        }
      }
}
