// The nodes of each device are written once, with gaps for what differs from rank to rank.
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/formats/chakra/chakra.hpp>
#include <stepcast/simulators/network_files.hpp>
#include <stepcast/simulators/planned_layout.hpp>
#include <stepcast/step_nodes/layout_step.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace stepcast {

namespace {

/// What differs from rank to rank: a group's id, or the ranks at both ends of a message.
struct Gap {
  StepNode::Kind kind = StepNode::Kind::compute;
  StepNode::Peer peer = StepNode::Peer::device;
  std::uint32_t where = 0;
  bool operator==(const Gap&) const = default;
};
/// Text that all ranks of a device share; behind it a message that ends with what fills the gap.
struct Piece {
  std::string text, message;
  std::uint32_t gap = 0;
};
struct DeviceText {
  std::vector<Piece> pieces;
  std::string rest;
  std::vector<Gap> gaps;
  std::size_t bytes = 0;
};

/// Whole microseconds whose sums stay right.
class Rounded {
 public:
  std::uint64_t next(Seconds time) {
    exact_ += time.value() * 1e6;
    const double whole = std::max(told_, std::round(exact_));
    return static_cast<std::uint64_t>(whole - std::exchange(told_, whole));
  }

 private:
  double exact_ = 0, told_ = 0;
};

}  // namespace

struct RankTraces::State {
  LayoutStep step;
  std::vector<DeviceText> devices;
  std::vector<std::vector<std::int32_t>> group_ids;  // by group of the step and rank; 0: none
};

namespace {

using State = RankTraces::State;

std::int64_t members_in(const StepGroup& group) {
  std::int64_t members = group.devices.empty() ? 1 : std::ssize(group.devices);
  for (const RankAxis& axis : group.axes) members *= axis.degree;
  return members;
}

chakra_et::Node chakra_node(const LayoutStep& step, const StepNode& from, std::uint64_t id,
                            std::array<Rounded, 2>& rounded) {
  using Kind = StepNode::Kind;
  chakra_et::Node node;
  node.id = id;
  node.name = from.name;
  for (const std::uint32_t before : from.after) node.data.push_back(before + 1);
  std::ranges::sort(node.data);
  node.start_us = static_cast<std::uint64_t>(from.start.value() * 1e6);
  node.duration_us = rounded[from.kind == Kind::compute ? 0 : 1].next(from.time);
  auto& a = node.attributes;
  a["duration_ns"].number = std::llround(from.time.value() * 1e9);
  a["is_cpu_op"].number = from.kind == Kind::compute && step.on_host;
  switch (from.kind) {
    case Kind::compute:
      node.type = chakra_et::NodeType::compute;
      return node;
    case Kind::collective: {
      node.type = chakra_et::NodeType::collective;
      const std::int64_t members = members_in(step.groups[from.where]);
      const double share = from.operation == Operation::all_gather ? static_cast<double>(members) : 1;
      a["comm_type"].number = chakra_number_of(from.operation);
      a["comm_size"].number = std::llround(from.size.value() / share);
      if (share > 1) a["comm_out_size"].number = std::llround(from.size.value());
      a["comm_group_size"].number = members;
      return node;
    }
    case Kind::send:
    case Kind::receive:
      node.type = from.kind == Kind::send ? chakra_et::NodeType::send : chakra_et::NodeType::receive;
      a["comm_size"].number = std::llround(from.size.value());
      a["comm_tag"].number = from.tag;
      return node;
  }
  return node;
}

DeviceText text_of(const LayoutStep& step, const std::vector<StepNode>& nodes) {
  DeviceText out;
  std::array<Rounded, 2> rounded;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const chakra_et::Node node = chakra_node(step, nodes[i], i + 1, rounded);
    if (nodes[i].kind == StepNode::Kind::compute) {
      out.rest += chakra_et::bytes_of(node);
      continue;
    }
    const Gap gap{nodes[i].kind, nodes[i].peer, nodes[i].where};
    auto found = std::find(out.gaps.begin(), out.gaps.end(), gap);
    if (found == out.gaps.end()) found = out.gaps.insert(found, gap);
    out.pieces.push_back({std::exchange(out.rest, {}), chakra_et::message_of(node),
                          static_cast<std::uint32_t>(found - out.gaps.begin())});
  }
  constexpr std::size_t of_a_gap = 20;
  for (const Piece& piece : out.pieces) out.bytes += piece.text.size() + piece.message.size() + of_a_gap;
  out.bytes += out.rest.size();
  return out;
}

/// Numbers the groups in which some rank has a collective, and writes them down.
std::string number_groups(State& state, std::int64_t& count) {
  const LayoutStep& step = state.step;
  std::string json;
  std::int32_t next = 1;
  for (std::uint32_t g = 0; g < step.groups.size(); ++g) {
    std::vector<bool> used;
    for (const DeviceText& d : state.devices)
      used.push_back(std::ranges::any_of(
          d.gaps, [&](const Gap& gap) { return gap.kind == StepNode::Kind::collective && gap.where == g; }));
    std::vector<std::int32_t>& ids = state.group_ids.emplace_back(static_cast<std::size_t>(step.layout.devices()), 0);
    for (std::int64_t rank = 0; rank < step.layout.devices(); ++rank) {
      if (ids[static_cast<std::size_t>(rank)] != 0 || !used[device_of(step.layout, rank)]) continue;
      std::string list;
      for (const std::int64_t member : members_of(step.groups[g], step.layout, rank)) {
        ids[static_cast<std::size_t>(member)] = next;
        list += (list.empty() ? "" : ", ") + std::to_string(member);
      }
      json += (json.empty() ? "{\n  \"" : ",\n  \"") + std::to_string(next++) + "\": [" + list + "]";
    }
  }
  count = next - 1;
  return json.empty() ? "{}\n" : json + "\n}\n";
}

