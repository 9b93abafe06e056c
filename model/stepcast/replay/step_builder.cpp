// A thread becomes a chain of its spans, less what was cut out, with its points at their times.
#include <stepcast/replay/step_builder.hpp>

#include <algorithm>
#include <string>
#include <utility>

namespace stepcast::replaying {
namespace {

Picoseconds picoseconds(std::int64_t ns) { return ns * 1000; }

}  // namespace

StepBuilder::StepBuilder(const TraceLinks& l, const Step& s, std::vector<HostThread> t)
    : links(l), step(s), threads(std::move(t)), plans_(threads.size()) {
  for (std::size_t i = 0; i < threads.size(); ++i)
    plans_[i].resource = add_resource("thread " + std::to_string(i), ResourceClass::host, threads[i].track);
}

std::uint32_t StepBuilder::add_resource(const std::string& name, ResourceClass kind, std::uint32_t track) {
  tracks_.push_back(track);
  return builder_.add_resource({name, kind});
}

std::uint32_t StepBuilder::add(Part part, TaskKind kind, std::uint32_t resource, std::int64_t work_ns,
                               std::uint32_t event) {
  roles_.push_back({part, tracks_[resource], event == no_index ? StringId{0} : links.event(event).name, 0});
  return builder_.add_task({picoseconds(work_ns), resource, 0, event, kind, 0});
}

std::uint32_t StepBuilder::add_point(std::size_t thread, std::int64_t time, std::int64_t order, std::uint32_t event) {
  const std::uint32_t task = add(Part::point, TaskKind::host, plans_[thread].resource, 0, event);
  plans_[thread].points.push_back({time, order, task});
  return task;
}

void StepBuilder::cut(std::size_t thread, std::int64_t from, std::int64_t to) {
  if (from < to) plans_[thread].cuts.push_back({from, to});
}

std::uint32_t StepBuilder::resume(std::size_t thread, std::int64_t from, std::int64_t to, std::int64_t order,
                                  std::uint32_t event) {
  cut(thread, from, to);
  return add_point(thread, to, order, event);
}

void StepBuilder::add_gap_between(std::uint32_t from, std::uint32_t to, std::int64_t gap_ns, std::size_t thread) {
  const std::uint32_t gap = add(Part::hand_over, TaskKind::gap, plans_[thread].resource, gap_ns, no_index);
  builder_.add_arc(from, gap);
  builder_.add_arc(gap, to);
}

/// The growing row of a thread's tasks: one a top-level operator or gap between two points.
struct StepBuilder::Chain {
  StepBuilder& build;
  Plan& plan;
  std::uint32_t outermost = no_index, event = no_index;
  std::int64_t began_ns = 0, work_ns = 0;
  StringId before = 0;  ///< name of the outermost operator that ran last

  void work(const HostSpan& span, std::int64_t from_ns, std::int64_t to_ns) {
    if (work_ns > 0 && span.outermost != outermost) flush();
    if (work_ns == 0) outermost = span.outermost, event = span.event, began_ns = from_ns;
    work_ns += to_ns - from_ns;
  }
  void flush() {
    if (work_ns == 0) return;
    const bool gap = outermost == no_index;
    const std::uint32_t task = build.add(gap ? Part::gap : Part::host, gap ? TaskKind::gap : TaskKind::host,
                                         plan.resource, std::exchange(work_ns, 0), event);
    TaskRole& role = build.roles_[task];
    if (gap) role.name = before;
    else role.around = before = build.links.event(outermost).name;
    link({task, began_ns});
  }
  void pass(const HostPoint& point) {
    flush();
    link({point.task, point.time});
  }
  void link(const HostPlace& place) {
    if (!plan.row.empty()) build.add_arc(plan.row.back().task, place.task);
    plan.row.push_back(place);
  }
};

void StepBuilder::chain_threads() {
  for (std::size_t t = 0; t < threads.size(); ++t) chain(t);
}

/// Walks a thread's spans, skips what was cut out, and threads the points in at their times.
void StepBuilder::chain(std::size_t t) {
  Plan& plan = plans_[t];
  std::ranges::stable_sort(plan.points, {}, [](const HostPoint& p) { return std::pair(p.time, p.order); });
  std::ranges::sort(plan.cuts, {}, &Cut::begin);
  Chain chain{*this, plan};
  std::size_t point = 0, cut = 0;
  for (const HostSpan& span : threads[t].spans) {
    for (std::int64_t now = span.begin; now < span.end;) {
      for (; point < plan.points.size() && plan.points[point].time <= now; ++point) chain.pass(plan.points[point]);
      while (cut < plan.cuts.size() && plan.cuts[cut].end <= now) ++cut;
      std::int64_t stop = span.end;
      if (point < plan.points.size()) stop = std::min(stop, plan.points[point].time);
      if (cut < plan.cuts.size() && plan.cuts[cut].begin <= now) {
        now = std::min(stop, plan.cuts[cut].end);
        continue;
      }
      if (cut < plan.cuts.size()) stop = std::min(stop, plan.cuts[cut].begin);
      chain.work(span, now, stop);
      now = stop;
    }
  }
  for (; point < plan.points.size(); ++point) chain.pass(plan.points[point]);
  chain.flush();
  if (!plan.row.empty()) add_arc(plan.row.back().task, plan.row.front().task, 1);
}

StepGraph StepBuilder::build(std::uint32_t marker, std::uint32_t begin) {
  builder_.graph().marker = marker;
  StepGraph out{builder_.build(), std::move(roles_), std::move(tracks_), begin, {}};
  for (Plan& plan : plans_) out.threads.push_back(std::move(plan.row));
  return out;
}

}  // namespace stepcast::replaying
