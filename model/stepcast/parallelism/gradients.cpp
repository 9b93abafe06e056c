// Gradients by the plan's strategy are a prediction of their own; those of ZeRO are a sharded pass.
#include <stepcast/layout/tensor_scheme.hpp>
#include <stepcast/pace/stalls.hpp>
#include <stepcast/parallelism/gradients.hpp>
#include <stepcast/parallelism/sharded_messages.hpp>
#include <stepcast/parallelism/sharded_pass.hpp>
#include <stepcast/prediction/alike.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <queue>
#include <string>
#include <utility>
#include <vector>

namespace stepcast {
namespace {

// Pieces of a unit whose gradients become ready one after the other: a block's four products.
constexpr std::uint32_t pieces = 4;

/// A tensor as its share of the unit's gradients, in the order in which they become ready.
struct PieceTensor {
  double share = 0;
  std::uint32_t piece = 0;               // of the unit, in forward order
  std::vector<std::int64_t> shape = {};  // of what a device holds; empty when only the size is known
};

/// How a layout divides the extents of a tensor.
class Extents {
 public:
  explicit Extents(const Layout& l)
      : tensor_(static_cast<double>(l.tensor)),
        expert_(static_cast<double>(l.expert)),
        whole_experts_(l.whole_experts()) {
    if (l.scheme == nullptr || l.scheme->name == "1d") return;
    if (const Answer<TensorGrid> grid = l.scheme->grid(l.tensor, l.depth)) side_ = static_cast<double>(grid->side);
  }
  /// One extent, or on a grid rows and columns; the last part of a padded tensor counts like the others.
  [[nodiscard]] std::vector<std::int64_t> of(std::vector<std::int64_t> shape, std::optional<std::size_t> divided,
                                             bool expert) const {
    const auto divide = [&](std::size_t extent, double parts) {
      if (extent < shape.size())
        shape[extent] = std::max<std::int64_t>(1, std::llround(std::ceil(static_cast<double>(shape[extent]) / parts)));
    };
    if (expert) divide(0, expert_);
    if (!divided || (expert && whole_experts_)) return shape;
    divide(*divided, side_ > 0 ? side_ : tensor_);
    if (side_ > 0 && shape.size() > 1) divide(*divided == 0 ? 1 : 0, side_);
    return shape;
  }