std::string filled(const State& state, const Gap& gap, std::int64_t rank) {
  if (gap.kind == StepNode::Kind::collective)
    return chakra_et::attribute_of("pg_name",
                                   {{}, std::to_string(state.group_ids[gap.where][static_cast<std::size_t>(rank)])});
  StepNode message;
  message.peer = gap.peer;
  message.where = gap.where;
  const std::int64_t other = peer_of(message, state.step.layout, rank);
  const bool sends = gap.kind == StepNode::Kind::send;
  return chakra_et::attribute_of("comm_src", {sends ? rank : other, {}}) +
         chakra_et::attribute_of("comm_dst", {sends ? other : rank, {}});
}

/// What ASTRA-sim runs otherwise than predicted.
std::vector<std::string> remarks_of(const LayoutStep& step, const Cluster& cluster, std::int64_t groups) {
  std::vector<std::string> remarks;
  if (groups > 0 && cluster.all_reduce != "ring")
    remarks.push_back("ASTRA-sim runs a ring among the ranks of a group, not '" + cluster.all_reduce + "'");
  constexpr std::int64_t most_groups = 2147;  // a million streams each, in 32 bits
  if (groups > most_groups)
    remarks.push_back("its " + std::to_string(groups) + " groups are more than the " + std::to_string(most_groups) +
                      " whose streams ASTRA-sim numbers in 32 bits");
  constexpr double worth_telling = 0.01;
  if (std::abs(step.end / step.iteration - 1) > worth_telling)
    remarks.push_back("the nodes of one step alone take " + text_of(step.end) + ", and a step is predicted to take " +
                      text_of(step.iteration));
  return remarks;
}

}  // namespace

std::int64_t RankTraces::ranks() const { return state_->step.layout.devices(); }

Bytes RankTraces::size() const {
  double sum = 0;
  for (const DeviceText& d : state_->devices) sum += static_cast<double>(d.bytes);
  return Bytes(sum * static_cast<double>(ranks() / std::ssize(state_->devices)));
}

std::string RankTraces::of(std::int64_t rank) const {
  const DeviceText& text = state_->devices[device_of(state_->step.layout, rank)];
  std::vector<std::string> fillings;
  for (const Gap& gap : text.gaps) fillings.push_back(filled(*state_, gap, rank));
  chakra_et::Metadata metadata;
  metadata.version = "0.0.4";
  metadata.attributes["producer"].text = "stepcast";
  metadata.attributes["world_size"].number = ranks();
  metadata.attributes["rank"].number = rank;
  std::string out = chakra_et::bytes_of(metadata);
  out.reserve(out.size() + text.bytes);
  for (const Piece& piece : text.pieces) {
    out += piece.text;
    chakra_et::append(out, piece.message, fillings[piece.gap]);
  }
  return out += text.rest;
}

Answer<PlannedLayout> planned_layout(const Workload& workload, const Cluster& cluster, const LayoutPlan& plan,
                                     const LayoutOptions& options) {
  if (cluster.workers() < 2) return Inapplicable{"one rank sends nothing that a network could simulate"};
  const Answer<LayoutPrediction> fits = predicted(workload, cluster, plan, options);
  if (!fits) return Inapplicable{fits.reason()};
  Answer<NetworkFiles> files = network_files(cluster, cluster.all_reduce);
  if (!files) return Inapplicable{files.reason()};
  Answer<LayoutStep> step = layout_step(workload, cluster, plan, options);
  if (!step) return Inapplicable{step.reason()};
  auto state = std::make_shared<State>();
  state->step = *std::move(step);
  std::size_t most_nodes = 0, most_messages = 0;
  for (std::vector<StepNode>& nodes : state->step.devices) {
    for (const StepNode& node : nodes)
      if (node.kind == StepNode::Kind::collective && !chakra_number_of(node.operation))
        return Inapplicable{"it sends by " + std::string(name_of(node.operation)) +
                            ", which ASTRA-sim does not run among the ranks of a group"};
    state->devices.push_back(text_of(state->step, nodes));
    most_nodes = std::max(most_nodes, nodes.size());
    most_messages = std::max(most_messages, state->devices.back().pieces.size());
    std::vector<StepNode>().swap(nodes);
  }
  RankTraces traces(state);
  if (traces.size() > most_file_bytes)
    return Inapplicable{"its " + std::to_string(traces.ranks()) + " files would hold " + text_of(traces.size()) +
                        ", and at most " + text_of(most_file_bytes) +
                        " are written; fewer micro-batches (a smaller batch, a larger mb=) have fewer nodes"};
  std::int64_t count = 0;
  std::string groups = number_groups(*state, count);
  std::vector<std::string> remarks = remarks_of(state->step, cluster, count);
  remarks.insert(remarks.end(), files->remarks.begin(), files->remarks.end());
  const Seconds iteration = state->step.iteration, end = state->step.end;
  return PlannedLayout{std::move(traces),
                       std::move(files->network),
                       std::move(files->system),
                       std::move(files->memory),
                       std::move(groups),
                       count,
                       most_nodes,
                       most_messages,
                       iteration,
                       end,
                       std::move(remarks)};
}

}  // namespace stepcast
