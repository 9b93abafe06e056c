// Described workloads: the units of a model shape, and what a roofline says that one of them costs under a split.
//
// Every operator gets the extents that one device works on: its share of the micro-batch's rows, columns, heads or
// bytes; unit_roofline.hpp has the times.
#include <stepcast/profile/training_memory.hpp>
#include <stepcast/roofline/unit_roofline.hpp>
#include <stepcast/workload/unit_cost.hpp>
#include <stepcast/workload/workload.hpp>

#include <algorithm>
#include <cmath>

namespace stepcast {
namespace {

/// A unit under a split, on one device.
class DividedUnit {
 public:
  DividedUnit(const Workload& workload, std::uint32_t kind, const Split& split)
      : device_(*workload.device),
        dtype_(workload.dtype),
        shape_(*workload.shape),
        unit_(*workload.kinds[kind].shape),
        split_(split),
        is_end_(kind == 0 || kind + 1 == workload.kinds.size()) {}

  [[nodiscard]] UnitCost cost() const {
    UnitCost c;
    UnitTimes times, of_experts;
    for (const OperatorShape& o : unit_.operators) {
      times.add(device_, dtype_, o, local_work(o));
      if (o.expert && split_.expert > 1) of_experts.add(device_, dtype_, o, local_work(o));
    }
    c.experts_forward = of_experts.forward.device();
    c.experts_input_gradient = of_experts.input_gradient.device();
    c.experts_weight_gradient = of_experts.weight_gradient.device();
    if (split_.context > 1 && attends() && split_.context_exchange == ContextExchange::ring) add_merges(times);
    if (split_.grid.devices > 1) add_tensor_transfers(c);
    add_rearranged_tokens(c, times);
    c.forward = times.forward.elapsed(device_);
    if (!device_.on_host) {
      c.forward_issue = times.forward.host(device_);
      c.backward_issue = times.input_gradient.host(device_) + times.weight_gradient.host(device_);
    }
    c.waits_forward = counts_tokens();
    add_backward(times, c);
    c.paced = (times.forward.paced_by_host(device_) ? c.forward : Seconds(0)) +
              (times.backward().paced_by_host(device_) ? c.input_gradient + c.weight_gradient : Seconds(0));
    c.forward_idle = c.forward - times.forward.busy(device_);
    c.backward_idle = times.backward().elapsed(device_) - times.backward().busy(device_);
    // Megatron-LM and DeepSpeed checkpoint the blocks.
    c.checkpointed = shape_.units.size() < 3 || !is_end_;
    c.attention = std::min(times.attention.elapsed(device_), c.forward);
    c.operators = c.checkpointed ? std::min(times.operators.elapsed(device_), c.forward) : Seconds(0);
    c.unread = c.checkpointed ? c.forward - times.forward.without(times.unread).elapsed(device_) : Seconds(0);
    c.attention_backward = std::min(times.attention_backward.elapsed(device_), c.input_gradient);
    add_parameters(c);
    add_activations(c);
    add_transfers(c);
    add_launched_messages(c);
    return c;
  }

 private:
  [[nodiscard]] double tensor() const { return double(split_.grid.devices); }
  [[nodiscard]] bool one_dimensional() const { return split_.scheme == nullptr || split_.scheme->name == "1d"; }
  /// Of the rows that one device of the tensor group works on where 1-D repeats them all.
  [[nodiscard]] double repeated_share() const {
    if (split_.sequence_parallel) return 1 / tensor();
    return one_dimensional() ? 1 : split_.scheme->activation_share(split_.grid);
  }
  /// Share of an operator's rows or bytes apart from samples and context.
  [[nodiscard]] double share(Division division) const {
    switch (division) {
      case Division::columns:
      case Division::rows:
      case Division::heads:
      case Division::elements:
        return 1 / tensor();
      case Division::sequence:
        return repeated_share();
      case Division::none:
        return one_dimensional() ? 1 : repeated_share();
    }
    return 1;
  }

