#pragma once
// Room roofline: models by their shape and devices by their rates: costs that nobody traced.
//
// Example: a product of 4096 x 4096 by 4096 on 125 Tflop/s takes 1.1 ms at full efficiency.
//
// It may include base, encodings and profile.
//
// ModelShape: a model by its shape: what a description such as `gpt:hidden=4096,layers=32,heads=32,seq=2048` stands
// for.
//
// A model is a sequence of units (the embedding, equal blocks, the head; of a CNN: its stages), a unit a sequence of
// operators. An operator says what one sample costs and how tensor parallelism divides it. From a shape and a device
// (device.hpp) follow the times of a profile or of a layout's parts; nothing here was measured, and who uses it says
// so. Invariants (checked by `flaw_of`): extents > 0, at least one unit, every repetition >= 1. Not modelled: attention
// kernels that skip masked tiles, unless `causal` halves them; dropout masks beyond their bytes.
//
// described_profile.cpp makes the profile of a shape on a device.
#include <stepcast/base/error.hpp>
#include <stepcast/base/units.hpp>
#include <stepcast/profile/profile.hpp>
#include <stepcast/roofline/device.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

/// What tensor parallelism of degree t does to an operator.
enum class Division : std::uint8_t {
  columns,   ///< the columns of a product's weight are divided: n / t
  rows,      ///< k / t; the results of all devices have to be added up
  heads,     ///< independent products: batch / t
  elements,  ///< memory-bound work on what is divided anyway: traffic / t
  sequence,  ///< memory-bound work that is repeated on every device, unless sequence parallelism divides it
  none,      ///< repeated on every device
};

/// Modules of a block that Megatron-Core does again by themselves, whose results it throws away in between (its
/// recompute_modules): norms that are kernels of their own, the activation between the products of experts, and what
/// brings latent vectors to the heads.
enum class RecomputedModule : std::uint8_t { layernorm, moe_act, mla_up_proj };
inline constexpr std::size_t recomputed_module_count = 3;
[[nodiscard]] std::string_view name_of(RecomputedModule);  ///< "moe_act"

/// One kind of kernel, for one sample, in the forward pass. The backward pass of a product is two products: a weighted
/// one has an input and a weight gradient.
struct OperatorShape {
  std::string name;
  Division division = Division::none;
  bool weighted = false;  ///< it has a parameter
  MatrixProduct product;  ///< m = 0: memory-bound. `m` counts rows of one sample and grows with the micro-batch if
                          ///< `weighted`, else `batch` grows
  Bytes traffic;          ///< memory-bound: bytes read and written, forward
  double kernels = 1;     ///< forward
  double backward = 2;    ///< memory-bound: traffic and kernels of the backward pass, as multiple of the forward's
  double backward_kernels = 0;  ///< memory-bound: where there is another number of them than that; 0: there is not
  bool attention = false;       ///< part of the core of attention: what selective recomputation does again
  bool fused = false;        ///< a product inside the one kernel of fused (flash) attention: Device::attention_forward
  bool convolution = false;  ///< its weight's gradient is shared out by samples
  bool expert = false;       ///< works only on the tokens of its expert
  bool grouped = false;      ///< the products of all experts are one kernel
  /// Of a product: shares of its columns that are products of their own, as those of queries, keys and values where no
  /// kernel has all three; they add up to 1.
  std::array<double, 3> parts{1, 0, 0};
  /// A fused kernel that serves only whole multiples of so many pairs of sample and head on a device (0: any); for
  /// others it is so many times the kernels and the traffic.
  double fused_multiple = 0, unfused_kernels = 1, unfused_traffic = 1;
  bool recomputed = false;  ///< its backward kernel does the forward product again (the scores of flash attention)
  /// Share of its forward pass that recomputation by operators does again.
  double again = 1;
  /// No backward pass of its unit reads its result: full recomputation by PyTorch stops before it.
  bool unread = false;
  std::optional<DataType> operands{};        ///< of a product: their type, where it is another than the model's
  std::optional<RecomputedModule> module{};  ///< which of these it is part of
  std::optional<AttentionKernel> kernel{};   ///< of a fused product: in which kernel, where one is named
};

