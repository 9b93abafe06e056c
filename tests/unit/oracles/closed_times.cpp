// The formulas of the papers, term by term.
#include "oracles/closed_times.hpp"

#include <algorithm>

namespace stepcast::test {
namespace {

Seconds passes_time(const Profile& profile) { return forward_time(profile) + backward_time(profile); }
Seconds rest_time(const Profile& profile) { return compute_time(profile) - passes_time(profile) + profile.input; }

}  // namespace

Seconds pipelined_end(std::span<const Message> messages) {
  Seconds end;
  for (const Message& m : messages) end = std::max(m.ready, end) + m.duration;
  return end;
}

Seconds wfbp_time(const Profile& profile, const Grouping& groups, const CostLine& all_reduce) {
  const std::vector<Seconds> ready = gradient_ready_times(profile);
  std::vector<Message> messages;
  messages.reserve(groups.size());
  for (const Group& g : groups) messages.push_back({ready[g.last()], all_reduce(g.size)});
  return std::max(passes_time(profile), pipelined_end(messages)) + rest_time(profile);
}

Seconds no_overlap_time(const Profile& profile, const Grouping& groups, const CostLine& all_reduce) {
  Seconds sum = passes_time(profile) + rest_time(profile);
  for (const Group& g : groups) sum += all_reduce(g.size);
  return sum;
}

Seconds stale_time(const Profile& profile, const CostLine& all_reduce) {
  return std::max(passes_time(profile) + rest_time(profile), all_reduce(profile.gradient_size()));
}

Seconds dear_bound(const Profile& profile, const CostLine& reduce_scatter, const CostLine& all_gather) {
  const Bytes m = profile.gradient_size();
  const Seconds update = profile.has_device() ? profile.optimizer.device : profile.optimizer.host;
  return std::max(forward_time(profile) + update, all_gather(m)) + std::max(backward_time(profile), reduce_scatter(m));
}

}  // namespace stepcast::test