 private:
  double tensor_, expert_, side_ = 0;
  bool whole_experts_;
};

/// Of a described unit: its parameters, dealt to the pieces; equal pieces where they are not known. `part`: what a
/// device holds of divided ones.
std::vector<PieceTensor> described_tensors(const UnitKind& kind, double part, const Layout& l) {
  struct Sized {
    double elements;
    std::vector<std::int64_t> shape;
  };
  const Extents extents(l);
  std::vector<Sized> sizes;
  double sum = 0;
  if (kind.shape)
    for (const ParameterShape& p : kind.shape->parameters) {
      const double divided = p.divided && !(p.expert && l.whole_experts()) ? part : 1;
      const double held = p.elements() * divided / (p.expert ? static_cast<double>(l.expert) : 1);
      sum += held;
      const auto extent = p.divided ? std::optional<std::size_t>(p.divided_extent) : std::nullopt;
      sizes.push_back({held, extents.of(p.shape, extent, p.expert)});
    }
  if (!(sum > 0)) {
    sizes.assign(pieces, {1, {}});
    sum = pieces;
  }
  std::vector<PieceTensor> out;
  for (std::size_t t = sizes.size(); t-- > 0;)
    out.push_back(
        {sizes[t].elements / sum, static_cast<std::uint32_t>(t * pieces / sizes.size()), std::move(sizes[t].shape)});
  return out;
}

/// Of a unit: its own tensors, of which tensor parallelism leaves a device `parameters` elements.
std::vector<PieceTensor> tensors_of(const UnitKind& kind, const PricedUnit& priced, const Layout& l) {
  const double divided = kind.divided_parameters, dense = priced.parameters - priced.expert_parameters;
  const double part = divided > 0 ? std::max(0.0, (dense - kind.other_parameters) / divided) : 1;
  const Extents extents(l);
  std::vector<PieceTensor> out;
  double sum = 0;
  for (const TracedTensor& t : kind.inside.tensors) {
    out.push_back({t.divided * part + t.other, t.layer,
                   t.divided > t.other ? extents.of(t.shape, std::size_t{t.divided_extent}, false) : t.shape});
    sum += out.back().share;
  }
  if (!(sum > 0)) {
    out = described_tensors(kind, part, l);
    const auto layers = static_cast<std::uint32_t>(kind.inside.layers.size());
    if (layers > 0)
      for (PieceTensor& t : out) t.piece = t.piece * layers / pieces;
    return out;
  }
  for (PieceTensor& t : out) t.share /= sum;
  return out;
}

/// The layers of a unit: as traced, else equal pieces.
void add_layers(Profile& p, const TracedInside& inside, const UnitPasses& passes) {
  const std::size_t count = inside.layers.empty() ? pieces : inside.layers.size();
  for (std::size_t i = 0; i < count; ++i) {
    const TracedInside::Shares share =
        inside.layers.empty() ? TracedInside::Shares{1.0 / pieces, 1.0 / pieces} : inside.layers[i];
    Layer& layer = p.layers.emplace_back();
    layer.forward.device = passes.forward * share.forward;
    layer.backward.device = passes.backward * share.backward;
  }
}

Seconds compute_of(const Profile& profile) {
  Seconds sum;
  for (const Layer& layer : profile.layers) sum += layer.forward.device + layer.backward.device;
  return sum;
}

/// All transfers of the plan one after the other.
Answer<Seconds> not_overlapped(const Profile& profile, const PricedGroup& group, const CommunicationCost& cost,
                               const PlanSpec& spec) {
  const Answer<CommPlan> plan = comm_plan_of(spec, profile, group.cluster, cost);
  if (!plan) return Inapplicable{plan.reason()};
  Seconds sum;
  for (const Transfer& t : plan->transfers) {
    if (plan->channels[t.channel].discipline == Discipline::parallel) continue;  // timers
    if (!cost.defines(t.operation))
      return Inapplicable{"the collective '" + std::string(cost.algorithm()) + "' does not define " +
                          std::string(name_of(t.operation))};
    sum += cost(t.operation, t.size) + t.overhead + arrival_wait(t, cost);
  }
  for (const Codec& c : plan->codecs) sum += c.time;
  for_each_communication_cost(profile, [&](const PassCost& cost) { sum += cost.device; });
  return sum / static_cast<double>(plan->period);
}

Answer<Seconds> by_strategy(Profile profile, const PricedGroup& group, const Layout& l, const PlanSpec& asked,
                            HotLoop& loop) {
  const PlanSpec spec = with_automatic_options_tuned(profile, group.cluster, asked);
  const Answer<CommunicationCost> cost = communication_cost(group.cluster, collective_of(spec));
  if (!cost) return Inapplicable{cost.reason()};
  if (!l.overlap_gradients) return not_overlapped(profile, group, *cost, spec);
  const auto stage = std::make_shared<const PreparedProfile>(std::move(profile));
  const Answer<Seconds> iteration = loop.iteration(stage, group.cluster, *cost, spec);
  if (!iteration) return iteration;
  return std::max(Seconds(0), *iteration - compute_of(stage->profile));
}

/// The size from which the plan sends a bucket; DDP's standard where it has no such option.
Bytes bucket_of(const PlanSpec& spec) {
  const std::size_t i = position_of("bucket", spec.strategy->options);
  return i < spec.strategy->options.size() && !std::isnan(spec.options[i]) ? Bytes(spec.options[i]) : mebibytes(25);
}

/// The buckets of the backward pass: what is computed until each one is full.
struct Buckets {
  std::vector<TensorRun> runs;
  std::vector<Seconds> compute;
  std::vector<std::uint32_t> layers;  ///< how many are done then
};
/// `layers_to`: where each unit ends, whose gradients are a bucket; empty: they are as large as `bucket`.
Buckets buckets_of(const Profile& profile, Bytes bucket, std::span<const std::uint32_t> layers_to) {
  Buckets out;
  std::vector<std::uint32_t> left(layers_to.begin(), layers_to.end());  // layers of each unit
  for (std::size_t u = left.size(); u-- > 1;) left[u] -= left[u - 1];
  const auto ends_unit = [&](std::uint32_t layer) {
    return --left[static_cast<std::size_t>(std::ranges::upper_bound(layers_to, layer) - layers_to.begin())] == 0;
  };
  TensorRun open;
  Seconds compute;
  std::uint32_t layers = 0;
  for (const std::uint32_t layer : profile.backward_order) {
    ++layers;
    compute += profile.layers[layer].backward.device;
    while (open.first + open.tensors < profile.tensors.size() &&
           profile.tensors[open.first + open.tensors].layer == layer)
      open.size += profile.tensors[open.first + open.tensors++].size;
    const bool full = layers_to.empty() ? open.size >= bucket : ends_unit(layer) && open.tensors > 0;
    if (!full && layer != profile.backward_order.back()) continue;
    out.runs.push_back(open);
    out.compute.push_back(compute);
    out.layers.push_back(layers);
    open = {open.first + open.tensors, 0, Bytes(0)};
    compute = Seconds(0);
  }
  return out;
}

/// Sums a shard of so many bytes over the groups that hold it.
Seconds summed_over(const PricedGroup& replicas, Bytes shard, bool hidden) {
  Transfer t;
  t.operation = Operation::all_reduce;
  t.size = shard;
  return exchange(replicas, Operation::all_reduce, shard, hidden) + arrival_wait(t, replicas.cost);
}

/// What the last backward pass leaves of reductions within groups and sums across them, one a bucket: beside each other
/// where groups do not leave their machines, else one after the other. `slowed`: as in sharded_pass.hpp.
void expose(GradientBuckets& all, double slowed) {
  Seconds compute, computed, within, across;
  for (GradientBucket& b : all.buckets) {
    const Seconds work = b.compute + b.packing;
    compute += work;
    b.beside = compute_beside(work, std::max(within, across) - computed, slowed);
    computed += b.beside;
    within = std::max(within, computed) + b.reduce;
    if (all.own_links) across = std::max(across, within) + b.across;
    else within += b.across;
  }
  all.exposed = std::max({computed, within, across}) - compute;
}

/// Sums over the replicas of each shard, behind what was reduced within the groups in every micro-batch.
GradientBuckets summed_across(const Profile& profile, const PricedSplit& split, const Layout& l, const PlanSpec& spec,
                              std::span<const std::uint32_t> layers_to) {
  const Buckets buckets = buckets_of(profile, bucket_of(spec), layers_to);
  const double part = 1 / static_cast<double>(split.shard->members);
  GradientBuckets out;
  Seconds in_a_row;
  for (std::size_t b = 0; b < buckets.runs.size(); ++b) {
    GradientBucket bucket{buckets.layers[b], buckets.compute[b]};
    bucket.beside = bucket.compute;
    bucket.shard = buckets.runs[b].size * part;
    bucket.across = summed_over(*split.replicas, bucket.shard, l.overlap_gradients);
    in_a_row += bucket.across;
    out.buckets.push_back(bucket);
  }
  // Beside gathers and reductions on the same links nothing is hidden.
  if (l.overlap_gradients && split.shard->cluster.nodes == 1)
    expose(out, split.shard->cluster.contention.compute_under_communication);
  else out.own_links = false, out.exposed = in_a_row;
  return out;
}

/// Reduce-scatter of buckets under the backward pass of the last micro-batch; `replicas`: of the shards, which are
/// summed over them.
Answer<GradientBuckets> scattered(const Profile& profile, const PricedGroup& group, const Layout& l,
                                  const PlanSpec& spec, const PricedGroup* replicas = nullptr,
                                  std::span<const std::uint32_t> layers_to = {}) {
  const Buckets buckets = buckets_of(profile, bucket_of(spec), layers_to);
  const Answer<std::vector<ModifiedMessage>> messages =
      modified_messages(spec, profile, group, Operation::reduce_scatter, buckets.runs);
  if (!messages) return Inapplicable{messages.reason()};
  std::vector<ShardedUnit> passes;
  GradientBuckets out;
  Seconds compute, in_a_row, beside;  // packing and codecs are no part of the passes
  for (std::size_t b = 0; b < buckets.runs.size(); ++b) {
    const ModifiedMessage& m = (*messages)[b];
    GradientBucket bucket{buckets.layers[b], buckets.compute[b]};
    bucket.scattered = buckets.runs[b].size * m.share;
    const Seconds sent = exchange(group, Operation::reduce_scatter, bucket.scattered, l.overlap_gradients);
    bucket.reduce = sent > Seconds(0) ? sent + m.overhead : sent;
    Seconds packing;
    for (std::uint32_t t = 0; t < buckets.runs[b].tensors; ++t)
      packing += profile.tensors[buckets.runs[b].first + t].packing.device;
    bucket.packing = packing + m.codec;
    bucket.beside = bucket.compute + bucket.packing;
    passes.push_back({{}, bucket.compute + packing + m.codec, bucket.reduce});
    compute += bucket.compute;
    beside += passes.back().compute;
    in_a_row += packing + m.codec + bucket.reduce;
    if (replicas != nullptr) {
      bucket.shard = buckets.runs[b].size * (m.share / static_cast<double>(group.members));
      bucket.across = summed_over(*replicas, bucket.shard, l.overlap_gradients);
      in_a_row += bucket.across;
    }
    out.buckets.push_back(bucket);
  }
  if (!l.overlap_gradients) {
    out.own_links = false;
    out.exposed = in_a_row;
    return out;
  }
  const double slowed = group.cluster.contention.compute_under_communication;
  if (replicas == nullptr) {
    std::vector<Seconds> computes;
    out.exposed = sharded_pass(passes, 1, slowed, &computes) - compute;
    for (std::size_t b = 0; b < computes.size(); ++b) out.buckets[b].beside = computes[b];
    return out;
  }
  out.own_links = group.cluster.nodes == 1;
  expose(out, slowed);
  out.exposed = out.exposed + beside - compute;
  return out;
}

/// What ZeRO takes the place of: all-reduces of every step's gradients.
std::string unsuitable_for_zero(const PlanSpec& spec) {
  if (spec.strategy->fidelity == Fidelity::exact) return {};
  return "ZeRO sums up the gradients of every step; " + std::string(spec.strategy->name) +
         " does something else with them (zero=0 allows it)";
}

/// What ranks that update whole tensors wait for: all sums of every step, before one update.
std::string unsuitable_for_whole_tensors(const Profile& profile, const PricedGroup& group, const PlanSpec& asked) {
  if (std::string why = unsuitable_for_zero(asked); !why.empty()) return why;
  const PlanSpec spec = with_automatic_options_tuned(profile, group.cluster, asked);
  const Answer<CommunicationCost> cost = communication_cost(group.cluster, collective_of(spec));
  if (!cost) return cost.reason();
  const Answer<CommPlan> plan = comm_plan_of(spec, profile, group.cluster, *cost);
  if (!plan) return plan.reason();
  if (plan->period > 1) return text_of(spec) + " does not update in every step, as ZeRO does (zero=0 allows it)";
  if (plan->update == UpdatePlace::after_backward) return {};
  return "ranks update whole tensors behind the backward pass, and " + std::string(spec.strategy->name) + " updates " +
         (plan->update == UpdatePlace::on_server ? "on servers" : "layer by layer before the next forward pass") +
         " (zero=0 allows it)";
}

Answer<Seconds> by_zero(const Workload& w, const PricedSplit& split, const Layout& l, const PlanSpec& spec,
                        std::span<const std::uint32_t> units, const Profile& profile,
                        std::span<const std::uint32_t> layers_to) {
  const Answer<GradientBuckets> reduced = zero_buckets(w, profile, layers_to, split, l, spec);
  if (!reduced) return Inapplicable{reduced.reason()};
  if (l.zero == 3 || gathers_ahead(w, l)) return reduced->exposed;
  const Answer<GatheredParameters> spread = gathered_parameters(w, split, split, spec, units, profile);
  if (!spread) return Inapplicable{spread.reason()};
  return reduced->exposed + spread->time();
}

/// Units that choose for themselves: how their gradients travel when not all do so in the same way.
class ChosenGradients {
 public:
  ChosenGradients(const Workload& w, const PricedSplit& split, const Layout& l, const PlanSpec& spec,
                  std::span<const std::uint32_t> units)
      : workload_(w), split_(split), layout_(l), spec_(spec), units_(units) {}

