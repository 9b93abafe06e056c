// MG-WFBP: merged-gradient wait-free backpropagation. Shi, Chu, Li, INFOCOM 2019 and TPDS 2021.
//
//   compute |  F1 F2 F3 F4  B4 B3 B2 B1         | U | F1 ...
//   net     |                  [ 4 ][ 3+2 ][ 1 ]|        3 waits for 2: the wait costs less than a start-up
//
// Groups are computed from profiled ready times r and the line T(m) = a + b m, walking in production order with the
// pipeline's start times; the open message (size p, start s) meets the next gradient (ready r'):
//
//   rule=pytorch  if r' < s + T(p): merge if s > r', or if r' - s < a       (distributed_optimizer.py)
//   rule=asc      if r' < s + T(p): merge if s > r'                         (lzhangbv/dear_pytorch "asc")
//   rule=caffe    if r' < s + T(p): merge if max(s, r') + T(p + p') < s + T(p) + T(p')    (B-Caffe gmwfbp.py; for
//                 s >= r' it compares T(p + p') < T(p) + T(p'))
//   small         otherwise, an open message below this size is merged regardless (8,192 elements = 32 KiB in
//                 HKBU-HPML/ddl-benchmarks; absent from HKBU-HPML/MG-WFBP, hence off by default)
//
// Each merge of the first and third rule lowers the end of the prefix or leaves it, so without `small` the result is
// never slower than WFBP under the same line; it is greedy, so optimal_merge may be faster. Then WFBP over the groups.
// `a` and `b` replace the cluster's line in the rule only: the published tables are good for decisions, not for times.
// Not modelled: the Caffe C++ rule, which mixes seconds and microseconds.
#include <stepcast/strategies/shared/plan_writing.hpp>

#include <algorithm>

namespace stepcast::strategy::mg_wfbp {
namespace {

enum Rule { pytorch, asc, caffe };

constexpr OptionSpec options[] = {{.name = "rule",
                                   .kind = OptionKind::choice,
                                   .standard = pytorch,
                                   .low = 0,
                                   .high = 2,
                                   .summary = "whose merge rule",
                                   .choices = {"pytorch", "asc", "caffe"}},
                                  {.name = "small",
                                   .kind = OptionKind::size,
                                   .standard = 0,
                                   .low = 0,
                                   .high = 0x1p40,
                                   .summary = "messages below this size are always merged; 0: off"},
                                  {.name = "a",
                                   .kind = OptionKind::duration,
                                   .standard = 0,
                                   .low = 0,
                                   .high = 1,
                                   .summary = "start-up that the rule assumes; 0 with b = 0: the cluster's"},
                                  {.name = "b",
                                   .kind = OptionKind::number,
                                   .standard = 0,
                                   .low = 0,
                                   .high = 1,
                                   .summary = "seconds per byte that the rule assumes; 0 with a = 0: the cluster's"}};
consteval std::size_t named(std::string_view name) { return option(options, name); }

/// The message that is being filled: its size and when its transfer would start.
struct OpenMessage {
  Bytes size;
  Seconds start;
};

bool merges(Rule rule, const CostLine& line, const OpenMessage& open, Seconds next_ready, Bytes next_size) {
  const Seconds end = open.start + line(open.size);
  if (next_ready >= end) return false;
  if (rule == caffe) return std::max(open.start, next_ready) + line(open.size + next_size) < end + line(next_size);
  return open.start > next_ready || (rule == pytorch && next_ready - open.start < line.start_up);
}

Grouping merged(const StrategyInput& in, const CostLine& line, Rule rule, Bytes small) {
  const Profile& profile = in.profile;
  const auto ready = ready_times(in);
  Grouping groups(in.memory);
  groups.reserve(profile.tensors.size());
  OpenMessage open;
  for (std::uint32_t t = 0; t < profile.tensors.size(); ++t) {
    const Bytes size = profile.tensors[t].size;
    const bool joins = t > 0 && (merges(rule, line, open, ready[t], size) || open.size < small);
    // A merged gradient takes no time of its own: the message starts when both are ready and the channel was free.
    if (joins) {
      open = {open.size + size, std::max(open.start, ready[t])};
      groups.back().size += size;
      ++groups.back().count;
    } else {
      open = {size, t == 0 ? ready[t] : std::max(open.start + line(open.size), ready[t])};
      groups.push_back({t, 1, size});
    }
  }
  return groups;
}

Answer<CommPlan> plan(const StrategyInput& in) {
  const double a = in.options[named("a")], b = in.options[named("b")];
  const CostLine line = a > 0 || b > 0 ? CostLine{Seconds(a), b} : in.cost.line(Operation::all_reduce);
  const Rule rule = static_cast<Rule>(static_cast<int>(in.options[named("rule")]));
  return all_reduced(in, merged(in, line, rule, Bytes(in.options[named("small")])));
}

std::string settings(const OptionValues&) {
  return "HKBU-HPML/MG-WFBP: DistributedOptimizer(..., seq_layernames=..., layerwise_times=...)";
}

}  // namespace

extern constinit const Strategy record{
    .name = "mg_wfbp",
    .title = "MG-WFBP",
    .summary = "WFBP with gradients merged where waiting costs less than another start-up",
    .reference = "Shi, Chu, Li, INFOCOM 2019, arXiv 1811.11141; TPDS 2021, arXiv 1912.09268",
    .fidelity = Fidelity::exact,
    .needs = "MG-WFBP or an equivalent hook per tensor",
    .options = options,
    .phases = 1,
    .plan = plan,
    .settings = settings,
};

}  // namespace stepcast::strategy::mg_wfbp
