// Traced collectives: choice of the level that says most, then the sources of the bytes in turn.
#include <stepcast/anatomy/traced_collectives.hpp>
#include <stepcast/base/statistics.hpp>
#include <stepcast/trace/tensor_shapes.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

namespace stepcast {
namespace {

enum class Level : std::uint8_t { kernels, annotations, calls, arguments };

/// "gloo" of "gloo:all_reduce"; empty for other names.
std::string_view backend_of_annotation(std::string_view name) {
  for (const std::string_view backend : {"nccl", "gloo", "mpi", "ucc", "xccl", "hccl", "ccl"})
    if (name.size() > backend.size() && name.starts_with(backend) && name[backend.size()] == ':') return backend;
  return {};
}
bool is_backend_annotation(std::string_view name) { return !backend_of_annotation(name).empty(); }

/// "wait", "init", "startCoalescing" are recorded like collectives and move nothing.
bool moves_data(std::string_view collective) {
  return !naming::collective_operation(collective).empty() && collective.find("Coalescing") == std::string_view::npos;
}

bool counts_at(const TraceIndex& index, std::uint32_t i, Level level) {
  const Event& e = index.trace.events[i];
  if (level == Level::kernels)
    return e.kind == EventKind::kernel && (index.facts(i).work == KernelClass::collective || e.collective != no_index);
  if (index.trace.tracks[e.track].on_device) return false;
  if (e.kind != EventKind::host_op && e.kind != EventKind::annotation) return false;
  const std::string_view name = index.trace.text(e.name);
  if (level == Level::arguments)
    return e.collective != no_index && moves_data(index.trace.text(index.trace.collectives[e.collective].name));
  // The prefix first: it rules out nearly all events at no cost.
  const bool named = level == Level::annotations
                         ? is_backend_annotation(name)
                         : name.starts_with("c10d::") || name.find("c10d_functional::") != std::string_view::npos;
  return named && !naming::collective_operation(name).empty();
}

Level level_of(const TraceIndex& index) {
  Level level = Level::arguments;
  for (std::uint32_t i = 0; i < index.trace.events.size(); ++i)
    for (const Level better : {Level::kernels, Level::annotations, Level::calls}) {
      if (better >= level) break;
      if (counts_at(index, i, better)) level = better;
    }
  return level;
}

/// "[4, 4]" -> 8; a list that the writer has cut ("[4, ...") has no sum.
std::optional<double> sum_of_splits(std::string_view text) {
  if (text.empty() || text.find("...") != std::string_view::npos) return std::nullopt;
  std::optional<double> sum;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] < '0' || text[i] > '9') continue;
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data() + i, text.data() + text.size(), value);
    if (error != std::errc()) return std::nullopt;
    sum = sum.value_or(0) + double(value);
    i = std::size_t(end - text.data()) - 1;
  }
  return sum;
}

/// Element counts x bytes of the type, or the split sizes where there are no counts.
std::optional<Bytes> bytes_of(const Trace& trace, const CollectiveArguments& arguments) {
  const Answer<DataType> type = data_type_of(trace.text(arguments.dtype));
  if (!type) return std::nullopt;
  auto elements = double(std::max(arguments.in_elements, arguments.out_elements));
  if (elements <= 0)
    elements = std::max({elements, sum_of_splits(trace.text(arguments.in_split)).value_or(-1),
                         sum_of_splits(trace.text(arguments.out_split)).value_or(-1)});
  if (elements < 0) return std::nullopt;
  return Bytes(elements * size_of(*type));
}

