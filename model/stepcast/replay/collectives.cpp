// Collectives that ran on threads of the communication library (gloo): who issued them, and who waited for them.
#include <stepcast/replay/collectives.hpp>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace stepcast::replaying {
namespace {

/// A collective on a worker thread, and who waited for it.
struct HostCollective {
  std::uint32_t event = no_index;
  std::int64_t released_ns = 0;                                 ///< when the first waiting thread went on
  std::vector<std::pair<std::int64_t, std::uint32_t>> waiting;  ///< time and point
};

class HostCollectives {
 public:
  HostCollectives(StepBuilder& build, std::uint32_t end) : build_(build), end_(end) {
    for (const std::uint32_t e : host_collectives_of(build.links, build.step, build.threads))
      collectives_.push_back({e, event(e).end_ns(), {}});
  }

  void add() {
    if (collectives_.empty()) return;
    find_waits();
    await_the_unseen();
    add_transfers();
  }

 private:
  const Event& event(std::uint32_t e) const { return build_.links.event(e); }

  void find_waits() {
    std::vector<std::uint32_t> events;
    for (const HostCollective& collective : collectives_) events.push_back(collective.event);
    for (const CollectiveWait& wait : collective_waits_of(build_.links.trace, build_.threads, events)) {
      HostCollective& awaited = collectives_[wait.collective];
      awaited.released_ns = std::min(awaited.released_ns, wait.until);
      awaited.waiting.emplace_back(wait.until,
                                   build_.resume(wait.thread, wait.from, wait.until, at(awaited.event), awaited.event));
    }
  }

  /// Results are collected in order: a collective that nobody was seen waiting for had ended before its turn came. It
  /// is awaited where the next wait after its end was over, at the latest when the step ends.
  void await_the_unseen() {
    std::vector<std::pair<std::int64_t, std::uint32_t>> seen;
    for (const HostCollective& c : collectives_) seen.insert(seen.end(), c.waiting.begin(), c.waiting.end());
    seen.emplace_back(build_.step.end_ns, end_);
    std::ranges::sort(seen);
    for (HostCollective& collective : collectives_) {
      const std::int64_t ended = event(collective.event).end_ns();
      const auto next = std::ranges::lower_bound(seen, std::pair(ended, std::uint32_t{0}));
      if (collective.waiting.empty() && next != seen.end()) collective.waiting.push_back(*next);
    }
  }

  void add_transfers() {
    const std::vector<CollectiveIssue> issues = collective_issues_of(build_.links.trace, build_.threads);
    std::size_t issued = 0;
    std::map<std::uint32_t, std::pair<std::uint32_t, std::uint32_t>> worker;  // track -> first and last task
    for (const HostCollective& collective : collectives_) {
      const Event& c = event(collective.event);
      const auto [first, last] = add_transfer(collective);
      if (issued < issues.size() && event(issues[issued].event).start_ns <= c.start_ns) {
        const auto [thread, call] = issues[issued++];
        build_.add_arc(build_.add_point(thread, std::min(event(call).end_ns(), c.start_ns), at(call), call), first);
      } else {
        build_.add_arc(build_.add_point(0, c.start_ns, at(collective.event), collective.event), first);
      }
      const auto [entry, is_new] = worker.try_emplace(c.track, first, last);
      if (!is_new) build_.add_arc(std::exchange(entry->second.second, last), first);
    }
    for (const auto& [track, tasks] : worker) build_.add_arc(tasks.second, tasks.first, 1);
  }

  /// The collective as one task, or as two where a thread went on before its recorded end.
  std::pair<std::uint32_t, std::uint32_t> add_transfer(const HostCollective& collective) {
    const Event& c = event(collective.event);
    const auto [entry, is_new] = workers_.try_emplace(c.track, 0);
    if (is_new)
      entry->second = build_.add_resource("collectives " + std::to_string(workers_.size() - 1),
                                          ResourceClass::communication, c.track);
    const auto add_part = [&](std::int64_t work_ns) {
      return build_.add(TaskRole::Part::transfer, TaskKind::transfer, entry->second, work_ns, collective.event);
    };
    const std::uint32_t head = add_part(collective.released_ns - c.start_ns);
    std::uint32_t tail = head;
    if (collective.released_ns < c.end_ns()) {
      tail = add_part(c.end_ns() - collective.released_ns);
      build_.add_arc(head, tail);
    }
    for (const auto& [time, point] : collective.waiting)
      build_.add_arc(time <= collective.released_ns ? head : tail, point);
    return {head, tail};
  }

  StepBuilder& build_;
  const std::uint32_t end_;
  std::vector<HostCollective> collectives_;
  std::map<std::uint32_t, std::uint32_t> workers_;  // track -> resource
};

}  // namespace

void add_host_collectives(StepBuilder& build, std::uint32_t end) { HostCollectives(build, end).add(); }

}  // namespace stepcast::replaying
