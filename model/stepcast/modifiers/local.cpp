// Local SGD: workers update their own weights, and average them every k-th iteration.
//
//   compute |  F B U  F B U  F B U  F B U             F B U ...        k = 4
//   net     |                             [ average ]
//
// The exchange is that of the plan it modifies, of weights instead of gradients: the same bytes, every k-th iteration.
//
//   time over bsp: T = t_C + t_U + T(M) / k
//
// Post-local SGD (Lin et al., ICLR 2020) is the same after `warmup` iterations in which every step is synchronous:
// those are the steps of the plan without this modifier, and the predicted one is a step after the switch. Not
// modelled: averaging after the update instead of before it, which moves the exchange but not its length.
#include <stepcast/modifiers/shared/periodic.hpp>
#include <stepcast/plan/modifier.hpp>

namespace stepcast::modifier::local {
namespace {

constexpr OptionSpec options[] = {{.name = "period",
                                   .kind = OptionKind::count,
                                   .standard = 4,
                                   .low = 1,
                                   .high = 1024,
                                   .summary = "iterations between two exchanges"},
                                  {.name = "warmup",
                                   .kind = OptionKind::count,
                                   .standard = 0,
                                   .low = 0,
                                   .high = 1e9,
                                   .summary = "synchronous iterations before that (post-local SGD)"}};
consteval std::size_t named(std::string_view name) { return option(options, name); }

Answer<CommPlan> apply(CommPlan plan, const ModifierInput& in) {
  return communicating_every(static_cast<std::uint32_t>(in.options[named("period")]), std::move(plan), false);
}

std::string settings(const OptionValues& v) {
  const auto whole = [&](std::string_view name) {
    return std::to_string(static_cast<long long>(v[name == "period" ? named("period") : named("warmup")]));
  };
  const std::string warm_up = whole("warmup");
  if (warm_up == "0") return "PeriodicModelAverager(period=" + whole("period") + ")";
  return "PostLocalSGDOptimizer(optim, PeriodicModelAverager(period=" + whole("period") + ", warmup_steps=" + warm_up +
         ")); model.register_comm_hook(PostLocalSGDState(start_localSGD_iter=" + warm_up + "), post_localSGD_hook)";
}

}  // namespace

extern constinit const Modifier record{
    .name = "local",
    .title = "local SGD",
    .summary = "workers update alone and exchange every k-th iteration",
    .reference = "Stich, ICLR 2019; post-local: Lin et al., ICLR 2020, arXiv 1808.07217; PyTorch PostLocalSGDOptimizer",
    .fidelity = Fidelity::periodic,
    .usual_base = "bsp",
    .options = options,
    .apply = apply,
    .settings = settings,
    .caution =
        "weights drift apart between exchanges: accuracy falls with the period; the predicted step is one after the "
        "synchronous warm-up",
};

}  // namespace stepcast::modifier::local
