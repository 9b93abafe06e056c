#pragma once
// Room sharing: two jobs that share a level of the network, and what each leaves the other of it.
//
//   second job  --sends 1 s of its step of 2 s-->  takes 1/3 of the level while the first job sends
//
// It may include base, cluster, plan, schedule, prediction, layout, workload, parallelism, step_nodes and
// question.
//
// Second job: a job whose plan is known, on the same network. Its messages are those of its plan, and what they take of
// the level that both share becomes the share that `--background` would say.
//
// Links are shared fairly: of two flows that could each use more than half of a link both get half (max-min fairness:
// Bertsekas and Gallager, Data Networks, 2nd ed. 1992, section 6.5.2). Let the messages of a step need s_1 seconds of
// all of the level, and those of the other job s_2 seconds of its step of T_2, each alone. Where the first job has a
// seconds left to send when the other one begins with b, both go at half the rate for 2 min(a, b) seconds, until one
// has finished, and each has lost min(a, b): as much as both would have sent at the same time if each had been alone.
// Jobs that know nothing of one another meet at random, so that at any time the other one would be sending with
// probability u_2 = s_2 / T_2, and the mean loss is s_1 u_2:
//
//   messages    s_1 -> s_1 (1 + u_2)           at least s_1 (never together), at most 2 s_1 (always)
//   share       1 / (1 - b_2) = 1 + u_2   =>   b_2 = u_2 / (1 + u_2), from 0 to 1/2
//
// The same follows for jobs that compute and send in turn, for times of any distribution, from two customers in a
// closed network with one shared processor (Baskett, Chandy, Muntz, Palacios, J. ACM 22(2), 1975): whoever comes finds
// the other one as it is alone (Reiser and Lavenberg, J. ACM 27(2), 1980). So what a job leaves does not depend on how
// slow the other one makes it: no iteration is needed, and all plans of a job have the same network beside them. What
// is slowed is what the plan sends; how much of that the step feels is the schedule's business.
//
// Seconds on a level are what its rate takes for the bytes that cross it. They are measured by pricing the messages
// with small parts of the level, which nothing else is slower than: start-ups, links inside machines and what stays
// below take no longer then. So a flow that other links hold below the rate counts as what it takes, and one that
// leaves the first job as much as its own links carry costs it nothing. Of several channels (up, down) the busiest
// counts, of several stages as well.
//
// Invariants: a job that never crosses the level takes nothing; a share is at most 1/2; the slower of two answers is
// the one with a second job. Not modelled: jobs whose phases lock in, which is why the mean lies between never and
// always (schedulers that interleave periodic jobs on purpose: CASSINI, Rajasekaran et al., NSDI 2024); congestion
// control that is unfair or slow to converge; more than two jobs; flows of less than a tenth of the level's rate, which
// count for less than they take; the change of the share from message to message, for which the mean share stands;
// intervals, which take the share as known. Both jobs have as many workers: under a level machines of their own, of
// which its units count those of one job; where the machines' cards are what is shared (without levels, and on the
// first one) devices of the same machines. Internal to the library.
#include <stepcast/question/question.hpp>

#include <cstddef>
#include <functional>

namespace stepcast {

/// Mean seconds of a step in which the messages of an answer's plan take all that others leave of a level (an index as
/// `background_at` counts) of the question's cluster. Inapplicable where the plan's messages are not known one by one.
[[nodiscard]] Answer<Seconds> time_on_level(const PreparedQuestion&, const Prediction&, std::size_t level);

/// What a job takes of a level while another one sends, if its messages alone take `sends` of its `step`.
[[nodiscard]] double share_taken(Seconds sends, Seconds step);
/// The most that any job takes: of one that always sends.
inline constexpr double share_of_always_sending = 0.5;
/// The cluster where another job takes so much of what others leave of a level.
[[nodiscard]] Cluster with_share_taken(Cluster, std::size_t level, double share);

/// A job beside which another one is asked: its question, of which `answer` is the answer for its plan.
struct OtherJob {
  Question question;
  std::function<Answer<Prediction>(const PreparedQuestion&)> answer;
};
/// What a second job takes of a level of its cluster. Inapplicable where its plan is, or its messages are not known.
[[nodiscard]] Answer<SecondJob> second_job_of(const OtherJob& second, std::size_t level);
/// The same, told of one plan of the first job, whose question is that without a second one. Inapplicable where that
/// plan is.
[[nodiscard]] Answer<SecondJob> told_of_both(SecondJob, const OtherJob& first, const OtherJob& second,
                                             std::size_t level);

}  // namespace stepcast
