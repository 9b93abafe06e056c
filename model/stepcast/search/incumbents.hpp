#pragma once
// Layout incumbents: the best layouts that a search has found so far, and what no longer has to be looked at.
//
// Candidates are ordered by a score: the objective, then a second number (memory, or the step), then the place in the
// order of the space, so that no two are equal. A bound is a score that no layout of a branch is below; a branch is
// `excluded` when as many layouts as are wanted have a smaller score. Where layouts of one kind count as one, the best
// of each kind is kept. Beside them stands the Pareto set of time and memory of all that was offered. Invariant: what
// is kept does not depend on the order of offers.
#include <stepcast/base/units.hpp>

#include <algorithm>
#include <compare>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace stepcast {

struct LayoutScore {
  double value = 0, second = 0;
  std::uint64_t order = 0;
  auto operator<=>(const LayoutScore&) const = default;
};

/// A layout by its place in the search's tables, with what is known of it.
struct LayoutCandidate {
  LayoutScore score;
  Seconds iteration;
  Bytes memory;
  std::uint32_t part = 0, family = 0, switches = 0;
  std::uint32_t blocks = 0;  ///< of each stage that are done again, where they are not all
};

class LayoutIncumbents {
 public:
  using OfOneKind = std::function<bool(const LayoutCandidate&, const LayoutCandidate&)>;

  /// `of_one_kind`: an equivalence; empty: each candidate is a kind of its own.
  explicit LayoutIncumbents(std::size_t wanted, OfOneKind of_one_kind = {})
      : wanted_(wanted), of_one_kind_(std::move(of_one_kind)) {}

  /// `eligible`: it may be among the best, not only on the frontier.
  void offer(const LayoutCandidate& c, bool eligible) {
    offer_to_frontier(c);
    if (!eligible || excluded(c.score)) return;
    if (of_one_kind_) {
      const auto same = std::ranges::find_if(best_, [&](const LayoutCandidate& b) { return of_one_kind_(b, c); });
      if (same != best_.end() && same->score < c.score) return;
      if (same != best_.end()) best_.erase(same);
    }
    const auto at =
        std::upper_bound(best_.begin(), best_.end(), c, [](const auto& a, const auto& b) { return a.score < b.score; });
    best_.insert(at, c);
    if (best_.size() > wanted_) best_.pop_back();
  }

  /// No layout with this score or a larger one can be among the best.
  [[nodiscard]] bool excluded(const LayoutScore& bound) const {
    return best_.size() == wanted_ && (wanted_ == 0 || best_.back().score < bound);
  }

  /// No layout that takes at least so much of both, and comes no earlier in the space, can be on the frontier.
  [[nodiscard]] bool dominated(Seconds iteration, Bytes memory, std::uint64_t order) const {
    const auto above = first_above(memory);
    if (above == frontier_.begin()) return false;
    const LayoutCandidate& q = *(above - 1);  // the fastest of those with no more memory
    if (q.iteration > iteration) return false;
    return q.iteration < iteration || q.memory < memory || q.score.order <= order;
  }

  [[nodiscard]] const std::vector<LayoutCandidate>& best() const { return best_; }
  /// Memory rises, time falls.
  [[nodiscard]] const std::vector<LayoutCandidate>& frontier() const { return frontier_; }

 private:
  [[nodiscard]] std::vector<LayoutCandidate>::const_iterator first_above(Bytes memory) const {
    return std::upper_bound(frontier_.begin(), frontier_.end(), memory,
                            [](Bytes m, const LayoutCandidate& c) { return m < c.memory; });
  }
  void offer_to_frontier(const LayoutCandidate& c) {
    if (dominated(c.iteration, c.memory, c.score.order)) return;
    std::erase_if(frontier_,
                  [&](const LayoutCandidate& q) { return q.memory >= c.memory && q.iteration >= c.iteration; });
    frontier_.insert(first_above(c.memory), c);
  }

  std::size_t wanted_;
  OfOneKind of_one_kind_;
  std::vector<LayoutCandidate> best_;      // by score
  std::vector<LayoutCandidate> frontier_;  // by memory
};

}  // namespace stepcast