  [[nodiscard]] LocalWork local_work(const OperatorShape& o) const {
    const double pairs = split_.micro_batch * double(shape_.heads) / tensor();
    LocalWork work = work_of(o, split_.micro_batch).for_pairs(o, pairs);
    const double context = double(split_.context);
    work.traffic *= share(o.division) / context;
    if (o.expert) work.steps = std::max(1.0, work.steps / double(split_.expert));
    if (o.product.m == 0) return work;
    MatrixProduct& p = work.product;
    if (o.weighted) {
      // Experts are spread over the group, and get the tokens of all of its devices.
      // Of whole experts each device of the tensor group has its part of the tokens.
      double spread = o.expert ? double(split_.expert) : 1;
      p.batch /= spread;
      if (o.expert && split_.whole_experts) spread /= tensor();
      p.m *= spread / context;
      p.repeated *= spread / context;
    } else if (split_.context_exchange == ContextExchange::all_to_all) {
      p.batch /= context;  // whole sequences of a part of the heads
    } else if (split_.context_exchange == ContextExchange::all_gather) {
      p.m /= context;
      p.repeated /= context;
    } else {
      // Ring attention: a device's block of queries meets one block of keys and values after the other.
      work.steps = context;
      p.batch *= context;
      p.m /= context;
      (p.n == double(shape_.sequence) ? p.n : p.k) /= context;
      p.repeated /= context * context;
    }
    if (is_divided(o)) p = share_of(p, o.division);
    return work;
  }

  /// Whether tensor parallelism divides what it does.
  [[nodiscard]] bool is_divided(const OperatorShape& o) const {
    return split_.grid.devices > 1 && !(o.expert && split_.whole_experts);
  }
  /// Its product with what one device holds of its weight.
  [[nodiscard]] MatrixProduct weight_product(const OperatorShape& o) const {
    return is_divided(o) ? share_of(o.product, o.division) : o.product;
  }

  /// What one device of the tensor group computes of a product.
  [[nodiscard]] MatrixProduct share_of(MatrixProduct p, Division division) const {
    if (!one_dimensional()) return split_.scheme->local_product(split_.grid, p, division);
    if (division == Division::columns) p.n /= tensor();
    if (division == Division::rows) p.k /= tensor();
    if (division == Division::heads) p.batch /= tensor();
    if (division == Division::sequence) p.m *= repeated_share();
    return p;
  }

  [[nodiscard]] bool attends() const {
    return std::any_of(unit_.operators.begin(), unit_.operators.end(),
                       [](const OperatorShape& o) { return o.attention; });
  }

  /// Ring attention adds the results of one block of keys after the other: what is there is scaled by the new maximum
  /// of the softmax and written again in 4-byte numbers (Liu et al. 2023, arXiv 2310.01889, algorithm 1; backward the
  /// gradients of queries, keys and values). Keys and values are first copied into one buffer, and each exchange of the
  /// ring is a kernel that the host launches.
  void add_merges(UnitTimes& times) const {
    const double rows = split_.micro_batch * double(shape_.sequence) / double(split_.context) / tensor();
    const double queries = rows * double(shape_.heads * shape_.head_size);
    const double keys = rows * double(shape_.kv_heads) * double(shape_.head_size);
    const double blocks = double(split_.context - 1), of_element = 4 + 4 + size_of(dtype_);
    const double copied = 2 * 2 * keys * size_of(dtype_);
    const auto add = [&](PassTime& pass, double elements, double exchanges) {
      pass.memory += memory_time(device_, Bytes(blocks * of_element * elements), blocks);
      pass.memory += memory_time(device_, Bytes(copied), 1);
      pass.kernels += blocks + 1 + exchanges;
    };
    add(times.forward, queries, blocks);
    add(times.attention, queries, blocks);
    add(times.input_gradient, queries + 2 * keys, blocks + 1);
  }

