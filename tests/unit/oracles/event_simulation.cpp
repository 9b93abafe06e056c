// One event after the other; every choice is a look through all that could be chosen.
#include "oracles/event_simulation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

namespace stepcast::test {
namespace {

class Clockwork {
 public:
  Clockwork(const Job& job, std::uint32_t repetitions)
      : job_(job),
        repetitions_(repetitions),
        n_(static_cast<std::uint32_t>(job.activities.size())),
        followers_(n_),
        lines_(job.stations.size()) {
    for (std::uint32_t a = 0; a < n_; ++a) {
      for (const Wait& w : job.activities[a].waits) followers_[w.activity].push_back({a, w.back});
      contended_ = contended_ || job.activities[a].slow_down != 1;
      lines_[job.activities[a].station].turn.push_back(a);
    }
    for (std::size_t s = 0; s < lines_.size(); ++s) {
      lines_[s].window = job.stations[s].window;
      std::stable_sort(lines_[s].turn.begin(), lines_[s].turn.end(), [&](std::uint32_t a, std::uint32_t b) {
        return job.activities[a].urgency < job.activities[b].urgency;
      });
    }
    ends_.assign(repetitions_, 0);
  }

  double period(std::uint32_t counted) {
    for (std::uint32_t r = 0; r < repetitions_; ++r)
      for (std::uint32_t a = 0; a < n_; ++a) {
        std::uint32_t missing = 0;
        for (const Wait& w : job_.activities[a].waits) missing += w.back <= r;
        missing_.push_back(missing);
      }
    for (std::uint32_t i = 0; i < missing_.size(); ++i)
      if (missing_[i] == 0) ready(i);
    serve();
    while (!running_.empty() && !over_) {
      if (contended_) progress();
      now_ = std::min_element(running_.begin(), running_.end(), sooner)->end;
      while (!running_.empty()) {
        const auto next = std::min_element(running_.begin(), running_.end(), [](const Run& a, const Run& b) {
          return std::tuple(a.end, a.instance) < std::tuple(b.end, b.instance);
        });
        if (next->end != now_) break;
        const Run run = *next;
        running_.erase(next);
        if (run.on_its_way) arrive(run.instance);
        else end(run.instance);
      }
      serve();
    }
    return static_cast<double>(ends_[repetitions_ - 1] - ends_[repetitions_ - 1 - counted]) * 1e-12 / counted;
  }

 private:
  using Ticks = std::int64_t;
  struct Run {
    Ticks end;
    std::uint32_t instance;
    double left;  // work, where rates change
    bool on_its_way = false;
  };
  struct Waiting {
    Ticks since;
    std::uint32_t instance;
  };
  struct Line {
    std::vector<Waiting> waiting;
    std::vector<std::uint32_t> issued;
    std::size_t served = 0, started = 0;
    std::vector<std::uint32_t> turn;
    double window = 0;
    bool busy = false;
  };
  static bool sooner(const Run& a, const Run& b) { return a.end < b.end; }
  const Activity& activity(std::uint32_t instance) const { return job_.activities[instance % n_]; }

  void ready(std::uint32_t instance) {
    const std::uint32_t s = activity(instance).station;
    if (job_.stations[s].order == Order::at_once) start(instance);
    else lines_[s].waiting.push_back({now_, instance});
  }

  void start(std::uint32_t instance) {
    double work = std::round(activity(instance).seconds * 1e12);
    if (const auto begun = begun_.find(instance); begun != begun_.end()) work = begun->second, begun_.erase(begun);
    running_.push_back({now_ + static_cast<Ticks>(work), instance, work});
    changed_ = true;
  }

  void end(std::uint32_t instance) {
    const std::uint32_t r = instance / n_, a = instance % n_;
    const Station& station = job_.stations[activity(instance).station];
    Line& line = lines_[activity(instance).station];
    line.busy = false;
    if (station.window > 0) line.window = std::min(station.window, line.window + activity(instance).bytes);
    if (a == job_.last) {
      ends_[r] = now_;
      over_ = r + 1 == repetitions_;
    }
    changed_ = true;
    double later = activity(instance).arrives_after;
    if (job_.stall && activity(instance).packets > 0) later += job_.stall(activity(instance).packets);
    const double work = std::round(later * 1e12);
    if (work > 0) running_.push_back({now_ + static_cast<Ticks>(work), instance, work, true});
    else arrive(instance);
  }

