// Degrees, micro-batch, scheme and schedule that a plan leaves open are filled in; the first flaw is told.
#include <stepcast/layout/layout.hpp>
#include <stepcast/layout/tensor_scheme.hpp>
#include <stepcast/pipeline/pipeline.hpp>

#include <algorithm>
#include <cmath>

namespace stepcast {

std::string_view name_of(Dimension d) {
  static constexpr std::array<std::string_view, dimension_count> names{"tp", "cp", "dp", "pp"};
  return names[static_cast<std::size_t>(d)];
}

std::string_view name_of(ContextExchange e) {
  static constexpr std::array<std::string_view, 3> names{"p2p", "allgather", "a2a"};
  return names[static_cast<std::size_t>(e)];
}

std::string_view name_of(ExpertExchange e) {
  static constexpr std::array<std::string_view, 2> names{"alltoall", "deepep"};
  return names[static_cast<std::size_t>(e)];
}

std::string_view name_of(TensorOverlap o) {
  static constexpr std::array<std::string_view, 3> names{"off", "on", "products"};
  return names[static_cast<std::size_t>(o)];
}

std::string_view name_of(Recomputation r) {
  static constexpr std::array<std::string_view, recomputation_count> names{"none", "selective", "full", "op",
                                                                           "modules"};
  return names[static_cast<std::size_t>(r)];
}

std::string_view name_of(Offloaded o) {
  static constexpr std::array<std::string_view, offloaded_count> names{"optimizer", "parameters", "activations"};
  return names[static_cast<std::size_t>(o)];
}

std::string modules_text(std::uint8_t modules) {
  std::string text;
  for (std::size_t m = 0; m < recomputed_module_count; ++m)
    if ((modules >> m & 1) != 0)
      text += (text.empty() ? "" : "+") + std::string(name_of(static_cast<RecomputedModule>(m)));
  return text;
}

std::string recomputation_text(const Layout& l) {
  if (l.recomputation == Recomputation::modules) return modules_text(l.recomputed_modules);
  return std::string(name_of(l.recomputation));
}

std::int64_t Layout::degree(Dimension d) const {
  const std::array<std::int64_t, dimension_count> degrees{tensor, context, data, pipeline};
  return degrees[static_cast<std::size_t>(d)];
}

bool neighbours_hold_a_stage(const Layout& l) {
  const std::array inner{Dimension::tensor, Dimension::context, Dimension::data};
  std::size_t next = 0;
  for (const Dimension d : l.order) {
    if (l.degree(d) == 1) continue;
    while (next < inner.size() && l.degree(inner[next]) == 1) ++next;
    if (next == inner.size() || inner[next] != d) return d == Dimension::pipeline && next == inner.size();
    ++next;
  }
  return true;
}

std::int64_t Layout::expert_ranks() const {
  if (!neighbours_hold_a_stage(*this)) return data;
  return data * context * (whole_experts() ? tensor : 1);
}

std::int64_t Layout::expert_replicas() const { return data * context * (whole_experts() ? tensor : 1) / expert; }

namespace {

constexpr std::int64_t most_devices = 1'000'000'000;

std::string text(std::int64_t n) { return std::to_string(n); }

// Empty, or which number makes no sense by itself.
std::string number_flaw(const Layout& l) {
  struct Number {
    std::string_view name;
    std::int64_t value, low;
  };
  for (const Number n :
       {Number{"tp", l.tensor, 1}, Number{"cp", l.context, 1}, Number{"dp", l.data, 0}, Number{"pp", l.pipeline, 1},
        Number{"ep", l.expert, 1}, Number{"etp", l.expert_tensor, 0}, Number{"chunks", l.chunks, 1},
        Number{"mb", l.micro_batch, 0}, Number{"shard", l.shard, shard_of_machine},
        Number{"hpz", l.backward_shard, shard_of_machine}, Number{"in_flight", l.units_in_flight, 1},
        Number{"depth", l.depth, 1}, Number{"recompute_blocks", l.recomputed_blocks, 0},
        Number{"recompute_group", l.recomputed_together, 1}, Number{"offload_blocks", l.offloaded_blocks, 0}})
    if (n.value < n.low || n.value > most_devices)
      return std::string(n.name) + "=" + text(n.value) + " is no such number";
  if (l.zero < 0 || l.zero > 3) return "zero=" + text(l.zero) + ": there are the stages 0 to 3";
  if ((l.recomputation == Recomputation::modules) != (l.recomputed_modules != 0))
    return "recomputation by modules names none: mixtures of experts and latent attention have some "
           "(recompute=layernorm+moe_act+mla_up_proj)";
  const bool some = l.recomputed_blocks > 0, together = l.recomputed_together > 1;
  if ((some || together) && l.recomputation != Recomputation::full)
    return std::string(some ? "recompute_blocks" : "recompute_group") +
           "= says how recompute=full does blocks again, and recompute is " + recomputation_text(l);
  if (some && together)
    return "recompute_blocks= does some blocks again one by one, recompute_group= all of them in groups: say one of "
           "both";
  if (l.context == 1 && l.context_exchange != ContextExchange::ring)
    return "cp_comm=" + std::string(name_of(l.context_exchange)) + " says how the devices of cp= exchange, and cp is 1";
  if (l.expert == 1 && l.expert_exchange != ExpertExchange::all_to_all)
    return "ep_comm=" + std::string(name_of(l.expert_exchange)) +
           " says how tokens get to the devices of ep=, and ep is 1";
  if (l.expert == 1 && l.overlap_expert)
    return "overlap_ep=on runs what the devices of ep= exchange beside another micro-batch, and ep is 1";
  if (l.expert_tensor > 1 && l.expert_tensor != l.tensor)
    return "etp=" + text(l.expert_tensor) + ": an expert is whole (1) or divided like the other layers (" +
           text(l.tensor) + ")";
  if (l.whole_experts() && !l.sequence_parallel)
    return "etp=1 keeps experts whole where tp=" + text(l.tensor) +
           " divides the other layers: that each rank has tokens of its own takes sequence parallelism (sp=on)";
  if (l.offloads(Offloaded::parameters) && l.zero != 3)
    return "offload=parameters leaves what zero=3 divides with the host, and zero is " + text(l.zero) +
           " (offload=optimizer goes with any)";
  if (l.offloaded_blocks > 0 && !l.offloads(Offloaded::activations))
    return "offload_blocks= says of how many blocks offload=activations leaves with the host what they keep, and "
           "offload is " +
           (l.offloaded == 0 ? std::string("none") : offload_text(l));
  if (l.offloaded != 0 && !l.unit_choices.empty())
    return "offload= is not for units that choose for themselves (units=)";
  std::array<bool, dimension_count> seen{};
  for (const Dimension d : l.order) seen[static_cast<std::size_t>(d)] = true;
  if (!std::all_of(seen.begin(), seen.end(), [](bool s) { return s; }))
    return "the order of ranks names a dimension twice";
  return {};
}

/// What ZeRO++ adds to stage 3; empty: nothing.
std::string_view beyond_zero_text(const Layout& l) {
  return l.backward_shard != 0 ? "hpz=" : l.quantized_weights ? "qwz=on" : l.quantized_gradients ? "qgz=on" : "";
}
bool beyond_zero(const Layout& l) { return !beyond_zero_text(l).empty(); }

// Empty, or what units that choose for themselves leave no room for. Fills in the least tensor degree.
std::string fill_choices(Layout& l, std::int64_t devices) {
  if (l.unit_choices.empty()) return {};
  std::int64_t least = most_devices;
  for (const UnitChoice& c : l.unit_choices) {
    if (c.tensor < 1 || devices % c.tensor != 0)
      return "units=" + text_of(c) + ": a tensor degree of " + text(c.tensor) + " does not divide " + text(devices) +
             " devices";
    least = std::min(least, c.tensor);
  }
  if (l.zero != 0 || l.recomputation != Recomputation::none || (l.tensor != 1 && l.tensor != least))
    return "units= says tp, zero and recompute of every unit; leave them out beside it";
  const bool alone = l.pipeline == 1 && l.context == 1 && l.expert == 1 && l.expert_tensor == 0 && l.chunks == 1 &&
                     l.depth == 1 && l.shard == 0 && !beyond_zero(l) && !l.sequence_parallel && l.stage_units.empty() &&
                     !l.stages_by_time && l.order == Layout{}.order && (l.scheme == nullptr || l.scheme->name == "1d");
  if (!alone)
    return "units that choose for themselves are divided by data and 1-D tensor parallelism alone, in the standard "
           "order; leave pp, cp, ep, etp, chunks, shard, hpz, qwz, qgz, sp, scheme, stages and order out beside units=";
  l.tensor = least;
  return {};
}

// Empty, or which unit cannot divide the samples of a micro-batch among its replicas.
std::string division_of_samples(const Layout& l) {
  for (const UnitChoice& c : l.unit_choices)
    if (const std::int64_t replicas = l.devices() / c.tensor; (l.micro_batch * l.data) % replicas != 0)
      return "the " + text(l.micro_batch * l.data) +
             " samples of a micro-batch on all devices do not divide into the " + text(replicas) +
             " replicas of units=" + text_of(c);
  return {};
}

// The product of the degrees without data; 0 when it exceeds every machine.
std::int64_t devices_of_a_replica(const Layout& l) {
  std::int64_t product = l.tensor;
  for (const std::int64_t degree : {l.context, l.pipeline}) {
    if (product > most_devices / degree) return 0;
    product *= degree;
  }
  return product;
}

std::string degrees_text(const Layout& l) {
  std::string out = "tp " + text(l.tensor);
  if (l.context > 1) out += " x cp " + text(l.context);
  if (l.data > 0) out += " x dp " + text(l.data);
  return out + " x pp " + text(l.pipeline);
}

// Empty, or why these degrees do not use these devices. Fills in the data degree.
std::string fill_degrees(Layout& l, std::int64_t devices) {
  const std::int64_t replica = devices_of_a_replica(l);
  const bool fits = replica > 0 && devices % replica == 0 && (l.data == 0 || l.data == devices / replica);
  if (!fits) return degrees_text(l) + " does not make " + text(devices) + " devices";
  l.data = devices / replica;
  return {};
}

// Empty, or why experts cannot be spread so.
std::string fill_experts(Layout& l) {
  if (l.expert_tensor == l.tensor) l.expert_tensor = 0;
  if (l.expert == 1 && !l.whole_experts()) return {};
  if (l.whole_experts() && !neighbours_hold_a_stage(l))
    return "etp=1 spreads experts over neighbouring ranks, which here do not hold the same stage: order=tp-cp-dp-pp";
  if (l.whole_experts() && l.data * l.context == 1 && l.expert < l.tensor)
    return "etp=1 with ep=" + text(l.expert) +
           ": what is repeated over the tensor group alone is not modelled; ep=" + text(l.tensor) +
           " spreads the experts over all of it";
  if (l.expert_ranks() % l.expert == 0) return {};
  std::string over = l.whole_experts() ? "tp " + text(l.tensor) + " x " : std::string();
  if (l.expert_ranks() != l.data && l.context > 1) over += "cp " + text(l.context) + " x ";
  const bool helps =
      l.tensor > 1 && !l.whole_experts() && neighbours_hold_a_stage(l) && (l.expert_ranks() * l.tensor) % l.expert == 0;
  return "ep " + text(l.expert) + " does not divide " + over + "dp " + text(l.data) +
         ", the ranks over which experts are spread" +
         (helps ? "; etp=1 keeps experts whole and spreads them over tp, too" : "");
}

// Empty, or why ZeRO cannot divide within groups. A group of all is none.
std::string fill_shard(Layout& l) {
  if (!l.overlap_gather && l.unit_choices.empty() && !gathers_updates(l.zero))
    return "overlap_gather= says when zero=1 and 2 gather updated parameters, and zero is " + text(l.zero);
  if (!l.overlap_gather && !l.unit_choices.empty() &&
      std::ranges::none_of(l.unit_choices, gathers_updates, &UnitChoice::zero))
    return "overlap_gather= says when zero=1 and 2 gather updated parameters, which no unit chooses";
  if (l.whole_tensors && l.zero != 1)
    return "whole_tensors= says how zero=1 divides, and " +
           (l.unit_choices.empty() ? "zero is " + text(l.zero) : std::string("units choose for themselves"));
  if (l.whole_tensors && l.expert > 1)
    return "whole tensors (whole_tensors=on) are dealt among ranks that hold the same experts (ep=1)";
  if (l.whole_tensors && l.offloads(Offloaded::optimizer))
    return "offload=optimizer leaves equal parts with the hosts, and whole_tensors=on divides the state unequally";
  if (l.shard == 0) return {};
  if (l.zero == 0) return "shard= says over how many ranks ZeRO divides, and zero=0 divides nothing";
  if (l.shard == shard_of_machine) return "shard=machine is known on a cluster only";
  if (l.expert > 1 || l.whole_experts())
    return "ZeRO within groups (shard=) goes with experts on every device only (ep=1), divided like the other layers";
  if (l.data % l.shard != 0) return "shard " + text(l.shard) + " does not divide dp " + text(l.data);
  if (l.shard == 1 && l.data > 1)
    return "shard=1 divides nothing: a group has one data-parallel rank; leave zero and shard out";
  if (l.shard == l.data) l.shard = 0;
  return {};
}

// Empty, or why ZeRO's stage 3 cannot do what ZeRO++ adds to it. A group of all is none.
std::string fill_beyond_zero(Layout& l) {
  if (!beyond_zero(l)) return {};
  const std::string said(beyond_zero_text(l));
  if (l.zero != 3) return said + " changes how zero=3 gathers and sums, and zero is " + text(l.zero);
  if (l.expert > 1 || l.whole_experts())
    return said + " goes with experts on every device only (ep=1), divided like the other layers";
  if (l.offloads(Offloaded::parameters))
    return said + " is for parameters that are divided among the devices, and offload= leaves them with the host";
  if (l.shard > 0) return said + " goes with ZeRO over all replicas, and shard= divides within groups of them";
  if (l.backward_shard == 0) return {};
  if (l.backward_shard == shard_of_machine) return "hpz=machine is known on a cluster only";
  if (l.backward_shard * l.context == 1 && l.data > 1)
    return "hpz=1 would keep whole parameters for the backward pass, which is zero=2";
  if (l.data % l.backward_shard != 0) return "hpz " + text(l.backward_shard) + " does not divide dp " + text(l.data);
  if (l.backward_shard == l.data) l.backward_shard = 0;
  return {};
}

// Empty, or why the global batch does not divide. Fills in the micro-batch.
std::string fill_micro_batch(Layout& l, double global_batch) {
  if (!(global_batch >= 1) || global_batch != std::floor(global_batch) || global_batch > 1e15)
    return "a global batch is a whole number of samples";
  const auto batch = static_cast<std::int64_t>(global_batch);
  if (batch % l.data != 0)
    return "a global batch of " + text(batch) + " does not divide into " + text(l.data) + " data-parallel parts";
  const std::int64_t share = batch / l.data;
  if (l.micro_batch == 0) l.micro_batch = share;
  if (share % l.micro_batch != 0)
    return "the " + text(share) + " samples of each data-parallel part do not divide into micro-batches of " +
           text(l.micro_batch);
  return {};
}

// Empty, or why the tensor scheme does not work. Fills it in.
std::string fill_scheme(Layout& l) {
  if (l.scheme == nullptr) l.scheme = tensor_scheme("1d");
  const Answer<TensorGrid> grid = l.scheme->grid(l.tensor, l.depth);
  if (!grid) return grid.reason();
  if (l.sequence_parallel && l.scheme->name != "1d")
    return "sequence parallelism belongs to the 1-D scheme; " + std::string(l.scheme->name) +
           " divides activations by itself";
  if (l.overlap_tensor != TensorOverlap::nothing && l.scheme->name != "1d")
    return "overlap_tp belongs to the 1-D scheme; " + std::string(l.scheme->name) + " has no sums to hide";
  if (l.overlap_tensor == TensorOverlap::products && (l.tensor > 1 || !l.unit_choices.empty()) && !l.sequence_parallel)
    return "overlap_tp=products sends parts of the sequence beside products, which sp=on divides";
  return {};
}

// Empty, or why the pipeline schedule does not work. Fills it in.
std::string fill_schedule(Layout& l, double global_batch) {
  if (l.schedule == nullptr) l.schedule = pipeline_schedule(l.chunks > 1 ? "interleaved" : "1f1b");
  if (l.overlap_tensor != TensorOverlap::nothing && l.tensor > 1 && delays_weight_gradients(*l.schedule))
    return std::string(l.schedule->name) + " delays the weight gradients beside which overlap_tp runs";
  if (l.overlap_expert && !pairs_passes(*l.schedule))
    return std::string(l.schedule->name) +
           " runs no forward pass behind a whole backward pass, beside which overlap_ep=on sends";
  if (l.chunks > 1 && l.pipeline == 1) return "chunks are parts of the stages of a pipeline (pp=2 or more)";
  if (l.pipeline * l.chunks > 1'000'000) return "more than a million pipeline stages";
  const std::int64_t count = micro_batches(l, global_batch);
  if (count > 100'000'000) return "more than a hundred million micro-batches";
  const PipelineShape shape = pipeline_shape(*l.schedule, static_cast<std::uint32_t>(l.pipeline),
                                             static_cast<std::uint32_t>(l.chunks), static_cast<std::uint32_t>(count));
  if (std::string why = l.schedule->unsuitable(shape); !why.empty()) return std::string(l.schedule->name) + ": " + why;
  if (!l.stage_units.empty() && l.stage_units.size() != static_cast<std::size_t>(l.pipeline * l.chunks))
    return "stages= names " + std::to_string(l.stage_units.size()) + " stages, the pipeline has " +
           text(l.pipeline * l.chunks);
  return {};
}

}  // namespace

Answer<Layout> resolved(Layout layout, std::int64_t devices, double global_batch) {
  std::string why = number_flaw(layout);
  if (why.empty()) why = fill_choices(layout, devices);
  if (why.empty()) why = fill_degrees(layout, devices);
  if (why.empty()) why = fill_experts(layout);
  if (why.empty()) why = fill_shard(layout);
  if (why.empty()) why = fill_beyond_zero(layout);
  if (why.empty()) why = fill_micro_batch(layout, global_batch);
  if (why.empty()) why = division_of_samples(layout);
  if (why.empty()) why = fill_scheme(layout);
  if (why.empty()) why = fill_schedule(layout, global_batch);
  if (!why.empty()) return Inapplicable{std::move(why)};
  return layout;
}

std::vector<std::int64_t> micro_batch_choices(Layout layout, std::int64_t devices, double global_batch) {
  const bool works = layout.micro_batch == 0 && number_flaw(layout).empty() && fill_choices(layout, devices).empty() &&
                     fill_degrees(layout, devices).empty() && fill_micro_batch(layout, global_batch).empty();
  if (!works) return {};
  const std::int64_t samples = layout.micro_batch;
  std::vector<std::int64_t> most, least;
  for (std::int64_t parts = 1; parts <= samples / parts; ++parts) {
    if (samples % parts != 0) continue;
    most.push_back(samples / parts);
    if (parts != samples / parts) least.push_back(parts);
  }
  most.insert(most.end(), least.rbegin(), least.rend());
  std::erase_if(most, [&](std::int64_t micro_batch) {
    layout.micro_batch = micro_batch;
    return !division_of_samples(layout).empty();
  });
  return most;
}

std::int64_t micro_batches(const Layout& layout, double global_batch) {
  return std::llround(global_batch / static_cast<double>(layout.data * layout.micro_batch));
}

}  // namespace stepcast
