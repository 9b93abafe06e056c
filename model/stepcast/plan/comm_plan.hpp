#pragma once
// Room plan: what is sent, when it may start and who waits for it: plans, strategies, modifiers.
//
//   backward 3 -> backward 2 -> backward 1 -> update          edges of the profile, implied
//        \-> all_reduce A -------------------/               a transfer of the plan, with two edges
//
// It may include base, profile and cluster.
//
// CommPlan: what is sent, when it may start, and who waits for it.
//
// The heart of stepcast. Every paper on gradient communication is a point in a small space of choices: which tensors
// travel together, in what order, by which operation, how often, and who waits. A plan is a graph over *nodes* of one
// iteration: compute nodes (forward, backward and update of each layer) that the profile brings along, and transfers
// that the strategy adds. An edge (from, to, lag) says that `to` in iteration i+lag starts after `from` in iteration i
// ended.
//
// Compute order is implied and needs no edges: [update l] forward l for all layers in forward order, then the backward
// passes in backward order, then the common update (if the plan has one), then the next iteration. A plan that repeats
// only every k iterations (local updates, delayed pulls) spells out all k of them: its nodes of compute carry the
// `phase` (0..k-1) that they belong to, and its lags count repetitions.
//
// A codec is work of the worker itself that a plan adds (encoding, decoding, a local update). It waits for what its
// edges say and is served, first come, first served, by the engine that it runs on, between the layers' passes.
//
// Invariants (checked by `flaw_of` of plan_flaw.hpp): indices in range; every transfer and codec waits for something;
// lag-0 edges acyclic together with the compute order; every gradient is covered in bytes by gradient-carrying
// transfers, the same number of times (once, unless the plan repeats every k iterations), or `uncovered` says why not.
// Not modelled here: durations. They come from the cluster when the plan is lowered (lower.hpp).
#include <stepcast/base/units.hpp>
#include <stepcast/cluster/collective.hpp>
#include <stepcast/profile/profile.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

enum class NodeKind : std::uint8_t {
  forward_entry,  ///< forward pass of layer `index` is about to start (a point in time); only as a source
  forward,        ///< forward pass of layer `index`; as a target: waits before it starts
  backward,       ///< backward pass of layer `index`; as a source: its gradients are ready
  update,         ///< as a target: the common update; as a source: the common update is done
  transfer,       ///< transfer `index`
  codec,          ///< codec `index`
};
struct Node {
  NodeKind kind;
  std::uint32_t index = 0;
  std::uint32_t phase = 0;  ///< nodes of compute: iteration within the repetition, below CommPlan::period
  bool operator==(const Node&) const = default;
};
struct Edge {
  Node from, to;
  std::uint32_t lag = 0;  ///< repetitions of the plan (iterations, where it repeats every iteration)
  bool operator==(const Edge&) const = default;
};

/// Where the optimizer runs.
enum class UpdatePlace : std::uint8_t {
  after_backward,  ///< one common update on the worker; the next forward pass starts after it
  before_forward,  ///< per layer, on the worker, just before that layer's next forward pass
  on_server,       ///< not on the worker
};

/// How a channel chooses among the transfers that wait for it.
enum class Discipline : std::uint8_t {
  fifo,      ///< by ready time, ties by priority, then by index
  in_order,  ///< strictly by priority within an iteration; the head blocks the rest (DDP's bucket order)
  priority,  ///< smallest priority first, pre-empted only if `preemptive`; `credit` bounds the bytes issued ahead
  parallel,  ///< no queue: every ready transfer runs at once (timers)
};

/// A serial communication resource.
struct Channel {
  std::string_view name;  ///< "net", "up", "dn", "srv", "pcie", "timer"
  Discipline discipline = Discipline::fifo;
  /// `priority` only: bytes that may be issued and not yet completed; the last one issued may exceed it
  /// (ByteScheduler). Issued transfers are served in the order of issue, so that a huge credit is fifo. 0: nothing is
  /// issued ahead, each transfer is chosen when the channel becomes free.
  Bytes credit{0};
  /// `priority` without credit only: a more urgent transfer interrupts the one in service, packet by packet, and that
  /// one goes on when nothing more urgent waits (queues of a network that serve by tag).
  bool preemptive = false;
};

/// One message: an operation on a run of bytes.
struct Transfer {
  Operation operation = Operation::all_reduce;
  std::uint8_t channel = 0;      ///< index into CommPlan::channels
  bool carries_gradient = true;  ///< false for later stages (pull, all-gather) of bytes that were counted already
  std::int32_t priority = 0;     ///< smaller = more urgent
  Bytes size;                    ///< payload per worker, full buffer
  Bytes dense;                   ///< gradient bytes that `size` stands for, where it is encoded; 0: `size` itself
  Seconds delay;                 ///< timer transfers: how long they take (Horovod's tick); else 0
  Seconds overhead;              ///< added to the operation's time: host work per message
  Seconds after;                 ///< how much later than its last byte left the channel it has arrived
  bool may_lose = false;         ///< bounded loss: it waits for no repair but `after`, and for no time-out
  std::uint32_t first_tensor = 0,
                tensors = 0;  ///< run of CommPlan::tensor that it carries (part of one, if partitioned)
};

/// What executes a codec.
enum class Engine : std::uint8_t {
  compute,    ///< the device (without one: the host), in between the layers' passes
  processor,  ///< a processor of its own that works beside the training thread
};

/// Work that the plan adds on the worker.
struct Codec {
  std::string_view name;  ///< "encode", "decode", "local update", ...
  Seconds time;
  Engine engine = Engine::compute;
  std::uint32_t first_tensor = 0,
                tensors = 0;  ///< run of CommPlan::tensor that it works on
};

/// What a compressor has made of the messages.
enum class Coding : std::uint8_t {
  none,
  cast,     ///< shorter values, as many as before
  encoded,  ///< nothing that a further compressor could read
};

/// Which tensors travel in buckets, out of which they are copied again. Of all that travel the hook is paid for.
enum class Packing : std::uint8_t {
  none,    ///< nobody sends anything: a worker alone, which has no hooks either
  merged,  ///< those that travel together
  all,     ///< all: DDP's buckets, of one tensor too
};

struct CommPlan {
  std::vector<Channel> channels;
  std::vector<Transfer> transfers;
  std::vector<Edge> edges;
  std::vector<Codec> codecs;
  std::uint32_t period = 1;  ///< iterations after which the plan repeats
  /// For which tensors the worker does what it was traced to do (Tensor::packing, CommunicationWork).
  Packing packing = Packing::merged;
  Coding coding = Coding::none;
  /// > 0: its messages are differences that so many neighbours get from every worker, which may be compressed.
  std::uint32_t neighbours = 0;
  bool one_update = false;  ///< only the last iteration of a repetition updates (accumulated gradients)
  UpdatePlace update = UpdatePlace::after_backward;
  /// With before_forward: a layer's update holds up the compute stream for at least this long per tensor (a wrapper
  /// that updates tensor by tensor from a thread of its own, while the training thread waits).
  Seconds update_per_tensor;
  std::string uncovered;  ///< non-empty: why some gradients are never sent
  /// A permutation of Profile::tensors, for plans whose messages are no runs in gradient-ready order; empty: identity.
  std::vector<std::uint32_t> order;

  /// Index into Profile::tensors of the tensor at `position` of the order in which transfers count runs.
  [[nodiscard]] std::uint32_t tensor(std::uint32_t position) const {
    return order.empty() ? position : order[position];
  }
};

/// An empty plan that keeps the storage of this one.
[[nodiscard]] CommPlan emptied(CommPlan);

}  // namespace stepcast
