// Tokens by the size of the model, shared out over the devices.
#include <stepcast/roofline/usual_batch.hpp>

#include <stepcast/base/text.hpp>

#include <algorithm>
#include <cmath>

namespace stepcast {
namespace {

/// Tokens of a step of a language model with so many parameters.
double usual_tokens(double parameters) {
  if (parameters < 1e9) return std::exp2(19);
  if (parameters < 6e9) return std::exp2(20);
  if (parameters < 2e11) return std::exp2(22);
  return std::exp2(24);
}

/// Samples of a step, whatever the devices.
double usual_samples(const ModelShape& model) {
  return std::max(1.0, std::round(usual_tokens(model.parameters()) / static_cast<double>(model.sequence)));
}

/// The largest divisor of `devices` that is at most `samples`.
double shared_by(std::int64_t devices, double samples) {
  auto parts = static_cast<std::int64_t>(std::min(samples, static_cast<double>(devices)));
  while (devices % parts != 0) --parts;
  return static_cast<double>(parts);
}

/// Beyond it devices share models, not samples alone, and no batch grows with their number.
constexpr double most_parameters_of_a_device = 2e10;

}  // namespace

double usual_global_batch(const ModelShape& model, std::int64_t devices) {
  constexpr double images_of_a_device = 32;
  if (model.sequence <= 0) return images_of_a_device * static_cast<double>(devices);
  const double samples = usual_samples(model);
  const double parts =
      model.parameters() > most_parameters_of_a_device ? shared_by(devices, samples) : static_cast<double>(devices);
  return std::max(1.0, std::round(samples / parts)) * parts;
}

std::string why_usual(const ModelShape& model, double samples) {
  if (model.sequence <= 0) return "usual for models of images, 32 a device";
  const double usual = usual_samples(model);
  if (constexpr double rounded = 1.5; samples <= rounded * usual) return "usual for models of this size";
  return "one sample a device, where " + fixed(usual, 0) + (usual == 1 ? " is" : " are") +
         " usual for models of this size";
}

std::string batch_in_tokens(double tokens) {
  constexpr double million = 1e6, thousand = 1e3;
  return tokens >= million ? fixed(tokens / million, 1) + " M tokens" : fixed(tokens / thousand, 0) + " k tokens";
}

std::string usual_batch_text(const ModelShape& model, double samples) {
  const std::string tokens =
      model.sequence > 0 ? " (" + batch_in_tokens(samples * static_cast<double>(model.sequence)) + " a step)" : "";
  return "global batch " + fixed(samples, 0) + tokens + ": " + why_usual(model, samples);
}

}  // namespace stepcast
