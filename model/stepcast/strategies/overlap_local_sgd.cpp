// Overlap-Local-SGD: workers update alone; every tau-th iteration starts an all-reduce of weights that nobody waits for
// until the next one is due.
//
//   compute |  F B U  F B U | F B U  F B U | F B U  F B U | ...      tau = 2
//   net     |               [ average ]    [ average ]
//                                          ^ would wait here for the average before
//
//   T = max(t_C + t_U, T(M) / tau);  over bsp+local(period=tau) the gain is all of T(M) / tau that is hidden
//
// The next all-reduce starts after the last one has ended, and training goes on when it has started: global information
// is tau to 2 tau steps old. Not modelled: mixing the average into the weights, a few passes over them.
#include <stepcast/strategies/shared/plan_writing.hpp>

namespace stepcast::strategy::overlap_local_sgd {
namespace {

constexpr OptionSpec options[] = {{.name = "period",
                                   .kind = OptionKind::count,
                                   .standard = 2,
                                   .low = 1,
                                   .high = 1024,
                                   .summary = "iterations between two all-reduces"}};
consteval std::size_t named(std::string_view name) { return option(options, name); }

Answer<CommPlan> plan(const StrategyInput& in) {
  const auto tau = static_cast<std::uint32_t>(in.options[named("period")]);
  CommPlan out = all_reduced(in, all_in_one(in.profile, in.memory));
  out.period = tau;
  out.edges.clear();
  for (std::size_t x = 0; x < out.transfers.size(); ++x) {
    out.edges.push_back({{NodeKind::update, 0, tau - 1}, transfer(x)});
    // Two repetitions later the next all-reduce has just become due.
    out.edges.push_back({transfer(x), forward_of(0), 2});
  }
  return out;
}

std::string settings(const OptionValues& v) {
  return "torch.distributed.all_reduce(weights, async_op=True) every " +
         std::to_string(static_cast<long long>(v[named("period")])) + " steps; wait() before the next one";
}

}  // namespace

extern constinit const Strategy record{
    .name = "overlap_local_sgd",
    .title = "Overlap-Local-SGD",
    .summary = "local updates; a non-blocking all-reduce of weights every tau-th iteration",
    .reference = "Wang, Liang, Joshi, ICASSP 2020, arXiv 2002.09539",
    .fidelity = Fidelity::periodic,
    .needs = "its authors' code",
    .options = options,
    .phases = 1,
    .plan = plan,
    .settings = settings,
    .caution = "workers' weights drift apart, and what they learn of one another is tau to 2 tau steps old",
};

}  // namespace stepcast::strategy::overlap_local_sgd
