#pragma once
// Room anatomy: one traced step taken apart into operators, phases, layers and collectives.
//
//   trace -> operators and their device work -> windows of steps -> phases -> layers with forward and backward costs
//
// It may include base, profile and trace.
//
// StepAnatomy: one training step taken apart into operators, phases and layers.
//
// The host time of the step is dealt out completely: each operator of the main and the backward thread gets its own
// duration and the gap before it, less the time in which it waited for the device. What serves communication is kept
// apart from the layers, by what causes it (`CommunicationCosts`); the waiting that it causes is left out. Layers: an
// operator that owns parameters and the operators without parameters that follow it. Ownership: the backward node that
// an AccumulateGrad node follows is the one that produced the gradient, for a parameter of the forward operator that it
// is linked with (step_operators.hpp).
#include <stepcast/anatomy/step_operators.hpp>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace stepcast {

/// Nanoseconds of host and device.
struct Cost {
  std::int64_t host_ns = 0;
  DeviceWork device;
};

struct AnatomyLayer {
  std::uint32_t anchor = no_index;  ///< event of the operator that owns the parameters
  Cost forward, backward;
  std::uint32_t gradients = 0;
};

struct AnatomyGradient {
  std::uint32_t event = no_index;  ///< the AccumulateGrad event
  std::uint32_t layer = 0;
  std::int64_t ready_ns = 0;  ///< start of the node that takes it, hooks included; what is issued later may carry it
  Cost packing{};             ///< its hook and its copy into a bucket, less the issue of a message
};

/// What DistributedDataParallel, or FSDP, does on the worker itself in one step, beside the packing of each gradient.
struct CommunicationCosts {
  Cost before;                  ///< ahead of the forward pass
  Cost after;                   ///< behind the last gradient, unpacking
  std::int64_t issuing_ns = 0;  ///< of the host, in hooks, in calls that issue collectives
  std::uint32_t messages = 0;   ///< the number of those calls
  Cost sharding;                ///< around FSDP's collectives: copies in and out, views; on the host alone also waits
  std::int64_t sharding_copies_ns = 0;  ///< of the host's part of it, copies
};

/// An operator of the forward pass; `saves`: some backward node belongs to it.
struct AnatomyOperator {
  std::uint32_t event = no_index, layer = 0;
  bool saves = false;
};

struct StepAnatomy {
  std::vector<AnatomyLayer> layers;              ///< in forward order
  std::vector<AnatomyOperator> forward;          ///< in order of time
  std::vector<std::int64_t> backward_starts_ns;  ///< when each backward pass starts
  std::vector<std::int64_t> backward_ends_ns;    ///< and when its last operator ends
  std::vector<std::uint32_t> backward_order;
  std::vector<AnatomyGradient> gradients;  ///< in the order of readiness
  Cost optimizer, other;
  CommunicationCosts communication;
  std::int64_t input_ns = 0;
  std::int64_t update_ns = std::numeric_limits<std::int64_t>::max();  ///< start of an annotated update behind them
  std::int64_t waiting_ns = 0;                                        ///< host time spent waiting for the device
  std::int64_t communication_ns = 0;        ///< host time left out because it serves communication
  std::uint32_t first_operator = no_index;  ///< first forward operator that is part of the gradient computation
  LinkSource links = LinkSource::none;
  std::size_t backward_nodes = 0, linked_nodes = 0;
  int backward_passes = 0;
  bool annotated_optimizer = false;

  /// Two steps with equal shapes can be averaged layer by layer.
  [[nodiscard]] bool same_structure(const StepAnatomy&) const;
};

/// Takes the step in `window` apart; no layers when it holds no backward pass.
[[nodiscard]] StepAnatomy anatomy_of(const TraceIndex&, const StepWindow& window);

}  // namespace stepcast
