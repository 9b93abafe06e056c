#pragma once
// Room baseline: the traced job itself: rebuilt from its tasks, and predicted under the plan that ran.
//
//   replay      rebuilt step 62.3 ms, measured 61.9 ms: +0.6 %       are the recorded events understood?
//   as traced   ddp: predicted 218.9 ms, measured 222.4 ms: -1.6 %   does the model that gives advice describe the job?
//   recorded    62.3 ms, on 16 machines 119 ms                       what is it elsewhere, where no plan stands for it?
//
// It may include base, profile, trace, anatomy, ranks, extraction, documents, cluster, plan, strategies/shared,
// schedule, prediction, layout, parallelism, launch, question, replay and replay/edits.
//
// SelfCheck: how well the model reproduces the very trace that it predicts from.
//
// Invariant: either there is a replay for each rank that has steps, or `missing` says why there is none. Advice from a
// trace that is not reproduced is marked as doubtful wherever it is shown. Not modelled: how far a prediction for
// another plan or cluster is off (validation.hpp).
#include <stepcast/baseline/as_traced.hpp>
#include <stepcast/baseline/recorded_job.hpp>
#include <stepcast/replay/replay.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

struct Documents;
struct RecommendOptions;

/// How well the model reproduces the very trace that it predicts from, one replay a rank; or why that is not known.
struct SelfCheck {
  std::vector<Replay> ranks;
  std::string missing;                    ///< why there is no replay
  std::vector<TracedRank> together{};     ///< several ranks: who waited for whom (ranks.hpp)
  std::string lateness{};                 ///< the same in words
  std::vector<std::string> cautions{};    ///< of the run (RunOfRanks) or of the profile
  std::optional<AsTraced> as_traced{};    ///< the traced job by the model that gives advice; nothing: not asked
  std::optional<RecordedJob> recorded{};  ///< the job itself, where no plan stands for it (or it is asked for so)
  /// The recorded step of a job for which a plan stands: a second opinion on what other messages of gradients take.
  std::optional<RecordedJob> beside{};
  bool of_recorded_step = false;  ///< what stands beside it is the recorded job, with other messages of gradients
  std::string by_request{};       ///< nothing but the recorded step may answer: who asked for that (recorded_check_of)

  /// The scored replay with the largest error; null when there is none.
  [[nodiscard]] const Replay* worst() const;
  /// False when the traced job is not reproduced, by its replay or by the model that gives advice, when the recording
  /// lost events, or the profile has cautions: advice from such a trace is marked.
  [[nodiscard]] bool trusted() const;
  /// The plan that was traced, as one writes it; where none stands for the job `RecordedJob::name`, or, where nothing
  /// is recorded of it either, empty.
  [[nodiscard]] std::string traced_plan() const;
  /// The plan that a question is about which names none: what was traced, where a plan stands for it, else DDP.
  [[nodiscard]] Plan plan_in_use() const;
  /// What runs today on the cluster of a question, after its changes: what gains are over. One with a layout stands by
  /// its name among plans that only divide the batch, and so does the recorded job where no plan stands for it. Nothing
  /// where it cannot run there, where its tail there is not known (a layout under jitter), or where the question
  /// changes a job of which there is only the recording.
  [[nodiscard]] std::optional<Prediction> in_use(const PreparedQuestion&) const;
  /// True for the recorded job among plans.
  [[nodiscard]] bool is_recorded(const PlanSpec&) const;
  /// The model that gives advice is too far off the job that was traced.
  [[nodiscard]] bool models_another_job() const;
  /// The plan that was traced is predicted too far off on the links that the trace shows, so that plans that send
  /// other messages than it did cannot be compared with it.
  [[nodiscard]] bool has_other_links() const;
  /// Why not to trust it, for people; empty when it is trusted or nothing is known.
  [[nodiscard]] std::string caution() const;
  /// What else to know of the model that gives advice, where that is no reason not to trust it.
  [[nodiscard]] std::string reserve() const;
  /// Whether answers to a question are of the recorded step, whose messages of gradients are exchanged: where there is
  /// one, these can be, and the question does not change the job.
  [[nodiscard]] bool exchanges(const PreparedQuestion&) const;
  /// What a plan takes then on a cluster; Inapplicable for a profile that is not that of the job. Nothing where answers
  /// are not of the recorded step. The check has to outlive it. Throws InputError where the recorded step is asked
  /// for, and the question changes the job.
  using Model = std::function<Answer<Prediction>(const Profile&, const Cluster&, const PlanSpec&)>;
  [[nodiscard]] Model recorded_model(const PreparedQuestion&) const;
  /// What is known of the traced job beside the model of its layers: widens the interval of an answer on this profile
  /// and cluster, and says why. The check has to outlive it; threads may call it together.
  using SecondOpinion = std::function<void(Prediction&, const Profile&, const Cluster&)>;
  [[nodiscard]] SecondOpinion second_opinion() const;
  /// The same check of an answer that is of the recorded step.
  [[nodiscard]] SelfCheck for_recorded_step() const;
  /// A replay that is further off says that the model does not understand the trace. Real traces replay within a few
  /// per cent, and the plans worth choosing between are seldom less than this apart.
  static constexpr double largest_trusted_error = 0.10;
};

