// Work: steps compared by what they do, and one step's work with another step's times.
#include <stepcast/replay/work.hpp>

#include <algorithm>
#include <iterator>

namespace stepcast::replaying {
namespace {

using Part = TaskRole::Part;

/// Tasks that follow one another: those of a thread, of a stream, or of a kind that is tied to neither.
struct RowKey {
  Part part = Part::point;
  std::uint32_t track = no_index;
  friend auto operator<=>(const RowKey&, const RowKey&) = default;
};
RowKey row_of(const TaskRole& role) {
  switch (role.part) {
    case Part::gap:
    case Part::host:
      return {Part::host, role.track};
    case Part::device:
    case Part::turn_around:
      return {role.part, role.track};
    default:
      return {role.part, no_index};
  }
}

/// Task numbers in order, and the number that stands for what each of them is.
struct Row {
  std::vector<std::uint32_t> tasks, names;
};

/// What a task is, wherever it runs, as a small number.
class Names {
 public:
  std::uint32_t operator()(TaskRole role) {
    role.track = no_index;
    return numbers_.try_emplace(role, static_cast<std::uint32_t>(numbers_.size())).first->second;
  }

 private:
  std::map<TaskRole, std::uint32_t> numbers_;
};

std::map<RowKey, Row> rows_of(const StepGraph& step, Names& names) {
  std::map<RowKey, Row> rows;
  for (std::uint32_t t = 0; t < step.roles.size(); ++t) {
    if (step.roles[t].part == Part::point) continue;
    Row& row = rows[row_of(step.roles[t])];
    row.tasks.push_back(t);
    row.names.push_back(names(step.roles[t]));
  }
  return rows;
}

/// Sum and number of times by name.
using Means = std::map<std::uint32_t, std::pair<Picoseconds, Picoseconds>>;

void add_means(Means& means, const StepGraph& step, const std::map<RowKey, Row>& rows) {
  for (const auto& [key, row] : rows)
    for (std::size_t i = 0; i < row.tasks.size(); ++i) {
      auto& [sum, count] = means[row.names[i]];
      sum += step.graph.tasks[row.tasks[i]].work;
      ++count;
    }
}

/// Furthest-reaching paths of Myers' algorithm, one row of diagonals for each number of edits.
class Edits {
 public:
  Edits(std::span<const std::uint32_t> a, std::span<const std::uint32_t> b) : a_(a), b_(b) {}

  /// Marks partners in `partner` (offset into b); false if more than `most` edits are needed.
  bool align(std::size_t most, std::vector<std::uint32_t>& partner) {
    const auto n = std::ssize(a_), m = std::ssize(b_);
    const auto limit = std::min(static_cast<std::ptrdiff_t>(most), n + m);
    std::vector<std::ptrdiff_t> reach(static_cast<std::size_t>(2 * limit + 3), 0);  // by diagonal + limit + 1
    const auto at = [&](std::ptrdiff_t k) -> std::ptrdiff_t& { return reach[static_cast<std::size_t>(k + limit + 1)]; };
    for (std::ptrdiff_t d = 0; d <= limit; ++d) {
      for (std::ptrdiff_t k = -d; k <= d; k += 2) {
        std::ptrdiff_t x = k == -d || (k != d && at(k - 1) < at(k + 1)) ? at(k + 1) : at(k - 1) + 1;
        while (x < n && x - k < m && same(x, x - k)) ++x;
        at(k) = x;
        if (x < n || x - k < m) continue;
        history_.push_back({reach.begin() + (limit + 1 - d), reach.begin() + (limit + 2 + d)});
        trace_back(d, k, partner);
        return true;
      }
      history_.push_back({reach.begin() + (limit + 1 - d), reach.begin() + (limit + 2 + d)});
    }
    return false;
  }

 private:
  [[nodiscard]] bool same(std::ptrdiff_t x, std::ptrdiff_t y) const {
    return a_[static_cast<std::size_t>(x)] == b_[static_cast<std::size_t>(y)];
  }
  void trace_back(std::ptrdiff_t d, std::ptrdiff_t k, std::vector<std::uint32_t>& partner) const {
    std::ptrdiff_t x = std::ssize(a_);
    for (; d >= 0; --d) {
      std::ptrdiff_t before = 0, from = 0;  // where the d-th edit began, and the diagonal that it came from
      if (d > 0) {
        const std::vector<std::ptrdiff_t>& reach = history_[static_cast<std::size_t>(d - 1)];
        const auto at = [&](std::ptrdiff_t j) {
          const std::ptrdiff_t i = j + d - 1;
          return i < 0 || i >= std::ssize(reach) ? std::ptrdiff_t{-1} : reach[static_cast<std::size_t>(i)];
        };
        const bool down = k == -d || (k != d && at(k - 1) < at(k + 1));
        from = down ? k + 1 : k - 1;
        before = down ? at(k + 1) : at(k - 1) + 1;
      }
      while (x > before) {
        --x;
        partner[static_cast<std::size_t>(x)] = static_cast<std::uint32_t>(x - k);
      }
      if (d > 0 && from == k - 1) --x;
      k = from;
    }
  }

