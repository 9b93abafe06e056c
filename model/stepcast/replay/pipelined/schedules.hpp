#pragma once
// Schedules of a job: its passes as the pipeline model has them, in the recorded order and in others (internal).
#include <stepcast/replay/pipelined/job.hpp>

#include <vector>

namespace stepcast::pipelined {

/// What the same passes would take in each schedule of the family, times from the steps that `use` names.
void add_schedules(const PipelineJob&, const std::vector<bool>& use, PipelineReplay&);

}  // namespace stepcast::pipelined
