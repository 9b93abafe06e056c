// DeAR: every all-reduce is split; its reduce-scatter runs under the backward pass, its all-gather under the next
// forward pass. Zhang et al. 2023 (lzhangbv/dear_pytorch `dear/dopt_rsag.py`).
//
//   compute |  U1 F1  U2 F2  U3 F3   B3  B2  B1               | U1 F1  U2 F2 ...
//   net     |[AG1][AG2]  [AG3]          [RS3][RS2]      [RS1] |[AG1][AG2]  [AG3]
//                                                 all RS done -^     ^- issued on entering F1: one group ahead
//
// Groups of whole layers in forward order: a layer is added while group + layer < `bucket` (strict), so an oversized
// layer is alone or first in its group. RS(x) starts when the last gradient of its group is ready (FIFO). The step
// waits for *all* reduce-scatters, then AG(1) starts; entering the forward pass of group x waits for AG(x) and issues
// AG(x + prefetch). The update of a layer runs just before its forward pass.
//
//   without start-up, RS = AG = T(M)/2:   T >= max(t_F, T(M)/2) + max(t_G, T(M)/2)
//   against WFBP's t_F + max(t_G, T(M)): gains at most t_F; loses when T(M) <= t_G but T(M)/2 > t_F.
//
// The all-gathers of iteration i belong to iteration i+1 of the plan: they carry gradients of one iteration earlier and
// wait for the reduce-scatters with lag 1. `padding=on` adds what the code pads each buffer with: P - (elements mod P)
// elements, a full extra P where nothing is missing. The authors' code gathers one group ahead, and tunes the bucket
// while it runs: 10 trials from 25 MB on, evenly between 1 and 256 MB. Their bound above needs to gather further ahead.
// Not modelled: the division by P before the update.
#include <stepcast/strategies/shared/plan_writing.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace stepcast::strategy::dear {
namespace {

constexpr OptionSpec options[] = {{.name = "bucket",
                                   .kind = OptionKind::size,
                                   .standard = 25 * 0x1p20,
                                   .low = 0,
                                   .high = 0x1p40,
                                   .summary = "layers are grouped while their sum stays below it; 0: no fusion",
                                   .tuned = true,
                                   .tune_low = 0x1p20,
                                   .tune_high = 0x1p28},
                                  {.name = "layers",
                                   .kind = OptionKind::count,
                                   .standard = 0,
                                   .low = 0,
                                   .high = 1e6,
                                   .summary = "layers per group instead of a size; 0: use `bucket`"},
                                  {.name = "prefetch",
                                   .kind = OptionKind::count,
                                   .standard = 1,
                                   .low = 1,
                                   .high = 1e6,
                                   .summary = "groups whose all-gather is issued ahead of the forward pass",
                                   .tuned = true,
                                   .tune_low = 1,
                                   .tune_high = 256},
                                  {.name = "padding",
                                   .kind = OptionKind::choice,
                                   .standard = 0,
                                   .low = 0,
                                   .high = 1,
                                   .summary = "pad every buffer to a multiple of the workers",
                                   .choices = {"off", "on"}}};
consteval std::size_t named(std::string_view name) { return option(options, name); }

/// Consecutive layers in forward order whose gradients share one buffer.
struct LayerGroup {
  std::uint32_t first_layer = 0;
  std::uint32_t last_gradient = 0;  ///< tensor that is ready last
  std::uint32_t tensors = 0;
  std::uint32_t layers = 0;
  Bytes size, element;
};

// What the tensors of one layer amount to; tensors of a layer are neighbours in gradient-ready order.
struct LayerGradients {
  std::uint32_t first = 0, count = 0;
  Bytes size;
};

std::pmr::vector<LayerGradients> gradients_by_layer(const StrategyInput& in) {
  const Profile& profile = in.profile;
  std::pmr::vector<LayerGradients> out(profile.layers.size(), in.memory);
  for (std::uint32_t t = 0; t < profile.tensors.size(); ++t) {
    LayerGradients& layer = out[profile.tensors[t].layer];
    if (layer.count++ == 0) layer.first = t;
    layer.size += profile.tensors[t].size;
  }
  return out;
}

std::pmr::vector<LayerGroup> grouped(const StrategyInput& in, std::span<const LayerGradients> gradients,
                                     Bytes threshold, double layers_per_group) {
  const Profile& profile = in.profile;
  std::pmr::vector<LayerGroup> groups(in.memory);
  for (std::uint32_t l = 0; l < gradients.size(); ++l) {
    const LayerGradients& g = gradients[l];
    if (g.count == 0) continue;
    const bool fits = !groups.empty() && (layers_per_group > 0 ? groups.back().layers < layers_per_group
                                                               : groups.back().size + g.size < threshold);
    if (!fits) groups.push_back({l, 0, 0, 0, Bytes(0), Bytes(size_of(profile.tensors[g.first].dtype))});
    LayerGroup& group = groups.back();
    group.last_gradient = std::max(group.last_gradient, g.first + g.count - 1);
    group.tensors += g.count;
    ++group.layers;
    group.size += g.size;
  }
  return groups;
}

Bytes padded(const LayerGroup& group, std::int64_t workers) {
  const double elements = group.size / group.element, p = static_cast<double>(workers);
  return group.size + group.element * (p - std::fmod(elements, p));
}

/// Writes the transfers and edges: reduce-scatters are transfers 0 .. n-1, all-gathers n .. 2n-1.
class PlanWriter {
 public:
  PlanWriter(const StrategyInput& in, std::span<const LayerGroup> groups)
      : profile_(in.profile), groups_(groups), plan_(in.blank()) {
    plan_.channels.push_back({"net", Discipline::fifo, Bytes(0)});
    plan_.update = UpdatePlace::before_forward;
    plan_.transfers.resize(2 * groups.size());
    plan_.edges.reserve(6 * groups.size() + 1);
  }

