// 0/1 Adam: 1-bit Adam whose variance is frozen ever longer, and which skips exchanges: workers take local steps in
// between.
//
//   compute |  F B U  F B U ... F B | encode |              | add, encode a P-th |              | decode | U     period
//   k net     |                       |        | [ scatter ]  |                    | [ gather ]   |        |
//
//   bytes: d/8 and a scale, scattered and gathered as in 1-bit Adam, every k-th iteration; 1 bit / k an element a step,
//   which is why it is called 0/1
//
// The interval between exchanges doubles every local_step_scaler steps up to local_step_clipper (DeepSpeed, 16 in its
// tutorial): the predicted step is the mean over one period of the last interval, after the variance is frozen.
// Codec as in 1-bit Adam. Not modelled: the dense steps in which the variance is updated, ever more rarely.
#include <stepcast/modifiers/shared/compression.hpp>
#include <stepcast/modifiers/shared/periodic.hpp>
#include <stepcast/modifiers/shared/scattered_signs.hpp>

namespace stepcast::modifier::zero_one_adam {
namespace {

constexpr OptionSpec options[] = {speed_option,
                                  overlap_option(0),
                                  {.name = "period",
                                   .kind = OptionKind::count,
                                   .standard = 16,
                                   .low = 1,
                                   .high = 1024,
                                   .summary = "iterations between two exchanges, once the interval has grown"}};
consteval std::size_t named(std::string_view name) { return option(options, name); }

Answer<CommPlan> apply(CommPlan plan, const ModifierInput& in) {
  Answer<CommPlan> signs =
      signs_scattered(std::move(plan), in, in.options[named("speed")], in.options[named("overlap")] != 0);
  if (!signs) return signs;
  return communicating_every(static_cast<std::uint32_t>(in.options[named("period")]), std::move(*signs), false);
}

std::string settings(const OptionValues& v) {
  return "DeepSpeed: \"optimizer\": {\"type\": \"ZeroOneAdam\", \"params\": {\"local_step_clipper\": " +
         std::to_string(static_cast<long long>(v[named("period")])) + "}}";
}

}  // namespace

extern constinit const Modifier record{
    .name = "zero_one_adam",
    .title = "0/1 Adam",
    .summary = "1-bit Adam that skips exchanges and takes local steps in between",
    .reference = "Lu et al., arXiv 2202.06009; DeepSpeed documentation",
    .fidelity = Fidelity::periodic,
    .usual_base = "bsp",
    .framework = "DeepSpeed",
    .options = options,
    .apply = apply,
    .settings = settings,
    .caution =
        "volume up to 26 x less over a whole run [source]; the predicted step is one after the variance is frozen and "
        "the interval has grown to `period`: before that exchanges are more frequent, and some are dense",
};

}  // namespace stepcast::modifier::zero_one_adam
