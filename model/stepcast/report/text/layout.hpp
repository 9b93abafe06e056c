#pragma once
// Layout phrases: what the text reports of layouts say in the same words (internal to the reports).
#include <stepcast/report/layout_report.hpp>

#include <iosfwd>
#include <string>

namespace stepcast {

/// What every report of layouts opens with: model, device, cluster, batch, and a caution if the trace is not
/// reproduced. The answer comes next.
void write_layout_subject(std::ostream&, const LayoutSubject&);
/// What every report of layouts ends with, set off by an empty line: the replay, links, and what was assumed. `also`:
/// what one prediction assumed beyond the workload.
void write_layout_grounds(std::ostream&, const LayoutSubject&, const std::vector<std::string>& also = {});
/// Plan, step, throughput, bound and memory of a layout.
void write_layout_facts(std::ostream&, const LayoutSubject&, const LayoutPrediction&, std::string_view label);
void write_layout_breakdown(std::ostream&, const LayoutPrediction&);
/// Framework by framework, what to paste or why there is nothing.
void write_launch_settings(std::ostream&, const std::vector<LaunchSettings>&);
/// What PyTorch's own kernels make of the layout, whose settings follow; nothing where that is not known.
void write_by_pytorch(std::ostream&, const std::optional<OwnKernels>&, const LayoutSubject&);

/// "12,345".
[[nodiscard]] std::string grouped_digits(std::uint64_t);
/// "61.2 GiB of 74.5 GiB".
[[nodiscard]] std::string memory_text(Bytes used, Bytes cap);

}  // namespace stepcast
