#pragma once
// NCCL's tuning: what its own constants are scaled by to describe it on one kind of machine (algorithm `nccl`).
//
// NCCL runs each operation by one of several algorithms with one of three protocols, and knows of each a latency and a
// bandwidth (src/graph/tuning.cc, 2.18 to 2.27). Real machines keep the structure and differ in the numbers, by a
// factor each: calibration fits these factors to logs of nccl-tests, starting from the defaults below, which are
// typical of machines with public logs. Under `nccl` the latency of a link is that of one hop by LL128 (1.9 us over
// NVLink, 4 us over a network in NCCL's tables) and its bandwidth what a ring by Simple reaches.
//
// Example: an A100 machine has launch 1.1, ll 0.44 and tree 0.76. Invariants: factors and shares above 0, but for those
// that say "0: none". Not modelled: protocols by function, channels, thresholds in threads.
#include <stepcast/base/units.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace [[gnu::visibility("default")]] stepcast {

enum class NcclAlgorithm : std::uint8_t { ring, tree, nvls, nvls_tree, collnet_direct, collnet_chain };
enum class NcclProtocol : std::uint8_t { ll, ll128, simple };
inline constexpr std::size_t nccl_algorithm_count = 6, nccl_protocol_count = 3;

struct NcclTuning {
  double launch = 1;        ///< on the constant part of every latency
  double simple_hop = 0.6;  ///< on a hop of the ring by Simple, of which the published one covers a whole chunk
  double ll = 0.45;         ///< share of the bandwidth inside a machine that LL reaches
  double ll_between = 0.5;  ///< the same between machines
  double ll128 = 0.92;      ///< share that LL128 reaches
  double tree = 0.75;       ///< share that trees reach
  double nvls = 0;          ///< bus bandwidth of sums in the switch inside a machine over a ring's; 0: none
  double collnet = 0;       ///< share of the cards that sums in the network reach; 0: none
  double all_to_all = 0.9;  ///< share of the bandwidth that an all-to-all reaches
  double send = 0.6;        ///< share that one pair of devices reaches
  /// Share of a larger ring's bandwidth that a gather or scatter of two devices of one machine reaches, which pass
  /// their data once; their sums pass it twice, one behind the other, and reach its root. 0: unknown, by the links.
  double pair = 0;
  Seconds peer{1.5e-6};       ///< an all-to-all's cost of each peer on another machine
  std::string algo, proto{};  ///< as NCCL_ALGO and NCCL_PROTO say ("Tree", "^LL128", "Ring,Tree"); empty: all
  bool operator==(const NcclTuning&) const = default;
};

/// NcclTuning::pair, or what is typical of links inside a machine with so much bandwidth: 0.72 of NVLink, all of
/// others. Source: an A100's and a B200's tables in ai-dynamo/aiconfigurator (0.62 to 0.80 of eight devices').
[[nodiscard]] double pair_share(const NcclTuning&, BytesPerSecond inside);

/// What a list as in NCCL_ALGO or NCCL_PROTO leaves, one bit a member in the order of the enumerations. CollNet stands
/// for both of its kinds. Throws InputError for a name that NCCL does not know, and where nothing is left.
[[nodiscard]] unsigned nccl_algorithms_of(std::string_view list, const std::string& where);
[[nodiscard]] unsigned nccl_protocols_of(std::string_view list, const std::string& where);

}  // namespace stepcast
