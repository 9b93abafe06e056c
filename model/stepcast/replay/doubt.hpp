#pragma once
// Doubt: signs that a recording lost events, without which its replay proves nothing (internal to the replay).
//
// Three kinds of events come in pairs that no program order can break: a launch call and the device work that it
// launched, and a forward operator and the backward node that carries its sequence number. Where one event in n was
// lost, about one pair in n lacks a given half. Intact recordings lack some halves at both ends, which are left out,
// and have some that never had another: device work without a correlation (firmware), copies and fills of no bytes, and
// operators without a number.
#include <stepcast/replay/device.hpp>

#include <span>
#include <string>

namespace stepcast::replaying {

struct LostHalves {
  double launches_without_work = 0;     ///< share of the calls that launch a kernel
  double work_without_launch = 0;       ///< share of the device work with a correlation
  double backward_without_forward = 0;  ///< share of the sequence numbers of backward nodes
};
[[nodiscard]] LostHalves lost_halves(const TraceLinks&, std::span<const Step>);
/// In words what makes the recording doubtful; empty: nothing.
[[nodiscard]] std::string doubt_about(const TraceLinks&, std::span<const Step>);

}  // namespace stepcast::replaying
