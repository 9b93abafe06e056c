#pragma once
// Device of a trace: the roofline of a device from the kernels of one trace.
//
// Products are told by the shapes of the operators that launched them (record_shapes), memory-bound kernels by the
// bytes that their operators read and write, the floor by the shortest kernels, and the host's time by launches in a
// row. Of a processor that computes without an accelerator (a start that is `on_host`) the operators themselves are the
// kernels; what each of them costs beside its work stays as in the start, since most of what a trace shows of that is
// the profiler's. Not modelled: kernels of several operators at once; convolutions, of which a trace says too little.
#include <stepcast/calibration/device_fit.hpp>
#include <stepcast/trace/trace.hpp>

namespace [[gnu::visibility("default")]] stepcast {

/// From the kernels of a trace that name their products' shapes (record_shapes) and times; what the trace does not show
/// stays as in `start`. Inapplicable without such kernels.
[[nodiscard]] Answer<DeviceFit> device_of_trace(const Device& start, const Trace&);

}  // namespace stepcast