/// A parameter tensor of one unit.
struct ParameterShape {
  std::string name;
  std::vector<std::int64_t> shape;
  bool divided = false;             ///< tensor parallelism divides it
  bool expert = false;              ///< divided by expert parallelism as well; the first extent counts experts
  std::uint8_t divided_extent = 0;  ///< the extent that is divided: outputs, or inputs where outputs are summed up

  [[nodiscard]] double elements() const;
};

/// What one unit holds of one sample between forward and backward, in bytes, on an undivided device.
struct KeptActivations {
  Bytes divided;    ///< what tensor parallelism divides
  Bytes sequence;   ///< only by sequence parallelism
  Bytes attention;  ///< the part of `divided` that selective recomputation does not keep
  Bytes input;      ///< the unit's input: all that full recomputation keeps; divided by sequence parallelism
  /// The part of `sequence` that PyTorch keeps as sequence parallelism gathered it, whole: inputs of products that are
  /// divided by columns. Megatron-LM keeps its part, and gathers again.
  Bytes gathered{};
  Bytes gathered_by_experts{};  ///< the same of experts that tensor parallelism divides
  /// What recomputation by operators keeps beside the input: results of attention and of every other product.
  Bytes results_divided{}, results_sequence{};
  /// The part that recomputation of each module does not keep.
  struct Results {
    Bytes divided, sequence;
  };
  std::array<Results, recomputed_module_count> of_module{};
};

struct UnitShape {
  std::string name;  ///< "embedding", "block", "head"
  std::int64_t repetitions = 1;
  std::vector<OperatorShape> operators;
  std::vector<ParameterShape> parameters;  ///< those of one repetition, in the order of the operators; counted below
  double divided_parameters = 0;           ///< elements, of one repetition, that tensor parallelism divides
  double other_parameters = 0;             ///< elements that every device of a tensor group holds
  double expert_parameters = 0;            ///< elements of all experts, divided by expert (and tensor) parallelism
  double tied_parameters = 0;  ///< elements that it shares with the first unit, and holds again only on another stage
  KeptActivations kept;
  Bytes transient;            ///< gradients of one sample that are alive at once inside its backward pass, divided
  Bytes boundary;             ///< activations of one sample that it hands to the next unit; of a head: its losses
  int tensor_reductions = 0;  ///< sums over the tensor group per forward pass (Megatron: 2 a block), of `boundary` each
  bool makes_gradient = false;  ///< of its weights anew in every pass, for autograd (Megatron-LM's own linear layer)
  int expert_exchanges = 0;     ///< all-to-alls of `boundary` times top-k over the expert group per forward pass
};

/// Whose kernels compute a model: Megatron-LM's (fused by hand, gradients added up where products make them), or
/// PyTorch's with four-byte weights that are cast for every pass: blocks compiled one by one (torch.compile, as
/// torchtitan does), or eager; or eager over the two-byte weights that DeepSpeed's engine holds.
enum class KernelSet : std::uint8_t { megatron, compiled, eager, deepspeed };
[[nodiscard]] std::string_view name_of(KernelSet);  ///< "compiled"
[[nodiscard]] constexpr bool is_pytorch(KernelSet k) { return k != KernelSet::megatron; }
[[nodiscard]] constexpr bool is_eager(KernelSet k) { return k == KernelSet::eager || k == KernelSet::deepspeed; }
/// Whose host waits for the device: in every step for the norm of all gradients as a number (Megatron-LM,
/// megatron/core/optimizer/clip_grads.py; DeepSpeed, runtime/zero/stage_1_and_2.py), and before a micro-batch for the
/// sizes of its data (megatron/core/tensor_parallel/data.py, broadcast_data). PyTorch's own loops clip with the norm on
/// the device, and run ahead.
[[nodiscard]] constexpr bool waits_for_device(KernelSet k) {
  return k == KernelSet::megatron || k == KernelSet::deepspeed;
}
/// Four bytes a weight, and none beside them.
[[nodiscard]] constexpr bool holds_whole_weights(KernelSet k) {
  return k == KernelSet::compiled || k == KernelSet::eager;
}

/// What updates the weights; its state follows from the name (update_of).
enum class Optimizer : std::uint8_t { adam, adam8bit, adafactor, lion, muon, sgd };

