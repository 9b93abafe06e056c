#pragma once
// Room profile: what one training step costs a worker, layer by layer; its JSON, blocks and changes.
//
//   forward    layer 0 -> layer 1 -> ... -> layer n
//   backward   layer n -> ... -> layer 1 -> layer 0      each layer's gradients are ready when its pass ends
//   update     optimizer
//
// It may include base and encodings.
//
// Profile: what one training step costs one worker, layer by layer, without communication and waiting.
//
// A profile is the model's input: layers in forward order with the time of their forward and backward pass on two
// streams (host issue and device work: a launch-bound layer does not get faster with a faster device), the parameter
// tensors in the order in which their gradients become ready, optimizer and other host time, and the measured step
// times that a replay has to meet. Where there is no device (CPU training) all time is host time.
//
// Invariants (checked by `checked`): at least one layer; every time finite and >= 0; `backward_order` is a permutation
// of the layers; tensors are sorted by gradient-ready order, i.e. by the position of their layer in `backward_order`;
// every tensor names an existing layer. A layer is a parameterised module or operator together with the
// parameterless operators that follow it, so that "leaf modules" of the literature are layers here.
// Not modelled: control flow that differs from step to step; the average step stands for all.
//
// Profiles as JSON are read and written in json.cpp.
#include <stepcast/base/error.hpp>
#include <stepcast/base/units.hpp>
#include <stepcast/profile/collective_role.hpp>
#include <stepcast/profile/pass_cost.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

enum class DataType : std::uint8_t { f64, f32, tf32, f16, bf16, i64, i32, i16, i8, u8, boolean, f8, f4 };
/// Bytes per element; of f4 with its part of the 8-bit scale that 16 of them share (NVFP4).
[[nodiscard]] double size_of(DataType);
[[nodiscard]] std::string_view name_of(DataType);
/// "float", "Float", "c10::BFloat16", "f16", ...; Inapplicable for an unknown name.
[[nodiscard]] Answer<DataType> data_type_of(std::string_view name);

struct Layer {
  std::string name;  ///< operator or module path; unique within the profile
  PassCost forward;
  PassCost backward;
  std::vector<std::int64_t>
      input_shape{};                     ///< the shape of the activations that it works on, whole batch; empty: unknown
  DataType input_dtype = DataType::f32;  ///< the type of those activations
  Bytes kept{};                          ///< activations that its forward pass leaves for the backward pass
  bool slice = false;  ///< continues the layer before: equal parts of what the trace does not look into

  /// 0 when the shape is unknown.
  [[nodiscard]] double input_elements() const;
  [[nodiscard]] Bytes input_size() const;
};

/// A parameter tensor; its gradient has the same shape.
struct Tensor {
  std::string name;
  std::vector<std::int64_t> shape;  ///< empty when only the size is known
  DataType dtype = DataType::f32;
  Bytes size;               ///< gradient bytes
  std::uint32_t layer = 0;  ///< its gradient is ready when the backward pass of this layer ends
  PassCost packing{};       ///< its hook and its way into a bucket, as traced, or estimated of a worker alone
};

/// What the worker itself does for communication in each step, beside the transfers and the packing of each tensor: as
/// traced, or estimated of a worker alone. A plan pays for it as it packs and sends (CommPlan::packing).
struct CommunicationWork {
  PassCost before;      ///< ahead of the forward pass: DDP's broadcast of buffers, say
  PassCost after;       ///< behind the last gradient: out of the buckets, for all tensors together
  Seconds message;      ///< of the thread that issues it, each message
  PassCost sharding{};  ///< each time that FSDP gathers or scatters everything: its own work beyond copies
  bool operator==(const CommunicationWork&) const = default;
};

/// Where the bytes of a traced collective come from, best source first.
enum class BytesSource : std::uint8_t {
  metadata,         ///< element counts x dtype in the event's arguments
  execution_trace,  ///< the same, from the execution trace of the run
  shapes,           ///< the tensors that the operator around it was called with
  gradients,        ///< the gradients that the step produced since the last reduction
  unknown,          ///< the size is not known, and given as 0
};
inline constexpr std::size_t bytes_sources = 5;
/// "metadata", "execution_trace", ...
[[nodiscard]] std::string_view name_of(BytesSource);

