// Points are handed to threads; rows of a point are answered and compared together.
#include <stepcast/base/helping_threads.hpp>
#include <stepcast/prediction/recommend.hpp>
#include <stepcast/sweep/grid.hpp>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

namespace stepcast {
namespace {

/// One plan at one place: as asked, or with better options if that is what the question wants.
void answer(const SweepGrid& grid, const SweepPlace& place, std::size_t plan, SweepRow& row) {
  const Answer<Plan> asked = grid.plan_at(plan, row.values);
  if (!asked) {
    row.inapplicable = asked.reason();
    return;
  }
  row.plan = text_of(*asked);
  Answer<Prediction> prediction = grid.prediction_at(place, *asked);
  if (!prediction) {
    row.inapplicable = prediction.reason();
    return;
  }
  if (grid.question().tune) {
    Answer<Prediction> better = grid.prediction_at(place, grid.tuned_at(place, *asked, plan));
    if (better && better->iteration < prediction->iteration) prediction = std::move(better);
  }
  row.plan = text_of(plan_of(*prediction));
  row.prediction = std::move(*prediction);
  row.prediction->critical_path = {};
}

void mark_best(std::span<SweepRow> rows) {
  SweepRow* best = nullptr;
  for (SweepRow& row : rows)
    if (row.prediction && (!best || row.prediction->iteration < best->prediction->iteration)) best = &row;
  if (best) best->best = true;
}

/// All rows of a point, which depend on nothing else.
void answer_point(const SweepGrid& grid, std::size_t point, std::span<SweepRow> rows) {
  const std::vector<double> values = grid.values_at(point);
  const Answer<SweepPlace> place = grid.place_at(values);
  for (std::size_t plan = 0; plan < rows.size(); ++plan) {
    SweepRow& row = rows[plan];
    row.point = point;
    row.values = values;
    row.plan = text_of(grid.plans()[plan]);
    if (place) answer(grid, *place, plan, row);
    else row.inapplicable = place.reason();
  }
  mark_best(rows);
}

/// Calls `work` with 0..count-1, each once, on several threads. Rethrows what it throws.
void for_each_index(std::size_t count, const SweepOptions& options, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;  // guards what follows, and the callback
  std::size_t done = 0;
  std::exception_ptr failure;
  const auto run = [&](std::size_t) {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        work(i);
        const std::lock_guard lock(mutex);
        ++done;
        if (options.progress) options.progress(static_cast<double>(done) / static_cast<double>(count));
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
        next = count;
        return;
      }
    }
  };
  const std::size_t wanted = threads_or_all(options.threads);
  {
    const std::vector<std::jthread> helpers = helping_threads(std::min(wanted, count), run);
    run(0);
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace

std::size_t SweepQuestion::points() const {
  std::size_t n = 1;
  for (const SweepAxis& axis : axes) {
    const std::size_t k = axis.values.size();
    if (k == 0) return 0;
    n = n > std::numeric_limits<std::size_t>::max() / k ? std::numeric_limits<std::size_t>::max() : n * k;
  }
  return n;
}

std::vector<Plan> plans_of(const SweepQuestion& question) {
  if (!question.plans.empty()) return question.plans;
  const bool divided =
      std::ranges::any_of(question.axes, [](const SweepAxis& axis) { return axis.quantity == SweepQuantity::layout; });
  if (divided || question.global_batch > 0) return {plan_of("ddp")};
  std::vector<Plan> plans;
  const bool has_servers = question.servers.value_or(0) > 0;
  for (PlanSpec& spec : preset_plans_on(question.cluster)) {
    const std::string needs = elsewhere_of(spec, question.cluster);
    const bool on_its_switch =
        question.cluster.aggregation && collective_of(spec) == question.cluster.aggregation->program;
    if (question.all_plans || needs.empty() || on_its_switch || (has_servers && needs == "servers"))
      plans.emplace_back(std::move(spec));
  }
  return plans;
}

bool over_network(const SweepQuestion& question) {
  for (const SweepAxis& axis : question.axes)
    if (axis.quantity == SweepQuantity::workers)
      return std::any_of(axis.values.begin(), axis.values.end(), [&](double workers) {
        return workers > static_cast<double>(question.cluster.devices_per_node);
      });
  return question.cluster.nodes > 1;
}

bool asks_for_layouts(const SweepQuestion& question) {
  return question.global_batch > 0 ||
         std::ranges::any_of(question.plans, [](const Plan& plan) { return plan.layout.has_value(); }) ||
         std::ranges::any_of(question.axes,
                             [](const SweepAxis& axis) { return axis.quantity == SweepQuantity::layout; });
}

std::vector<SweepRow> swept(const SweepQuestion& question, const SweepOptions& options) {
  const SweepGrid grid(question);
  const std::size_t last = std::min(options.last, grid.points()), first = std::min(options.first, last);
  const std::size_t plans = grid.plans().size();
  std::vector<SweepRow> rows((last - first) * plans);
  for_each_index(last - first, options,
                 [&](std::size_t i) { answer_point(grid, first + i, std::span(rows).subspan(i * plans, plans)); });
  return rows;
}

}  // namespace stepcast
