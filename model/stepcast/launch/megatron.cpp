// Megatron-LM: degrees, schedule, recomputation and the shape of the model as arguments of pretrain_gpt.py.
#include <stepcast/base/text.hpp>
#include <stepcast/launch/frameworks.hpp>
#include <stepcast/layout/process_group.hpp>
#include <stepcast/parallelism/stage_division.hpp>
#include <stepcast/pipeline/pipeline.hpp>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace stepcast {
namespace {

/// Blocks between embedding and head, which --pipeline-model-parallel-layout places like blocks; of a traced model it
/// is not known which unit is which.
bool places_units(const LaunchInput& in) {
  return in.workload.shape && std::int64_t(in.workload.units.size()) == in.workload.shape->layers + 2;
}

/// Blocks of each stage, chunk by chunk, embedding and head aside.
std::vector<std::int64_t> blocks_of_stages(const LaunchInput& in) {
  std::vector<std::int64_t> blocks(in.stage_units.begin(), in.stage_units.end());
  if (!blocks.empty()) --blocks.front(), --blocks.back();
  return blocks;
}

/// Whether the stages hold equal numbers of blocks, as Megatron-LM deals them out by itself.
bool deals_evenly(const LaunchInput& in) {
  const std::int64_t stages = in.layout.pipeline * in.layout.chunks;
  if (in.stage_units.empty() || !places_units(in)) return in.blocks() % stages == 0;
  return std::ranges::equal(in.stage_units, equal_blocks(*in.workload.shape, stages));
}

/// "Ett|(tt|)*5ttL": E the embedding, t a block, L the head, a bar behind every stage but the last.
std::string layout_of_stages(const LaunchInput& in) {
  const std::vector<std::int64_t> blocks = blocks_of_stages(in);
  const auto written = [](std::int64_t n) {
    return n == 0 ? std::string() : n == 1 ? std::string("t") : "t*" + std::to_string(n);
  };
  std::string text = "E";
  for (std::size_t s = 0; s < blocks.size();) {
    std::size_t end = s + 1;
    const bool inner = s > 0 && s + 1 < blocks.size();
    while (inner && end + 1 < blocks.size() && blocks[end] == blocks[s]) ++end;
    if (end - s > 1) text += "(" + written(blocks[s]) + "|)*" + std::to_string(end - s);
    else text += written(blocks[s]) + (end < blocks.size() ? "|" : "");
    s = end;
  }
  return text + "L";
}

class Arguments {
 public:
  void flag(std::string_view name) { add(name, {}); }
  void option(std::string_view name, const std::string& value) { add(name, value); }
  void option(std::string_view name, std::int64_t value) { add(name, std::to_string(value)); }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  void add(std::string_view name, const std::string& value) {
    if (!text_.empty()) text_ += " \\\n";
    text_ += "--" + std::string(name) + (value.empty() ? "" : " " + value);
  }
  std::string text_;
};

/// Width of the MLP: rows of the last product that is cut by rows; 0: not told.
std::int64_t mlp_width(const ModelShape& model) {
  double width = 0;
  for (const UnitShape& unit : model.units)
    if (unit.repetitions > 1 || model.layers == 1)
      for (const OperatorShape& o : unit.operators)
        if (o.weighted && o.division == Division::rows && o.product.m > 0) width = o.product.k;
  return std::int64_t(width);
}

/// The value that a normalised description has for a key; `otherwise` where it is the default.
std::int64_t said_of(const ModelShape& m, std::string_view key, std::int64_t otherwise) {
  const std::string before = std::string(key) + "=";
  for (const char* start : {",", ":"})
    if (const std::size_t at = m.name.find(start + before); at != std::string::npos)
      return std::strtoll(m.name.c_str() + at + 1 + before.size(), nullptr, 10);
  return otherwise;
}

/// Keys and values of all heads from one latent vector of a token.
void add_latent_attention(const ModelShape& m, Arguments& out) {
  out.flag("multi-latent-attention");
  out.flag("qk-layernorm");
  if (const std::int64_t rank = said_of(m, "q_rank", 0); rank > 0) out.option("q-lora-rank", rank);
  out.option("kv-lora-rank", said_of(m, "kv_rank", 0));
  out.option("qk-head-dim", m.head_size);
  out.option("qk-pos-emb-head-dim", said_of(m, "rope", 64));
  out.option("v-head-dim", said_of(m, "v_head", m.head_size));
}

/// Widths where not every layer is a mixture of experts alone.
void add_uneven_mlps(const ModelShape& m, std::int64_t width, Arguments& out) {
  const std::int64_t dense = said_of(m, "dense", 0), shared = said_of(m, "shared", 0);
  if (dense > 0) {
    out.option("ffn-hidden-size", said_of(m, "dense_ffn", width));
    out.option("moe-ffn-hidden-size", width);
    out.option("moe-layer-freq",
               "\"([0]*" + std::to_string(dense) + "+[1]*" + std::to_string(m.layers - dense) + ")\"");
  }
  if (shared > 0) out.option("moe-shared-expert-intermediate-size", shared * width);
}

void add_model(const LaunchInput& in, Arguments& out) {
  if (!in.workload.shape) return;
  const ModelShape& m = *in.workload.shape;
  out.option("num-layers", m.layers);
  out.option("hidden-size", m.hidden);
  out.option("num-attention-heads", m.heads);
  if (m.kv_heads > 0 && m.kv_heads != m.heads) {
    out.flag("group-query-attention");
    out.option("num-query-groups", m.kv_heads);
  }
  const bool latent = said_of(m, "kv_rank", 0) > 0;
  if (latent) add_latent_attention(m, out);
  else if (m.head_size * m.heads != m.hidden) out.option("kv-channels", m.head_size);
  if (m.qk_norm) out.flag("qk-layernorm");
  const std::int64_t width = mlp_width(m);
  add_uneven_mlps(m, width, out);
  if (width > 0 && width != 4 * m.hidden && said_of(m, "dense", 0) == 0) out.option("ffn-hidden-size", width);
  constexpr double its_own_dropout = 0.1;  // where nobody says
  if (m.dropout != its_own_dropout) {
    out.option("attention-dropout", exact_text_of(m.dropout));
    out.option("hidden-dropout", exact_text_of(m.dropout));
  }
  if (!m.fused_accumulation) out.flag("no-gradient-accumulation-fusion");
  if (in.recorded()) {
    out.option("cuda-graph-impl", std::string("full_iteration"));
    out.flag("te-rng-tracker");
    out.flag("no-check-for-nan-in-loss-and-grad");
  }
  if (!m.tied) out.flag("untie-embeddings-and-output-weights");
  if (m.name.starts_with("llama")) {
    if (m.clamp) {  // GPT-OSS's gate, with its own numbers
      out.flag("quick-geglu");
      out.option("activation-func-clamp-value", std::string("7.0"));
      out.option("glu-linear-offset", std::string("1.0"));
      out.option("softmax-type", std::string("learnable"));  // a sink for each head
    } else {
      out.flag("swiglu");
    }
    out.option("normalization", "RMSNorm");
    out.option("position-embedding-type", "rope");
    if (!m.expert_bias) out.flag("disable-bias-linear");
  }
  if (const std::int64_t window = said_of(m, "window", 0); window > 0) {
    out.option("window-size", std::to_string(window - 1) + ",0");  // and the token itself
    if (const std::int64_t every = said_of(m, "full_every", 0); every > 0) out.option("window-attn-skip-freq", every);
  }
  if (const auto kernel = attention_kernel(m))
    out.option("attention-backend", kernel == AttentionKernel::cudnn ? "fused" : "flash");
  out.option("seq-length", m.sequence);
  out.option("max-position-embeddings", m.sequence);
  if (m.experts > 0) {
    out.option("num-experts", m.experts);
    out.option("moe-router-topk", m.experts_per_token);
    const bool once = in.layout.expert_exchange == ExpertExchange::deduplicated;
    out.option("moe-token-dispatcher-type", once ? "flex" : "alltoall");
    if (once)
      out.option("moe-flex-dispatcher-backend",
                 in.recorded() ? "hybridep" : std::string(name_of(in.layout.expert_exchange)));
    if (in.recorded()) {  // shapes that no router changes
      out.option("moe-expert-rank-capacity-factor", std::string("1.5"));
      out.flag("moe-paged-stash");
      out.flag("use-transformer-engine-op-fuser");
      out.option("moe-mlp-glu-interleave-size", std::int64_t{32});
    }
    out.flag("moe-grouped-gemm");
    out.flag("moe-permute-fusion");
    // What flex dispatchers take, and what routers of many experts are advised to have.
    out.option("moe-router-dtype", std::string("fp32"));
    if (in.layout.overlap_expert) {
      out.flag("overlap-moe-expert-parallel-comm");
      out.flag("delay-wgrad-compute");
    }
  }
}

/// Of a traced job the type of its activations says it: Megatron-LM keeps whole weights beside them as autocast does.
void add_precision(const Workload& workload, Arguments& out) {
  if (workload.dtype == DataType::bf16) {
    out.flag("bf16");
    if (workload.bytes_of_gradient <= 2) out.flag("grad-reduce-in-bf16");
  }
  if (workload.dtype == DataType::f16) out.flag("fp16");
  const std::optional<DataType> linear = workload.shape ? linear_type(*workload.shape) : std::nullopt;
  if (linear == DataType::f4) {
    out.option("fp4-format", "e2m1");
    out.option("fp4-recipe", "nvfp4");
  } else if (linear) {
    // What the fused products of a recorded mixture take; else by tensor, since by delayed scaling, its default, it
    // does no norms or activations again.
    const bool fused = workload.shape->experts > 0 && workload.shape->launch == KernelLaunch::graphs;
    out.option("fp8-format", std::string(fused ? "e4m3" : "hybrid"));
    out.option("fp8-recipe", std::string(fused ? "mxfp8" : "tensorwise"));
  }
}

void add_optimizer(const Workload& workload, Arguments& out) {
  if (!workload.shape) return;
  switch (workload.shape->optimizer) {
    case Optimizer::lion:
      return out.option("optimizer", "lion");
    case Optimizer::muon:
      return out.option("optimizer", "muon");
    case Optimizer::sgd:
      return out.option("optimizer", "sgd");
    case Optimizer::adam:
    case Optimizer::adam8bit:
    case Optimizer::adafactor:
      return;
  }
}

void add_degrees(const LaunchInput& in, Arguments& out) {
  const Layout& l = in.layout;
  out.option("tensor-model-parallel-size", l.tensor);
  out.option("pipeline-model-parallel-size", l.pipeline);
  if (l.context > 1) out.option("context-parallel-size", l.context);
  // By Transformer Engine's word, which refuses "allgather" (attn_forward_func_with_cp).
  if (l.context_exchange != ContextExchange::ring)
    out.option("cp-comm-type", l.context_exchange == ContextExchange::all_gather
                                   ? "all_gather"
                                   : std::string(name_of(l.context_exchange)));
  if (l.expert > 1) out.option("expert-model-parallel-size", l.expert);
  if (l.whole_experts()) out.option("expert-tensor-parallel-size", std::int64_t{1});
  if (l.pipeline > 1 && !deals_evenly(in))
    out.option("pipeline-model-parallel-layout", '"' + layout_of_stages(in) + '"');
  else if (l.chunks > 1) out.option("num-layers-per-virtual-pipeline-stage", in.blocks() / (l.pipeline * l.chunks));
  if (l.chunks > 1) {
    const std::int64_t group = interleaved_group(std::uint32_t(l.pipeline), std::uint32_t(in.micro_batches));
    if (group != l.pipeline) out.option("microbatch-group-size-per-virtual-pipeline-stage", group);
    if (!l.overlap_pipeline) out.flag("no-overlap-p2p-communication");
  }
  if (l.sequence_parallel) out.flag("sequence-parallel");
  if (l.overlap_tensor == TensorOverlap::products && l.tensor > 1) out.flag("tp-comm-overlap");
  out.option("micro-batch-size", l.micro_batch);
  out.option("global-batch-size", in.global_batch());
  if (!same_ranks(l, Layout{}.order)) out.flag("use-tp-pp-dp-mapping");
}

void add_state(const LaunchInput& in, Arguments& out) {
  const Layout& l = in.layout;
  if (l.zero == 1) out.flag("use-distributed-optimizer");
  if (l.zero > 1) {
    out.flag("use-distributed-optimizer");
    out.flag("use-megatron-fsdp");
    out.option("ckpt-format", "fsdp_dtensor");
    out.option("data-parallel-sharding-strategy", l.zero == 2 ? "optim_grads" : "optim_grads_params");
  }
  if (l.offloads(Offloaded::optimizer)) {
    if (l.zero == 0) out.flag("use-distributed-optimizer");
    out.flag("optimizer-cpu-offload");
    out.flag("use-precision-aware-optimizer");
    out.flag("overlap-cpu-optimizer-d2h-h2d");
  }
  // Transformer Engine's, of all layers but the last unless it is told.
  if (l.offloads(Offloaded::activations))
    out.option("cpu-offloading-num-layers", l.offloaded_blocks > 0 ? l.offloaded_blocks : in.blocks() - 1);
  if (l.shard > 0) out.option("num-distributed-optimizer-instances", l.data / l.shard);
  if (l.overlap_gradients) {
    out.flag("overlap-grad-reduce");
    if (l.zero == 3 || (l.zero > 0 && l.overlap_gather)) out.flag("overlap-param-gather");
    // Its own are of 40 million elements, or of a million for each replica where that is more: of 8B on 64 H100 the
    // step is predicted to be 0.1 % shorter by them than by a standard plan's, and a plan that says others keeps them.
    const double bucket = in.states_gradient_options() ? in.bucket_elements() : 0;
    if (bucket > 0 && l.data > 1 && l.zero <= 1) out.option("ddp-bucket-size", std::int64_t(bucket));
  }
  if (l.recomputation == Recomputation::selective) out.option("recompute-granularity", "selective");
  if (l.recomputation == Recomputation::modules) {
    std::string modules = recomputation_text(l);
    std::ranges::replace(modules, '+', ' ');
    out.option("recompute-granularity", "selective");
    out.option("recompute-modules", modules);
  }
  if (l.recomputation == Recomputation::full) {
    out.option("recompute-granularity", "full");
    out.option("recompute-method", l.recomputed_blocks > 0 ? "block" : "uniform");
    out.option("recompute-num-layers", l.recomputed_blocks > 0 ? l.recomputed_blocks : l.recomputed_together);
  }
}

std::string program_of(const LaunchInput& in) {
  return in.workload.shape && in.workload.shape->name.starts_with("bert") ? "pretrain_bert.py" : "pretrain_gpt.py";
}

}  // namespace

