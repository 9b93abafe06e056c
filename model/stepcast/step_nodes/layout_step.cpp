// Passes are written in the order in which a pipeline can run them, so that a receive finds its send; then what follows
// the last backward pass of each device.
#include <stepcast/cluster/stragglers.hpp>
#include <stepcast/pace/stalls.hpp>
#include <stepcast/parallelism/tables.hpp>
#include <stepcast/pipeline/order.hpp>
#include <stepcast/prediction/alike.hpp>
#include <stepcast/prediction/breakdown.hpp>
#include <stepcast/schedule/task_name.hpp>
#include <stepcast/step_nodes/layout_step.hpp>
#include <stepcast/step_nodes/unit_segments.hpp>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace stepcast {
namespace {

constexpr std::size_t most_nodes = 8'000'000;
using After = std::vector<std::uint32_t>;

void add_to(After& after, const After& more) {
  for (const std::uint32_t node : more)
    if (std::find(after.begin(), after.end(), node) == after.end()) after.push_back(node);
}

/// Axes without those of one rank, inner ones first, neighbours as one: equal for equal groups.
std::vector<RankAxis> plain(std::vector<RankAxis> axes) {
  std::erase_if(axes, [](const RankAxis& a) { return a.degree == 1; });
  std::sort(axes.begin(), axes.end(), [](const RankAxis& a, const RankAxis& b) { return a.stride < b.stride; });
  std::vector<RankAxis> out;
  for (const RankAxis& a : axes)
    if (!out.empty() && out.back().stride * out.back().degree == a.stride) out.back().degree *= a.degree;
    else out.push_back(a);
  return out;
}

/// The nodes of one device, as they are written.
class DeviceNodes {
 public:
  explicit DeviceNodes(std::vector<StepNode>& nodes) : nodes_(&nodes) {}

  After chain;  ///< what the next pass waits for
  /// Adds a node that waits for `after`.
  std::uint32_t add(StepNode node, After after) {
    for (const std::uint32_t before : after) node.start = std::max(node.start, end_of(before));
    node.after = std::move(after);
    nodes_->push_back(std::move(node));
    return static_cast<std::uint32_t>(nodes_->size() - 1);
  }
  /// Compute behind all that the next pass waits for, which waits for it then; nothing where it takes no time.
  void compute(const std::string& name, Seconds time) {
    if (!(time > Seconds(0))) return;
    StepNode node;
    node.name = name;
    node.time = time;
    chain = {add(std::move(node), chain)};
  }
  [[nodiscard]] Seconds end_of(std::uint32_t node) const { return (*nodes_)[node].start + (*nodes_)[node].time; }
  [[nodiscard]] Seconds end_of(const After& after) const {
    Seconds end;
    for (const std::uint32_t node : after) end = std::max(end, end_of(node));
    return end;
  }
  [[nodiscard]] StepNode& operator[](std::uint32_t node) { return (*nodes_)[node]; }

 private:
  std::vector<StepNode>* nodes_;
};

/// When a task of the plan comes: before the first forward pass, beside and behind the last backward pass, behind the
/// update.
enum class When : std::uint8_t { early, beside, late };

/// What the plan adds to a layer: in the first forward pass, and at its end in the last backward pass.
struct LayerEnd {
  After needed;                                          ///< by its first forward pass
  Seconds longer_forward;                                ///< what that takes longer
  Seconds longer;                                        ///< its compute takes, beside transfers
  std::vector<std::pair<std::string, Seconds>> inserts;  ///< compute behind it
  std::vector<std::uint32_t> tasks;                      ///< of the timeline, by insert; none of buckets
  After done, inserted;                                  ///< what ends it, and its last insert
};

/// Gradients of one device, over the layers of its profile.
struct DeviceGradients {
  Profile profile;
  std::vector<std::uint32_t> layers_to, content;  ///< of each of its units; these as indices of the split
  std::vector<LayerEnd> ends;                     ///< by layer
  std::optional<DetailedTimeline> timeline;
  std::optional<CommPlan> in_a_row;  ///< nothing is hidden
  GradientBuckets buckets;
  bool any = false;
};

/// A part of the gradients' bytes is of experts, which travel in their own group.
struct Parts {
  double dense = 1, expert_time = 0, expert = 0;  ///< of what is counted: bytes, time, and bytes again
};

class StepWriter : public PassTaker {
 public:
  StepWriter(LayoutTables& tables, const EvaluatedLayout& e, const PlanSpec& plan)
      : tables_(tables),
        workload_(tables.workload),
        cluster_(tables.cluster),
        e_(e),
        l_(e.layout),
        plan_(plan),
        groups_(tables.cluster),
        prices_(groups_, l_),
        units_(e.split->sequence(workload_)),
        sharded_(divides_gradients(*e.split, l_)),
        gathers_(sends_in_passes(workload_, *e.split, l_) && gathers_ahead(workload_, l_)) {}

  Answer<LayoutStep> step() {
    if (!l_.unit_choices.empty())
      return Inapplicable{
          "its units choose for themselves (units=), and neighbours of a rank differ from unit to unit"};
    if (l_.overlap_expert)
      return Inapplicable{
          "overlap_ep=on runs passes beside each other, and nodes of a device are written one pass after the other; "
          "overlap_ep=off has the same messages"};
    delays_ = delays_weight_gradients(*l_.schedule);
    if (delays_ && sharded_)
      return Inapplicable{std::string(l_.schedule->name) +
                          " has weight gradients in passes of their own, and ZeRO-2 and 3 reduce in every one"};
    if (std::string why = prepare(); !why.empty()) return Inapplicable{why};
    if (std::string why = order_passes(*l_.schedule, e_.pipeline->shape, last_); !why.empty()) return Inapplicable{why};
    if (std::string why = order_passes(*l_.schedule, e_.pipeline->shape, *this); !why.empty()) return Inapplicable{why};
    if (too_many_)
      return Inapplicable{"a step of more than " + std::to_string(most_nodes) +
                          " nodes; fewer micro-batches (--global-batch, mb=) have fewer"};
    for (std::uint32_t d = 0; d < out_.devices.size(); ++d) after_passes(d);
    meet_ties();
    for (std::uint32_t d = 0; d < out_.devices.size(); ++d) finish(d);
    out_.layout = l_;
    out_.iteration = e_.iteration;
    out_.on_host = workload_.on_host;
    for (const std::vector<StepNode>& nodes : out_.devices)
      for (const StepNode& node : nodes) out_.end = std::max(out_.end, node.start + node.time);
    return std::move(out_);
  }

