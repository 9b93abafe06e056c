// DoubleSqueeze: compression both ways with error feedback both ways: workers send compressed gradients, and what comes
// back of their sum is compressed again by the servers.
//
//   compute |  F B | encode |          |            | decode | U
//   up      |               | [ c(d) ] |
//   dn      |                          | [ c(d) ]   |            the server's residual stays on the server
//
//   bytes: c(d) up and c(d) down, where other operators pull a sum that is up to dense. One bit: d/8 and a scale;
//   top-k: values and int32 indices of k elements. Without servers every worker is that of a P-th: scattered, encoded
//   again, gathered, as 1-bit Adam does codec: as 1-bit Adam's, or as top-k's, which say where the numbers come from
//
// Not modelled: the time in which a server machine encodes (a worker that is one for a P-th encodes that part).
#include <stepcast/modifiers/shared/compression.hpp>
#include <stepcast/modifiers/shared/scattered_signs.hpp>

#include <cstdio>

namespace stepcast::modifier::doublesqueeze {
namespace {

enum class Operator : std::uint8_t { onebit, topk };
constexpr OptionSpec options[] = {{.name = "operator",
                                   .kind = OptionKind::choice,
                                   .standard = static_cast<double>(Operator::onebit),
                                   .low = 0,
                                   .high = 1,
                                   .summary = "which compresses both ways: signs with a scale, or the largest elements",
                                   .choices = {"onebit", "topk"}},
                                  fraction_option(0.01, "share of the elements that is sent, with operator=topk"),
                                  speed_option,
                                  overlap_option(0)};
consteval std::size_t named(std::string_view name) { return option(options, name); }

bool selects(const OptionValues& v) { return v[named("operator")] == static_cast<double>(Operator::topk); }

Answer<CommPlan> apply(CommPlan plan, const ModifierInput& in) {
  const double fraction = in.options[named("fraction")], speed = in.options[named("speed")];
  const bool overlapped = in.options[named("overlap")] != 0;
  if (!selects(in.options)) {
    if (fraction != options[named("fraction")].standard)
      return Inapplicable{"a fraction goes with operator=topk: one bit is sent of every element"};
    return signs_scattered(std::move(plan), in, speed, overlapped);
  }
  const CodecClock time(in.profile, speed);
  const auto largest = [=](const Tensor& t) {
    const double all = elements(t), kept = fraction * all;
    return Encoding{.sent = kept * (Bytes(size_of(t.dtype)) + Bytes(4)),
                    .encode = time(top_k_selection, all) + time(top_k_element, kept),
                    .decode = time(top_k_element, kept)};
  };
  return compressed(std::move(plan), in, {.of = largest, .exchange = Exchange::scattered, .overlapped = overlapped});
}

std::string settings(const OptionValues& v) {
  if (!selects(v)) return "servers and workers both send signs and a scale, each with a residual of its own";
  char text[120];
  std::snprintf(text, sizeof text,
                "servers and workers both send the largest %.4g of the elements, each with a residual",
                v[named("fraction")]);
  return text;
}

}  // namespace

extern constinit const Modifier record{
    .name = "doublesqueeze",
    .title = "DoubleSqueeze",
    .summary = "compressed both ways, with error feedback on workers and servers",
    .reference = "Tang et al., ICML 2019, arXiv 1905.05957",
    .fidelity = Fidelity::lossy,
    .usual_base = "bsp",
    .framework = "its authors' code",
    .options = options,
    .apply = apply,
    .settings = settings,
    .caution = "needs the residuals of both sides: without the servers' what the second compression leaves out is lost",
};

}  // namespace stepcast::modifier::doublesqueeze