  CommPlan written(std::size_t prefetch, std::int64_t padded_for) {
    for (std::uint32_t at = 0, x = 0; x < groups_.size(); ++x) {
      write_transfers(x, at, padded_for > 0 ? padded(groups_[x], padded_for) : groups_[x].size);
      at += groups_[x].tensors;
    }
    for (std::size_t x = 0; x < groups_.size(); ++x) write_edges(x, prefetch);
    return std::move(plan_);
  }

 private:
  [[nodiscard]] Node scatter(std::size_t x) const { return transfer(x); }
  [[nodiscard]] Node gather(std::size_t x) const { return transfer(groups_.size() + x); }

  void write_transfers(std::uint32_t x, std::uint32_t first_tensor, Bytes size) {
    Transfer& rs = plan_.transfers[x];
    rs.operation = Operation::reduce_scatter;
    rs.size = size;
    rs.first_tensor = first_tensor;
    rs.tensors = groups_[x].tensors;
    // Of groups that are ready at the same moment the one nearer the loss goes first, as its hook runs first.
    rs.priority = -static_cast<std::int32_t>(x);
    Transfer& ag = plan_.transfers[groups_.size() + x];
    ag = rs;
    ag.operation = Operation::all_gather;
    ag.carries_gradient = false;
    ag.priority = static_cast<std::int32_t>(x);
  }

  void write_edges(std::size_t x, std::size_t prefetch) {
    const std::uint32_t layer = groups_[x].first_layer;
    plan_.edges.push_back({gradient(profile_, groups_[x].last_gradient), scatter(x)});
    plan_.edges.push_back({scatter(x), gather(0), 1});
    // The step itself waits, also where the first layers have no parameters.
    if (groups_[0].first_layer > 0) plan_.edges.push_back({scatter(x), forward_of(0), 1});
    if (x == 0) plan_.edges.push_back({{NodeKind::backward, profile_.backward_order.back()}, gather(0), 1});
    if (x > 0) plan_.edges.push_back({gather(x - 1), gather(x)});
    if (x >= prefetch) plan_.edges.push_back({{NodeKind::forward_entry, groups_[x - prefetch].first_layer}, gather(x)});
    plan_.edges.push_back({gather(x), forward_of(layer)});
  }

  const Profile& profile_;
  std::span<const LayerGroup> groups_;
  CommPlan plan_;
};

// Gradients in forward order of their layers.
void write_forward_order(std::span<const LayerGradients> gradients, std::vector<std::uint32_t>& order) {
  for (const LayerGradients& g : gradients)
    for (std::uint32_t k = 0; k < g.count; ++k) order.push_back(g.first + k);
}

Answer<CommPlan> plan(const StrategyInput& in) {
  if (!in.cost.defines(Operation::reduce_scatter) || !in.cost.defines(Operation::all_gather))
    return Inapplicable{"DeAR needs a collective that is a reduce-scatter followed by an all-gather; '" +
                        std::string(in.cost.algorithm()) + "' is not"};
  const auto gradients = gradients_by_layer(in);
  const auto groups = grouped(in, gradients, Bytes(in.options[named("bucket")]), in.options[named("layers")]);
  const bool pad = in.options[named("padding")] != 0 && in.cluster.workers() > 1;
  CommPlan out = PlanWriter(in, groups)
                     .written(static_cast<std::size_t>(in.options[named("prefetch")]), pad ? in.cluster.workers() : 0);
  out.order.reserve(in.profile.tensors.size());
  write_forward_order(gradients, out.order);
  return out;
}

std::string settings(const OptionValues& v) {
  char text[200];
  if (v[named("layers")] > 0)
    std::snprintf(text, sizeof text, "dear_pytorch, dear/dopt_rsag.py: THRESHOLD = None, NUM_NEARBY_LAYERS = %.0f",
                  v[named("layers")]);
  else
    std::snprintf(text, sizeof text, "dear_pytorch, dear/dopt_rsag.py: THRESHOLD = %.4g  # MiB",
                  v[named("bucket")] / 0x1p20);
  const double ahead = v[named("prefetch")];
  if (ahead == 1) return text;
  return text + ("; issue the all-gather of a group on entering the " + std::to_string(std::llround(ahead)) +
                 "th group before it, where the code issues it on entering the one before");
}

}  // namespace

extern constinit const Strategy record{
    .name = "dear",
    .title = "DeAR",
    .summary = "reduce-scatter under the backward pass, all-gather under the next forward pass",
    .reference = "Zhang et al., ICDCS 2023, arXiv 2302.12445; lzhangbv/dear_pytorch",
    .fidelity = Fidelity::exact,
    .needs = "dear_pytorch or an equivalent hook per layer",
    .options = options,
    .phases = 1,
    .plan = plan,
    .settings = settings,
    .tuner = {.trials = 10, .linear = true, .option = "bucket"},
};

}  // namespace stepcast::strategy::dear
