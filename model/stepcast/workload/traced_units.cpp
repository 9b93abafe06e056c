// Traced units: the workload of a profile. Repeated blocks are units of one kind with their mean costs; what is before
// and behind them is cut at the layers with weights; what tensor parallelism divides follows from the shapes of the
// parameters (traced_layers.hpp).
#include <stepcast/profile/blocks.hpp>
#include <stepcast/profile/training_memory.hpp>
#include <stepcast/workload/traced_layers.hpp>
#include <stepcast/workload/workload.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace stepcast {
namespace {

/// Layers [begin, end).
struct Range {
  std::uint32_t begin = 0, end = 0;
};

Seconds slower(const PassCost& c) { return std::max(c.host, c.device); }

/// The types of most activations and of most weights.
struct ElementTypes {
  DataType activations, weights;
};
ElementTypes types_of(const Profile& p) {
  std::map<DataType, double> activations;
  for (const Layer& layer : p.layers)
    if (!layer.input_shape.empty()) activations[layer.input_dtype] += layer.input_elements();
  const DataType weight = weight_type(p);
  DataType activation = weight;
  double most = 0;
  for (const auto& [type, elements] : activations)
    if (elements > most) most = elements, activation = type;
  return {activation, weight};
}

/// Kept bytes by layer: as traced, else the whole in proportion to the layers' inputs, else to their forward times.
struct KeptByLayer {
  std::vector<double> bytes;  ///< all 0 when unknown
  bool known = false;
  std::string assumed;  ///< what was not traced; empty: nothing
};
KeptByLayer kept_of(const Profile& p) {
  KeptByLayer kept;
  kept.bytes.assign(p.layers.size(), 0);
  double sum = 0, inputs = 0, forward = 0;
  bool all_inputs = true;
  for (const Layer& layer : p.layers) {
    sum += layer.kept.value();
    inputs += layer.input_size().value();
    forward += slower(layer.forward).value();
    all_inputs = all_inputs && !layer.input_shape.empty();
  }
  kept.known = knows_activations(p);
  if (!kept.known) return kept;
  for (std::size_t l = 0; l < p.layers.size(); ++l) {
    const Layer& layer = p.layers[l];
    const double whole = p.activation_memory.value();  // what-if questions change it, and not the layers' parts
    if (sum > 0) kept.bytes[l] = layer.kept.value() * (whole > 0 ? whole / sum : 1);
    else if (all_inputs && inputs > 0) kept.bytes[l] = whole * layer.input_size().value() / inputs;
    else if (forward > 0) kept.bytes[l] = whole * slower(layer.forward).value() / forward;
  }
  if (sum == 0)
    kept.assumed = "the kept activations of a layer are in proportion to its " +
                   std::string(all_inputs ? "input" : "forward time");
  return kept;
}

/// Whether the host sets the pace of a step, or where it waits for the device, of each pass (traced.cpp): the stream
/// with the larger sum does.
struct Pace {
  bool host_forward = false, host_backward = false;
};
Pace pace_of(const Profile& p) {
  PassCost forward, backward;
  for (const Layer& layer : p.layers) {
    forward += layer.forward;
    backward += layer.backward;
  }
  if (p.host_waits_for_device) return {forward.host > forward.device, backward.host > backward.device};
  const bool host = forward.host + backward.host > forward.device + backward.device;
  return {host, host};
}

/// Of a weight that was kept as inputs x outputs it is the other extent.
std::uint8_t divided_extent(const TracedLayer& layer, const Tensor& t) {
  if (!layer.has_product || t.shape.size() != 2 || layer.product.n == layer.product.k)
    return layer.has_product && t.shape.size() == 2 && layer.division == Division::rows ? 1 : 0;
  const bool outputs_first = double(t.shape.front()) == layer.product.n;
  return (layer.division == Division::rows) == outputs_first ? 1 : 0;
}

/// The tensors of every layer, divided as its parameters are before they are spread over slices.
std::vector<std::vector<TracedTensor>> tensors_of(const Profile& p, const TracedShapes& shapes) {
  std::vector<std::vector<TracedTensor>> tensors(p.layers.size());
  for (const Tensor& t : p.tensors) {
    const TracedLayer& layer = shapes.layers[t.layer];
    const double elements = t.size.value() / size_of(t.dtype);
    const double all = layer.divided_parameters + layer.other_parameters;
    const double divided = all > 0 ? elements * (layer.divided_parameters / all) : 0;
    tensors[t.layer].push_back({0, divided, elements - divided, t.shape, divided_extent(layer, t)});
  }
  return tensors;
}

/// The place of each layer in the backward pass.
std::vector<std::uint32_t> backward_places(const Profile& p) {
  std::vector<std::uint32_t> places(p.layers.size());
  for (std::uint32_t i = 0; i < p.backward_order.size(); ++i) places[p.backward_order[i]] = i;
  return places;
}

/// A layer that was cut into slices has its parameters in the first: each slice holds an equal part of them.
TracedShapes with_parameters_spread(const Profile& p, TracedShapes shapes) {
  std::map<std::string, std::vector<std::uint32_t>> slices;
  for (std::uint32_t l = 0; l < p.layers.size(); ++l) {
    const std::string& name = p.layers[l].name;
    const std::size_t slash = name.rfind('/');
    if (slash == std::string::npos || slash + 1 == name.size()) continue;
    if (name.find_first_not_of("0123456789", slash + 1) == std::string::npos)
      slices[name.substr(0, slash)].push_back(l);
  }
  for (const auto& [name, layers] : slices)
    for (double TracedLayer::*part : {&TracedLayer::divided_parameters, &TracedLayer::other_parameters}) {
      double sum = 0;
      for (const std::uint32_t l : layers) sum += shapes.layers[l].*part;
      for (const std::uint32_t l : layers) shapes.layers[l].*part = sum / double(layers.size());
    }
  return shapes;
}

/// What measured steps differ by, relative to their mean; 0 where too few tell. Of a described job what its device
/// errs by.
double relative_error_of(const Profile& p) {
  if (p.described) return p.device_error;
  const std::size_t n = p.step_times.size();
  double mean = 0, squares = 0;
  for (const Seconds t : p.step_times) mean += t.value() / double(n);
  for (const Seconds t : p.step_times) squares += (t.value() - mean) * (t.value() - mean);
  return n > 2 && mean > 0 ? std::sqrt(squares / double(n - 1)) / mean : 0;
}

/// Update, waiting for input and everything else, in the stream that sets the pace of the traced step.
struct Rest {
  Seconds update, input, overhead;
  bool host_updates = false;  ///< that of the host, of a job with a device
  PassCost besides{};         ///< all of it, of such a job
};
Rest rest_of(const Profile& p) {
  const PassCost &update = p.optimizer, &other = p.other;
  if (!p.has_device()) return {slower(update), p.input, slower(other)};
  PassCost besides = update;
  besides += other;
  besides.host += p.input;
  if (p.host_waits_for_device) return {slower(update), p.input, slower(other), update.host > update.device, besides};
  Seconds host = besides.host, device = besides.device;
  for (const Layer& layer : p.layers) {
    host += layer.forward.host + layer.backward.host;
    device += layer.forward.device + layer.backward.device;
  }
  if (host > device) return {update.host, p.input, other.host, true, besides};
  return {update.device, Seconds(0), other.device, false, besides};
}

/// Costs of the pieces of a profile, as means of their kinds. `w` holds what was found of the whole model.
class Units {
 public:
  Units(const Profile& p, const ProfileBlocks& blocks, const TracedShapes& shapes, const Workload& w)
      : p_(p),
        blocks_(blocks),
        samples_(w.traced_batch),
        shapes_(with_parameters_spread(p, shapes)),
        kept_(kept_of(p).bytes),
        pace_(pace_of(p)),
        tensors_of_(tensors_of(p, shapes)),
        backward_place_(backward_places(p)),
        w_(w) {}

