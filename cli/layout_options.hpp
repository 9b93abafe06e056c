#pragma once
// Layout options: the flags that say which layouts are asked about, in which space they are searched, and for what.
#include <stepcast/run/whole_run.hpp>
#include <stepcast/search/batches.hpp>
#include <stepcast/search/layout_search.hpp>

#include <CLI/CLI.hpp>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast::cli {

struct LayoutFlags {
  std::string global_batch;
  bool layouts = false, frontier = false, unit_frontier = false;
  std::string objective, target_step, price, memory, time_budget, framework;
  std::string tokens, within, mtbf, checkpoint, restart, power;  ///< of a whole run
  std::string tensor, pipeline, context, cp_comm, ep_comm, overlap_expert, expert, expert_tensor, micro_batch, chunks,
      schedule, scheme, offload, recompute, zero, sequence_parallel, overlap_tensor;
  std::vector<std::string> measured;  ///< steps of a described model: "layout(tp=8)/ddp=12.3 s", or a table's file
  std::string over;                   ///< --unit-frontier: numbers of devices, "workers=4,8,16"
  std::string devices, adatopk;       ///< a pipeline over unequal devices instead
};
/// --global-batch, for every verb that predicts layouts.
void add_global_batch_flag(CLI::App&, LayoutFlags&);
/// --framework, for verbs that predict plans by name.
void add_framework_flag(CLI::App&, LayoutFlags&);
/// Throws InputError: what was `found` is no layout, which alone a framework changes.
[[noreturn]] void refuse_framework(const std::string& found);
/// --measured, for verbs that predict described models one by one or rank them.
void add_measured_flag(CLI::App&, LayoutFlags&);
/// What --global-batch says, which must have been given. Throws InputError.
[[nodiscard]] double global_batch_of(const LayoutFlags&);
/// Two batches with ".." between them, of which a search takes the best; nothing for one batch. Throws InputError.
[[nodiscard]] std::optional<BatchRange> batch_range_of(const LayoutFlags&);
/// What a run of so many tokens takes, for verbs that predict layouts: --tokens and what it depends on but the price.
void add_whole_run_flags(CLI::App&, LayoutFlags&);
/// Those of a search over layouts.
void add_layout_search_flags(CLI::App&, LayoutFlags&);

/// --devices and --adatopk.
void add_placement_flags(CLI::App&, LayoutFlags&);

/// Any of the flags of a search was given; --memory alone is none, it also says what has to fit.
[[nodiscard]] bool asks_for_layouts(const LayoutFlags&);
/// Flags of the search that mean nothing beside `flag` are refused, not ignored; `but`: those that do.
void refuse_search_flags(const LayoutFlags&, const char* flag, std::initializer_list<std::string_view> but = {});
/// The whole run that --tokens asks about; nothing without it. Throws InputError.
[[nodiscard]] std::optional<RunRequest> run_request_of(const LayoutFlags&);
/// The space that the flags leave. Throws InputError.
[[nodiscard]] LayoutSpace space_of(const LayoutFlags&);
/// Of --over, by rising number; empty without it. Throws InputError.
[[nodiscard]] std::vector<std::int64_t> device_counts_of(const LayoutFlags&);
/// Objective and longest step of a frontier of units. Throws InputError.
[[nodiscard]] LayoutSearchOptions unit_options_of(const LayoutFlags&);
/// What --memory leaves of a device that has `card` (0: not known). Throws InputError.
[[nodiscard]] Bytes memory_cap_of(const LayoutFlags&, Bytes card);
/// Objective and limits; the batch and the memory are the caller's business. Throws InputError.
[[nodiscard]] LayoutSearchOptions search_options_of(const LayoutFlags&);

}  // namespace stepcast::cli
