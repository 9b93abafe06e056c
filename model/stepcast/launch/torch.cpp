// PyTorch: DistributedDataParallel, FullyShardedDataParallel and torch.distributed.pipelining.
#include <stepcast/base/words.hpp>
#include <stepcast/launch/frameworks.hpp>
#include <stepcast/prediction/recommend.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace stepcast {
namespace {

/// Why neither wrapper of a whole model can run it; empty: they can.
std::string beyond_data_parallel(const Layout& l) {
  if (l.tensor > 1)
    return "tensor parallelism needs a plan for the model's own modules (torch.distributed.tensor.parallel)";
  if (l.context > 1) return "context parallelism needs the model's own attention";
  if (l.pipeline > 1) return "a pipeline needs the model cut into stages (torch.distributed.pipelining)";
  if (l.expert > 1) return "experts are spread by the model's own modules";
  return {};
}

std::string recomputation_lines(const Layout& l) {
  if (l.recomputation == Recomputation::none) return {};
  const bool full = l.recomputation == Recomputation::full;
  return "apply_activation_checkpointing(model, checkpoint_wrapper_fn=checkpoint_wrapper,\n"
         "    check_fn=lambda module: isinstance(module, " +
         std::string(full ? "Block" : "CoreAttention") + "))  # " +
         (full ? "the class of the model's blocks" : "the class of the core of attention: softmax(Q K) V") + "\n";
}

std::string accumulation_lines(const LaunchInput& in) {
  const std::string samples = counted(in.layout.micro_batch, "sample"), count = std::to_string(in.micro_batches);
  const std::string overlap = in.layout.overlap_gradients ? "" : "\n# no overlap was assumed";
  if (in.micro_batches == 1) return "# batches of " + samples + " a device" + overlap;
  std::string text = "for i, batch in enumerate(micro_batches):  # " + count + " a step, of " + samples + " a device\n";
  // no_sync() would keep whole gradients on every device: what is divided is reduced in every micro-batch.
  const bool divided = in.layout.zero >= 2;
  if (!divided)
    text += "    with contextlib.nullcontext() if i == " + std::to_string(in.micro_batches - 1) +
            " else model.no_sync():\n    ";
  return text + "    (loss_of(model, batch) / " + count + ").backward()" +
         (divided ? "  # without no_sync(), which would hold whole gradients" : "") + overlap + "\noptimizer.step()";
}

/// Units that choose for themselves, module by module; why not behind `cannot`.
LaunchSettings settings_of_units(const LaunchInput& in) {
  LaunchSettings out{"PyTorch FSDP", {}, {}};
  const std::vector<UnitChoice>& choices = in.layout.unit_choices;
  const auto any = [&](auto test) { return std::any_of(choices.begin(), choices.end(), test); };
  if (any([](const UnitChoice& c) { return c.tensor > 1; }))
    out.cannot = "tensor parallelism needs a plan for the model's own modules (torch.distributed.tensor.parallel)";
  else if (any([](const UnitChoice& c) { return c.zero == 1; }))
    out.cannot = "fully_shard has no mode that divides the optimizer state of some modules alone";
  if (!out.cannot.empty()) return out;
  out.text = "# units: the model's parts in forward order, " + std::to_string(in.workload.units.size()) + " of them\n";
  std::uint32_t first = 0;
  for (const UnitChoice& c : choices) {
    const std::string from = std::to_string(first), to = std::to_string(first + c.units);
    out.text += "for module in units[" + from + ":" + to + "]:\n";
    if (c.recomputation != Recomputation::none)
      out.text += c.recomputation == Recomputation::full
                      ? "    checkpoint(module)  # torch.distributed._composable\n"
                      : "    checkpoint(module.core_attention)  # torch.distributed._composable\n";
    out.text += c.zero == 0   ? "    replicate(module)  # torch.distributed._composable\n"
                : c.zero == 2 ? "    fully_shard(module, reshard_after_forward=False)\n"
                              : "    fully_shard(module, reshard_after_forward=True)\n";
    first += c.units;
  }
  const std::string samples = counted(in.layout.micro_batch, "sample");
  out.text += in.micro_batches == 1
                  ? "# batches of " + samples + " a device"
                  : "# " + std::to_string(in.micro_batches) + " batches a step, of " + samples + " a device";
  return out;
}

}  // namespace