  /// A range without repetition is cut before each layer with a weight, and pieces that cost next to nothing join the
  /// one behind them (or, at the end, the one before).
  std::vector<Range> pieces(Range whole) const {
    if (whole.begin == whole.end) return {};
    const bool repeated = blocks_.repetitions > 1;
    const Range first_block{blocks_.before, blocks_.before + blocks_.layers};
    const Seconds least = repeated ? time_of(first_block) * 0.1 : time_of(whole) * 0.01;
    std::vector<Range> out;
    Range open{whole.begin, whole.begin};
    for (std::uint32_t l = whole.begin; l < whole.end; ++l) {
      if (l > open.begin && has_weight(l) && time_of(open) >= least) {
        out.push_back(open);
        open.begin = l;
      }
      open.end = l + 1;
    }
    if (!out.empty() && time_of(open) < least) out.back().end = open.end;
    else out.push_back(open);
    return out;
  }

  /// The mean of all blocks.
  UnitKind block() const {
    UnitKind kind = kind_of({blocks_.before, blocks_.before + blocks_.layers});
    const double n = blocks_.repetitions;
    for (std::uint32_t r = 1; r < blocks_.repetitions; ++r) {
      const UnitKind other = kind_of({blocks_.before + r * blocks_.layers, blocks_.before + (r + 1) * blocks_.layers});
      kind.forward += other.forward;
      kind.backward += other.backward;
      for (const auto part : {&KeptActivations::divided, &KeptActivations::sequence, &KeptActivations::attention})
        kind.kept.*part += other.kept.*part;
      for (std::size_t l = 0; l < kind.inside.layers.size(); ++l) {
        kind.inside.layers[l].forward += other.inside.layers[l].forward;
        kind.inside.layers[l].backward += other.inside.layers[l].backward;
      }
      kind.divided_share += other.divided_share;
      kind.product_share += other.product_share;
      kind.attention_share += other.attention_share;
      kind.divided_parameters += other.divided_parameters;
      kind.other_parameters += other.other_parameters;
    }
    kind.forward /= n;
    kind.backward /= n;
    for (const auto part : {&KeptActivations::divided, &KeptActivations::sequence, &KeptActivations::attention})
      kind.kept.*part /= n;
    for (TracedInside::Shares& s : kind.inside.layers) {
      s.forward /= n;
      s.backward /= n;
    }
    for (double* share : {&kind.divided_share, &kind.product_share, &kind.attention_share, &kind.divided_parameters,
                          &kind.other_parameters})
      *share /= n;
    kind.name = "block";
    return kind;
  }

