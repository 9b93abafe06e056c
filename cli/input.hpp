#pragma once
// Input: the flags that say what was traced (or which model stands in for a trace) and on which cluster to predict, and
// the values that they stand for.
#include "documents.hpp"
#include "input_options.hpp"

#include <stepcast/cluster/cluster_description.hpp>
#include <stepcast/profile/profile.hpp>
#include <stepcast/report/report.hpp>
#include <stepcast/whatif/whatif.hpp>

#include <CLI/CLI.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast::cli {

/// Flags of every verb that reads traces.
struct InputFlags {
  std::vector<std::string> files;  ///< traces (several: ranks of one run) or one profile
  std::string model, batch;
  std::string parameters;  ///< how many there are, where the trace has no shapes
  std::string step;        ///< how long it takes without the profiler
  std::string device;      ///< roofline of a described model, or of a trace's device
  std::string kernels;     ///< a file of rules for the names of kernels
  bool strict = false;
  bool recorded = false;  ///< plans exchange messages of the recorded step, whatever else describes the job
};
/// --recorded, of verbs that ask for plans one by one.
void add_recorded_flag(CLI::App&, InputFlags&);
/// --strict and --kernels.
void add_reading_flags(CLI::App&, InputFlags&);
void add_input_flags(CLI::App&, InputFlags&);

/// Flags of every verb that predicts.
struct ClusterFlags : ClusterDescription {
  std::string faster_compute;
  bool same_device = false;
  PipelineFlags pipeline;
  std::string overlay;                             ///< a file: who exchanges models with whom, over which links
  std::string what;                                ///< changes of the step before anything is predicted
  std::string iterations;                          ///< of a whole run
  std::string beside, beside_model, beside_batch;  ///< a second job on the same network
};
void add_cluster_flags(CLI::App&, ClusterFlags&);
/// --what, of verbs that predict the step after one scenario.
void add_change_flag(CLI::App&, ClusterFlags&);
/// --iterations, of verbs that tell how long a run takes.
void add_iterations_flag(CLI::App&, ClusterFlags&);
/// What --iterations says; 0 without it. Throws InputError.
[[nodiscard]] double iterations_of(const ClusterFlags&);
/// What --what says; empty without it. Throws InputError.
[[nodiscard]] Scenario changes_of(const ClusterFlags&);
/// --faster-compute and --same-device.
void add_device_flags(CLI::App&, ClusterFlags&);

/// What is assumed of a described model where nobody says a batch, and no plan shares one out.
inline constexpr std::string_view one_sample_a_worker = "one sample a worker; --batch says otherwise";

struct OutputFlags {
  std::string path;
  bool json = false;
};
void add_output_flags(CLI::App&, OutputFlags&);
/// The report that --json or its absence asks for.
[[nodiscard]] const Report& report_of(const OutputFlags&);
/// Throws InputError if a result and a timeline beside it would overwrite an input or one another.
void check_outputs(const OutputFlags&, const std::string& timeline, const std::vector<std::string>& inputs);

struct Input {
  Profile profile;
  SelfCheck check;                           ///< a replay of every trace; for a profile the reason why there is none
  std::int64_t machine_devices = -1;         ///< of the machine that was traced; -1: nobody knows
  std::optional<ReplayTimeline> recorded{};  ///< the step as it was traced, where it was asked for and can be rebuilt
  std::string refusal{};  ///< why there is no profile but for its name, only the recorded job; empty: there is one
};
struct InputOptions {
  bool draws_step = false;        ///< the traced step of the first rank is to be shown
  bool recorded_will_do = false;  ///< where the traces give no profile the recorded job is answer enough
};
/// What the flags say about how a profile is taken of traces. Throws InputError.
[[nodiscard]] ProfileOptions profile_options_of(const InputFlags&);
/// Reads, and takes the profile of traces or of a description (on the device of the cluster, unless --device names
/// one). Throws InputError.
[[nodiscard]] Profile profile_of(const InputFlags&, const Cluster& = {});
/// The same, with replays for the verbs that tell how far they can be trusted.
[[nodiscard]] Input input_of(const InputFlags&, const Cluster& = {}, const InputOptions& = {});

/// All files that a command reads: traces, the cluster, the pipeline, the device.
[[nodiscard]] std::vector<std::string> files_of(const InputFlags&, const ClusterFlags&);
[[nodiscard]] Cluster cluster_of(const ClusterFlags&);
/// The flags where an axis stands for --workers, whose largest value is `most`: machines are as large as --per-node
/// says, and there are several if some point has them. Throws InputError if both are given.
[[nodiscard]] ClusterFlags flags_over_workers(ClusterFlags, std::int64_t most);
/// The profile as it would be on the cluster's device. Throws InputError when the devices differ and no flag says what
/// to assume.
[[nodiscard]] Profile profile_on(const Cluster&, Profile, const ClusterFlags&);

/// One line on stderr.
void note(std::string_view text);

}  // namespace stepcast::cli