namespace {

/// Groups for which DeepEP's buffer.py has a configuration.
bool deepep_runs_on(std::int64_t ranks) {
  static constexpr std::array<std::int64_t, 12> known{2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 144, 160};
  return std::ranges::find(known, ranks) != known.end();
}

/// What its own optimizers cannot; empty: nothing. Those beside Adam and SGD do not run under its FSDP, which ZeRO 2
/// and 3 are (arguments.py, the check of emerging optimizers).
std::string why_not_optimized(const LaunchInput& in) {
  if (!in.workload.shape) return {};
  switch (in.workload.shape->optimizer) {
    case Optimizer::adam8bit:
      return "it has no 8-bit Adam";
    case Optimizer::adafactor:
      return "it has no Adafactor";
    case Optimizer::lion:
    case Optimizer::muon:
      return in.layout.zero >= 2 ? "its optimizers beside Adam and SGD divide their state alone (zero=1)" : "";
    case Optimizer::adam:
    case Optimizer::sgd:
      return {};
  }
  return {};
}

}  // namespace

namespace {

/// What it cannot leave to the host; empty: nothing (arguments.py, optimizer_config.py, transformer_config.py).
std::string why_not_offloaded(const LaunchInput& in) {
  const Layout& l = in.layout;
  if (l.offloads(Offloaded::parameters)) return "its parameters stay on the devices (offload=optimizer)";
  const bool adam = !in.workload.shape || in.workload.shape->optimizer == Optimizer::adam;
  const bool divided = l.zero == 1 || l.data * l.context == 1;
  if (l.offloads(Offloaded::optimizer) && (l.zero > 1 || !divided || !adam))
    return "its host updates by Adam what the distributed optimizer divides (zero=1)";
  if (l.offloads(Offloaded::activations) && (l.pipeline > 1 || l.recomputation != Recomputation::none ||
                                             in.blocks() < 2 || l.offloaded_blocks >= in.blocks()))
    return "Transformer Engine offloads activations of fewer layers than all, without pipelines and recomputation";
  return {};
}

/// Why it cannot record a step (launch=graphs); empty: it can, or need not (transformer_config.py; of mixtures
/// moe/experts.py, whose products are then Transformer Engine's fused ones).
std::string why_not_recorded(const LaunchInput& in) {
  if (!in.recorded()) return {};
  const ModelShape& m = *in.workload.shape;
  const Layout& l = in.layout;
  if (m.dropout > 0 && l.recomputation == Recomputation::selective)
    return "it records no attention with dropout that is done again (dropout=0 in the model)";
  if (m.experts == 0) return {};
  if (l.expert == 1 || l.expert_exchange != ExpertExchange::deduplicated)
    return "it records steps of mixtures whose tokens HybridEP sends (ep=2 or more, ep_comm=deepep)";
  if (l.tensor > 1 && !l.whole_experts()) return "it records steps of mixtures whose experts are whole (etp=1)";
  const bool blackwell = in.workload.device && in.workload.device->matrix_rate[std::size_t(DataType::f4)] > 0;
  if (!m.name.starts_with("llama") || !blackwell || linear_type(m) != DataType::f8)
    return "it records steps of mixtures with gated experts in eight bits (linear=f8) on Blackwell, whose fused "
           "products need no counts of the host (launch=async in the model)";
  return {};
}

/// Why tokens cannot travel beside another micro-batch's compute; empty: they can, or need not (transformer_config.py,
/// combined_1f1b.py; of what is hidden besides, arguments.py on CUDA_DEVICE_MAX_CONNECTIONS, and Transformer Engine's
/// WeightGradStore).
std::string why_not_beside_experts(const LaunchInput& in) {
  const Layout& l = in.layout;
  if (!l.overlap_expert) return {};
  const std::string beside = "tokens travel beside another micro-batch's compute ";
  if (l.pipeline > 1 && l.chunks == 1) return "in pipelines " + beside + "with interleaving only (chunks=2)";
  if (l.zero > 1 && l.pipeline > 1) return beside + "without its FSDP in pipelines (zero=1)";
  if (l.recomputation == Recomputation::full) return beside + "where no whole layers are done again (overlap_ep=off)";
  if (l.tensor > 1 && l.overlap_tensor != TensorOverlap::nothing)
    return beside + "by several connections to the device, and tensor parallelism's messages by one (overlap_tp=off)";
  if (in.workload.dtype == DataType::f32) return beside + "in two-byte types only (dtype=bf16 in the model)";
  return {};
}

}  // namespace

