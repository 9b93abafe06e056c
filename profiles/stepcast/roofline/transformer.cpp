// Transformers: GPT (decoder with a pre-norm, Megatron-LM's kernels), BERT (encoder with a post-norm and its
// pre-training heads) and LLaMA (root-mean-square norms, rotary positions, gated MLP, no biases), each optionally with
// grouped keys and values, heads of a size of their own and with a mixture of experts in place of every MLP, or of all
// but the first few; experts that every token goes through (shared) are one MLP of their width beside the others.
//
// Multi-head latent attention (DeepSeek-AI 2024, arXiv 2405.04434, section 2.1) projects tokens to a latent vector of
// `kv_rank`, from which the keys and values of all heads follow, and to one of `q_rank` (0: none), from which queries
// do; beside `head` elements without positions queries and keys have `rope` with them, those of the keys shared by all
// heads. Tensor parallelism divides the heads; projections to latent vectors are done on every device, as Megatron-Core
// does. Not modelled of it: that a ring of context parallelism carries keys wider than values.
//
// Recomputation by operators is torchtitan's "selective" (distributed/activation_checkpoint.py): of a block's products
// with weights, in their order, every second is done again, attention never, and all between them always. Queries, keys
// and values are three products of LLaMA's and one of the others', gate and up projection two.
//
// Full recomputation of Megatron-LM and DeepSpeed does the whole block again. PyTorch's stops once all that the
// backward pass reads is there (torch.utils.checkpoint, early_stop; a compiled block leaves out what nothing reads):
// the last product of an MLP without dropout behind it, the weighted sum of experts' results, and the residual are not
// done again.
//
// Kernels of PyTorch (kernels=compiled, eager, deepspeed) differ from Megatron-LM's in what follows. Queries, keys and
// values are launched by themselves, as are gate and up projection; the products of all experts are one kernel.
// Compiled, norms, residuals and activations move what Megatron-LM's do, and the loss reads its logits twice forward,
// and reads and writes them backward. Eager, each operation goes through memory: rotary positions are some ten
// operations, the gate's activation and its product two, gradients that meet are added by themselves, and the loss is
// that of 4-byte copies. Counted from what a profiler saw of such kernels on H100 (PyTorch 2.11). loss=eager beside
// compiled blocks is what torchtitan did until April 2025 (pull request 1033), and what a script does that compiles its
// blocks alone. With loss_chunks=8 the head's product, the loss and their backward pass are done part by part of the
// sequence in the forward pass (torchtitan's ChunkedLossWrapper, components/loss.py): of the logits one part is there
// at a time, and the gradient of what goes into the head is added up in four bytes. Not modelled: that a part's product
// takes tiles of its own.
//
// Packed samples: with documents=1024 attention keeps to documents of so many tokens, as kernels of variable lengths do
// (flash_attn_varlen_func, FlexAttention's block masks, Transformer Engine's thd). Of unequal ones it is the length
// that a token finds itself in on average, the sum of squares over the sum of lengths: twice the mean where lengths are
// exponentially distributed. Not modelled: replicas whose samples have longer documents than the others', and what such
// kernels lose on short ones.
//
// With s tokens a sample, hidden size h, a heads of size d, f the MLP's inner size, e bytes an element: what an
// operator moves is counted from the kernels that Megatron-LM launches; what a block keeps are the terms of
// Korthikanti et al. 2022 (arXiv 2205.05198, section 4), s h (34 + 5 a s / h) bytes for f = 4 h and e = 2.
#include <stepcast/roofline/description.hpp>
#include <stepcast/roofline/model_shape.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

namespace stepcast {
namespace {

enum class Family { gpt, bert, llama };

/// The description in numbers.
struct Transformer {
  Family family = Family::gpt;
  std::int64_t hidden = 0, layers = 0, heads = 0, kv_heads = 0, head_size = 0, ffn = 0;
  std::int64_t sequence = 0, positions = 0, vocabulary = 0, experts = 0, experts_per_token = 0;
  std::int64_t shared = 0, dense = 0, dense_ffn = 0;                    ///< of a mixture of experts
  std::int64_t kv_rank = 0, q_rank = 0, rope = 0, value_head_size = 0;  ///< kv_rank 0: no latent attention
  std::int64_t window = 0, full_every = 0;  ///< tokens that one attends to (0: all), but in one layer of so many
  std::int64_t documents = 0;               ///< tokens of the document that one is in, of a packed sample; 0: all
  DataType dtype = DataType::f16, linear_dtype = DataType::f16, gradient_dtype = DataType::f16;
  Optimizer optimizer = Optimizer::adam;
  double dropout = 0;
  std::optional<AttentionKernel> kernel{};  ///< of fused attention, where it is named
  KernelSet kernels = KernelSet::megatron, loss = KernelSet::megatron;
  std::int64_t loss_chunks = 1;
  KernelLaunch launch = KernelLaunch::async;
  bool fused_accumulation = true;
  bool expert_bias = false,
       clamp = false;    ///< of experts: products add a bias; the gated activation's inputs are limited
  bool qk_norm = false;  ///< every head's queries and keys are normed before positions are put in
  bool flash = false, causal = false, tied = false;

  [[nodiscard]] bool biased() const { return family != Family::llama; }
  [[nodiscard]] bool gated() const { return family == Family::llama; }
  [[nodiscard]] bool eager() const { return is_eager(kernels); }
  [[nodiscard]] bool is_pytorch() const { return stepcast::is_pytorch(kernels); }
  /// Recomputation does all of a block again.
  [[nodiscard]] bool starts_over() const { return holds_whole_weights(kernels) ? drops() : true; }
  [[nodiscard]] bool drops() const { return dropout > 0; }
  /// Whether what is limited in front of an activation is a copy of its own.
  [[nodiscard]] bool clamp_copies() const { return clamp && experts > 0 && kernels != KernelSet::compiled; }
  [[nodiscard]] bool latent() const { return kv_rank > 0; }
  [[nodiscard]] std::int64_t query_size() const { return latent() ? head_size + rope : head_size; }
  [[nodiscard]] std::int64_t value_size() const { return latent() ? value_head_size : head_size; }
  /// Of the heads' results.
  [[nodiscard]] std::int64_t attention_hidden() const { return heads * value_size(); }
  [[nodiscard]] std::int64_t kv_hidden() const { return kv_heads * head_size; }
  /// Shares of the MLP's products that recomputation by operators does again.
  [[nodiscard]] double again_up() const { return gated() ? 0.5 : 0; }
  [[nodiscard]] double again_down() const { return gated() ? 0 : 1; }
  [[nodiscard]] std::int64_t up_width() const { return gated() ? 2 * ffn : ffn; }

