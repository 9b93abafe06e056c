// Launch settings: identities of what is to be pasted, and reasons where a framework cannot.
#include <stepcast/launch/launch_settings.hpp>
#include <stepcast/layout/tensor_scheme.hpp>
#include <stepcast/parallelism/stage_division.hpp>
#include <stepcast/pipeline/pipeline.hpp>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <sstream>
#include <string>

using namespace stepcast;

namespace {

Workload workload(const std::string& model) {
  Device device;
  device.name = "accelerator";
  device.memory_bandwidth = BytesPerSecond(1e12);
  device.matrix_rate.fill(1e14);
  return workload_of(model_shape_of(model), device);
}

LayoutPrediction prediction(Layout layout, std::int64_t micro_batches) {
  LayoutPrediction p;
  p.plan.layout = layout;
  p.plan.gradients = plan_spec_of("ddp");
  p.micro_batches = micro_batches;
  p.devices = layout.devices();
  return p;
}

LaunchSettings settings(const std::string& framework, const LayoutPrediction& p,
                        const std::string& model = "gpt:hidden=1024,layers=24,heads=16,seq=1024") {
  // Horovod's are for who asks.
  for (const LaunchSettings& s : launch_settings(workload(model), p, framework == "Horovod" ? "horovod" : ""))
    if (s.framework == framework) return s;
  FAIL("no settings for " << framework);
  return {};
}

/// The value behind an argument; -1 when it is not there.
std::int64_t argument(const std::string& text, const std::string& name) {
  const std::size_t at = text.find("--" + name + " ");
  if (at == std::string::npos) return -1;
  return std::stoll(text.substr(at + name.size() + 3));
}
bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

Layout layout(std::int64_t tensor, std::int64_t data, std::int64_t pipeline, std::int64_t micro_batch = 2) {
  Layout l;
  l.tensor = tensor;
  l.data = data;
  l.pipeline = pipeline;
  l.micro_batch = micro_batch;
  return l;
}
nlohmann::json configuration(const LaunchSettings& s) { return nlohmann::json::parse(s.text); }

}  // namespace

TEST_CASE("A framework brings its kernels along where the model leaves them open") {
  const auto run = [](const char* text, const char* framework) {
    return model_shape_of(model_run_by(text, framework));
  };
  for (const auto& [framework, kernels] : {std::pair{"torchtitan", KernelSet::compiled},
                                           {"pytorch", KernelSet::eager},
                                           {"deepspeed", KernelSet::deepspeed}}) {
    for (const char* model : {"llama3-8b", "llama3-8b:", "llama3-8b:seq = 4096, attention = flash"}) {
      CHECK(run(model, framework).kernels == kernels);
      CHECK(attention_kernel(run(model, framework)) == AttentionKernel::flash2);
    }
    const ModelShape said = run("llama3-8b:kernels = megatron,attention=cudnn", framework);
    CHECK(said.kernels == KernelSet::megatron);
    CHECK(attention_kernel(said) == AttentionKernel::cudnn);
    CHECK(run("llama3-8b:kernels = compiled", framework).kernels == KernelSet::compiled);
    for (const KernelSet loss : {KernelSet::megatron, KernelSet::compiled, KernelSet::eager})
      CHECK(run(("llama3-8b:loss=" + std::string(name_of(loss))).c_str(), framework).loss == loss);
    // Standard attention stays what it is.
    CHECK_FALSE(has_fused_attention(run("gpt:hidden=1024,layers=24,heads=16,seq=1024", framework)));
    CHECK(model_run_by("resnet50:image=224", framework) == "resnet50:image=224");
  }
  // torchtitan's configurations compute the loss in parts, where the sequence divides.
  CHECK(run("llama3-8b", "torchtitan").loss_chunks == 8);
  CHECK(run("llama3-8b:loss_chunks=1", "torchtitan").loss_chunks == 1);
  CHECK(run("llama3-8b:loss_chunks=2", "torchtitan").loss_chunks == 2);
  CHECK(run("llama3-8b:seq=4100", "torchtitan").loss_chunks == 1);
  CHECK(run("llama3-8b", "pytorch").loss_chunks == 1);
  CHECK(model_run_by("llama3-8b", "megatron") == "llama3-8b");
  CHECK(model_run_by("llama3-8b", "") == "llama3-8b");
}

TEST_CASE("launch settings: each framework either has a text or a reason") {
  for (const std::int64_t tensor : {1, 4})
    for (const std::int64_t pipeline : {1, 4})
      for (const int zero : {0, 1, 2, 3})
        for (const std::int64_t context : {1, 2}) {
          Layout l = layout(tensor, 8, pipeline);
          l.zero = zero;
          l.context = context;
          const auto all = launch_settings(workload("gpt:hidden=1024,layers=24,heads=16,seq=1024"), prediction(l, 8));
          CHECK(all.size() == 6);
          for (const LaunchSettings& s : all) {
            CAPTURE(s.framework);
            CHECK(s.text.empty() != s.cannot.empty());
          }
        }
}

TEST_CASE("launch settings: Megatron-LM's degrees multiply, its batch divides") {
  for (const std::int64_t tensor : {1, 2, 8})
    for (const std::int64_t pipeline : {1, 2, 4})
      for (const std::int64_t data : {1, 3}) {
        Layout l = layout(tensor, data, pipeline);
        l.sequence_parallel = tensor > 1;
        const LayoutPrediction p = prediction(l, 8);
        const LaunchSettings s = settings("Megatron-LM", p);
        REQUIRE(s.cannot.empty());
        CHECK(argument(s.text, "tensor-model-parallel-size") * argument(s.text, "pipeline-model-parallel-size") *
                  data ==
              p.devices);
        CHECK(argument(s.text, "global-batch-size") == argument(s.text, "micro-batch-size") * 8 * data);
        CHECK(contains(s.text, "--sequence-parallel") == (tensor > 1));
        CHECK(argument(s.text, "num-layers") == 24);
        CHECK(argument(s.text, "hidden-size") == 1024);
        CHECK(argument(s.text, "ffn-hidden-size") == -1);
      }
}

