// The stretch ends at a step, at the last one that the memory is meant for.
#include <stepcast/formats/kineto/kept_stretch.hpp>

#include <algorithm>

namespace stepcast {
namespace {

// The first and the last step of a recording are distorted, and a median over fewer than three is no protection.
constexpr std::size_t least_steps = 5;

}  // namespace

bool KeptStretch::end_at(std::int64_t until_ns) {
  if (until_ns >= until_ns_) return false;
  until_ns_ = until_ns;
  launches_.clear();
  return true;
}

bool KeptStretch::shorten(std::span<const Event> events, std::span<const Step> steps, std::size_t most) {
  if (steps.empty()) {
    std::vector<std::int64_t> starts;
    for (const Event& event : events) starts.push_back(event.start_ns);
    if (most >= starts.size()) return false;
    const auto at = starts.begin() + static_cast<std::ptrdiff_t>(most);
    std::nth_element(starts.begin(), at, starts.end());
    return end_at(*at);
  }
  // within[k]: events that begin before step k does.
  std::vector<std::size_t> within(steps.size() + 1);
  for (const Event& event : events)
    ++within[static_cast<std::size_t>(std::ranges::upper_bound(steps, event.start_ns, {}, &Step::start_ns) -
                                      steps.begin())];
  std::size_t sum = 0, end = 0;
  for (std::size_t k = 0; k < steps.size(); ++k) {
    sum += within[k];
    if (k <= least_steps || sum <= most) end = k;
  }
  return end >= least_steps && end_at(steps[end].start_ns);
}

bool KeptStretch::end_with_a_step(std::span<const Step> steps) {
  if (is_whole() || steps.size() < 2 || steps.back().end_ns <= until_ns_) return false;
  return end_at(steps.back().start_ns);
}

}  // namespace stepcast
