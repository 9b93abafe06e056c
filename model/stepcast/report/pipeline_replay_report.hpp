#pragma once
// Reports of a pipeline replay: text, JSON, and a step as measured and rebuilt (internal to the reports and the
// program).
//
// text/pipeline_replay.cpp, json/pipeline_replay.cpp and timeline/pipeline_replay.cpp each write one of them.
#include <stepcast/replay/pipelined/pipeline_replay.hpp>
#include <stepcast/replay/timeline.hpp>

#include <iosfwd>
#include <span>
#include <vector>

namespace stepcast {

void write_pipeline_replay_text(std::ostream&, const PipelineReplay&);
void write_pipeline_replay_json(std::ostream&, const PipelineReplay&);

/// One timeline a worker, of the step whose measured time is the median; names live as long as the traces.
[[nodiscard]] Answer<std::vector<ReplayTimeline>> pipeline_timelines_of(std::span<const Trace>);

}  // namespace stepcast
