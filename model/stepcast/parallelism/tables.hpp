#pragma once
// Layout tables: what a LayoutEvaluator has found so far, by the numbers that it depends on.
//
// A layout is evaluated in four steps, each of which depends on fewer of its fields than the layout has, so that a
// search pays for each combination once: collectives and units by degrees, order and micro-batch (priced_split.hpp);
// stages by split, recomputation and sharding (stages.hpp); the pipeline by stages, schedule and micro-batches;
// exposed gradients by split, units of a device, plan and ZeRO stage. Keys are numbers, hits allocate nothing. Tables
// that grow too large start anew. Internal to the layout prediction.
#include <stepcast/parallelism/gradients.hpp>
#include <stepcast/parallelism/layout_prediction.hpp>
#include <stepcast/parallelism/stages.hpp>

#include <boost/functional/hash.hpp>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

namespace stepcast {

using TableKey = std::array<std::uint64_t, 8>;
/// Values by key, at stable addresses, each with a number of its own.
template <class T>
class NumberedTable {
 public:
  struct Entry {
    std::uint64_t number = 0;
    T value;
  };
  /// The entry of `key`, made by `make()` when it is asked for first.
  template <class Make>
  Entry& operator()(const TableKey& key, const Make& make) {
    const auto found = entries_.find(key);
    if (found != entries_.end()) return *found->second;
    return *entries_.emplace(key, std::make_unique<Entry>(Entry{++made_, make()})).first->second;
  }
  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  void clear() { entries_.clear(); }

 private:
  std::unordered_map<TableKey, std::unique_ptr<Entry>, boost::hash<TableKey>> entries_;
  std::uint64_t made_ = 0;
};

/// One device of a pipeline: what it holds and does, whatever the times.
struct PipelineDevice {
  std::vector<std::uint32_t> virtual_stages;  ///< the stages that the device holds, in forward order
  std::uint64_t content = 0;                  ///< number of its StageContent
  std::vector<Recomputation> again{};         ///< what each unit of it does again; empty: what the layout says of all
  std::uint64_t again_number = 0;             ///< of `again`; 0: empty
  PassParts parts;                            ///< the parts of one micro-batch through each of its virtual stages
  double parameters = 0;                      ///< elements, tied ones included where it holds a copy
  double tied_parameters = 0;                 ///< whose gradients it sums with the other end of the pipeline
  /// Of units that choose: shares of the parameters whose gradients are whole, and of those among them that several
  /// ranks sum.
  double whole_share = 0, summed_share = 0;
  DealtTensors dealt{};     ///< of Layout::whole_tensors, else none
  double update_share = 0;  ///< its share of the workload's parameters; of units that choose, after dividing them
  StageMemoryInput memory;
  std::vector<DividedMemory> divided;  ///< of units that choose for themselves: `memory` by choice
};
struct PipelineOutcome {
  std::string unsuitable;
  PipelineShape shape;
  std::vector<PipelineDevice> devices;
  std::vector<Seconds> last_backward, saved;  ///< PipelineTimes'
};

/// Who chose the samples of a micro-batch.
enum class MicroBatchBy : std::uint8_t {
  layout,   ///< it says so, or there is no choice
  trace,    ///< as many as were traced
  time,     ///< of those that divide a replica's samples and fit into the memory, the fastest
  nearness  ///< of those that divide, the one nearest to what was traced, because the memory is not known
};

/// A layout on its way to a prediction. Pointers are valid until the next evaluation.
struct EvaluatedLayout {
  Layout layout;
  std::int64_t micro_batches = 1;
  MicroBatchBy micro_batch_by = MicroBatchBy::layout;
  const PricedSplit* split = nullptr;
  const StagedSplit* staged = nullptr;
  const PipelineOutcome* pipeline = nullptr;
  std::uint32_t last_device = 0;  ///< the one that ends last
  Seconds iteration;
  Seconds input;     ///< the part of `iteration` that waits for samples
  MemoryUse memory;  ///< the memory of the fullest device
  Bytes host;        ///< of the host whose devices leave most with it
  std::uint32_t fullest_device = 0;
};

struct LayoutTables {
  LayoutTables(const Workload&, const Cluster&, const LayoutOptions&);

  Workload workload;
  Cluster cluster;
  LayoutOptions options;
  double global_batch = 0, parameters = 0;
  Seconds delay;  ///< how late the slowest worker starts

