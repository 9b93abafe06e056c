// Faster device: device time divided by a factor, or matrix products and memory-bound kernels by factors of their own,
// such as the ratios of peak arithmetic and of memory bandwidth of two devices. Host time stays.
#include <stepcast/profile/profile_whatif.hpp>
#include <stepcast/whatif/common.hpp>

namespace stepcast::whatif::faster_device {
namespace {

constexpr OptionSpec options[] = {
    {.name = "by",
     .standard = 1,
     .low = 0.001,
     .high = 1000,
     .summary = "speed-up of all device work",
     .required = true},
    {.name = "gemm", .standard = 0, .low = 0, .high = 1000, .summary = "of matrix products; 0: as `by`"},
    {.name = "memory", .standard = 0, .low = 0, .high = 1000, .summary = "of memory-bound kernels; 0: as `by`"}};
consteval std::size_t named(std::string_view name) { return option(options, name); }

Answer<Profile> on_faster_device(const WhatIfInput& in) {
  const Profile& p = in.profile;
  const double by = in.options[named("by")];
  const auto factor = [&](double own) { return own > 0 ? own : by; };
  const double gemm = factor(in.options[named("gemm")]), memory = factor(in.options[named("memory")]);
  if (!p.has_device() && (gemm != by || memory != by))
    return computed_on_host("it has no kernels to tell apart: give by= alone");
  Scale faster = Scale::compute(p, 1 / by);
  faster.part[KernelClass::gemm] = 1 / gemm;
  faster.part[KernelClass::memory] = 1 / memory;
  Profile changed = with_all_scaled(p, faster);
  changed.assumed.push_back(gemm == by && memory == by
                                ? "compute is " + number_text(by) + " times as fast as traced"
                                : "device work is " + number_text(gemm) + " (matrix products), " + number_text(memory) +
                                      " (memory-bound kernels) and " + number_text(by) +
                                      " (the rest) times as fast as traced");
  return changed;
}

}  // namespace

extern constinit const WhatIf record{
    .name = "faster_device",
    .title = "faster device",
    .summary =
        "device time divided by a factor, for matrix products and memory-bound kernels by their own; host time "
        "stays, unless the host computes",
    .reference = "Williams, Waterman, Patterson 2009 (roofline)",
    .options = options,
    .apply = on_faster_device,
    .caution = "one factor for all kernels of a class: small kernels gain less than large ones"};

}  // namespace stepcast::whatif::faster_device
