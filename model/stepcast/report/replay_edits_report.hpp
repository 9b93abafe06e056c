#pragma once
// Replay edits report: a replayed step after what-ifs on its tasks, beside the recorded and the rebuilt one.
//
// One entry a trace. text/replay_edits.cpp writes it, as text and as JSON. Not modelled: how the ranks of a run wait
// for one another after the edits.
#include <stepcast/replay/edits/task_edits.hpp>

#include <iosfwd>
#include <span>

namespace [[gnu::visibility("default")]] stepcast {

void write_replay_edits_text(std::ostream&, std::span<const EditedReplay>);
void write_replay_edits_json(std::ostream&, std::span<const EditedReplay>);

}  // namespace stepcast