  /// PyTorch gathers and scatters the first extent of a tensor. Tokens are the second one: behind a gather the parts of
  /// each sample are put together, unless there is one sample, and before a scatter they are taken apart
  /// (torch/distributed/_functional_collectives.py of PyTorch 2.11: all_gather_tensor, reduce_scatter_tensor).
  /// Megatron-LM has tokens first. Beside products (torch/distributed/_symmetric_memory) what is gathered comes to its
  /// place, and what is scattered is read once more to be added up.
  void add_rearranged_tokens(const UnitCost& c, UnitTimes& times) const {
    if (!is_pytorch(shape_.kernels) || !split_.sequence_parallel || !one_dimensional()) return;
    const bool beside = pipelines();
    const auto add = [&](PassTime& pass, const std::vector<TensorTransfer>& sums, double gathers, double scatters) {
      for (const TensorTransfer& sum : sums) {
        double passes = 0;  // over the whole tensor
        if (sum.operation == Operation::all_gather && split_.micro_batch > 1) passes = gathers;
        if (sum.operation == Operation::reduce_scatter) passes = scatters;
        if (passes == 0) continue;
        pass.memory += sum.count * memory_time(device_, passes * sum.size, 1);
        pass.kernels += sum.count;
      }
    };
    add(times.forward, c.forward_tensor, beside ? 0 : 2, beside ? 1 : 2);
    add(times.unread, c.unread_tensor, 0, beside ? 1 : 2);
    add(times.operators, c.forward_tensor, 2, 0);  // what was scattered is kept
    add(times.input_gradient, c.backward_tensor, 2, 2);
  }

  /// Experts of Megatron-LM are given their tokens by counts on the host (megatron/core/transformer/moe/
  /// token_dispatcher.py), and so is every exchange between devices; PyTorch's grouped products read them on the
  /// device.
  [[nodiscard]] bool counts_tokens() const {
    if (shape_.launch == KernelLaunch::graphs) return false;
    const bool here = !is_pytorch(shape_.kernels) || split_.expert > 1;
    return here && std::ranges::any_of(unit_.operators, [](const OperatorShape& o) { return o.expert; });
  }

  /// Each collective is a kernel that the host launches, too; those of a ring are counted with its merges.
  void add_launched_messages(UnitCost& c) const {
    if (device_.on_host) return;
    const auto launched = [&](std::initializer_list<const std::vector<TensorTransfer>*> all) {
      double count = 0;
      for (const auto* transfers : all)
        for (const TensorTransfer& t : *transfers) count += t.members > 1 ? t.count : 0;
      return device_.issue * count;
    };
    c.forward_issue += launched({&c.forward_tensor, &c.context_first_forward, &c.expert_transfers});
    c.backward_issue += launched({&c.backward_tensor, &c.context_first_backward, &c.expert_transfers});
  }

  void add_parameters(UnitCost& c) const {
    const double share = one_dimensional() ? 1 / tensor() : split_.scheme->parameter_share(split_.grid);
    c.expert_parameters = unit_.expert_parameters * (split_.whole_experts ? 1 : share) / double(split_.expert);
    c.parameters = unit_.divided_parameters * share + unit_.other_parameters + c.expert_parameters;
    c.tied_parameters = unit_.tied_parameters * share;
  }

  /// Host and device work on both gradients of a unit together, so that the larger of their sums counts.
  void add_backward(const UnitTimes& times, UnitCost& c) const {
    const PassTime both = times.backward();
    // What a module takes there more, of the larger sum.
    for (std::size_t m = 0; m < recomputed_module_count; ++m) {
      PassTime longer = both;
      longer.matrix += times.modules[m].matrix;
      longer.memory += times.modules[m].memory;
      longer.kernels += times.modules[m].kernels;
      c.modules[m] = longer.elapsed(device_) - both.elapsed(device_);
    }
    const Seconds input = times.input_gradient.elapsed(device_), weight = times.weight_gradient.elapsed(device_);
    const double scale = input + weight > Seconds(0) ? both.elapsed(device_) / (input + weight) : 0;
    c.input_gradient = input * scale;
    c.weight_gradient = weight * scale;
  }

