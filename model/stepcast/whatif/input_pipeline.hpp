#pragma once
// InputPipeline: how samples get from storage into a training step, and how often that delivers a batch.
//
// A sample is fetched (from storage, or from memory where it is cached) and prepared (decoded, augmented) by the loader
// workers of a server, which all of its devices share. Every server has the same pipeline and reads its share of an
// epoch, in a fresh random order each epoch. The step waits where the loader is slower than the rest of it: the step
// time is the larger of the two, or their sum where the training process loads by itself. Three rates tell why (Mohan
// et al., "Analyzing and Mitigating Data Stalls in DNN Training", PVLDB 14(5), 2021; DS-Analyzer): synthetic data, the
// data set in memory, the data set as it is cached.
//
// Invariants (checked by `checked`): sizes and rates that are used are positive, 0 <= cached_share <= 1. Not modelled:
// durations that vary from batch to batch (the depth of the prefetch queue matters only then, and in plans whose steps
// differ), the start of an epoch (workers that start, the first batch), loader workers that take cores from the step
// or from one another, jobs that drive each other's samples out of the cache, copies to the device (part of the step).
//
// Input pipelines as JSON are read and written in input_pipeline_json.cpp.
#include <stepcast/cluster/cluster.hpp>
#include <stepcast/profile/profile.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

/// What memory keeps of the data set.
enum class CachePolicy : std::uint8_t {
  lru,          ///< the page cache: what was read last; most of it is evicted before it is read again
  never_evict,  ///< the first samples stay (MinIO of CoorDL): every epoch hits the whole cache
  partitioned,  ///< never_evict, and servers read from one another's memory over the network (CoorDL)
};
[[nodiscard]] std::string_view name_of(CachePolicy);
/// Throws InputError naming `where`.
[[nodiscard]] CachePolicy cache_policy_of(std::string_view name, std::string_view where);

/// How a worker works.
enum class LoaderLaw : std::uint8_t {
  serial,     ///< fetches, then prepares: its times add up (the loader processes of the common frameworks)
  pipelined,  ///< fetches while it prepares: the slower of the two counts
};
[[nodiscard]] std::string_view name_of(LoaderLaw);
[[nodiscard]] LoaderLaw loader_law_of(std::string_view name, std::string_view where);

struct InputPipeline {
  std::string name;
  Bytes data_set;           ///< as stored
  double samples = 0;       ///< per epoch, all servers together
  double cached_share = 0;  ///< the share of the data set in the memory of one server
  CachePolicy cache = CachePolicy::lru;
  BytesPerSecond storage;             ///< the rate of one server for all its workers together
  BytesPerSecond storage_per_worker;  ///< one worker alone, which reads file by file; 0: as `storage`
  BytesPerSecond memory;              ///< cached data; 0: takes no time
  BytesPerSecond network;             ///< CachePolicy::partitioned: a server's card
  double prep_samples_per_s = 0;      ///< what one worker prepares; 0: takes no time
  std::int64_t workers = 1;           ///< loader workers of a server; 0: the training process loads by itself
  LoaderLaw loader = LoaderLaw::serial;
  std::int64_t jobs = 1;     ///< training jobs that share a server and read the same data set
  bool coordinated = false;  ///< the jobs fetch and prepare every sample once for all (CoorDL)
  std::vector<std::string> provenance;

  [[nodiscard]] Bytes sample_size() const { return data_set / samples; }
};

/// Returns `pipeline` if it satisfies the invariants above, else throws InputError.
[[nodiscard]] InputPipeline checked(InputPipeline pipeline, std::string_view source);
/// JSON with schema "stepcast.input/1"; quantities are unit strings ("530 MB/s"). Reads back to the same value.
[[nodiscard]] std::string json_of(const InputPipeline&);
/// Throws InputError (JSON pointer, suggestion for unknown keys).
[[nodiscard]] InputPipeline input_pipeline_of_json(std::string_view text, std::string_view source);

/// Share of reads that hit an LRU cache of `share` of the data set, in the steady state. One server reads everything
/// once per epoch in a fresh order: x + (1 - x) ln(1 - x), since a sample is still there if fewer than x others came
/// between. Of several servers each reads a random 1/servers of it per epoch: the same argument, over as many epochs as
/// pass until the sample comes back (tends to x for many servers).
[[nodiscard]] double lru_hit_share(double share, std::int64_t servers = 1);

/// Where the bytes that one server reads come from; the shares add up to 1.
struct FetchShares {
  double memory, network, storage;
};
[[nodiscard]] FetchShares fetch_shares(const InputPipeline&, std::int64_t servers = 1);
/// Time in which one server fetches its share of an epoch: x D / R_memory + (1 - x) D / R_storage (DS-Analyzer), with
/// the reads that really hit for x.
[[nodiscard]] Seconds fetch_time(const InputPipeline&, std::int64_t servers = 1);

/// What one server delivers to one job, in samples per second; infinite where nothing limits it.
struct InputRates {
  double fetch;  ///< the cache and the storage, whoever reads
  double prep;   ///< all workers, from memory
  double total;  ///< both, by the law of the loader
};
[[nodiscard]] InputRates input_rates(const InputPipeline&, std::int64_t servers = 1);

/// Time between two batches of `samples` (all devices of one server).
[[nodiscard]] Seconds batch_period(const InputPipeline&, double samples, std::int64_t servers = 1);
/// The step with its input: `step`, or the batch period if that is longer; their sum without loader workers.
[[nodiscard]] Seconds step_with_input(const InputPipeline&, Seconds step, double samples, std::int64_t servers = 1);

/// The smallest cached share with which the input is as fast as it can be or needs to be, for devices of one server
/// that take `demand` samples per second. For a pipelined loader and a cache that never evicts this is
/// (D/R_s - N/min(P, G)) / (D/R_s - D/R_c), where fetching is just as fast as the slower of preparing and training.
[[nodiscard]] double optimal_cached_share(const InputPipeline&, double demand, std::int64_t servers = 1);
/// The number of loader workers from which on more do not help devices that take `demand` samples per second.
[[nodiscard]] std::int64_t sufficient_workers(const InputPipeline&, double demand, std::int64_t servers = 1);

/// Differential profiling: the step with synthetic data, with everything cached, and as it is.
struct InputStalls {
  Seconds synthetic, cached, actual;
  [[nodiscard]] Seconds prep_stall() const { return cached - synthetic; }
  [[nodiscard]] Seconds fetch_stall() const { return actual - cached; }
};
[[nodiscard]] InputStalls input_stalls(const InputPipeline&, Seconds step, double samples, std::int64_t servers = 1);

/// The profile with this pipeline in place of the traced wait for input: every plan that is predicted from it waits for
/// the loader where that is slower; `assumed` says what a step that waits waits for, and how far a cache and workers
/// help. The measured steps stay those of the traced run. Throws InputError when the profile does not say how many
/// samples a step takes.
[[nodiscard]] Profile with_input_pipeline(Profile, const InputPipeline&, const Cluster&);

}  // namespace stepcast