  void expect(std::size_t) override {}
  void take(const OrderedPass& pass) override {
    const std::uint32_t number = taken_++;
    sends_.push_back(OrderedPass::none);
    if (too_many_) return;
    DeviceNodes nodes = at(pass.device);
    const bool forward = pass.slot.pass == PipelinePass::forward;
    if (pass.input != OrderedPass::none && sender_[pass.input] != pass.device)
      receive(nodes, pass, sender_[pass.input], pass.input);
    hands_on_ = pass.output != OrderedPass::to_none;
    put_off_ = Seconds(0);
    write_pass(nodes, pass, last_.is_last(number));
    wait_for_host(nodes, pass);
    copy_activations(nodes, pass);
    if (pass.output != OrderedPass::to_none) {
      const std::uint32_t v = forward ? pass.virtual_stage : pass.virtual_stage - 1;
      const StageSend sent = stage_send(boundary_unit(v));
      After after = nodes.chain;
      After& link = device_[pass.device].link[pass.output];
      add_to(after, link);
      StepNode node;
      node.kind = StepNode::Kind::send;
      node.where = pass.receiver;
      node.tag = number;
      node.size = sent.part;
      node.time = sent.link;
      node.name = "send " + pass_name(pass);
      sends_.back() = nodes.add(std::move(node), std::move(after));
      link = {sends_.back()};
      if (!l_.overlap_pipeline) nodes.chain = link;
    }
    if (put_off_ > Seconds(0)) {
      nodes.compute(pass_name(pass) + (forward ? " beside parameters" : " beside gradients"), put_off_);
      LayerEnd& end = device_[pass.device].sums.ends[last_layer_];
      if (!forward) end.done = end.inserted = nodes.chain;
    }
    sender_.push_back(pass.device);
    keep(pass.device, nodes);
    std::size_t all = 0;
    if (number % 256 == 0)
      for (const std::vector<StepNode>& d : out_.devices) all += d.size();
    too_many_ = all > most_nodes;
  }

 private:
  /// Which passes end a device's work on a virtual stage.
  class LastPasses : public PassTaker {
   public:
    void expect(std::size_t) override {}
    void take(const OrderedPass& pass) override {
      const bool ends = pass.slot.pass == PipelinePass::backward || pass.slot.pass == PipelinePass::weight_gradient;
      if (ends) last_[{pass.device, pass.virtual_stage}] = number_;
      ++number_;
    }
    [[nodiscard]] bool is_last(std::uint32_t number) {
      if (numbers_.empty())
        for (const auto& [place, last] : last_) numbers_.insert(last);
      return numbers_.contains(number);
    }

   private:
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> last_;
    std::set<std::uint32_t> numbers_;
    std::uint32_t number_ = 0;
  };
  struct DeviceState {
    After chain;
    After begin;                            // of the passes
    After gathers;                          // last of those that wait for no micro-batch
    After link[3];                          // last send, by output
    std::map<std::uint32_t, After> source;  // last receive, by sender
    After gradients;                        // ends of all that the update waits for
    DeviceGradients sums;
    std::vector<std::vector<std::uint32_t>> of_task;
    std::vector<When> when;         // of tasks
    std::set<std::uint32_t> begun;  // virtual stages
  };

  DeviceNodes at(std::uint32_t d) {
    DeviceNodes nodes(out_.devices[d]);
    nodes.chain = device_[d].chain;
    return nodes;
  }
  void keep(std::uint32_t d, const DeviceNodes& nodes) { device_[d].chain = nodes.chain; }

  std::uint32_t group(std::vector<RankAxis> axes) { return number_of({plain(std::move(axes)), {}}); }
  std::uint32_t number_of(const StepGroup& g) {
    const auto found = std::find(out_.groups.begin(), out_.groups.end(), g);
    if (found != out_.groups.end()) return static_cast<std::uint32_t>(found - out_.groups.begin());
    out_.groups.push_back(g);
    return static_cast<std::uint32_t>(out_.groups.size() - 1);
  }
  [[nodiscard]] std::uint32_t data_group() { return group(data_axes(l_)); }
  [[nodiscard]] std::uint32_t sharding_group(ShardedOver over = ShardedOver::all) {
    const std::int64_t machine = std::min(l_.data, ranks_of_machine(l_, cluster_));
    switch (over) {
      case ShardedOver::all:
        break;
      case ShardedOver::backward:
        return group(part_axes(l_, l_.backward_shard));
      case ShardedOver::machine:
        return group(part_axes(l_, machine));
      case ShardedOver::machines:
        return group({across_parts(l_, machine)});
    }
    return group(l_.shard > 0 ? part_axes(l_, l_.shard) : data_axes(l_));
  }
  [[nodiscard]] std::uint32_t expert_sharding_group() {
    return group(l_.shard > 0 ? part_axes(l_, l_.shard) : expert_data_axes(l_));
  }
  static StepNode collective(std::uint32_t group, Operation operation, Bytes size, Seconds time, std::string name) {
    StepNode node;
    node.kind = StepNode::Kind::collective;
    node.operation = operation;
    node.where = group;
    node.size = size;
    node.time = time;
    node.name = std::move(name) + " " + std::string(name_of(operation));
    return node;
  }

  static std::string pass_name(const OrderedPass& pass) {
    static constexpr std::string_view letters = "FBIW";
    return letters[static_cast<std::size_t>(pass.slot.pass)] + std::to_string(pass.slot.micro_batch);
  }
  std::string unit_name(std::uint32_t unit) const {
    return "unit " + std::to_string(unit) + " " + workload_.kinds[e_.split->kind(units_[unit])].name;
  }

  /// The last unit of virtual stage v, which hands its boundary on.
  [[nodiscard]] const PricedUnit& boundary_unit(std::uint32_t v) const {
    const VirtualStage& s = e_.staged->stages[v];
    return e_.split->units[units_[s.first + s.units - 1]];
  }
  StageSend stage_send(const PricedUnit& unit) { return stepcast::stage_send(cluster_, l_, unit.boundary, prices_); }

