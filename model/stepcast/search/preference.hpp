#pragma once
// Layout preference: which of layouts that nobody can tell apart by their step is the one to run.
//
// A prediction resolves a few per cent of a step (`resolution_of`): layouts within that share of the fastest are
// equals; the fastest is the fastest that some framework runs, if one runs any. Of equals the simplest comes first: no
// context parallelism below 16k tokens, where nobody uses it; no sharded parameters (ZeRO-3) of a model whose weights
// and gradients fill less than a quarter of a device; few dimensions, each of which is a group of ranks to set up and
// to debug and weighs as ten switches; no memory that is tight, which weighs as eight; few switches: recomputation is
// one, another wrapper of the model (Megatron-FSDP) one more, a number of stages by which neither blocks nor blocks
// with the model's ends divide is one, what programs have to be told of stages by which blocks do divide is one, and so
// are ZeRO-1 and 2 of a large model by PyTorch's fully_shard, which does ZeRO-3 unless told; small groups and few parts
// of a stage; then the one that leaves most memory free, as long as less than two fifths of the device are, and the
// shorter step. Invariant: the burden of a layout depends on the layout and rises with its memory alone, and a family's
// is never above its members'. Not modelled: what a team already runs.
#include <stepcast/search/families.hpp>

#include <string>
#include <string_view>

namespace stepcast {

/// The share of a step within which layouts of one workload are equals: 2 to 3 %, by what is known of its compute.
[[nodiscard]] double resolution_of(const Workload&);
/// That of `fastest` and others: a layout with context parallelism below 16k tokens has to win by 3 %, however well the
/// compute is known, since what the ring costs was not measured on its device.
[[nodiscard]] double resolution_of(const Workload&, const Layout& fastest);

class LayoutPreference {
 public:
  /// `framework`: as in LayoutSpace. The workload has to outlive this.
  LayoutPreference(const Workload&, const Cluster&, std::string_view framework);
  /// 0: data parallelism by DDP; each point is something more to set up. Of a resolved plan.
  [[nodiscard]] double burden(const LayoutPlan&, std::int64_t micro_batches) const;
  /// Beside it, of a memory in which nobody can say whether a job runs (`tight_memory_share`).
  [[nodiscard]] double burden_of(Bytes memory) const;
  /// What every member of a family has at least.
  [[nodiscard]] double least_burden(const LayoutFamily&) const;
  /// What decides between layouts of one burden, less is better: the memory beyond three fifths of a device, a byte for
  /// each `target_step`.
  [[nodiscard]] double after_burden(Seconds iteration, Bytes memory, Seconds target_step) const;
  /// Why no program runs it, of the framework that was asked for, else of any; empty: one does.
  [[nodiscard]] std::string why_not(const LayoutPlan&, std::int64_t micro_batches) const;

 private:
  [[nodiscard]] double of_dimensions(const Layout&) const;
  [[nodiscard]] bool divides_evenly(std::int64_t stages) const;
  const Workload& workload_;
  std::string_view framework_;
  std::vector<const PipelineSchedule*> delaying_;  ///< schedules whose weight gradients are passes of their own
  bool small_ = false;
  bool shards_by_default_ = false;  ///< ZeRO-3 is PyTorch's fully_shard as it is, stages 1 and 2 are arguments of it
  bool wraps_anew_ = false;         ///< whether ZeRO-2 and 3 are another wrapper of the model (Megatron-FSDP)
  Bytes enough_, tight_;
};

}  // namespace stepcast
