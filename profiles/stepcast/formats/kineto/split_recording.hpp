#pragma once
// KinetoParts: the recording of one rank that was split into several files.
//
// The parts are read as one file, so that arrows, launches and waits are joined across them. Not modelled: parts whose
// times have different bases, which are refused.
//
// kineto_trace_of is in formats/kineto.cpp, beside the reader of whole files.
#include <stepcast/encodings/source.hpp>
#include <stepcast/trace/trace.hpp>

#include <span>

namespace stepcast {

namespace format::kineto {
/// One trace from all parts, in their order. Throws InputError when one of them is no Kineto file, or when they
/// contradict one another about rank, world size or base time.
[[nodiscard]] Trace kineto_trace_of(std::span<const Source> parts, const ReadOptions& = {});
}  // namespace format::kineto
using format::kineto::kineto_trace_of;

/// True when two traces that were read one by one are parts of one recording, or recordings of one process: nothing
/// says that their ranks differ, next to no event and no annotated step is in both, and they share host threads on
/// which the events of the one fit between those of the other, or the device work of one was launched in the other.
[[nodiscard]] bool are_parts_of_one_recording(const Trace&, const Trace&);

}  // namespace stepcast