  std::span<const std::uint32_t> a_, b_;
  std::vector<std::vector<std::ptrdiff_t>> history_;
};

}  // namespace

std::vector<StepWork> work_of_steps(const TraceLinks& links, std::span<const Step> steps) {
  std::vector<StepWork> work(steps.size());
  const auto step_at = [&](std::int64_t time) -> StepWork* {
    const auto after = std::ranges::upper_bound(steps, time, {}, &Step::start_ns);
    if (after == steps.begin() || time >= (after - 1)->end_ns) return nullptr;
    return &work[static_cast<std::size_t>(after - steps.begin() - 1)];
  };
  for (std::uint32_t e = 0; e < links.trace.events.size(); ++e) {
    const Event& event = links.event(e);
    const bool host = event.kind == EventKind::host_op || event.kind == EventKind::runtime_call;
    if (!host && !is_device_work(event.kind)) continue;
    StepWork* step = step_at(host ? event.start_ns : links.launch_time(e));
    if (!step) continue;
    (host ? step->host : step->device).push_back(event.name);
  }
  for (StepWork& step : work) std::ranges::sort(step.host), std::ranges::sort(step.device);
  return work;
}

double difference(const StepWork& a, const StepWork& b) {
  const bool on_device = !a.device.empty() || !b.device.empty();
  const auto &one = on_device ? a.device : a.host, &other = on_device ? b.device : b.host;
  const std::size_t most = std::max(one.size(), other.size());
  if (most == 0) return 0;
  std::vector<StringId> common;
  std::ranges::set_intersection(one, other, std::back_inserter(common));
  return 1 - static_cast<double>(common.size()) / static_cast<double>(most);
}

std::vector<std::uint32_t> alignment(std::span<const std::uint32_t> row, std::span<const std::uint32_t> other,
                                     std::size_t most_edits) {
  std::vector<std::uint32_t> partner(row.size(), no_index);
  std::size_t head = 0, tail = 0;
  const std::size_t shorter = std::min(row.size(), other.size());
  while (head < shorter && row[head] == other[head]) partner[head] = static_cast<std::uint32_t>(head), ++head;
  while (tail < shorter - head && row[row.size() - 1 - tail] == other[other.size() - 1 - tail]) {
    partner[row.size() - 1 - tail] = static_cast<std::uint32_t>(other.size() - 1 - tail);
    ++tail;
  }
  const auto a = row.subspan(head, row.size() - head - tail), b = other.subspan(head, other.size() - head - tail);
  std::vector<std::uint32_t> middle(a.size(), no_index);
  if (a.empty() || b.empty() || !Edits(a, b).align(most_edits, middle)) return partner;
  for (std::size_t i = 0; i < middle.size(); ++i)
    if (middle[i] != no_index) partner[head + i] = middle[i] + static_cast<std::uint32_t>(head);
  return partner;
}

std::optional<TaskGraph> with_times_of(const StepGraph& step, std::span<const StepGraph* const> sources) {
  Names names;
  Means means;
  const std::map<RowKey, Row> rows = rows_of(step, names);
  std::vector<std::optional<Picoseconds>> times(step.roles.size());
  for (const StepGraph* source : sources) {
    const std::map<RowKey, Row> others = rows_of(*source, names);
    add_means(means, *source, others);
    for (const auto& [key, row] : rows) {
      const auto other = others.find(key);
      if (other == others.end()) continue;
      const std::vector<std::uint32_t> partners = alignment(row.names, other->second.names);
      for (std::size_t i = 0; i < partners.size(); ++i)
        if (partners[i] != no_index && !times[row.tasks[i]])
          times[row.tasks[i]] = source->graph.tasks[other->second.tasks[partners[i]]].work;
    }
  }
  TaskGraph graph = step.graph;
  for (const auto& [key, row] : rows)
    for (std::size_t i = 0; i < row.tasks.size(); ++i) {
      std::optional<Picoseconds> time = times[row.tasks[i]];
      if (const auto known = means.find(row.names[i]); !time && known != means.end())
        time = known->second.first / known->second.second;
      if (!time && key.part == Part::device) return std::nullopt;
      graph.tasks[row.tasks[i]].work = time.value_or(0);  // a gap or host work of this step alone: lost in their noise
    }
  return graph;
}

}  // namespace stepcast::replaying