std::vector<ContextExchange> context_exchanges_of(const ModelShape& m) {
  if (said_of(m, "kv_rank", 0) > 0) return {ContextExchange::ring};
  if (m.clamp) return {ContextExchange::all_to_all};
  if (said_of(m, "window", 0) > 0) return {ContextExchange::all_gather, ContextExchange::all_to_all};
  return {ContextExchange::ring, ContextExchange::all_gather, ContextExchange::all_to_all};
}

namespace {

constexpr std::array outermost_data = {Dimension::tensor, Dimension::context, Dimension::pipeline, Dimension::data};

std::string why_not_context(const LaunchInput& in) {
  const Layout& l = in.layout;
  if (l.context == 1 || !in.workload.shape) return {};
  const ModelShape& m = *in.workload.shape;
  const std::vector<ContextExchange> ways = context_exchanges_of(m);
  std::string named;
  for (const ContextExchange way : ways) named += (named.empty() ? "cp_comm=" : " or ") + std::string(name_of(way));
  if (std::ranges::find(ways, l.context_exchange) == ways.end())
    return "Transformer Engine exchanges keys and values of " +
           std::string(said_of(m, "kv_rank", 0) > 0 ? "latent attention"
                       : m.clamp                    ? "attention with sinks"
                                                    : "attention with windows") +
           " with " + named + " only";
  if (m.sequence % (2 * l.context) != 0)
    return "it deals out a sequence in 2 cp equal parts, which " + std::to_string(m.sequence) +
           " tokens are not for cp " + std::to_string(l.context);
  return {};
}

}  // namespace

