#pragma once
// StepOperators: the operators of one training step in time order, what runs in which phase, and which backward node
// belongs to which forward operator.
//
// Links come from sequence numbers, else from forward-backward arrows, else from the order: the autograd engine runs
// nodes in reverse order of their creation, so the k-th node of a kind belongs to the k-th last forward operator of
// that kind. Not modelled: threads besides the one that runs the step and those of the backward pass.
#include <stepcast/trace/trace_index.hpp>

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace stepcast {

/// A stretch of time that is one step.
struct StepWindow {
  std::int64_t start_ns = 0, end_ns = 0;
};

enum class Phase : std::uint8_t { lead_in, forward, backward, tail };
enum class LinkSource : std::uint8_t { sequence, arrows, order, none };

struct StepOperator {
  std::uint32_t event;
  naming::Role role;
  Phase phase = Phase::tail;
  std::uint32_t forward = no_index;  ///< backward nodes: position of the forward operator, if known
  std::uint32_t layer = no_index;    ///< filled in by step_anatomy.cpp
  bool linked = false;               ///< forward operators: some backward node belongs to it

  [[nodiscard]] bool is_node() const {
    return role == naming::Role::backward_node || role == naming::Role::accumulate_node ||
           role == naming::Role::accumulate;
  }
};

struct StepOperators {
  std::vector<StepOperator> list;                              ///< in time order
  std::uint32_t begin = 0, end = 0;                            ///< range of event indices that start within the window
  std::uint32_t first_backward = no_index, last_backward = 0;  ///< positions; `no_index`: no backward pass
  std::unordered_map<std::uint32_t, std::uint32_t> position;   ///< event -> position in `list`
  LinkSource links = LinkSource::none;
  std::size_t backward_nodes = 0, linked_nodes = 0;
  int backward_passes = 0;
  std::vector<std::int64_t> pass_starts_ns;  ///< first forward operator of each forward-backward pass
  std::uint32_t first_operator = no_index;   ///< event of the first operator of the forward pass

  /// The operator that an event belongs to, or `no_index`.
  [[nodiscard]] std::uint32_t position_of(const TraceIndex&, std::uint32_t event) const;
};

[[nodiscard]] StepOperators step_operators(const TraceIndex&, const StepWindow&);

}  // namespace stepcast