  Answer<Seconds> exposed(HotLoop& loop) {
    std::vector<std::uint32_t> layers_to;
    Profile profile = stage_profile(workload_, split_, layout_, units_, &layers_to);
    if (any([](int zero) { return zero > 0; }))
      if (std::string why = unsuitable_for_zero(spec_); !why.empty()) return Inapplicable{std::move(why)};
    const bool ahead = gathers_ahead(workload_, layout_);
    const Answer<Seconds> spread = ahead ? Answer<Seconds>(Seconds(0)) : gathered_by_group(profile);
    if (!spread) return spread;
    const Answer<Seconds> reduced = reduced_after_passes(std::move(profile), layers_to, loop);
    if (!reduced) return reduced;
    return *reduced + *spread;
  }

 private:
  [[nodiscard]] int zero(std::uint32_t unit) const { return split_.layout(unit, layout_).zero; }
  [[nodiscard]] bool any(bool (*test)(int)) const {
    return std::any_of(units_.begin(), units_.end(), [&](std::uint32_t unit) {
      return split_.own(unit).data->members > 1 && split_.units[unit].parameters > 0 && test(zero(unit));
    });
  }

  /// After the update, of stages 1 and 2.
  [[nodiscard]] Answer<Seconds> gathered_by_group(const Profile& profile) const {
    std::vector<std::pair<const PricedSplit*, std::vector<std::uint32_t>>> groups;
    for (const std::uint32_t unit : units_) {
      const PricedSplit* own = &split_.own(unit);
      if ((zero(unit) != 1 && zero(unit) != 2) || own->data->members == 1) continue;
      auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.first == own; });
      if (group == groups.end()) group = groups.insert(group, {own, {}});
      group->second.push_back(unit);
    }
    Seconds sum;
    for (const auto& [own, units] : groups) {
      const Answer<GatheredParameters> spread = gathered_parameters(workload_, split_, *own, spec_, units, profile);
      if (!spread) return Inapplicable{spread.reason()};
      sum += spread->time();
    }
    return sum;
  }

