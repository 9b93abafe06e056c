// PyTorch: DistributedDataParallel, FSDP2's fully_shard and torch.distributed.pipelining.
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/launch/frameworks.hpp>
#include <stepcast/prediction/recommend.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace stepcast {
namespace {

/// Checkpoint wrappers are of single modules.
std::string why_not_together(const Layout& l) {
  if (l.recomputation == Recomputation::operators)
    return "which operators are done again (recompute=op) says a policy of the model's own "
           "(torch.utils.checkpoint.create_selective_checkpoint_contexts)";
  if (std::string why = modules_alone(l); !why.empty()) return why;
  if (l.recomputed_together == 1) return {};
  return "blocks that are done again together (recompute_group=) need the model's own forward "
         "(torch.utils.checkpoint.checkpoint_sequential)";
}

/// Why FSDP's policy is not for what is offloaded; empty: it is, or nothing is.
std::string why_not_offloaded(const Layout& l) {
  if (l.offloads(Offloaded::activations))
    return "PyTorch's own offloading of activations (save_on_cpu) waits for every copy, beside nothing";
  if (l.offloaded != 0 && !l.offloads(Offloaded::parameters))
    return "what it leaves to the host are parameters and gradients with the optimizer (zero=3, offload=parameters)";
  return {};
}

/// Why neither wrapper of a whole model can run it; empty: they can.
std::string beyond_data_parallel(const Layout& l) {
  if (l.tensor > 1)
    return "tensor parallelism needs a plan for the model's own modules (torch.distributed.tensor.parallel)";
  if (l.context > 1) return "context parallelism needs the model's own attention";
  if (l.pipeline > 1) return "a pipeline needs the model cut into stages (torch.distributed.pipelining)";
  if (l.expert > 1) return "experts are spread by the model's own modules";
  return why_not_together(l);
}

std::string recomputation_lines(const Layout& l) {
  if (l.recomputation == Recomputation::none) return {};
  const bool full = l.recomputation == Recomputation::full;
  if (l.recomputed_blocks > 0) {
    const std::string n = std::to_string(l.recomputed_blocks);
    return "again = set(blocks[:" + n + "])  # the first " + n + " blocks" + (l.pipeline > 1 ? " of each part" : "") +
           "\napply_activation_checkpointing(model, checkpoint_wrapper_fn=checkpoint_wrapper,\n"
           "    check_fn=lambda module: module in again)\n";
  }
  return "apply_activation_checkpointing(model, checkpoint_wrapper_fn=checkpoint_wrapper,\n"
         "    check_fn=lambda module: isinstance(module, " +
         std::string(full ? "Block" : "CoreAttention") + "))  # " +
         (full ? "the class of the model's blocks" : "the class of the core of attention: softmax(Q K) V") + "\n";
}

std::string_view torch_name(DataType type) {
  return type == DataType::bf16 ? "torch.bfloat16" : type == DataType::f16 ? "torch.float16" : "torch.float32";
}

/// The type in which gradients are summed. Of a traced job nothing is known but that it trains as it did.
std::string_view reduce_name(const Workload& w) {
  return w.bytes_of_gradient > 2 ? "torch.float32" : torch_name(w.dtype);
}

/// Whether the described model computes in half a word beside weights that the optimizer keeps whole.
bool mixed_precision(const Workload& w) { return w.shape && (w.dtype == DataType::bf16 || w.dtype == DataType::f16); }

/// What a device holds beyond what was predicted; empty: nothing.
std::string held_under_autocast(const LaunchInput& in) {
  const Bytes held = in.memory_under_autocast();
  if (held == Bytes(0)) return {};
  return text_of(held) + ": weights and gradients in float32, autocast's casts, buckets";
}
/// Why that does not fit; empty: it does, or that is not known.
std::string too_large_under_autocast(const LaunchInput& in) {
  if (in.device_memory == Bytes(0) || in.memory_under_autocast() <= in.device_memory) return {};
  return "it holds more than the " + text_of(in.device_memory) + " of a device, " + held_under_autocast(in);
}

std::string autocast(const Workload& w) {
  return "with torch.autocast(\"cuda\", dtype=" + std::string(torch_name(w.dtype)) + "):";
}

/// `casts`: the loss is computed under autocast, since no wrapper casts. Halves need their loss scaled, whoever casts
/// (fully_shard's gradients as well: PyTorch, distributed/tensor/_ops/_pointwise_ops.py).
std::string accumulation_lines(const LaunchInput& in, bool casts) {
  const std::string samples = counted(in.layout.micro_batch, "sample"), count = std::to_string(in.micro_batches);
  const std::string overlap = in.layout.overlap_gradients ? "" : "\n# no overlap was assumed";
  const bool scales = mixed_precision(in.workload) && in.workload.dtype == DataType::f16;
  const std::string loss = scales ? "scaler.scale(loss" : "(loss", backward = ").backward()";
  const std::string last =
      scales ? "\nscaler.step(optimizer), scaler.update()  # scaler = torch.amp.GradScaler()" : "\noptimizer.step()";
  if (in.micro_batches == 1 && !casts)
    return "# batches of " + samples + " a device" +
           (scales ? "\nscaler.scale(loss_of(model, batch)).backward()" : "") + overlap + (scales ? last : "");
  if (in.micro_batches == 1)
    return autocast(in.workload) + "  # batches of " + samples + " a device\n    loss = loss_of(model, batch)\n" +
           (scales ? "scaler.scale(loss).backward()" : "loss.backward()") + overlap + last;
  std::string text = "for i, batch in enumerate(micro_batches):  # " + count + " a step, of " + samples + " a device\n";
  // Whole gradients stay on every device until the last micro-batch; what is divided is reduced in every one.
  const bool divided = in.layout.zero >= 2;
  const std::string is_last = "(i == " + std::to_string(in.micro_batches - 1) + ")\n";
  std::string margin = "    ";
  if (in.layout.zero_in_passes() == 0) {
    text += margin + "with contextlib.nullcontext() if i == " + std::to_string(in.micro_batches - 1) +
            " else model.no_sync():\n";
    margin += "    ";
  }
  if (in.layout.zero_in_passes() == 1) text += margin + "model.set_requires_gradient_sync" + is_last;
  // Else it would gather the weights again in every micro-batch.
  if (in.layout.zero_in_passes() == 1 || in.layout.zero == 2)
    text += margin + "model.set_reshard_after_backward" + is_last;
  // HSDP: gradients are summed across the groups behind the last one.
  if (in.layout.shard > 0 && divided) text += margin + "model.set_requires_all_reduce" + is_last;
  if (casts) text += margin + autocast(in.workload) + "\n    ";
  text += margin + "loss = loss_of(model, batch)\n" + margin + loss + " / " + count + backward;
  return text + (divided ? "  # reduced every time: whole gradients would be held otherwise" : "") + overlap + last;
}

/// Why modules of units that choose for themselves cannot be wrapped one by one.
std::string why_not_units(const std::vector<UnitChoice>& choices) {
  const auto any = [&](auto test) { return std::any_of(choices.begin(), choices.end(), test); };
  if (any([](const UnitChoice& c) { return c.tensor > 1; }))
    return "tensor parallelism needs a plan for the model's own modules (torch.distributed.tensor.parallel)";
  if (any([](const UnitChoice& c) { return c.zero == 1; }))
    return "which modules sum their gradients once a step (zero1) says the training loop, module by module "
           "(set_requires_gradient_sync)";
  return {};
}

/// "MixedPrecisionPolicy(...)": what a wrapper is told of the precision; empty where nothing is mixed.
std::string policy_line(const Workload& w) {
  if (!mixed_precision(w)) return {};
  return "policy = MixedPrecisionPolicy(param_dtype=" + std::string(torch_name(w.dtype)) +
         ", reduce_dtype=" + std::string(reduce_name(w)) + ")\n";
}

/// Before the wrappers: what a described model's recipe puts in place of the linear layers of `module`.
std::string converted_linear_layers(const Workload& w, const std::string& module = "model") {
  return w.shape && linear_type(*w.shape) ? "convert_to_float8_training(" + module + ")  # torchao.float8\n" : "";
}

/// What compiles blocks and loss, of a described model that has them so.
std::string compilation_lines(const Workload& w, const std::string& blocks = "blocks") {
  if (!w.shape) return {};
  std::string text;
  if (w.shape->kernels == KernelSet::compiled) text += "for block in " + blocks + ":\n    block.compile()\n";
  if (w.shape->loss_chunks > 1)
    text += "# the model's head and loss in " + std::to_string(w.shape->loss_chunks) +
            " parts of the sequence, each with its backward pass\n";
  if (w.shape->documents > 0)
    text += "# attention within packed documents: FlexAttention's block masks, or flash_attn_varlen_func\n";
  if (w.shape->loss == KernelSet::compiled) text += "# and torch.compile what makes the loss of the logits\n";
  return text;
}

/// ZeRO by whole tensors around the model's optimizer.
std::string dealt_optimizer_lines(const LaunchInput& in) {
  const Layout& l = in.layout;
  const bool described = in.workload.shape && in.workload.shape->heads > 0;
  const Optimizer optimizer = described ? in.workload.shape->optimizer : Optimizer::adam;
  const std::string_view name = optimizer == Optimizer::adam8bit    ? "torchao.optim.AdamW8bit"
                                : optimizer == Optimizer::adafactor ? "torch.optim.Adafactor"
                                : optimizer == Optimizer::muon      ? "torch.optim.Muon"
                                : optimizer == Optimizer::sgd       ? "torch.optim.SGD"
                                : optimizer == Optimizer::lion      ? "Lion"
                                                                    : "torch.optim.AdamW";
  std::string text, group;
  if (l.shard > 0) {
    text = "mesh = init_device_mesh(\"cuda\", (" + std::to_string(l.data / l.shard) + ", " + std::to_string(l.shard) +
           "), mesh_dim_names=(\"replicate\", \"shard\"))\n";
    group = ", process_group=mesh[\"shard\"].get_group()";
  }
  return text + "optimizer = ZeroRedundancyOptimizer(" +
         (optimizer == Optimizer::muon ? "matrices" : "model.parameters()") + ", optimizer_class=" + std::string(name) +
         group + ",\n    parameters_as_bucket_view=True, lr=lr" +
         (optimizer == Optimizer::sgd ? ", momentum=0.9)" : ")") +
         (!described                     ? "  # or the class that the job has\n"
          : optimizer == Optimizer::muon ? "  # and AdamW for all that are no matrices of blocks\n"
          : optimizer == Optimizer::lion ? "  # package lion-pytorch\n"
                                         : "\n");
}

/// The optimizer, where the model names another one than Adam.
std::string optimizer_line(const Workload& w) {
  if (!w.shape || w.shape->heads == 0) return {};
  switch (w.shape->optimizer) {
    case Optimizer::adam8bit:
      return "optimizer = torchao.optim.AdamW8bit(model.parameters(), lr=lr)\n";
    case Optimizer::adafactor:
      return "optimizer = torch.optim.Adafactor(model.parameters(), lr=lr)\n";
    case Optimizer::muon:
      return "optimizer = torch.optim.Muon(matrices, lr=lr)  # and AdamW for all that are no matrices of blocks\n";
    case Optimizer::sgd:
      return "optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)\n";
    case Optimizer::lion:
      return "# optimizer: Lion, which PyTorch has not (package lion-pytorch)\n";
    case Optimizer::adam:
      return {};
  }
  return {};
}

/// Units that choose for themselves, module by module.
std::string text_of_units(const LaunchInput& in) {
  const std::vector<UnitChoice>& choices = in.layout.unit_choices;
  const std::string policy = mixed_precision(in.workload) ? ", mp_policy=policy" : "";
  std::string text = converted_linear_layers(in.workload) + policy_line(in.workload) +
                     compilation_lines(in.workload, "units[1:-1]") + "# units: the model's parts in forward order, " +
                     std::to_string(in.workload.units.size()) + " of them\n";
  std::uint32_t first = 0;
  for (const UnitChoice& c : choices) {
    const std::string from = std::to_string(first), to = std::to_string(first + c.units);
    text += "for module in units[" + from + ":" + to + "]:\n";
    if (c.recomputation != Recomputation::none)
      text += c.recomputation == Recomputation::full
                  ? "    checkpoint(module)  # torch.distributed._composable\n"
                  : "    checkpoint(module.core_attention)  # torch.distributed._composable\n";
    text += c.zero == 0   ? "    replicate(module)  # torch.distributed._composable\n"
            : c.zero == 2 ? "    fully_shard(module" + policy + ", reshard_after_forward=False)\n"
                          : "    fully_shard(module" + policy + ", reshard_after_forward=True)\n";
    first += c.units;
  }
  const std::string samples = counted(in.layout.micro_batch, "sample");
  text += in.micro_batches == 1
              ? "# batches of " + samples + " a device"
              : "# " + std::to_string(in.micro_batches) + " batches a step, of " + samples + " a device";
  return text;
}

}  // namespace

