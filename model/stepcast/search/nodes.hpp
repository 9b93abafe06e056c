#pragma once
// The branches of a search over layouts, and the threads that look into them.
//
// A batch of nodes is looked into by several threads at once; what came of each is taken over in the order of the
// batch, so that the search goes the same way on any number of threads. Invariant: the outcome of a node depends on the
// node alone. Not modelled: nodes that cost very different time; a batch ends with its slowest.
#include <stepcast/search/bounds.hpp>
#include <stepcast/search/incumbents.hpp>

#include <atomic>
#include <barrier>
#include <exception>
#include <functional>
#include <optional>
#include <queue>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace stepcast {

/// A branch of the search: some families of a part, all members of a family, or one layout.
struct SearchNode {
  enum class Kind : std::uint8_t { families, family, layout };
  LayoutScore bound;
  LayoutBound least;
  std::uint64_t layouts = 1;
  std::uint32_t part = 0, family = 0, switches = 0;  ///< `family`: the first one
  Kind kind = Kind::families;
};
/// The smallest bound comes first.
struct LaterNode {
  bool operator()(const SearchNode& a, const SearchNode& b) const { return b.bound < a.bound; }
};
using SearchQueue = std::priority_queue<SearchNode, std::vector<SearchNode>, LaterNode>;

/// What became of a node: branches below it, or a layout with its time and memory, or neither.
struct SearchOutcome {
  std::vector<SearchNode> branches;
  std::optional<LayoutCandidate> evaluated;
  std::uint64_t unsuitable = 0;
  std::uint64_t as_another = 0;  ///< layouts that are no other than one that the space has beside them
  std::string reason;
  bool by_framework = false;  ///< `reason` is why no framework runs a layout that works
};

/// Evaluates the nodes of a batch on several threads. Which thread takes which node does not matter: a node's outcome
/// depends on the node alone.
class SearchWorkers {
 public:
  using Work = std::function<SearchOutcome(unsigned worker, const SearchNode&)>;
  SearchWorkers(unsigned threads, Work work) : work_(std::move(work)), start_(threads), end_(threads) {
    try {
      for (unsigned w = 1; w < threads; ++w) threads_.emplace_back([this, w] { serve(w); });
    } catch (const std::system_error&) {  // who is there does the work; nobody waits for the others
      for (std::size_t missing = threads - 1 - threads_.size(); missing > 0; --missing)
        start_.arrive_and_drop(), end_.arrive_and_drop();
    }
  }
  ~SearchWorkers() {
    stop_ = true;
    start_.arrive_and_wait();
  }
  SearchWorkers(const SearchWorkers&) = delete;
  SearchWorkers& operator=(const SearchWorkers&) = delete;

  std::vector<SearchOutcome>& operator()(const std::vector<SearchNode>& batch) {
    batch_ = &batch;
    outcomes_.clear();
    outcomes_.resize(batch.size());
    next_ = 0;
    start_.arrive_and_wait();
    run(0);
    end_.arrive_and_wait();
    if (failure_) std::rethrow_exception(failure_);
    return outcomes_;
  }

 private:
  void serve(unsigned worker) {
    for (;;) {
      start_.arrive_and_wait();
      if (stop_) return;
      run(worker);
      end_.arrive_and_wait();
    }
  }
  void run(unsigned worker) {
    try {
      for (std::size_t i = next_++; i < batch_->size(); i = next_++) outcomes_[i] = work_(worker, (*batch_)[i]);
    } catch (...) {
      if (!failed_.exchange(true)) failure_ = std::current_exception();
      next_ = batch_->size();
    }
  }

  Work work_;
  const std::vector<SearchNode>* batch_ = nullptr;
  std::vector<SearchOutcome> outcomes_;
  std::atomic<std::size_t> next_ = 0;
  std::atomic<bool> failed_ = false;
  std::exception_ptr failure_;
  bool stop_ = false;
  std::barrier<> start_, end_;
  std::vector<std::jthread> threads_;  // last: joined before the barriers go
};

}  // namespace stepcast