/// Who waited for whom alone, without replays. Throws InputError for fewer than two ranks, and for traces that are none
/// of one run.
[[nodiscard]] SelfCheck lateness_of(const Documents&);
/// A replay of every trace, and who waited for whom where there are several; of a profile the reason why there is none.
[[nodiscard]] SelfCheck self_check_of(const Documents&);
/// The same, with what the profile that the documents give says against itself, and the job as it was traced.
[[nodiscard]] SelfCheck self_check_of(const Documents&, const Profile&);
/// The same of a job that is answered by its recorded step, also where a plan stands for it. Throws InputError, naming
/// `where` ("--recorded"), where that cannot be rebuilt, or its messages cannot be exchanged and no plan stands for it
/// (which then is the only one that may be asked).
[[nodiscard]] SelfCheck recorded_check_of(const Documents&, const Profile&, std::string_view where);

/// The question for layouts of a job for which no plan stands: what its recorded step has beside its layers (its
/// all-to-alls, what hosts wait for) stays under every layout. Any other question unchanged.
[[nodiscard]] PreparedQuestion with_recorded_rest(const SelfCheck&, const PreparedQuestion&);

/// The answer to a question, with a warning where it is doubtful, or where the recorded step with the same messages of
/// gradients tells another one: its interval holds both then. Where that is more than the profile tells
/// (`exchanges`), it is that of the recorded step, for plans that send its gradients in other messages; Inapplicable
/// for plans that do more. Throws InputError as rank_over_what_runs does, and for layouts where the recorded step is
/// asked for.
[[nodiscard]] Answer<Prediction> checked_answer(const SelfCheck&, const PreparedQuestion&, const Plan&);

/// What becomes of plans whose profile is that of another job than was traced.
enum class PlansOfAnotherJob : std::uint8_t { left_out, ranked };

/// A ranking over what runs today, with the other ZeRO stages beside a job that shards its state. Where what runs is a
/// recorded job for which no plan stands, plans exchange the messages of its gradients; where these cannot be exchanged
/// it is ranked alone, or, if plans are named or are to be `ranked` all the same, left out, and they are compared with
/// one another: what the profile says of them is said of another job. Where the recorded step tells another answer than
/// the layers, intervals hold both. The check has to outlive the ranking. Throws
/// InputError where the recorded step is asked for, and the question changes the job, and where nothing is known of a
/// job for which no plan stands, not even its recorded step.
void rank_over_what_runs(RecommendOptions&, const SelfCheck&, const PreparedQuestion&,
                         PlansOfAnotherJob = PlansOfAnotherJob::left_out);

/// Of traces that give no profile, so that no plan can be predicted: the replays, and the job as it was traced, rebuilt
/// by them, with the reason, `refusal`, as what is left out. Nothing is known of it where no step can be rebuilt
/// either.
[[nodiscard]] SelfCheck recorded_only(const Documents&, std::string refusal);

}  // namespace stepcast