  void add_activations(UnitCost& c) const {
    const double samples = split_.micro_batch / double(split_.context);
    const double divided = samples / tensor(), sequence = samples * repeated_share();
    const KeptActivations& k = unit_.kept;
    const Bytes gathered = k.gathered + (split_.whole_experts ? Bytes(0) : k.gathered_by_experts);
    const Bytes repeated = k.sequence * sequence + gathered * (one_dimensional() ? samples - sequence : 0);
    c.kept[std::size_t(Recomputation::none)] = k.divided * divided + repeated;
    c.kept[std::size_t(Recomputation::selective)] = (k.divided - k.attention) * divided + repeated;
    c.kept[std::size_t(Recomputation::full)] =
        c.checkpointed ? k.input * sequence : c.kept[std::size_t(Recomputation::none)];
    c.kept[std::size_t(Recomputation::operators)] =
        c.checkpointed ? k.results_divided * divided + (k.results_sequence + k.input) * sequence
                       : c.kept[std::size_t(Recomputation::none)];
    c.kept[std::size_t(Recomputation::modules)] = c.kept[std::size_t(Recomputation::none)];
    for (std::size_t m = 0; m < recomputed_module_count; ++m)
      c.of_module[m] = k.of_module[m].divided * divided + k.of_module[m].sequence * sequence;
    c.working = c.kept[std::size_t(Recomputation::none)] + unit_.transient * divided + k.input * sequence;
    const GradientsBeside beside =
        gradients_beside(shape_, unit_, [&](const OperatorShape& o) { return weight_product(o); });
    c.gradient_at_work = beside.at_work, c.standing_gradient = beside.standing;
    c.boundary = unit_.boundary * sequence;
  }

  void add_transfers(UnitCost& c) const {
    const double samples = split_.micro_batch / double(split_.context);
    if (split_.context > 1 && attends()) add_context_exchange(c);
    if (split_.expert > 1 && unit_.expert_exchanges > 0) {
      const Bytes tokens = unit_.boundary * (samples * double(shape_.experts_per_token) * repeated_share());
      c.expert_transfers.push_back({Operation::all_to_all, split_.expert, tokens, double(unit_.expert_exchanges)});
    }
  }

  void add_context_exchange(UnitCost& c) const {
    const double tokens = double(shape_.sequence) * split_.micro_batch / double(split_.context) / tensor();
    const auto of = [&](std::int64_t heads) {
      return Bytes(tokens * double(heads * shape_.head_size) * size_of(dtype_));
    };
    const Bytes keys_and_values = 2 * of(shape_.kv_heads), queries = of(shape_.heads);
    const std::int64_t members = split_.context;
    switch (split_.context_exchange) {
      case ContextExchange::ring:
        add_ring(c, members, keys_and_values);
        return;
      case ContextExchange::all_gather: {
        // Backward they are gathered again, and their gradients of all queries added up.
        const Bytes whole = keys_and_values * double(members);
        c.working += whole * 2;  // and their gradients
        c.context_first_forward = {{Operation::all_gather, members, whole, 1}};
        c.context_first_backward = {{Operation::all_gather, members, whole, 1},
                                    {Operation::reduce_scatter, members, whole, 1}};
        return;
      }
      case ContextExchange::all_to_all:
        // Queries, keys, values and the result, each by itself; backward their gradients.
        c.context_first_forward = {{Operation::all_to_all, members, queries, 2},
                                   {Operation::all_to_all, members, of(shape_.kv_heads), 2}};
        c.context_first_backward = c.context_first_forward;
        return;
    }
  }

  /// Divided by columns: every device needs the whole input, and has a part of its gradient's sum.
  [[nodiscard]] bool enters(const OperatorShape& o) const {
    return o.weighted && o.division == Division::columns && !(o.expert && split_.whole_experts);
  }
  [[nodiscard]] Seconds weight_gradient(const OperatorShape& o) const {
    UnitTimes alone;
    alone.add(device_, dtype_, o, local_work(o));
    return alone.weight_gradient.device();
  }