TEST_CASE("launch settings: Megatron-LM's schedule, recomputation and state") {
  Layout l = layout(2, 2, 4);
  l.chunks = 3;
  l.zero = 1;
  l.recomputation = Recomputation::full;
  const std::string text = settings("Megatron-LM", prediction(l, 8)).text;
  CHECK(argument(text, "num-layers-per-virtual-pipeline-stage") == 2);
  CHECK(contains(text, "--use-distributed-optimizer"));
  CHECK(contains(text, "--recompute-granularity full"));
  CHECK(contains(text, "--overlap-grad-reduce"));
  l.overlap_gradients = false;
  l.recomputation = Recomputation::selective;
  const std::string other = settings("Megatron-LM", prediction(l, 8)).text;
  CHECK_FALSE(contains(other, "--overlap-grad-reduce"));
  CHECK(contains(other, "--recompute-granularity selective"));
  CHECK(argument(other, "microbatch-group-size-per-virtual-pipeline-stage") == -1);
  CHECK(argument(settings("Megatron-LM", prediction(l, 6)).text, "microbatch-group-size-per-virtual-pipeline-stage") ==
        6);
  CHECK(argument(settings("Megatron-LM", prediction(l, 9)).text, "microbatch-group-size-per-virtual-pipeline-stage") ==
        5);
  l.chunks = 5;
  // 24 blocks, embedding and head over 20 parts of the model.
  LayoutPrediction uneven = prediction(l, 8);
  uneven.stage_units.assign(20, 1);
  for (std::size_t s = 4; s < 10; ++s) uneven.stage_units[s] = 2;
  CHECK(contains(settings("Megatron-LM", uneven).text, "--pipeline-model-parallel-layout \"E|(t|)*3(t*2|)*6(t|)*9L\""));
  CHECK(argument(settings("Megatron-LM", uneven).text, "num-layers-per-virtual-pipeline-stage") == -1);
  l.chunks = 1;
  l.schedule = pipeline_schedule("zb_h1");
  if (l.schedule != nullptr) CHECK(contains(settings("Megatron-LM", prediction(l, 8)).cannot, "zb_h1"));
  CHECK(contains(settings("Megatron-LM", prediction(layout(1, 4, 1), 1), "resnet50:image=224").cannot, "transformers"));
}

TEST_CASE("launch settings: recomputation of some blocks and of groups") {
  Layout l;
  l.data = 4, l.pipeline = 2, l.micro_batch = 1;
  l.recomputation = Recomputation::full;
  const auto megatron = [&] { return settings("Megatron-LM", prediction(l, 8)).text; };
  CHECK(megatron().find("--recompute-method uniform \\\n--recompute-num-layers 1") != std::string::npos);
  l.recomputed_together = 3;
  CHECK(megatron().find("--recompute-method uniform \\\n--recompute-num-layers 3") != std::string::npos);
  CHECK_FALSE(settings("torchtitan", prediction(l, 8)).cannot.empty());
  l.recomputed_together = 1, l.recomputed_blocks = 5;
  CHECK(megatron().find("--recompute-granularity full \\\n--recompute-method block \\\n--recompute-num-layers 5") !=
        std::string::npos);
  CHECK_FALSE(settings("DeepSpeed", prediction(l, 8)).cannot.empty());
  l.pipeline = 1, l.data = 8;
  CHECK(settings("PyTorch DDP", prediction(l, 8)).text.find("blocks[:5]") != std::string::npos);
  l.recomputed_blocks = 0, l.recomputed_together = 2;
  CHECK(settings("PyTorch DDP", prediction(l, 8)).cannot.find("checkpoint_sequential") != std::string::npos);
}

TEST_CASE("launch settings: tokens that go once to each machine") {
  Layout l;
  l.data = 8, l.expert = 8, l.micro_batch = 1, l.zero = 1;
  const std::string model = "llama:hidden=1024,layers=24,heads=16,seq=1024,experts=8,topk=2,attention=flash";
  CHECK(contains(settings("Megatron-LM", prediction(l, 8), model).text, "--moe-token-dispatcher-type alltoall"));
  l.expert_exchange = ExpertExchange::deduplicated;
  CHECK(contains(settings("Megatron-LM", prediction(l, 8), model).text,
                 "--moe-token-dispatcher-type flex \\\n--moe-flex-dispatcher-backend deepep"));
  l.expert = 4;
  l.data = 12;
  CHECK(settings("Megatron-LM", prediction(l, 8), model).cannot.empty());
  l.tensor = 3, l.sequence_parallel = true;
  CHECK(contains(settings("Megatron-LM", prediction(l, 8), model).cannot,
                 "DeepEP has no configuration for groups of 12"));
  l.tensor = 1, l.sequence_parallel = false, l.data = 8, l.expert = 8;
  l.zero = 3;
  CHECK(contains(settings("torchtitan", prediction(l, 8), model).text, "comm_backend 'deepep'"));
}

TEST_CASE("launch settings: modules that are done again are Megatron-LM's alone") {
  Layout l;
  l.data = 8, l.micro_batch = 1;
  l.recomputation = Recomputation::modules;
  l.recomputed_modules = 0b011;
  const std::string model = "llama:hidden=1024,layers=24,heads=16,seq=1024,experts=8,topk=2,attention=flash";
  CHECK(contains(settings("Megatron-LM", prediction(l, 8), model).text,
                 "--recompute-granularity selective \\\n--recompute-modules layernorm moe_act"));
  for (const char* other : {"torchtitan", "DeepSpeed", "PyTorch DDP", "Horovod"})
    CHECK(contains(settings(other, prediction(l, 8), model).cannot, "are Megatron-LM's"));
  // Delayed scaling, the default of 8-bit layers, goes without them; a kernel that is named is asked for.
  const std::string in_8_bits = settings("Megatron-LM", prediction(l, 8), model + ",dtype=bf16,linear=f8").text;
  CHECK(contains(in_8_bits, "--fp8-format hybrid \\\n--fp8-recipe tensorwise"));
  CHECK_FALSE(contains(in_8_bits, "--attention-backend"));
  const std::string in_4_bits = model + ",dtype=bf16,linear=f4";
  CHECK(
      contains(settings("Megatron-LM", prediction(l, 8), in_4_bits).text, "--fp4-format e2m1 \\\n--fp4-recipe nvfp4"));
  for (const char* other : {"torchtitan", "DeepSpeed", "PyTorch FSDP"})
    CHECK(contains(settings(other, prediction(l, 8), in_4_bits).cannot, "NVFP4 (linear=f4) are Transformer Engine's"));
  const auto with = [&](const std::string& kernel) {
    return settings("Megatron-LM", prediction(l, 8), "gpt:hidden=1024,layers=24,heads=16,seq=1024,attention=" + kernel);
  };
  l.recomputation = Recomputation::none, l.recomputed_modules = 0;
  CHECK(contains(with("flash2").text, "--attention-backend flash"));
  CHECK(contains(with("cudnn").text, "--attention-backend fused"));
}

