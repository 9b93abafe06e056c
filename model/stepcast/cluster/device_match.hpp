#pragma once
// Device match: which device a name means, and what a profile becomes on a cluster of other devices than the traced.
//
// Invariant: compute times are never carried over to another device in silence: either the devices are the same, or the
// caller says what to assume, or it is an InputError that says how to. Not modelled: which device is faster for which
// layers (describe the model instead: its device has a roofline).
#include <stepcast/cluster/cluster.hpp>
#include <stepcast/profile/profile.hpp>
#include <stepcast/roofline/device.hpp>

#include <optional>
#include <string_view>

namespace [[gnu::visibility("default")]] stepcast {

/// "A100" and "NVIDIA A100-SXM4-40GB" are the same device: all words of one name occur in the other.
[[nodiscard]] bool same_device(std::string_view a, std::string_view b);
/// The shipped device of that name, or of one that means the same; nothing when there are several, unless one of them
/// is the plain one of the others ("NVIDIA A100-SXM4-80GB" beside "NVIDIA A100-SXM4-80GB, Megatron-DeepSpeed"), or they
/// differ in their memory only: then the largest.
[[nodiscard]] std::optional<Device> shipped_device_like(std::string_view name);
/// That of the cluster's machines, where `name` says no more than the cluster does ("a100" on "NVIDIA
/// A100-SXM4-40GB"), or nothing.
[[nodiscard]] std::optional<Device> device_of_cluster(const Cluster&, std::string_view name);
/// The same for a name that somebody gave. Throws InputError naming `where`, with a suggestion.
[[nodiscard]] Device device_named(std::string_view name, std::string_view where = "device");
/// The cluster with what the device tells and it leaves open: its name, its memory, and that what goes to servers is
/// copied between device and host.
[[nodiscard]] Cluster with_device(Cluster, const std::optional<Device>&);

/// What to assume where the cluster's device is not the traced one.
struct DeviceAssumption {
  bool same_device = false;   ///< keep the traced compute times
  double faster_compute = 0;  ///< divide them by this; 0: not said
};
/// The profile as it would be on the cluster's device. Throws InputError when the devices differ and nothing says what
/// to assume, and for both assumptions at once; `prefix` as in cluster_description.hpp.
[[nodiscard]] Profile profile_on(const Cluster&, Profile, const DeviceAssumption& = {}, std::string_view prefix = "--");

}  // namespace stepcast
