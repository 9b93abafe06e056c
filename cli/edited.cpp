// Edited: every trace after the edits, or a refusal.
#include "edited.hpp"

#include <stepcast/base/error.hpp>
#include <stepcast/ranks/ranks.hpp>

#include <utility>

namespace stepcast::cli {
namespace {

template <class T, class Edit>
std::vector<T> of_each_trace(const Documents& documents, const Edit& edit) {
  if (documents.traces.empty()) throw InputError("--what", "a trace, whose tasks it edits", "a profile");
  if (is_pipelined(documents.traces))
    throw InputError("--what", "a traced step with host threads and streams", "the passes of a pipelined job");
  if (documents.traces.size() > 1) (void)run_of(documents.traces);  // refuses ranks of different runs
  std::vector<T> all;
  for (const Trace& trace : documents.traces) {
    Answer<T> answer = edit(trace);
    if (!answer) throw InputError("--what", "edits of tasks that the step has", answer.reason());
    all.push_back(*std::move(answer));
  }
  return all;
}

}  // namespace

std::vector<EditedReplay> edited_replays(const Documents& documents, std::span<const TaskEdit> edits) {
  return of_each_trace<EditedReplay>(documents, [&](const Trace& trace) { return replay_after(trace, edits); });
}

std::vector<ReplayTimeline> edited_timelines(const Documents& documents, std::span<const TaskEdit> edits) {
  return of_each_trace<ReplayTimeline>(documents,
                                       [&](const Trace& trace) { return replay_timeline_after(trace, edits); });
}

}  // namespace stepcast::cli
