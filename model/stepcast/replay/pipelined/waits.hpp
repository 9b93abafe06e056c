#pragma once
// Waits: what each operation of a pipelined job waits for, and what ends together (internal; see job.hpp).
#include <stepcast/replay/pipelined/job.hpp>

#include <string>

namespace stepcast::pipelined {

/// Adds waits, groups and work to every step; leaves out those that contradict themselves. Empty, or why all do.
[[nodiscard]] std::string add_waits(PipelineJob&);

}  // namespace stepcast::pipelined