TEST_CASE("launch settings: Megatron-LM's latent attention, shared experts and first dense layers") {
  Layout l;
  l.data = 8, l.expert = 8, l.micro_batch = 1;
  const std::string text = settings("Megatron-LM", prediction(l, 8), "deepseek-v3").text;
  for (const char* said :
       {"--multi-latent-attention", "--qk-layernorm", "--q-lora-rank 1536", "--kv-lora-rank 512", "--qk-head-dim 128",
        "--qk-pos-emb-head-dim 64", "--v-head-dim 128", "--ffn-hidden-size 18432", "--moe-ffn-hidden-size 2048",
        "--moe-layer-freq \"([0]*3+[1]*58)\"", "--moe-shared-expert-intermediate-size 2048", "--num-layers 61"}) {
    CAPTURE(said);
    CHECK(text.find(said) != std::string::npos);
  }
  CHECK(text.find("--kv-channels") == std::string::npos);
  CHECK(text.find("--expert-tensor-parallel-size") == std::string::npos);
  l.tensor = 2, l.data = 4, l.expert_tensor = 1;
  CHECK(settings("Megatron-LM", prediction(l, 8), "deepseek-v3").cannot.find("(sp=on)") != std::string::npos);
  l.sequence_parallel = true;
  CHECK(settings("Megatron-LM", prediction(l, 8), "deepseek-v3").text.find("--expert-tensor-parallel-size 1") !=
        std::string::npos);
  // torchtitan spreads whole experts, or divides them as the other layers.
  l.zero = 3;
  CHECK(settings("torchtitan", prediction(l, 8), "deepseek-v3").text.find("expert_parallel_degree 8") !=
        std::string::npos);
  l.expert_tensor = 0, l.expert = 4;
  CHECK(settings("torchtitan", prediction(l, 8), "deepseek-v3").cannot.find("(etp=1)") != std::string::npos);
  l.expert_tensor = 1, l.expert = 1;
  CHECK(settings("torchtitan", prediction(l, 8), "deepseek-v3").cannot.find("(etp=tp)") != std::string::npos);
}

TEST_CASE("launch settings: DistributedDataParallel says what it holds, and cannot where that does not fit") {
  Layout l;
  l.data = 8, l.micro_batch = 1;
  LayoutPrediction p = prediction(l, 1);
  const std::string model = "gpt:hidden=1024,layers=24,heads=16,seq=1024,dtype=bf16";
  const Workload w = workload(model + ",kernels=megatron");
  p.memory = {Bytes(2e9), Bytes(2e9), Bytes(12e9 / 8), Bytes(1e9), Bytes(50 * 1024 * 1024), Bytes(1e9)};
  const auto ddp = [&](std::string_view framework, Bytes memory) {
    return launch_settings(w, p, framework, memory).front();
  };
  CHECK(ddp({}, Bytes(80e9)).text.find("# a device holds ") != std::string::npos);
  // Where the answer says what PyTorch's own kernels hold, the settings do not, and none are given for too large ones.
  const auto beside = [&](const char* framework, double held) {
    const OwnKernels own{framework, Seconds(1), Bytes(held)};
    return launch_settings(w, p, {}, Bytes(80e9), {&own, 1});
  };
  CHECK(beside("pytorch", 70e9).front().text.find("# a device holds ") == std::string::npos);
  CHECK(beside("pytorch", 70e9).front().cannot.empty());
  const OwnKernels above{"pytorch", Seconds(1), Bytes(75e9)};
  CHECK(
      contains(launch_settings(w, p, {}, Bytes(80e9), {&above, 1}, Bytes(72e9)).front().cannot, "searches plan with"));
  CHECK(launch_settings(w, p, {}, Bytes(80e9), {&above, 1}, Bytes(76e9)).front().cannot.empty());
  for (const std::string_view framework : {"pytorch", "deepspeed"}) {
    const auto title = [&](const LaunchSettings& s) {
      return s.framework == (framework == "pytorch" ? "PyTorch DDP" : "DeepSpeed");
    };
    const std::vector<LaunchSettings> all = beside(framework.data(), 90e9);
    // Without ZeRO, DeepSpeed cannot add gradients up in four bytes at all.
    CHECK(std::ranges::find_if(all, title)->cannot ==
          (framework == "deepspeed"
               ? "without ZeRO it adds gradients up in the type of the weights (gradients=bf16 in the model)"
               : "by its own kernels a device holds 83.8 GiB of 74.5 GiB (--framework pytorch)"));
    CHECK(std::ranges::find(all, "Megatron-LM", &LaunchSettings::framework)->cannot.empty());
  }
  CHECK(ddp({}, Bytes(10e9)).cannot.find("it holds more than the 9.3 GiB of a device") != std::string::npos);
  CHECK(ddp({}, Bytes(0)).cannot.empty());
  // Where the prediction was asked for this framework, its memory is what is held.
  CHECK(ddp("pytorch", Bytes(10e9)).cannot.empty());
  CHECK(memory_options_of("pytorch").autocast);
  CHECK_FALSE(memory_options_of("").autocast);
  CHECK_FALSE(memory_options_of("megatron").autocast);
}

TEST_CASE("launch settings: Megatron-LM's model of grouped queries and gated MLP") {
  const std::string model = "llama:hidden=4096,layers=32,heads=32,seq=4096,kv_heads=8,ffn=14336";
  const std::string text = settings("Megatron-LM", prediction(layout(4, 2, 2), 4), model).text;
  CHECK(argument(text, "num-query-groups") == 8);
  CHECK(argument(text, "ffn-hidden-size") == 14336);
  CHECK(contains(text, "--swiglu"));
  CHECK(argument(text, "kv-channels") == -1);
  const auto of = [](const char* named) { return settings("Megatron-LM", prediction(layout(4, 2, 2), 4), named).text; };
  CHECK(argument(of("qwen3-32b"), "kv-channels") == 128);
  Layout divided = layout(4, 2, 2);
  divided.sequence_parallel = true;
  const std::string mixture = settings("Megatron-LM", prediction(divided, 4), "mixtral-8x7b").text;
  CHECK(contains(mixture, "--moe-token-dispatcher-type alltoall"));
  CHECK(contains(mixture, "--untie-embeddings-and-output-weights"));
  CHECK(!contains(of("llama3.2-1b"), "--untie-embeddings"));
}

TEST_CASE("launch settings: torchtitan's switches take no value, and Megatron-LM drops what the model does") {
  Layout l = layout(2, 4, 1);
  l.zero = 3, l.sequence_parallel = true, l.overlap_tensor = TensorOverlap::products;
  const auto titan = [&](const std::string& kernels) {
    return settings("torchtitan", prediction(l, 4), "llama3-8b:kernels=" + kernels);
  };
  CHECK(contains(titan("compiled").text, "--compile.enable_async_tensor_parallel"));
  CHECK(!contains(titan("compiled").text, "enable_async_tensor_parallel true"));
  CHECK(contains(titan("eager").cannot, "kernels=compiled"));
  CHECK(contains(settings("Megatron-LM", prediction(l, 4), "llama3-8b").text, "--tp-comm-overlap"));
  l.overlap_tensor = TensorOverlap::sums;
  CHECK(contains(titan("compiled").cannot, "overlap_tp=products"));
  CHECK(!contains(settings("Megatron-LM", prediction(l, 4), "llama3-8b").text, "--tp-comm-overlap"));
  const auto megatron = [](const std::string& model) {
    return settings("Megatron-LM", prediction(layout(4, 2, 2), 4), model).text;
  };
  CHECK(contains(megatron("llama3-8b"), "--hidden-dropout 0 "));
  CHECK(contains(megatron("llama3-8b:dropout=0.2"), "--attention-dropout 0.2 "));
  CHECK(!contains(megatron("gpt:hidden=1024,layers=24,heads=16,seq=512"), "dropout"));  // its own
}