  [[nodiscard]] Answer<Layout> resolved(const Layout&) const;
  /// Inapplicable with the reason; memory is computed and not judged.
  [[nodiscard]] Answer<EvaluatedLayout> evaluated(const LayoutPlan&);
  /// Collectives after the last backward pass of a device: exposed gradients, tied ones, those of copies; and what the
  /// first forward pass of a step gathers longer than the others.
  [[nodiscard]] Answer<Seconds> gradients(const EvaluatedLayout&, const PlanSpec&, const PipelineDevice&);
  /// Both behind the passes, without what runs while the device would wait for a host that sets the pace and is a step
  /// ahead.
  struct AfterPasses {
    Seconds gradients, update;
  };
  [[nodiscard]] Answer<AfterPasses> after_passes(const EvaluatedLayout&, const PlanSpec&, const PipelineDevice&);
  /// Of these what copies into buckets and out of them take.
  [[nodiscard]] Seconds bucket_copies(const EvaluatedLayout&, const PlanSpec&, const PipelineDevice&);
  /// Passes, gradients and update with what a step takes besides: overhead, a late start, and waiting for input.
  struct WholeStep {
    Seconds iteration, input;
  };
  [[nodiscard]] WholeStep whole_step(Seconds work, const Layout& resolved) const;
  /// The optimizer, and what is done with whole gradients behind the passes of a step (Workload::gradient_passes).
  [[nodiscard]] Seconds update(const Layout&, const PipelineDevice&) const;
  /// Of so many parameters of each device, by the host that their optimizer was left to: its processors do it for all
  /// its devices, which are taken to have as many, while gradients come and weights return; parameters that are with
  /// the host need no copies of their own.
  [[nodiscard]] Seconds host_update(const Layout&, double elements) const;
  [[nodiscard]] MemoryUse memory(const Layout&, const PipelineDevice&) const;
  /// 0: no cap.
  [[nodiscard]] Bytes memory_cap() const;
  [[nodiscard]] const PricedSplit& split_of(const Layout& resolved) { return split_entry(resolved).value; }
  [[nodiscard]] bool memory_is_known() const { return memory_cap() > Bytes(0) && workload.activations_known; }
  PipelineEvaluator* evaluator(const PipelineSchedule&, const PipelineShape&, std::string& why);

 private:
  [[nodiscard]] Seconds optimizer_step(const Layout&, const PipelineDevice&) const;
  /// What the devices of a pipeline leave with the host, summed over the ranks of the host that has most of it.
  [[nodiscard]] Bytes fullest_host(const Layout&, std::span<const Bytes> of_device) const;
  /// Why nothing can be left with the host, of a layout that leaves something; empty: it can.
  [[nodiscard]] std::string offload_flaw(const Layout&) const;
  /// Of a layout that names its micro-batch.
  [[nodiscard]] Answer<EvaluatedLayout> evaluated_as_said(const LayoutPlan&);
  [[nodiscard]] bool fits(const Answer<EvaluatedLayout>&) const;
  struct MicroBatch {
    std::int64_t samples = 0;
    MicroBatchBy by = MicroBatchBy::layout;
  };
  [[nodiscard]] MicroBatch micro_batch_of(LayoutPlan, const std::vector<std::int64_t>& choices);
  [[nodiscard]] std::int64_t fastest(LayoutPlan, const std::vector<std::int64_t>& choices);
  const NumberedTable<PricedSplit>::Entry& split_entry(const Layout&);
  const NumberedTable<PipelineOutcome>::Entry* pipeline_entry(EvaluatedLayout&, const PlanSpec&);
  PipelineOutcome outcome_of(const EvaluatedLayout&);
  void describe_devices(const EvaluatedLayout&, PipelineOutcome&);
  void divide(const EvaluatedLayout&, PipelineDevice&) const;
  std::uint64_t choices_number(const Layout&);
  std::uint64_t content_of(std::span<const std::uint32_t> units, const std::vector<VirtualStage>&,
                           const std::vector<std::uint32_t>&);
  std::uint64_t plan_number(const PlanSpec&);
  void forget_if_full();

  struct ExposedGradients {
    Seconds time;
    std::string unsuitable;
  };
  PricedGroups groups_{cluster};
  CostedUnits units_{workload};
  NumberedTable<PricedSplit> splits_;
  NumberedTable<StagedSplit> staged_;
  NumberedTable<PipelineOutcome> pipelines_;
  NumberedTable<ExposedGradients> gradients_;
  NumberedTable<Answer<PipelineEvaluator>> evaluators_;
  std::size_t evaluated_passes_ = 0;  ///< held by evaluators_
  std::size_t held_stages_ = 0;       ///< how much staged_ and pipelines_ hold
  std::map<StageContent, std::uint64_t> contents_;
  std::vector<const StageContent*> content_list_;
  StageContent scratch_content_;
  std::uint64_t last_content_ = 0;
  std::map<std::vector<std::uint32_t>, std::uint64_t> divisions_;
  std::map<std::vector<std::int64_t>, std::uint64_t> choices_;
  std::map<std::vector<Recomputation>, std::uint64_t> again_;
  std::vector<PlanSpec> plans_;
  std::size_t last_plan_ = 0;
  HotLoop loop_;
};

struct LayoutEvaluator::State : LayoutTables {
  using LayoutTables::LayoutTables;
};

}  // namespace stepcast
