#pragma once
// Picture of steps: a step of the job as it is and a step under the best plan, one below the other, as one SVG.
//
//   As traced, ddp(first=25 MiB): 530.5 ms a step
//   host     | forward |   backward    |                     update ┊
//   network                            |   communication     |      ┊
//   Best plan, ddp(bucket=512 KiB): 357.0 ms a step
//   host     | forward |   backward    | update ┊-- 173.5 ms less a step -->
//   network                 | communication |   ┊
//
// Both are steps of a worker in the steady state, from the first moment of a step to the last, on one scale; what
// belongs to the step before or after and lies within is drawn, too. No script, no font, no network; light and dark
// follow `prefers-color-scheme`. Where the best plan is the one in use it stands alone. Invariant: same input, same
// bytes. Not modelled: the tasks by their names (the report page and `predict --timeline` have them).
#include <stepcast/report/report.hpp>

#include <iosfwd>

namespace [[gnu::visibility("default")]] stepcast {

/// Throws InputError where nothing was ranked, and of a recorded job, whose plans have no timelines.
void write_steps_svg(std::ostream&, const RankingReport&);

}  // namespace stepcast
