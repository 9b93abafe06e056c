// Sketched-SGD: a count sketch of the gradient is all-reduced, since sketches add up; the largest elements that it
// shows are then all-reduced exactly.
//
//   compute |  F B | sketch |                     | find k |                 | add k | U
//   net     |               | [ all-reduce r x c ]|        | [ all-reduce k ]|
//
//   bytes: 4 r c for r rows of c columns, then the values of k elements, whose places all workers know from the sketch
//   codec: r scatter-adds of d elements to sketch, r gathers of d elements and a selection of k to find; as top-k's
//   (V100: 285.7 ms / 9 for d elements, 261.1 ms to select. A host: 2.2 and 3.2 ns an element, 20.3 to select)
//
// Columns are a share of the elements here, so that one sketch is that of all tensors however they are bucketed. Not
// modelled: exact values of more candidates than are kept (the authors ask for a few times k).
#include <stepcast/modifiers/shared/compression.hpp>

#include <cstdio>

namespace stepcast::modifier::sketched_sgd {
namespace {

constexpr OptionSpec options[] = {
    fraction_option(0.001, "share of the elements that is kept"),
    {.name = "rows", .kind = OptionKind::count, .standard = 5, .low = 1, .high = 100, .summary = "of the sketch"},
    {.name = "columns",
     .kind = OptionKind::number,
     .standard = 0.005,
     .low = 1e-6,
     .high = 1,
     .summary = "of the sketch, as a share of the elements"},
    speed_option,
    overlap_option(0)};
consteval std::size_t named(std::string_view name) { return option(options, name); }
constexpr Pace added{top_k_element.device_ns, 2.2}, gathered{top_k_element.device_ns, 3.2};

Answer<CommPlan> apply(CommPlan plan, const ModifierInput& in) {
  const double fraction = in.options[named("fraction")], rows = in.options[named("rows")];
  const double columns = in.options[named("columns")];
  const CodecClock time(in.profile, in.options[named("speed")]);
  const auto sketch = [=](const Tensor& t) {
    const double all = elements(t), kept = fraction * all;
    return Encoding{.sent = kept * Bytes(size_of(t.dtype)),
                    .first = Bytes(4 * rows * columns * all),
                    .encode = time(added, rows * all),
                    .between = time(gathered, rows * all) + time(top_k_selection, all),
                    .decode = time(added, kept)};
  };
  return compressed(std::move(plan), in, {.of = sketch, .overlapped = in.options[named("overlap")] != 0});
}

std::string settings(const OptionValues& v) {
  char text[160];
  std::snprintf(text, sizeof text, "dhroth/sketchedsgd: k = %.4g d, numRows = %.0f, numCols = %.4g d",
                v[named("fraction")], v[named("rows")], v[named("columns")]);
  return text;
}

}  // namespace

extern constinit const Modifier record{
    .name = "sketched_sgd",
    .title = "Sketched-SGD",
    .summary = "count sketches, all-reduced, then the largest elements that they show",
    .reference = "Ivkin et al., NeurIPS 2019, arXiv 1903.04488",
    .fidelity = Fidelity::lossy,
    .usual_base = "bsp",
    .framework = "its authors' code",
    .options = options,
    .apply = apply,
    .settings = settings,
    .caution =
        "a sketch that is too narrow finds the wrong elements: columns have to exceed the kept elements by far; codec "
        "times are derived from those of top-k, not measured",
};

}  // namespace stepcast::modifier::sketched_sgd