TEST_CASE("launch settings: 8-bit linear layers, windows and optimizers, where a framework has them") {
  const std::string model =
      "llama:hidden=1024,layers=24,heads=16,seq=1024,attention=flash,causal=yes,window=128,full_every=2,linear=f8,"
      "optimizer=muon";
  const auto text = [&](const char* framework, int zero) {
    Layout l = layout(1, 8, 1);
    l.zero = zero;
    return settings(framework, prediction(l, 4), model);
  };
  const std::string megatron = text("Megatron-LM", 1).text;
  for (const char* part :
       {"--fp8-format hybrid", "--optimizer muon", "--window-size 127,0", "--window-attn-skip-freq 2"})
    CHECK(contains(megatron, part));
  CHECK(contains(text("PyTorch FSDP", 3).text, "convert_to_float8_training(model)"));
  CHECK(contains(text("PyTorch FSDP", 3).text, "torch.optim.Muon("));
  CHECK(contains(text("torchtitan", 3).cannot, "knows Adam alone"));
  CHECK(contains(text("Megatron-LM", 2).cannot, "(zero=1)"));
  Layout sharded = layout(1, 8, 1);
  sharded.zero = 3;
  const std::string adams = "llama:hidden=1024,layers=24,heads=16,seq=1024,linear=f8";
  CHECK(contains(settings("torchtitan", prediction(sharded, 4), adams).text, "# with its float8 converter"));
  CHECK(contains(text("DeepSpeed", 3).cannot, "8-bit linear layers"));
  CHECK(contains(settings("PyTorch pipelining", prediction(layout(1, 2, 4), 8), model).text,
                 "convert_to_float8_training(part)"));
  CHECK(contains(settings("PyTorch DDP", prediction(layout(1, 8, 1), 4), model).text, "torch.optim.Muon("));
  CHECK(contains(text("Horovod", 0).cannot, "8-bit linear layers"));
  const std::string plain = settings("Megatron-LM", prediction(layout(1, 8, 1), 4)).text;
  for (const char* part : {"--fp8-format", "--optimizer", "--window-size"}) CHECK_FALSE(contains(plain, part));
}

TEST_CASE("launch settings: Transformer Engine exchanges keys and values of some models in some ways") {
  const std::string model = "llama:hidden=1024,layers=24,heads=16,seq=4096,attention=flash,causal=yes";
  const auto refused = [&](const std::string& words, ContextExchange way) {
    Layout l = layout(1, 4, 1);
    l.context = 2, l.zero = 1, l.context_exchange = way;
    return settings("Megatron-LM", prediction(l, 4), model + words).cannot;
  };
  using enum ContextExchange;
  for (const ContextExchange way : {ring, all_gather, all_to_all}) CHECK(refused("", way).empty());
  const std::string windows = ",window=1024", latent = ",kv_rank=512", sinks = ",experts=8,clamp=yes";
  CHECK(contains(refused(windows, ring), "windows with cp_comm=allgather or a2a only"));
  CHECK(refused(windows, all_to_all).empty());
  CHECK(refused(latent, ring).empty());
  CHECK(contains(refused(latent, all_gather), "latent attention with cp_comm=p2p only"));
  CHECK(contains(refused(sinks, all_gather), "sinks with cp_comm=a2a only"));
  CHECK(refused(sinks, all_to_all).empty());
}

TEST_CASE("launch settings: programs number ranks in their own order") {
  Layout l = layout(2, 4, 2);
  l.zero = 1;
  const auto of = [&](const char* framework) { return settings(framework, prediction(l, 4)); };
  CHECK_FALSE(contains(of("Megatron-LM").text, "--use-tp-pp-dp-mapping"));
  using enum Dimension;
  l.order = {tensor, pipeline, context, data};  // without context parallelism that is tp-pp-dp
  CHECK(contains(of("Megatron-LM").text, "--use-tp-pp-dp-mapping"));
  CHECK(contains(of("torchtitan").cannot, "order="));
  l.order = {pipeline, data, context, tensor};
  CHECK(contains(of("Megatron-LM").cannot, "order="));
}

TEST_CASE("launch settings: how a context group exchanges, and recomputation by operators") {
  const std::string model = "llama:hidden=1024,layers=24,heads=16,seq=4096,attention=flash,causal=yes";
  Layout l = layout(1, 4, 1);
  l.context = 2, l.zero = 3;
  const auto of = [&](const char* framework) { return settings(framework, prediction(l, 4), model); };
  CHECK_FALSE(contains(of("Megatron-LM").text, "--cp-comm-type"));
  l.context_exchange = ContextExchange::all_to_all;
  CHECK(contains(of("torchtitan").cannot, "cp_comm=a2a"));
  CHECK(contains(of("DeepSpeed").cannot, "around its attention"));
  l.zero = 1;
  CHECK(contains(of("Megatron-LM").text, "--cp-comm-type a2a"));
  l.context_exchange = ContextExchange::all_gather;
  CHECK(contains(of("Megatron-LM").text, "--cp-comm-type all_gather"));  // Transformer Engine's word
  l.zero = 3;
  l.recomputation = Recomputation::operators;
  CHECK(contains(of("torchtitan").text, "activation_checkpoint:selective"));
  CHECK(contains(of("Megatron-LM").cannot, "recompute=op"));
  l.context = 1, l.context_exchange = ContextExchange::ring;
  CHECK(contains(of("PyTorch FSDP").cannot, "create_selective_checkpoint_contexts"));
}

TEST_CASE("launch settings: Megatron-LM's programs by model, its buckets in elements") {
  LayoutPrediction p = prediction(layout(1, 8, 1), 1);
  CHECK(contains(settings("Megatron-LM", p).text, "pretrain_gpt.py \\\n--num-layers"));
  CHECK(contains(settings("Megatron-LM", p, "bert:hidden=1024,layers=24,heads=16,seq=512").text, "pretrain_bert.py"));
  CHECK(
      contains(settings("Megatron-LM", p, "llama:hidden=4096,layers=32,heads=32,seq=4096").text, "--untie-embeddings"));
  // Of a standard plan its own, larger ones; else the plan's, of gradients in half precision.
  CHECK(argument(settings("Megatron-LM", p).text, "ddp-bucket-size") == -1);
  p.plan.gradients = plan_spec_of("ddp(bucket=100 MiB)");
  CHECK(argument(settings("Megatron-LM", p).text, "ddp-bucket-size") == 100 * 1024 * 1024 / 2);
}

