// profile_of: windows (step_windows.hpp) -> anatomy of each step (step_anatomy.hpp) -> median step -> profile whose
// parts sum to the measured step.
#include <stepcast/anatomy/collective_roles.hpp>
#include <stepcast/anatomy/step_anatomy.hpp>
#include <stepcast/anatomy/step_windows.hpp>
#include <stepcast/anatomy/trace_summary.hpp>
#include <stepcast/anatomy/traced_collectives.hpp>
#include <stepcast/base/statistics.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/extraction/accumulated_passes.hpp>
#include <stepcast/extraction/fused_update.hpp>
#include <stepcast/extraction/gradient_tensors.hpp>
#include <stepcast/extraction/half_precision.hpp>
#include <stepcast/extraction/layer_activations.hpp>
#include <stepcast/extraction/phase_profile.hpp>
#include <stepcast/extraction/profile_closing.hpp>
#include <stepcast/extraction/profile_of.hpp>
#include <stepcast/profile/training_memory.hpp>
#include <stepcast/ranks/ranks.hpp>
#include <stepcast/ranks/transfer_times.hpp>
#include <stepcast/trace/tensor_shapes.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <unordered_map>
#include <utility>

namespace stepcast {
namespace {

// ---- from steps to one step ----

using Steps = std::vector<StepAnatomy>;

Seconds median_seconds(const Steps& steps, const std::function<std::int64_t(const StepAnatomy&)>& part) {
  std::vector<double> values;
  for (const StepAnatomy& step : steps) values.push_back(double(part(step)) * 1e-9);
  return Seconds(median(std::move(values)));
}

PassCost median_cost(const Steps& steps, const std::function<const Cost&(const StepAnatomy&)>& cost) {
  const auto part = [&](auto member) {
    return median_seconds(steps, [&](const StepAnatomy& s) { return member(cost(s)); });
  };
  PassCost out;
  out.host = part([](const Cost& c) { return c.host_ns; });
  for (const KernelClass kind : classes_apart)
    out.part[kind] = part([kind](const Cost& c) { return c.device.part[kind]; });
  // Medians of parts need not add up to the median of the sum: the remainder is taken as such.
  out.device = out.part.sum() + part([](const Cost& c) { return c.device.total - c.device.part.sum(); });
  return out;
}

/// The steps that have the structure that most steps have, one that stands for all first; the rest in order.
struct Chosen {
  Steps steps;
  std::vector<MeasuredWindow> windows;  ///< of the same steps
};
Chosen of_most_common_structure(Steps steps, std::vector<MeasuredWindow> windows) {
  std::size_t best = 0, best_count = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto count = std::size_t(
        std::count_if(steps.begin(), steps.end(), [&](const StepAnatomy& s) { return s.same_structure(steps[i]); }));
    if (count > best_count) {
      best = i;
      best_count = count;
    }
  }
  Chosen chosen;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (!steps[i].same_structure(steps[best])) continue;
    if (i == best) continue;
    chosen.windows.push_back(windows[i]);
    chosen.steps.push_back(steps[i]);
  }
  chosen.windows.insert(chosen.windows.begin(), windows[best]);
  chosen.steps.insert(chosen.steps.begin(), std::move(steps[best]));
  return chosen;
}

/// Of the undistorted steps, or of all, in order.
std::vector<Seconds> durations_of(std::vector<MeasuredWindow> windows, bool distorted_too) {
  std::sort(windows.begin(), windows.end(),
            [](const auto& a, const auto& b) { return a.window.start_ns < b.window.start_ns; });
  std::vector<Seconds> durations;
  for (const MeasuredWindow& w : windows)
    if (w.duration > Seconds(0) && (distorted_too || !w.distorted)) durations.push_back(w.duration);
  return durations;
}

// ---- the pieces of a profile ----

