// stepcast profile: from traces, or from a described model, to the profile of a step; says what was recognised, missing
// and assumed.
#include "command.hpp"
#include "described.hpp"
#include "files.hpp"
#include "input.hpp"

#include <memory>

namespace stepcast::cli {
namespace {

struct ProfileFlags {
  InputFlags input;
  ClusterFlags device;
  OutputFlags output;
};

ExitCode profile(const ProfileFlags& flags) {
  refuse_overwriting(flags.output.path, files_of(flags.input, flags.device));
  if (!flags.input.device.empty() && !is_described(flags.input))
    throw InputError("--device", "a described model that runs on it", "a trace, which was made on its own device");
  const Profile profile = profile_on(Cluster{}, profile_of(flags.input), flags.device);
  const bool to_file = !flags.output.path.empty() && flags.output.path != "-";
  const bool as_json = flags.output.json || !flags.output.path.empty();
  if (as_json) write_output(flags.output.path, [&](std::ostream& out) { report_named("json")->profile(out, profile); });
  if (!as_json || (to_file && !flags.output.json))
    write_output("-", [&](std::ostream& out) { report_named("text")->profile(out, profile); });
  return answered;
}

Action add_profile_flags(CLI::App& app) {
  auto flags = std::make_shared<ProfileFlags>();
  add_input_flags(app, flags->input);
  app.add_option("--faster-compute", flags->device.faster_compute,
                 "Divide traced compute times by this factor, for another device");
  app.add_option("-o,--output", flags->output.path, "Write the profile here; - is standard output");
  app.add_flag("--json", flags->output.json, "Write the profile and no summary");
  return [flags] { return profile(*flags); };
}

}  // namespace

const Verb profile_verb = {"profile", "Turn traces into the profile of a training step, layer by layer",
                           "stepcast profile trace.json.gz -o profile.json", add_profile_flags};

}  // namespace stepcast::cli
