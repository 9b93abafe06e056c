#pragma once
// OperationTable: the coarse operations of a pipelined job (forward of micro-batch 3 on stage 2, ...), all workers in
// one table, and the traces that it means: one for each worker.
//
// In such a trace every computation is a kernel on stream 0 and every kind of communication has a stream of its own, on
// which its collectives lie; OperationArguments say which step, micro-batch, chunk and stage an operation belongs to.
// Every worker carries the steps of the job: from the first start to the last end of a step over all workers, because
// that is the iteration time, and a worker that has less to do waits for the others. Not modelled: kernels and bytes,
// which such tables do not hold.
#include <stepcast/encodings/source.hpp>
#include <stepcast/trace/trace.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast {

/// One row; -1: not said. `rank` tells workers apart.
struct OperationRecord {
  std::int64_t start_ns = 0, duration_ns = 0;
  std::int64_t rank = -1;
  std::int32_t type = 0;  ///< index into OperationTable::types
  std::int32_t data_rank = -1, stage = -1, step = -1, chunk = -1, micro_batch = -1, sequence = -1;
  std::int32_t tensor_rank = -1;  ///< the workers of a tensor group run the same operations: one stands for all
};

struct OperationTable {
  std::vector<OperationRecord> operations;
  std::vector<std::string> types;  ///< "forward-compute", "grads-reduce-scatter", ...
  bool relative = false;           ///< times count from the start of each step
  ReadReport report;               ///< what the reader has to say of itself; the same for every worker

  /// Index of a type, added on first use.
  [[nodiscard]] std::int32_t type(std::string_view name);
};

/// What an operation is, by the names that Megatron's timers use.
struct OperationRole {
  bool communication = false;
  std::string_view operation;  ///< "allreduce", "send", ...; empty for computation
  std::string_view group;      ///< "pipeline", "data", "embedding"
  int peer_stage = 0;          ///< the other end of a send or receive: +1 the next stage, -1 the one before
  bool known = true;
};
[[nodiscard]] OperationRole role_of_operation(std::string_view type);

/// The traces of all workers, in order of rank. Throws InputError for a table without steps or of too many workers.
[[nodiscard]] std::vector<Trace> traces_of(OperationTable, const Source&);

}  // namespace stepcast
