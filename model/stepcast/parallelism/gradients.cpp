// Gradients by the plan's strategy are a prediction of their own; those of ZeRO are a sharded pass.
#include <stepcast/parallelism/gradients.hpp>
#include <stepcast/parallelism/sharded_pass.hpp>
#include <stepcast/prediction/alike.hpp>

#include <algorithm>
#include <cmath>
#include <string>

namespace stepcast {
namespace {

// Pieces of a unit whose gradients become ready one after the other: a block's four products.
constexpr std::uint32_t pieces = 4;

/// A tensor as its share of the unit's gradients, in the order in which they become ready.
struct PieceTensor {
  double share = 0;
  std::uint32_t piece = 0;  // of the unit, in forward order
};

/// Of a described unit: its parameters, dealt to the pieces; equal pieces where they are not known.
std::vector<PieceTensor> described_tensors(const UnitKind& kind) {
  std::vector<double> sizes;
  double sum = 0;
  if (kind.shape)
    for (const ParameterShape& p : kind.shape->parameters) sum += sizes.emplace_back(p.elements());
  if (!(sum > 0)) {
    sizes.assign(pieces, 1);
    sum = pieces;
  }
  std::vector<PieceTensor> out;
  for (std::size_t t = sizes.size(); t-- > 0;)
    out.push_back({sizes[t] / sum, static_cast<std::uint32_t>(t * pieces / sizes.size())});
  return out;
}

/// Of a traced unit: its own tensors, of which tensor parallelism leaves a device `parameters` elements.
std::vector<PieceTensor> tensors_of(const UnitKind& kind, double parameters) {
  const double divided = kind.divided_parameters;
  const double part = divided > 0 ? std::max(0.0, (parameters - kind.other_parameters) / divided) : 1;
  std::vector<PieceTensor> out;
  double sum = 0;
  for (const TracedTensor& t : kind.inside.tensors) {
    out.push_back({t.divided * part + t.other, t.layer});
    sum += out.back().share;
  }
  if (!(sum > 0)) {
    out = described_tensors(kind);
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

/// Gradient bytes of a unit as the data group sees them: those of experts travel in a smaller group, and count as the
/// bytes that take as long in this one.
Bytes gradient_bytes(const Workload& w, const PricedSplit& split, const PricedUnit& u) {
  const Bytes dense((u.parameters - u.expert_parameters) * w.bytes_of_gradient);
  const Bytes expert(u.expert_parameters * w.bytes_of_gradient);
  if (expert == Bytes(0) || split.data.members == split.expert_data.members) return dense + expert;
  const Seconds whole = exchange(split.data, Operation::all_reduce, expert, false);
  const Seconds part = exchange(split.expert_data, Operation::all_reduce, expert, false);
  return dense + expert * (whole > Seconds(0) ? part / whole : 0);
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
    sum += cost(t.operation, t.size) + t.overhead;
  }
  for (const Codec& c : plan->codecs) sum += c.time;
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

/// Reduce-scatter of buckets under the backward pass of the last micro-batch.
Seconds scattered(const Profile& profile, const PricedGroup& group, const Layout& l, Bytes bucket) {
  std::vector<ShardedUnit> passes;
  ShardedUnit open;
  Bytes filled;
  Seconds compute, transfers;
  auto tensor = profile.tensors.begin();
  for (const std::uint32_t layer : profile.backward_order) {
    open.compute += profile.layers[layer].backward.device;
    compute += profile.layers[layer].backward.device;
    while (tensor != profile.tensors.end() && tensor->layer == layer) filled += tensor++->size;
    if (filled < bucket && layer != profile.backward_order.back()) continue;
    open.reduce = exchange(group, Operation::reduce_scatter, filled, l.overlap_gradients);
    transfers += open.reduce;
    passes.push_back(open);
    open = {};
    filled = Bytes(0);
  }
  return l.overlap_gradients ? sharded_pass(passes, 1) - compute : transfers;
}

/// What ZeRO takes the place of: all-reduces of gradients as they are.
std::string unsuitable_for_zero(const PlanSpec& spec) {
  if (spec.modifiers.empty() && fidelity_of(spec) == Fidelity::exact) return {};
  return "ZeRO reduces and scatters gradients as they are; " + text_of(spec) +
         " sends something else (zero=0 allows it)";
}

Answer<Seconds> by_zero(const Workload& w, const PricedSplit& split, const Layout& l, const PlanSpec& spec,
                        std::span<const std::uint32_t> units, const Profile& profile) {
  if (std::string why = unsuitable_for_zero(spec); !why.empty()) return Inapplicable{std::move(why)};
  Seconds time;
  if (l.zero == 1) time += scattered(profile, split.data, l, bucket_of(spec));
  if (l.zero == 3) return time;
  double dense = 0, expert = 0;
  for (const std::uint32_t kind : units) {
    dense += split.units[kind].parameters - split.units[kind].expert_parameters;
    expert += split.units[kind].expert_parameters;
  }
  return time + exchange(split.data, Operation::all_gather, Bytes(dense * w.bytes_of_weight), false) +
         exchange(split.expert_data, Operation::all_gather, Bytes(expert * w.bytes_of_weight), false);
}

}  // namespace

Profile stage_profile(const Workload& w, const PricedSplit& split, Recomputation r,
                      std::span<const std::uint32_t> units) {
  Profile p;
  p.model = w.name;
  p.device = "device";
  std::vector<std::uint32_t> first(units.size());
  for (std::size_t u = 0; u < units.size(); ++u) {
    first[u] = static_cast<std::uint32_t>(p.layers.size());
    add_layers(p, w.kinds[units[u]].inside, unit_passes(split.units[units[u]], r));
  }
  p.backward_order.reserve(p.layers.size());
  std::vector<std::vector<PieceTensor>> of_kind(w.kinds.size());
  for (std::size_t u = units.size(); u-- > 0;) {
    const UnitKind& kind = w.kinds[units[u]];
    const PricedUnit& priced = split.units[units[u]];
    std::vector<PieceTensor>& tensors = of_kind[units[u]];
    if (tensors.empty()) tensors = tensors_of(kind, priced.parameters);
    if (kind.inside.layers.empty())
      for (std::uint32_t i = pieces; i-- > 0;) p.backward_order.push_back(first[u] + i);
    for (const std::uint32_t layer : kind.inside.backward_order) p.backward_order.push_back(first[u] + layer);
    const Bytes size = gradient_bytes(w, split, priced);
    for (const PieceTensor& t : tensors)
      if (size * t.share > Bytes(0))
        p.tensors.push_back(
            {.name = {}, .shape = {}, .dtype = w.dtype, .size = size * t.share, .layer = first[u] + t.piece});
  }
  return p;
}

Answer<Seconds> exposed_gradients(const Workload& w, const PricedSplit& split, const Layout& l, const PlanSpec& spec,
                                  std::span<const std::uint32_t> units, HotLoop& loop) {
  if (split.data.members == 1) return Seconds(0);
  Profile profile = stage_profile(w, split, l.recomputation, units);
  if (l.zero > 0) return by_zero(w, split, l, spec, units, profile);
  if (profile.tensors.empty()) return Seconds(0);
  return by_strategy(std::move(profile), split.data, l, spec, loop);
}

}  // namespace stepcast
