#pragma once
// Sweep report: the rows of a sweep as CSV and as JSON lines (json/sweep.cpp), and as a table for people
// (text/sweep.cpp).
//
// The first two have the same columns: SI numbers with the unit in the name, and nothing where a number is not known.
#include <stepcast/sweep/kept_range.hpp>
#include <stepcast/sweep/sweep.hpp>

#include <iosfwd>
#include <span>

namespace [[gnu::visibility("default")]] stepcast {

/// One header line (`header`) and a line a row; SI numbers with the unit in the column's name
/// ("bandwidth_bytes_per_s"), nothing where a number is not known. compute_s, exposed_s, codec_s, input_stall_s and
/// idle_s add up to iteration_s.
void write_sweep_csv(std::ostream&, const SweepQuestion&, std::span<const SweepRow>, bool header = true);
/// One JSON object a line, with the same names, and its schema in each: any line stands for itself.
void write_sweep_json_lines(std::ostream&, const SweepQuestion&, std::span<const SweepRow>);
/// Where plans keep what is asked for along the first axis: a line each, columns as JSON's below.
void write_kept_csv(std::ostream&, const SweepQuestion&, std::span<const KeptRange>);
/// One JSON object a line: the values of the other axes under their names, "plan", "axis", and of that axis "low" and
/// "high" (SI), whether these are its ends, the steps there and where the plan is best; null for what is not known.
void write_kept_json_lines(std::ostream&, const SweepQuestion&, std::span<const KeptRange>);
void write_kept_text(std::ostream&, const SweepQuestion&, const Kept&, std::span<const KeptRange>);

/// What each plan takes at each point with its interval, and the share of the step in which a worker computes.
void write_sweep_text(std::ostream&, const SweepQuestion&, std::span<const SweepRow>);

}  // namespace stepcast