  /// Frameworks take the products of the blocks apart, and not those of experts, which are many small ones. PyTorch's
  /// compiler looks for gathers before products and sums behind one (torch/_inductor/fx_passes/micro_pipeline_tp.py).
  /// In backward passes a sum is of several products, and waits (pytorch/pytorch#149946); so does the rest of them, as
  /// far as published gains tell: those of whole steps are no larger than those of their forward passes.
  [[nodiscard]] bool pipelines() const {
    return split_.pipelines_products && split_.sequence_parallel && one_dimensional() && !is_end_ &&
           !is_eager(shape_.kernels);
  }
  /// Its product of one pass, or what that takes for the gradients of its rows.
  [[nodiscard]] PipelinedProduct pipelined(const OperatorShape& o, Operation operation, Bytes size,
                                           bool backward) const {
    const auto time = [&](double parts) {
      LocalWork work = local_work(o);
      work.product.m /= parts;
      work.product.repeated /= parts;
      UnitTimes alone;
      alone.add(device_, dtype_, o, work);
      return (backward ? alone.input_gradient : alone.forward).device() * parts;
    };
    return {{operation, split_.grid.devices, size, 1}, time(1), time(tensor()), o.unread && !backward};
  }
  void add_pipelined_products(UnitCost& c, Bytes input, Bytes output) const {
    for (const OperatorShape& o : unit_.operators) {
      if (o.expert || !o.weighted) continue;
      if (o.division == Division::columns)
        c.forward_products.push_back(pipelined(o, Operation::all_gather, input, false));
      if (o.division != Division::rows) continue;
      c.forward_products.push_back(pipelined(o, Operation::reduce_scatter, output, false));
      if (!is_pytorch(shape_.kernels)) c.backward_products.push_back(pipelined(o, Operation::all_gather, output, true));
    }
  }

  /// 1-D: forward a sum after each product that is divided by rows, backward one before each that is divided by
  /// columns; the latter can run beside that product's weight gradient. With sequence parallelism a sum is a
  /// reduce-scatter, and the other end an all-gather.
  void add_tensor_transfers(UnitCost& c) const {
    const double samples = split_.micro_batch / double(split_.context);
    const Bytes input = unit_.kept.input * samples, output = unit_.boundary * samples;
    const double entries =
        double(std::count_if(unit_.operators.begin(), unit_.operators.end(), [&](const auto& o) { return enters(o); }));
    const double sums = unit_.tensor_reductions - (only_whole_experts() ? 1 : 0);
    if (!one_dimensional()) {
      const double h2 = double(shape_.hidden) * double(shape_.hidden), weights = divided_weights();
      // One product alone (the logits, the lookup) counts as one sum.
      const int reductions = entries >= 2 ? unit_.tensor_reductions : 1;
      const TensorWork work{input, Bytes(weights * size_of(dtype_)), weights / h2, reductions};
      c.forward_tensor = split_.scheme->forward(split_.grid, work);
      c.backward_tensor = split_.scheme->backward(split_.grid, work);
      return;
    }
    const auto add = [&](std::vector<TensorTransfer>& to, Operation operation, Bytes size, double count) {
      if (count > 0 && size.value() > 0) to.push_back({operation, split_.grid.devices, size, count});
    };
    const Operation of_inputs = split_.sequence_parallel ? Operation::reduce_scatter : Operation::all_reduce;
    for (const OperatorShape& o : unit_.operators)
      if (enters(o) && input.value() > 0 && !is_pytorch(shape_.kernels))  // PyTorch waits for them
        c.input_sums.push_back({{of_inputs, split_.grid.devices, input, 1}, weight_gradient(o)});
    const bool head = sums > entries && entries > 0;  // its sums are of losses, which nothing divides
    if (!split_.sequence_parallel || head) add(c.forward_tensor, Operation::all_reduce, output, sums);
    add(c.unread_tensor, of_inputs, output, unread_sums());
    if (!split_.sequence_parallel) {
      add(c.backward_tensor, Operation::all_reduce, input, entries);
      return;
    }
    add(c.forward_tensor, Operation::all_gather, input, entries);
    if (!head) add(c.forward_tensor, Operation::reduce_scatter, output, sums);
    if (!head) add(c.backward_tensor, Operation::all_gather, output, sums);
    add(c.backward_tensor, Operation::reduce_scatter, input, entries);
    if (pipelines()) add_pipelined_products(c, input, output);
  }

