// Process groups: where the members of each dimension lie, and what that leaves them of the links.
#include <stepcast/cluster/cluster_description.hpp>
#include <stepcast/cluster/collective.hpp>
#include <stepcast/layout/process_group.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

using namespace stepcast;
using doctest::Approx;

namespace {

Cluster machines(std::int64_t nodes, std::int64_t per_node, std::int64_t cards) {
  Cluster c;
  c.name = "test";
  c.nodes = nodes;
  c.devices_per_node = per_node;
  c.nics_per_node = cards;
  c.inside = {microseconds(3), BytesPerSecond(2e11)};
  c.network = {microseconds(10), BytesPerSecond(2e10)};
  return c;
}
Layout layout_of(std::int64_t tensor, std::int64_t data, std::int64_t pipeline) {
  Layout l;
  l.tensor = tensor;
  l.data = data;
  l.pipeline = pipeline;
  return l;
}
void check(const GroupShape& shape, std::int64_t members, std::int64_t per_node, std::int64_t nodes,
           std::int64_t sharing) {
  CHECK(shape.members == members);
  CHECK(shape.per_node == per_node);
  CHECK(shape.nodes == nodes);
  CHECK(shape.sharing_network == sharing);
}

}  // namespace

TEST_CASE("The tensor group fills a machine, whose cards the data groups share") {
  const Cluster c = machines(4, 8, 2);
  const Layout l = layout_of(8, 4, 1);
  check(group_shape(c, l, Dimension::tensor), 8, 8, 1, 1);
  check(group_shape(c, l, Dimension::data), 4, 1, 4, 8);
  const Cluster data = group_cluster(c, group_shape(c, l, Dimension::data));
  CHECK(data.workers() == 4);
  // Eight groups, two cards: a quarter of a card each.
  CHECK(data.network.bandwidth.value() * static_cast<double>(data.nics_per_node) ==
        Approx(c.network.bandwidth.value() / 4));
}

TEST_CASE("What shares a machine depends on the order of ranks") {
  const Cluster c = machines(4, 8, 8);
  Layout l = layout_of(2, 4, 4);
  check(group_shape(c, l, Dimension::tensor), 2, 2, 1, 1);
  check(group_shape(c, l, Dimension::data), 4, 4, 1, 1);
  check(group_shape(c, l, Dimension::pipeline), 4, 1, 4, 8);
  l.order = {Dimension::pipeline, Dimension::tensor, Dimension::context, Dimension::data};
  check(group_shape(c, l, Dimension::pipeline), 4, 4, 1, 1);
  check(group_shape(c, l, Dimension::tensor), 2, 2, 1, 1);
  check(group_shape(c, l, Dimension::data), 4, 1, 4, 8);
}

TEST_CASE("A group that fills machines has their cards to itself") {
  const Cluster c = machines(4, 8, 4);
  const Layout l = layout_of(16, 2, 1);
  check(group_shape(c, l, Dimension::tensor), 16, 8, 2, 1);
  const Cluster group = group_cluster(c, group_shape(c, l, Dimension::tensor));
  CHECK(group.nodes == 2);
  CHECK(group.devices_per_node == 8);
  CHECK(group.nics_per_node == 4);
  CHECK(group.network.bandwidth.value() == c.network.bandwidth.value());
}

TEST_CASE("The even rule agrees with looking at every rank") {
  int even = 0;
  for (const std::int64_t per_node : {4, 6, 8})
    for (std::int64_t tensor = 1; tensor <= 16; ++tensor)
      for (std::int64_t data = 1; data <= 6; ++data)
        for (std::int64_t pipeline = 1; pipeline <= 4; ++pipeline) {
          const Layout l = layout_of(tensor, data, pipeline);
          if (l.devices() % per_node != 0) continue;
          const Cluster c = machines(l.devices() / per_node, per_node, 1);
          for (const Dimension d : {Dimension::tensor, Dimension::data, Dimension::pipeline}) {
            const RankAxis axis = rank_axis(l, d);
            std::map<std::int64_t, std::map<std::int64_t, int>> groups;  // group -> machine -> members
            for (std::int64_t rank = 0; rank < l.devices(); ++rank)
              ++groups[rank - rank / axis.stride % axis.degree * axis.stride][rank / per_node];
            std::set<int> counts;
            std::size_t widest = 0;
            for (const auto& [first, on_machine] : groups) {
              widest = std::max(widest, on_machine.size());
              for (const auto& [machine, members] : on_machine) counts.insert(members);
            }
            const GroupShape shape = group_shape(c, l, d);
            CHECK(shape.members == shape.per_node * shape.nodes);
            CHECK(shape.nodes >= static_cast<std::int64_t>(widest));
            if (counts.size() > 1) continue;  // cut unevenly
            ++even;
            CHECK(shape.per_node == *counts.begin());
            CHECK(shape.nodes == static_cast<std::int64_t>(widest));
          }
        }
  CHECK(even > 500);
}

