// A place is made from the values of its point: profile, then cluster, then the pipeline that feeds them.
#include <stepcast/base/text.hpp>
#include <stepcast/cluster/carried.hpp>
#include <stepcast/prediction/recommend.hpp>
#include <stepcast/profile/profile_whatif.hpp>
#include <stepcast/sweep/axis_rules.hpp>
#include <stepcast/sweep/grid.hpp>
#include <stepcast/whatif/whatif.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace stepcast {
namespace {

void check_axes(const SweepQuestion& question, const std::vector<Plan>& plans) {
  if (question.axes.empty())
    throw InputError("axes", "at least one", "none", "name one, such as 'bandwidth=1Gb/s..400Gb/s'");
  std::set<std::string> seen;
  for (const SweepAxis& axis : question.axes) {
    check_axis(axis, plans);
    if (!seen.insert(axis.name).second) throw InputError("axis '" + axis.name + "'", "each axis once", "it again");
  }
  // "bucket" and "ddp.bucket" would write the same value.
  for (const Plan& asked : plans) {
    PlanSpec plan = asked.strategy;
    std::set<const double*> written;
    for (const SweepAxis& axis : question.axes) {
      const double* at = axis.quantity == SweepQuantity::option ? option_of(plan, axis.name) : nullptr;
      if (at && !written.insert(at).second)
        throw InputError("axis '" + axis.name + "'", "each option once", "one that another axis sets as well");
    }
  }
  double rows = static_cast<double>(plans.size());
  for (const SweepAxis& axis : question.axes) rows *= static_cast<double>(axis.values.size());
  if (rows > static_cast<double>(most_sweep_rows)) {
    char found[40];
    std::snprintf(found, sizeof found, "%.4g", rows);
    throw InputError("axes", "at most " + std::to_string(most_sweep_rows) + " rows (points times plans)", found,
                     "name fewer values");
  }
}

/// Bandwidth of the link between machines, whether there are several now or not; tables follow where it carries them.
Cluster with_network(Cluster cluster, BytesPerSecond bandwidth) {
  const double factor = bandwidth / cluster.network.bandwidth;
  if (cluster.nodes > 1) cluster = with_bandwidth_scaled(std::move(cluster), factor);
  else
    for (Level& level : cluster.levels) level.bandwidth *= factor;
  cluster.network.bandwidth = bandwidth;
  return cluster;
}
Cluster with_inside(Cluster cluster, BytesPerSecond bandwidth) {
  cluster = with_bandwidth_scaled(std::move(cluster), bandwidth / cluster.inside.bandwidth);
  cluster.inside.bandwidth = bandwidth;
  return cluster;
}
/// Connections to servers go over the same wires and keep the ratio of their latency; what levels add to it stays.
Cluster with_network_latency(Cluster cluster, Seconds latency) {
  const Seconds before = cluster.network.latency;
  if (cluster.server_link.bandwidth > BytesPerSecond(0) && before > Seconds(0))
    cluster.server_link.latency *= latency / before;
  for (std::size_t i = 1; i < cluster.levels.size(); ++i)
    cluster.levels[i].latency = std::max(Seconds(0), cluster.levels[i].latency + (latency - before));
  cluster.network.latency = latency;
  return cluster;
}

bool varies_changes(const SweepQuestion& question) {
  return std::ranges::any_of(question.axes, [](const SweepAxis& a) { return a.quantity == SweepQuantity::change; });
}

}  // namespace

SweepGrid::SweepGrid(const SweepQuestion& question)
    : question_(question),
      plans_(plans_of(question)),
      profile_(std::make_shared<const Profile>(question.profile)),
      points_(question.points()),
      over_network_(over_network(question)),
      asks_(!question.changes.empty() || asks_for_layouts(question) || varies_changes(question)) {
  check_axes(question, plans_);
  for (const SweepAxis& axis : question.axes)
    if (Scenario probe = question.changes; axis.quantity == SweepQuantity::change)
      set_change(probe, axis, axis.values[0]);
  if (question.tune && asks_)
    throw InputError("tune", "plans without a layout, of a step without what-ifs", "others",
                     "leave it out, or name the options: 'layout(tp=2)/ddp(bucket=5 MiB)'");
  const auto of_network = [](const SweepAxis& a) {
    return a.quantity == SweepQuantity::loss || a.quantity == SweepQuantity::stalls ||
           a.quantity == SweepQuantity::background;
  };
  if (const auto lost = std::ranges::find_if(question.axes, of_network); lost != question.axes.end() && !over_network_)
    throw InputError("axis '" + lost->name + "'", "a network between machines", "one machine",
                     lost->quantity == SweepQuantity::background
                         ? "others use the network between machines; give --per-node"
                         : "packets are lost between machines; give --per-node");
  const auto varies_compute = [](const SweepAxis& axis) { return axis.quantity == SweepQuantity::compute; };
  if (question.shape && asks_for_layouts(question) && std::ranges::any_of(question.axes, varies_compute))
    throw InputError("axis 'compute'", "a trace, whose times it changes", "layouts of a described model",
                     "describe it on another device");
}