TEST_CASE("launch settings: a framework that sends gradients its own way says so") {
  LayoutPrediction p = prediction(layout(1, 8, 1), 1);
  CHECK_FALSE(contains(settings("Megatron-LM", p).text, "not by"));
  p.plan.gradients = plan_spec_of("dear(bucket=8 MiB)");
  CHECK(contains(settings("Megatron-LM", p).text, "not by dear(bucket=8 MiB)"));
  CHECK(argument(settings("Megatron-LM", p).text, "ddp-bucket-size") == -1);
  CHECK(contains(settings("DeepSpeed", p).cannot, "not by dear(bucket=8 MiB)"));
  CHECK(contains(settings("Horovod", p).text, "not by dear(bucket=8 MiB)"));
  p.plan.gradients = plan_spec_of("horovod");
  CHECK_FALSE(contains(settings("Horovod", p).text, "not by"));
}

TEST_CASE("launch settings: divided gradients are reduced in every micro-batch, others in the last") {
  for (const int zero : {2, 3}) {
    Layout l = layout(1, 8, 1);
    l.zero = zero;
    CHECK_FALSE(contains(settings("PyTorch FSDP", prediction(l, 4)).text, "else model.no_sync"));
  }
  CHECK(contains(settings("PyTorch DDP", prediction(layout(1, 8, 1, 1), 4)).text, "of 1 sample a device"));
}

TEST_CASE("launch settings: DeepSpeed's configuration is JSON and its batches multiply") {
  for (const int zero : {0, 1, 2, 3})
    for (const std::int64_t pipeline : {1, 4})
      for (const std::int64_t micro_batches : {1, 8}) {
        Layout l = layout(1, 6, pipeline, 3);
        l.zero = zero;
        if (zero == 1 || zero == 2)
          CHECK(contains(settings("DeepSpeed", prediction(l, micro_batches)).cannot, "overlap_gather=off"));
        l.overlap_gather = false;
        if (pipeline > 1) {
          CHECK(contains(settings("DeepSpeed", prediction(l, micro_batches)).cannot,
                         zero > 1 ? "ZeRO" : "overlap_dp=off"));
          l.overlap_gradients = false;
        }
        LayoutPrediction p = prediction(l, micro_batches);
        const ModelShape shape = model_shape_of("gpt:hidden=1024,layers=24,heads=16,seq=1024");
        if (pipeline > 1) {
          p.stage_units = usual_stages(shape, pipeline);
          CHECK(contains(settings("DeepSpeed", p).cannot, zero > 1 ? "ZeRO" : "by their parameters"));
          p.stage_units = usual_stages(shape, StageRule::by_parameters, pipeline);
        }
        const LaunchSettings s = settings("DeepSpeed", p);
        if (zero > 1 && pipeline > 1) {
          CHECK(contains(s.cannot, "ZeRO"));
          continue;
        }
        REQUIRE(s.cannot.empty());
        const nlohmann::json config = configuration(s);
        CHECK((s.in_code == "PipelineModule(..., num_stages=4)") == (pipeline > 1));
        CHECK(config["train_batch_size"] == 3 * micro_batches * 6);
        CHECK(config["train_batch_size"].get<int>() == config["train_micro_batch_size_per_gpu"].get<int>() *
                                                           config["gradient_accumulation_steps"].get<int>() * 6);
        CHECK(config["zero_optimization"]["stage"] == zero);
        CHECK(config.contains("pipeline") == (pipeline > 1));
        CHECK(config["fp16"]["enabled"] == true);
        // 25 MiB of gradients in half precision.
        CHECK(config["zero_optimization"]["reduce_bucket_size"] == 25 * 1024 * 1024 / 2);
      }
  // AutoTP: the data-parallel identity is that of the replicas.
  Layout divided = layout(2, 4, 1);
  const nlohmann::json tensor = configuration(settings("DeepSpeed", prediction(divided, 1)));
  CHECK(tensor["tensor_parallel"]["autotp_size"] == 2);
  CHECK_FALSE(tensor.contains("train_batch_size"));  // it would have to be that of all devices
  CHECK(tensor["train_micro_batch_size_per_gpu"] == 2);
  divided.sequence_parallel = true;
  CHECK_FALSE(settings("DeepSpeed", prediction(divided, 1)).cannot.empty());
}

TEST_CASE("launch settings: what DeepSpeed's configuration does not reach is told beside it") {
  Layout l = layout(1, 8, 1);
  l.zero = 3, l.recomputation = Recomputation::full;
  const auto code = [&] { return settings("DeepSpeed", prediction(l, 1)).in_code; };
  CHECK(contains(code(), "deepspeed.checkpointing.checkpoint around every block (of Hugging Face's"));
  l.recomputed_together = 2;
  CHECK(code().ends_with("around 2 blocks at a time"));
  l.recomputation = Recomputation::none, l.recomputed_together = 1;
  CHECK(code().empty());
  CHECK(settings("Megatron-LM", prediction(l, 1)).in_code.empty());
}

TEST_CASE("launch settings: DeepSpeed's optimizers by stage and type of gradients") {
  const std::string bf16 = "llama:hidden=1024,layers=24,heads=16,seq=1024,kernels=deepspeed";
  const auto why = [&](int zero, std::int64_t pipeline, const std::string& more) {
    Layout l = layout(1, 8, pipeline);
    l.zero = zero, l.overlap_gather = false, l.overlap_gradients = pipeline == 1;
    return settings("DeepSpeed", prediction(l, 4), bf16 + more).cannot;
  };
  CHECK(contains(why(0, 1, ",gradients=f32"), "gradients=bf16"));
  CHECK(contains(why(1, 1, ",gradients=f32"), "BF16_Optimizer"));
  CHECK(why(2, 1, ",gradients=f32").empty());
  CHECK(contains(why(0, 4, ""), "zero=1"));
  for (const int zero : {0, 1, 2, 3}) CHECK(why(zero, 1, "").empty());
  CHECK(why(1, 4, "").empty());
  CHECK(why(1, 1, ",dtype=f16,gradients=f32").empty());
}