/// First dimension of the input of the first layer whose kind says which argument that is; 0 when none does.
double batch_of(const TraceIndex& index, const StepAnatomy& step) {
  for (const AnatomyLayer& layer : step.layers) {
    if (layer.anchor == no_index) continue;
    const Event& e = index.trace.events[layer.anchor];
    const std::vector<TensorShape> dims = shapes_of(index.trace.text(e.shapes));
    if (naming::operator_key(index.trace.text(e.name)) == "mm") continue;  // its rows are those of all samples
    const std::optional<std::size_t> input = activation_argument(index.trace.text(e.name));
    if (input && *input < dims.size() && !dims[*input].empty()) return double(dims[*input][0]);
  }
  return 0;
}

/// What is known of a rank only when several are read together.
struct Together {
  std::unordered_map<std::uint32_t, Seconds> waiting;  ///< by event: what a collective waited for late ranks
  std::vector<Seconds> step_times;                     ///< of the run (RunOfRanks::step_times)
};

class Assembly {
 public:
  Assembly(const TraceIndex& index, const ProfileOptions& options, const Together* together)
      : index_(index), trace_(index.trace), options_(options), together_(together) {}

  Profile result() {
    find_steps();
    p_.traced_workers = std::max<std::int64_t>(1, trace_.world_size);
    p_.half_precision_share = half_precision_share(trace_);
    p_.tf32_share = tf32_share(index_);
    p_.fused_update_share = fused_update_share(index_);
    p_.device = device_of(trace_);
    p_.provenance = "trace " + trace_.source + (trace_.report.producer.empty() ? "" : ", " + trace_.report.producer);
    p_.unclassified_share = unclassified_share(trace_);
    std::vector<StepWindow> windows;
    for (const MeasuredWindow& w : chosen_.windows) windows.push_back(w.window);
    std::vector<std::vector<TracedCollective>> collectives = collectives_in(index_, windows);
    name_and_size(collectives.front());
    for (std::vector<TracedCollective>& step : collectives) split_off_waiting(step);
    for (std::size_t s = 0; s < collectives.size(); ++s)
      size_by_gradients(collectives[s], chosen_.steps[s], p_.tensors);
    for (std::size_t s = 0; s < collectives.size(); ++s) take_roles(collectives[s], chosen_.steps[s]);
    p_.collectives = observed_collectives(collectives);
    if (p_.collectives.empty()) p_.traced_workers = 1;  // of a group in which nobody says anything
    p_.messages = gradient_messages(collectives, chosen_.steps, p_.tensors);
    take_costs();
    take_activations();
    describe();
    slice_fused_layers(p_, chosen_.steps.front());
    fold_passes(p_, chosen_.steps.front().backward_passes);
    sum_to_measured_step(p_, index_.distributed, alone_for_sharding_, trace_.source);
    round_times(p_);
    return checked(std::move(p_), trace_.source);
  }

 private:
  void split_off_waiting(std::vector<TracedCollective>& step) const {
    if (together_ == nullptr) return;
    for (TracedCollective& c : step)
      if (const auto at = together_->waiting.find(c.event); at != together_->waiting.end()) {
        c.waiting = std::min(at->second, c.duration);
        c.duration -= c.waiting;
        c.start_ns += std::llround(c.waiting.value() * 1e9);  // whoever waits, waits first
      }
  }

  void take_roles(std::vector<TracedCollective>& collectives, const StepAnatomy& step) const {
    const std::vector<CollectiveRole> roles = roles_of(collectives, index_, step, p_.tensors);
    for (std::size_t c = 0; c < roles.size(); ++c) collectives[c].role = roles[c];
  }

  [[nodiscard]] bool has_backward_nodes() const {
    for (std::uint32_t i = 0; i < trace_.events.size(); ++i)
      if (index_.facts(i).role == naming::Role::backward_node) return true;
    return false;
  }