  void receive(DeviceNodes& nodes, const OrderedPass& pass, std::uint32_t source, std::uint32_t number) {
    const StepNode& sent = out_.devices[source][sends_[number]];
    After& before = device_[pass.device].source[source];
    StepNode node;
    node.kind = StepNode::Kind::receive;
    node.where = source;
    node.tag = number;
    node.size = sent.size;
    node.start = sent.start;
    node.time = sent.time;
    node.name = "receive for " + pass_name(pass);
    before = {nodes.add(std::move(node), before)};
    const bool forward = pass.slot.pass == PipelinePass::forward;
    const StageSend send = stage_send(boundary_unit(forward ? pass.virtual_stage - 1 : pass.virtual_stage));
    After arrived = before;
    if (send.gather > Seconds(0))
      arrived = {nodes.add(collective(group({rank_axis(l_, Dimension::tensor)}), Operation::all_gather, send.gathered,
                                      send.gather, "for " + pass_name(pass)),
                           arrived)};
    add_to(nodes.chain, arrived);
  }

  // --- Passes
  // ---------------------------------------------------------------------------------------------------------

  struct UnitPass {
    const std::vector<Segment>* segments = nullptr;
    Seconds codec;                        // behind them
    double longer = 1;                    // factor on compute
    Seconds added;                        // where there is no compute to make longer
    std::vector<std::uint32_t> layers{};  // of the device's profile, whose ends are to be known
  };

  const UnitSegments& segments_of(std::uint32_t unit, Recomputation r) {
    const auto key = std::pair(units_[unit], r);
    const auto found = segments_.find(key);
    if (found != segments_.end()) return found->second;
    const Answer<UnitCost> cost = unit_cost(workload_, cluster_, l_, e_.split->kind(units_[unit]));
    return segments_
        .emplace(key, unit_segments(*cost, on_device(e_.split->units[units_[unit]]), l_,
                                    slowest(cluster_.stragglers).factor, r, delays_, prices_))
        .first->second;
  }
  [[nodiscard]] Recomputation again(std::uint32_t v, std::uint32_t unit) const {
    return again_[v].empty() ? l_.recomputation : again_[v][unit - e_.staged->stages[v].first];
  }

  /// One message alone, or beside compute.
  void write_message(DeviceNodes& nodes, const Segment& s, Seconds compute, const std::string& name) {
    const After before = nodes.chain;
    if (compute > Seconds(0)) nodes.compute(name, compute);
    After end = compute > Seconds(0) ? nodes.chain : After{};
    if (s.operation == Operation::send) {
      StepNode node;
      node.kind = StepNode::Kind::send;
      node.peer = StepNode::Peer::next;
      node.tag = ring_tag_++;
      node.size = s.size;
      node.time = s.message;
      node.name = name + " send";
      const std::uint32_t sent = nodes.add(node, before);
      // All of a ring send at the same time.
      node.kind = StepNode::Kind::receive;
      node.peer = StepNode::Peer::previous;
      node.name = name + " receive";
      add_to(end, {sent, nodes.add(node, before)});
    } else {
      add_to(end, {nodes.add(collective(group({s.ranks}), s.operation, s.size, s.message, name), before)});
    }
    nodes.chain = std::move(end);
  }

  /// The segments of one unit; at the ends of its layers, which divide the time as in the device's profile, `ends` are
  /// told.
  void write_unit(DeviceNodes& nodes, const UnitPass& u, const std::string& name, DeviceGradients* sums) {
    Seconds all = u.codec, computes;
    for (const Segment& s : *u.segments) all += s.time(), computes += s.compute;
    std::vector<std::pair<Seconds, std::uint32_t>> cuts;
    if (sums != nullptr) {
      double total = 0, share = 0;
      for (const std::uint32_t layer : u.layers) total += sums->profile.layers[layer].backward.device.value();
      for (const std::uint32_t layer : u.layers) {
        share += sums->profile.layers[layer].backward.device.value();
        cuts.emplace_back(all * (total > 0 ? share / total : 1.0), layer);
      }
    }
    const double tiny = all.value() * 1e-9;
    std::size_t next = 0;
    Seconds done;
    // The layers that end up to here, behind so much compute.
    const auto end_layers = [&](Seconds until, const std::string& what, Seconds* compute) {
      while (next < cuts.size() && cuts[next].first.value() <= until.value() + tiny) {
        LayerEnd& end = sums->ends[cuts[next].second];
        Seconds part = hands_on_ ? Seconds(0) : end.longer;
        if (hands_on_) put_off_ += end.longer;
        last_layer_ = cuts[next].second;
        if (compute != nullptr) {
          const Seconds piece = std::clamp(cuts[next].first - done, Seconds(0), *compute);
          part += piece * u.longer;
          *compute -= piece;
          done += piece;
        }
        nodes.compute(what, part);
        end.done = nodes.chain;
        for (const auto& [insert, time] : end.inserts) nodes.compute(insert, time);
        end.inserted = nodes.chain;
        ++next;
      }
    };
    const auto write_compute = [&](Seconds compute, const std::string& what) {
      const Seconds until = done + compute;
      end_layers(until, what, &compute);
      if (compute.value() > tiny) nodes.compute(what, compute * u.longer);
      done = until;
    };
    for (const Segment& s : *u.segments) {
      const std::string what = s.name.empty() ? name : name + " " + std::string(s.name);
      if (s.message == Seconds(0)) {
        write_compute(s.compute, what);
        continue;
      }
      write_message(nodes, s, s.compute * (s.compute > Seconds(0) ? u.longer : 1), what);
      done += s.time();
      end_layers(done, what, nullptr);
    }
    if (u.codec > Seconds(0)) write_compute(u.codec, name + " encode");
    nodes.compute(name + " beside transfers", u.added);
    end_layers(all * 2.0, name, nullptr);
  }