  /// Of stages 0 and 1: over the group that most of them travel over; the others as the bytes that take as long there.
  Answer<Seconds> reduced_after_passes(Profile profile, std::span<const std::uint32_t> layers_to, HotLoop& loop) const {
    const PricedGroup* group = widest();
    if (group == nullptr) return Seconds(0);
    const bool scatters = !any([](int zero) { return zero == 0; });
    const Operation how = scatters ? Operation::reduce_scatter : Operation::all_reduce;
    std::vector<double> scale;
    for (const std::uint32_t unit : units_) scale.push_back(scale_of(unit, *group, how));
    std::size_t unit = units_.size() - 1;  // tensors come backward
    for (Tensor& t : profile.tensors) {
      while (unit > 0 && t.layer < layers_to[unit - 1]) --unit;
      if (scale[unit] != 1) t.shape.clear();
      t.size = t.size * scale[unit];
    }
    std::erase_if(profile.tensors, [](const Tensor& t) { return !(t.size > Bytes(0)); });
    if (profile.tensors.empty()) return Seconds(0);
    profile.communication.after.device = Seconds(profile.gradient_size().value() * workload_.copy_out);
    if (scatters) {
      const Answer<GradientBuckets> reduced = scattered(profile, *group, layout_, spec_);
      if (!reduced) return Inapplicable{reduced.reason()};
      return reduced->exposed;
    }
    return by_strategy(std::move(profile), *group, layout_, spec_, loop);
  }
  [[nodiscard]] const PricedGroup* widest() const {
    std::vector<std::pair<const PricedGroup*, double>> groups;
    for (const std::uint32_t unit : units_) {
      const PricedGroup* own = split_.own(unit).data.get();
      if (zero(unit) > 1 || own->members == 1 || split_.units[unit].parameters == 0) continue;
      auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.first == own; });
      if (group == groups.end()) group = groups.insert(group, {own, 0});
      group->second += split_.units[unit].parameters;
    }
    const auto most = std::max_element(groups.begin(), groups.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    return most == groups.end() ? nullptr : most->first;
  }
  /// What a byte of the unit's gradients counts in `group`; 0: they do not travel after the passes.
  [[nodiscard]] double scale_of(std::uint32_t unit, const PricedGroup& group, Operation how) const {
    const PricedSplit& own = split_.own(unit);
    if (zero(unit) > 1 || own.data->members == 1) return 0;
    const Operation operation = zero(unit) == 1 ? Operation::reduce_scatter : Operation::all_reduce;
    if (own.data.get() == &group && operation == how) return 1;
    const Bytes bytes(split_.units[unit].parameters * workload_.bytes_of_gradient);
    const Seconds there = exchange(group, how, bytes, false);
    return there > Seconds(0) ? exchange(*own.data, operation, bytes, false) / there : 0;
  }

  const Workload& workload_;
  const PricedSplit& split_;
  const Layout& layout_;
  const PlanSpec& spec_;
  std::span<const std::uint32_t> units_;
};

