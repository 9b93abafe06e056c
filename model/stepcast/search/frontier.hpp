#pragma once
// Frontier: the Pareto set of memory and time, and TensorOpt's search with it over per-operator configurations.
//
// Cai et al., "TensorOpt: Exploring the Tradeoffs in Distributed DNN Training With Auto-Parallelism", TPDS 33(8), 2022.
// Each operator has K configurations with a cost each, each pair of configurations of neighbours has a cost of changing
// from one layout of the data to the other; a strategy costs their sum. `reduced` keeps what nothing beats in both
// memory and time, `product` adds pairwise (series), `united` offers alternatives. Node and edge elimination reduce a
// graph to a chain, linear dynamic programming solves it. Invariant: a frontier's memory strictly rises and its time
// strictly falls; the order of eliminations does not matter. Not modelled: overlap between operators.
#include <stepcast/base/error.hpp>
#include <stepcast/base/units.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

struct CostPoint {
  double memory = 0, time = 0;  ///< bytes, seconds
  std::uint32_t trace = 0;      ///< how it came about: index into the search's record of choices
  bool operator==(const CostPoint&) const = default;
};
using Frontier = std::vector<CostPoint>;

[[nodiscard]] Frontier reduced(std::vector<CostPoint>);
[[nodiscard]] Frontier product(const Frontier&, const Frontier&);
[[nodiscard]] Frontier united(const Frontier&, const Frontier&);

/// Operators with their configurations and what lies between them.
struct OperatorGraph {
  struct Operator {
    std::vector<CostPoint> configurations;  ///< memory and time of each
  };
  struct Edge {
    std::uint32_t from = 0, to = 0;
    std::vector<CostPoint> change;  ///< row-major [configuration of from][configuration of to]
  };
  std::vector<Operator> operators;
  std::vector<Edge> edges;
};
struct Assignment {
  double memory = 0, time = 0;
  std::vector<std::uint32_t> configuration;  ///< the configuration of each operator
};
struct FrontierOptions {
  std::size_t most_points = 0;  ///< 0: all; else frontiers are thinned, and `exact` is false
};
struct AssignmentFrontier {
  std::vector<Assignment> points;  ///< memory rises, time falls
  bool exact = true;               ///< nothing was thinned and no operator was fixed
};
[[nodiscard]] AssignmentFrontier frontier_of(const OperatorGraph&, const FrontierOptions& = {});

}  // namespace stepcast