  UnitKind kind_of(Range range) const {
    UnitKind kind;
    kind.name = p_.layers[range.begin].name;
    for (std::uint32_t l = range.begin; l < range.end; ++l) {
      kind.layers.push_back(l);
      const TracedLayer& layer = shapes_.layers[l];
      kind.forward += p_.layers[l].forward;
      kind.backward += p_.layers[l].backward;
      kind.divided_parameters += layer.divided_parameters;
      kind.other_parameters += layer.other_parameters;
      if (layer.division == Division::rows) ++kind.tensor_reductions;
      if (!layer.has_product) continue;
      kind.products.push_back(layer.product);
      kind.divisions.push_back(layer.division);
    }
    take_shares(range, kind);
    take_kept(range, kind);
    take_inside(range, kind);
    kind.kept.input = Bytes(boundary_at(range.begin));
    kind.boundary = Bytes(range.end < p_.layers.size() ? boundary_at(range.end) : 0);
    return kind;
  }

 private:
  Seconds time_of(Range range) const {
    Seconds sum;
    for (std::uint32_t l = range.begin; l < range.end; ++l)
      sum += slower(p_.layers[l].forward) + slower(p_.layers[l].backward);
    return sum;
  }
  bool has_weight(std::uint32_t l) const {
    const TracedLayer& layer = shapes_.layers[l];
    return layer.has_product || layer.has_convolution || layer.is_embedding;
  }