std::string why_not_ddp(const LaunchInput& in) {
  if (std::string why = units_differ(in.layout); !why.empty()) return why;
  if (std::string why = leaves_nothing_to_host(in.layout); !why.empty()) return why;
  if (std::string why = beyond_data_parallel(in.layout); !why.empty()) return why;
  if (in.layout.zero > 1) return "it does not divide gradients or parameters (fully_shard does)";
  if (in.layout.zero_in_passes() == 1)
    return "zero=1 scatters gradients, as fully_shard does; ZeroRedundancyOptimizer sums whole ones and broadcasts "
           "whole parameters (whole_tensors=on)";
  if (in.plan.gradients.strategy != nullptr && in.plan.gradients.strategy->name != "ddp" && in.layout.data > 1)
    return "gradients travel as it sends them, not by " + text_of(in.plan.gradients);
  return too_large_under_autocast(in);
}

std::string ddp_text(const LaunchInput& in) {
  std::string text =
      converted_linear_layers(in.workload) + recomputation_lines(in.layout) + compilation_lines(in.workload);
  if (const std::string held = held_under_autocast(in); !held.empty()) text += "# a device holds " + held + "\n";
  const bool wrapped = in.plan.gradients.strategy != nullptr && in.plan.gradients.strategy->name == "ddp";
  text += "model = " + (wrapped ? settings_of(in.plan.gradients) : "DistributedDataParallel(model)") + "\n";
  const bool mixed = mixed_precision(in.workload);
  if (mixed && in.workload.bytes_of_gradient <= 2 && in.layout.data > 1)
    text += "model.register_comm_hook(None, default_hooks." +
            std::string(in.workload.dtype == DataType::bf16 ? "bf16" : "fp16") +
            "_compress_hook)  # gradients travel in 2 bytes\n";
  text += in.layout.whole_tensors ? dealt_optimizer_lines(in) : optimizer_line(in.workload);
  return text + accumulation_lines(in, mixed);
}

