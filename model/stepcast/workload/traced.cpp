// Cost of a traced unit: what its traced times become under a split.
//
// Matrix products take time with their operations and, where the device's curve and the rows are known, with the
// efficiency of their smaller tiles; everything else on the device with its bytes; what the host needs to issue a unit
// stays, unless the host computes itself. Within a step the host runs ahead of the device: the stream with the larger
// sum over all units sets the pace of each, so that units in a row take as long as the step of the profile does.
// Formulas of transfers and of kept activations are those of described units (described.cpp).
#include <stepcast/workload/unit_cost.hpp>
#include <stepcast/workload/workload.hpp>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>
#include <vector>

namespace stepcast {
namespace {

class TracedUnit {
 public:
  TracedUnit(const Workload& workload, const UnitKind& kind, const Split& split)
      : w_(workload), kind_(kind), split_(split), samples_(split.micro_batch / double(split.context)) {}

  /// The traced pass as the split changes it.
  [[nodiscard]] PassCost pass(const PassCost& traced) const {
    const double products = product_ratio(), rest = rest_ratio();
    PassCost out = traced;
    if (traced.device.value() == 0 && kind_.product_share > 0)
      out.host = traced.host * (rest + kind_.product_share * (products - rest));
    else if (!has_device()) out.host = traced.host * rest;
    out.device = traced.device * rest + traced.part[KernelClass::gemm] * (products - rest);
    out.part[KernelClass::gemm] = traced.part[KernelClass::gemm] * products;
    return out;
  }

  void add_parameters(UnitCost& c) const {
    c.parameters = kind_.divided_parameters * parameter_share() + kind_.other_parameters;
  }
  void add_activations(UnitCost& c) const {
    const double divided = samples_ / tensor(), sequence = samples_ * repeated_share();
    const KeptActivations& k = kind_.kept;
    c.kept[std::size_t(Recomputation::none)] = k.divided * divided + k.sequence * sequence;
    c.kept[std::size_t(Recomputation::selective)] = (k.divided - k.attention) * divided + k.sequence * sequence;
    c.kept[std::size_t(Recomputation::full)] = k.input * sequence;
    // Not known of layers: refused where it is asked for.
    for (const Recomputation r : {Recomputation::operators, Recomputation::modules})
      c.kept[std::size_t(r)] = c.kept[std::size_t(Recomputation::none)];
    c.working = c.kept[std::size_t(Recomputation::none)] + w_.transient * divided;
    c.boundary = kind_.boundary * sequence;
  }
  void add_transfers(UnitCost& c, bool repeated) const {
    if (split_.grid.devices > 1) add_tensor_transfers(c, repeated);
    if (split_.context > 1 && attends()) {
      // Keys and values of a block of the sequence go around the ring (Liu et al. 2023, arXiv 2310.01889).
      const Bytes block(keys_and_values() / tensor() * w_.sequence * samples_ * size_of(w_.dtype));
      add_ring(c, split_.context, block);
    }
  }

 private:
  [[nodiscard]] bool has_device() const { return kind_.forward.device.value() + kind_.backward.device.value() > 0; }
  [[nodiscard]] double tensor() const { return double(split_.grid.devices); }
  [[nodiscard]] bool one_dimensional() const { return split_.scheme == nullptr || split_.scheme->name == "1d"; }
  [[nodiscard]] double repeated_share() const {
    if (split_.sequence_parallel) return 1 / tensor();
    return one_dimensional() ? 1 : split_.scheme->activation_share(split_.grid);
  }
  [[nodiscard]] double parameter_share() const {
    return one_dimensional() ? 1 / tensor() : split_.scheme->parameter_share(split_.grid);
  }
  [[nodiscard]] double grown() const { return samples_ / w_.traced_batch; }

  /// Bytes of what is no product: behind columns divided, else repeated on every device.
  [[nodiscard]] double rest_ratio() const {
    if (tensor() == 1) return grown();
    return grown() * (kind_.divided_share / tensor() + (1 - kind_.divided_share) * repeated_share());
  }