/// The type that a reducing kernel names: "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "..._Sum_float".
std::optional<DataType> type_in_kernel_name(std::string_view name) {
  static constexpr std::pair<std::string_view, DataType> words[] = {
      {"_bf16", DataType::bf16}, {"_bfloat16", DataType::bf16}, {"_f16", DataType::f16}, {"_half", DataType::f16},
      {"_f32", DataType::f32},   {"_float", DataType::f32},     {"_f64", DataType::f64}, {"_double", DataType::f64},
      {"_i64", DataType::i64},   {"_int64", DataType::i64},     {"_u64", DataType::i64}, {"_uint64", DataType::i64},
      {"_i32", DataType::i32},   {"_int32", DataType::i32},     {"_u32", DataType::i32}, {"_uint32", DataType::i32},
      {"_f8", DataType::f8}};
  if (name.find("nccl") == std::string_view::npos) return std::nullopt;
  for (const auto& [word, type] : words)
    if (name.find(word) != std::string_view::npos) return type;
  return std::nullopt;
}

class Reader {
 public:
  explicit Reader(const TraceIndex& index) : index_(index), trace_(index.trace), level_(level_of(index)) {
    if (level_ == Level::kernels) find_calls();
  }

  [[nodiscard]] Level level() const { return level_; }
  [[nodiscard]] bool counts(std::uint32_t i) const { return counts_at(index_, i, level_); }
  /// Must be called for the collectives in order.
  TracedCollective collective(std::uint32_t i) {
    const Event& e = trace_.events[i];
    TracedCollective out;
    out.event = i;
    out.start_ns = e.start_ns;
    out.duration = Seconds(double(e.duration_ns) * 1e-9);
    out.issuer = is_device_work(e.kind) ? index_.launcher[i] : i;
    out.issued_ns = trace_.events[out.issuer == no_index ? i : out.issuer].start_ns;
    out.arguments = arguments_of(i);
    if (out.arguments != nullptr && out.arguments->group_size > 0) out.group_size = out.arguments->group_size;
    out.operation = operation_of(i, out.arguments);
    (void)(size_by_arguments(out) || size_by_calls(out) || size_by_shapes(out));
    return out;
  }

 private:
  [[nodiscard]] const CollectiveArguments* own_arguments(std::uint32_t i) const {
    const std::uint32_t at = trace_.events[i].collective;
    return at == no_index ? nullptr : &trace_.collectives[at];
  }
  /// The host event around a host event, or the one that launched a device event.
  [[nodiscard]] std::uint32_t around(std::uint32_t i) const {
    return is_device_work(trace_.events[i].kind) ? index_.launcher[i] : index_.parent[i];
  }
  [[nodiscard]] const CollectiveArguments* arguments_of(std::uint32_t i) const {
    for (; i != no_index; i = around(i))
      if (const CollectiveArguments* arguments = own_arguments(i)) return arguments;
    return nullptr;
  }

  /// What the arguments say, else the name, else (a kernel that only sends and receives, or names nothing) the calls
  /// around its launch.
  [[nodiscard]] std::string operation_of(std::uint32_t i, const CollectiveArguments* arguments) const {
    if (arguments != nullptr) {
      std::string said = naming::collective_operation(trace_.text(arguments->name));
      if (!said.empty()) return said;
    }
    const KernelRule* rule = index_.facts(i).rule;
    std::string named = rule != nullptr && !rule->operation.empty()
                            ? rule->operation
                            : naming::collective_operation(trace_.text(trace_.events[i].name));
    // oneCCL's kernel of an all-reduce is "oneccl_reduce_base".
    const bool by_parts = trace_.text(trace_.events[i].name).starts_with("oneccl_");
    if (!named.empty() && named != "sendrecv" && !by_parts) return named;
    for (std::uint32_t at = around(i); at != no_index; at = index_.parent[at]) {
      if (index_.facts(at).role != naming::Role::communication) continue;
      const std::string called = naming::collective_operation(trace_.text(trace_.events[at].name));
      if (!called.empty()) return called;
    }
    return named.empty() ? "unknown" : named;
  }

  bool size_by_arguments(TracedCollective& c) const {
    if (c.arguments == nullptr) return false;
    const std::optional<Bytes> bytes = bytes_of(trace_, *c.arguments);
    if (!bytes) return false;
    c.size = *bytes;
    c.source = c.arguments->from_execution_trace ? BytesSource::execution_trace : BytesSource::metadata;
    return true;
  }