  /// Bytes of one sample that enter a layer: as recorded, else the model's width times its rows.
  double boundary_at(std::uint32_t l) const {
    const Layer& layer = p_.layers[l];
    if (!layer.input_shape.empty()) return layer.input_size().value() / samples_;
    return l == 0 ? 0 : w_.hidden * w_.sequence * size_of(w_.dtype);
  }

  void take_inside(Range range, UnitKind& kind) const {
    const std::uint32_t n = range.end - range.begin;
    TracedInside& in = kind.inside;
    in.layers.resize(n);
    double forward = 0, backward = 0;
    for (std::uint32_t i = 0; i < n; ++i) {
      const Layer& layer = p_.layers[range.begin + i];
      const PassCost &f = layer.forward, &b = layer.backward;
      in.layers[i] = {(pace_.host_forward ? f.host : f.device).value(),
                      (pace_.host_backward ? b.host : b.device).value()};
      forward += in.layers[i].forward;
      backward += in.layers[i].backward;
      in.backward_order.push_back(i);
    }
    for (TracedInside::Shares& s : in.layers) {
      s.forward = forward > 0 ? s.forward / forward : 1.0 / n;
      s.backward = backward > 0 ? s.backward / backward : 1.0 / n;
    }
    std::sort(in.backward_order.begin(), in.backward_order.end(), [&](std::uint32_t a, std::uint32_t b) {
      return backward_place_[range.begin + a] < backward_place_[range.begin + b];
    });
    for (const std::uint32_t i : in.backward_order)
      for (TracedTensor t : tensors_of_[range.begin + i]) {
        t.layer = i;
        in.tensors.push_back(t);
      }
  }

  void take_shares(Range range, UnitKind& kind) const {
    const double pace = pace_of_products(range);
    double outside = 0, divided = 0, products = 0, all = 0, forward = 0, attention = 0;
    for (std::uint32_t l = range.begin; l < range.end; ++l) {
      const TracedLayer& layer = shapes_.layers[l];
      const Layer& traced = p_.layers[l];
      const PassCost &f = traced.forward, &b = traced.backward;
      const double time = (f.host + b.host).value();
      const bool product = layer.has_product || layer.has_convolution;
      const double rest = p_.has_device()
                              ? (f.device + b.device - f.part[KernelClass::gemm] - b.part[KernelClass::gemm]).value()
                          : product ? 0
                                    : time;
      all += time;
      if (product) products += time;
      outside += rest;
      if (layer.divided) divided += rest;
      const double pass = (p_.has_device() ? f.device : f.host).value();
      forward += pass;
      if (before_attention_output(range, l))
        attention += pace > 0          ? std::max(0.0, pass - pace * layer.product.operations() * samples_)
                     : p_.has_device() ? (f.device - f.part[KernelClass::gemm]).value()
                                       : 0;
    }
    kind.divided_share = outside > 0 ? divided / outside : 0;
    kind.product_share = !p_.has_device() && all > 0 ? products / all : 0;
    kind.attention_share = forward > 0 ? attention / forward : 0;
  }
  /// Seconds per operation of the quickest product of the range that is not followed by the core of attention: what
  /// such a layer takes beyond its own product at that pace is the core.
  [[nodiscard]] double pace_of_products(Range range) const {
    double pace = 0;
    for (std::uint32_t l = range.begin; l < range.end; ++l) {
      const TracedLayer& layer = shapes_.layers[l];
      const PassCost& f = p_.layers[l].forward;
      const double time = (p_.has_device() ? f.part[KernelClass::gemm] : f.host).value();
      const double operations = layer.product.operations() * samples_;
      if (!layer.has_product || before_attention_output(range, l) || !(time > 0) || !(operations > 0)) continue;
      pace = pace > 0 ? std::min(pace, time / operations) : time / operations;
    }
    return pace;
  }
  /// The last product by columns in front of the output of attention: softmax and the rest of the core follow it.
  bool before_attention_output(Range range, std::uint32_t l) const {
    if (!shapes_.layers[l].has_product || shapes_.layers[l].division != Division::columns) return false;
    for (std::uint32_t next = l + 1; next < range.end; ++next)
      if (shapes_.layers[next].has_product) return shapes_.layers[next].closes_attention;
    return false;
  }