TEST_CASE("launch settings: PyTorch's wrappers and Horovod replicate or shard, nothing else") {
  Layout l = layout(1, 8, 1);
  CHECK(contains(settings("PyTorch DDP", prediction(l, 1)).text, "DistributedDataParallel(model)"));
  CHECK(contains(settings("PyTorch DDP", prediction(l, 4)).text, "no_sync"));
  CHECK(contains(settings("Horovod", prediction(l, 4)).text, "backward_passes_per_step=4"));
  CHECK(contains(settings("PyTorch FSDP", prediction(l, 1)).cannot, "zero=0"));
  l.zero = 3;
  CHECK(contains(settings("PyTorch FSDP", prediction(l, 1)).text, "reshard_after_forward=True"));
  CHECK_FALSE(contains(settings("PyTorch FSDP", prediction(l, 1)).text, "prefetch"));
  CHECK(contains(settings("torchtitan", prediction(l, 1)).cannot, "bfloat16"));
  CHECK(contains(settings("torchtitan", prediction(l, 1), "llama:hidden=1024,layers=24,heads=16,seq=1024").text,
                 "fsdp_reshard_after_forward always"));
  CHECK_FALSE(settings("PyTorch DDP", prediction(l, 1)).cannot.empty());
  CHECK_FALSE(settings("Horovod", prediction(l, 1)).cannot.empty());
  l.units_in_flight = 1;
  CHECK(contains(settings("PyTorch FSDP", prediction(l, 1)).cannot, "in_flight=2"));
  l.units_in_flight = 3;
  CHECK(contains(settings("PyTorch FSDP", prediction(l, 1)).text,
                 "set_modules_to_forward_prefetch(blocks[i + 1:i + 1 + 2])"));
  l.zero = 2;
  CHECK(contains(settings("PyTorch FSDP", prediction(l, 1)).text, "reshard_after_forward=False"));
  l.zero = 1;
  CHECK(contains(settings("PyTorch DDP", prediction(l, 1)).cannot, "ZeroRedundancyOptimizer sums whole"));
  CHECK_FALSE(contains(settings("PyTorch FSDP", prediction(l, 1)).text, "set_requires_gradient_sync"));
  Layout whole = l;
  whole.whole_tensors = true;
  const std::string dealt = settings("PyTorch DDP", prediction(whole, 4)).text;
  CHECK(contains(dealt, "ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.AdamW"));
  CHECK(contains(dealt, "parameters_as_bucket_view=True"));  // one broadcast a rank, as predicted
  CHECK(contains(dealt, "model.no_sync()"));
  CHECK_FALSE(contains(dealt, "process_group"));
  for (const char* other : {"PyTorch FSDP", "Megatron-LM", "DeepSpeed", "torchtitan"})
    CHECK_MESSAGE(!settings(other, prediction(whole, 4)).cannot.empty(), other);
  const std::string summed_once = settings("PyTorch FSDP", prediction(l, 4)).text;
  CHECK(contains(summed_once, "model.set_requires_gradient_sync(i == 3)"));
  CHECK(contains(summed_once, "model.set_reshard_after_backward(i == 3)"));
  CHECK(contains(summed_once, "reshard_after_forward=False"));
  CHECK_FALSE(contains(summed_once, "no_sync"));
  l.overlap_gather = false;
  CHECK(contains(settings("PyTorch FSDP", prediction(l, 1)).cannot, "overlap_gather=on"));
  const LaunchSettings staged = settings("PyTorch pipelining", prediction(layout(1, 2, 4), 16));
  CHECK(contains(staged.text, "Schedule1F1B(stage, n_microbatches=16"));
  CHECK_FALSE(settings("PyTorch DDP", prediction(layout(1, 2, 4), 16)).cannot.empty());
}

TEST_CASE("launch settings: the precision that was predicted is set") {
  const std::string bf16 = "llama:hidden=1024,layers=24,heads=16,seq=1024", half = bf16 + ",gradients=bf16";
  Layout l = layout(1, 8, 1);
  const std::string ddp = settings("PyTorch DDP", prediction(l, 1), bf16).text;
  CHECK(contains(ddp, "torch.autocast(\"cuda\", dtype=torch.bfloat16)"));
  CHECK_FALSE(contains(ddp, "compress_hook"));
  CHECK(contains(settings("PyTorch DDP", prediction(l, 4), half).text, "bf16_compress_hook"));
  CHECK(contains(settings("PyTorch DDP", prediction(l, 4), bf16 + ",dtype=f16").text, "scaler.scale(loss / 4)"));
  Layout sharded = l;
  sharded.zero = 3;
  const auto fsdp = [&](std::int64_t micro_batches, const std::string& more) {
    return settings("PyTorch FSDP", prediction(sharded, micro_batches), bf16 + more).text;
  };
  CHECK(contains(fsdp(1, ",dtype=f16"), "scaler.scale(loss_of(model, batch)).backward()\nscaler.step(optimizer)"));
  CHECK(contains(fsdp(4, ",dtype=f16"), "scaler.scale(loss / 4).backward()"));
  CHECK_FALSE(contains(fsdp(4, ""), "scaler"));
  CHECK_FALSE(contains(settings("PyTorch DDP", prediction(l, 4), bf16 + ",dtype=f32").text, "autocast"));
  CHECK(contains(settings("Megatron-LM", prediction(l, 1), half).text, "--grad-reduce-in-bf16"));
  CHECK_FALSE(contains(settings("Megatron-LM", prediction(l, 1), bf16).text, "--grad-reduce-in-bf16"));
  l.zero = 3;
  CHECK(contains(settings("PyTorch FSDP", prediction(l, 1), bf16).text,
                 "MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)"));
  CHECK(contains(settings("PyTorch FSDP", prediction(l, 1), half).text, "reduce_dtype=torch.bfloat16"));
  CHECK(contains(settings("torchtitan", prediction(l, 1), half).cannot, "float32"));
  CHECK(contains(settings("torchtitan", prediction(l, 1), bf16).text, "mixed_precision_param bfloat16"));
  CHECK(contains(settings("torchtitan", prediction(l, 1), bf16 + ",dtype=f32").text, "mixed_precision_param float32"));
  const nlohmann::json one = configuration(settings("DeepSpeed", prediction(l, 1), bf16));
  CHECK(one["data_types"]["grad_accum_dtype"] == "fp32");
  CHECK(one["communication_data_type"] == "fp32");
  const nlohmann::json other = configuration(settings("DeepSpeed", prediction(l, 1), half));
  CHECK(other["communication_data_type"] == "bf16");
}