  void find_steps() {
    const StepWindows windows = step_windows(index_);
    Steps steps;
    std::vector<MeasuredWindow> trained;
    for (const MeasuredWindow& w : windows.steps) {
      StepAnatomy step = anatomy_of(index_, w.window);
      if (step.layers.empty() || step.gradients.empty()) continue;
      steps.push_back(std::move(step));
      trained.push_back(w);
    }
    if (steps.empty() && has_backward_nodes())
      throw InputError(trace_.source, "a training step whose gradients AccumulateGrad nodes take",
                       "a backward pass without any of them",
                       "pipelines that compute weight gradients apart (zero bubble) do so: take the trace of another "
                       "schedule; inspect, replay and export read this one");
    if (steps.empty())
      throw InputError(trace_.source, "a training step", "no backward pass with gradients in the trace",
                       trace_.report.good_for.empty()
                           ? "record forward, backward and update of at least one step"
                           : "a " + trace_.report.format + " file is good for " + trace_.report.good_for);
    const std::size_t found = steps.size();
    chosen_ = of_most_common_structure(std::move(steps), std::move(trained));
    if (!windows.recognised.empty()) p_.recognised.push_back(windows.recognised);
    if (!windows.assumed.empty()) p_.assumed.push_back(windows.assumed);
    if (found > chosen_.steps.size())
      p_.assumed.push_back(std::to_string(found - chosen_.steps.size()) + " of " + std::to_string(found) +
                           " steps left out: they run other operators than the rest");
    if (chosen_.windows.size() == windows.steps.size()) p_.step_times = windows.measured;
    if (together_ != nullptr && !together_->step_times.empty()) {
      p_.step_times = together_->step_times;
      for (Seconds& mark : p_.step_times) mark = mark / static_cast<double>(windows.in_each_mark);
    }
    if (p_.step_times.empty()) p_.step_times = durations_of(chosen_.windows, false);
    if (p_.step_times.empty()) p_.step_times = durations_of(chosen_.windows, true);
  }

  void name_and_size(std::span<const TracedCollective> collectives) {
    const StepAnatomy& step = chosen_.steps.front();
    GradientTensors found = gradient_tensors(index_, step, options_, collectives);
    p_.tensors = std::move(found.tensors);
    p_.model = !options_.model.empty() ? options_.model : !found.model.empty() ? found.model : trace_.source;
    for (const std::string& name : found.layer_names) p_.layers.push_back({name, {}, {}});
    p_.backward_order = step.backward_order;
    append(p_.recognised, found.recognised);
    append(p_.missing, found.missing);
    append(p_.assumed, found.assumed);
  }

  static void append(std::vector<std::string>& to, const std::vector<std::string>& from) {
    for (const std::string& line : from)
      if (std::find(to.begin(), to.end(), line) == to.end()) to.push_back(line);
  }

  /// "Optimizer.step#SGD.step"; others than SGD are taken for Adam.
  struct Update {
    bool sgd = false, momentum = false;
  };
  [[nodiscard]] Update update_of(const StepWindow& window) const {
    Update out;
    for (std::uint32_t i = 0; i < trace_.events.size(); ++i) {
      const Event& e = trace_.events[i];
      const std::uint32_t owner = index_.operator_of[i];
      if (e.start_ns < window.start_ns || e.start_ns >= window.end_ns || owner == no_index) continue;
      if (index_.facts(owner).role != naming::Role::optimizer) continue;
      out.sgd = out.sgd || trace_.text(trace_.events[owner].name).find("#SGD.step") != std::string_view::npos;
      // It multiplies the momentum; the learning rate is part of an addition.
      const std::string key = naming::operator_key(trace_.text(e.name));
      out.momentum = out.momentum || key == "mul" || key == "foreachmul" || key == "fusedsgd";
    }
    return out;
  }