/// In which gradients travel: f32 beside weights of half a word, unless they are sent as such.
DataType gradient_type(const Workload& w) {
  return size_of(w.dtype) < 4 && w.bytes_of_gradient >= 4 ? DataType::f32 : w.dtype;
}

/// What the device waits for the host in one micro-batch, and what is sent behind it can use; with what it waits in the
/// update where one device does all of it. Of described models LayoutTables::after_passes knows it.
Seconds idle_of(const Workload& w, const PricedSplit& split, const Layout& l, std::span<const std::uint32_t> units) {
  if (w.shape) return {};
  Seconds idle;
  for (const std::uint32_t unit : units) {
    // What ZeRO-2 and 3 send in the passes has run in it.
    if (split.layout(unit, l).zero >= 2) return Seconds(0);
    idle += split.units[unit].forward_idle + split.units[unit].backward_idle;
  }
  if (w.host_updates && !w.host_waits && l.zero == 0 && l.pipeline == 1) idle += w.besides.host - w.besides.device;
  return std::max(Seconds(0), idle);
}

/// What the device's own passes do not hide.
Answer<Seconds> exposed_on_device(const Workload& w, const PricedSplit& split, const Layout& l, const PlanSpec& spec,
                                  std::span<const std::uint32_t> units, HotLoop& loop,
                                  std::span<const Recomputation> again) {
  if (!split.variants.empty()) return ChosenGradients(w, split, l, spec, units).exposed(loop);
  if (split.data->members == 1) return Seconds(0);
  std::vector<std::uint32_t> layers_to;
  // Only what encodes gradients asks for the shape of a tensor.
  const TensorShapes shapes = spec.modifiers.empty() ? TensorShapes::left_out : TensorShapes::known;
  Profile profile = stage_profile(w, split, l, units, &layers_to, again, shapes);
  if (l.zero_in_passes() > 0) return by_zero(w, split, l, spec, units, profile, layers_to);
  if (profile.tensors.empty()) return Seconds(0);
  if (l.whole_tensors)
    if (std::string why = unsuitable_for_whole_tensors(profile, *split.data, spec); !why.empty())
      return Inapplicable{std::move(why)};
  return by_strategy(std::move(profile), *split.data, l, spec, loop);
}

}  // namespace

