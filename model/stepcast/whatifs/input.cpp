// Input: another cache, other storage, more or faster loader workers; or the whole pipeline, where nothing is said of
// it. What that does to the batch period, and how much of it the step hides, is the business of the input pipeline that
// feeds the steps (input_pipeline.hpp).
//
//   input(policy=never-evict)                                   MinIO of CoorDL in place of the page cache
//   input(policy=partitioned)                                   CoorDL's partitioned cache, over the cluster's network
//   input(jobs=8, coordinated=yes)                              CoorDL's coordinated prep for jobs of one machine
//   input(dataset=146GB, samples=1281167, storage=530MB/s, prep=199, workers=24)    a pipeline, written down
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
    {.name = "policy",
     .kind = OptionKind::choice,
     .high = 3,
     .summary = "how memory holds it: lru (page cache), never-evict (MinIO), partitioned over the machines (CoorDL)",
     .choices = {"as-is", "lru", "never-evict", "partitioned"}},
    {.name = "workers", .standard = -1, .low = -1, .high = 1e6, .summary = "loader workers of a machine; -1: as it is"},
    {.name = "loader",
     .kind = OptionKind::choice,
     .high = 2,
     .summary = "how a worker works: fetches, then prepares (serial), or both at once",
     .choices = {"as-is", "serial", "pipelined"}},
    {.name = "storage", .kind = OptionKind::rate, .high = 1e15, .summary = "read by a machine; 0: as it is"},
    {.name = "memory", .kind = OptionKind::rate, .high = 1e15, .summary = "read from the cache; 0: as it is"},
    {.name = "network",
     .kind = OptionKind::rate,
     .high = 1e15,
     .summary = "between partitioned caches; 0: as it is, else that of the cluster"},
    {.name = "prep", .high = 1e15, .summary = "samples per second that one worker prepares; 0: as it is"},
    {.name = "jobs",
     .kind = OptionKind::count,
     .high = 1e6,
     .summary = "training jobs that share a machine and read the same data set; 0: as it is"},
    {.name = "coordinated",
     .kind = OptionKind::choice,
     .high = 2,
     .summary = "the jobs fetch and prepare each sample once for all (coordinated prep of CoorDL)",
     .choices = {"as-is", "no", "yes"}},
    {.name = "dataset", .kind = OptionKind::size, .high = 1e21, .summary = "size of the data set; 0: as it is"},
    {.name = "samples", .high = 1e15, .summary = "of an epoch; 0: as it is"}};
consteval std::size_t named(std::string_view name) { return option(options, name); }

void change_rates(InputPipeline& p, const OptionValues& v) {
  if (const double storage = v[named("storage")]; storage > 0) {
    // One worker alone gains as much as all together.
    if (p.storage.value() > 0) p.storage_per_worker *= storage / p.storage.value();
    p.storage = BytesPerSecond(storage);
  }
  if (v[named("memory")] > 0) p.memory = BytesPerSecond(v[named("memory")]);
  if (v[named("network")] > 0) p.network = BytesPerSecond(v[named("network")]);
  if (v[named("prep")] > 0) p.prep_samples_per_s = v[named("prep")];
}

/// Caches that are partitioned exchange samples over the network of the cluster, unless something else is said of it.
/// One machine has no others to ask.
std::string add_network(InputPipeline& p, const Cluster& cluster) {
  if (p.cache != CachePolicy::partitioned || p.network.value() > 0) return {};
  if (cluster.nodes == 1) p.network = p.storage;
  else p.network = cluster.network.bandwidth * static_cast<double>(cluster.nics_per_node);
  return p.network.value() > 0 ? std::string() : "nothing says how fast the caches reach one another: give network=";
}

Answer<InputPipeline> changed_pipeline(const WhatIfInput& in) {
  const OptionValues& v = in.options;
  const bool known = in.feed && in.feed->pipeline;
  const bool told = v[named("dataset")] > 0 && v[named("samples")] > 0 && v[named("storage")] > 0;
  if (!in.feed || !(known || told))
    return Inapplicable{
        "nothing says what feeds the steps: give --input FILE, or input(dataset=146GB, samples=1281167, "
        "storage=530MB/s, prep=199, workers=8)"};
  const double workers = v[named("workers")];
  if (workers >= 0 && workers != std::floor(workers)) return Inapplicable{"half a worker loads nothing"};
  InputPipeline p;
  p.name = "what-if", p.provenance = {"what-if"};
  if (known) p = *in.feed->pipeline;
  if (v[named("dataset")] > 0) p.data_set = Bytes(v[named("dataset")]);
  if (v[named("samples")] > 0) p.samples = v[named("samples")];
  if (v[named("cache")] >= 0) p.cached_share = v[named("cache")];
  if (workers >= 0) p.workers = static_cast<std::int64_t>(workers);
  change_rates(p, v);
  if (v[named("policy")] > 0) p.cache = static_cast<CachePolicy>(v[named("policy")] - 1);
  if (v[named("loader")] > 0) p.loader = static_cast<LoaderLaw>(v[named("loader")] - 1);
  if (v[named("jobs")] > 0) p.jobs = static_cast<std::int64_t>(v[named("jobs")]);
  if (v[named("coordinated")] > 0) p.coordinated = v[named("coordinated")] == 2;
  if (v[named("coordinated")] == 2 && p.jobs == 1)
    return Inapplicable{"coordinated prep is for several jobs of a machine: give jobs="};
  if (std::string why = add_network(p, in.feed->cluster); !why.empty()) return Inapplicable{std::move(why)};
  return checked(p, p.name);
}

Answer<Profile> with_other_input(const WhatIfInput& in) {
  if (!(in.profile.batch_samples > 0)) return Inapplicable{"the traced batch is unknown: give it with --batch"};
  const Answer<InputPipeline> pipeline = changed_pipeline(in);
  if (!pipeline) return Inapplicable{pipeline.reason()};
  return with_input_pipeline(in.profile, *pipeline, in.feed->cluster);
}

}  // namespace

extern constinit const WhatIf record{
    .name = "input",
    .title = "another input pipeline",
    .summary = "another cache, storage, number or speed of loader workers, coordination of jobs; or a whole pipeline",
    .reference = "Mohan, Phanishayee, Raniwala, Chidambaram 2021 (DS-Analyzer, CoorDL)",
    .options = options,
    .apply = with_other_input,
    .caution = "batches that take unequally long, and the start of an epoch, are not in it",
    .feed_after = changed_pipeline};

}  // namespace stepcast::whatif::input
