#pragma once
// Network files: a cluster as ASTRA-sim's network, system and memory.
//
//   4 machines of 8 devices -> topology: [ Ring, Ring ], npus_count: [ 8, 4 ]
//
// A ring for the devices of a machine and one for each level between machines, with what a device has of each while all
// send across it. Internal to the library. Not modelled: meshes, and levels whose units are not full.
#include <stepcast/base/error.hpp>
#include <stepcast/cluster/cluster.hpp>
#include <stepcast/cluster/collective.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast {

struct NetworkFiles {
  std::string network, system, memory;  ///< YAML, JSON, JSON
  std::string all_reduce;               ///< ASTRA-sim's name of the algorithm that it runs
  bool as_predicted = true;             ///< ... and whether that is the algorithm that was asked for
  std::int64_t dimensions = 1;
  std::vector<std::string> remarks;  ///< what the files do not say
};
/// Inapplicable where its network is none that ASTRA-sim knows.
[[nodiscard]] Answer<NetworkFiles> network_files(const Cluster&, std::string_view algorithm);
/// CollectiveCommType of the operations that ASTRA-sim runs among all ranks of a group.
[[nodiscard]] std::optional<std::int64_t> chakra_number_of(Operation);

}  // namespace stepcast