  void take_costs() {
    const Steps& steps = chosen_.steps;
    optimizer_ = update_of(chosen_.windows.front().window);
    for (std::size_t l = 0; l < p_.layers.size(); ++l) {
      p_.layers[l].forward =
          median_cost(steps, [l](const StepAnatomy& s) -> const Cost& { return s.layers[l].forward; });
      p_.layers[l].backward =
          median_cost(steps, [l](const StepAnatomy& s) -> const Cost& { return s.layers[l].backward; });
    }
    p_.optimizer = median_cost(steps, [](const StepAnatomy& s) -> const Cost& { return s.optimizer; });
    p_.other = median_cost(steps, [](const StepAnatomy& s) -> const Cost& { return s.other; });
    take_communication(steps);
    p_.input = median_seconds(steps, [](const StepAnatomy& s) { return s.input_ns; });
    const double micro_batch = batch_of(index_, steps.front()) * (last_pass() > 0 ? steps.front().backward_passes : 1);
    p_.batch_samples = options_.batch_samples > 0 ? options_.batch_samples : micro_batch;
    const Seconds waiting = median_seconds(steps, [](const StepAnatomy& s) { return s.waiting_ns; });
    waiting_share_ = p_.measured_step().value() > 0 ? waiting / p_.measured_step() : 0;
    p_.host_waits_for_device = p_.has_device() && waiting_share_ > 0.005;
  }

  /// What the worker did for its messages; the tensors may be something else than the gradients of the anatomy.
  void take_communication(const Steps& steps) {
    CommunicationWork& work = p_.communication;
    work.before = median_cost(steps, [](const StepAnatomy& s) -> const Cost& { return s.communication.before; });
    work.after = median_cost(steps, [](const StepAnatomy& s) -> const Cost& { return s.communication.after; });
    work.message = issue_of(steps);
    PassCost sharding =
        median_cost(steps, [](const StepAnatomy& s) -> const Cost& { return s.communication.sharding; });
    if (!index_.distributed) {
      alone_for_sharding_ = sharding.device;
      estimate_copies();
      return;
    }
    if (!p_.has_device())  // it waits for each collective
      for (const ObservedCollective& c : p_.collectives) sharding.host -= c.duration + c.waiting;
    if (sharding.host > Seconds(0)) {
      share_out(sharding,
                median_seconds(steps, [](const StepAnatomy& s) { return s.communication.sharding_copies_ns; }));
      return;
    }
    const std::size_t gradients = steps.front().gradients.size();
    PassCost spread;  // of gradients that are no tensors of the profile
    for (std::size_t g = 0; g < gradients; ++g) {
      const PassCost packing =
          median_cost(steps, [g](const StepAnatomy& s) -> const Cost& { return s.gradients[g].packing; });
      if (p_.tensors.size() == gradients) p_.tensors[g].packing = packing;
      else spread += packing;
    }
    if (p_.tensors.size() != gradients)
      for (Tensor& tensor : p_.tensors) tensor.packing = spread / double(p_.tensors.size());
  }

  /// FSDP gathers all parameters once, or for either pass, and scatters all gradients once. Each time all bytes are
  /// copied out of what was gathered, or into what is scattered, as DDP copies gradients into its buckets and out of
  /// them; the host also copies them into what is gathered. The rest of its work only FSDP has.
  void share_out(const PassCost& sharding, Seconds host_copies) {
    const double all = p_.gradient_size().value();
    double gathers = 0, scatters = 0;
    for (const ObservedCollective& c : p_.collectives) {
      if (c.operation == "allgather") gathers += double(c.count);
      if (naming::is_reduction(c.operation)) scatters += double(c.count);
    }
    if (!(all > 0)) return;
    const double times = 2 * gathers > 3 * scatters ? 3 : 2;
    const double copies_of_host = 2 * times - 1;
    PassCost copy = sharding / times;
    copy.host = p_.has_device() ? Seconds(0) : std::min(host_copies, sharding.host) / copies_of_host;
    for (Tensor& tensor : p_.tensors) tensor.packing = copy * (tensor.size.value() / all);
    p_.communication.after = copy;
    p_.communication.sharding.host = (sharding.host - copy.host * copies_of_host) / times;
    const std::string own =
        "FSDP's own work around its collectives, " + text_of(sharding.host) + " of the host a step, ";
    p_.assumed.push_back(p_.has_device()
                             ? own + "is part of no plan: layouts know the device's time only"
                             : "of " + own + text_of(copy.host * copies_of_host) +
                                   " are copies, which go by the bytes; the rest only plans that shard pay");
  }