std::vector<double> SweepGrid::values_at(std::size_t point) const {
  std::vector<double> values(question_.axes.size());
  for (std::size_t i = values.size(); i-- > 0;) {
    const std::vector<double>& all = question_.axes[i].values;
    values[i] = all[point % all.size()];
    point /= all.size();
  }
  return values;
}

const double* SweepGrid::value_of(SweepQuantity quantity, std::span<const double> values) const {
  for (std::size_t i = 0; i < values.size(); ++i)
    if (question_.axes[i].quantity == quantity) return &values[i];
  return nullptr;
}

Answer<std::shared_ptr<const Profile>> SweepGrid::profile_at(std::span<const double> values) const {
  const double* batch = value_of(SweepQuantity::batch, values);
  const double* compute = value_of(SweepQuantity::compute, values);
  if (!batch && !compute) return profile_;
  Profile profile = *profile_;
  if (std::optional<Profile> described; batch && question_.shape && (described = described_at(question_, *batch))) {
    profile = std::move(*described);
  } else if (batch && *batch != profile.batch_samples) {
    Answer<Profile> changed = profile_after({whatif_with("batch", "to", *batch)}, profile);
    if (!changed) return Inapplicable{changed.reason()};
    profile = std::move(*changed);
  }
  if (compute && *compute != 1) profile = with_faster_compute(std::move(profile), *compute);
  return std::make_shared<const Profile>(std::move(profile));
}

Answer<Cluster> SweepGrid::cluster_at(std::span<const double> values) const {
  Cluster cluster = question_.cluster;
  if (const double* workers = value_of(SweepQuantity::workers, values)) {
    Answer<Cluster> changed = resized(std::move(cluster), static_cast<std::int64_t>(*workers));
    if (!changed) return changed;
    cluster = std::move(*changed);
  }
  if (question_.servers) cluster.servers = *question_.servers;
  if (const double* bandwidth = value_of(SweepQuantity::bandwidth, values)) {
    const BytesPerSecond rate(*bandwidth);
    cluster = over_network_ ? with_network(std::move(cluster), rate) : with_inside(std::move(cluster), rate);
  }
  if (const double* latency = value_of(SweepQuantity::latency, values)) {
    if (over_network_) cluster = with_network_latency(std::move(cluster), Seconds(*latency));
    else cluster.inside.latency = Seconds(*latency);
  }
  if (const double* loss = value_of(SweepQuantity::loss, values)) cluster.transport.loss = *loss;
  if (const double* stalls = value_of(SweepQuantity::stalls, values)) cluster.transport.stalls = *stalls;
  if (const double* share = value_of(SweepQuantity::background, values))
    background_at(cluster, cluster.levels.empty() ? 0 : cluster.levels.size() - 1) = *share;
  if (const double* jitter = value_of(SweepQuantity::jitter, values)) {
    using Distribution = Jitter::Distribution;
    Jitter& given = cluster.stragglers.jitter;
    given.relative = *jitter;
    if (*jitter == 0) given.distribution = Distribution::none;
    else if (given.distribution == Distribution::none) given.distribution = Distribution::normal;
  }
  return cluster;
}