/// A collective operation seen in the trace, per step.
struct ObservedCollective {
  std::string operation;   ///< as recorded: "allreduce", ...
  std::int64_t count = 0;  ///< per step
  Bytes size;              ///< summed over the step; 0 when `source` is unknown
  Seconds duration;        ///< summed; of one rank alone it includes waiting for late peers
  Seconds waiting;         ///< the same, split off: known when several ranks were read together
  std::int64_t group_size = -1;
  BytesSource source = BytesSource::unknown;
  CollectiveRole role = CollectiveRole::unknown;
};

/// A reduction of gradients in the traced step.
struct TracedMessage {
  Bytes size;                 ///< of the whole buffer on each worker
  Seconds duration;           ///< as recorded: waiting for late peers included
  std::uint32_t tensors = 0;  ///< gradients that became ready since the message before
};

/// What collectives of one operation took in the traced run, in groups of one kind: of several ranks without waiting
/// for the last one (the median of each size), of one rank alone the least of each size, in which others may have been
/// late.
struct TransferTimes {
  std::string operation;          ///< "all_reduce", "reduce_scatter", ..., as clusters name it
  std::int64_t workers = 0;       ///< of the group; at least 2
  std::int64_t per_machine = -1;  ///< of them on each machine; -1: not known
  std::vector<Bytes> sizes;       ///< of the whole buffer on each worker; strictly increasing
  std::vector<Seconds> times;     ///< one for each size
  std::string library{};          ///< that ran them: "nccl", "gloo"; empty: not known
  [[nodiscard]] bool within_machine() const { return per_machine == workers; }
};

/// One of several ranks that were traced together (ranks.hpp), per step.
struct TracedRank {
  std::int64_t rank = -1;
  std::string source;
  Seconds step;               ///< measured, median; 0 when unknown
  Seconds transfer, waiting;  ///< the times that its collectives transfer and wait
  Seconds late;               ///< came to them after the median rank
  Seconds clock_offset;       ///< its clock is ahead of that of the reference rank
  Seconds clock_residual;     ///< how well that is known
};

/// What stands behind the times of a described job: measured steps of its device, products that were measured alone, or
/// a data sheet.
enum class RatesOf : std::uint8_t { steps, products, data_sheet };
[[nodiscard]] std::string_view name_of(RatesOf);

struct Profile {
  std::string model;                          ///< "ResNet-50" or the trace's name
  std::string device;                         ///< "NVIDIA A100-SXM4-40GB"; empty: computed on the host
  std::vector<Layer> layers;                  ///< in forward order
  std::vector<std::uint32_t> backward_order;  ///< layer indices in the order of the backward pass
  std::vector<Tensor> tensors;                ///< in gradient-ready order
  PassCost optimizer;                         ///< the whole update of one step
  /// Where `optimizer` is that of all parameters, of which this worker updated a part (`updating_all`): the traced one.
  /// No part of its JSON.
  std::optional<PassCost> update_of_shard{};
  CommunicationWork communication{};      ///< what a plan of several workers adds
  std::vector<TracedMessage> messages{};  ///< in the order in which they were issued; empty: none is understood
  PassCost other;                         ///< loss, zero_grad, logging ...: runs between update and next forward
  Seconds input;                          ///< host time in which the step waits for its input batch
  Seconds input_period;                   ///< a loader beside the step delivers no faster; 0: always in time
  Seconds late;                           ///< starts each step so much after the others; no part of its JSON
  bool host_waits_for_device = false;     ///< the step synchronises (loss.item()); else the host may run ahead
  bool without_profiler = false;          ///< the host's work is that of a step without a profiler
  double batch_samples = 0;               ///< samples per worker and step; 0 when unknown
  double bytes_of_state = 0;              ///< per parameter: weight, gradient, optimizer; 0: those of Adam
  Bytes activation_memory;                ///< held between forward and backward pass; 0 when unknown
  Bytes transient_memory;                 ///< the most that a pass takes beyond it for a while; 0 when unknown
  bool described = false;                 ///< nobody traced it: its times are those of a device's roofline
  double device_error = 0;                ///< of a described one: relative rms error of its times; 0 when unknown
  RatesOf rates = RatesOf::steps;         ///< of a described one; steps where the error is known
  double half_precision_share = 0;        ///< of its kernels' time, as far as their names tell
  double tf32_share = 0;                  ///< of the time of its products' kernels, as far as their names tell
  double fused_update_share = 0;          ///< of the update's kernels' time: fused ones, as far as their names tell
  std::vector<Seconds> step_times;        ///< measured, undistorted steps, in order
  std::vector<ObservedCollective> collectives;
  std::vector<TransferTimes> transfers{};  ///< of the whole trace; empty: their sizes or groups are not known
  double unclassified_share = -1;          ///< time of trace events of unknown kind / of all events; -1: no trace
  std::vector<TracedRank> ranks;           ///< empty: one trace alone
  std::string lateness;                    ///< who is late and why, in words; empty: one trace alone
  std::int64_t traced_workers = 1;         ///< world size of the traced run
  std::string provenance;                  ///< where the numbers come from
  std::vector<std::string> recognised;     ///< what the reader understood, for the user
  std::vector<std::string> missing;
  std::vector<std::string> assumed;
  std::vector<std::string> cautions;  ///< why predictions from it are doubtful, one reason each