  /// What the call of a message takes. Without a device the thread that carries messages out takes the processor away
  /// as soon as it has one: the least over the steps is the call alone.
  [[nodiscard]] Seconds issue_of(const Steps& steps) const {
    std::vector<double> each;
    for (const StepAnatomy& s : steps)
      if (s.communication.messages > 0)
        each.push_back(double(s.communication.issuing_ns) * 1e-9 / s.communication.messages);
    if (each.empty()) return Seconds(0);
    return Seconds(p_.has_device() ? median(std::move(each)) : *std::ranges::min_element(each));
  }

  /// A worker alone packs nothing. What it would take follows from the update, which moves each parameter's bytes so
  /// many times: a copy into a bucket, and one out of it, read them once and write them once.
  void estimate_copies() {
    const Seconds update = p_.has_device() ? p_.optimizer.device : p_.optimizer.host;
    const double all = p_.gradient_size().value();
    if (!(update > Seconds(0)) || !(all > 0)) return;
    // SGD reads parameter and gradient and writes the parameter; momentum is read and written, too; Adam has two such.
    const double moves = optimizer_.sgd ? (optimizer_.momentum ? 5 : 3) : 7;
    const auto copies = [&](double bytes) {
      const Seconds time = update * (2 / moves * bytes / all);
      return p_.has_device() ? PassCost{Seconds(0), time} : PassCost{time, Seconds(0)};
    };
    for (Tensor& tensor : p_.tensors) tensor.packing = copies(tensor.size.value());
    p_.communication.after = copies(all);
    p_.assumed.push_back("copies of gradients into buckets and out of them: " + text_of(update * (4 / moves)) +
                         " a step, by the bytes that the update moves in its time");
  }

  /// The first layer of the last of accumulated passes; else 0.
  [[nodiscard]] std::size_t last_pass() const {
    return first_layer_of_last_pass(p_, chosen_.steps.front().backward_passes);
  }

  /// Of the step that stands for all: shapes and allocations are the same in each.
  void take_activations() {
    const LayerActivations found = layer_activations(index_, chosen_.steps.front());
    for (std::size_t l = 0; l < p_.layers.size(); ++l) {
      p_.layers[l].input_shape = found.inputs[l].shape;
      p_.layers[l].input_dtype = found.inputs[l].shape.empty() ? DataType::f32 : found.inputs[l].dtype;
      p_.layers[l].kept = found.kept[l];
      p_.activation_memory += found.kept[l];
    }
    const std::string size = text_of(p_.activation_memory);
    if (found.source == KeptSource::allocations)
      p_.recognised.push_back(size + " of activations kept for the backward pass, from the allocator's events");
    else if (found.source == KeptSource::shapes)
      p_.recognised.push_back("about " + size + " of activations kept for the backward pass: what operators save of " +
                              "arguments with these shapes");
    else p_.missing.push_back("activation memory");
  }