  /// In a pipeline, where others wait for the result; else it is said at the end of the step.
  void wait_for_host(DeviceNodes& nodes, const OrderedPass& pass) {
    if (out_.devices.size() == 1 || pass.slot.pass == PipelinePass::weight_gradient) return;
    const UnitPasses& waits = e_.staged->stages[pass.virtual_stage].waits;
    const Seconds time = pass.slot.pass == PipelinePass::forward ? waits.forward : waits.backward;
    if (time > Seconds(0)) nodes.compute(pass_name(pass) + " waits for the host", time);
  }

  /// The rest of what goes to the host, or returns from it, beside the pass.
  void copy_activations(DeviceNodes& nodes, const OrderedPass& pass) {
    if (pass.slot.pass == PipelinePass::weight_gradient) return;
    const UnitPasses& copies = e_.staged->stages[pass.virtual_stage].copies;
    nodes.compute(pass_name(pass) + " copies activations",
                  pass.slot.pass == PipelinePass::forward ? copies.forward : copies.backward);
  }

  void write_pass(DeviceNodes& nodes, const OrderedPass& pass, bool last) {
    const VirtualStage& stage = e_.staged->stages[pass.virtual_stage];
    const bool forward = pass.slot.pass == PipelinePass::forward;
    const std::string prefix = pass_name(pass) + " ";
    DeviceGradients& sums = device_[pass.device].sums;
    const bool hooked = last && sums.any && !sums.ends.empty();
    const bool shards = (sharded_ && pass.slot.pass != PipelinePass::weight_gradient) ||
                        (gathers_ && forward && pass.slot.micro_batch == 0);
    std::vector<std::uint32_t> units(stage.units);
    for (std::uint32_t i = 0; i < stage.units; ++i)
      units[i] = forward ? stage.first + i : stage.first + stage.units - 1 - i;
    std::vector<UnitPass> passes(units.size());
    for (std::size_t i = 0; i < units.size(); ++i) {
      const UnitSegments& s = segments_of(units[i], again(pass.virtual_stage, units[i]));
      passes[i].segments = forward                                           ? &s.forward
                           : pass.slot.pass == PipelinePass::weight_gradient ? &s.weight
                                                                             : &s.backward;
      if (hooked) passes[i].layers = layers_of(pass.device, units[i]);
    }
    DeviceGradients* ends = hooked ? &sums : nullptr;
    if (!shards) {
      const bool first = forward && sums.timeline && device_[pass.device].begun.insert(pass.virtual_stage).second;
      for (std::size_t i = 0; i < units.size(); ++i) {
        if (first)
          for (const std::uint32_t layer : layers_of(pass.device, units[i])) {
            add_to(nodes.chain, sums.ends[layer].needed);
            put_off_ += sums.ends[layer].longer_forward;
          }
        write_unit(nodes, passes[i], prefix + unit_name(units[i]), ends);
      }
      return;
    }
    write_sharded(nodes, units, passes, pass, prefix, ends);
  }

  /// sharded_pass() message by message.
  void write_sharded(DeviceNodes& nodes, const std::vector<std::uint32_t>& units, std::vector<UnitPass>& passes,
                     const OrderedPass& pass, const std::string& prefix, DeviceGradients* ends) {
    const bool forward = pass.slot.pass == PipelinePass::forward;
    // Of ZeRO-1 and 2, whose messages do not wait for the micro-batch.
    const bool early = forward && pass.slot.micro_batch == 0 && l_.zero < 3;
    std::vector<ShardedTransfers> sent;
    std::vector<ShardedUnit> timed;
    for (std::size_t i = 0; i < units.size(); ++i) {
      sent.push_back(sharded_transfers(workload_, *e_.split, l_, units[i], units_[units[i]], messages_));
      if (!forward) sent.back().gather = sent.back().again;
      else if (pass.slot.micro_batch == 0) sent.back().gather = sent.back().first;
      if (forward) sent.back().reduce = sent.back().across = {}, sent.back().codec = Seconds(0);
      passes[i].codec = sent.back().codec;
      Seconds work = passes[i].codec;
      for (const Segment& s : *passes[i].segments) work += s.time();
      timed.push_back({sent.back().gather.time(), work, sent.back().reduce.time() + sent.back().across.time()});
    }
    const bool beside = overlaps_sharding(workload_, l_);
    const std::int64_t in_flight = early ? first_in_flight(l_) : l_.units_in_flight;
    if (beside) {
      std::vector<Seconds> computes;
      (void)sharded_pass(timed, in_flight, cluster_.contention.compute_under_communication, &computes);
      for (std::size_t i = 0; i < units.size(); ++i) make_longer(passes[i], computes[i] - timed[i].compute);
    }
    After channel = early ? device_[pass.device].gathers : After{};
    std::vector<After> gathered(units.size());
    const auto message = [&](std::size_t i, const ShardedMessage& m) {
      After after = early ? device_[pass.device].begin : nodes.chain;
      add_to(after, channel);
      channel = write_shard(nodes, m, std::move(after), prefix + unit_name(units[i]));
      if (!beside) nodes.chain = channel;
    };
    const auto gather = [&](std::size_t i) {
      if (timed[i].gather > Seconds(0)) message(i, sent[i].gather), gathered[i] = channel;
    };
    const std::size_t room = beside ? std::min(static_cast<std::size_t>(in_flight), units.size()) : 0;
    for (std::size_t i = 0; i < room; ++i) gather(i);
    for (std::size_t i = 0; i < units.size(); ++i) {
      if (!beside) gather(i);
      add_to(nodes.chain, gathered[i]);
      write_unit(nodes, passes[i], prefix + unit_name(units[i]), ends);
      if (timed[i].reduce > Seconds(0)) {
        message(i, sent[i].reduce);
        if (sent[i].across.time() > Seconds(0)) message(i, sent[i].across);
        // What is summed over replicas has been reduced within the group.
        for (const std::uint32_t layer : passes[i].layers) ends->ends[layer].inserted = channel;
      }
      if (beside && i + room < units.size()) gather(i + room);
    }
    if (early) device_[pass.device].gathers = channel;
    add_to(nodes.chain, channel);
  }

  static void make_longer(UnitPass& pass, Seconds by) {
    if (!(by > Seconds(0))) return;
    Seconds compute = pass.codec;
    for (const Segment& s : *pass.segments)
      if (s.message == Seconds(0)) compute += s.compute;
    // Stretches with a message beside them stay as long.
    const bool alone = std::all_of(pass.segments->begin(), pass.segments->end(),
                                   [](const Segment& s) { return s.message == Seconds(0) || s.compute == Seconds(0); });
    if (compute > Seconds(0) && alone) pass.longer = (compute + by) / compute;
    else pass.added = by;
  }

