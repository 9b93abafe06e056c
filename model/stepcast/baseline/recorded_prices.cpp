// A collective finds its group on the cluster, and that group's closed form or table prices it.
#include <stepcast/baseline/recorded_prices.hpp>
#include <stepcast/cluster/links_of_trace.hpp>
#include <stepcast/layout/process_group.hpp>

#include <algorithm>
#include <utility>

namespace stepcast {
namespace {

std::optional<Operation> operation_named(std::string_view recorded) {
  constexpr std::pair<std::string_view, Operation> known[] = {{"allreduce", Operation::all_reduce},
                                                              {"reducescatter", Operation::reduce_scatter},
                                                              {"allgather", Operation::all_gather},
                                                              {"broadcast", Operation::broadcast},
                                                              {"alltoall", Operation::all_to_all},
                                                              {"send", Operation::send},
                                                              {"recv", Operation::send},
                                                              {"sendrecv", Operation::send}};
  for (const auto& [name, operation] : known)
    if (name == recorded) return operation;
  return std::nullopt;
}

bool is_data_parallel(CollectiveRole role) {
  switch (role) {
    case CollectiveRole::gradient_bucket:
    case CollectiveRole::gradient_scatter:
    case CollectiveRole::parameter_gather_forward:
    case CollectiveRole::parameter_gather_backward:
    case CollectiveRole::gather_after_update:
    case CollectiveRole::buffers:
    case CollectiveRole::metrics:
    case CollectiveRole::barrier:
      return true;
    default:
      return false;
  }
}

}  // namespace

const Answer<CommunicationCost>& GroupCosts::of(RecordedGroup shape) {
  const auto known = costs_.find(shape);
  return known != costs_.end() ? known->second : costs_.emplace(shape, cost_of(shape)).first->second;
}

RecordedGroup GroupCosts::neighbours(std::int64_t workers) const {
  return {workers, std::min(workers, cluster_.devices_per_node)};
}

Answer<CommunicationCost> GroupCosts::cost_of(RecordedGroup shape) const {
  if (shape == neighbours(shape.workers)) {
    const Answer<Cluster> part = resized(cluster_, shape.workers);
    return part ? communication_cost(*part) : Answer<CommunicationCost>(Inapplicable{part.reason()});
  }
  Cluster part = cluster_;
  part.nodes = shape.workers / shape.per_machine;
  const double share =
      share_cards(part, static_cast<double>(part.devices_per_node) / static_cast<double>(shape.per_machine));
  for (Level& level : part.levels) level.bandwidth *= share;
  part.devices_per_node = shape.per_machine;
  part.tables.clear();  // they were measured between neighbours
  if (part.all_reduce == "table") part.all_reduce = "ring";
  return communication_cost(part);
}

std::optional<Seconds> RecordedPrices::of(const RecordedCollective& c) {
  if (alone()) return Seconds(0);
  const std::optional<Operation> operation = operation_named(c.operation);
  std::string why;
  if (!operation) why = "what it costs elsewhere is not known (" + c.operation + ")";
  else if (!(c.size > Bytes(0))) why = "its bytes are not known (" + c.operation + ")";
  else {
    const RecordedGroup group = group_there(c);
    if (group.workers > there_.cluster().workers())
      why = "its group of " + std::to_string(group.workers) + " is more than all workers";
    else {
      const Answer<CommunicationCost>& cost = there_.of(group);
      if (!cost) why = cost.reason();
      else if (!cost->defines(*operation)) why = "the cluster knows no time of its " + c.operation;
      else {
        if (!is_whole(c) && c.per_machine < 1) ++neighbours;
        return (*cost)(scattered(c, group) ? Operation::reduce_scatter : *operation, c.size);
      }
    }
  }
  ++kept[why];
  return std::nullopt;
}

Seconds RecordedPrices::time_of(const RecordedCollective& c) {
  if (alone()) return Seconds(0);
  const std::optional<Seconds> price = of(c);
  const Seconds late = c.late - job_.told_by(c);
  if (!price) return c.duration - job_.told_by(c);
  const std::optional<Seconds> here = is_measured(c) ? std::nullopt : here_of(c);
  if (!here) return late + *price;
  if (job_.ranks.size() > 1) return late + (c.duration - c.late) * (*price / *here);
  if (c.least < *here) return c.late + c.least * (*price / *here);
  beyond += c.least - *here;
  return c.duration - *here + *price;
}

std::optional<Seconds> RecordedPrices::here_of(const RecordedCollective& c) {
  const std::optional<Operation> operation = operation_named(c.operation);
  if (!operation || !(c.size > Bytes(0))) return std::nullopt;
  const std::int64_t workers = is_whole(c) ? job_.workers : c.group_size;
  const bool unknown = c.per_machine < 1, within = c.per_machine == workers;
  const std::optional<Link>& link = unknown ? job_.anywhere : within ? job_.inside : job_.network;
  if (!link || workers < 2) return std::nullopt;
  std::optional<GroupCosts>& costs = unknown ? anywhere_ : within ? inside_ : between_;
  if (!costs) costs.emplace(traced(unknown ? 1 : devices(), unknown || !job_.inside ? *link : *job_.inside, *link));
  const RecordedGroup shape{workers, c.per_machine < 1 ? 1 : c.per_machine};
  const Answer<CommunicationCost>& cost = costs->of(shape);
  if (!cost || !cost->defines(*operation)) return std::nullopt;
  const Seconds time = (*cost)(*operation, c.size);
  return time > Seconds(0) ? std::optional(time) : std::nullopt;
}

std::int64_t RecordedPrices::count_of_kept() const {
  std::int64_t count = 0;
  for (const auto& [why, times] : kept) count += times;
  return count;
}

/// The machines of the traced job with these links, and all else as on the cluster, so that only links differ.
Cluster RecordedPrices::traced(std::int64_t devices_per_node, const Link& inside, const Link& network) const {
  Cluster cluster = there_.cluster();
  cluster.devices_per_node = devices_per_node;
  cluster.nodes = std::max<std::int64_t>(1, job_.workers / devices_per_node);
  cluster.inside = inside, cluster.network = network;
  cluster.inside_mesh = 0;  // the link is as the traced groups reached it
  cluster.nics_per_node = 1;
  cluster.levels.clear();
  cluster.tables.clear();
  if (cluster.all_reduce == "table") cluster.all_reduce = "ring";
  // What is not said of the library there is as it was here.
  const std::vector<LibraryOperation> there = std::exchange(cluster.library, {});
  cluster = with_library_of(std::move(cluster), job_.timed);
  std::erase_if(cluster.library, [&](const LibraryOperation& here) {
    return std::ranges::find(there, here.operation, &LibraryOperation::operation) == there.end();
  });
  cluster.stragglers = {}, cluster.transport = {};
  return cluster;
}

/// Of a machine of the traced job, as far as its groups tell.
std::int64_t RecordedPrices::devices() const {
  std::int64_t most = 1;
  for (const RecordedCollective& c : job_.ranks.front().collectives) most = std::max(most, c.per_machine);
  return most;
}

bool RecordedPrices::is_whole(const RecordedCollective& c) const {
  return c.group_size < 0 || c.group_size >= job_.workers;
}

RecordedGroup RecordedPrices::group_there(const RecordedCollective& c) const {
  const Cluster& cluster = there_.cluster();
  if (is_whole(c)) return there_.neighbours(cluster.workers());
  constexpr std::int64_t most = 1'000'000'000;  // products of two such numbers fit
  std::int64_t workers = c.group_size;
  if (is_data_parallel(c.role) && job_.workers <= most && workers * cluster.workers() % job_.workers == 0)
    workers = std::max<std::int64_t>(1, workers * cluster.workers() / job_.workers);
  if (c.per_machine < 1 || workers > cluster.workers()) return there_.neighbours(workers);
  std::int64_t per_machine = std::min({c.per_machine, workers, cluster.devices_per_node});
  while (workers % per_machine != 0) --per_machine;
  // Where there are fewer machines, more of them are needed on each.
  per_machine = std::max(per_machine, (workers + cluster.nodes - 1) / cluster.nodes);
  return workers % per_machine == 0 ? RecordedGroup{workers, per_machine} : there_.neighbours(workers);
}

bool RecordedPrices::has_table(std::string_view operation, RecordedGroup group) const {
  return group == there_.neighbours(group.workers) &&
         std::ranges::any_of(there_.cluster().tables, [&](const MeasuredCollective& t) {
           return t.operation == operation && t.workers == group.workers;
         });
}

/// Backends without a scatter make it of an all-reduce; where the cluster's was measured, that counts.
bool RecordedPrices::scattered(const RecordedCollective& c, RecordedGroup group) const {
  return c.role == CollectiveRole::gradient_scatter && c.operation == "allreduce" && has_table("all_reduce", group) &&
         has_table("reduce_scatter", group);
}

bool RecordedPrices::is_measured(const RecordedCollective& c) {
  const std::optional<Operation> operation = operation_named(c.operation);
  const RecordedGroup group = group_there(c);
  const Answer<CommunicationCost>& cost = there_.of(group);
  if (!operation || !cost || cost->algorithm() != "table") return false;
  const bool half = operation == Operation::reduce_scatter || operation == Operation::all_gather;
  return has_table(name_of(*operation), group) || (half && has_table("all_reduce", group));
}

}  // namespace stepcast