  /// Calls that carry arguments and launch nothing themselves: a group or coalesced launch serves them all.
  void find_calls() {
    std::vector<bool> serves_itself(trace_.events.size(), false);
    for (std::uint32_t i = 0; i < trace_.events.size(); ++i)
      if (counts(i))
        for (std::uint32_t at = index_.launcher[i]; at != no_index; at = index_.parent[at]) serves_itself[at] = true;
    waiting_.resize(trace_.tracks.size());
    for (std::uint32_t i = 0; i < trace_.events.size(); ++i) {
      const Event& e = trace_.events[i];
      if (e.collective == no_index || is_device_work(e.kind) || trace_.tracks[e.track].on_device || serves_itself[i])
        continue;
      if (moves_data(trace_.text(trace_.collectives[e.collective].name))) waiting_[e.track].push_back(i);
    }
    next_.assign(waiting_.size(), 0);
  }
  bool size_by_calls(TracedCollective& c) {
    const std::uint32_t launch = level_ == Level::kernels ? index_.launcher[c.event] : no_index;
    if (launch == no_index) return false;
    const std::uint32_t track = trace_.events[launch].track;
    std::optional<Bytes> sum;
    bool joined = false;
    for (std::size_t& k = next_[track]; k < waiting_[track].size(); ++k) {
      const std::uint32_t call = waiting_[track][k];
      if (trace_.events[call].start_ns > trace_.events[launch].start_ns) break;
      const CollectiveArguments& arguments = *own_arguments(call);
      const std::optional<Bytes> bytes = bytes_of(trace_, arguments);
      if (!bytes) continue;
      sum = sum.value_or(Bytes(0)) + *bytes;
      joined = joined || arguments.from_execution_trace;
      if (c.arguments == nullptr) {
        c.arguments = &arguments;
        c.group_size = arguments.group_size > 0 ? arguments.group_size : -1;
      }
    }
    if (!sum) return false;
    c.size = *sum;
    c.source = joined ? BytesSource::execution_trace : BytesSource::metadata;
    return true;
  }

  /// The nearest operator with shapes says the size; of an all-gather that with the most, because a library's
  /// annotation has only what goes in. Where nothing else is around, as on a thread of the library, each of the group
  /// gives as much.
  bool size_by_shapes(TracedCollective& c) const {
    const std::int64_t group = c.group_size > 0 ? c.group_size : trace_.world_size;
    double most = 0;
    std::uint32_t sized = no_index;
    for (std::uint32_t at = c.event; at != no_index; at = around(at)) {
      if (at != c.event && index_.facts(at).role != naming::Role::communication) continue;
      if (is_device_work(trace_.events[at].kind)) continue;
      double elements = 0;
      const std::vector<double> arguments = elements_of_arguments(trace_.text(trace_.events[at].shapes));
      for (const double argument : arguments) elements = std::max(elements, argument);
      if (elements <= most) continue;
      most = elements;
      sized = at;
      c.whole = std::ranges::any_of(arguments, [&](double argument) { return argument * double(group) == elements; });
      if (c.operation != "allgather") break;
    }
    if (sized == no_index) return false;
    const bool goes_in = c.operation == "allgather" && trace_.events[sized].kind == EventKind::annotation;
    const bool group_known = group > 1;
    if (goes_in && group_known) most *= static_cast<double>(group);
    c.whole = c.operation != "allgather" || (group_known && (c.whole || goes_in));
    c.size = Bytes(most * size_of(type_around(c.event, sized)));
    c.source = BytesSource::shapes;
    return true;
  }
  /// The type that the operator with the shapes names, else one of those around it, else the kernel. Gradients are f32
  /// unless somebody says otherwise.
  [[nodiscard]] DataType type_around(std::uint32_t collective, std::uint32_t at) const {
    if (const Answer<DataType> type = known_type_of(trace_.text(trace_.events[at].types))) return *type;
    for (std::uint32_t i = collective; i != no_index; i = around(i))
      if (const Answer<DataType> type = known_type_of(trace_.text(trace_.events[i].types))) return *type;
    return type_in_kernel_name(trace_.text(trace_.events[collective].name)).value_or(DataType::f32);
  }

