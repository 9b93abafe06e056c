#pragma once
// Goodput: the share of a nominal bandwidth that a transport leaves to its payload (internal to the library).
//
// TCP over Ethernet with frames of 1500 bytes: 1448 bytes of payload in 1538 on the wire, 94 %. Not modelled: jumbo
// frames, RDMA, congestion.

namespace stepcast {

inline constexpr double goodput_of_tcp = 0.94;

}  // namespace stepcast