  void take_kept(Range range, UnitKind& kind) const {
    for (std::uint32_t l = range.begin; l < range.end; ++l) {
      const TracedLayer& layer = shapes_.layers[l];
      const Bytes kept(kept_[l] / samples_);
      (layer.divided ? kind.kept.divided : kind.kept.sequence) += kept;
      if (!before_attention_output(range, l)) continue;
      const Bytes output(layer.product.m * layer.product.n * size_of(w_.dtype));
      kind.kept.attention += std::max(Bytes(), kept - output);
    }
  }

  const Profile& p_;
  const ProfileBlocks& blocks_;
  const double samples_;
  const TracedShapes shapes_;
  const std::vector<double> kept_;
  const Pace pace_;
  const std::vector<std::vector<TracedTensor>> tensors_of_;  // by layer
  const std::vector<std::uint32_t> backward_place_;          // of each layer
  const Workload& w_;
};

/// The kinds of a model's pieces, in forward order: blocks once, all others as often as they occur.
struct Kinds {
  std::vector<UnitKind> kinds;
  std::vector<std::uint32_t> units;
};
Kinds kinds_of(const Profile& p, const ProfileBlocks& blocks, const Units& costs) {
  Kinds out;
  const auto add = [&](UnitKind kind, std::size_t times) {
    out.units.insert(out.units.end(), times, std::uint32_t(out.kinds.size()));
    out.kinds.push_back(std::move(kind));
  };
  const auto layers = std::uint32_t(p.layers.size());
  const bool repeated = blocks.repetitions > 1;
  const std::uint32_t end = blocks.before + blocks.repetitions * blocks.layers;
  for (const Range& piece : costs.pieces({0, repeated ? blocks.before : layers})) add(costs.kind_of(piece), 1);
  if (!repeated) return out;
  add(costs.block(), blocks.repetitions);
  for (const Range& piece : costs.pieces({end, layers})) add(costs.kind_of(piece), 1);
  return out;
}

std::vector<std::string> assumptions_of(const Profile& p, const ProfileBlocks& blocks, const TracedShapes& shapes,
                                        const Workload& w) {
  std::vector<std::string> lines = shapes.assumed;
  const auto say = [&](std::string line) { lines.push_back(std::move(line)); };
  if (p.batch_samples <= 0) say("the traced batch counts as one sample, because its size is not known");
  if (blocks.repetitions > 1)
    say(std::to_string(blocks.repetitions) + " equal blocks of " + std::to_string(blocks.layers) + " layers from " +
        p.layers[blocks.before].name + ": each costs their mean");
  if (w.hidden > 0 && w.sequence == 0)
    say("the length of activations is not known (record the trace with record_shapes=True): transfers between stages "
        "are not counted, and tensor parallelism is not offered");
  if (!p.has_device()) say("the host computes: time outside layers with products grows with the bytes");
  if (w.device && w.hidden > 0)
    say("smaller tiles lose efficiency as on " + w.device->name + "; what attention multiplies as the rest");
  if (!w.device) say("products take time with their operations alone, for want of a device's efficiency curve");
  return lines;
}

/// The layers as they were traced: where in a compiled graph its gradients come about is not known, so that a stage
/// cannot end within it.
Profile with_slices_joined(const Profile& profile) {
  Profile whole = profile;
  whole.layers.clear();
  whole.backward_order.clear();
  std::vector<std::uint32_t> of;
  for (const Layer& layer : profile.layers) {
    if (!layer.slice || whole.layers.empty()) {
      whole.layers.push_back(layer);
    } else {
      Layer& all = whole.layers.back();
      all.forward += layer.forward;
      all.backward += layer.backward;
      all.kept += layer.kept;
    }
    of.push_back(static_cast<std::uint32_t>(whole.layers.size() - 1));
  }
  for (const std::uint32_t l : profile.backward_order)
    if (!profile.layers[l].slice || l == 0) whole.backward_order.push_back(of[l]);
  for (Tensor& tensor : whole.tensors) tensor.layer = of[tensor.layer];
  return whole;
}

}  // namespace