  const TraceIndex& index_;
  const Trace& trace_;
  Level level_;
  std::vector<std::vector<std::uint32_t>> waiting_;  ///< by track: calls that launched nothing themselves, in order
  std::vector<std::size_t> next_;                    ///< by track: the first of them that no launch has served
};

}  // namespace

namespace {

/// A library that carries collectives out on threads of its own begins them when those before are through: each was
/// issued by the call of its operation in whose turn it is. Left alone where calls and collectives do not go together.
/// FSDP waits for its collectives, whose calls stage what they send: these begin with the call.
void issue_by_calls(std::vector<TracedCollective>& collectives, const TraceIndex& index) {
  const std::vector<Event>& events = index.trace.events;
  std::map<std::string, std::vector<std::uint32_t>> calls;
  for (std::uint32_t i = 0; i < events.size(); ++i)
    if (counts_at(index, i, Level::calls))
      calls[naming::collective_operation(index.trace.text(events[i].name))].push_back(i);
  std::map<std::string, std::vector<TracedCollective*>> carried_out;
  for (TracedCollective& c : collectives) {
    if (index.parent[c.event] != no_index) return;  // within its call
    const auto of_its_kind = calls.find(c.operation);
    // A collective before the first call was issued before the recording began.
    if (of_its_kind != calls.end() && c.start_ns >= events[of_its_kind->second.front()].start_ns)
      carried_out[c.operation].push_back(&c);
  }
  const auto in_turn = [&](const std::vector<TracedCollective*>& queue, const std::vector<std::uint32_t>& issued) {
    constexpr std::size_t still_queued = 2;  // when the recording ended
    bool fits = queue.size() <= issued.size() && issued.size() <= queue.size() + still_queued;
    for (std::size_t k = 0; fits && k < queue.size(); ++k) fits = events[issued[k]].start_ns <= queue[k]->start_ns;
    return fits;
  };
  for (const auto& [operation, queue] : carried_out) {
    const std::vector<std::uint32_t>& issued = calls.at(operation);
    if (!in_turn(queue, issued)) continue;
    for (std::size_t k = 0; k < queue.size(); ++k) {
      TracedCollective& c = *queue[k];
      c.issuer = issued[k];
      c.issued_ns = events[issued[k]].start_ns;
      if (!index.within_sharding(issued[k])) continue;
      c.duration += Seconds(double(c.start_ns - c.issued_ns) * 1e-9);
      c.start_ns = c.issued_ns;
    }
  }
  // Gloo reduces and scatters by an all-reduce; its times stay those of the library.
  const auto scatters = calls.find("reducescatter");
  if (scatters == calls.end() || calls.contains("allreduce")) return;
  std::vector<TracedCollective*> reduced;
  for (TracedCollective& c : collectives)
    if (c.operation == "allreduce" && c.start_ns >= events[scatters->second.front()].start_ns) reduced.push_back(&c);
  if (!in_turn(reduced, scatters->second)) return;
  for (std::size_t k = 0; k < reduced.size(); ++k) reduced[k]->issuer = scatters->second[k];
}

}  // namespace

std::string_view library_of(const TraceIndex& index, const TracedCollective& c) {
  const Trace& trace = index.trace;
  if (const std::string_view backend = backend_of_annotation(trace.text(trace.events[c.event].name)); !backend.empty())
    return backend;
  // "cpu:gloo,cuda:nccl" names several.
  return trace.backend.find_first_of(":,") == trace.backend.npos ? std::string_view(trace.backend) : std::string_view();
}

