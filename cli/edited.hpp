#pragma once
// Edited: recorded steps after edits of their tasks (task_edits.hpp), as replay --what and whatif --recorded ask for
// them.
#include <stepcast/documents/documents.hpp>
#include <stepcast/replay/edits/task_edits.hpp>

#include <span>
#include <vector>

namespace stepcast::cli {

/// Each trace by itself, after the edits. Throws InputError where there is no such step, or an edit matches none of its
/// tasks.
[[nodiscard]] std::vector<EditedReplay> edited_replays(const Documents&, std::span<const TaskEdit>);
/// The same steps, drawn beside the recorded ones.
[[nodiscard]] std::vector<ReplayTimeline> edited_timelines(const Documents&, std::span<const TaskEdit>);

}  // namespace stepcast::cli
