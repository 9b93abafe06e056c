#pragma once
// Elimination graph: an operator graph on its way to a single frontier (TensorOpt, section 4; see frontier.hpp).
//
// Every configuration of an operator and every pair of configurations of an edge holds a frontier, and each step takes
// something away without losing a point of the answer:
//
//     edge       two edges between the same operators become one, their product
//     end        an operator with one neighbour goes into it: one step of the linear dynamic programme, which solves a
//                chain (or a tree) from its ends
//     node       i - j - k, where j has no other neighbour, becomes an edge i - k: over all configurations of j, the
//                union of edge(i,j) x node(j) x edge(j,k)
//     branch     two neighbours become one operator whose configurations are all pairs of theirs
//
// A point remembers in a record of choices which configurations led to it. Invariant: any order of steps ends in the
// same costs; only `fix` (the heuristic for graphs whose branches would grow without bound) and thinning lose points,
// and clear `exact`. Not modelled: see frontier.hpp.
#include <stepcast/search/frontier.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stepcast {

/// Throws InputError unless every operator has a configuration, every edge a cost for each pair, and all are finite.
void check(const OperatorGraph&);

class EliminationGraph {
 public:
  EliminationGraph(const OperatorGraph&, const FrontierOptions&);

  /// Operators that are still there.
  [[nodiscard]] std::vector<std::uint32_t> operators() const;
  /// Its neighbours, each once, in the order of their numbers.
  [[nodiscard]] std::vector<std::uint32_t> neighbours(std::uint32_t op) const;
  [[nodiscard]] std::size_t configurations(std::uint32_t op) const { return nodes_[op].size(); }

  /// Requires one neighbour.
  void eliminate_end(std::uint32_t op);
  /// Requires two neighbours.
  void eliminate_node(std::uint32_t op);
  /// `op` and its neighbour `into` become one, numbered as `into`.
  void merge_branch(std::uint32_t op, std::uint32_t into);
  /// Keeps only the configuration with the least time of its own and of its changes: a heuristic.
  void fix(std::uint32_t op);
  /// Ends first, then nodes, then the smallest branch; fixes an operator where the branch would be too large.
  void eliminate_all();
  /// Requires that no edge is left.
  [[nodiscard]] AssignmentFrontier result();

 private:
  struct Edge {
    std::uint32_t from = 0, to = 0;
    std::vector<Frontier> change;  ///< row-major [configuration of from][configuration of to]
  };
  struct Choice {  ///< a leaf (operator, configuration), or what two points chose together
    std::uint32_t left = 0, right = 0;
    bool leaf = false;
  };
  Frontier both(const Frontier& a, const Frontier& b);
  Frontier either(const Frontier& a, const Frontier& b);
  Frontier thinned(Frontier);
  /// Takes the edge between the two out of the graph, its rows the configurations of `from`.
  Edge taken(std::uint32_t from, std::uint32_t to);
  void add(Edge);
  void merge_smallest_branch();

  FrontierOptions options_;
  std::size_t original_ = 0;                  ///< operators of the graph given
  std::vector<std::vector<Frontier>> nodes_;  ///< by operator and configuration; empty: eliminated
  std::vector<Edge> edges_;                   ///< at most one between two operators
  std::vector<Choice> choices_{1};            ///< 0: nothing chosen
  bool exact_ = true;
};

}  // namespace stepcast
