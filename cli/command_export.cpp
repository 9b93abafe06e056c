// stepcast export: traces in a format that other tools read; one file a rank.
#include "command.hpp"
#include "documents.hpp"
#include "files.hpp"
#include "input.hpp"

#include <stepcast/base/error.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/documents/chakra_export.hpp>
#include <stepcast/report/text/table.hpp>

#include <memory>
#include <ostream>
#include <set>

namespace stepcast::cli {
namespace {

struct ExportFlags {
  InputFlags input;
  std::string prefix, format = "chakra", step;
};

/// The rank that each trace says it is; without a word of theirs, their number.
std::vector<std::int64_t> ranks_of(const std::vector<Trace>& traces) {
  std::vector<std::int64_t> ranks;
  std::set<std::int64_t> seen;
  for (const Trace& trace : traces) {
    const std::int64_t rank = trace.rank >= 0 ? trace.rank : static_cast<std::int64_t>(ranks.size());
    if (!seen.insert(rank).second)
      throw InputError(trace.source, "one trace for each rank", "a second trace of rank " + std::to_string(rank));
    ranks.push_back(rank);
  }
  return ranks;
}

std::string time_text(std::int64_t ns) { return text_of(Seconds(static_cast<double>(ns) * 1e-9)); }

ExitCode export_traces(const ExportFlags& flags) {
  if (flags.format != "chakra") throw InputError("--format", "chakra", in_quotes(flags.format));
  if (flags.prefix.empty() || flags.prefix == "-" || flags.prefix.ends_with('/'))
    throw InputError("-o", "a prefix for the files, PREFIX.<rank>.et", in_quotes_or_nothing(flags.prefix));
  const std::int64_t step = flags.step.empty() ? -1 : integer_of(flags.step, "--step", 0, 1'000'000'000'000);
  const Documents documents = documents_of(flags.input.files, flags.input.strict);
  if (documents.profile) throw InputError(flags.input.files.front(), "traces", "a profile, which has no events");
  const std::vector<std::int64_t> ranks = ranks_of(documents.traces);
  const auto name_of_rank = [&](std::size_t i) { return flags.prefix + "." + std::to_string(ranks[i]) + ".et"; };
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    refuse_overwriting(name_of_rank(i), flags.input.files);
    check_writable(name_of_rank(i));
  }
  // All or nothing: files of some ranks alone would be taken for the whole run.
  std::vector<ChakraExport> exports;
  for (const Trace& trace : documents.traces) exports.push_back(chakra_export_of(trace, step));
  using enum TextTable::Align;
  TextTable table({{"file", flexible}, {"nodes", right}, {"host", right}, {"device", right}, {"communication", right}});
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const ChakraExport& written = exports[i];
    write_output(name_of_rank(i), [&](std::ostream& out) { out << written.bytes; });
    for (const std::string& remark : written.remarks) note(documents.traces[i].source + ": " + remark);
    table.add_row({name_of_rank(i), std::to_string(written.nodes), time_text(written.host_ns),
                   time_text(written.device_ns),
                   time_text(written.communication_ns) + " in " + std::to_string(written.communication_nodes)});
  }
  write_output("-", [&](std::ostream& out) { table.write(out); });
  return answered;
}

Action add_export_flags(CLI::App& app) {
  auto flags = std::make_shared<ExportFlags>();
  app.add_option("TRACE", flags->input.files, "Traces, plain or gzip (ranks of one run)")->required();
  app.add_option("-o,--output", flags->prefix, "Prefix of the files: PREFIX.<rank>.et")->required();
  app.add_option("--format", flags->format, "Format of the files (default chakra, the input of ASTRA-sim)");
  app.add_option("--step", flags->step, "Only the annotated step of this number");
  app.add_flag("--strict", flags->input.strict, "Refuse a damaged trace, do not repair it");
  return [flags] { return export_traces(*flags); };
}

}  // namespace

const Verb export_verb = {"export", "Write traces as Chakra execution traces, for ASTRA-sim",
                          "stepcast export rank0.json.gz rank1.json.gz -o run --format chakra --step 2",
                          add_export_flags};

}  // namespace stepcast::cli