  void describe() {
    const StepAnatomy& step = chosen_.steps.front();
    append(p_.missing, trace_.report.missing);
    append(p_.assumed, trace_.report.assumed);
    p_.recognised.push_back(std::to_string(p_.layers.size() - last_pass()) + " layers, " +
                            std::to_string(p_.tensors.size()) + " gradients, " + text_of(p_.gradient_size()));
    describe_links(step);
    if (step.backward_passes > 1)
      p_.assumed.push_back(std::to_string(step.backward_passes) +
                           " backward passes per step: gradients are taken to be complete in the last one" +
                           (last_pass() > 0 ? ", before which nothing is exchanged (accumulation)" : ""));
    if (!step.annotated_optimizer)
      p_.assumed.push_back(
          "no optimizer annotation: additions, multiplications and the like after the backward pass are the update");
    if (options_.batch_samples <= 0 && p_.batch_samples > 0)
      p_.assumed.push_back("batch of " + std::to_string(std::int64_t(p_.batch_samples)) +
                           ": first dimension of the first layer's input" + (last_pass() > 0 ? ", in all passes" : ""));
    describe_optimizer();
    if (p_.batch_samples == 0) p_.missing.push_back("batch size");
    if (p_.step_times.empty()) p_.missing.push_back("a measured step time");
    const std::int64_t device_ns = index_.linked_device_ns + index_.unlinked_device_ns;
    if (device_ns > 0 && index_.unlinked_device_ns > device_ns / 1000)
      p_.missing.push_back("the launch of " + percent(double(index_.unlinked_device_ns) / double(device_ns)) +
                           " of the device time: it belongs to no layer");
    if (index_.distributed) describe_communication();
  }

  void describe_optimizer() {
    const double size = size_of(weight_type(p_));
    if (!optimizer_.sgd || size < 4) return;
    p_.bytes_of_state = size * (optimizer_.momentum ? 3 : 2);
    p_.recognised.push_back(std::string("SGD ") + (optimizer_.momentum ? "with" : "without") +
                            " momentum, by its annotation: " + std::to_string(std::llround(p_.bytes_of_state)) +
                            " bytes a parameter with weight and gradient");
  }

  void describe_links(const StepAnatomy& step) {
    const std::string count = std::to_string(step.linked_nodes) + " of " + std::to_string(step.backward_nodes) +
                              " backward nodes linked with forward operators by ";
    switch (step.links) {
      case LinkSource::sequence:
        p_.recognised.push_back(count + "sequence number");
        break;
      case LinkSource::arrows:
        p_.recognised.push_back(count + "forward-backward arrows");
        break;
      case LinkSource::order:
        p_.missing.push_back("links between forward operators and backward nodes");
        p_.assumed.push_back(count + "kind and order");
        break;
      case LinkSource::none:
        p_.missing.push_back("links between forward operators and backward nodes");
        p_.assumed.push_back("the whole model is one layer");
        break;
    }
    if (p_.layers.size() < 4 && p_.tensors.size() > 2 * p_.layers.size())
      p_.assumed.push_back("few layers (a compiled or fused model): all gradients of a layer become ready together");
  }

  // The collectives that replicas of one model need; others belong to tensor, pipeline or expert parallelism.
  static bool is_data_parallel(std::string_view operation) {
    for (const std::string_view known : {"allreduce", "reducescatter", "allgather", "broadcast", "barrier", "reduce"})
      if (operation == known) return true;
    return false;
  }
  /// What replicas reduce are their gradients: more of it in one group of ranks contradicts the sizes that were found.
  void compare_reduced_bytes() {
    constexpr double beside = 0.1;  // losses, norms and statistics are reduced as well
    std::map<std::int64_t, Bytes> reduced;
    for (const ObservedCollective& c : p_.collectives) {
      if (!naming::is_reduction(c.operation)) continue;
      if (c.source == BytesSource::unknown || c.source == BytesSource::gradients) return;
      reduced[c.group_size] += c.size;
    }
    Bytes most;
    for (const auto& [group, size] : reduced) most = std::max(most, size);
    if (most > p_.gradient_size() * (1 + beside))
      p_.cautions.push_back("the traced step reduces " + text_of(most) + ", but " + text_of(p_.gradient_size()) +
                            " of gradients were found in it: some are missing, or something else is reduced as well");
  }
  void describe_communication() {
    compare_reduced_bytes();
    const Seconds left_out = median_seconds(chosen_.steps, [](const StepAnatomy& s) { return s.communication_ns; });
    p_.recognised.push_back("a distributed run: collectives, their packing and waiting (" + text_of(left_out) +
                            " of host time per step) are left out");
    p_.assumed.push_back("compute is as long without communication as it was next to it");
    if (together_ == nullptr && !p_.collectives.empty())
      p_.assumed.push_back(
          (p_.traced_workers > 1 ? "one of " + std::to_string(p_.traced_workers) + " ranks" : std::string("one rank")) +
          " stands for all: what its collectives waited for others counts as transfer");
    for (const ObservedCollective& c : p_.collectives) {
      if (is_data_parallel(c.operation)) continue;
      p_.assumed.push_back("the run is not only data parallel: its " + c.operation + " (" + text_of(c.duration) +
                           " a step) is left out, and plans are for the gradients of this rank");
    }
  }

