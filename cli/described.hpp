#pragma once
// Described models: what stands in for a trace, and the device whose roofline gives it times.
#include "input.hpp"

#include <stepcast/cluster/cluster.hpp>
#include <stepcast/cluster/device_match.hpp>

#include <optional>
#include <string>

namespace stepcast::cli {

/// --model describes a model, which stands in for a trace. Throws InputError when there is a trace
/// as well, or neither of them.
[[nodiscard]] bool is_described(const InputFlags&);
/// The device that --device names, shipped or in a file; without the flag the shipped one that the cluster has; nothing
/// if that is unknown, too. Throws InputError.
[[nodiscard]] std::optional<Device> device_of(const InputFlags&, const Cluster& = {});
/// The same for a description, which cannot do without one.
[[nodiscard]] Device device_of_description(const InputFlags&, const Cluster& = {});
/// The roofline that tells how small tiles of a traced model perform: as asked for, else that of the traced device.
[[nodiscard]] std::optional<Device> roofline_of(const InputFlags&, const Profile&);
/// The cluster of the flags with what its device, or that of --device, tells.
[[nodiscard]] Cluster cluster_for(const InputFlags&, const ClusterFlags&);

/// Names that only a file has.
[[nodiscard]] bool looks_like_file(const std::string& name);

}  // namespace stepcast::cli