std::string why_not_megatron(const LaunchInput& in) {
  const Layout& l = in.layout;
  if (std::string why = units_differ(l); !why.empty()) return why;
  if (in.workload.shape ? in.workload.shape->heads == 0 : in.workload.hidden == 0) return "it trains transformers";
  if (std::string why = why_not_optimized(in); !why.empty()) return why;
  if (std::string why = why_not_offloaded(in); !why.empty()) return why;
  if (std::string why = plain_zero(l); !why.empty()) return why;
  if (in.workload.shape && in.workload.shape->kernels == KernelSet::megatron &&
      in.workload.shape->loss == KernelSet::compiled)
    return "its losses keep four bytes a logit, and loss=compiled two (Transformer Engine's, which does, it refuses)";
  if (in.workload.shape && in.workload.shape->loss_chunks > 1)
    return "its loss is of all tokens at once (loss_chunks=1)";
  if (in.scheme() != "1d") return "its tensor parallelism is 1-D, not " + std::string(in.scheme());
  if (in.workload.shape && in.workload.shape->experts > 0 && l.tensor > 1 && !l.sequence_parallel)
    return "it trains mixtures of experts under tensor parallelism with sequence parallelism only (sp=on)";
  if (std::string why = why_not_context(in); !why.empty()) return why;
  if (!same_ranks(l, Layout{}.order) && !same_ranks(l, outermost_data))
    return "it numbers ranks tp-cp-dp-pp or tp-cp-pp-dp (order=)";
  if (in.schedule() != "1f1b" && in.schedule() != "interleaved")
    return "its schedules are 1F1B and interleaved 1F1B, not " + std::string(in.schedule());
  if (std::string why = why_not_recorded(in); !why.empty()) return why;
  if (std::string why = why_not_beside_experts(in); !why.empty()) return why;
  const std::int64_t sharing = l.expert * (l.whole_experts() ? 1 : l.tensor);
  if (l.expert_exchange == ExpertExchange::deduplicated && !in.recorded() && !deepep_runs_on(sharing))
    return "DeepEP has no configuration for groups of " + std::to_string(sharing) + " ranks (ep_comm=alltoall)";
  if (l.recomputation == Recomputation::operators)
    return "it recomputes modules or layers, not every second product (recompute=op)";
  const std::int64_t parts = l.pipeline * l.chunks, blocks = in.blocks();
  if (blocks % parts != 0 && !places_units(in))
    return "its stages hold equal numbers of layers where it is not told what else there is, and " +
           std::to_string(blocks) + " do not divide by " + std::to_string(parts);
  return {};
}