  /// Dense parameters and those of experts one after the other; what is done beside the bytes is part of the last.
  After write_shard(DeviceNodes& nodes, const ShardedMessage& m, After after, const std::string& name) {
    Seconds rest = m.overhead + m.copies;
    const bool experts = m.expert_time > Seconds(0);
    if (m.dense_time > Seconds(0)) {
      const Seconds time = m.dense_time + (experts ? Seconds(0) : rest);
      after = {nodes.add(collective(sharding_group(m.over), m.operation, m.dense, time, name), std::move(after))};
      if (!experts) rest = Seconds(0);
    }
    if (experts) {
      after = {
          nodes.add(collective(expert_sharding_group(), m.operation, m.expert, m.expert_time + rest, name + " experts"),
                    std::move(after))};
      rest = Seconds(0);
    }
    if (rest > Seconds(0)) {
      StepNode node;
      node.name = name + " copies";
      node.time = rest;
      after = {nodes.add(std::move(node), std::move(after))};
    }
    return after;
  }

  // --- Gradients
  // ------------------------------------------------------------------------------------------------------

  /// Layers of one unit in the order of their backward passes; `unit` of the model, which the device holds once.
  std::vector<std::uint32_t> layers_of(std::uint32_t d, std::uint32_t unit) const {
    const DeviceGradients& sums = device_[d].sums;
    std::uint32_t at = 0;
    for (const std::uint32_t v : e_.pipeline->devices[d].virtual_stages) {
      const VirtualStage& s = e_.staged->stages[v];
      if (unit >= s.first && unit < s.first + s.units) {
        at += unit - s.first;
        break;
      }
      at += s.units;
    }
    const std::uint32_t from = at > 0 ? sums.layers_to[at - 1] : 0, to = sums.layers_to[at];
    std::vector<std::uint32_t> layers;
    for (const std::uint32_t layer : sums.profile.backward_order)
      if (layer >= from && layer < to) layers.push_back(layer);
    return layers;
  }

  std::string prepare() {
    const std::uint32_t devices = e_.pipeline->shape.stages;
    out_.devices.resize(devices);
    device_.resize(devices);
    again_.resize(e_.staged->stages.size());
    if (l_.recomputed_blocks > 0) {
      const Blocks blocks(workload_, *e_.split);
      for (std::size_t v = 0; v < again_.size(); ++v)
        again_[v] = blocks.again(l_.recomputed_blocks, e_.staged->stages[v].first, e_.staged->stages[v].units);
    }
    if (sharded_ || gathers_) {
      const Answer<ShardedMessages> messages = sharded_messages(workload_, *e_.split, l_, plan_);
      if (!messages) return messages.reason();
      messages_ = *messages;
    }
    Seconds work;
    for (std::uint32_t d = 0; d < devices; ++d) {
      const PipelineDevice& device = e_.pipeline->devices[d];
      const LayoutTables::AfterPasses after = *tables_.after_passes(e_, plan_, device);
      work = std::max(work, e_.pipeline->last_backward[d] + after.gradients + after.update);
      if (std::string why = prepare(d); !why.empty()) return why;
    }
    for (std::uint32_t d = 0; d < devices; ++d) {
      DeviceNodes nodes = at(d);
      nodes.compute("what a step has besides", e_.iteration - work);
      if (device_[d].sums.timeline) write_tasks(nodes, device_[d], When::early);
      keep(d, nodes);
      device_[d].begin = device_[d].chain;
    }
    return {};
  }

  std::string prepare(std::uint32_t d) {
    DeviceGradients& sums = device_[d].sums;
    for (const std::uint32_t v : e_.pipeline->devices[d].virtual_stages) {
      const VirtualStage& s = e_.staged->stages[v];
      for (std::uint32_t u = s.first; u < s.first + s.units; ++u) sums.content.push_back(units_[u]);
    }
    if (e_.split->data->members == 1) return {};
    sums.any = true;
    sums.profile =
        stage_profile(workload_, *e_.split, l_, sums.content, &sums.layers_to, e_.pipeline->devices[d].again);
    for (std::size_t i = 0; i < sums.profile.layers.size(); ++i)
      sums.profile.layers[i].name = "layer " + std::to_string(i);
    for (Tensor& t : sums.profile.tensors) t.name = "of " + sums.profile.layers[t.layer].name;
    if (l_.zero_in_passes() > 0) return prepare_buckets(sums);
    if (sums.profile.tensors.empty()) {
      sums.any = false;
      return {};
    }
    return l_.overlap_gradients ? prepare_plan(d) : prepare_in_a_row(sums);
  }

  std::string prepare_buckets(DeviceGradients& sums) {
    const Answer<GradientBuckets> buckets = zero_buckets(workload_, sums.profile, sums.layers_to, *e_.split, l_, plan_);
    if (!buckets) return buckets.reason();
    sums.buckets = *buckets;
    if (!l_.overlap_gradients || sums.buckets.buckets.empty()) return {};
    sums.ends.resize(sums.profile.layers.size());
    std::uint32_t layer = 0;
    for (const GradientBucket& b : sums.buckets.buckets) {
      const Seconds work = b.compute + b.packing;
      const double longer = work > Seconds(0) ? b.beside / work : 1;
      for (; layer < b.layers; ++layer) {
        const std::uint32_t at = sums.profile.backward_order[layer];
        sums.ends[at].longer = sums.profile.layers[at].backward.device * (longer - 1);
      }
      if (b.packing > Seconds(0))
        sums.ends[sums.profile.backward_order[b.layers - 1]].inserts.emplace_back("pack", b.packing * longer);
    }
    return {};
  }