std::string why_not_fsdp(const LaunchInput& in) {
  const Layout& l = in.layout;
  if (!l.overlap_gather && std::ranges::any_of(l.unit_choices, gathers_updates, &UnitChoice::zero))
    return "it gathers the weights of each block ahead of its first forward pass (overlap_gather=on)";
  if (!l.unit_choices.empty()) return why_not_units(l.unit_choices);
  if (std::string why = why_not_offloaded(l); !why.empty()) return why;
  if (std::string why = beyond_data_parallel(l); !why.empty()) return why;
  if (l.zero == 0) return "nothing is divided (zero=0): DistributedDataParallel does that";
  if (l.whole_tensors)
    return "it divides every tensor; ZeroRedundancyOptimizer around DistributedDataParallel does not";
  if (l.zero < 3 && l.data > 1 && !l.overlap_gather)
    return "it gathers the weights of each block ahead of its first forward pass (overlap_gather=on)";
  if (std::string why = plain_zero(l, true); !why.empty()) return why;
  if (l.zero == 3 && l.units_in_flight == 1) return "it gathers the next unit ahead of its use (in_flight=2)";
  return {};
}

std::string fsdp_text(const LaunchInput& in) {
  if (!in.layout.unit_choices.empty()) return text_of_units(in);
  const Layout& l = in.layout;
  std::string arguments = "mesh=mesh";
  const std::string shape = l.shard > 0 ? std::to_string(l.data / l.shard) + ", " + std::to_string(l.shard) + ")"
                                        : std::to_string(l.data) + ",)";
  const std::string names = l.shard > 0 ? "(\"replicate\", \"shard\")" : "(\"shard\",)";
  std::string text = "mesh = init_device_mesh(\"cuda\", (" + shape + ", mesh_dim_names=" + names + ")\n";
  if (mixed_precision(in.workload)) arguments += ", mp_policy=policy";
  const std::string reshard =
      ", reshard_after_forward=" + std::string(l.zero < 3              ? "False"
                                               : l.backward_shard == 0 ? "True"
                                                                       : std::to_string(l.backward_shard));
  const bool offloads = l.offloads(Offloaded::parameters);
  if (offloads) arguments += ", offload_policy=CPUOffloadPolicy()";
  text += converted_linear_layers(in.workload) + policy_line(in.workload) + recomputation_lines(l) +
          compilation_lines(in.workload) +
          "for block in blocks:  # the model's blocks: the units that travel\n"
          "    fully_shard(block, " +
          arguments + reshard + ")\nfully_shard(model, " + arguments + (l.zero < 3 ? reshard : "") + ")\n";
  if (l.zero == 3 && l.units_in_flight > 2) {
    const std::string ahead = std::to_string(l.units_in_flight - 1);
    text += "for i, block in enumerate(blocks):  # " + ahead +
            " units ahead\n    block.set_modules_to_forward_prefetch(blocks[i + 1:i + 1 + " + ahead +
            "])\n    block.set_modules_to_backward_prefetch(blocks[max(0, i - " + ahead + "):i][::-1])\n";
  }
  const std::string optimizer = optimizer_line(in.workload);
  if (offloads && optimizer.empty())
    text += "optimizer = torch.optim.AdamW(model.parameters(), lr=lr, fused=True)  # runs on the host\n";
  text += optimizer;
  return text + accumulation_lines(in, false);
}