TEST_CASE("launch settings: a traced job says its precision by its activations, and nothing of its shape") {
  Workload traced = workload("llama:hidden=1024,layers=24,heads=16,seq=1024");
  traced.hidden = 1024;
  traced.shape.reset();
  const auto text_of_framework = [&](std::string_view framework) {
    for (const LaunchSettings& s : launch_settings(traced, prediction(layout(1, 8, 1), 1)))
      if (s.framework == framework) return s.text;
    return std::string();
  };
  CHECK(contains(text_of_framework("Megatron-LM"), "--bf16"));
  CHECK_FALSE(contains(text_of_framework("Megatron-LM"), "--num-layers"));
  CHECK(contains(text_of_framework("torchtitan"), "mixed_precision_param bfloat16"));
  traced.dtype = DataType::f32;
  CHECK_FALSE(contains(text_of_framework("Megatron-LM"), "--bf16"));
  CHECK(contains(text_of_framework("torchtitan"), "mixed_precision_param float32"));
}

TEST_CASE("launch settings: DistributedDataParallel is for gradients that travel as it sends them") {
  LayoutPrediction p = prediction(layout(1, 8, 1), 1);
  CHECK(contains(settings("PyTorch DDP", p).text, "model = DistributedDataParallel(model)"));
  p.plan.gradients = plan_spec_of("horovod");
  CHECK(contains(settings("PyTorch DDP", p).cannot, "not by horovod"));
  CHECK_FALSE(settings("Horovod", p).text.empty());
}

TEST_CASE("launch settings: a framework that is asked for answers alone, and says why it cannot as its settings do") {
  Layout l = layout(2, 4, 1);
  const Workload w = workload("llama:hidden=1024,layers=24,heads=16,seq=1024");
  const LayoutPrediction p = prediction(l, 4);
  CHECK(launch_settings(w, p, "pytorch").size() == 3);
  for (const std::string& framework : launch_frameworks()) {
    const std::vector<LaunchSettings> all = launch_settings(w, p, framework);
    REQUIRE_FALSE(all.empty());
    const bool runs = std::any_of(all.begin(), all.end(), [](const LaunchSettings& s) { return s.cannot.empty(); });
    CHECK(why_not_launched(w, p.plan, p.micro_batches, framework).empty() == runs);
  }
  CHECK(why_not_launched(w, p.plan, p.micro_batches).empty());  // Megatron-LM does
}

TEST_CASE("ZeRO within groups is what frameworks call hybrid sharding, and refused where theirs is another one") {
  const std::string llama = "llama:hidden=1024,layers=24,heads=16,seq=1024,vocab=32000,attention=flash,causal=yes";
  Layout l = layout(1, 32, 1);
  l.zero = 3, l.shard = 8;
  const std::string titan = settings("torchtitan", prediction(l, 1), llama).text;
  CHECK(argument(titan, "parallelism.data_parallel_replicate_degree") == 4);
  CHECK(argument(titan, "parallelism.data_parallel_shard_degree") == 8);
  CHECK(contains(settings("torchtitan", prediction(l, 4), llama).cannot, "sums gradients across the groups in every"));
  const std::string fsdp = settings("PyTorch FSDP", prediction(l, 4), llama).text;
  CHECK(contains(fsdp, "init_device_mesh(\"cuda\", (4, 8), mesh_dim_names=(\"replicate\", \"shard\"))"));
  CHECK(contains(fsdp, "set_requires_all_reduce(i == 3)"));
  CHECK_FALSE(contains(settings("PyTorch FSDP", prediction(l, 1), llama).text, "set_requires_all_reduce"));
  CHECK(contains(settings("DeepSpeed", prediction(l, 4), llama).cannot, "MiCS"));
  Layout plus = layout(1, 32, 1);
  plus.zero = 3, plus.backward_shard = 8;
  const std::string copies = settings("PyTorch FSDP", prediction(plus, 1), llama).text;
  CHECK(contains(copies, "fully_shard(block, mesh=mesh, mp_policy=policy, reshard_after_forward=8)"));
  CHECK(contains(copies, "fully_shard(model, mesh=mesh, mp_policy=policy)"));
  CHECK(contains(settings("torchtitan", prediction(plus, 1), llama).cannot, "hpz="));
  CHECK(contains(settings("Megatron-LM", prediction(plus, 1), llama).cannot, "hpz="));
  plus.quantized_weights = plus.quantized_gradients = true;
  const std::string deepspeed = settings("DeepSpeed", prediction(plus, 1), llama).text;
  CHECK(contains(deepspeed, "\"zero_hpz_partition_size\": 8"));
  CHECK(contains(deepspeed, "\"zero_quantized_weights\": true"));
  CHECK(contains(deepspeed, "\"zero_quantized_gradients\": true"));
  CHECK(contains(settings("PyTorch FSDP", prediction(plus, 1), llama).cannot, "qwz=on"));
  for (const int zero : {1, 2, 3}) {
    l.zero = zero;
    CHECK(argument(settings("Megatron-LM", prediction(l, 4), llama).text, "num-distributed-optimizer-instances") == 4);
  }
  l.zero = 1;
  CHECK(contains(settings("PyTorch DDP", prediction(l, 4), llama).cannot, "sums whole"));
  l.shard = 0;
  CHECK_FALSE(contains(settings("Megatron-LM", prediction(l, 4), llama).text, "num-distributed-optimizer-instances"));
}

TEST_CASE(
    "A zero-bubble schedule splits backward passes, which checkpoints, compiled blocks and DDP's hooks do not go "
    "with") {
  Layout l = layout(1, 2, 4);
  l.chunks = 2, l.schedule = pipeline_schedule("zb_v"), l.overlap_gradients = false;
  const std::string model = "gpt2-xl:kernels=eager";
  const std::string text = settings("PyTorch pipelining", prediction(l, 16), model).text;
  CHECK(contains(text, "ScheduleZBVZeroBubble(stages, n_microbatches=16"));
  CHECK(contains(text, "if i == 0 else 7 - mesh"));
  CHECK(contains(text, "all_reduce(p.grad, torch.distributed.ReduceOp.AVG, group=mesh[\"dp\"]"));
  CHECK_FALSE(contains(text, "DistributedDataParallel"));
  l.overlap_gradients = true;
  CHECK(contains(settings("PyTorch pipelining", prediction(l, 16), model).cannot, "overlap_dp=off"));
  l.overlap_gradients = false, l.recomputation = Recomputation::full;
  CHECK(contains(settings("PyTorch pipelining", prediction(l, 16), model).cannot, "recompute=none"));
  l.recomputation = Recomputation::none;
  CHECK(
      contains(settings("PyTorch pipelining", prediction(l, 16), "gpt2-xl:kernels=compiled").cannot, "kernels=eager"));
  l.schedule = nullptr, l.overlap_gradients = true;
  CHECK(contains(settings("PyTorch pipelining", prediction(l, 16), model).text,
                 "PipelineStage(DistributedDataParallel("));
}