namespace {

/// The least version of Transformer Engine that it checks for (mcore_fsdp_adapter.py, arguments.py); empty: none.
std::string_view least_engine(const LaunchInput& in) {
  const bool fused = !in.workload.shape || in.workload.shape->fused_accumulation;
  if (in.layout.zero >= 2 && fused) return "2.10";
  if (in.layout.overlap_expert) return "2.8";
  return {};
}

// What a model's configuration says beside its shape, of those that are described with rotary positions or a router.
std::string not_in_the_step(const LaunchInput& in) {
  if (!in.workload.shape || !in.workload.shape->name.starts_with("llama")) return {};
  return std::string("# with what of your model does not change the step: --rotary-base") +
         (in.workload.shape->experts > 0 ? ",\n# the router's scores, groups and scaling" : "") + "\n";
}

}  // namespace

std::string megatron_text(const LaunchInput& in) {
  Arguments arguments;
  add_model(in, arguments);
  add_precision(in.workload, arguments);
  add_optimizer(in.workload, arguments);
  add_degrees(in, arguments);
  add_state(in, arguments);
  // Its sums of input gradients run beside weight gradients only where kernels start in the order of their launches.
  const bool ordered = in.layout.tensor * in.layout.context > 1 && in.layout.zero < 2 && !in.layout.overlap_expert;
  const bool fused = in.recorded() && in.workload.shape->experts > 0;
  const std::string connections = std::string(ordered                    ? "CUDA_DEVICE_MAX_CONNECTIONS=1 "
                                              : in.layout.overlap_expert ? "CUDA_DEVICE_MAX_CONNECTIONS=32 "
                                                                         : "") +
                                  (fused ? "NVTE_CUTEDSL_FUSED_GROUPED_MLP=1 " : "");
  return "# on " + std::to_string(in.layout.devices()) + " devices, with your data" +
         (in.workload.shape ? "" : " and the arguments of your model's shape") + "\n" + not_in_the_step(in) +
         own_way_of(in, "Megatron-LM") +
         (in.workload.shape && in.workload.shape->documents > 0
              ? "# attention within packed documents: pass its PackedSeqParams (thd) with every micro-batch\n"
              : "") +
         (least_engine(in).empty() ? ""
                                   : "# with Transformer Engine " + std::string(least_engine(in)) + " or later\n") +
         connections + "torchrun ... " + program_of(in) + " \\\n" + arguments.text();
}

}  // namespace stepcast
