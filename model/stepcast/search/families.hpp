#pragma once
// Layout families: a space of layouts as the search walks through it.
//
// A family fixes what decides compute, tensor collectives and the pipeline: scheme, degrees, schedule, chunks,
// micro-batch and sequence parallelism. Its members differ in the switches: recomputation, ZeRO stage, what overlaps,
// and how gradients travel. Chunks need not divide the
// blocks evenly, since embedding and head are units like blocks; unless they are asked for, the longest is at most a
// quarter above the mean. A switch that changes nothing (sequence parallelism without tensor parallelism,
// overlap of sends without a pipeline, ZeRO and overlap of gradients without replicas) is tried at its first value
// only. The order of the space is that of the families, then of their switches. Invariant: degrees multiply to the
// number of devices, the batch divides into whole micro-batches, the schedule works for the shape. Not modelled:
// whether a unit can be divided so; that is the workload's business.
#include <stepcast/search/layout_search.hpp>

#include <array>
#include <cstdint>
#include <vector>

namespace stepcast {

struct LayoutFamily {
  std::uint64_t first = 0;  ///< place of its first member in the order of the space
  std::int64_t tensor = 1, depth = 1, context = 1, data = 1, pipeline = 1, expert = 1;
  bool whole_experts = false;
  std::int64_t chunks = 1, micro_batch = 1, micro_batches = 1;
  const TensorScheme* scheme = nullptr;
  const PipelineSchedule* schedule = nullptr;
  bool sequence_parallel = false;
  ContextExchange context_exchange = ContextExchange::ring;
  ExpertExchange expert_exchange = ExpertExchange::all_to_all;
  bool overlap_expert = false;
  std::uint8_t offloaded = 0;      ///< LayoutSpace::offloaded
  std::int64_t machine_shard = 0;  ///< data-parallel ranks that share a machine, where there are others; 0: none
  bool hides_sums = false, hides_products = false;  ///< what of TensorOverlap its layouts can have
  bool gathers_ahead = true;                        ///< Layout::overlap_gather of those with zero=1 and 2
  bool stages_by_time = false;                      ///< Layout's, where the program can be told and blocks divide
};

/// What of ZeRO stays within machines: nothing, all of it (shard=machine), what backward passes gather (hpz=machine).
enum class InMachine : std::uint8_t { nothing, all, backward };

struct LayoutSwitches {
  Recomputation recomputation = Recomputation::none;
  bool some_blocks = false;  ///< of full recomputation: the fewest blocks of each stage that fit
  int zero = 0;
  bool overlap_gradients = true, overlap_pipeline = true;
  TensorOverlap overlap_tensor = TensorOverlap::nothing;
  std::uint32_t gradients = 0;                ///< index into the space's strategies
  std::uint8_t modules = 0;                   ///< of recomputation by modules: which (Layout::recomputed_modules)
  InMachine in_machine = InMachine::nothing;  ///< over the family's `machine_shard`
};

class LayoutFamilies {
 public:
  /// On all devices of `cluster`. `global_batch` counts samples.
  LayoutFamilies(const LayoutSpace&, const Workload&, const Cluster&, double global_batch);

  [[nodiscard]] const std::vector<LayoutFamily>& families() const { return families_; }
  [[nodiscard]] const std::vector<LayoutSwitches>& switches(const LayoutFamily&) const;
  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] const std::vector<PlanSpec>& gradients() const { return gradients_; }

 private:
  void add_overlaps(const LayoutSpace&, const Workload&, const Cluster&);
  std::vector<LayoutFamily> families_;
  std::array<std::vector<LayoutSwitches>, 64> switches_;
  std::vector<PlanSpec> gradients_;
  std::uint64_t size_ = 0;
  std::int64_t blocks_ = 1;
};

/// `blocks`: of full recomputation of some blocks how many of a stage; 0: all.
[[nodiscard]] Layout layout_of(const LayoutFamily&, const LayoutSwitches&, std::uint32_t blocks = 0);
/// The same but for what overlaps, for the number of parts of an interleaved stage and for how many blocks are done
/// again, where some are: whoever looks at a few layouts wants to see one of these. Plans for gradients
/// are not looked at.
[[nodiscard]] bool of_one_kind(Layout, const Layout&);
/// Samples of a step: as asked for, else the traced batch on every device (1 where nothing was traced).
[[nodiscard]] double global_batch_of(const Workload&, const Cluster&, const LayoutOptions&);

}  // namespace stepcast