std::string why_not_torch_pipeline(const LaunchInput& in) {
  const Layout& l = in.layout;
  if (std::string why = units_differ(l); !why.empty()) return why;
  if (l.pipeline == 1) return "the layout has no pipeline";
  if (std::string why = leaves_nothing_to_host(l); !why.empty()) return why;
  if (std::string why = why_not_together(l); !why.empty()) return why;
  if (std::string why = why_not_scheduled(in); !why.empty()) return why;
  if (in.schedule() == "zb_v" && l.data > 1 && l.overlap_gradients)
    return "its split backward passes call no hooks of DistributedDataParallel: gradients are summed behind the step "
           "(overlap_dp=off)";
  if (l.tensor > 1) return "its stages here would need a plan for tensor parallelism of the model's modules";
  if (l.context > 1) return "context parallelism needs the model's own modules";
  if (l.expert > 1) return "expert parallelism needs the model's own modules";
  if (l.whole_tensors) return "ZeroRedundancyOptimizer around the stages of each device is the job's own code";
  if (l.zero > 0) return "the optimizer state of a stage is divided by fully_shard around it";
  if (in.sums_in_bf16() && l.data > 1) return "the replicas of its stages sum gradients in float32 (gradients=f32)";
  return too_large_under_autocast(in);
}

