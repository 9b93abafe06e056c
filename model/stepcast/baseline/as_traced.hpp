#pragma once
// AsTraced: the traced job as a plan like any other, predicted by the model that gives advice, beside what was
// measured.
//
// A replay shows whether the recorded events are understood. Advice is given from something smaller, the costs of
// layers and what the worker does for its messages; whether these still describe the job is told here. The plan that
// ran is recognised by its collectives, and each of them takes the time that it was recorded to take:
//
//   as traced   ddp(bucket=25 MiB): predicted 219.8 ms, measured 222.4 ms: -1.2 %
//
// Recognised are, by the roles of their collectives (collective_role.hpp; where these are not known by their
// operations), a worker alone, gradients that are all-reduced in the order of readiness or scattered to their owners
// (with parameters that are sent round after the update: ZeRO-1), and parameters and gradients that are sharded over
// all workers. What is not recognised stays as it was recorded: its step is rebuilt by replay, and says that plans
// leave something out. Not modelled: tensor, expert and pipeline parallelism, whose collectives no plan of gradients
// takes the place of; lateness of other ranks, which counts as transfer.
#include <stepcast/base/units.hpp>
#include <stepcast/profile/profile.hpp>
#include <stepcast/question/question.hpp>
#include <stepcast/replay/replay.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace [[gnu::visibility("default")]] stepcast {

struct AsTraced {
  std::string plan;        ///< "ddp(bucket=25 MiB)", "layout(zero=3)/ddp", "one worker"
  Seconds predicted;       ///< of that plan, each of its messages as long as it was recorded
  Seconds measured;        ///< median of the steps
  std::string missing{};   ///< why nothing is predicted; empty: it is
  std::string left_out{};  ///< what the model of the job does not contain, so that `predicted` is a replay; or empty
  /// The same plan where no message has a time of its own, but all have that of the links that the trace shows (which
  /// other plans have, too); 0: not known.
  Seconds on_links{};

  [[nodiscard]] bool known() const { return missing.empty(); }
  /// The plan, where it is one that may be asked for elsewhere: what gains are over.
  [[nodiscard]] std::optional<Plan> as_plan() const;
  /// predicted / measured - 1; 0 where nothing is predicted.
  [[nodiscard]] double relative_error() const;
  /// on_links / measured - 1; 0 where that is not known.
  [[nodiscard]] double error_on_links() const;
  /// What a large error means for other plans; empty where it is small or not known.
  [[nodiscard]] std::string caution() const;
  /// The same of the error on the links that the trace shows.
  [[nodiscard]] std::string caution_of_links() const;
  /// A plan is told from another where they are further apart than this; a model of the job that is further off than
  /// the second tells nothing of them.
  static constexpr double telling_error = 0.05, largest_trusted_error = 0.15;
};

[[nodiscard]] AsTraced as_traced(const Profile&);
/// The machines that the job was traced on, with the links that it shows: `workers` of them, of which `machine_devices`
/// share a machine (-1: nobody knows, so that each is taken for one). Inapplicable where these links are not known.
[[nodiscard]] Answer<Cluster> traced_cluster(const Profile&, std::int64_t workers, std::int64_t machine_devices);
/// With AsTraced::on_links, where a plan stands for the job and the links are known.
[[nodiscard]] AsTraced with_links(AsTraced, const Profile&, std::int64_t machine_devices);
/// Which of its collectives no plan of gradients takes the place of, in words; empty: none.
[[nodiscard]] std::string beyond_plans(const Profile&);
/// The same job; where no plan stands for it its rebuilt step (a replay of the trace), with the reason in `left_out`.
[[nodiscard]] AsTraced rebuilt(AsTraced, const Replay&);
/// What is left of the host's work without the profiler, at least: steps took 4 to 36 % longer with one on CPUs, and up
/// to 99 % on H100 (validation/gpu), where the host held the device up; what took longer still had been disturbed.
inline constexpr double least_trusted_scale = 0.5;

/// The job without its profiler: the host's work, and what messages waited for late or busy hosts, scaled by the one
/// factor with which the job as traced takes `step` instead of what was measured, relative to its model's error. Where
/// device or collectives set its pace, the host's work is the most that they hide and no more than recorded, and the
/// few percent that may be left are scaled of all work. A step that is longer than the traced one, which no profiler
/// explains, is one of all work whoever sets the pace, with a caution from AsTraced::telling_error on. The wait for
/// input stays. Throws InputError, naming `where` ("--step"), where the step was not measured, where no plan stands for
/// the job, and where device and collectives alone take longer.
[[nodiscard]] Profile without_profiler(Profile, Seconds step, std::string_view where = "step");

}  // namespace stepcast