  std::string prepare_in_a_row(DeviceGradients& sums) {
    const Cluster& cluster = e_.split->data->cluster;
    const PlanSpec spec = with_automatic_options_tuned(sums.profile, cluster, plan_);
    const Answer<CommunicationCost> cost = communication_cost(cluster, collective_of(spec));
    if (!cost) return cost.reason();
    Answer<CommPlan> plan = comm_plan_of(spec, sums.profile, cluster, *cost);
    if (!plan) return plan.reason();
    if (plan->period > 1) return repeats(plan->period);
    sums.in_a_row = *std::move(plan);
    return {};
  }
  static std::string repeats(std::uint32_t period) {
    return "it repeats every " + std::to_string(period) + " steps, of which one file has one";
  }

  /// The plan's own timeline over the stage's profile: how much longer its last backward pass takes, and codecs in it.
  std::string prepare_plan(std::uint32_t d) {
    DeviceGradients& sums = device_[d].sums;
    Cluster cluster = e_.split->data->cluster;
    cluster.stragglers = {};  // units are as slow as the slowest worker already
    Answer<DetailedTimeline> found = detailed_timeline(sums.profile, cluster, plan_);
    if (!found) return found.reason();
    sums.timeline = *std::move(found);
    const TaskGraph& graph = sums.timeline->graph;
    const Timeline& timeline = sums.timeline->timeline;
    if (sums.timeline->plan.period > 1) return repeats(sums.timeline->plan.period);
    sums.ends.resize(sums.profile.layers.size());
    std::vector<When>& when = device_[d].when;
    when.assign(graph.tasks.size(), When::early);
    const std::size_t first = std::size_t{timeline.iterations - 1} * timeline.tasks;
    std::vector<bool> behind_passes(graph.tasks.size(), true);
    for (const std::uint32_t t : step_order(graph, timeline)) {
      const Task& task = graph.tasks[t];
      const bool works = is_pass(task.kind);
      for (const Arc& arc : graph.successors(t)) {
        if (arc.lag > 0) continue;
        const TaskKind next = graph.tasks[arc.task].kind;
        if (task.kind == TaskKind::update || when[t] == When::late) when[arc.task] = When::late;
        else if (task.kind == TaskKind::backward || when[t] == When::beside)
          when[arc.task] = std::max(when[arc.task], When::beside);
        if (is_pass(next) && task.kind == TaskKind::transfer && (when[t] != When::early || next == TaskKind::backward))
          return "it sends between passes of the same step, of which a layout has many";
        if (!works && task.kind != TaskKind::codec) behind_passes[arc.task] = false;
      }
      const Seconds took = seconds_of(timeline.end[first + t] - timeline.start[first + t]);
      if (task.kind == TaskKind::forward)
        sums.ends[task.index].longer_forward =
            std::max(Seconds(0), took - sums.profile.layers[task.index].forward.device);
      if (task.kind == TaskKind::backward)
        sums.ends[task.index].longer = std::max(Seconds(0), took - sums.profile.layers[task.index].backward.device);
    }
    // Codecs that the device runs between two layers of the pass.
    std::optional<std::uint32_t> layer;
    std::uint32_t resource = 0;
    for (const std::uint32_t t : step_order(graph, timeline)) {
      const Task& task = graph.tasks[t];
      if (task.kind == TaskKind::backward) layer = task.index, resource = task.resource;
      if (task.kind != TaskKind::codec || !layer || task.resource != resource || !behind_passes[t] ||
          when[t] != When::beside)
        continue;
      LayerEnd& end = sums.ends[*layer];
      end.inserts.emplace_back(task_name(sums.profile, sums.timeline->plan, graph, t),
                               seconds_of(timeline.end[first + t] - timeline.start[first + t]));
      end.tasks.push_back(t);
    }
    return {};
  }
  static bool is_pass(TaskKind kind) { return kind == TaskKind::forward || kind == TaskKind::backward; }

  /// How a run of the profile's tensors is made of dense gradients and those of experts.
  Parts parts_of(const DeviceGradients& sums, const CommPlan* plan, std::uint32_t first, std::uint32_t tensors) const {
    Parts out;
    if (l_.shard > 0) return out;
    if (tensors == 0) first = 0, tensors = static_cast<std::uint32_t>(sums.profile.tensors.size());
    double all = 0, counted = 0, own = 0;
    for (std::uint32_t i = first; i < first + tensors; ++i) {
      const Tensor& t = sums.profile.tensors[plan != nullptr ? plan->tensor(i) : i];
      const std::size_t unit = static_cast<std::size_t>(
          std::upper_bound(sums.layers_to.begin(), sums.layers_to.end(), t.layer) - sums.layers_to.begin());
      const UnitGradients g = unit_gradients(workload_, *e_.split, e_.split->units[sums.content[unit]]);
      all += t.size.value();
      if (!(g.counted > Bytes(0))) continue;
      counted += t.size.value() * (g.expert_counted / g.counted);
      own += t.size.value() * (g.expert / g.counted);
    }
    if (!(all > 0) || !(counted > 0)) return out;
    return {1 - counted / all, counted / all, own / all};
  }

  /// A message of gradients or parameters over the data group, and of experts over theirs.
  After write_gradients(DeviceNodes& nodes, Operation operation, Bytes size, Seconds time, const Parts& parts,
                        After after, const std::string& name) {
    constexpr double some = 1e-9;
    if (parts.dense > some)
      after = {nodes.add(collective(data_group(), operation, size * parts.dense, time * (1 - parts.expert_time), name),
                         std::move(after))};
    if (parts.expert > 0)
      after = {nodes.add(collective(group(expert_data_axes(l_)), operation, size * parts.expert,
                                    time * (parts.dense > some ? parts.expert_time : 1.0), name + " experts"),
                         std::move(after))};
    return after;
  }

  void after_passes(std::uint32_t d) {
    DeviceNodes nodes = at(d);
    DeviceState& state = device_[d];
    state.gradients = nodes.chain;
    if (state.sums.any) {
      if (state.sums.timeline) write_tasks(nodes, state, When::beside);
      else if (state.sums.in_a_row) write_in_a_row(nodes, state);
      else write_buckets(nodes, state);
    }
    keep(d, nodes);
  }