  [[nodiscard]] bool has_device() const { return !device.empty(); }
  /// Summed gradient bytes.
  [[nodiscard]] Bytes gradient_size() const;
  /// Median of `step_times`; 0 when there is none.
  [[nodiscard]] Seconds measured_step() const;
};

/// Hands every cost of the profile to `apply`: those of the layers in forward order, then optimizer and other.
template <class AnyProfile, class Apply>
void for_each_cost(AnyProfile& profile, const Apply& apply) {
  for (auto& layer : profile.layers) apply(layer.forward), apply(layer.backward);
  apply(profile.optimizer), apply(profile.other);
}

/// The same for what the worker does for communication.
template <class AnyProfile, class Apply>
void for_each_communication_cost(AnyProfile& profile, const Apply& apply) {
  for (auto& tensor : profile.tensors) apply(tensor.packing);
  apply(profile.communication.before), apply(profile.communication.after), apply(profile.communication.sharding);
}

/// All that the worker does itself takes so many times as long.
void scale_work(Profile&, double factor);
/// All that the host does takes so many times as long; the device's work stays, and so does the wait for input, which
/// is loading and no issuing of operators.
void scale_host_work(Profile&, double factor);

/// Returns `profile` if it satisfies the invariants above, else throws InputError (where = `source` + JSON pointer).
[[nodiscard]] Profile checked(Profile profile, std::string_view source);

/// Among how many workers the traced job shares its update out (FSDP, ZeRO): 1 where every worker updates everything.
[[nodiscard]] std::int64_t owners_of_update(const Profile&);
/// The same job with the update of all parameters on every worker, as plans have it that send whole gradients: so many
/// times what the device does (or the host, where it computes). What a host issues stays, a kernel for every tensor.
[[nodiscard]] Profile updating_all(Profile);

/// Time at which the gradient of each tensor (same order as `tensors`) is ready, from the start of the forward pass,
/// on a device that is fed by the host in program order and with nothing else to wait for.
[[nodiscard]] std::vector<Seconds> gradient_ready_times(const Profile&);
/// Time of one step without communication and input: the two-stream recurrence over forward, backward, optimizer and
/// other.
[[nodiscard]] Seconds compute_time(const Profile&);
/// Steady-state step time without communication: where the host may run one step ahead of the device, the larger of the
/// two streams' sums (and half of input and the time above, which two consecutive steps share); else input and the time
/// above; what the worker is late comes on top. Never less than the period of the loader.
[[nodiscard]] Seconds lone_step_time(const Profile&);
/// Elapsed forward and backward time of the same recurrence.
[[nodiscard]] Seconds forward_time(const Profile&);
[[nodiscard]] Seconds backward_time(const Profile&);

/// JSON with schema "stepcast.profile/1": SI numbers, units in the keys; reads back to the same value (`late`, which
/// belongs to a run and not to the step, excepted).
[[nodiscard]] std::string json_of(const Profile&);
/// Throws InputError (JSON pointer, suggestion for unknown keys) for anything that is no valid profile.
[[nodiscard]] Profile profile_of_json(std::string_view text, std::string_view source);

}  // namespace stepcast
