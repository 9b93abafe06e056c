// Local SGD: workers update their own weights, and average them every k-th iteration.
//
//   compute |  F B U  F B U  F B U  F B U             F B U ...        k = 4
//   net     |                             [ average ]
//
// The exchange is that of the plan it modifies, of weights instead of gradients: the same bytes, every k-th iteration.
//
//   time over bsp: T = t_C + t_U + T(M) / k
// Not modelled: averaging after the update instead of before it, which moves the exchange but not its length.
#include <stepcast/modifiers/shared/periodic.hpp>
#include <stepcast/plan/modifier.hpp>

namespace stepcast::modifier::local {
namespace {

constexpr OptionSpec options[] = {{.name = "period",
                                   .kind = OptionKind::count,
                                   .standard = 4,
                                   .low = 1,
                                   .high = 1024,
                                   .summary = "iterations between two exchanges"}};
consteval std::size_t named(std::string_view name) { return option(options, name); }

Answer<CommPlan> apply(CommPlan plan, const ModifierInput& in) {
  return communicating_every(static_cast<std::uint32_t>(in.options[named("period")]), std::move(plan), false);
}

std::string settings(const OptionValues& v) {
  return "PeriodicModelAverager(period=" + std::to_string(static_cast<long long>(v[named("period")])) + ")";
}

}  // namespace

extern constinit const Modifier record{
    .name = "local",
    .title = "local SGD",
    .summary = "workers update alone and exchange every k-th iteration",
    .reference = "local SGD; PyTorch PeriodicModelAverager",
    .fidelity = Fidelity::periodic,
    .usual_base = "bsp",
    .options = options,
    .apply = apply,
    .settings = settings,
    .caution = "weights drift apart between exchanges: accuracy falls with the period",
};

}  // namespace stepcast::modifier::local
