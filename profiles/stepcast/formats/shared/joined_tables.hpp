#pragma once
// Joined tables: two files of one profile as one text, where a tool writes operators and tensors apart.
//
// TrioSim's tracer writes trace.csv (operators) and tensor.csv (their tensors); neither is of use alone, and its reader
// (formats/triosim.cpp) takes one after the other. Not modelled: pairs within an archive.
#include <stepcast/encodings/source.hpp>

#include <optional>
#include <span>
#include <string>

namespace stepcast {

namespace format::triosim {
/// The two tables as one text, or nothing when the files are not such a pair.
[[nodiscard]] std::optional<std::string> joined_tables(std::span<const Source> files);
}  // namespace format::triosim
using format::triosim::joined_tables;

}  // namespace stepcast