  void arrive(std::uint32_t instance) {
    const std::uint32_t r = instance / n_;
    for (const Wait& f : followers_[instance % n_]) {
      const std::uint32_t to = r + f.back;
      if (to < repetitions_ && --missing_[to * n_ + f.activity] == 0) ready(to * n_ + f.activity);
    }
    changed_ = true;
  }

  // What is served goes back among those that wait if one of them is more urgent.
  bool interrupted(Line& line, std::uint32_t station) {
    const auto served = std::find_if(running_.begin(), running_.end(), [&](const Run& run) {
      return !run.on_its_way && activity(run.instance).station == station;
    });
    const bool better = std::any_of(line.waiting.begin(), line.waiting.end(), [&](const Waiting& w) {
      return activity(w.instance).urgency < activity(served->instance).urgency;
    });
    if (!better) return false;
    begun_[served->instance] = contended_ ? served->left : static_cast<double>(served->end - now_);
    line.waiting.push_back({now_, served->instance});
    running_.erase(served);
    return true;
  }

  void serve() {
    for (std::uint32_t s = 0; s < lines_.size(); ++s) {
      Line& line = lines_[s];
      const Station& station = job_.stations[s];
      if (station.order == Order::at_once) continue;
      if (station.order == Order::most_urgent && station.window > 0) {
        while (line.window > 0 && !line.waiting.empty()) {
          line.issued.push_back(taken(line, station.order));
          line.window -= activity(line.issued.back()).bytes;
        }
        if (!line.busy && line.served < line.issued.size()) line.busy = true, start(line.issued[line.served++]);
        continue;
      }
      if (line.waiting.empty()) continue;
      if (line.busy && !(station.interrupts && interrupted(line, s))) continue;
      if (station.order == Order::in_turn) {
        const std::size_t length = line.turn.size();
        const auto next = static_cast<std::uint32_t>(line.started / length * n_ + line.turn[line.started % length]);
        const auto at = std::find_if(line.waiting.begin(), line.waiting.end(),
                                     [&](const Waiting& w) { return w.instance == next; });
        if (at == line.waiting.end()) continue;
        line.waiting.erase(at);
        ++line.started, line.busy = true, start(next);
        continue;
      }
      line.busy = true;
      start(taken(line, station.order));
    }
  }

  std::uint32_t taken(Line& line, Order order) const {
    const auto rank = [&](const Waiting& w) {
      return std::tuple(order == Order::first_come ? w.since : 0, activity(w.instance).urgency, w.instance);
    };
    const auto first = std::min_element(line.waiting.begin(), line.waiting.end(),
                                        [&](const Waiting& a, const Waiting& b) { return rank(a) < rank(b); });
    const std::uint32_t instance = first->instance;
    line.waiting.erase(first);
    return instance;
  }

  // All that runs has gone on at the rates that held since the last event; from now on others hold.
  void progress() {
    bool compute = false, link = false;
    for (const Run& run : running_) {
      compute = compute || kind(run) == Kind::compute;
      link = link || kind(run) == Kind::link;
    }
    for (Run& run : running_) {
      const bool slowed = (kind(run) == Kind::compute && link) || (kind(run) == Kind::link && compute);
      const double factor = slowed && !run.on_its_way ? activity(run.instance).slow_down : 1;
      run.end = now_ + static_cast<Ticks>(std::llround(run.left * factor));
    }
    const Ticks next = std::min_element(running_.begin(), running_.end(), sooner)->end;
    for (Run& run : running_) {
      if (run.end == next) continue;
      const bool slowed = (kind(run) == Kind::compute && link) || (kind(run) == Kind::link && compute);
      run.left = std::max(0.0, run.left - static_cast<double>(next - now_) /
                                              (slowed && !run.on_its_way ? activity(run.instance).slow_down : 1));
    }
  }
  Kind kind(const Run& run) const {
    return run.on_its_way ? Kind::link : job_.stations[activity(run.instance).station].kind;
  }

  const Job& job_;
  const std::uint32_t repetitions_, n_;
  std::vector<std::vector<Wait>> followers_;
  std::vector<Line> lines_;
  std::vector<std::uint32_t> missing_;
  std::vector<Run> running_;
  std::vector<Ticks> ends_;
  Ticks now_ = 0;
  std::map<std::uint32_t, double> begun_;  // work that is left of what was interrupted
  bool contended_ = false, over_ = false, changed_ = false;
};

}  // namespace

double long_run_step(const Job& job, std::uint32_t repetitions, std::uint32_t counted) {
  return Clockwork(job, repetitions).period(counted) / job.iterations;
}

}  // namespace stepcast::test