namespace {

/// A comment: what of the model each of its parts is, where that is known.
std::string parts_of_model(const LaunchInput& in) {
  std::string units;
  for (const std::uint32_t n : in.stage_units) units += (units.empty() ? "" : ", ") + std::to_string(n);
  if (units.empty()) return {};
  return "# the parts are of " + units + " units: " + (in.workload.shape ? "embedding, blocks, head" : "those traced") +
         "\n";
}

}  // namespace

std::string torch_pipeline_text(const LaunchInput& in) {
  const Layout& l = in.layout;
  const std::string schedule = "Schedule" + std::string(torch_schedule(in));
  const bool in_a_v = in.schedule() == "zb_v";
  const std::string stages = std::to_string(l.pipeline * l.chunks);
  const std::string held = held_under_autocast(in);
  std::string text = (held.empty() ? "" : "# a device holds " + held + "\n") + parts_of_model(in) +
                     std::string("mesh = init_device_mesh(\"cuda\", (") + std::to_string(l.pipeline) + ", " +
                     std::to_string(l.data) + "), mesh_dim_names=(\"pp\", \"dp\"))\n";
  const std::string converted = converted_linear_layers(in.workload, "part");
  if (!converted.empty()) text += (l.chunks == 1 ? "" : "for part in parts:\n    ") + converted;
  text += compilation_lines(in.workload,
                            l.chunks == 1 ? "part.blocks" : "(block for part in parts for block in part.blocks)");
  if (l.chunks == 1) {
    text +=
        "stage = PipelineStage(DistributedDataParallel(part, process_group=mesh[\"dp\"].get_group()),\n"
        "    mesh[\"pp\"].get_local_rank(), " +
        stages + ", device, group=mesh[\"pp\"].get_group())\n";
  } else {
    const std::string rank = "mesh[\"pp\"].get_local_rank()";
    const std::string place = in_a_v ? rank + " if i == 0 else " + std::to_string(2 * l.pipeline - 1) + " - " + rank
                                     : rank + " + " + std::to_string(l.pipeline) + " * i";
    const bool hooked = l.data > 1 && !in_a_v;
    text += "stages = [PipelineStage(" +
            std::string(hooked ? "DistributedDataParallel(part, process_group=mesh[\"dp\"].get_group())" : "part") +
            ",\n    " + place + ", " + stages +
            ", device, group=mesh[\"pp\"].get_group())\n    for i, part in enumerate(parts)]  # " +
            (in_a_v ? "2 parts of the model a device, in a V\n"
                    : std::to_string(l.chunks) + " parts of the model a device\n");
  }
  text += "first, last = mesh[\"pp\"].get_local_rank() == 0, mesh[\"pp\"].get_local_rank() == " +
          std::string(in_a_v ? "0  # it holds both ends" : std::to_string(l.pipeline - 1)) + "\n";
  const bool mixed = mixed_precision(in.workload);
  text += "schedule = " + schedule + "(" + (l.chunks > 1 ? "stages" : "stage") +
          ", n_microbatches=" + std::to_string(in.micro_batches) + ", loss_fn=loss_fn)\n" + recomputation_lines(l);
  if (mixed) text += autocast(in.workload) + "\n    ";
  text += "schedule.step(*([batch] if first else []), target=labels if last else None)  # " +
          std::to_string(l.micro_batch * in.micro_batches) + " samples";
  if (in_a_v && l.data > 1)
    text +=
        "\nfor p in (p for part in parts for p in part.parameters() if p.grad is not None):\n"
        "    torch.distributed.all_reduce(p.grad, torch.distributed.ReduceOp.AVG, group=mesh[\"dp\"].get_group())";
  return text;
}

}  // namespace stepcast