  [[nodiscard]] double s() const { return double(sequence); }
  [[nodiscard]] double h() const { return double(hidden); }
  [[nodiscard]] double e() const { return size_of(dtype); }
  [[nodiscard]] bool casts() const { return linear_dtype != dtype; }
  [[nodiscard]] bool in_four_bits() const { return linear_dtype == DataType::f4; }
  /// Bytes of an element that only a linear layer keeps for its backward pass.
  [[nodiscard]] double kept_e() const { return size_of(linear_dtype); }
  /// Of all pairs of tokens those that a sample computes, on average over the layers. A query meets the keys of its
  /// document, one of a causal window those before it, but no more than the window.
  [[nodiscard]] double pairs() const {
    const double document = documents > 0 ? double(documents) : s();
    const double all = (causal ? 0.5 : 1) * document / s();
    if (window == 0 || double(window) >= document) return all;
    const double part = double(window) / document;
    const double within = (causal ? part * (1 - part / 2) : std::min(1.0, 2 * part)) * document / s();
    return full_every == 0 ? within : within + (all - within) / double(full_every);
  }
  [[nodiscard]] double mask() const { return drops() ? 1 : 0; }  ///< bytes an element of a dropout mask
  /// Bytes of so many elements a token.
  [[nodiscard]] Bytes per_token(double elements) const { return Bytes(s() * elements * e()); }
};

// ---- operators ----

OperatorShape weighted_product(std::string name, Division division, double m, double n, double k) {
  OperatorShape o;
  o.name = std::move(name);
  o.division = division;
  o.weighted = true;
  o.product = {1, m, n, k};
  return o;
}

/// The same, of which recomputation by operators does a share again.
OperatorShape again(OperatorShape o, double share) {
  o.again = share;
  return o;
}

OperatorShape of_module(RecomputedModule module, OperatorShape o) {
  o.module = module;
  return o;
}

OperatorShape memory_bound(std::string name, Division division, Bytes traffic, double kernels, double backward) {
  OperatorShape o;
  o.name = std::move(name);
  o.division = division;
  o.traffic = traffic;
  o.kernels = kernels;
  o.backward = backward;
  return o;
}

// The factors of the backward pass count its kernels' traffic: a norm reads input and gradient twice (once for its own
// parameters' gradients) and writes one, 5 elements for 2 forward; softmax reads two and writes one for 2; and so on.

// Eager, the gradient of its input and those of its parameters are kernels apart: 7 elements.

OperatorShape norm(const Transformer& t, std::string name) {
  return memory_bound(std::move(name), Division::sequence, t.per_token(2 * t.h()), 1, t.eager() ? 3.5 : 2.5);
}

/// Bias, dropout and the sum with the residual in one kernel; backward the mask, the bias' gradient, and the sum of the
/// two branches' gradients.
/// Eager, gradients meet at the residual and, of LLaMA's blocks, those of the products that share an input: 3 elements
/// each, as often as two meet.
OperatorShape residual(const Transformer& t, std::string name, double products = 1) {
  const Bytes mask(t.s() * t.h() * t.mask());
  const double backward = t.eager() ? 1 + (t.gated() ? products - 1 : 0) : 2;
  return memory_bound(std::move(name), Division::sequence, t.per_token(3 * t.h()) + mask,
                      t.eager() && t.drops() ? 2 : 1, backward);
}

/// Scores, softmax, dropout and the weighted sum of values, each a kernel that goes through memory.
void add_standard_attention(const Transformer& t, std::vector<OperatorShape>& out) {
  const double a = double(t.heads), s = t.s(), pairs = a * s * s;
  OperatorShape scores, context;
  scores.name = "scores", scores.product = {a, s, s, double(t.query_size())};
  context.name = "context", context.product = {a, s, double(t.value_size()), s};
  scores.division = context.division = Division::heads;
  const std::size_t first = out.size();
  out.push_back(scores);
  OperatorShape softmax = memory_bound("softmax", Division::elements, Bytes(2 * t.e() * pairs), 1, 1.5);
  if (t.family == Family::gpt && t.e() == 2) {
    // Megatron-LM's fused kernel works on four pairs of sample and head at a time (fused_softmax.py); else the scores
    // are copied to 4-byte numbers, scaled, masked, taken the softmax of, and copied back: 36 bytes for 4, 6 kernels.
    softmax.fused_multiple = 4;
    softmax.unfused_kernels = 6;
    softmax.unfused_traffic = 9;
  }
  out.push_back(softmax);
  if (t.drops())
    out.push_back(memory_bound("attention dropout", Division::elements, Bytes((2 * t.e() + 1) * pairs), 1, 1));
  out.push_back(context);
  for (std::size_t i = first; i < out.size(); ++i) {
    out[i].attention = true;
    if (out[i].product.m > 0) out[i].again = 0;
  }
  out.push_back(
      memory_bound("context layout", Division::elements, t.per_token(2 * double(t.attention_hidden())), 1, 1));
}

/// One kernel that keeps scores on the chip and does them again in its backward pass (Dao et al. 2022, arXiv
/// 2205.14135); with `causal` it skips the tiles above the diagonal, with a window those behind it, with documents
/// those of two.
void add_flash_attention(const Transformer& t, std::vector<OperatorShape>& out) {
  const double a = double(t.heads) * t.pairs(), s = t.s();
  OperatorShape scores, context;
  scores.name = "flash scores", scores.product = {a, s, s, double(t.query_size()), s * s};
  context.name = "flash context", context.product = {a, s, double(t.value_size()), s, s * s};
  scores.recomputed = true;
  context.kernels = 0;  // the same kernel
  scores.division = context.division = Division::heads;
  scores.attention = context.attention = true;
  scores.fused = context.fused = true;
  scores.again = context.again = 0;
  scores.kernel = context.kernel = t.kernel;
  out.push_back(scores);
  out.push_back(context);
}

/// To the latent vectors and from them to the heads: all columns of one input, as frameworks gather it.
void add_latent_projections(const Transformer& t, std::vector<OperatorShape>& out) {
  const double h = t.h(), a = double(t.heads), kv = double(t.kv_rank), rope = double(t.rope);
  const double queries = a * double(t.query_size());
  const auto up = [&](OperatorShape o) { out.push_back(of_module(RecomputedModule::mla_up_proj, std::move(o))); };
  if (t.q_rank > 0) {
    out.push_back(again(weighted_product("query down", Division::sequence, t.s(), double(t.q_rank), h), 0));
    up(weighted_product("query up", Division::columns, t.s(), queries, double(t.q_rank)));
  } else {
    up(again(weighted_product("query", Division::columns, t.s(), queries, h), 0));
  }
  out.push_back(weighted_product("latent down", Division::sequence, t.s(), kv + rope, h));
  up(memory_bound("latent norms", Division::sequence, t.per_token(2 * (double(t.q_rank) + kv)), t.q_rank > 0 ? 2 : 1,
                  2.5));
  // Divided as columns are; its input is gathered with that of the queries.
  up(weighted_product("latent up", Division::heads, t.s(), a * double(t.head_size + t.value_head_size), kv));
  up(memory_bound("rotary positions", Division::elements, t.per_token(2 * (a + 1) * rope + 2 * queries), 3, 1));
}

/// Root-mean-square norms over each head's queries, and over its keys (Qwen3, Gemma 3): a kernel each.
OperatorShape query_and_key_norms(const Transformer& t) {
  return memory_bound("query and key norms", Division::elements,
                      t.per_token(2 * double(t.attention_hidden() + t.kv_hidden())), 2, t.eager() ? 3.5 : 2.5);
}

void add_attention(const Transformer& t, std::vector<OperatorShape>& out) {
  if (t.latent()) {
    add_latent_projections(t, out);
    t.flash ? add_flash_attention(t, out) : add_standard_attention(t, out);
    out.push_back(weighted_product("projection", Division::rows, t.s(), t.h(), double(t.attention_hidden())));
    return;
  }
  const double h = t.h(), q = double(t.attention_hidden()), kv = double(t.kv_hidden());
  out.push_back(
      again(weighted_product("qkv", Division::columns, t.s(), q + 2 * kv, h), t.biased() ? 0 : kv / (q + 2 * kv)));
  if (t.is_pytorch() && !t.biased()) out.back().parts = {q / (q + 2 * kv), kv / (q + 2 * kv), kv / (q + 2 * kv)};
  if (t.qk_norm) out.push_back(query_and_key_norms(t));
  if (t.biased()) {
    // Of PyTorch's linear layers the product adds it.
    if (!t.is_pytorch())
      out.push_back(memory_bound("qkv bias", Division::elements, t.per_token(2 * (q + 2 * kv)), 1, 0.5));
  } else if (t.eager()) {
    // Products with cosines and with sines of turned halves, and their sum; turning is a negation and a concatenation.
    out.push_back(memory_bound("rotary positions", Division::elements, t.per_token(10 * (q + kv)), 10, 1.2));
  } else {
    out.push_back(memory_bound("rotary positions", Division::elements, t.per_token(2 * (q + kv)), 2, 1));
  }
  t.flash ? add_flash_attention(t, out) : add_standard_attention(t, out);
  out.push_back(weighted_product("projection", Division::rows, t.s(), h, q));
}

OperatorShape activation(const Transformer& t, double copies) {
  const double inputs = double(t.up_width()), outputs = double(t.ffn);
  // Eager, the gate's activation and its product with the other are two kernels, backward three.
  if (t.eager() && t.gated())
    return memory_bound("gated activation", Division::elements, t.per_token(copies * 5 * outputs), 2, 9.0 / 5);
  return memory_bound(t.gated() ? "gated activation" : "bias and activation", Division::elements,
                      t.per_token(copies * (inputs + outputs)), 1, t.gated() ? 5.0 / 3 : 2);
}

/// What limits the inputs of a gated activation (GPT-OSS), where no compiler makes one kernel of both. Megatron-Core
/// clamps either half in a kernel and puts them together again (fused_bias_geglu.py), 16 bytes an element of the
/// result in numbers of two; backward the gradients are masked, cut and added, 30.
OperatorShape clamp_of(const Transformer& t, double copies) {
  OperatorShape o = memory_bound("clamp", Division::elements, t.per_token(copies * 8 * double(t.ffn)), 3, 30.0 / 16);
  o.backward_kernels = 7;
  o.expert = true;
  o.module = RecomputedModule::moe_act;
  return o;
}

/// The bias of the experts' second product, which Megatron-Core adds expert by expert, times the share that the token
/// gives it, before it puts all results together (TEGroupedMLP._apply_bias): a product and a sum each, 12 bytes an
/// element in numbers of two with the copy; backward 16, in four kernels an expert, and two that add the gradients of
/// both biases to those of earlier micro-batches. PyTorch's eager experts copy each token its bias and add it.
OperatorShape bias_of_experts(const Transformer& t) {
  const double elements = double(t.experts_per_token) * t.h();
  if (t.is_pytorch()) return memory_bound("expert bias", Division::sequence, t.per_token(4 * elements), 2, 0.5);
  OperatorShape o = memory_bound("expert bias", Division::sequence, t.per_token(6 * elements), 2, 16.0 / 12);
  o.backward_kernels = 6;
  o.expert = true;
  o.product.batch = double(t.experts);
  return o;
}

void add_mlp(const Transformer& t, std::vector<OperatorShape>& out) {
  out.push_back(again(weighted_product("mlp up", Division::columns, t.s(), double(t.up_width()), t.h()), t.again_up()));
  if (t.is_pytorch() && t.gated()) out.back().parts = {0.5, 0.5, 0};
  out.push_back(activation(t, 1));
  out.push_back(again(weighted_product("mlp down", Division::rows, t.s(), t.h(), double(t.ffn)), t.again_down()));
}

/// Router, exchange of tokens, one MLP per expert on an even share of the tokens, weighted sum of the results.
void add_experts(const Transformer& t, std::vector<OperatorShape>& out) {
  const double experts = double(t.experts), k = double(t.experts_per_token), tokens = t.s() * k / experts;
  out.push_back(weighted_product("router", Division::sequence, t.s(), experts, t.h()));
  out.push_back(memory_bound("choice of experts", Division::sequence, Bytes(t.s() * experts * 4 * 4), 6, 1));
  out.push_back(memory_bound("dispatch", Division::sequence, t.per_token((1 + k) * t.h()), 2, 1));
  OperatorShape up = weighted_product("experts up", Division::columns, tokens, double(t.up_width()), t.h());
  OperatorShape down = weighted_product("experts down", Division::rows, tokens, t.h(), double(t.ffn));
  OperatorShape between = activation(t, k);
  up.product.batch = down.product.batch = experts;
  up.again = t.again_up(), down.again = t.again_down();
  up.expert = down.expert = between.expert = true;
  up.grouped = down.grouped = t.is_pytorch();
  between.module = RecomputedModule::moe_act;
  const bool compiled = t.kernels == KernelSet::compiled;
  out.push_back(up);
  if (t.clamp && !compiled) out.push_back(clamp_of(t, k));
  out.insert(out.end(), {between, down});
  if (t.expert_bias && !compiled) out.push_back(bias_of_experts(t));
  out.push_back(memory_bound("combine", Division::sequence, t.per_token((1 + k) * t.h()), 2, 2));
}

/// What every token goes through beside its experts.
Transformer of_shared_experts(Transformer t) {
  t.ffn *= t.shared, t.experts = t.shared = 0;
  return t;
}
/// A layer in front of the mixtures.
Transformer of_dense_layers(Transformer t) {
  t.ffn = t.dense_ffn, t.layers = t.dense, t.experts = t.shared = t.experts_per_token = 0;
  return t;
}

/// Marks the end of a block with a pre-norm that PyTorch's recomputation leaves out. Dropout keeps its mask.
void mark_unread(const Transformer& t, std::vector<OperatorShape>& operators) {
  if (t.starts_over()) return;
  const std::string_view first = t.experts > 0 ? "combine" : "mlp down";
  for (auto o = operators.rbegin(); o != operators.rend(); ++o) {
    o->unread = true;
    if (o->name == first) return;
  }
}

/// Linear layers that multiply in a shorter type: before each its input is cast, and backward its results' gradient,
/// as products read both along rows in two orders. Transformer Engine's kernel reads once and writes both. PyTorch's
/// (torchao, float8_linear.py and float8_ops.py of 2024, one scale a tensor) reads a tensor for its largest number,
/// reads it again and writes the cast one, and backward turns copies of input and gradient; eager, absolute values,
/// the largest of them, four bytes, scaling, clamping and casting are kernels of their own (float8_utils.py and
/// float8_tensor.py of 2025). To four bits (NVFP4) Transformer Engine first reads a tensor for the largest number of
/// all, whose scale is that of the 8-bit scales of its blocks, and what sums over tokens it rotates on the
/// way (NVIDIA, Pretraining Large Language Models with NVFP4). Norms, attention, router and logits stay as they are; of
/// weights all is counted once a step (UpdateShape).
std::vector<OperatorShape> with_short_products(const Transformer& t, const std::vector<OperatorShape>& operators) {
  if (!t.casts()) return operators;
  std::vector<OperatorShape> out;
  for (OperatorShape o : operators) {
    const MatrixProduct& p = o.product;
    if (o.weighted && p.m > 0 && o.name != "router") {
      // Of a product divided by columns the input is whole, by rows a part.
      const Division division = o.division == Division::columns ? Division::sequence
                                : o.division == Division::rows  ? Division::elements
                                                                : o.division;
      const double wide = t.e(), narrow = t.kept_e();
      const double input = t.eager()        ? 4 * wide + 24 + narrow  // bytes an element
                           : t.is_pytorch() ? 2 * wide + narrow
                                            : (t.in_four_bits() ? 2 : 1) * wide + 2 * narrow;
      const double turned = t.is_pytorch() ? 2 * narrow : 0, gradient = input + turned;
      const Bytes cast(p.batch * p.m * p.k * input);
      const double kernels = t.eager() ? 6 : t.in_four_bits() ? 2 : 1;
      out.push_back(
          memory_bound("cast for " + o.name, division, cast, kernels, (gradient * p.n / p.k + turned) / input));
      out.back().expert = o.expert;
      out.back().module = o.module;
      o.operands = t.linear_dtype;
    }
    out.push_back(std::move(o));
  }
  return out;
}

// ---- parameters ----

void add_norm(const Transformer& t, const std::string& name, std::vector<ParameterShape>& out) {
  out.push_back({name + ".weight", {t.hidden}});
  if (t.biased()) out.push_back({name + ".bias", {t.hidden}});
}

void add_latent_parameters(const Transformer& t, std::vector<ParameterShape>& out) {
  const std::int64_t queries = t.heads * t.query_size();
  if (t.q_rank > 0) {
    out.push_back({"query_down.weight", {t.q_rank, t.hidden}});
    out.push_back({"query_norm.weight", {t.q_rank}});
    out.push_back({"query_up.weight", {queries, t.q_rank}, true});
  } else {
    out.push_back({"query.weight", {queries, t.hidden}, true});
  }
  out.push_back({"latent_down.weight", {t.kv_rank + t.rope, t.hidden}});
  out.push_back({"latent_norm.weight", {t.kv_rank}});
  out.push_back({"latent_up.weight", {t.heads * (t.head_size + t.value_head_size), t.kv_rank}, true});
  out.push_back({"projection.weight", {t.hidden, t.attention_hidden()}, true, false, 1});
}

void add_attention_parameters(const Transformer& t, std::vector<ParameterShape>& out) {
  if (t.latent()) {
    add_latent_parameters(t, out);
    return;
  }
  const std::int64_t qkv = t.attention_hidden() + 2 * t.kv_hidden();
  out.push_back({"qkv.weight", {qkv, t.hidden}, true});
  if (t.biased()) out.push_back({"qkv.bias", {qkv}, true});
  if (t.qk_norm) out.insert(out.end(), {{"query_norm.weight", {t.head_size}}, {"key_norm.weight", {t.head_size}}});
  out.push_back({"projection.weight", {t.hidden, t.attention_hidden()}, true, false, 1});
  if (t.biased()) out.push_back({"projection.bias", {t.hidden}});
}

void add_mlp_parameters(const Transformer& t, std::vector<ParameterShape>& out, const std::string& prefix = {}) {
  const bool mixture = t.experts > 0;
  if (mixture) out.push_back({"router.weight", {t.experts, t.hidden}});
  const auto add = [&](const std::string& name, std::vector<std::int64_t> shape, bool divided,
                       std::uint8_t extent = 0) {
    if (mixture) {
      shape.insert(shape.begin(), t.experts);
      ++extent;
    }
    out.push_back({prefix + name, std::move(shape), divided, mixture, extent});
  };
  const bool bias = t.biased() || (mixture && t.expert_bias);
  add("up.weight", {t.up_width(), t.hidden}, true);
  if (bias) add("up.bias", {t.up_width()}, true);
  add("down.weight", {t.hidden, t.ffn}, true, 1);
  if (bias) add("down.bias", {t.hidden}, false);
}

// ---- what a block keeps for its backward pass ----

/// Of the products that are not done again; attention keeps the statistics of its softmax, too.
void add_kept_results(const Transformer& t, KeptActivations& kept) {
  const double a = double(t.heads), h = t.h(), f = double(t.ffn), q = double(t.attention_hidden());
  const double copies = t.experts > 0 ? double(t.experts_per_token) : 1;
  const auto of_mlp = [&](double width, double tokens) {
    kept.results_divided += t.per_token(tokens * width);
    if (t.again_down() == 0) kept.results_sequence += t.per_token(tokens * h);
  };
  if (t.flash) kept.results_divided += Bytes(4 * a * t.s());
  else kept.results_divided += kept.attention;
  if (t.latent()) {
    kept.results_divided += t.per_token(q + (t.q_rank > 0 ? 0 : a * double(t.query_size())));
    kept.results_sequence += t.per_token(double(t.q_rank + t.kv_rank + t.rope));
  } else {
    // Queries and values, or of one product the keys as well; the result of attention.
    kept.results_divided += t.per_token(2 * q + double(t.kv_hidden()) * (t.biased() ? 2 : 1));
  }
  of_mlp(f, copies);
  if (t.shared > 0) of_mlp(double(of_shared_experts(t).ffn), 1);
}

/// What each module that can be done again by itself gives. The norms are kernels of their own in front of latent
/// projections and of routers; in front of other products Transformer Engine makes one layer of both.
void add_kept_of_modules(const Transformer& t, KeptActivations& kept) {
  const double linear = t.kept_e() / t.e(), h = t.h(), a = double(t.heads);
  const auto of = [&](RecomputedModule m) -> KeptActivations::Results& { return kept.of_module[std::size_t(m)]; };
  if (t.latent()) {
    of(RecomputedModule::layernorm).sequence += t.per_token(linear * h);
    KeptActivations::Results& up = of(RecomputedModule::mla_up_proj);
    up.divided = t.per_token(a * double(2 * t.query_size() + t.value_size()));
    up.sequence = t.per_token(double(t.q_rank + t.kv_rank));
  }
  if (t.experts > 0) {
    of(RecomputedModule::layernorm).sequence += t.per_token(h);
    const double clamped = t.clamp_copies() ? double(t.up_width()) : 0;
    of(RecomputedModule::moe_act).divided =
        t.per_token(double(t.experts_per_token) * (linear * double(t.ffn) + clamped));
  }
}

KeptActivations kept_of_block(const Transformer& t) {
  const double a = double(t.heads), h = t.h(), f = double(t.ffn);
  const double copies = t.experts > 0 ? double(t.experts_per_token) : 1;
  KeptActivations kept;
  if (t.flash) kept.divided += Bytes(4 * a * t.s());  // the logarithm of the softmax' sum
  else kept.attention = Bytes(a * t.s() * t.s() * (t.drops() ? 2 * t.e() + 1 : t.e()));
  // What linear layers alone keep they keep in their own type; of the context the kernel of attention keeps one, too.
  const double linear = t.kept_e() / t.e(), again = t.casts() ? linear : 0;
  kept.divided += t.per_token(again * double(t.attention_hidden()));
  // q, k, v and the context; beside latent ones what the projections to them gave, before and behind its norm.
  kept.divided += kept.attention + t.per_token(t.latent() ? 2 * double(t.heads * (t.query_size() + t.value_size()))
                                                          : 2 * double(t.attention_hidden() + t.kv_hidden()));
  if (t.latent()) kept.sequence += t.per_token(2 * double(t.q_rank + t.kv_rank) + double(t.rope));
  if (t.qk_norm) kept.divided += t.per_token(double(t.attention_hidden() + t.kv_hidden()));  // before their norms
  kept.divided += t.per_token(copies * (double(t.up_width()) + linear * f));  // input and output of the activation
  if (t.eager() && t.gated()) kept.divided += t.per_token(copies * f);        // what multiplies the up projection
  if (t.clamp_copies()) kept.divided += t.per_token(copies * double(t.up_width()));  // before it is limited
  // Inputs of two norms, of qkv and of the MLP; two masks.
  kept.sequence += t.per_token((2 + linear * (1 + copies)) * h) + Bytes(2 * t.s() * h * t.mask());
  if (t.is_pytorch()) {
    kept.gathered = t.per_token(linear * (t.experts > 0 ? 1 : 2) * h);
    if (t.experts > 0) kept.gathered_by_experts = t.per_token(linear * copies * h);
  }
  // The router's input, which the experts' are copies of. Their results are kept nowhere: Megatron-Core multiplies them
  // with the router's choice inside the activation.
  if (t.experts > 0) kept.sequence += t.per_token(h) + Bytes(4 * t.s() * double(t.experts));
  if (t.shared > 0) {
    const Transformer shared = of_shared_experts(t);
    kept.divided += t.per_token(double(shared.up_width()) + linear * double(shared.ffn));
    kept.sequence += t.per_token(h);  // its result, before the sum
  }
  kept.input = t.per_token(h);
  add_kept_results(t, kept);
  add_kept_of_modules(t, kept);
  return kept;
}

/// The widest pair of gradients: on both sides of the softmax, or of the activation.
Bytes transient_of_block(const Transformer& t) {
  const double scores = t.flash ? 0 : 2 * double(t.heads) * t.s();
  const double copies = t.experts > 0 ? double(t.experts_per_token) : 1;
  return t.per_token(std::max(scores, copies * double(t.up_width() + t.ffn)));
}

UnitShape block_of(const Transformer& t, const std::string& name = "block") {
  UnitShape block;
  block.name = name;
  block.repetitions = t.layers;
  std::vector<OperatorShape>& operators = block.operators;
  const bool before = t.family != Family::bert;
  if (before) operators.push_back(norm(t, "attention norm"));
  if (before && t.latent()) operators.back().module = RecomputedModule::layernorm;
  add_attention(t, operators);
  operators.push_back(residual(t, "attention residual", 3));  // queries, keys and values
  operators.push_back(norm(t, before ? "mlp norm" : "attention norm"));
  if (t.experts > 0) operators.back().module = RecomputedModule::layernorm;
  if (t.shared > 0) {
    std::vector<OperatorShape> beside;
    add_mlp(of_shared_experts(t), beside);
    for (OperatorShape& o : beside) o.name = "shared " + o.name;
    beside.push_back(memory_bound("sum of experts", Division::sequence, t.per_token(3 * t.h()), 1, 1));
    operators.insert(operators.end(), beside.begin(), beside.end());
  }
  t.experts > 0 ? add_experts(t, operators) : add_mlp(t, operators);
  operators.push_back(residual(t, "mlp residual", t.experts > 0 ? 1 : 2));  // gate and up projection
  if (before) mark_unread(t, operators);
  else operators.push_back(norm(t, "mlp norm"));
  operators = with_short_products(t, operators);

  std::vector<ParameterShape>& parameters = block.parameters;
  if (before) add_norm(t, "attention_norm", parameters);
  add_attention_parameters(t, parameters);
  add_norm(t, before ? "mlp_norm" : "attention_norm", parameters);
  if (t.shared > 0) add_mlp_parameters(of_shared_experts(t), parameters, "shared_");
  add_mlp_parameters(t, parameters);
  if (!before) add_norm(t, "mlp_norm", parameters);

  block.kept = kept_of_block(t);
  block.transient = transient_of_block(t);
  block.boundary = t.per_token(t.h());
  block.tensor_reductions = 2;  // shared experts are summed with the others
  block.expert_exchanges = t.experts > 0 ? 2 : 0;
  return counted(std::move(block));
}

// ---- first and last unit ----

UnitShape embedding_of(const Transformer& t) {
  UnitShape unit;
  unit.name = "embedding";
  // Forward it reads and writes the rows of its tokens; backward it adds them into the gradient.
  OperatorShape lookup = memory_bound("lookup", Division::none, t.per_token(2 * t.h()), 1, 2);
  lookup.weighted = true;
  unit.operators.push_back(lookup);
  unit.parameters.push_back({"tokens.weight", {t.vocabulary, t.hidden}, true});
  if (t.family != Family::llama) {
    unit.parameters.push_back({"positions.weight", {t.positions, t.hidden}});
    unit.operators.push_back(memory_bound("positions", Division::none, t.per_token(3 * t.h()), 1, 1));
  }
  if (t.family == Family::bert) {
    unit.parameters.push_back({"segments.weight", {2, t.hidden}});
    unit.operators.push_back(memory_bound("segments", Division::none, t.per_token(3 * t.h()), 1, 1));
    add_norm(t, "norm", unit.parameters);
    unit.operators.push_back(norm(t, "norm"));
    unit.kept.sequence += t.per_token(t.h());
  }
  if (t.drops()) {
    const Bytes mask(t.s() * t.h());
    unit.operators.push_back(memory_bound("dropout", Division::sequence, t.per_token(2 * t.h()) + mask, 1, 1));
    unit.kept.sequence += mask;
  }
  unit.kept.input = Bytes(8 * t.s());  // token numbers
  unit.boundary = t.per_token(t.h());
  unit.tensor_reductions = 1;
  return counted(std::move(unit));
}

/// BERT's: the pooler and next-sentence classifier on one token of each sample, a dense layer before the vocabulary.
void add_pretraining_head(const Transformer& t, UnitShape& unit) {
  const auto dense = [&](const std::string& name, double tokens, std::int64_t width) {
    unit.operators.push_back(weighted_product(name, Division::none, tokens, double(width), t.h()));
    unit.parameters.push_back({name + ".weight", {width, t.hidden}});
    unit.parameters.push_back({name + ".bias", {width}});
  };
  dense("pooler", 1, t.hidden);
  dense("transform", t.s(), t.hidden);
  unit.operators.push_back(memory_bound("transform activation", Division::none, t.per_token(2 * t.h()), 1, 2));
  unit.operators.push_back(norm(t, "norm"));
  add_norm(t, "norm", unit.parameters);
  dense("next sentence", 1, 2);
  unit.parameters.push_back({"logits.bias", {t.vocabulary}, true});
  unit.kept.sequence = t.per_token(4 * t.h());
}

/// The loss part by part: what would be kept of logits is there for one part, beside its input and the gradient of all.
void in_parts(const Transformer& t, UnitShape& unit) {
  const double parts = double(t.loss_chunks);
  unit.operators.back().kernels *= parts;
  unit.transient = (unit.transient + unit.kept.divided) / parts;
  unit.kept.divided = Bytes(0);
  const Bytes inputs = t.per_token(t.h()) + Bytes(4 * t.s() * t.h());
  unit.kept.sequence += inputs;
  if (t.is_pytorch()) unit.kept.gathered += inputs;
}

UnitShape head_of(const Transformer& t) {
  UnitShape unit;
  unit.name = "head";
  unit.makes_gradient = true;
  const double vocabulary = double(t.vocabulary);
  if (t.family == Family::bert) {
    add_pretraining_head(t, unit);
  } else {
    unit.operators.push_back(norm(t, "final norm"));
    add_norm(t, "final_norm", unit.parameters);
    unit.kept.sequence = t.per_token(2 * t.h());
    if (t.is_pytorch()) unit.kept.gathered = t.per_token(t.h());
  }
  unit.operators.push_back(weighted_product("logits", Division::columns, t.s(), vocabulary, t.h()));
  if (!t.tied) unit.parameters.push_back({"logits.weight", {t.vocabulary, t.hidden}, true});
  else unit.tied_parameters = vocabulary * t.h();
  // Megatron-LM's cross entropy over a divided vocabulary: a copy in 4-byte numbers, maximum, difference, exponential,
  // sum and quotient forward; a copy with the difference of the right answer, its product and a cast backward.
  // Of PyTorch compiled: maximum and sum in one pass, the right answer's logit in another; backward one pass. Eager: a
  // copy in 4-byte numbers, its logarithm of the softmax in two passes, the loss; backward that of the loss into zeros,
  // of the softmax, and a copy back.
  const Bytes elements(t.s() * vocabulary);
  if (t.loss == KernelSet::compiled) {
    unit.operators.push_back(memory_bound("cross entropy", Division::elements, elements * (2 * t.e()), 2, 1));
    unit.kept.divided = elements * t.e();
    unit.transient = elements * t.e();
  } else if (is_eager(t.loss)) {
    const double forward = t.e() + 4 + 4 + 4 + 4 + 4, backward = 4 + 4 + 4 + 4 + 4 + 4 + t.e();
    unit.operators.push_back(
        memory_bound("cross entropy", Division::elements, elements * forward, 3, backward / forward));
    unit.kept.divided = elements * 4;
    unit.transient = elements * (4 + 4);
  } else {
    unit.operators.push_back(memory_bound("cross entropy", Division::elements, elements * (36 + t.e()), 8, 0.6));
    unit.kept.divided = elements * 4;  // in 4-byte numbers, which become their gradient in place
    unit.transient = elements * t.e();
  }
  if (t.loss_chunks > 1) in_parts(t, unit);
  unit.kept.input = t.per_token(t.h());
  // What leaves it is one 4-byte number a token: of the maximum, of the right answer's logit, of the sum.
  unit.boundary = Bytes(4 * t.s());
  unit.tensor_reductions = 3;
  return counted(std::move(unit));
}

// ---- text ----

std::int64_t rounded_up(double value, std::int64_t multiple) {
  return std::int64_t(std::ceil(value / double(multiple))) * multiple;
}

/// Keys of latent attention, normed heads, shared experts and dense layers, each with what it belongs to.
void read_newer_keys(ModelDescriptionText& text, Transformer& t) {
  t.shared = text.integer("shared", 0, 0, 65536);
  t.expert_bias = text.word("expert_bias", "no", {"no", "yes"}) == "yes";
  t.clamp = text.word("clamp", "no", {"no", "yes"}) == "yes";
  t.qk_norm = text.word("qk_norm", "no", {"no", "yes"}) == "yes";
  t.dense = text.integer("dense", 0, 0, 10000);
  t.dense_ffn = text.integer("dense_ffn", t.ffn, 1, 1 << 24);
  t.kv_rank = text.integer("kv_rank", 0, 0, 1 << 20);
  t.q_rank = text.integer("q_rank", 0, 0, 1 << 20);
  t.rope = text.integer("rope", t.kv_rank > 0 ? 64 : 0, 0, 1 << 16);
  t.value_head_size = text.integer("v_head", t.head_size, 1, 1 << 16);
}

void check_newer_keys(ModelDescriptionText& text, const Transformer& t) {
  const auto needs = [&](const char* key, bool said, bool there, const char* what, std::int64_t found) {
    if (said && !there) text.refuse(key, std::string(what) + " beside it", std::to_string(found));
  };
  needs("shared", t.shared > 0, t.experts > 0, "experts=...", t.shared);
  for (const auto& [key, said] : {std::pair("expert_bias", t.expert_bias), std::pair("clamp", t.clamp)}) {
    if (said && t.experts == 0) text.refuse(key, "experts=... beside it", "yes", "it is of the experts' own products");
    if (said && t.family != Family::llama) text.refuse(key, "a llama's mixture of experts", "yes");
  }
  if (t.qk_norm && t.family != Family::llama) text.refuse("qk_norm", "a llama's blocks", "yes");
  if (t.qk_norm && t.latent())
    text.refuse("qk_norm", "no: latent attention has norms of its own, which are counted", "yes");
  needs("dense", t.dense > 0, t.experts > 0, "experts=...", t.dense);
  needs("dense_ffn", t.dense_ffn != t.ffn, t.dense > 0, "dense=...", t.dense_ffn);
  if (t.dense >= t.layers && t.dense > 0)
    text.refuse("dense", "fewer than layers = " + std::to_string(t.layers), std::to_string(t.dense));
  needs("q_rank", t.q_rank > 0, t.latent(), "kv_rank=...", t.q_rank);
  needs("rope", t.rope > 0, t.latent(), "kv_rank=...", t.rope);
  needs("v_head", t.value_head_size != t.head_size, t.latent(), "kv_rank=...", t.value_head_size);
  if (!t.latent()) return;
  if (t.family != Family::llama)
    text.refuse("kv_rank", "0: latent attention is of llama's blocks", std::to_string(t.kv_rank));
  if (t.kv_heads != t.heads)
    text.refuse("kv_heads", "as many as heads: latent attention makes the keys of every head",
                std::to_string(t.kv_heads));
}

/// Short products, windows and the optimizer, each with what it belongs to.
void read_recipe(ModelDescriptionText& text, Transformer& t) {
  t.linear_dtype = text.data_type("linear", t.dtype, true);
  if (size_of(t.linear_dtype) > size_of(t.dtype) || (t.casts() && t.linear_dtype != DataType::f8 && !t.in_four_bits()))
    text.refuse("linear", "f8, f4, or dtype = " + std::string(name_of(t.dtype)), std::string(name_of(t.linear_dtype)),
                "the type in which linear layers multiply");
  if (t.in_four_bits() && t.dtype != DataType::bf16)
    text.refuse("linear", "dtype=bf16 beside it", std::string(name_of(t.dtype)),
                "Transformer Engine casts to NVFP4 from bf16 alone");
  t.window = text.integer("window", 0, 0, 1 << 24);
  t.full_every = text.integer("full_every", 0, 0, 10000);
  if (t.window > 0 && !t.flash)
    text.refuse("window", "attention=flash beside it", "standard attention",
                "it computes what lies outside the window as well");
  t.documents = text.integer("documents", 0, 0, t.sequence);
  if (t.documents > 0 && !t.flash)
    text.refuse("documents", "attention=flash beside it", "standard attention",
                "it computes what lies between documents as well");
  if (t.full_every > 0 && t.window == 0)
    text.refuse("full_every", "window=... beside it, which other layers have", std::to_string(t.full_every));
  if (t.full_every == 1)
    text.refuse("full_every", "0 (no layer attends to all tokens) or from 2", "1", "leave window= out");
  using enum Optimizer;
  static constexpr std::pair<std::string_view, Optimizer> known[] = {
      {"adam", adam}, {"adam8bit", adam8bit}, {"adafactor", adafactor}, {"lion", lion}, {"muon", muon}, {"sgd", sgd}};
  const std::string name = text.word("optimizer", "adam", {"adam", "adam8bit", "adafactor", "lion", "muon", "sgd"});
  for (const auto& [word, optimizer] : known)
    if (word == name) t.optimizer = optimizer;
}

/// Standard attention, the fused kernel that the device's numbers are of (flash), or one by its name.
void read_attention(ModelDescriptionText& text, Transformer& t) {
  static_assert(attention_kernel_count == 4);
  const std::string word =
      text.word("attention", "standard", {"standard", "flash", "flash1", "flash2", "flash3", "cudnn"});
  t.flash = word != "standard";
  for (std::size_t k = 0; k < attention_kernel_count; ++k)
    if (word == name_of(static_cast<AttentionKernel>(k))) t.kernel = static_cast<AttentionKernel>(k);
}

void check_heads(ModelDescriptionText& text, const Transformer& t) {
  if (t.head_size == 0) {
    std::int64_t near = t.heads;
    while (t.hidden % near != 0) --near;
    text.refuse("heads", "a number of heads that divides hidden = " + std::to_string(t.hidden), std::to_string(t.heads),
                std::to_string(near) + " does; head=... gives heads a size of their own");
  }
  if (t.heads % t.kv_heads != 0)
    text.refuse("kv_heads", "a divisor of heads = " + std::to_string(t.heads), std::to_string(t.kv_heads));
}

Transformer transformer_of(ModelDescriptionText& text) {
  Transformer t;
  t.family = text.family() == "bert" ? Family::bert : text.family() == "llama" ? Family::llama : Family::gpt;
  const bool bert = t.family == Family::bert, llama = t.family == Family::llama;
  t.hidden = text.required_integer("hidden", 1, 1 << 20);
  t.layers = text.required_integer("layers", 1, 10000);
  t.heads = text.required_integer("heads", 1, t.hidden);
  t.sequence = text.required_integer("seq", 1, 1 << 24);
  t.vocabulary = text.integer("vocab", bert ? 30528 : llama ? 32000 : 51200, 2, 100000000);
  t.ffn = text.integer("ffn", llama ? rounded_up(8 * t.h() / 3, 256) : 4 * t.hidden, 1, 1 << 24);
  t.kv_heads = text.integer("kv_heads", t.heads, 1, t.heads);
  t.head_size = text.integer("head", t.hidden % t.heads == 0 ? t.hidden / t.heads : 0, 1, 1 << 16);
  if (!llama)
    t.positions =
        text.integer("positions", bert ? std::max<std::int64_t>(512, t.sequence) : t.sequence, t.sequence, 1 << 24);
  t.experts = text.integer("experts", 0, 0, 65536);
  t.experts_per_token = text.integer("topk", std::min<std::int64_t>(2, t.experts), 0, 65536);
  read_newer_keys(text, t);
  read_attention(text, t);
  t.causal = text.word("causal", "no", {"no", "yes"}) == "yes";
  t.tied = bert || text.word("tied", llama ? "no" : "yes", {"no", "yes"}) == "yes";
  t.dropout = text.share("dropout", llama ? 0 : 0.1);
  t.dtype = text.data_type("dtype", llama ? DataType::bf16 : DataType::f16);
  read_recipe(text, t);
  using enum KernelSet;
  const std::string kernels = text.word("kernels", "megatron", {"megatron", "compiled", "eager", "deepspeed"});
  const char* own_loss = kernels == name_of(deepspeed) ? "eager" : kernels.c_str();
  // One that is given stays in the normalised text: a framework may bring other kernels, and with them another default.
  const std::string loss =
      text.gives("loss") ? text.word("loss", {}, {"megatron", "compiled", "eager"}) : std::string(own_loss);
  for (const KernelSet set : {megatron, compiled, eager, deepspeed}) {
    if (kernels == name_of(set)) t.kernels = set;
    if (loss == name_of(set)) t.loss = set;
  }
  // Megatron-LM (arguments.py: accumulate and all-reduce gradients in fp32 for bfloat16) and torchtitan (reduce_dtype);
  // DeepSpeed adds up in the weights' type (engine.py, get_data_types).
  const bool whole = t.dtype == DataType::bf16 && t.kernels != deepspeed;
  t.gradient_dtype = text.data_type("gradients", whole ? DataType::f32 : t.dtype, false, !text.gives("kernels"));
  t.loss_chunks = text.integer("loss_chunks", 1, 1, t.sequence);
  if (t.loss_chunks > 1 && bert) text.refuse("loss_chunks", "1", std::to_string(t.loss_chunks), "it is of decoders");
  if (t.sequence % t.loss_chunks != 0)
    text.refuse("loss_chunks", "a divisor of seq = " + std::to_string(t.sequence), std::to_string(t.loss_chunks));
  const std::string launch = text.word("launch", "async", {"async", "blocking", "graphs"});
  if (launch == "blocking") t.launch = KernelLaunch::blocking;
  if (launch == "graphs") t.launch = KernelLaunch::graphs;
  const bool fuses = t.kernels == megatron;
  t.fused_accumulation = text.word("accumulation", fuses ? "fused" : "apart", {"fused", "apart"}) == "fused";
  if (t.fused_accumulation && !fuses)
    text.refuse("accumulation", "apart", "fused", "only Megatron-LM's products add to gradients (kernels=megatron)");
  text.require_all_known();
  check_heads(text, t);
  check_newer_keys(text, t);
  if (t.experts_per_token > t.experts || (t.experts > 0 && t.experts_per_token == 0))
    text.refuse("topk", t.experts == 0 ? "experts=... beside it" : "from 1 to experts = " + std::to_string(t.experts),
                std::to_string(t.experts_per_token));
  if (t.causal && !t.flash)
    text.refuse("causal", "attention=flash beside it", "standard attention", "it computes what the mask hides as well");
  if (t.causal && bert) text.refuse("causal", "no", "yes", "every token of an encoder sees all others");
  return t;
}

}  // namespace

bool is_transformer(std::string_view family) { return family == "gpt" || family == "bert" || family == "llama"; }

ModelShape transformer_shape(ModelDescriptionText& text) {
  const Transformer t = transformer_of(text);
  ModelShape model;
  model.name = text.normalised();
  model.dtype = t.dtype;
  model.gradient_dtype = t.gradient_dtype;
  model.hidden = t.hidden, model.heads = t.heads, model.kv_heads = t.kv_heads, model.head_size = t.head_size;
  model.dropout = t.dropout, model.tied = t.tied, model.kernels = t.kernels, model.loss = t.loss;
  model.loss_chunks = t.loss_chunks, model.loss_chunks_given = text.gives("loss_chunks");
  model.kernels_given = text.gives("kernels"), model.launch = t.launch;
  model.fused_accumulation = t.fused_accumulation;
  model.optimizer = t.optimizer;
  model.sequence = t.sequence, model.layers = t.layers, model.documents = t.documents;
  model.expert_bias = t.expert_bias, model.clamp = t.clamp, model.qk_norm = t.qk_norm;
  model.experts = t.experts, model.experts_per_token = t.experts_per_token;
  model.units.push_back(embedding_of(t));
  if (t.dense > 0) model.units.push_back(block_of(of_dense_layers(t), "dense block"));
  Transformer mixtures = t;
  mixtures.layers -= t.dense;
  model.units.push_back(block_of(mixtures));
  model.units.push_back(head_of(t));
  return model;
}

}  // namespace stepcast