Profile stage_profile(const Workload& w, const PricedSplit& split, const Layout& l,
                      std::span<const std::uint32_t> units, std::vector<std::uint32_t>* layers_to,
                      std::span<const Recomputation> again, TensorShapes shapes) {
  Profile p;
  p.model = w.name;
  p.device = "device";
  std::vector<std::uint32_t> first(units.size());
  p.layers.reserve(units.size() * pieces);
  for (std::size_t u = 0; u < units.size(); ++u) {
    first[u] = static_cast<std::uint32_t>(p.layers.size());
    add_layers(p, w.kinds[split.kind(units[u])].inside,
               unit_passes(on_device(split.units[units[u]]),
                           again.empty() ? split.layout(units[u], l).recomputation : again[u],
                           split.layout(units[u], l).zero_in_passes()));
    if (layers_to != nullptr) layers_to->push_back(static_cast<std::uint32_t>(p.layers.size()));
  }
  p.backward_order.reserve(p.layers.size());
  std::vector<std::vector<PieceTensor>> of_kind(split.units.size());
  for (std::size_t u = units.size(); u-- > 0;) {
    const UnitKind& kind = w.kinds[split.kind(units[u])];
    const PricedUnit& priced = split.units[units[u]];
    std::vector<PieceTensor>& tensors = of_kind[units[u]];
    if (tensors.empty()) tensors = tensors_of(kind, priced, split.layout(units[u], l));
    if (kind.inside.layers.empty())
      for (std::uint32_t i = pieces; i-- > 0;) p.backward_order.push_back(first[u] + i);
    for (const std::uint32_t layer : kind.inside.backward_order) p.backward_order.push_back(first[u] + layer);
    const Bytes size = unit_gradients(w, split.own(units[u]), priced).counted;
    p.tensors.reserve(units.size() * tensors.size());
    for (const PieceTensor& t : tensors)
      if (size * t.share > Bytes(0))
        p.tensors.push_back({.name = {},
                             .shape = shapes == TensorShapes::known ? t.shape : std::vector<std::int64_t>{},
                             .dtype = gradient_type(w),
                             .size = size * t.share,
                             .layer = first[u] + t.piece,
                             .packing = {Seconds(0), Seconds((size * t.share).value() * w.copy_in)}});
  }
  p.communication.after.device = Seconds(p.gradient_size().value() * w.copy_out);
  return p;
}