  const TraceIndex& index_;
  const Trace& trace_;
  const ProfileOptions& options_;
  const Together* together_;
  Chosen chosen_;
  double waiting_share_ = 0;
  Seconds alone_for_sharding_;  ///< what FSDP does on the device of a job that sends nothing
  Update optimizer_;
  Profile p_;
};

Profile profile_from(const TraceIndex& index, const ProfileOptions& options, const Together* together) {
  if (has_phases_only(index)) return phase_profile_of(index, options);
  return Assembly(index, options, together).result();
}

}  // namespace

Profile profile_of(const Trace& trace, const ProfileOptions& options) {
  const TraceIndex index(trace);
  Profile profile = profile_from(index, options, nullptr);
  profile.transfers = transfer_times_of(index);
  return profile;
}

Profile profile_of(std::span<const Trace> ranks, const ProfileOptions& options) {
  if (ranks.empty()) throw InputError("", "at least one trace", "none");
  if (ranks.size() == 1) return profile_of(ranks.front(), options);
  const RunOfRanks run = run_of(ranks);
  const std::vector<Seconds> step_times = run.step_times();
  std::vector<Profile> profiles;
  RunTransfers transfers;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const TraceIndex index(ranks[r]);
    const Together together{run.waiting_of(r), step_times};
    profiles.push_back(profile_from(index, options, &together));
    if (run.cautions.empty()) transfers.add(index, run, r);
    const Profile &first = profiles.front(), &rank = profiles.back();
    if (rank.gradient_size() != first.gradient_size() && run.collectives.empty())
      throw InputError(
          ranks[r].source,
          "another rank of the same data-parallel run, with " + text_of(first.gradient_size()) + " of gradients",
          text_of(rank.gradient_size()));
  }
  std::vector<std::size_t> order(profiles.size());
  std::iota(order.begin(), order.end(), std::size_t(0));
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return compute_time(profiles[a]) < compute_time(profiles[b]); });
  const Seconds fastest = compute_time(profiles[order.front()]), slowest = compute_time(profiles[order.back()]);
  const auto [least, most] = std::ranges::minmax_element(profiles, {}, &Profile::gradient_size);
  const Bytes smallest = least->gradient_size(), largest = most->gradient_size();
  const auto issue = std::ranges::min_element(profiles, {}, [](const Profile& p) { return p.communication.message; });
  const Seconds least_issue = issue->communication.message;
  Profile middle = std::move(profiles[order[order.size() / 2]]);
  if (!middle.has_device()) middle.communication.message = least_issue;  // as over the steps of one
  middle.traced_workers = std::max(middle.traced_workers, std::int64_t(ranks.size()));
  middle.recognised.push_back(
      std::to_string(ranks.size()) +
      " ranks; the profile is that of the median one (of two: the slower, which sets the pace); computing takes " +
      text_of(fastest) + " to " + text_of(slowest));
  if (smallest != largest)
    middle.assumed.push_back("the ranks hold " + text_of(smallest) + " to " + text_of(largest) +
                             " of gradients: plans are for those of the median rank");
  middle.transfers = transfers.times();
  middle.ranks = figures_of(run);
  middle.lateness = run.verdict();
  middle.assumed.insert(middle.assumed.end(), run.assumed.begin(), run.assumed.end());
  middle.cautions.insert(middle.cautions.end(), run.cautions.begin(), run.cautions.end());
  return middle;
}

}  // namespace stepcast
