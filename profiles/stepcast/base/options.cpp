#include <stepcast/base/options.hpp>

namespace stepcast {

OptionValues standard_options(std::span<const OptionSpec> specs) {
  OptionValues values{};
  for (std::size_t i = 0; i < specs.size(); ++i) values[i] = specs[i].standard;
  return values;
}

std::string_view standard_layers(std::span<const OptionSpec> specs) {
  for (const OptionSpec& spec : specs)
    if (spec.kind == OptionKind::layers) return spec.patterns;
  return {};
}

}  // namespace stepcast