TEST_CASE("torchtitan is told how many layers a stage has only where that makes the layout's stages") {
  const auto of = [](std::int64_t pipeline, std::int64_t chunks, const std::string& layers, int zero = 1,
                     bool beside = false) {
    Layout l = layout(1, 2, pipeline);
    l.zero = zero, l.chunks = chunks, l.overlap_gradients = pipeline == 1 || beside;
    return settings("torchtitan", prediction(l, 16),
                    "llama:hidden=1024,layers=" + layers +
                        ",heads=8,seq=1024,vocab=32000,attention=flash,causal=yes,"
                        "kernels=compiled");
  };
  CHECK_FALSE(contains(of(4, 1, "32").text, "layers_per_stage"));
  CHECK_FALSE(contains(of(4, 2, "32").text, "layers_per_stage"));
  CHECK(argument(of(4, 3, "32").text, "parallelism.pipeline_parallel_layers_per_stage") == 3);  // 34 in 12 threes
  CHECK(contains(of(8, 3, "32").cannot, "no number of layers a stage makes 24 stages of 34"));
  CHECK(contains(of(4, 2, "32", 2).cannot, "whole gradients until a stage's last micro-batch (zero=1)"));
  CHECK(contains(of(1, 1, "32").cannot, "reduces gradients in every micro-batch"));
  CHECK(contains(of(4, 2, "32", 1, true).cannot, "behind a stage's last backward pass, not beside it"));
}

TEST_CASE("a program's settings are printed where its own stages are those that were predicted") {
  const auto why = [](const std::string& framework, const std::string& kernels, const std::string& stages) {
    const std::string model =
        "gpt:hidden=1024,layers=40,heads=16,seq=512,vocab=100000,attention=flash,dtype=bf16,gradients=" +
        std::string(framework == "DeepSpeed" ? "bf16" : "f32") + kernels;
    const std::string gathers = framework == "DeepSpeed" ? ", overlap_gather=off" : "";
    const Layout l =
        layout_plan_of("layout(dp=1, pp=4, mb=1, zero=1, overlap_dp=off" + gathers + stages + ")/ddp").layout;
    LayoutPrediction p = prediction(l, 16);
    p.stage_units = l.stage_units.empty() ? usual_stages(model_shape_of(model), 4) : l.stage_units;
    const std::string cannot = settings(framework, p, model).cannot;
    // Without what a prediction knows of stages the layout tells.
    CHECK(contains(why_not_launched(workload(model), p.plan, 16, framework == "DeepSpeed" ? "deepspeed" : "torchtitan"),
                   "stages=") == contains(cannot, "stages="));
    return cannot;
  };
  CHECK(contains(why("DeepSpeed", "", ""), "by their parameters"));
  CHECK(contains(why("DeepSpeed", ",kernels=eager", ""), "by their parameters"));
  CHECK(why("DeepSpeed", ",kernels=deepspeed", "").empty());
  CHECK(contains(why("DeepSpeed", ",kernels=deepspeed", ", stages=11+10+10+11"), "by their parameters"));
  CHECK(why("DeepSpeed", "", ", stages=7+14+14+7").empty());
  CHECK(contains(why("torchtitan", "", ""), "equal numbers of layers"));
  CHECK_FALSE(contains(why("torchtitan", ",kernels=compiled", ""), "equal numbers of layers"));
  CHECK_FALSE(contains(why("torchtitan", "", ", stages=11+11+10+10"), "equal numbers of layers"));
  CHECK(contains(why("torchtitan", ",kernels=compiled", ", stages=10+11+11+10"), "equal numbers of layers"));
}

TEST_CASE("launch settings: a limited gate is GPT-OSS's, and products of experts add a bias") {
  const std::string gpt_oss = settings("Megatron-LM", prediction(layout(1, 8, 1), 4), "gpt-oss-20b").text;
  CHECK(contains(gpt_oss, "--quick-geglu"));
  CHECK(contains(gpt_oss, "--activation-func-clamp-value 7.0"));
  CHECK_FALSE(contains(gpt_oss, "--swiglu"));
  CHECK_FALSE(contains(gpt_oss, "--disable-bias-linear"));
  const std::string plain = settings("Megatron-LM", prediction(layout(1, 8, 1), 4), "mixtral-8x7b").text;
  CHECK(contains(plain, "--swiglu"));
  CHECK(contains(plain, "--disable-bias-linear"));
}

TEST_CASE("launch settings: what is compiled follows the model") {
  Layout l;
  l.data = 8, l.zero = 2, l.micro_batch = 1;
  const auto titan = [&](const std::string& words) {
    return settings("torchtitan", prediction(l, 1), "llama3-8b:" + words).text;
  };
  CHECK(contains(settings("torchtitan", prediction(l, 4), "llama3-8b").cannot, "frees the weights"));
  CHECK(contains(titan("seq=4096"), "--compile.enable"));
  CHECK_FALSE(contains(titan("seq=4096"), "components"));
  CHECK(contains(titan("kernels=compiled,loss=eager"), "--compile.enable \\\n--compile.components model"));
  CHECK(contains(titan("kernels=eager,loss=compiled"), "--compile.enable \\\n--compile.components loss"));
  CHECK_FALSE(contains(titan("kernels=eager"), "compile"));
  CHECK(contains(titan("loss_chunks=8"), "ChunkedLossWrapper of 8 chunks"));
  CHECK(contains(settings("Megatron-LM", prediction(layout(1, 8, 1), 4), "llama3-8b:loss_chunks=8").cannot, "at once"));
  const std::string fsdp = settings("PyTorch FSDP", prediction(l, 4), "llama3-8b:kernels=compiled").text;
  CHECK(contains(fsdp, "block.compile()"));
  CHECK(
      contains(settings("PyTorch FSDP", prediction(l, 4), "llama3-8b:loss_chunks=8").text, "8 parts of the sequence"));
  CHECK(contains(fsdp, "model.set_reshard_after_backward(i == 3)"));
  CHECK(contains(settings("Megatron-LM", prediction(layout(1, 8, 1), 4), "llama3-8b:loss=compiled").cannot, "a logit"));
  l.zero = 0, l.pipeline = 2, l.data = 4;
  const auto stages = [&](const char* words) { return settings("PyTorch pipelining", prediction(l, 4), words); };
  CHECK(contains(stages("llama3-8b:kernels=compiled").text, "for block in part.blocks:\n    block.compile()"));
  CHECK(contains(stages("llama3-8b:kernels=compiled,gradients=bf16").cannot, "float32"));
  l.pipeline = 1, l.data = 8;
  CHECK(contains(settings("Horovod", prediction(l, 4), "llama3-8b:kernels=compiled").text, "block.compile()"));
  CHECK(contains(settings("Horovod", prediction(l, 4), "llama3-8b:kernels=eager,gradients=bf16").cannot, "float32"));
}
