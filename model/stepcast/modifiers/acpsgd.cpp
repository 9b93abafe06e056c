// ACP-SGD: PowerSGD whose two factors are computed and sent in turns, one a step.
//
//   odd steps send P (r rows of it), even ones Q (r columns): one all-reduce a step, so that messages fuse and overlap
//   elements: r (rows + columns) / 2 in the mean of two steps, and all others
//   codec: about half of PowerSGD's [derived]
// The plan is the mean of the two steps, which is exact where sizes enter linearly.
#include <stepcast/modifiers/shared/compression.hpp>

#include <algorithm>
#include <cstdio>

namespace stepcast::modifier::acpsgd {
namespace {

constexpr OptionSpec options[] = {{.name = "rank",
                                   .kind = OptionKind::count,
                                   .standard = 4,
                                   .low = 1,
                                   .high = 1024,
                                   .summary = "columns of the two factors"},
                                  speed_option,
                                  overlap_option(1)};
consteval std::size_t named(std::string_view name) { return option(options, name); }
constexpr Pace residual{v100_ns(12.0) / 2, 0.76 / 2}, products{v100_ns(7.25) / 2, 1.8 / 2};

Answer<CommPlan> apply(CommPlan plan, const ModifierInput& in) {
  if (std::string why = without_shapes(in.profile); !why.empty()) return Inapplicable{why};
  const double most = in.options[named("rank")];
  const CodecClock time(in.profile, in.options[named("speed")]);
  const auto factor = [=](const Tensor& t) {
    const MatrixShape matrix = matrix_shape(t);
    const double rank = std::min({most, matrix.rows, matrix.columns}), all = elements(t);
    const double sent = rank * (matrix.rows + matrix.columns) / 2;
    if (!(sent > 0) || 2 * sent >= all) return Encoding{.sent = t.size};
    const Seconds half = (time(residual, all) + rank * time(products, all)) / 2;
    return Encoding{.sent = Bytes(sent * size_of(t.dtype)), .encode = half, .decode = half};
  };
  return compressed(std::move(plan), in, {.of = factor, .overlapped = in.options[named("overlap")] != 0});
}

std::string settings(const OptionValues& v) {
  char text[80];
  std::snprintf(text, sizeof text, "lzhangbv/acpsgd: rank = %.0f", v[named("rank")]);
  return text;
}

}  // namespace

extern constinit const Modifier record{
    .name = "acpsgd",
    .title = "ACP-SGD",
    .summary = "the two factors of PowerSGD in turns, one all-reduce a step",
    .reference = "lzhangbv/acpsgd",
    .fidelity = Fidelity::lossy,
    .usual_base = "ddp",
    .framework = "its authors' code",
    .options = options,
    .apply = apply,
    .settings = settings,
    .caution = "as PowerSGD: the rank has to be tuned, and it needs the residual",
};

}  // namespace stepcast::modifier::acpsgd
