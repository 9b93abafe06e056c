#pragma once
// Carried tables: how long a collective takes on a number of workers that nobody measured, from those that somebody
// did.
//
// An algorithm's forms say how a time grows with the number of workers; a measured table over its forms, size by size,
// says what the forms miss on these machines (their residual). The forms at the asked count times the residual of the
// measured counts around it is the carried table. Residuals are carried at equal size, those of operations whose buffer
// is divided among the workers (all-gather, reduce-scatter, all-to-all) at equal size per worker, between two counts in
// proportion to the logarithm of the count, and beyond them up to four times, from where they fade until sixteen times.
//
// Example: tables of 8 and 64 workers over the forms are 1.2 and 1.0 at 1 MiB, so that 1 MiB on 16 workers takes 1.13
// times what the forms say. Invariants: on a measured count the table itself (times how much slower the forms are on
// links that stragglers and losses leave); without a table of the same reach (inside one machine, or between several)
// nothing; and beyond the largest measured count no collective is faster than on it. Nothing is carried from or to two
// devices of one machine, which exchange without a ring. An all-gather and a reduce-scatter stand in for one another.
// Not modelled: that a library changes its algorithm between two counts.
//
// Their spread is how far a measured time may lie from what is said of it, by its size and by what was measured: a
// factor f such that four of five lie between t / f and t f. It was itself taken from public logs by predicting some
// from others. Machines that are known by name alone differ most in the middle, where a library changes protocols; a
// measured count narrows that, two counts around the one that is asked narrow it more. Example: 1 MiB on 64 devices
// where 16 were measured: 1.65; where 16 and 128 were: 1.35. Not modelled: that errors of neighbouring sizes are alike.
#include <stepcast/cluster/collective.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace stepcast {

/// Machines that a table was measured on: those that it says, else as many as `cluster` has for so many workers.
[[nodiscard]] std::int64_t nodes_of(const MeasuredCollective&, const Cluster& cluster);
/// The first size of a table that the library bounds rather than the host: one process with several devices launches on
/// them one after the other, and small messages take as long as that. 0 where each process has one device.
[[nodiscard]] std::size_t first_beyond_launches(const MeasuredCollective&);
/// Machines with the links of `cluster` alone: `nodes` of them with `workers` devices in all, and network cards in
/// proportion to the devices of each. No tables, stragglers, losses or other jobs.
[[nodiscard]] Cluster bare_machines(const Cluster& cluster, std::int64_t workers, std::int64_t nodes);
/// The tables nearest to a cluster's count from which an operation is carried to it: of at most and of at least as many
/// workers; the same one twice where all lie on one side, null where there is none.
struct MeasuredAround {
  const MeasuredCollective *below = nullptr, *above = nullptr;
  double left = 0;  ///< the share of the residual that counts so far away
};
[[nodiscard]] MeasuredAround measured_around(const Cluster& cluster, Operation op);
/// What was measured of `op` on other counts, carried to the count of `cluster` by the forms of `algorithm`. Sizes
/// reach from 8 B to 64 GiB. Nothing where no table of that reach was measured.
[[nodiscard]] std::optional<MeasuredCollective> carried_table(const Cluster& cluster, Operation op,
                                                              const CollectiveAlgorithm& algorithm);

/// What the factor below is taken from: "nothing", "a pair" (two devices of a machine, of more of them), "one count"
/// (or several on one side), "counts around" or "this count"; "one error" where the algorithm carries no tables.
[[nodiscard]] std::string_view what_was_measured(const Cluster&, Operation);
/// Whether its times are measured ones, or carried from such: those hold the latency that the links had.
[[nodiscard]] bool rests_on_measurements(const Cluster&, Operation);
/// The factor for one operation at one size. Clusters whose algorithm does not carry tables have one for all sizes,
/// from their `relative_error`; 1 where that is unknown.
[[nodiscard]] double spread_of(const Cluster&, Operation, Bytes);
/// The relative standard error of a cluster's messages: its `relative_error`, or what the spread of a bucket of
/// gradients (25 MiB) says; 0 = unknown.
[[nodiscard]] double relative_error_of(const Cluster&);
/// How much shorter and longer `communication` may be than it is said to be, in four cases of five: its links are as
/// much faster as slower by a factor, so that it may double, but never falls below nothing.
struct LinksMargin {
  double below = 0, above = 0;
};
[[nodiscard]] LinksMargin margin_of_links(const Cluster&, double communication);
/// Of a cluster on which no collective was measured: how far a bucket of gradients may be off, the one log to take, and
/// how far off it is with that. Empty for all others.
[[nodiscard]] std::string missing_log_text(const Cluster&);

}  // namespace stepcast
