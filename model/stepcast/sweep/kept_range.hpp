#pragma once
// Kept range: where, along the first axis of a sweep, a plan keeps a share of its best rate, or a step time. The
// inverse question: "which bandwidth keeps 90 %", "how many workers before a fifth is lost", "which bandwidth for 350
// ms".
//
//   rate     |            .--------*     best, at 400 Gb/s
//   90 % - - |- - - - -.-'- - - - -
//            |      .-'|         |       kept from 5.4 Gb/s to the end of the axis
//            '---------+---------+- bandwidth
//
// The rate is what a worker does in a second (samples, else steps), so that an axis of workers tells efficiency. The
// range is the one around the best point of the grid; ends between points are found by bisection with predictions (to a
// thousandth, one machine or one thing), not by interpolation. Not modelled: further ranges apart from that one; axes
// of choices, which have no order.
#include <stepcast/sweep/sweep.hpp>

#include <string>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

/// What is to be kept: a share of the best rate, or at most a step time. One of the two.
struct Kept {
  double share = 0;
  Seconds step{};
};
/// "90 %", "0.9", "350 ms"; throws InputError, in the name of `where`.
[[nodiscard]] Kept kept_of(std::string_view text, const char* where);

struct KeptRange {
  std::string plan;              ///< as asked
  std::vector<double> others{};  ///< values of the other axes
  bool any = false;              ///< false: the plan keeps it at no point; nothing but `best` and `best_step` is known
  bool runs = false;             ///< false: the plan cannot run at any point, and nothing is known but
  std::string inapplicable{};    ///< why
  double low = 0, high = 0;      ///< the first and last value at which it is kept
  bool to_first = false, to_last = false;  ///< these are the ends of the axis: it may be kept beyond
  Seconds low_step{}, high_step{};
  double best = 0;  ///< the value with the best rate; for a step time with the shortest step
  Seconds best_step{};
};
/// For each choice of the other axes' values the plans in their order. Needs the rows of the whole grid. Throws
/// InputError for an axis of choices.
[[nodiscard]] std::vector<KeptRange> kept_ranges_of(const SweepQuestion&, std::span<const SweepRow>, const Kept&);

}  // namespace stepcast