UnitGradients unit_gradients(const Workload& w, const PricedSplit& split, const PricedUnit& u) {
  const Bytes dense((u.parameters - u.expert_parameters) * w.bytes_of_gradient);
  const Bytes expert(u.expert_parameters * w.bytes_of_gradient);
  if (expert == Bytes(0) || split.data->members == split.expert_data->members) return {dense + expert, {}, {}};
  const Seconds whole = exchange(*split.data, Operation::all_reduce, expert, false);
  const Seconds part = exchange(*split.expert_data, Operation::all_reduce, expert, false);
  const Bytes counted = expert * (whole > Seconds(0) ? part / whole : 0);
  return {dense + counted, expert, counted};
}

Answer<GradientBuckets> zero_buckets(const Workload& w, const Profile& profile,
                                     std::span<const std::uint32_t> layers_to, const PricedSplit& split,
                                     const Layout& l, const PlanSpec& spec) {
  if (std::string why = unsuitable_for_zero(spec); !why.empty()) return Inapplicable{std::move(why)};
  if (!spec.collective.empty() && spec.collective != split.data->cost.algorithm())
    return Inapplicable{"ZeRO scatters and gathers by the collective of the cluster (" +
                        std::string(split.data->cost.algorithm()) + "), and @" + spec.collective +
                        " is of whole gradients: name it in the cluster's file (all_reduce)"};
  if (split.shard && !spec.modifiers.empty())
    return Inapplicable{"gradients are encoded once, and ZeRO within groups (shard=) sums them in two steps"};
  if (!by_fully_shard(w, l)) layers_to = {};
  if (l.zero == 1) return scattered(profile, split.sharding(), l, spec, split.replicas.get(), layers_to);
  return split.shard ? summed_across(profile, split, l, spec, layers_to) : GradientBuckets{};
}

Answer<GatheredParameters> gathered_parameters(const Workload& w, const PricedSplit& of, const PricedSplit& split,
                                               const PlanSpec& spec, std::span<const std::uint32_t> units,
                                               const Profile& profile) {
  double dense = 0, expert = 0;
  for (const std::uint32_t unit : units) {
    dense += of.units[unit].parameters - of.units[unit].expert_parameters;
    expert += of.units[unit].expert_parameters;
  }
  const TensorRun all{0, static_cast<std::uint32_t>(profile.tensors.size()),
                      Bytes((dense + expert) * w.bytes_of_weight)};
  const Answer<std::vector<ModifiedMessage>> message =
      modified_messages(spec, profile, split.sharding(), Operation::all_gather, {&all, 1});
  if (!message) return Inapplicable{message.reason()};
  const double bytes = w.bytes_of_weight * message->front().share;
  GatheredParameters out{Bytes(dense * bytes), Bytes(expert * bytes), {}, {}, message->front().overhead};
  out.dense_time = exchange(split.sharding(), Operation::all_gather, out.dense, false);
  out.expert_time = exchange(split.expert_sharding(), Operation::all_gather, out.expert, false);
  return out;
}