  [[nodiscard]] MatrixProduct local(const MatrixProduct& whole, Division division) const {
    MatrixProduct p = whole;
    p.m *= samples_;
    if (tensor() == 1) return p;
    if (!one_dimensional()) return split_.scheme->local_product(split_.grid, p, division);
    if (division == Division::columns) p.n /= tensor();
    else if (division == Division::rows) p.k /= tensor();
    else if (split_.sequence_parallel) p.m /= tensor();
    return p;
  }
  /// Time of the split's products over that of the traced ones, by operations or by the device's curve.
  [[nodiscard]] double product_ratio() const {
    if (kind_.products.empty()) return grown() * repeated_share();
    const bool rows_known =
        std::all_of(kind_.products.begin(), kind_.products.end(), [](const MatrixProduct& p) { return p.m > 0; });
    const bool curve = w_.device && rows_known && w_.device->matrix_rate[std::size_t(w_.dtype)] > 0;
    double now = 0, traced = 0;
    for (std::size_t i = 0; i < kind_.products.size(); ++i) {
      MatrixProduct whole = kind_.products[i];
      if (whole.m == 0) whole.m = 1;
      const MatrixProduct part = local(whole, kind_.divisions[i]);
      whole.m *= w_.traced_batch;
      now += curve ? matrix_time(*w_.device, w_.dtype, part).value() : part.operations();
      traced += curve ? matrix_time(*w_.device, w_.dtype, whole).value() : whole.operations();
    }
    return now / traced;
  }

  /// Groups of products by columns, each with one input for all of them.
  [[nodiscard]] double groups() const {
    double count = 0;
    for (std::size_t i = 0; i < kind_.divisions.size(); ++i)
      if (kind_.divisions[i] == Division::columns && (i == 0 || kind_.divisions[i - 1] != Division::columns)) ++count;
    return count;
  }
  [[nodiscard]] bool attends() const {
    for (std::size_t i = 0; i < kind_.products.size(); ++i)
      if (kind_.divisions[i] == Division::rows && kind_.products[i].k == w_.hidden) return true;
    return false;
  }
  /// Columns in front of the output of attention beyond those of the queries: grouped queries have fewer.
  [[nodiscard]] double keys_and_values() const {
    double columns = 0;
    for (std::size_t i = 0; i < kind_.products.size() && kind_.divisions[i] == Division::columns; ++i)
      columns += kind_.products[i].n;
    const double beyond = columns - w_.hidden;
    return beyond > 0 && beyond <= 2 * w_.hidden ? beyond : 2 * w_.hidden;
  }

  void add_tensor_transfers(UnitCost& c, bool repeated) const {
    const Bytes whole(w_.hidden * w_.sequence * samples_ * size_of(w_.dtype));
    const double sums = kind_.tensor_reductions, entries = groups();
    if (!one_dimensional()) {
      if (sums + entries == 0) return;
      const TensorWork work{whole, Bytes(kind_.divided_parameters * size_of(w_.dtype)),
                            kind_.divided_parameters / (w_.hidden * w_.hidden), kind_.tensor_reductions};
      c.forward_tensor = split_.scheme->forward(split_.grid, work);
      c.backward_tensor = split_.scheme->backward(split_.grid, work);
      return;
    }
    const auto add = [&](std::vector<TensorTransfer>& to, Operation operation, double count) {
      if (count > 0) to.push_back({operation, split_.grid.devices, whole, count});
    };
    if (split_.sequence_parallel) {
      add(c.forward_tensor, Operation::all_gather, entries);
      add(c.forward_tensor, Operation::reduce_scatter, sums);
      add(c.backward_tensor, Operation::all_gather, sums);
      add(c.backward_tensor, Operation::reduce_scatter, entries);
    } else {
      add(c.forward_tensor, Operation::all_reduce, sums);
      add(c.backward_tensor, Operation::all_reduce, entries);
    }
    // Columns that nothing sums up are gathered, unless they are the model's output.
    if (repeated && entries > sums) add(c.forward_tensor, Operation::all_gather, entries - sums);
  }

