// Operators that several compressors are: signs, and selections of elements, gathered by all.
#include <stepcast/modifiers/shared/gathered_codes.hpp>

namespace stepcast {
namespace {

consteval std::size_t named(std::string_view name) { return option(signs_options, name); }

}  // namespace

Answer<CommPlan> signs_gathered(CommPlan plan, const ModifierInput& in, Pace encoding, Pace decoding, Bytes extra,
                                bool voted) {
  const double bits = in.options[named("values")] == 0 ? 8 : 1;
  const CodecClock time(in.profile, in.options[named("speed")]);
  const auto signs = [=](const Tensor& t) {
    const double all = elements(t);
    const Bytes size = Bytes(all * bits / 8) + extra;
    return Encoding{
        .sent = size, .pulled = voted ? size : Bytes(0), .encode = time(encoding, all), .decode = time(decoding, all)};
  };
  return compressed(std::move(plan), in,
                    {.of = signs, .exchange = Exchange::gathered, .overlapped = in.options[named("overlap")] != 0});
}

Answer<CommPlan> selection_gathered(CommPlan plan, const ModifierInput& in, const Selection& selection, double speed,
                                    bool overlapped) {
  const CodecClock time(in.profile, speed);
  const auto selected = [=](const Tensor& t) {
    const double all = elements(t), kept = selection.fraction * all;
    return Encoding{.sent = kept * (Bytes(size_of(t.dtype)) + selection.index),
                    .encode = time(selection.all, all) + time(selection.kept, kept),
                    .decode = time(selection.kept, kept)};
  };
  return compressed(std::move(plan), in, {.of = selected, .exchange = Exchange::gathered, .overlapped = overlapped});
}

}  // namespace stepcast