  /// Tasks of the plan that are no passes; passes wait for the early ones.
  void write_tasks(DeviceNodes& nodes, DeviceState& state, When when) {
    const DetailedTimeline& step = *state.sums.timeline;
    const TaskGraph& graph = step.graph;
    const std::size_t first = std::size_t{step.timeline.iterations - 1} * step.timeline.tasks;
    state.of_task.resize(graph.tasks.size());
    for (std::uint32_t t = 0; t < graph.tasks.size(); ++t) {
      if (when == When::beside && graph.tasks[t].kind == TaskKind::backward)
        state.of_task[t] = state.sums.ends[graph.tasks[t].index].done;
      if (when == When::late && graph.tasks[t].kind == TaskKind::update) state.of_task[t] = nodes.chain;
    }
    if (when == When::beside)
      for (const LayerEnd& end : state.sums.ends)
        for (const std::uint32_t t : end.tasks) state.of_task[t] = end.inserted;
    const std::vector<std::uint32_t> order = step_order(graph, step.timeline);
    std::vector<After> waits(graph.tasks.size());
    for (const std::uint32_t t : order)
      for (const Arc& arc : graph.successors(t))
        if (arc.lag == 0) waits[arc.task].push_back(t);
    std::map<std::uint32_t, After> channel;
    After all = nodes.chain;
    for (const std::uint32_t t : order) {
      const Task& task = graph.tasks[t];
      if (is_pass(task.kind) || task.kind == TaskKind::update || state.when[t] != when || !state.of_task[t].empty())
        continue;
      After after;
      for (const std::uint32_t before : waits[t]) add_to(after, state.of_task[before]);
      if (when != When::beside) add_to(after, nodes.chain);
      const bool queued = graph.resources[task.resource].discipline != Discipline::parallel;
      if (queued) add_to(after, channel[task.resource]);
      const Seconds time = seconds_of(step.timeline.end[first + t] - step.timeline.start[first + t]);
      const std::string name = task_name(state.sums.profile, step.plan, graph, t);
      if (task.kind == TaskKind::transfer) {
        const Transfer& sent = step.plan.transfers[task.index];
        after = write_gradients(nodes, sent.operation, sent.size, time,
                                parts_of(state.sums, &step.plan, sent.first_tensor, sent.tensors), std::move(after),
                                name.substr(std::min(name.size(), name_of(sent.operation).size() + 1)));
      } else if (time > Seconds(0)) {
        StepNode node;
        node.name = name;
        node.time = time;
        after = {nodes.add(std::move(node), std::move(after))};
      }
      state.of_task[t] = after;
      if (queued) channel[task.resource] = after;
      add_to(all, after);
    }
    if (when == When::beside) state.gradients = all;
    if (when != When::early) return;
    for (const std::uint32_t t : order)
      for (const Arc& arc : graph.successors(t))
        if (arc.lag == 0 && !is_pass(graph.tasks[t].kind) && graph.tasks[arc.task].kind == TaskKind::forward)
          add_to(state.sums.ends[graph.tasks[arc.task].index].needed, state.of_task[t]);
  }

  void write_in_a_row(DeviceNodes& nodes, DeviceState& state) {
    const DeviceGradients& sums = state.sums;
    const CommPlan& plan = *sums.in_a_row;
    const Answer<CommunicationCost> cost =
        communication_cost(e_.split->data->cluster,
                           collective_of(with_automatic_options_tuned(sums.profile, e_.split->data->cluster, plan_)));
    Seconds work;
    for (const Codec& c : plan.codecs) work += c.time;
    for_each_communication_cost(sums.profile, [&](const PassCost& pass) { work += pass.device; });
    nodes.compute("gradients into messages and out of them", work);
    for (const Transfer& t : plan.transfers) {
      if (plan.channels[t.channel].discipline == Discipline::parallel) continue;  // timers
      nodes.chain = write_gradients(nodes, t.operation, t.size,
                                    (*cost)(t.operation, t.size) + t.overhead + arrival_wait(t, *cost),
                                    parts_of(sums, &plan, t.first_tensor, t.tensors), nodes.chain, "gradients");
    }
    state.gradients = nodes.chain;
  }

  void write_buckets(DeviceNodes& nodes, DeviceState& state) {
    const DeviceGradients& sums = state.sums;
    After within, across;
    std::uint32_t tensor = 0;
    for (const GradientBucket& b : sums.buckets.buckets) {
      const std::uint32_t layer = sums.profile.backward_order[b.layers - 1];
      const std::string name = "gradients until " + sums.profile.layers[layer].name;
      std::uint32_t tensors = 0;
      while (tensor + tensors < sums.profile.tensors.size() && is_in(sums, tensor + tensors, b.layers)) ++tensors;
      const Parts parts = parts_of(sums, nullptr, tensor, tensors);
      tensor += tensors;
      After after;
      if (l_.overlap_gradients) {
        after = sums.ends[layer].inserted;
      } else {
        nodes.compute(name + " pack", b.packing);
        after = nodes.chain;
      }
      add_to(after, within);
      if (b.reduce > Seconds(0)) {
        if (l_.shard > 0)
          within = {nodes.add(collective(sharding_group(), Operation::reduce_scatter, b.scattered, b.reduce, name),
                              std::move(after))};
        else
          within =
              write_gradients(nodes, Operation::reduce_scatter, b.scattered, b.reduce, parts, std::move(after), name);
        after = within;
      }
      if (b.across > Seconds(0)) {
        if (sums.buckets.own_links) add_to(after, across);
        across = {
            nodes.add(collective(group({across_parts(l_, l_.shard)}), Operation::all_reduce, b.shard, b.across, name),
                      std::move(after))};
        if (!sums.buckets.own_links) within = across;
      }
      if (!l_.overlap_gradients) add_to(nodes.chain, within), add_to(nodes.chain, across);
    }
    add_to(state.gradients, nodes.chain);
    add_to(state.gradients, within);
    add_to(state.gradients, across);
  }
  static bool is_in(const DeviceGradients& sums, std::uint32_t tensor, std::uint32_t layers) {
    const auto& order = sums.profile.backward_order;
    return std::find(order.begin(), order.begin() + layers, sums.profile.tensors[tensor].layer) !=
           order.begin() + layers;
  }

