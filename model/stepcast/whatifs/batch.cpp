// Another batch: the time of a step as a function of the samples in it.
//
// With a second profile of the same model at another batch, every part of every layer is a line a + b n through the two
// measured points (a part that does not grow takes the value of the nearer one). A host that issues to a device issues
// the same kernels at every batch: between the two its time is on the line, beyond them it is that of the nearer one,
// since what sets the two apart is no effect of the batch. With one profile device time of the layers is proportional
// to the batch and host time stays for the same reason; where the host computes, its time is proportional. The
// optimizer and the rest of the step do not depend on the batch; the wait for input and the activations are
// proportional.
#include <stepcast/base/words.hpp>
#include <stepcast/profile/profile_whatif.hpp>
#include <stepcast/whatif/common.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace stepcast::whatif::batch {
namespace {

constexpr OptionSpec options[] = {
    {.name = "to", .low = 1e-3, .high = 1e9, .summary = "samples per worker and step", .required = true}};
consteval std::size_t named(std::string_view name) { return option(options, name); }

/// Lines through the parts of two profiles.
struct Fit {
  double first, second, to;
  bool issues = false;  ///< the host issues to a device, it does not compute

  [[nodiscard]] double operator()(double a, double b) const {
    const double slope = (b - a) / (second - first);
    if (!(slope > 0)) return std::abs(to - first) <= std::abs(to - second) ? a : b;
    return std::max(0.0, to == second ? b : a + slope * (to - first));
  }
  [[nodiscard]] Seconds operator()(Seconds a, Seconds b) const { return Seconds((*this)(a.value(), b.value())); }
  [[nodiscard]] PassCost operator()(const PassCost& a, const PassCost& b) const {
    PassCost out{issues ? issued(a.host, b.host) : (*this)(a.host, b.host), {}};
    for (const KernelClass kind : classes_apart) out.part[kind] = (*this)(a.part[kind], b.part[kind]);
    out.device = out.part.sum() + (*this)(a.rest(), b.rest());
    return out;
  }
  [[nodiscard]] Seconds issued(Seconds a, Seconds b) const {
    return Fit{first, second, std::clamp(to, std::min(first, second), std::max(first, second))}(a, b);
  }
};

/// Why the two profiles are not one model on one device at two batches; empty if they are.
std::string difference(const Profile& a, const Profile& b) {
  if (!(b.batch_samples > 0)) return "the batch of the other profile is unknown";
  if (a.batch_samples == b.batch_samples) return "both profiles have the batch " + number_text(a.batch_samples);
  if (a.device != b.device) return "the other profile is of another device (" + b.device + ")";
  if (a.layers.size() != b.layers.size())
    return "the other profile has " + counted(std::ssize(b.layers), "layer") + ", this one " +
           std::to_string(a.layers.size());
  for (std::size_t l = 0; l < a.layers.size(); ++l)
    if (a.layers[l].name != b.layers[l].name)
      return "layer '" + a.layers[l].name + "' is '" + b.layers[l].name + "' in the other profile";
  return {};
}

/// Said where a profiler slows one of the two, so that what lies between them is no effect of the batch alone; empty
/// where they are alike. Described times were never slowed.
std::string caution_of_one_scaled(const Profile& a, const Profile& b) {
  const bool first = a.without_profiler || a.described, second = b.without_profiler || b.described;
  if (first == second) return {};
  const Profile &without = first ? a : b, &with = first ? b : a;
  return "the step at batch " + number_text(without.batch_samples) + " is one without a profiler, the step at batch " +
         number_text(with.batch_samples) +
         " is as slow as its profiler made it, which passes for an effect of the batch: give the step without a "
         "profiler of both (--step and --other-step)";
}

Profile fitted(const Profile& a, const Profile& b, double to) {
  const Fit fit{a.batch_samples, b.batch_samples, to, a.has_device()};
  Profile out = a;
  for (std::size_t l = 0; l < out.layers.size(); ++l) {
    out.layers[l].forward = fit(a.layers[l].forward, b.layers[l].forward);
    out.layers[l].backward = fit(a.layers[l].backward, b.layers[l].backward);
    out.layers[l].kept = Bytes(fit(a.layers[l].kept.value(), b.layers[l].kept.value()));
  }
  out.optimizer = fit(a.optimizer, b.optimizer);
  out.other = fit(a.other, b.other);
  out.input = fit(a.input, b.input);
  out.input_period = fit(a.input_period, b.input_period);
  out.activation_memory = Bytes(fit(a.activation_memory.value(), b.activation_memory.value()));
  out.transient_memory = Bytes(fit(a.transient_memory.value(), b.transient_memory.value()));
  for (const std::string& caution : b.cautions)
    out.cautions.push_back("of the profile at batch " + number_text(b.batch_samples) + ": " + caution);
  if (std::string caution = caution_of_one_scaled(a, b); !caution.empty()) out.cautions.push_back(std::move(caution));
  if (b.described && to == b.batch_samples) {
    out.assumed.push_back("batch " + number_text(to) + ": described anew");
    return out;
  }
  out.assumed.push_back("batch " + number_text(to) +
                        ": each part of each layer on the line through its times at batch " +
                        number_text(a.batch_samples) + " and " + number_text(b.batch_samples) +
                        (a.has_device() ? "; beyond them host time as at the nearer one" : ""));
  return out;
}

Profile proportional(const Profile& p, double to) {
  const double factor = to / p.batch_samples;
  Profile out = with_scaled(p, passes_of(selected_layers(p, "*")), Scale::compute(p, factor));
  out.input *= factor;
  out.input_period *= factor;
  out.activation_memory *= factor;
  out.transient_memory *= factor;
  for (Layer& layer : out.layers) layer.kept *= factor;
  out.assumed.push_back("batch " + number_text(to) + " instead of " + number_text(p.batch_samples) + ": " +
                        (p.has_device() ? "device time of the layers proportional to it, host time, optimizer"
                                        : "time of the layers proportional to it, optimizer") +
                        " and the rest constant, the wait for input proportional");
  return out;
}

Answer<Profile> at_batch(const WhatIfInput& in) {
  const Profile& p = in.profile;
  if (!(p.batch_samples > 0)) return Inapplicable{"the traced batch is unknown: give it with --batch"};
  const double to = in.options[named("to")];
  if (in.other_batch != nullptr) {
    if (in.position > 0) return Inapplicable{"with a second profile it has to come first: that one is as traced, too"};
    if (const std::string why = difference(p, *in.other_batch); !why.empty()) return Inapplicable{why};
  }
  Profile changed = in.other_batch != nullptr ? fitted(p, *in.other_batch, to) : proportional(p, to);
  // Samples are the leading extent, alone or times the rows of each.
  for (Layer& layer : changed.layers) {
    if (layer.input_shape.empty()) continue;
    std::int64_t& leading = layer.input_shape.front();
    leading = std::max<std::int64_t>(1, std::llround(double(leading) * to / p.batch_samples));
  }
  changed.batch_samples = to;
  return changed;
}

}  // namespace

extern constinit const WhatIf record{
    .name = "batch",
    .title = "another batch",
    .summary =
        "another number of samples per worker and step: fitted to two profiles, or device time proportional "
        "from one",
    .reference = "Zhu, Phanishayee, Pekhimenko 2020 (Daydream); Yu, Gao, Golikov, Pekhimenko 2021 (Habitat)",
    .options = options,
    .apply = at_batch,
    .caution =
        "small batches do not fill a device: from one profile a larger batch is overestimated, a smaller one "
        "underestimated; a second profile removes most of that"};

}  // namespace stepcast::whatif::batch
