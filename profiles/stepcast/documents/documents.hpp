#pragma once
// Room documents: from files to what they hold together: a run's traces or a profile; and Chakra out.
//
//   rank0.json.gz, rank1.json.gz -> readings -> one run of two ranks -> profile
//
// It may include base, encodings, profile, trace, roofline, anatomy, extraction, formats/shared, formats/kineto and
// formats/chakra.
//
// Documents: what several input files hold together: the traces of a run's ranks, or one profile.
//
// A source is a trace, a part of one, an archive of traces, an execution trace that is joined with the trace of its
// run, the layout of a pipelined run beside its passes, a table of layers, or a profile that stepcast wrote. Invariant:
// either all of them belong together, or it is an InputError that says which does not; what was repaired or left out is
// in `notes`, once each. The library opens no file: callers map or read them. Sources are read side by side; results do
// not depend on the number of threads. Not modelled: files of different runs (compare their profiles instead).
#include <stepcast/extraction/profile_of.hpp>
#include <stepcast/formats/shared/format.hpp>
#include <stepcast/profile/profile.hpp>
#include <stepcast/trace/trace.hpp>

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

struct ProfileOptions;

struct Documents {
  std::vector<Trace> traces;
  std::optional<Profile> profile;  ///< then there are no traces
  std::vector<std::string> notes;  ///< for people, in the order of the sources: repairs, parts that were left out
};

/// Throws InputError for sources that cannot be read or do not belong together. `options.progress` is told the share of
/// all bytes; `kernels` is the text of a table of rules for the names of kernels ("stepcast.kernels/1") to put in front
/// of the shipped ones, or has no bytes.
[[nodiscard]] Documents documents_of(std::span<const Source>, const ReadOptions& options = {},
                                     const Source& kernels = {});
/// What one source holds, a profile that stepcast wrote included. Throws InputError.
[[nodiscard]] Reading document_of(const Source&, const ReadOptions& options = {});
/// Gives the traces these rules for the names of kernels, as above. Throws InputError.
void use_kernel_rules(const Source& kernels, std::span<Trace> traces);
/// True when the traces are the passes of a pipelined job, which make no profile (pipeline_replay.hpp).
[[nodiscard]] bool is_pipelined(std::span<const Trace>);

/// "runs/gpt2.pt.trace.json.gz" names the model gpt2.
[[nodiscard]] std::string model_named_by(std::string_view path);
/// The profile that the documents hold or that their traces give. Throws InputError for pipelined jobs, for traces
/// without a step, and, naming `where`, for a model's name beside a profile, which has its tensors.
[[nodiscard]] Profile profile_of(const Documents&, const ProfileOptions&, std::string_view where = "model");
/// Options for the traces of a shipped model ("" for none) with so many samples a step (0: as traced) and so many
/// parameters (0: as traced). Throws InputError, naming `where` ("--model"), for an unknown one.
[[nodiscard]] ProfileOptions profile_options_of(std::string_view shipped_model, double batch_samples,
                                                double parameter_count = 0, std::string_view where = "model");

}  // namespace stepcast