TEST_CASE("Tables are used by groups that lie as whole jobs of their size do") {
  Cluster c = machines(4, 8, 8);
  c.tables = {{"all_reduce", 4, {Bytes(1e6)}, {milliseconds(1)}, "measured"},
              {"all_reduce", 16, {Bytes(1e6)}, {milliseconds(2)}, "measured"}};
  CHECK(group_cluster(c, group_shape(c, layout_of(4, 8, 1), Dimension::tensor)).tables.size() == 1);
  CHECK(group_cluster(c, group_shape(c, layout_of(16, 2, 1), Dimension::tensor)).tables.size() == 1);
  // Four members on four machines were not what was measured, nor is a size without a table.
  CHECK(group_cluster(c, group_shape(c, layout_of(8, 4, 1), Dimension::data)).tables.empty());
  CHECK(group_cluster(c, group_shape(c, layout_of(8, 4, 1), Dimension::tensor)).tables.empty());
  // A library that carries its tables to other counts does so for groups, too: all workers are one like any job.
  const Cluster shipped = cluster_of({.cluster = "8xa3-mega"});
  const Cluster all = group_cluster(shipped, group_shape(shipped, layout_of(1, 64, 1), Dimension::data));
  const auto time = [](const Cluster& on) { return (*communication_cost(on))(Operation::all_reduce, mebibytes(25)); };
  CHECK(time(all) == time(shipped));
}

TEST_CASE("Experts are spread over neighbours that hold the same stage") {
  const auto axes = [](const std::string& text, std::int64_t devices) {
    const Layout l = *resolved(layout_plan_of(text + "/ddp").layout, devices, 4096);
    const RankAxis spread = expert_axis(l);
    std::string out = std::to_string(spread.stride) + "x" + std::to_string(spread.degree);
    for (const RankAxis& a : expert_replica_axes(l))
      if (a.degree > 1) out += " " + std::to_string(a.stride) + "x" + std::to_string(a.degree);
    return out;
  };
  CHECK(axes("layout(ep=8)", 64) == "1x8 8x8");
  CHECK(axes("layout(tp=4,ep=8)", 64) == "4x8 32x2");
  CHECK(axes("layout(tp=4,ep=8,etp=1,sp=on)", 64) == "1x8 8x8");
  CHECK(axes("layout(tp=2,cp=2,pp=2,ep=4)", 64) == "2x4 8x4");
  // Where stages lie between: along data alone.
  CHECK(axes("layout(tp=2,pp=2,ep=4,order=tp-pp-dp-cp)", 64) == "4x4 16x4");
}

TEST_CASE("Several axes make one group") {
  const Cluster c = machines(8, 8, 8);
  Layout l = layout_of(4, 4, 2);
  l.context = 2;
  // tp 4 x cp 2 fill a machine; gradients are summed over cp and dp: two members a machine, on four machines.
  const RankAxis axes[] = {rank_axis(l, Dimension::context), rank_axis(l, Dimension::data)};
  check(group_shape(c, l.devices(), axes), 8, 2, 4, 4);
}