std::vector<TracedCollective> collectives_of(const TraceIndex& index) {
  std::vector<TracedCollective> out;
  Reader reader(index);
  for (std::uint32_t i = 0; i < index.trace.events.size(); ++i)
    if (reader.counts(i)) out.push_back(reader.collective(i));
  if (reader.level() == Level::annotations) issue_by_calls(out, index);
  return out;
}

std::vector<std::vector<TracedCollective>> collectives_in(const TraceIndex& index,
                                                          std::span<const StepWindow> windows) {
  std::vector<std::vector<TracedCollective>> out(windows.size());
  // The device may lag behind: what counts is the step that launched it.
  for (TracedCollective& c : collectives_of(index))
    for (std::size_t w = 0; w < windows.size(); ++w)
      if (c.issued_ns >= windows[w].start_ns && c.issued_ns < windows[w].end_ns) out[w].push_back(c);
  return out;
}

namespace {

/// A gradient and when it became ready.
using Ready = std::pair<std::int64_t, Bytes>;
std::vector<Ready> in_order_of_readiness(const StepAnatomy& step, std::span<const Tensor> gradients) {
  std::vector<Ready> ready;
  for (std::size_t g = 0; g < gradients.size(); ++g) ready.emplace_back(step.gradients[g].ready_ns, gradients[g].size);
  std::sort(ready.begin(), ready.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return ready;
}

/// The reductions of a step in the order of issue, each with the gradients that became ready since the one before.
std::vector<GradientReduction> reductions_of(std::span<const TracedCollective> collectives, const StepAnatomy& step,
                                             std::span<const Tensor> gradients) {
  const std::vector<Ready> ready = in_order_of_readiness(step, gradients);
  std::vector<GradientReduction> reductions;
  for (std::size_t c = 0; c < collectives.size(); ++c)
    if (naming::is_reduction(collectives[c].operation)) reductions.push_back({c, 0, {}});
  std::stable_sort(reductions.begin(), reductions.end(), [&](const GradientReduction& a, const GradientReduction& b) {
    return collectives[a.collective].issued_ns < collectives[b.collective].issued_ns;
  });
  std::size_t next = 0;
  for (GradientReduction& r : reductions)
    for (; next < ready.size() && ready[next].first <= collectives[r.collective].issued_ns; ++next)
      r.size += ready[next].second, ++r.gradients;
  return reductions;
}

}  // namespace

void size_by_gradients(std::vector<TracedCollective>& collectives, const StepAnatomy& step,
                       std::span<const Tensor> gradients) {
  if (gradients.size() != step.gradients.size()) return;  // the tensors are something else: buckets, say
  for (const GradientReduction& r : reductions_of(collectives, step, gradients)) {
    TracedCollective& c = collectives[r.collective];
    if (c.source != BytesSource::unknown || r.size <= Bytes(0)) continue;
    c.size = r.size;
    c.source = BytesSource::gradients;
  }
}

namespace {

/// A row of collectives, of which a library may carry out several at once: what they share counts once.
class Serial {
 public:
  /// Of the next one, the time in which none before it runs.
  Seconds alone(const TracedCollective& c) { return alone(c.start_ns, c.duration); }
  Seconds alone(std::int64_t start_ns, Seconds duration) {
    const std::int64_t end = start_ns + std::llround(duration.value() * 1e9);
    const std::int64_t from = std::max(busy_until_, start_ns);
    busy_until_ = std::max(busy_until_, end);
    return end > from ? Seconds(double(end - from) * 1e-9) : Seconds(0);
  }

