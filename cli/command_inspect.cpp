// stepcast inspect: what is in these files? One line a trace, and for what cannot be read the reason.
#include "command.hpp"
#include "documents.hpp"
#include "files.hpp"
#include "input.hpp"
#include "progress.hpp"

#include <stepcast/base/error.hpp>
#include <stepcast/documents/inspection.hpp>

#include <algorithm>
#include <memory>

namespace stepcast::cli {
namespace {

struct InspectFlags {
  InputFlags input;
  OutputFlags output;
  bool in_full = false;
};

InspectedFile inspected_file(const std::string& file, bool strict, const Source& kernels,
                             const std::function<void(double)>& show) {
  try {
    const OpenFiles opened({file});
    Reading reading = document_of(opened.source(), {.strict = strict, .progress = show});
    use_kernel_rules(kernels, reading.traces);
    return inspected(shown_name(file), reading);
  } catch (const InputError& refusal) {
    InspectedFile refused;
    refused.name = shown_name(file);
    refused.refused.emplace_back(refusal.what());
    return refused;
  }
}

ExitCode inspect(const InspectFlags& flags) {
  const std::vector<std::string> files = files_in(flags.input.files, "traces");
  refuse_overwriting(flags.output.path, files);
  const OpenFiles rules = kernel_rules(flags.input.kernels);
  use_kernel_rules(rules.source(), {});  // a fault in the rules is not the fault of every trace
  Inspection inspection;
  inspection.in_full = flags.in_full;
  {
    Progress progress("reading");
    for (std::size_t i = 0; i < files.size(); ++i)
      inspection.files.push_back(inspected_file(files[i], flags.input.strict, rules.source(), [&](double share) {
        progress.show((static_cast<double>(i) + share) / static_cast<double>(files.size()));
      }));
  }
  write_output(flags.output.path, [&](std::ostream& out) { report_of(flags.output).inspection(out, inspection); });
  return inspection.all_read() ? answered : answer_is_no;
}

Action add_inspect_flags(CLI::App& app) {
  auto flags = std::make_shared<InspectFlags>();
  app.add_option("FILE", flags->input.files, "Traces, archives and folders of them, profiles")->required();
  app.add_flag("--long", flags->in_full, "Everything that is known of each");
  add_reading_flags(app, flags->input);
  add_output_flags(app, flags->output);
  return [flags] { return inspect(*flags); };
}

}  // namespace

const Verb inspect_verb = {"inspect", "Say what files hold: producer, rank, steps, step time, kernels, collectives",
                           "stepcast inspect traces/*.json.gz", add_inspect_flags};

}  // namespace stepcast::cli
