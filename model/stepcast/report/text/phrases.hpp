#pragma once
// Room report/text: results as text of 80 columns.
//
// Example: "412.3 ms a step (P10 to P90: 398 ms to 427 ms)".
//
// It may include base, profile, documents, cluster, calibration and report.
//
// Phrases: what the text reports of several subjects say in the same words (internal to the reports).
#include <stepcast/base/words.hpp>
#include <stepcast/report/report.hpp>

#include <iosfwd>
#include <string>
#include <string_view>

namespace stepcast {

[[nodiscard]] std::string interval_text(const Prediction&);
[[nodiscard]] std::string model_text(const Profile&);
[[nodiscard]] std::string gradients_text(const Profile&);
[[nodiscard]] std::string cluster_text(const Cluster&);
/// ", rail of 32 machines, spine of 16 rails oversubscribed 2 : 1"; empty without levels.
[[nodiscard]] std::string levels_text(const Cluster&);
/// Lines on a second job on the same network as that of `model`; nothing where none is known.
void write_second_job(std::ostream&, const Cluster&, std::string_view model);
/// Lines "machine" and "library", where there is something to say.
void write_links(std::ostream&, const Cluster&);
/// The links inside a machine, and where they come from.
[[nodiscard]] std::string inside_text(const Cluster&);
/// How well the trace is reproduced, as half a sentence.
[[nodiscard]] std::string replay_text(const SelfCheck&);
/// How well the trace itself is reproduced: lines "replay" and "as traced".
void write_check(std::ostream&, const SelfCheck&);
/// Lines "CAUTION" where it is not.
void write_caution(std::ostream&, const SelfCheck&);
/// "DDP with 25 MiB buckets", or the plan that was traced.
[[nodiscard]] std::string baseline_text(const Prediction&);
/// "ddp(bucket=25 MiB): predicted 219.8 ms, measured 222.4 ms: -1.2 %", or why that cannot be said.
[[nodiscard]] std::string as_traced_text(const AsTraced&);

/// What sending buffers round costs and the setting that saves it; empty where that is nothing worth having.
[[nodiscard]] std::string buffers_text(const Profile&);

/// A bound as a column shows it: "communication bandwidth (63 % of the critical path; ...)" is "bandwidth".
[[nodiscard]] std::string short_bound(std::string_view bound);

/// The step's waits for input, and how much cache and how many workers would end them.
void write_input(std::ostream&, const InputDiagnosis&);
/// "2.4 h": of a whole run.
[[nodiscard]] std::string duration_text(Seconds);
/// How long a run takes, its warm-up named.
[[nodiscard]] std::string run_text(const TrainingRun&);
void write_run(std::ostream&, const TrainingRun&);

/// Several ranks that were traced together: a row for each, and who is late; nothing for one rank.
void write_ranks(std::ostream&, const std::vector<TracedRank>&, std::string_view lateness);
/// What every prediction opens with: model and cluster, and a caution if the replay is off. The answer comes next.
void write_subject(std::ostream&, const Profile&, const Cluster&, const SelfCheck&);
/// What every prediction ends with, set off by an empty line: the replay, and what else the answer stands on.
void write_grounds(std::ostream&, const Profile&, const Cluster&, const SelfCheck&);
/// The first few of what is assumed, and how many more there are.
void write_assumed(std::ostream&, const std::vector<std::string>& assumed, std::string_view where_all);
/// "Plans 1 to 3 differ by less than ...: this answer cannot tell them apart. ... stands first.", of what a ranking
/// calls equals; nothing for fewer than two.
void write_equals(std::ostream&, std::size_t count, std::string_view by, std::string_view first);
/// Lines to paste, set off from the margin.
void write_settings(std::ostream&, std::string_view settings);

}  // namespace stepcast
