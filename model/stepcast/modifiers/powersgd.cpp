// PowerSGD: matrices are sent as two factors of low rank, found by one step of power iteration. Vogels et al. 2019.
//
//   compute |  B2 [M Q] B1 [M Q] [orth., M' P] ...     [P Q'] U
//   net     |          [1-D][ P2 ]      [ P1 ][ Q2 ][ Q1 ]
//
//   elements: r (rows + columns) for each matrix, and all others; exact (powersgd_volumes.csv: ResNet-18 on CIFAR
//   243, 136, 72 x for r = 1, 2, 4)
// Three all-reduces a message, strictly ordered: what is not compressed goes in one beside P, Q follows P. Matrices are
// (first dimension) x (all others). One is compressed if that saves a factor of `least_saving` (PyTorch
// min_compression_rate, there 2); the authors' code compresses all that get smaller.
//   codec, V100, ResNet-50: 45, 64, 130 ms for r = 4, 8, 16 [recalled, within a factor of 1.5; least-squares line 12.0
//   + 7.25 r ms], a default to be overridden; GRACE shows 91 ms for a rank that it does not state. A host (r = 1): 0.76
//   + 1.8 r ns an element; with r = 4 the factor was 2.9. Spread as passes are: half of the fixed part and a third of
//   the other to encode and to decode, a third between the exchanges.
#include <stepcast/modifiers/shared/compression.hpp>

#include <algorithm>
#include <cstdio>

namespace stepcast::modifier::powersgd {
namespace {

constexpr OptionSpec options[] = {{.name = "rank",
                                   .kind = OptionKind::count,
                                   .standard = 1,
                                   .low = 1,
                                   .high = 1024,
                                   .summary = "columns of the two factors (matrix_approximation_rank)"},
                                  {.name = "least_saving",
                                   .kind = OptionKind::number,
                                   .standard = 2,
                                   .low = 1,
                                   .high = 1e6,
                                   .summary = "by which a matrix has to shrink (min_compression_rate)"},
                                  speed_option,
                                  overlap_option(1),
                                  {.name = "warmup",
                                   .kind = OptionKind::count,
                                   .standard = 1000,
                                   .low = 0,
                                   .high = 1e9,
                                   .summary = "dense iterations at the start of a run (start_powerSGD_iter)"}};
consteval std::size_t named(std::string_view name) { return option(options, name); }
constexpr Pace residual{v100_ns(12.0), 0.76}, products{v100_ns(7.25), 1.8};

Answer<CommPlan> apply(CommPlan plan, const ModifierInput& in) {
  if (std::string why = without_shapes(in.profile); !why.empty()) return Inapplicable{why};
  const double most = in.options[named("rank")], least_saving = in.options[named("least_saving")];
  const CodecClock time(in.profile, in.options[named("speed")]);
  const auto factors = [=](const Tensor& t) {
    const MatrixShape matrix = matrix_shape(t);
    const double rank = std::min({most, matrix.rows, matrix.columns}), all = elements(t);
    const double sent = rank * (matrix.rows + matrix.columns);
    if (!(sent > 0) || sent * least_saving >= all) return Encoding{.aside = t.size};
    const Bytes value(size_of(t.dtype));
    const Seconds fixed = time(residual, all), product = rank * time(products, all) / 3;
    return Encoding{.sent = rank * matrix.columns * value,
                    .first = rank * matrix.rows * value,
                    .encode = fixed / 2 + product,
                    .between = product,
                    .decode = fixed / 2 + product};
  };
  return compressed(std::move(plan), in, {.of = factors, .overlapped = in.options[named("overlap")] != 0});
}

std::string settings(const OptionValues& v) {
  char text[240];
  std::snprintf(text, sizeof text,
                "model.register_comm_hook(powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=%.0f, "
                "min_compression_rate=%.4g, start_powerSGD_iter=%.0f), powerSGD_hook.powerSGD_hook)",
                v[named("rank")], v[named("least_saving")], v[named("warmup")]);
  return text;
}

}  // namespace

extern constinit const Modifier record{
    .name = "powersgd",
    .title = "PowerSGD",
    .summary = "matrices as two factors of low rank, all-reduced one after the other",
    .reference = "Vogels et al., NeurIPS 2019; epfml/powersgd; PyTorch powerSGD_hook",
    .fidelity = Fidelity::lossy,
    .usual_base = "ddp",
    .options = options,
    .apply = apply,
    .settings = settings,
    .caution =
        "the rank has to be tuned, and the first 1,000 steps run dense in PyTorch (start_powerSGD_iter); on hosts its "
        "products cost more than they save on fast links [measured in the project's lab]",
    .warm_up = {.option = "warmup"},
};

}  // namespace stepcast::modifier::powersgd