Answer<Workload> workload_of(const Profile& traced, const Device* device) {
  const Profile profile = with_slices_joined(updating_all(traced));
  if (profile.layers.size() < 2)
    return Inapplicable{"the profile of " + profile.model + " has one layer, which a layout cannot divide" +
                        (traced.layers.size() > 1
                             ? ": the trace does not look into its compiled graph; trace the model "
                               "without compiling it, or compile block by block"
                             : "")};
  const ProfileBlocks blocks = blocks_of(profile);
  Workload w;
  w.name = profile.model;
  w.traced_batch = profile.batch_samples > 0 ? profile.batch_samples : 1;
  w.on_host = !profile.has_device();
  if (const Bytes all = profile.gradient_size(); all > Bytes(0)) {
    const auto time = [&](const PassCost& cost) { return (w.on_host ? cost.host : cost.device).value(); };
    for (const Tensor& t : profile.tensors) w.copy_in += time(t.packing) / all.value();
    w.copy_out = time(profile.communication.after) / all.value();
    w.sharding = time(profile.communication.sharding) / all.value();
  }
  w.host_waits = profile.host_waits_for_device;
  if (device != nullptr) w.device = *device;
  const TracedShapes shapes = traced_shapes(profile, blocks, w.traced_batch, device);
  w.hidden = shapes.hidden;
  w.sequence = shapes.hidden > 0 ? shapes.sequence : 0;
  const ElementTypes types = types_of(profile);
  w.dtype = types.activations;
  const BytesPerParameter bytes = bytes_per_parameter(profile);
  w.bytes_of_weight = bytes.weight;
  w.bytes_of_gradient = bytes.gradient;
  w.bytes_of_state = bytes.state;
  w.assumed.push_back((profile.bytes_of_state > 0 ? "optimizer: " : "optimizer: Adam, ") +
                      std::to_string(std::lround(w.bytes_of_state)) + " bytes a parameter with weight and gradient");
  w.relative_error = relative_error_of(profile);
  if (profile.described && profile.device_error == 0) w.rates = profile.rates;
  const KeptByLayer kept = kept_of(profile);
  w.activations_known = kept.known;
  w.transient = profile.transient_memory / w.traced_batch;
  if (!kept.assumed.empty()) w.assumed.push_back(kept.assumed);
  Kinds found = kinds_of(profile, blocks, Units(profile, blocks, shapes, w));
  w.kinds = std::move(found.kinds);
  w.units = std::move(found.units);
  const Rest rest = rest_of(profile);
  w.sharded = owners_of_update(profile) > 1 || profile.communication.sharding.host > Seconds(0);
  w.host_updates = rest.host_updates;
  w.besides = rest.besides;
  w.update = rest.update;
  w.step_overhead = rest.overhead;
  w.input = rest.input;
  w.input_period = profile.input_period;
  const std::vector<std::string> assumed = assumptions_of(profile, blocks, shapes, w);
  w.assumed.insert(w.assumed.end(), assumed.begin(), assumed.end());
  return w;
}

}  // namespace stepcast