/// How the host gives an accelerator its kernels: one by one, ahead of it; each behind the end of the one before
/// (CUDA_LAUNCH_BLOCKING=1); or all passes of a step at once, as they were recorded (a CUDA graph).
enum class KernelLaunch : std::uint8_t { async, blocking, graphs };
/// The device as such a job drives it. A processor computes what it launches: nothing changes there.
[[nodiscard]] Device driven_by(Device, KernelLaunch);

struct ModelShape {
  std::string name;  ///< the description, normalised
  DataType dtype = DataType::f16;
  DataType gradient_dtype = DataType::f16;  ///< in which gradients are added up, held and sent
  std::int64_t hidden = 0, heads = 0, kv_heads = 0, sequence = 0, layers = 0,
               experts = 0;  ///< 0 where they do not apply
  std::int64_t experts_per_token = 0, head_size = 0;
  bool expert_bias = false, clamp = false;  ///< of experts: products add a bias, a gate's inputs are limited
  bool qk_norm = false;                     ///< every head's queries and keys are normed
  std::int64_t documents = 0;               ///< tokens of a document, to which attention keeps; 0: a sample is one
  double dropout = 0;
  Optimizer optimizer = Optimizer::adam;
  KernelSet kernels = KernelSet::megatron;
  KernelSet loss = KernelSet::megatron;  ///< of the loss alone
  std::int64_t loss_chunks = 1;          ///< parts of a sequence whose logits are there one after the other
  bool loss_chunks_given = false;        ///< the description says so, be it one
  bool kernels_given = false;            ///< the description says kernels=, be it the default; loss= alone is not that
  /// Products add weight gradients to those of the micro-batches before; else a kernel of its own does (Megatron-LM's
  /// --no-gradient-accumulation-fusion). PyTorch's and DeepSpeed's kernels always do the latter.
  bool fused_accumulation = true;
  KernelLaunch launch = KernelLaunch::async;
  bool tied = false;             ///< the embedding is the weight of the logits, too
  std::vector<UnitShape> units;  ///< in forward order

  [[nodiscard]] double parameters() const;
  /// Operations of forward and backward pass of one sample, without recomputation.
  [[nodiscard]] double operations() const;
};

[[nodiscard]] std::string flaw_of(const ModelShape&);
/// Of some unit: attention=flash.
[[nodiscard]] bool has_fused_attention(const ModelShape&);
/// The kernel of fused attention that is named (attention=flash2).
[[nodiscard]] std::optional<AttentionKernel> attention_kernel(const ModelShape&);
/// The type in which linear layers multiply, where it is another than the model's (linear=f8).
[[nodiscard]] std::optional<DataType> linear_type(const ModelShape&);

/// True for "gpt:…", "bert:…", "llama:…", "resnet50:…", "llama3-8b": a description and not the name of a shipped list.
[[nodiscard]] bool describes_model(std::string_view text);
/// Reads
/// "gpt:hidden=4096,layers=32,heads=32,seq=2048[,vocab=51200][,ffn=…][,kv_heads=…][,head=…]
/// [,experts=8,topk=2[,expert_bias=yes][,clamp=yes]]
/// [,qk_norm=yes][,attention=flash|flash1|flash2|flash3|cudnn,causal=yes[,window=4096[,full_every=2]][,documents=1024]]
/// [,dropout=0][,dtype=bf16][,linear=f8][,gradients=f32][,optimizer=muon][,tied=yes]
/// [,kernels=compiled|eager|deepspeed][,loss=compiled][,loss_chunks=8][,launch=graphs][,accumulation=apart]",
/// the usual CNNs ("resnet50:image=224"), and public models by name ("llama3-8b", "llama3-8b:seq=4096";
/// named_models.hpp). Throws InputError with the column and a suggestion.
[[nodiscard]] ModelShape model_shape_of(std::string_view text);
/// The normalised description (ModelShape::name) with `key=value`, in the place of what it says of `key`.
[[nodiscard]] std::string with_word(std::string description, std::string_view key, std::string_view value);

/// The profile that the roofline gives for `samples` a step on one device; `assumed` says that nothing was measured.
/// One layer a unit; tensors of one unit in the order of its operators.
[[nodiscard]] Profile described_profile(const ModelShape&, const Device&, double samples);

}  // namespace stepcast