  /// Tied parameters at both ends of a pipeline, and copies of a stage on two devices: sums in which both meet.
  void meet_ties() {
    const auto last = static_cast<std::uint32_t>(out_.devices.size() - 1);
    const auto meet = [&](std::uint32_t a, std::uint32_t b, const PricedGroup& priced, double elements,
                          const std::string& name) {
      const Bytes size(elements * workload_.bytes_of_gradient);
      const Seconds time = exchange(priced, Operation::all_reduce, size, false);
      if (!(time > Seconds(0))) return;
      const std::uint32_t group = number_of({{}, {a, b}});
      Seconds start;
      for (const std::uint32_t d : {a, b}) start = std::max(start, at(d).end_of(device_[d].gradients));
      for (const std::uint32_t d : {a, b}) {
        StepNode node = collective(group, Operation::all_reduce, size, time, name);
        node.start = start;
        DeviceNodes nodes = at(d);
        device_[d].gradients = {nodes.add(std::move(node), device_[d].gradients)};
      }
    };
    if (last > 0 && e_.pipeline->devices[0].tied_parameters > 0 && e_.pipeline->devices[last].tied_parameters > 0)
      meet(0, last, *e_.split->ends, e_.pipeline->devices[0].tied_parameters, "tied parameters");
    if (l_.schedule->copies > 1)
      for (std::uint32_t d = 0; d < last - d; ++d)
        meet(d, last - d, *e_.split->mirror, e_.pipeline->devices[d].parameters, "copies of a stage");
  }

  void finish(std::uint32_t d) {
    DeviceState& state = device_[d];
    DeviceNodes nodes = at(d);
    nodes.chain = state.gradients;
    nodes.compute("update", tables_.update(l_, e_.pipeline->devices[d]));
    if (state.sums.timeline) write_tasks(nodes, state, When::late);
    if (state.sums.any && l_.whole_tensors) {
      for (const DealtTensors::Part& part : e_.pipeline->devices[d].dealt.parts)
        nodes.chain = {nodes.add(
            collective(sharding_group(), Operation::broadcast, part.size, part.broadcast, "parameters"), nodes.chain)};
    } else if (state.sums.any && gathers_updates(l_.zero) && !gathers_ahead(workload_, l_)) {
      const Answer<GatheredParameters> g =
          gathered_parameters(workload_, *e_.split, *e_.split, plan_, state.sums.content, state.sums.profile);
      if (g && g->time() > Seconds(0))
        nodes.chain = write_shard(nodes,
                                  {.dense = g->dense,
                                   .expert = g->expert,
                                   .dense_time = g->dense_time,
                                   .expert_time = g->expert_time,
                                   .overhead = g->overhead},
                                  nodes.chain, "parameters");
    }
    // Nodes are of the device; where the host sets the pace it waits for kernels in between, which is said at the end.
    if (e_.pipeline->devices[d].parts.idle > Seconds(0))
      nodes.compute("waits for the host", e_.iteration - nodes.end_of(nodes.chain));
    keep(d, nodes);
  }

  LayoutTables& tables_;
  const Workload& workload_;
  const Cluster& cluster_;
  const EvaluatedLayout& e_;
  const Layout& l_;
  const PlanSpec& plan_;
  PricedGroups groups_;
  GroupPrices prices_;
  std::span<const std::uint32_t> units_;
  bool sharded_, gathers_, delays_ = false, too_many_ = false;
  ShardedMessages messages_;
  std::vector<std::vector<Recomputation>> again_;  // by virtual stage
  std::map<std::pair<std::uint32_t, Recomputation>, UnitSegments> segments_;
  LastPasses last_;
  std::vector<DeviceState> device_;
  std::vector<std::uint32_t> sends_, sender_;  // by pass: the node that sends its result, the device
  std::uint32_t taken_ = 0, ring_tag_ = 1u << 24;
  // A pass that other devices wait for hands on its result as soon as if nothing slowed it: what it takes longer beside
  // gradients is added behind it, as the prediction adds it to the end of the device alone.
  bool hands_on_ = false;
  Seconds put_off_;
  std::uint32_t last_layer_ = 0;
  LayoutStep out_;
};

}  // namespace

bool StepGroup::operator==(const StepGroup& o) const {
  return devices == o.devices &&
         std::equal(axes.begin(), axes.end(), o.axes.begin(), o.axes.end(),
                    [](const RankAxis& a, const RankAxis& b) { return a.stride == b.stride && a.degree == b.degree; });
}

Answer<LayoutStep> layout_step(const Workload& workload, const Cluster& cluster, const LayoutPlan& plan,
                               const LayoutOptions& options) {
  LayoutTables tables(workload, cluster, options);
  const Answer<EvaluatedLayout> e = tables.evaluated(plan);
  if (!e) return Inapplicable{e.reason()};
  return StepWriter(tables, *e, plan.gradients).step();
}

std::uint32_t device_of(const Layout& l, std::int64_t rank) {
  const RankAxis axis = rank_axis(l, Dimension::pipeline);
  return static_cast<std::uint32_t>(rank / axis.stride % axis.degree);
}

namespace {

std::int64_t moved(const RankAxis& axis, std::int64_t rank, std::int64_t place) {
  return rank + (place - rank / axis.stride % axis.degree) * axis.stride;
}

}  // namespace

std::vector<std::int64_t> members_of(const StepGroup& group, const Layout& l, std::int64_t rank) {
  std::vector<std::int64_t> members;
  if (!group.devices.empty()) {
    const RankAxis axis = rank_axis(l, Dimension::pipeline);
    for (const std::uint32_t d : group.devices) members.push_back(moved(axis, rank, d));
  } else {
    members.push_back(rank);
    for (const RankAxis& axis : group.axes) {
      std::vector<std::int64_t> more;
      for (std::int64_t place = 0; place < axis.degree; ++place)
        for (const std::int64_t member : members) more.push_back(moved(axis, member, place));
      members = std::move(more);
    }
  }
  std::sort(members.begin(), members.end());
  return members;
}

std::int64_t peer_of(const StepNode& node, const Layout& l, std::int64_t rank) {
  if (node.peer == StepNode::Peer::device) return moved(rank_axis(l, Dimension::pipeline), rank, node.where);
  const RankAxis axis = rank_axis(l, Dimension::context);
  const std::int64_t place = rank / axis.stride % axis.degree;
  return moved(axis, rank, (place + (node.peer == StepNode::Peer::next ? 1 : axis.degree - 1)) % axis.degree);
}

}  // namespace stepcast