TEST_CASE("Neighbouring stages share a machine or its cards") {
  const Cluster c = machines(4, 8, 2);
  const Link between = stage_link(c, layout_of(8, 1, 4));
  CHECK(between.bandwidth.value() == Approx(c.network.bandwidth.value() / 4));  // eight pairs, two cards
  CHECK(between.latency == c.network.latency);
  Layout inner = layout_of(1, 4, 8);
  inner.order = {Dimension::pipeline, Dimension::tensor, Dimension::context, Dimension::data};
  CHECK(stage_link(c, inner).bandwidth == c.inside.bandwidth);
  // One pair crosses: it has a card to itself, and no more than one.
  inner.pipeline = 16;
  inner.data = 2;
  CHECK(stage_link(c, inner).bandwidth == c.network.bandwidth);
}

TEST_CASE("Of a mesh a group has the links among itself") {
  Cluster c = machines(4, 8, 8);
  c.inside_mesh = 8;
  c.all_reduce = "ring";
  const double all = c.inside.bandwidth.value();
  const auto time = [&](const Cluster& of, Operation operation) {
    const Answer<CommunicationCost> cost = communication_cost(of);
    REQUIRE(cost);
    return ((*cost)(operation, Bytes(2e9)) - (*cost)(operation, Bytes(1e9))).value();
  };
  const auto of_group = [&](const Layout& l) { return group_cluster(c, group_shape(c, l, Dimension::tensor)); };
  const auto rate = [&](std::int64_t tensor) {  // a ring of n sends 2 (n - 1) / n of the buffer
    const double n = static_cast<double>(tensor);
    return 2 * (n - 1) / n * 1e9 / time(of_group(layout_of(tensor, 32 / tensor, 1)), Operation::all_reduce);
  };
  CHECK(rate(8) == Approx(all));
  CHECK(rate(4) == Approx(all * 3 / 7));
  CHECK(rate(2) == Approx(all / 7));
  // A message has one link, whatever the group; two stages on one machine are a pair, as is a job of two devices.
  CHECK(1e9 / time(of_group(layout_of(8, 4, 1)), Operation::send) == Approx(all / 7));
  Cluster machine = machines(1, 8, 8);
  machine.inside_mesh = 8;
  CHECK(stage_link(machine, layout_of(4, 1, 2)).bandwidth.value() == Approx(all / 7));
  const Answer<Cluster> two = resized(c, 2);
  REQUIRE(two);
  CHECK(1e9 / time(*two, Operation::all_reduce) == Approx(all / 7));
  CHECK(cluster_of_json(json_of(c), "mesh").inside_mesh == 8);
  c.inside_mesh = 4;
  CHECK_THROWS_AS((void)checked(c, "test"), InputError);
}

TEST_CASE("A group of one sends nothing") {
  const Cluster c = machines(4, 8, 2);
  const GroupShape shape = group_shape(c, layout_of(1, 8, 4), Dimension::tensor);
  check(shape, 1, 1, 1, 1);
  const auto cost = communication_cost(group_cluster(c, shape));
  REQUIRE(cost);
  CHECK((*cost)(Operation::all_reduce, Bytes(1e9)) == Seconds(0));
}

TEST_CASE("Groups that machines cut unevenly reach over as many machines as their ranks say") {
  for (const std::int64_t machine : {2, 3, 4, 6, 7, 10})
    for (const std::int64_t tensor : {1, 2, 4, 5})
      for (const std::int64_t data : {1, 3, 4, 6})
        for (const std::int64_t stages : {1, 2, 5}) {
          const Layout l = layout_of(tensor, data, stages);
          for (const Dimension d : {Dimension::tensor, Dimension::data, Dimension::pipeline}) {
            const RankAxis axis = rank_axis(l, d);
            std::map<std::int64_t, std::set<std::int64_t>> reached;  // first rank of a group -> its machines
            for (std::int64_t rank = 0; rank < l.devices(); ++rank)
              reached[rank - rank / axis.stride % axis.degree * axis.stride].insert(rank / machine);
            std::size_t most = 1;
            for (const auto& [first, machines_of_group] : reached) most = std::max(most, machines_of_group.size());
            const GroupShape shape = group_shape(machines(l.devices() / machine + 1, machine, 1), l, d);
            CHECK((shape.nodes == 1) == (most == 1));
            CHECK(shape.nodes >= static_cast<std::int64_t>(most));
          }
        }
}