LaunchSettings ddp_settings(const LaunchInput& in) {
  LaunchSettings out{"PyTorch DDP", {}, beyond_data_parallel(in.layout)};
  if (std::string why = units_differ(in.layout); !why.empty()) out.cannot = std::move(why);
  if (out.cannot.empty() && in.layout.zero > 1)
    out.cannot = "it does not divide gradients or parameters (FullyShardedDataParallel does)";
  if (!out.cannot.empty()) return out;
  out.text = recomputation_lines(in.layout);
  const PlanSpec& plan = in.prediction.plan.gradients;
  const std::string strategy = plan.strategy != nullptr ? settings_of(plan) : std::string();
  out.text += strategy.empty() ? "model = DistributedDataParallel(model)" : strategy;
  out.text += "\n";
  if (in.layout.zero == 1)
    out.text += "optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.AdamW, lr=lr)\n";
  out.text += accumulation_lines(in);
  return out;
}

LaunchSettings fsdp_settings(const LaunchInput& in) {
  if (!in.layout.unit_choices.empty()) return settings_of_units(in);
  LaunchSettings out{"PyTorch FSDP", {}, beyond_data_parallel(in.layout)};
  const Layout& l = in.layout;
  if (out.cannot.empty() && l.zero == 0) out.cannot = "nothing is divided (zero=0): DistributedDataParallel does that";
  if (out.cannot.empty() && l.zero == 1)
    out.cannot = "it has no mode that divides the optimizer state alone (DDP with ZeroRedundancyOptimizer does)";
  if (!out.cannot.empty()) return out;
  const bool prefetch = l.units_in_flight > 1;
  out.text =
      "model = FullyShardedDataParallel(\n"
      "    model, sharding_strategy=ShardingStrategy." +
      std::string(l.zero == 3 ? "FULL_SHARD" : "SHARD_GRAD_OP") +
      ",\n"
      "    auto_wrap_policy=ModuleWrapPolicy({Block}),  # the class of the model's blocks: the units that travel\n"
      "    backward_prefetch=" +
      (prefetch ? "BackwardPrefetch.BACKWARD_PRE" : "None") + ", forward_prefetch=" + (prefetch ? "True" : "False") +
      ", limit_all_gathers=" + (l.units_in_flight <= 2 ? "True" : "False") + ")\n";
  out.text += recomputation_lines(l) + accumulation_lines(in);
  return out;
}

LaunchSettings torch_pipeline_settings(const LaunchInput& in) {
  LaunchSettings out{"PyTorch pipelining", {}, {}};
  const Layout& l = in.layout;
  std::string schedule = in.schedule() == "gpipe"         ? "ScheduleGPipe"
                         : in.schedule() == "1f1b"        ? "Schedule1F1B"
                         : in.schedule() == "interleaved" ? "ScheduleInterleaved1F1B"
                                                          : "";
  if (std::string why = units_differ(l); !why.empty()) out.cannot = std::move(why);
  else if (l.pipeline == 1) out.cannot = "the layout has no pipeline";
  else if (schedule.empty()) out.cannot = "it has no schedule " + std::string(in.schedule());
  else if (l.tensor > 1) out.cannot = "its stages here would need a plan for tensor parallelism of the model's modules";
  else if (l.context > 1 || l.expert > 1) out.cannot = "context and expert parallelism need the model's own modules";
  else if (l.zero > 0) out.cannot = "the optimizer state of a stage is divided by FullyShardedDataParallel around it";
  if (!out.cannot.empty()) return out;
  const std::string stages = std::to_string(l.pipeline * l.chunks);
  out.text = "mesh = init_device_mesh(\"cuda\", (" + std::to_string(l.pipeline) + ", " + std::to_string(l.data) +
             "), mesh_dim_names=(\"pp\", \"dp\"))\n";
  if (l.chunks == 1) {
    out.text +=
        "stage = PipelineStage(DistributedDataParallel(part, process_group=mesh[\"dp\"].get_group()),\n"
        "    mesh[\"pp\"].get_local_rank(), " +
        stages + ", device, group=mesh[\"pp\"].get_group())\n";
  } else {
    out.text += "stages = [PipelineStage(part, mesh[\"pp\"].get_local_rank() + " + std::to_string(l.pipeline) +
                " * i, " + stages +
                ", device, group=mesh[\"pp\"].get_group())\n    for i, part in enumerate(parts)]  # " +
                std::to_string(l.chunks) + " parts of the model a device\n";
  }
  out.text += "schedule = " + schedule + "(" + (l.chunks > 1 ? "stages" : "stage") +
              ", n_microbatches=" + std::to_string(in.micro_batches) + ", loss_fn=loss_fn)\n" + recomputation_lines(l) +
              "schedule.step(batch)  # " + std::to_string(l.micro_batch * in.micro_batches) +
              " samples on the first stage";
  return out;
}

}  // namespace stepcast