double DealtTensors::most() const {
  double most = 0;
  for (const Part& part : parts) most = std::max(most, part.elements);
  return most;
}

Seconds DealtTensors::broadcasts() const {
  Seconds sum;
  for (const Part& part : parts) sum += part.broadcast;
  return sum;
}

Answer<DealtTensors> dealt_tensors(const Workload& w, const PricedSplit& split, const Profile& profile, double tied) {
  const PricedGroup& group = split.sharding();
  if (!group.cost.defines(Operation::broadcast))
    return Inapplicable{"the collective '" + std::string(group.cost.algorithm()) + "' does not define broadcast"};
  std::vector<double> sizes;
  for (const Tensor& t : profile.tensors) sizes.push_back(t.size.value() / w.bytes_of_gradient);
  if (tied > 0) sizes.push_back(tied);
  std::ranges::sort(sizes, std::greater());
  // Ranks by what they have, the first of equal ones on top; those that have nothing yet are not in it.
  using Rank = std::pair<double, std::size_t>;
  std::priority_queue<Rank, std::vector<Rank>, std::greater<>> least;
  DealtTensors out;
  for (const double size : sizes) {
    if (out.parts.size() < static_cast<std::size_t>(group.members)) {
      least.emplace(size, out.parts.size());
      out.parts.push_back({size, {}});
      continue;
    }
    const std::size_t rank = least.top().second;
    least.pop();
    least.emplace(out.parts[rank].elements += size, rank);
  }
  constexpr double whole = 4;
  const double bytes = has_copies(w) ? std::max(whole, w.bytes_of_weight) : w.bytes_of_weight;
  for (DealtTensors::Part& part : out.parts) {
    part.size = Bytes(part.elements * bytes);
    part.broadcast = exchange(group, Operation::broadcast, part.size, false);
  }
  return out;
}

Answer<Seconds> exposed_gradients(const Workload& w, const PricedSplit& split, const Layout& l, const PlanSpec& spec,
                                  std::span<const std::uint32_t> units, HotLoop& loop,
                                  std::span<const Recomputation> again) {
  const Answer<Seconds> exposed = exposed_on_device(w, split, l, spec, units, loop, again);
  if (!exposed) return exposed;
  return std::max(Seconds(0), *exposed - idle_of(w, split, l, units));
}

Seconds bucket_copies(const Workload& w, const PricedSplit& split, const Layout& l, const PlanSpec& asked,
                      std::span<const std::uint32_t> units, std::span<const Recomputation> again) {
  if (!(w.copy_in + w.copy_out > 0) || l.zero > 1 || split.data->members == 1) return {};
  const Profile profile = stage_profile(w, split, l, units, nullptr, again);
  const Bytes all = profile.gradient_size();
  const Seconds in(all.value() * w.copy_in), out(all.value() * w.copy_out);
  if (l.zero_in_passes() == 1) return in + out;
  const PlanSpec spec = with_automatic_options_tuned(profile, split.data->cluster, asked);
  const Answer<CommunicationCost> cost = communication_cost(split.data->cluster, collective_of(spec));
  const Answer<CommPlan> plan =
      cost ? comm_plan_of(spec, profile, split.data->cluster, *cost) : Answer<CommPlan>(Inapplicable{cost.reason()});
  if (!plan || plan->packing == Packing::none) return {};
  double bucketed = 0;
  for (const Transfer& t : plan->transfers)
    if (t.carries_gradient && (t.tensors > 1 || plan->packing == Packing::all)) bucketed += t.tensors;
  return in + out * std::min(1.0, bucketed / static_cast<double>(profile.tensors.size() * plan->period));
}

}  // namespace stepcast
