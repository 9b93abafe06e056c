#pragma once
// What-if parts: words and sums that several what-ifs share (internal to the family).
#include <stepcast/base/text.hpp>
#include <stepcast/whatif/whatif.hpp>

#include <span>
#include <string>
#include <vector>

namespace stepcast {

struct PassPlace;

/// The step has no device: `why` says what that means for this what-if.
[[nodiscard]] Inapplicable computed_on_host(const std::string& why);
/// No layer fits the patterns; names some layers that there are.
[[nodiscard]] Inapplicable no_such_layer(const Profile&, const std::string& patterns);
/// "2.5": up to six digits.
[[nodiscard]] std::string number_text(double);
[[nodiscard]] Seconds host_time(const Profile&, std::span<const PassPlace>);

/// Activation bytes of each selected layer (0 for the others): `size`, or where that is 0 the profile's activations,
/// shared out by the device time that the forward passes spend outside of matrix products, which is the time of reading
/// and writing activations. Inapplicable when the size is unknown.
[[nodiscard]] Answer<std::vector<Bytes>> activations(const Profile&, const std::string& layers, Bytes size);

}  // namespace stepcast