 private:
  std::int64_t busy_until_ = std::numeric_limits<std::int64_t>::min();
};

/// Reductions that a tensor's own hook issues come before its gradient is taken: then there is one for each, in order.
void count_one_each(std::vector<GradientReduction>& reductions, std::span<const TracedCollective> collectives,
                    const StepAnatomy& step, std::span<const Tensor> gradients) {
  const std::vector<Ready> ready = in_order_of_readiness(step, gradients);
  if (reductions.size() != ready.size()) return;
  for (std::size_t i = 0; i < ready.size(); ++i)
    if (collectives[reductions[i].collective].size != ready[i].second) return;
  for (std::size_t i = 0; i < ready.size(); ++i) reductions[i].gradients = 1, reductions[i].size = ready[i].second;
}

/// All bytes, or half of them (fp16, bf16).
bool carries(Bytes sent, Bytes gradients) {
  constexpr double alike = 0.01;  // buckets are padded
  const double share = gradients > Bytes(0) ? sent / gradients : 0;
  return std::abs(share - 1) <= alike || std::abs(share - 0.5) <= alike;
}

}  // namespace

std::vector<GradientReduction> gradient_reductions(std::span<const TracedCollective> collectives,
                                                   const StepAnatomy& step, std::span<const Tensor> gradients) {
  std::vector<GradientReduction> reductions = reductions_of(collectives, step, gradients);
  count_one_each(reductions, collectives, step, gradients);
  std::erase_if(reductions, [](const GradientReduction& r) { return r.gradients == 0; });  // a norm, a loss
  return reductions;
}

std::vector<TracedMessage> gradient_messages(std::span<const std::vector<TracedCollective>> collectives,
                                             std::span<const StepAnatomy> steps, std::span<const Tensor> gradients) {
  if (steps.empty() || gradients.size() != steps.front().gradients.size()) return {};
  std::vector<TracedMessage> messages;
  std::vector<std::vector<double>> durations;
  std::size_t tensors = 0;
  Bytes sent, all;
  for (std::size_t s = 0; s < steps.size(); ++s) {
    const std::vector<GradientReduction> reductions = gradient_reductions(collectives[s], steps[s], gradients);
    if (s == 0) durations.resize(reductions.size());
    if (reductions.size() != durations.size()) return {};  // steps that exchange nothing accumulate gradients
    Serial library;
    for (std::size_t m = 0; m < reductions.size(); ++m) {
      const TracedCollective& c = collectives[s][reductions[m].collective];
      const std::int64_t began = c.start_ns - std::llround(c.waiting.value() * 1e9);
      durations[m].push_back(library.alone(began, c.duration + c.waiting).value());
      if (s > 0) continue;
      if (c.operation != "allreduce") return {};
      messages.push_back({c.size, {}, reductions[m].gradients});
      sent += c.size, all += reductions[m].size, tensors += reductions[m].gradients;
    }
  }
  if (tensors != gradients.size() || !carries(sent, all)) return {};
  for (std::size_t m = 0; m < messages.size(); ++m) messages[m].duration = Seconds(median(std::move(durations[m])));
  return messages;
}

std::vector<ObservedCollective> observed_collectives(std::span<const std::vector<TracedCollective>> steps) {
  std::map<std::tuple<std::string, std::int64_t, BytesSource, CollectiveRole>, ObservedCollective> sums;
  for (const std::vector<TracedCollective>& step : steps) {
    std::map<std::tuple<std::string, std::int64_t, BytesSource>, Serial> library;
    for (const TracedCollective& c : step) {
      ObservedCollective& sum = sums[{c.operation, c.group_size, c.source, c.role}];
      sum.operation = c.operation;
      sum.group_size = c.group_size;
      sum.source = c.source;
      sum.role = c.role;
      ++sum.count;
      sum.size += c.size;
      sum.duration += library[{c.operation, c.group_size, c.source}].alone(c);
      sum.waiting += c.waiting;
    }
  }
  std::vector<ObservedCollective> out;
  const auto n = double(std::max<std::size_t>(1, steps.size()));
  for (auto& [key, sum] : sums) {
    sum.count = std::max<std::int64_t>(1, std::llround(double(sum.count) / n));
    sum.size /= n;
    sum.duration /= n;
    sum.waiting /= n;
    out.push_back(std::move(sum));
  }
  return out;
}

}  // namespace stepcast