  const Workload& w_;
  const UnitKind& kind_;
  const Split& split_;
  double samples_;
};

/// How long each stream is busy with all units, forward and backward.
struct Streams {
  Seconds forward_host, forward_device, backward_host, backward_device;
};
Streams streams_of(const Workload& w, const Split& split) {
  Streams sum;
  std::vector<double> count(w.kinds.size(), 0);
  for (const std::uint32_t unit : w.units) ++count[unit];
  for (std::size_t k = 0; k < w.kinds.size(); ++k) {
    const TracedUnit unit(w, w.kinds[k], split);
    const PassCost forward = unit.pass(w.kinds[k].forward), backward = unit.pass(w.kinds[k].backward);
    sum.forward_host += forward.host * count[k];
    sum.forward_device += forward.device * count[k];
    sum.backward_host += backward.host * count[k];
    sum.backward_device += backward.device * count[k];
  }
  return sum;
}

/// Elapsed times of a unit's passes. A host that never waits runs a step ahead, one that waits runs ahead within the
/// step: its backward pass begins while the device may still be in the forward pass.
std::pair<Seconds, Seconds> elapsed(const Workload& w, const Streams& all, const PassCost& forward,
                                    const PassCost& backward) {
  if (!w.host_waits) {
    const bool host = all.forward_host + all.backward_host + w.besides.host >
                      all.forward_device + all.backward_device + w.besides.device;
    return host ? std::pair(forward.host, backward.host) : std::pair(forward.device, backward.device);
  }
  const bool host_forward = all.forward_host > all.forward_device;
  const Seconds lead = host_forward ? Seconds() : all.forward_device - all.forward_host;
  const Seconds host_backward = all.backward_host - std::min(lead, all.backward_host);
  const Seconds f = host_forward ? forward.host : forward.device;
  if (host_backward <= all.backward_device) return {f, backward.device};
  return {f, backward.host * (host_backward / all.backward_host)};
}

std::string flaw_of(const Workload& w, const UnitKind& kind, bool repeated, const Split& split) {
  const auto divides = [](double number, std::int64_t parts) { return std::fmod(number, double(parts)) == 0; };
  const auto does_not = [](double number, const char* what, std::int64_t parts, const char* by) {
    return std::to_string(std::int64_t(number)) + " " + what + " do not divide by " + by + " " + std::to_string(parts);
  };
  const std::int64_t t = split.grid.devices;
  const bool grid = split.scheme != nullptr && split.scheme->name != "1d";
  if (split.expert > 1 || split.whole_experts) return "the profile does not tell experts from other layers";
  if (t == 1 && split.context == 1) return {};
  if (w.hidden == 0) return "no repeated matrix products with weights that tensor or context parallelism could divide";
  if (w.sequence == 0) return "the profile does not tell the size of activations; record it with record_shapes=True";
  if (split.context > 1 && split.context_exchange != ContextExchange::ring)
    return "of a traced job only a ring is known (cp_comm=p2p), since its heads are not: describe the model";
  if (!divides(w.sequence, split.context)) return does_not(w.sequence, "tokens", split.context, "context degree");
  if (!divides(w.hidden, t)) return does_not(w.hidden, "hidden elements", t, "tensor degree");
  if (split.sequence_parallel && grid) return "sequence parallelism belongs to the 1d scheme";
  if (split.sequence_parallel && !divides(w.sequence, t * split.context))
    return does_not(w.sequence, "tokens", t * split.context, "tensor x context degree");
  if (grid || !repeated) return {};  // frameworks pad vocabularies
  for (std::size_t i = 0; i < kind.products.size(); ++i) {
    const double extent = kind.divisions[i] == Division::rows ? kind.products[i].k : kind.products[i].n;
    if (!divides(extent, t)) return does_not(extent, "columns of a weight", t, "tensor degree");
  }
  return {};
}

}  // namespace

Answer<UnitCost> traced_unit_cost(const Workload& workload, std::uint32_t index, const Split& split) {
  const UnitKind& kind = workload.kinds[index];
  const bool repeated = std::count(workload.units.begin(), workload.units.end(), index) > 1;
  if (std::string flaw = flaw_of(workload, kind, repeated, split); !flaw.empty()) return Inapplicable{std::move(flaw)};
  const TracedUnit unit(workload, kind, split);
  const PassCost forward = unit.pass(kind.forward), backward = unit.pass(kind.backward);
  UnitCost c;
  Seconds both;
  std::tie(c.forward, both) = elapsed(workload, streams_of(workload, split), forward, backward);
  if (!workload.on_host) {
    if (!workload.host_waits) c.forward_idle = c.forward - forward.device, c.backward_idle = both - backward.device;
    c.forward_issue = forward.host;
    c.backward_issue = backward.host;
  }
  // Of a product's backward pass one half is the weight's gradient; attention's own products are taken for such.
  const double products =
      backward.device.value() > 0 ? backward.part[KernelClass::gemm] / backward.device : kind.product_share;
  c.weight_gradient = both * (products / 2);
  c.input_gradient = both - c.weight_gradient;
  c.attention = c.forward * kind.attention_share;
  c.attention_backward = both * kind.attention_share;
  unit.add_parameters(c);
  unit.add_activations(c);
  unit.add_transfers(c, repeated);
  return c;
}

}  // namespace stepcast
