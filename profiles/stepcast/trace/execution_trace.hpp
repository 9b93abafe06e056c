#pragma once
// ExecutionTrace: what PyTorch's ExecutionTraceObserver writes: every operator with its inputs, outputs and parent, and
// no times. It adds shapes, collective sizes and data dependencies to the profiler's trace of the same run.
//
// Operators are joined by the record-function id, which both files carry ("rf_id" here, "Record function id" or, before
// 2.4, "External id" there); where the two count apart, by the order of the operators on each thread of the same
// process. Invariant: every index is in range; a parent that the file does not hold is `no_index`.
// Not modelled: tensor values, operator schemas, attributes of Triton kernels.
#include <stepcast/trace/trace.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

/// A tensor as the file writes it: (tensor id, storage id, offset, elements, bytes per element, device).
struct ExecutionTensor {
  std::int64_t tensor = -1, storage = -1, offset = 0, elements = 0, element_size = 0;
};

struct ExecutionNode {
  std::int64_t id = -1;
  std::int64_t record_function = -1;
  std::int64_t sequence = -1;
  std::int64_t forward_thread = -1;
  std::int64_t thread = -1;         ///< "tid": threads are numbered in the order of their first operator
  std::uint32_t parent = no_index;  ///< index into ExecutionTrace::nodes
  std::string name;
  std::string input_shapes;  ///< raw JSON text, as Event::shapes
  std::string input_types;
  std::vector<ExecutionTensor> inputs, outputs;
  std::uint32_t collective = no_index;  ///< index into ExecutionTrace::collectives
};

struct ExecutionCollective {
  std::string name, dtype, group;
  std::int64_t in_elements = -1, out_elements = -1, group_size = -1;
  std::string in_split, out_split;
};

struct ExecutionTrace {
  std::string source;
  std::string schema;  ///< "1.1.1-chakra.0.0.4"
  std::int64_t process = -1;
  std::int64_t rank = -1;  ///< from the process-group node or the file, else -1
  std::vector<ExecutionNode> nodes;
  std::vector<ExecutionCollective> collectives;
  std::vector<ProcessGroup> groups;
  ReadReport report;
};

/// `trace` with what the execution trace of the same process knows beyond it: shapes, types, collective arguments and
/// data dependencies (DependencyKind::data) where the trace lacks them; its report says how many operators were joined.
/// Throws InputError when next to nothing joins: they are not of the same run.
[[nodiscard]] Trace joined(Trace trace, const ExecutionTrace&);
/// Each execution trace with the trace of its rank (else with the one that it shares most record functions with).
/// Throws InputError as above, naming the file that found no partner.
[[nodiscard]] std::vector<Trace> joined(std::vector<Trace> traces, const std::vector<ExecutionTrace>&);

}  // namespace stepcast
