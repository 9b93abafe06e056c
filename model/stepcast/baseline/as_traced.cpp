// As traced: the plan is recognised by its collectives, its links are as fast as they were seen to be.
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/baseline/as_traced.hpp>
#include <stepcast/cluster/cluster_description.hpp>
#include <stepcast/cluster/links_of_trace.hpp>
#include <stepcast/question/question.hpp>
#include <stepcast/strategies/shared/plan_writing.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

namespace stepcast {
namespace {

/// Workers whose links take no time: what is sent takes as long as its plan says.
Cluster without_links(std::int64_t workers) {
  Cluster cluster;
  cluster.name = "as traced";
  cluster.devices_per_node = workers;
  cluster.inside = cluster.network = {Seconds(0), BytesPerSecond(1e18)};
  return cluster;
}

std::int64_t workers_of(const Profile& p) {
  std::int64_t workers = p.traced_workers;
  for (const ObservedCollective& c : p.collectives) workers = std::max(workers, c.group_size);
  constexpr std::int64_t most = 100'000'000;  // that a cluster has
  return std::clamp<std::int64_t>(workers, 2, most);
}

/// The gradients that travel with each recorded message, in the order in which they become ready; empty where the
/// messages do not carry all of them.
std::vector<Group> groups_of(const Profile& p) {
  std::vector<Group> groups;
  std::size_t first = 0;
  for (const TracedMessage& m : p.messages) {
    if (m.tensors == 0 || m.tensors > p.tensors.size() - first) return {};
    groups.push_back({static_cast<std::uint32_t>(first), m.tensors, m.size});
    first += m.tensors;
  }
  return first == p.tensors.size() ? groups : std::vector<Group>();
}

/// As many messages, each with as many bytes but for a tensor at either end, whose order may differ.
bool same_messages(const std::vector<Group>& groups, const Profile& p, const CommPlan& plan) {
  constexpr double alike = 0.05;
  const double all = p.gradient_size().value();
  return std::equal(groups.begin(), groups.end(), plan.transfers.begin(), plan.transfers.end(),
                    [&](const Group& g, const Transfer& t) {
                      double carried = 0;
                      for (std::uint32_t i = g.first; i < g.first + g.count; ++i) carried += p.tensors[i].size.value();
                      return std::abs(carried - t.size.value()) <= alike * all;
                    });
}

/// The plan that sends these groups, as one writes it: DDP's where some bucket size makes them, with the first bucket
/// as PyTorch has it, or older versions.
std::string name_of(const std::vector<Group>& groups, const Profile& p, const Cluster& cluster) {
  const Answer<CommunicationCost> cost = communication_cost(cluster);
  const PlanSpec ddp = plan_spec_of("ddp");
  const auto makes_them = [&](const PlanSpec& spec) {
    const Answer<CommPlan> plan = comm_plan_of(spec, p, cluster, *cost);
    return plan && same_messages(groups, p, *plan);
  };
  for (const bool older : {false, true})
    for (const double mebi : {25.0, 1.0, 2.0, 5.0, 10.0, 16.0, 32.0, 50.0, 64.0, 100.0, 128.0, 200.0, 256.0, 512.0}) {
      PlanSpec spec = ddp;
      spec.options[position_of("bucket", spec.strategy->options)] = mebi * 0x1p20;
      double& first = spec.options[position_of("first", spec.strategy->options)];
      if (older) first = 0x1p20;
      if (makes_them(spec)) return text_of(spec);
      if (older) continue;
      first = mebi * 0x1p20;  // of the standard size, too, where it is named
      if (makes_them(spec)) return text_of(spec);
    }
  return groups.size() == p.tensors.size() ? "ddp, a bucket for each gradient"
                                           : "ddp, " + counted(std::ssize(groups), "bucket");
}

/// Messages of gradients, each with its recorded time; `round`: of parameters that are sent round after the update.
AsTraced reduced(const Profile& p, const std::vector<Group>& groups, Seconds round) {
  AsTraced out;
  const Cluster cluster = without_links(workers_of(p));
  out.plan = name_of(groups, p, cluster);
  CommPlan plan = all_reduced(p, Grouping(groups.begin(), groups.end()), Discipline::in_order);
  plan.packing = Packing::all;
  bool compressed = false;
  for (std::size_t x = 0; x < plan.transfers.size(); ++x) {
    Transfer& t = plan.transfers[x];
    t.overhead = p.messages[x].duration;
    t.size = Bytes(0);
    for (std::uint32_t i = 0; i < t.tensors; ++i) t.size += p.tensors[t.first_tensor + i].size;
    compressed = compressed || p.messages[x].size < 0.9 * t.size;
  }
  if (compressed) out.plan += ", compressed";
  if (round > Seconds(0)) {
    out.plan = "layout(zero=1)/" + out.plan;
    Transfer gather;
    gather.operation = Operation::broadcast;
    gather.carries_gradient = false;
    gather.size = p.gradient_size();
    gather.overhead = round;
    gather.priority = static_cast<std::int32_t>(plan.transfers.size());
    const auto x = plan.transfers.size();
    plan.transfers.push_back(gather);
    plan.edges.push_back({common_update, transfer(x)});
    plan.edges.push_back({transfer(x), forward_of(0), 1});
  }
  const Answer<Prediction> prediction = predicted(p, cluster, plan, out.plan, "ring");
  if (prediction) out.predicted = prediction->iteration;
  else out.missing = prediction.reason();
  return out;
}

/// What was recorded of the operations that `wanted` names, as the table of another: its time goes by the bytes, so
/// that the sum is that of the recording, however many messages carry them.
struct Recorded {
  Bytes size;
  Seconds duration;
  std::int64_t count = 0;
};
template <class Wanted>
Recorded recorded(const Profile& p, const Wanted& wanted) {
  Recorded sum;
  for (const ObservedCollective& c : p.collectives) {
    if (!wanted(c)) continue;
    sum.size += c.size, sum.duration += c.duration + c.waiting, sum.count += c.count;
  }
  return sum;
}

// What a collective is for, by its role; where that is not known by its operation, as plans of gradients use it.

bool gathers_parameters(const ObservedCollective& c) {
  if (c.role == CollectiveRole::unknown) return c.operation == "allgather";
  return c.role == CollectiveRole::parameter_gather_forward || c.role == CollectiveRole::parameter_gather_backward;
}
bool sums_gradients(const ObservedCollective& c) {
  if (c.role == CollectiveRole::unknown) return c.operation == "reducescatter" || c.operation == "allreduce";
  return c.role == CollectiveRole::gradient_bucket || c.role == CollectiveRole::gradient_scatter;
}
bool sends_updates(const ObservedCollective& c) {
  if (c.role == CollectiveRole::unknown) return c.operation == "broadcast";
  return c.role == CollectiveRole::gather_after_update;
}
/// Part of the model, which no plan of gradients takes the place of.
constexpr double within_layer_to_speak_of = 0.01;
bool belongs_to_model(const ObservedCollective& c, const Profile& p) {
  switch (c.role) {
    case CollectiveRole::within_layer:  // statistics of batches are small
      return c.duration + c.waiting > within_layer_to_speak_of * p.measured_step();
    case CollectiveRole::pipeline:
    case CollectiveRole::all_to_all:
      return true;
    case CollectiveRole::unknown:
      return c.operation == "alltoall" || c.operation == "send" || c.operation == "recv" || c.operation == "sendrecv";
    default:
      return false;
  }
}

MeasuredCollective table_of(std::string_view operation, const Recorded& r, std::int64_t workers) {
  constexpr double smallest = 1e-9;
  return {
      std::string(operation), workers, {r.size * smallest, r.size}, {r.duration * smallest, r.duration}, "this trace"};
}

/// Parameters are gathered before they are used, once a step or once a pass, or once they are updated, and gradients
/// scattered: as many times a pass, so that each carries its share of them.
AsTraced sharded(const Profile& p, const Recorded& gathered, const Recorded& scattered, int zero) {
  AsTraced out;
  const bool twice = zero == 3;
  out.plan = "layout(zero=" + std::to_string(zero) + ")/ddp";
  Question question{.profile = p, .cluster = without_links(workers_of(p))};
  const std::int64_t workers = question.cluster.workers();
  Recorded gathers = gathered, scatters = scattered;
  gathers.size = p.gradient_size() * (twice ? 2.0 : 1.0), scatters.size = p.gradient_size();
  question.cluster.tables = {table_of("all_gather", gathers, workers), table_of("reduce_scatter", scatters, workers),
                             table_of("all_reduce", scatters, workers)};
  question.cluster.all_reduce = "table";
  if (!(question.profile.batch_samples > 0)) question.profile.batch_samples = 1;
  question.global_batch = question.profile.batch_samples * static_cast<double>(workers);
  const Answer<Prediction> prediction = PreparedQuestion(std::move(question)).answer(plan_of(out.plan));
  if (prediction) out.predicted = prediction->iteration;
  else out.missing = prediction.reason();
  return out;
}

/// Which ZeRO stage gathers parameters like that: for either pass (3), or once (2).
int stage_of(const Profile& p, const Recorded& gathered, const Recorded& scattered) {
  const auto times = [&](CollectiveRole role) {
    return recorded(p, [role](const ObservedCollective& c) { return c.role == role; }).count;
  };
  const std::int64_t forward = times(CollectiveRole::parameter_gather_forward),
                     again = times(CollectiveRole::parameter_gather_backward);
  if (forward + again > 0) return 2 * again > forward ? 3 : 2;
  return 2 * gathered.count > 3 * scattered.count ? 3 : 2;
}

AsTraced recognised(const Profile& p) {
  AsTraced out;
  if (p.collectives.empty()) {
    out.plan = "one worker";
    out.predicted = lone_step_time(p);
    return out;
  }
  out.missing = beyond_plans(p);
  if (!out.missing.empty()) return out;
  const Recorded gathered = recorded(p, gathers_parameters), scattered = recorded(p, sums_gradients),
                 sent = recorded(p, sends_updates);
  const double all = p.gradient_size().value();
  const std::vector<Group> groups = groups_of(p);
  // Of a gather only what goes in may be known.
  const double workers = static_cast<double>(workers_of(p));
  const bool timed = gathered.count > 0 && scattered.count > 0 && gathered.duration > Seconds(0) &&
                     scattered.duration > Seconds(0) && all > 0;
  if (timed && (groups.empty() || gathered.count >= scattered.count)) {
    constexpr double nearly = 0.9;
    const auto enough = [&](const Recorded& r, double bytes) {  // or nobody knows how much it is
      return r.size == Bytes(0) || r.size.value() > nearly * bytes;
    };
    if (gathered.count > 1 && enough(gathered, all / workers) && enough(scattered, all))
      return sharded(p, gathered, scattered, stage_of(p, gathered, scattered));
  }
  // Gradients are scattered to their owners, who send round what they update.
  const bool owners = gathered.count == 0 && groups.empty() && all > 0 && sent.duration > Seconds(0) &&
                      sent.size.value() > 0.9 * all && scattered.size.value() > 0.9 * all;
  if (owners) return sharded(p, sent, scattered, 1);
  if (!groups.empty()) {
    const bool updates_shared = sent.size.value() > 0.9 * all * (workers - 1) / workers;
    return reduced(p, groups, updates_shared ? sent.duration : Seconds(0));
  }
  out.missing = "its collectives do not take the gradients of every step with them, byte for byte";
  return out;
}

}  // namespace

std::string beyond_plans(const Profile& p) {
  for (const ObservedCollective& c : p.collectives)
    if (belongs_to_model(c, p)) {
      const bool named = c.role == CollectiveRole::unknown || c.role == CollectiveRole::all_to_all;
      return "its " + c.operation + (named ? "" : " (" + std::string(words_of(c.role)) + ")") +
             " belongs to its model, and no plan of gradients takes its place";
    }
  return {};
}

std::optional<Plan> AsTraced::as_plan() const {
  // "ddp, 5 buckets" is no plan, and one worker has none.
  const bool written = plan.ends_with("ddp") || plan.ends_with(")");
  if (!known() || !left_out.empty() || !written) return std::nullopt;
  return plan_of(plan);
}

double AsTraced::relative_error() const { return known() && measured > Seconds(0) ? predicted / measured - 1 : 0; }

std::string AsTraced::caution() const {
  if (!left_out.empty()) return "the model of the traced job leaves something out: " + left_out;
  if (!known()) return "the traced job is no plan that stepcast knows: " + missing;
  const double error = relative_error();
  if (std::abs(error) <= telling_error) return {};
  return "the model of the job as it was traced is " + percent(std::abs(error)) +
         (error < 0 ? " too fast" : " too slow") + ": it does not know what takes " +
         text_of(Seconds(std::abs((predicted - measured).value()))) + (error < 0 ? " of" : " less in") + " the step";
}

double AsTraced::error_on_links() const {
  return on_links > Seconds(0) && measured > Seconds(0) ? on_links / measured - 1 : 0;
}

std::string AsTraced::caution_of_links() const {
  const double error = error_on_links();
  if (std::abs(error) <= telling_error) return {};
  const Seconds beyond = predicted - on_links;
  return "what ran is predicted to take " + text_of(on_links) + " on the links that the trace shows, " +
         percent(error, true) + ": its messages took " + text_of(Seconds(std::abs(beyond.value()))) +
         (beyond > Seconds(0) ? " more than these links tell (ranks that came late, say)"
                              : " less than these links tell");
}

Answer<Cluster> traced_cluster(const Profile& profile, std::int64_t workers, std::int64_t machine_devices) {
  ClusterDescription description;
  description.workers = std::to_string(workers);
  if (machine_devices > 0 && workers % std::min(machine_devices, workers) == 0)
    description.per_node = std::to_string(std::min(machine_devices, workers));
  try {
    Cluster cluster = cluster_of(description);
    // Nobody knows which of them share a machine.
    if (machine_devices <= 0 && cluster.nodes > 1) cluster = with_workers_as_machines(std::move(cluster), profile);
    return with_links_of(std::move(cluster), profile);
  } catch (const InputError&) { return Inapplicable{"the trace does not show the links between its workers"}; }
}

AsTraced with_links(AsTraced job, const Profile& profile, std::int64_t machine_devices) {
  const std::optional<Plan> plan = job.as_plan();
  if (!plan) return job;
  const Answer<Cluster> cluster = traced_cluster(profile, workers_of(profile), machine_devices);
  if (!cluster) return job;
  Question question{.profile = profile, .cluster = *cluster};
  if (!(question.profile.batch_samples > 0)) question.profile.batch_samples = 1;
  const Answer<Prediction> there = PreparedQuestion(std::move(question)).answer(*plan);
  if (there) job.on_links = there->iteration;
  return job;
}

AsTraced as_traced(const Profile& profile) {
  AsTraced out;
  if (!(profile.measured_step() > Seconds(0))) {
    out.missing = "the step was not measured";
    return out;
  }
  out = recognised(profile);
  out.measured = profile.measured_step();
  return out;
}

AsTraced rebuilt(AsTraced out, const Replay& replay) {
  if (out.known() || !(replay.measured > Seconds(0))) return out;
  out.left_out = std::move(out.missing);
  out.missing.clear();
  out.plan = "recorded";
  out.predicted = replay.replayed;
  out.measured = replay.measured;
  return out;
}

namespace {

/// The host's work takes `factor` times as long, and so does what was waited for it: of a message what goes beyond the
/// fastest one of at least as many bytes, of any collective what several ranks show to be waiting.
void scale_host(Profile& p, double factor) {
  scale_host_work(p, factor);
  std::vector<std::size_t> by_size(p.messages.size());
  std::iota(by_size.begin(), by_size.end(), std::size_t{0});
  std::ranges::stable_sort(by_size, std::ranges::greater(), [&](std::size_t m) { return p.messages[m].size; });
  Seconds fastest(std::numeric_limits<double>::infinity());
  for (const std::size_t m : by_size) {
    Seconds& time = p.messages[m].duration;
    fastest = std::min(fastest, time);
    time = fastest + (time - fastest) * factor;
  }
  for (ObservedCollective& c : p.collectives) c.waiting = c.waiting * factor;
}

Profile with_host_scaled(Profile p, double factor) {
  scale_host(p, factor);
  return p;
}

/// How a job's work becomes that of a step without the profiler.
struct ProfilerScale {
  double host = 1;
  double all = 1;       ///< on top of it, of device and host
  bool hidden = false;  ///< device or collectives set the pace: the host may be faster still
};

/// The factor between `low` and `high` with which a step, which grows with it, takes `wanted`, or the most that stays
/// below.
template <class Step>
double factor_of(const Step& step_with, Seconds wanted, double low, double high) {
  for (int i = 0; i < 50 && low < high; ++i) {
    const double middle = (low + high) / 2;
    (step_with(middle) > wanted ? high : low) = middle;
  }
  return low;
}

/// A profiler makes no step shorter, so that a longer one tells nothing of it: all work takes longer by one factor, and
/// what the trace shows of host and device beside one another stays.
ProfilerScale longer_than_traced(const Profile& traced, const AsTraced& job, Seconds wanted, std::string_view where,
                                 const std::string& found) {
  constexpr double high = 4;
  const auto step_with = [&](double factor) {
    Profile p = traced;
    scale_work(p, factor);
    return as_traced(p).predicted;
  };
  if (const Seconds most = step_with(high); most < wanted)
    throw InputError(std::string(where),
                     "at most " + text_of(job.measured * (most / job.predicted)) + ", with four times the work", found);
  return {.all = factor_of(step_with, wanted, 1, high)};
}

/// The host's work by the factor with which the job takes `step`. Where device or collectives set the pace of such a
/// step, no factor does: then the host's work is as recorded, or the most of it that they hide, and the difference that
/// is left, a few percent at most, is one of all work (a profiler slows kernels a little, too).
ProfilerScale profiler_scale(const Profile& traced, const AsTraced& job, Seconds step, std::string_view where) {
  const Seconds wanted = job.predicted * (step / job.measured);
  if (wanted > job.predicted) return longer_than_traced(traced, job, wanted, where, text_of(step));
  constexpr double low = 0.01;
  const auto step_with = [&](double factor) { return as_traced(with_host_scaled(traced, factor)).predicted; };
  const Seconds least = step_with(low);
  if (least > wanted * (1 + AsTraced::telling_error))
    throw InputError(std::string(where),
                     "at least " + text_of(job.measured * (least / job.predicted)) +
                         ", which the device and the collectives take without the host",
                     text_of(step));
  const Seconds reached = std::max(least, wanted);
  const double host = step_with(1) <= reached ? 1 : factor_of(step_with, reached, low, 1);
  return {host, wanted / reached, least >= wanted};
}

/// What sets the pace of the traced step, where a device takes part in it.
std::string pace_of(const Profile& traced) {
  if (!traced.has_device()) return {};
  PassCost sum;
  for_each_cost(traced, [&](const PassCost& cost) { sum += cost; });
  const bool device = sum.device >= sum.host;
  return ", whose pace the " + std::string(device ? "device" : "host") + " sets (the device's work takes " +
         text_of(sum.device) + ", the host's " + text_of(sum.host) + ")";
}

std::string caution_of_longer(const Profile& traced, Seconds step, Seconds measured, double all) {
  return "the step without the profiler, " + text_of(step) + ", is " + percent(step / measured - 1) +
         " longer than the traced one, " + text_of(measured) + pace_of(traced) +
         "; a profiler makes no step shorter, so that the two may differ in batch, input, clock rate or load (give the "
         "step of the traced job, or a trace of the one that takes so long). All work is taken to be " +
         percent(all) + " of what was recorded, with which gains stay those of the trace";
}

}  // namespace

Profile without_profiler(Profile traced, Seconds step, std::string_view where) {
  const AsTraced job = as_traced(traced);
  const std::string found = text_of(step);
  if (!(job.measured > Seconds(0))) throw InputError(std::string(where), "a trace whose step was measured", found);
  if (!job.known()) throw InputError(std::string(where), "a job that some plan stands for", found, job.missing);
  if (!(step > Seconds(0)) || step > 2 * job.measured)
    throw InputError(std::string(where), "a step of up to twice the traced " + text_of(job.measured), found);
  const ProfilerScale scale = profiler_scale(traced, job, step, where);
  Profile p = with_host_scaled(traced, scale.host);
  scale_work(p, scale.all);
  for (Seconds& time : p.step_times) time = time * (step / job.measured);
  p.without_profiler = true;
  const bool longer = step > job.measured;
  const std::string host =
      "the host's work is scaled to " + std::string(scale.hidden ? "at most " : "") + percent(scale.host);
  p.assumed.push_back("without the profiler a step takes " + found + " in place of " + text_of(job.measured) + ": " +
                      (longer           ? "all work is scaled to " + percent(scale.all)
                       : scale.all == 1 ? host
                                        : host + ", all work to " + percent(scale.all)));
  if (step > job.measured * (1 + AsTraced::telling_error))
    p.cautions.push_back(caution_of_longer(traced, step, job.measured, scale.all));
  if (scale.host < least_trusted_scale)
    p.cautions.push_back("of the host's work as it was recorded less than " + percent(least_trusted_scale) +
                         " is left without the profiler: the traced step may have been disturbed, or be another job's");
  return p;
}

}  // namespace stepcast
