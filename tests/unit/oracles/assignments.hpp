#pragma once
// Assignments: the frontier of an operator graph, and its end, found in two other ways than the library's.
//
// One tries all combinations. The other is min-sum elimination (Bertele and Brioschi 1972): costs are tables over the
// configurations of a few operators. To eliminate an operator, the tables that mention it are added up into one over
// all their operators, and the least over its configurations is left. It knows of no frontiers; its least time is that
// of the frontier. Both throw InputError at a graph that makes no sense.
#include <stepcast/search/frontier.hpp>

namespace stepcast::test {

/// All combinations, for graphs of up to 6 operators or so.
[[nodiscard]] AssignmentFrontier frontier_by_enumeration(const OperatorGraph&);
/// The shortest time, memory aside. Throws InputError where a table would have more than 2^26 entries.
[[nodiscard]] double least_time(const OperatorGraph&);

}  // namespace stepcast::test