Answer<SweepPlace> SweepGrid::place_at(std::span<const double> values) const {
  Answer<Cluster> cluster = cluster_at(values);
  if (!cluster) return Inapplicable{cluster.reason()};
  Answer<std::shared_ptr<const Profile>> profile = profile_at(values);
  if (!profile) return Inapplicable{profile.reason()};
  if (asks_ || question_.shape) {
    Question here = question_;
    for (std::size_t i = 0; i < values.size(); ++i)
      if (question_.axes[i].quantity == SweepQuantity::change) set_change(here.changes, question_.axes[i], values[i]);
    here.profile = **profile;
    here.cluster = *cluster;
    if (value_of(SweepQuantity::batch, values) != nullptr) here.usual_batch = 0;
    return SweepPlace{std::move(*profile), std::move(*cluster), PreparedQuestion(std::move(here))};
  }
  if (question_.pipeline)
    profile = std::make_shared<const Profile>(with_input_pipeline(**profile, *question_.pipeline, *cluster));
  return SweepPlace{std::move(*profile), std::move(*cluster)};
}

Answer<Plan> SweepGrid::plan_at(std::size_t plan, std::span<const double> values) const {
  Plan spec = plans_[plan];
  for (std::size_t i = 0; i < values.size(); ++i) {
    const SweepAxis& axis = question_.axes[i];
    if (axis.quantity == SweepQuantity::layout)
      spec.layout = with_field(spec.layout.value_or(Layout{}), axis.name, value_text(axis, values[i]));
    if (axis.quantity != SweepQuantity::option) continue;
    const OptionSpec* option = nullptr;
    double* at = option_of(spec.strategy, axis.name, &option);
    if (!at) continue;
    if (!(values[i] >= option->low && values[i] <= option->high))
      return Inapplicable{"option '" + std::string(option->name) + "' takes " + value_text(axis, option->low) + " to " +
                          value_text(axis, option->high)};
    *at = values[i];
  }
  return spec;
}

Plan SweepGrid::tuned_at(const SweepPlace& place, const Plan& asked, std::size_t plan) const {
  if (!question_.tune) return asked;
  const PlanSpec& at = asked.strategy;
  // Open (`auto`) are the options that a search would change, but not those of an axis.
  PlanSpec open = at, probe = plans_[plan].strategy;
  std::vector<const double*> fixed;
  for (const SweepAxis& axis : question_.axes)
    if (axis.quantity == SweepQuantity::option) fixed.push_back(option_of(probe, axis.name));
  bool any = false;
  for (std::size_t i = 0; i < at.strategy->options.size(); ++i) {
    const bool free = std::find(fixed.begin(), fixed.end(), &probe.options[i]) == fixed.end();
    if (!free || !at.strategy->options[i].tuned) continue;
    open.options[i] = std::numeric_limits<double>::quiet_NaN();
    any = true;
  }
  return any ? tuned(*place.profile, place.cluster, open) : at;
}

Answer<Prediction> SweepGrid::prediction_at(const SweepPlace& place, const Plan& plan) const {
  const PlanSpec& spec = plan.strategy;
  const bool latency = std::any_of(question_.axes.begin(), question_.axes.end(),
                                   [](const SweepAxis& a) { return a.quantity == SweepQuantity::latency; });
  if (latency) {
    const Answer<CommunicationCost> cost = communication_cost(place.cluster, collective_of(spec));
    const Answer<CommPlan> sent =
        cost ? comm_plan_of(spec, *place.profile, place.cluster, *cost) : Answer<CommPlan>(Inapplicable{cost.reason()});
    const bool own = collective_of(spec).empty();
    const auto is_measured = [&](const Transfer& t) {
      if (cost->algorithm() != "table") return own && rests_on_measurements(place.cluster, t.operation);
      return std::ranges::any_of(place.cluster.tables,
                                 [&](const MeasuredCollective& m) { return m.operation == name_of(t.operation); });
    };
    if (sent)
      if (const auto t = std::ranges::find_if(sent->transfers, is_measured); t != sent->transfers.end())
        return Inapplicable{
            "measured times of " + std::string(name_of(t->operation)) + " hold one latency, which cannot be changed" +
            (t->operation == Operation::all_reduce ? "; name an algorithm, e.g. --collective ring" : "")};
  }
  if (!place.prepared && question_.model) return question_.model(*place.profile, place.cluster, spec);
  Answer<Prediction> answer =
      place.prepared ? place.prepared->answer(plan) : predicted(*place.profile, place.cluster, spec);
  if (answer && question_.second_opinion) question_.second_opinion(*answer, *place.profile, place.cluster);
  return answer;
}

}  // namespace stepcast
