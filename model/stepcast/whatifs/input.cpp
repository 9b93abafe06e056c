// Input: another cache, other storage, more or faster loader workers. What that does to the batch period, and how much
// of it the step hides, is the business of the input pipeline that feeds the steps (input_pipeline.hpp).
#include <stepcast/whatif/common.hpp>
#include <stepcast/whatif/input_pipeline.hpp>

#include <cmath>

namespace stepcast::whatif::input {
namespace {

constexpr OptionSpec options[] = {
    {.name = "cache",
     .standard = -1,
     .low = -1,
     .high = 1,
     .summary = "share of the data set that a machine's memory holds; -1: as it is"},
    {.name = "workers", .standard = -1, .low = -1, .high = 1e6, .summary = "loader workers of a machine; -1: as it is"},
    {.name = "storage", .kind = OptionKind::rate, .high = 1e15, .summary = "read by a machine; 0: as it is"},
    {.name = "prep", .high = 1e15, .summary = "samples per second that one worker prepares; 0: as it is"}};
consteval std::size_t named(std::string_view name) { return option(options, name); }

Answer<Profile> with_other_input(const WhatIfInput& in) {
  if (in.feed == nullptr)
    return Inapplicable{
        "nothing says what feeds the steps: give --input FILE, or --dataset, --samples, --storage and "
        "--prep"};
  if (!(in.profile.batch_samples > 0)) return Inapplicable{"the traced batch is unknown: give it with --batch"};
  InputPipeline changed = in.feed->pipeline;
  const double cache = in.options[named("cache")], workers = in.options[named("workers")];
  const double storage = in.options[named("storage")], prep = in.options[named("prep")];
  if (cache >= 0) changed.cached_share = cache;
  if (workers >= 0 && workers != std::floor(workers)) return Inapplicable{"half a worker loads nothing"};
  if (workers >= 0) changed.workers = static_cast<std::int64_t>(workers);
  if (storage > 0) {
    // One worker alone gains as much as all together.
    const double faster = storage / changed.storage.value();
    changed.storage *= faster;
    changed.storage_per_worker *= faster;
  }
  if (prep > 0) changed.prep_samples_per_s = prep;
  return with_input_pipeline(in.profile, checked(std::move(changed), in.feed->pipeline.name), in.feed->cluster);
}

}  // namespace

extern constinit const WhatIf record{
    .name = "input",
    .title = "another input pipeline",
    .summary = "another cache, storage, number or speed of loader workers, in the pipeline that feeds the steps",
    .reference = "Mohan, Phanishayee, Raniwala, Chidambaram 2021 (DS-Analyzer, CoorDL)",
    .options = options,
    .apply = with_other_input,
    .caution = "batches that take unequally long, and the start of an epoch, are not in it"};

}  // namespace stepcast::whatif::input