  /// Of the sums those that full recomputation leaves out: of the MLP's results, which nothing reads either.
  [[nodiscard]] double unread_sums() const {
    const bool unread = std::ranges::any_of(unit_.operators, [](const OperatorShape& o) { return o.unread; });
    return unread && !only_whole_experts() ? 1 : 0;
  }
  /// The tensor group divides nothing of the MLP.
  [[nodiscard]] bool only_whole_experts() const {
    const auto leaves = [](const OperatorShape& o) { return o.weighted && o.division == Division::rows; };
    const auto count = [&](bool experts) {
      return std::count_if(unit_.operators.begin(), unit_.operators.end(),
                           [&](const OperatorShape& o) { return leaves(o) && o.expert == experts; });
    };
    return split_.whole_experts && count(true) > 0 && count(false) < unit_.tensor_reductions;
  }

  /// Elements of the weights that the tensor group divides, on this device's share of the experts.
  [[nodiscard]] double divided_weights() const {
    double sum = 0;
    for (const OperatorShape& o : unit_.operators)
      if (o.weighted && (o.division == Division::columns || o.division == Division::rows))
        sum += o.product.batch * o.product.n * o.product.k / (o.expert ? double(split_.expert) : 1);
    return sum;
  }

  const Device& device_;
  DataType dtype_;
  const ModelShape& shape_;
  const UnitShape& unit_;
  const Split& split_;
  bool is_end_;  ///< embedding or head
};

std::string whole_number_flaw(std::string_view what, std::int64_t number, std::int64_t parts, std::string_view by) {
  if (number % parts == 0) return {};
  return std::to_string(number) + " " + std::string(what) + " do not divide by " + std::string(by) + " " +
         std::to_string(parts);
}

/// Why the split does not work for the model; empty: it does.
std::string flaw_of(const ModelShape& shape, const Split& split) {
  const std::int64_t t = split.grid.devices;
  if (shape.heads == 0) {
    if (t > 1) return "tensor parallelism divides matrix products of transformers, not convolutions";
    if (split.sequence_parallel || split.context > 1) return "a convolutional network has no sequence to divide";
  } else {
    const bool grid = split.scheme != nullptr && split.scheme->name != "1d";
    const std::int64_t parts = grid ? split.grid.side : t;
    for (const std::string& flaw : {whole_number_flaw("heads", shape.heads, parts, "tensor degree"),
                                    whole_number_flaw("heads of keys", shape.kv_heads, parts, "tensor degree"),
                                    whole_number_flaw("hidden elements", shape.hidden, t, "tensor degree"),
                                    whole_number_flaw("tokens", shape.sequence, split.context, "context degree")})
      if (!flaw.empty()) return flaw;
    if (split.context > 1 && !has_fused_attention(shape))
      return "context parallelism divides the tokens of fused attention only, in every framework: attention=flash in "
             "the model";
    if (split.context > 1 && split.context_exchange == ContextExchange::all_to_all)
      for (const std::string& flaw :
           {whole_number_flaw("heads", shape.heads, t * split.context, "tensor x context degree (cp_comm=a2a)"),
            whole_number_flaw("heads of keys", shape.kv_heads, t * split.context,
                              "tensor x context degree (cp_comm=a2a)")})
        if (!flaw.empty()) return flaw;
    if (split.sequence_parallel) {
      if (grid) return "sequence parallelism belongs to the 1d scheme";
      if (const auto flaw = whole_number_flaw("tokens", shape.sequence, t * split.context, "tensor x context degree");
          !flaw.empty())
        return flaw;
    }
  }
  if (split.expert > 1 && shape.experts == 0) return "the model has no experts to spread";
  if (split.whole_experts && shape.experts == 0) return "the model has no experts to keep whole (etp=1)";
  if (split.expert > 1) return whole_number_flaw("experts", shape.experts, split.expert, "expert degree");
  return {};
}

/// Which kernel of fused attention the times are of, where that is not what was asked for, or where PyTorch's own is
/// known to be slower than what nobody named.
std::string assumed_attention(const ModelShape& shape, const Device& device) {
  if (!has_fused_attention(shape)) return {};
  const double own = device.attention_forward;
  if (const auto kernel = attention_kernel(shape)) {
    if (device.attention_kernels[static_cast<std::size_t>(*kernel)].forward > 0) return {};
    return "attention: what " + std::string(name_of(*kernel)) + " reaches on " + device.name +
           " is not known; it is taken for what attention=flash stands for there";
  }
  const double pytorch = attention_rate(device, AttentionKernel::flash2).forward;
  if (pytorch == own) return {};
  const auto percent = [](double share) { return std::to_string(std::lround(100 * share)) + " %"; };
  if (pytorch > own)
    return "attention: " + percent(own) +
           " of the peak, that of the steps behind this device; FlashAttention 2, which "
           "frameworks run today, reaches " +
           percent(pytorch) + " (attention=flash2 in the model)";
  return "attention: " + percent(own) + " of the peak; PyTorch's own (FlashAttention 2) reaches " + percent(pytorch) +
         " (attention=flash2 in the model)";
}

UnitKind kind_of(const UnitShape& unit) {
  UnitKind kind;
  kind.name = unit.name;
  kind.shape = unit;
  kind.divided_parameters = unit.divided_parameters;
  kind.other_parameters = unit.other_parameters;
  kind.expert_parameters = unit.expert_parameters;
  kind.tied_parameters = unit.tied_parameters;
  kind.kept = unit.kept;
  kind.boundary = unit.boundary;
  kind.tensor_reductions = unit.tensor_reductions;
  kind.expert_exchanges = unit.expert_exchanges;
  return kind;
}

/// What PyTorch holds of each parameter where it keeps no short weights beside whole ones (layout_memory.hpp).
std::string held_by_pytorch(const Workload& w) {
  if (!holds_whole_weights(w.shape->kernels) || w.bytes_of_weight >= 4) return {};
  const double held = with_whole_weights({w.bytes_of_weight, w.bytes_of_gradient, w.bytes_of_state}).state;
  return " (" + std::to_string(std::lround(held)) +
         " where whole weights are all that is held: by fully_shard with zero=3, by DistributedDataParallel with "
         "autocast's casts beside them)";
}

}  // namespace

Workload workload_of(const ModelShape& shape, const Device& device) {
  Workload w;
  w.name = shape.name;
  w.shape = shape;
  w.device = driven_by(device, shape.launch);
  w.dtype = shape.dtype;
  w.sequence = double(shape.sequence);
  w.hidden = double(shape.hidden);
  w.experts_per_token = double(std::max<std::int64_t>(1, shape.experts_per_token));
  for (const UnitShape& unit : shape.units) {
    w.units.insert(w.units.end(), std::size_t(unit.repetitions), std::uint32_t(w.kinds.size()));
    w.kinds.push_back(kind_of(unit));
  }
  const UpdateShape update = update_of(shape);
  w.bytes_of_weight = size_of(shape.dtype), w.bytes_of_gradient = size_of(shape.gradient_dtype);
  w.bytes_of_state = update.bytes_of_state;
  w.update = update.time(device, shape.dtype).device();
  const GradientPasses passes = gradient_passes(shape);
  if (passes.always > Bytes(0)) w.gradient_passes = memory_time(device, passes.always);
  if (passes.with_ranks > Bytes(0)) w.gradient_scaling = memory_time(device, passes.with_ranks);
  w.host_waits = !device.on_host && (waits_for_device(shape.kernels) || w.device->launch_blocking);
  w.relative_error = known_error(device, shape);
  w.rates = rates_of(device, shape);
  w.activations_known = true;
  w.assumed.push_back(source_of_times(device));
  w.assumed.push_back("optimizer: " + update.optimizer + ", " + std::to_string(std::lround(update.bytes_of_state)) +
                      " bytes a parameter" + held_by_pytorch(w) +
                      (size_of(shape.gradient_dtype) == size_of(shape.dtype)
                           ? (shape.kernels == KernelSet::deepspeed && shape.dtype == DataType::bf16
                                  ? ", gradients in bf16, DeepSpeed's default (gradients=f32 says otherwise)"
                                  : "")
                           : ", gradients in " + std::string(name_of(shape.gradient_dtype)) +
                                 " (gradients=" + std::string(name_of(shape.dtype)) + " says otherwise)"));
  if (const std::optional<DataType> linear = linear_type(shape))
    w.assumed.push_back("linear layers multiply in " + std::string(name_of(*linear)) +
                        ": casts of inputs, gradients and, once a step, of weights are counted; no copy of weights is "
                        "kept, and they travel as they are held");
  if (shape.experts > 0)
    w.assumed.push_back(
        std::string("experts: tokens are dealt evenly, each goes to the device of each of its experts (a copy for "
                    "each, with ep_comm=deepep one for each machine), and ") +
        (!is_pytorch(shape.kernels)
             ? "the products of each expert are kernels of their own (Transformer Engine's grouped layer)"
             : "the products of all experts are one kernel (PyTorch's grouped products)"));
  if (shape.optimizer == Optimizer::muon)
    w.assumed.push_back("Muon: gathering the matrices that ZeRO or tensor parallelism divide is not counted");
  if (is_pytorch(shape.kernels))
    w.assumed.push_back(std::string("kernels: PyTorch's, ") +
                        (shape.kernels == KernelSet::compiled    ? "each block compiled"
                         : shape.kernels == KernelSet::deepspeed ? "eager, over DeepSpeed's two-byte weights"
                                                                 : "eager") +
                        (is_eager(shape.kernels) && shape.loss == KernelSet::compiled ? ", the loss compiled" : "") +
                        " (kernels=... in the model says otherwise)");
  if (shape.loss_chunks > 1)
    w.assumed.push_back("loss_chunks=" + std::to_string(shape.loss_chunks) +
                        ": logits and loss of so many parts of the sequence one after the other");
  if (shape.documents > 0)
    w.assumed.push_back(
        "documents=" + std::to_string(shape.documents) +
        ": attention keeps to documents, in which a token finds so many on average, alike in all samples: replicas "
        "whose samples have longer ones than the others' are not modelled");
  if (shape.launch == KernelLaunch::graphs)
    w.assumed.push_back(std::string("launch=graphs: ") +
                        (device.on_host ? "nothing is recorded for a processor, which computes what it launches"
                                        : "the passes of a step are recorded once and launched as a CUDA graph, whose "
                                          "own memory is not counted") +
                        (!device.on_host && shape.experts > 0
                             ? "; how many tokens go to each expert is known on the device alone"
                             : ""));
  if (shape.launch == KernelLaunch::blocking)
    w.assumed.emplace_back(
        "launch=blocking: the host waits for every kernel before it launches the next (CUDA_LAUNCH_BLOCKING=1 in the "
        "environment, for debugging)");
  if (std::string line = assumed_attention(shape, device); !line.empty()) w.assumed.push_back(std::move(line));
  return w;
}

Answer<UnitCost> described_unit_cost(const Workload& workload, std::uint32_t kind, const Split& split) {
  if (const std::string flaw = flaw_of(*workload.shape, split); !flaw.empty()) return Inapplicable{flaw};
  return DividedUnit(workload, kind, split).cost();
}

}  // namespace stepcast
