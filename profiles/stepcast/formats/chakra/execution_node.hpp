#pragma once
// One node of an execution trace from its JSON, in any of the two shapes that the schemas have had.
//
// Internal to the library. Not modelled: tensor values, kernel files, strides.
#include <stepcast/formats/shared/recorded_collective.hpp>
#include <stepcast/trace/execution_trace.hpp>

#include <cstdint>
#include <string_view>

namespace simdjson::dom {
class element;
}

namespace stepcast {

/// Adds the node (and its collective and process groups) to the trace and tells its parent's id; false when it has
/// neither id nor name. `own` learns what its collective says of the process' rank.
bool read_execution_node(const simdjson::dom::element& json, ExecutionTrace& to, OwnRank& own, std::int64_t& parent);
/// "Tensor(float)" and "GenericList[Tensor(float),...]" -> "float", the profiler's word; numbers are "Scalar" there.
[[nodiscard]] std::string_view element_type_of(std::string_view type);
/// Numbers, and numbers written as strings.
[[nodiscard]] std::int64_t json_integer(const simdjson::dom::element& json, std::int64_t absent);

}  // namespace stepcast
