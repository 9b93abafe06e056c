// The flags of layout searches and placements, and the space that they ask for.
#include "layout_options.hpp"

#include "input.hpp"

#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/launch/launch_settings.hpp>
#include <stepcast/layout/tensor_scheme.hpp>
#include <stepcast/pipeline/pipeline.hpp>
#include <stepcast/sweep/axis.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace stepcast::cli {
namespace {

constexpr std::int64_t most_devices = 1'000'000;

/// The words between commas; never empty if `text` is not.
std::vector<std::string> parts_of(const std::string& text, const char* flag) {
  std::vector<std::string> parts(1);
  for (const char c : text)
    if (c == ',') parts.emplace_back();
    else if (c != ' ') parts.back() += c;
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (parts[i].empty() || std::find(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(i), parts[i]) !=
                                parts.begin() + static_cast<std::ptrdiff_t>(i))
      throw InputError(flag, "values with commas between them, each once", in_quotes(text));
  return parts;
}

std::vector<std::int64_t> numbers_of(const std::string& text, const char* flag, std::int64_t low, std::int64_t high) {
  std::vector<std::int64_t> numbers;
  if (text.empty()) return numbers;
  for (const std::string& part : parts_of(text, flag)) numbers.push_back(integer_of(part, flag, low, high));
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

/// Positions in `names` of the words of a list.
std::vector<std::size_t> choices_of(const std::string& text, const char* flag, const std::vector<std::string>& names) {
  std::vector<std::size_t> chosen;
  if (text.empty()) return chosen;
  for (const std::string& part : parts_of(text, flag)) {
    const auto found = std::find(names.begin(), names.end(), part);
    if (found == names.end())
      throw InputError(flag, "some of " + listed(names), in_quotes(part), did_you_mean(part, names));
    chosen.push_back(static_cast<std::size_t>(found - names.begin()));
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

template <class Record>
std::vector<const Record*> members_of(const std::string& text, const char* flag, std::span<const Record> family) {
  std::vector<std::string> names;
  for (const Record& record : family) names.emplace_back(record.name);
  std::vector<const Record*> members;
  for (const std::size_t i : choices_of(text, flag, names)) members.push_back(&family[i]);
  return members;
}

/// What restricts or directs a search.
struct SearchFlag {
  const char* name;
  std::string LayoutFlags::*value;
};
constexpr SearchFlag search_flags[] = {{"--objective", &LayoutFlags::objective},
                                       {"--target-step", &LayoutFlags::target_step},
                                       {"--price", &LayoutFlags::price},
                                       {"--tokens", &LayoutFlags::tokens},
                                       {"--within", &LayoutFlags::within},
                                       {"--mtbf", &LayoutFlags::mtbf},
                                       {"--checkpoint", &LayoutFlags::checkpoint},
                                       {"--restart", &LayoutFlags::restart},
                                       {"--power", &LayoutFlags::power},
                                       {"--time-budget", &LayoutFlags::time_budget},
                                       {"--framework", &LayoutFlags::framework},
                                       {"--tensor", &LayoutFlags::tensor},
                                       {"--pipeline", &LayoutFlags::pipeline},
                                       {"--context", &LayoutFlags::context},
                                       {"--cp-comm", &LayoutFlags::cp_comm},
                                       {"--expert", &LayoutFlags::expert},
                                       {"--ep-comm", &LayoutFlags::ep_comm},
                                       {"--overlap-ep", &LayoutFlags::overlap_expert},
                                       {"--expert-tensor", &LayoutFlags::expert_tensor},
                                       {"--micro-batch", &LayoutFlags::micro_batch},
                                       {"--chunks", &LayoutFlags::chunks},
                                       {"--schedule", &LayoutFlags::schedule},
                                       {"--scheme", &LayoutFlags::scheme},
                                       {"--recompute", &LayoutFlags::recompute},
                                       {"--zero", &LayoutFlags::zero},
                                       {"--offload", &LayoutFlags::offload},
                                       {"--sequence-parallel", &LayoutFlags::sequence_parallel},
                                       {"--overlap-tp", &LayoutFlags::overlap_tensor}};

}  // namespace

double global_batch_of(const LayoutFlags& flags) {
  return static_cast<double>(integer_of(flags.global_batch, "--global-batch", 1, 1'000'000'000));
}

std::optional<BatchRange> batch_range_of(const LayoutFlags& flags) {
  const std::size_t dots = flags.global_batch.find("..");
  if (dots == std::string::npos) return std::nullopt;
  constexpr std::int64_t widest = 1'000'000;
  const std::int64_t least = integer_of(flags.global_batch.substr(0, dots), "--global-batch", 1, 1'000'000'000);
  const std::int64_t most = integer_of(flags.global_batch.substr(dots + 2), "--global-batch", 1, 1'000'000'000);
  if (most < least || most - least > widest)
    throw InputError("--global-batch", "a rising range of at most a million batches, such as 1800..2300",
                     in_quotes(flags.global_batch));
  return BatchRange{least, most};
}

void add_global_batch_flag(CLI::App& app, LayoutFlags& flags) {
  app.add_option(
      "--global-batch", flags.global_batch,
      "Samples a step on all devices, of layouts (default: --batch on each worker, else what is usual for a described "
      "model of its size); recommend takes 1800..2300");
}

void add_framework_flag(CLI::App& app, LayoutFlags& flags) {
  app.add_option("--framework", flags.framework,
                 "Of a layout, run by this one: its kernels (of a described model), memory and settings: pytorch, "
                 "torchtitan, megatron, deepspeed or horovod (compare without --plan: ddp, zero1, zero2, fsdp, hsdp)");
}

void refuse_framework(const std::string& found) {
  throw InputError("--framework", "a plan with a layout, which frameworks run", found,
                   "name one, with --plan: fsdp, or 'layout(zero=3)/ddp'");
}

void add_measured_flag(CLI::App& app, LayoutFlags& flags) {
  app.add_option("--measured", flags.measured,
                 "A step of the described model that was measured on these devices, which corrects the prediction: "
                 "'layout(tp=8)/ddp=12.3 s', or a CSV file with columns layout and step; again: one more")
      ->take_all();
}

constexpr const char* a_whole_run = "A whole run";

void add_whole_run_flags(CLI::App& app, LayoutFlags& flags) {
  const auto add = [&](const char* name, std::string& value, const char* help) {
    app.add_option(name, value, help)->group(a_whole_run);
  };
  add("--tokens", flags.tokens, "What a run of so many tokens takes: days, device-hours, money: 1.5T");
  add("--mtbf", flags.mtbf,
      "How long one device runs until it fails: \"50000 h\" (default: as H100 did in Llama 3's training)");
  add("--checkpoint", flags.checkpoint, "For how long writing a checkpoint holds up the steps (default 60 s)");
  add("--restart", flags.restart, "How long it takes after a failure until steps go on (default 10 min)");
  add("--power", flags.power, "Watts that a device and its share of the machine draw: 1200");
}

void add_layout_search_flags(CLI::App& app, LayoutFlags& flags) {
  const std::string group = "Search over layouts";
  const auto add = [&](const char* name, std::string& value, const char* help) {
    app.add_option(name, value, help)->group(group);
  };
  app.add_flag("--layouts", flags.layouts, "Search layouts (a described model always does; so does any flag below)")
      ->group(group);
  add("--objective", flags.objective, "What the best layout has least of (default step)");
  add("--target-step", flags.target_step, "Longest step that will do: \"20 s\"");
  add("--price", flags.price, "Price of a device-hour, for --objective cost and --tokens: 2.5");
  add_whole_run_flags(app, flags);
  app.add_option("--within", flags.within, "The fewest devices with which it takes no longer: \"30 days\"")
      ->group(a_whole_run);
  add("--memory", flags.memory,
      "Memory of a device that may be used: \"70 GB\", 95% (default: 90 % of it; plans by name: all)");
  add("--framework", flags.framework,
      "Only layouts that this one runs: pytorch, torchtitan, megatron, deepspeed or horovod");
  app.add_flag("--frontier", flags.frontier, "Also prove and show the frontier of time and memory")->group(group);
  app.add_flag("--unit-frontier", flags.unit_frontier,
               "Instead: the frontier where each layer has its own degrees, ZeRO stage and recomputation (TensorOpt)")
      ->group(group);
  add("--over", flags.over,
      "With --unit-frontier: the frontier of each number of devices, workers=4,8,16 or workers=2..64");
  add("--time-budget", flags.time_budget, "Stop the search after \"2 s\" and say how far it is from proved");
  add("--tensor", flags.tensor, "Tensor degrees to try: 1,2,4,8");
  add("--pipeline", flags.pipeline, "Numbers of pipeline stages to try");
  add("--context", flags.context, "Context degrees to try");
  add("--cp-comm", flags.cp_comm, "Exchanges of context parallelism to try: p2p, allgather, a2a");
  add("--expert", flags.expert, "Expert degrees to try");
  add("--ep-comm", flags.ep_comm,
      "How tokens get to their experts, to try: alltoall, deepep (once to each machine, by DeepEP)");
  add("--overlap-ep", flags.overlap_expert,
      "Whether tokens travel to and from experts beside the compute of another micro-batch, to try: off, on");
  add("--expert-tensor", flags.expert_tensor,
      "Devices that divide each expert, to try: tp, or 1 (whole experts, spread over tp as well)");
  add("--micro-batch", flags.micro_batch, "Samples of a micro-batch to try");
  add("--chunks", flags.chunks, "Chunks of a stage to try");
  add("--schedule", flags.schedule, "Pipeline schedules to try (list schedules)");
  add("--scheme", flags.scheme, "Tensor schemes to try (list schemes)");
  add("--recompute", flags.recompute,
      "Recomputation of activations to try: none, selective, full, op, modules (those that Megatron-LM does again by "
      "themselves), blocks (full, of the fewest blocks that fit)");
  add("--zero", flags.zero, "ZeRO stages to try");
  add("--offload", flags.offload,
      "Leave this in the host's memory: optimizer, parameters (with ZeRO-3, as FSDP does), activations, or "
      "optimizer+activations (default: nothing; where nothing fits, what this would do is told)");
  add("--sequence-parallel", flags.sequence_parallel, "Sequence parallelism to try");
  add("--overlap-tp", flags.overlap_tensor,
      "What of tensor parallelism to hide: off, on (sums of input gradients), products (messages part by part beside "
      "products; --tp-comm-overlap, async tensor parallelism)");
}

void add_placement_flags(CLI::App& app, LayoutFlags& flags) {
  const std::string group = "Pipeline over unequal devices";
  app.add_option("--devices", flags.devices, "Unequal devices and the links between them: a JSON file")->group(group);
  app.add_option("--adatopk", flags.adatopk,
                 "Compress what goes between stages: 1 of so many values over the slowest link, more over others")
      ->group(group);
}

bool asks_for_layouts(const LayoutFlags& flags) {
  return flags.layouts || flags.frontier || flags.unit_frontier || !flags.over.empty() || !flags.global_batch.empty() ||
         std::any_of(std::begin(search_flags), std::end(search_flags),
                     [&](const SearchFlag& f) { return !(flags.*f.value).empty(); });
}

void refuse_search_flags(const LayoutFlags& flags, const char* flag, std::initializer_list<std::string_view> but) {
  const auto refuse = [&](const std::string& name) {
    throw InputError(name, "a search over layouts", std::string(flag), "leave one of them out");
  };
  if (flags.frontier) refuse("--frontier");
  if (!flags.over.empty() && std::string_view(flag) != "--unit-frontier") refuse("--over");
  if (flags.unit_frontier && std::string_view(flag) != "--unit-frontier") refuse("--unit-frontier");
  for (const SearchFlag& f : search_flags)
    if (!(flags.*f.value).empty() && std::find(but.begin(), but.end(), f.name) == but.end()) refuse(f.name);
}

namespace {

/// Nothing where nothing is said.
Seconds above_zero(const std::string& text, const char* name, const char* example) {
  const Seconds time = text.empty() ? Seconds(0) : seconds_of(text, name);
  if (!text.empty() && time == Seconds(0))
    throw InputError(name, std::string("a time above zero, such as ") + example, in_quotes(text));
  return time;
}

}  // namespace

std::optional<RunRequest> run_request_of(const LayoutFlags& flags) {
  if (flags.tokens.empty()) {
    for (const auto& [name, value] : {std::pair{"--within", &flags.within}, std::pair{"--mtbf", &flags.mtbf},
                                      std::pair{"--checkpoint", &flags.checkpoint},
                                      std::pair{"--restart", &flags.restart}, std::pair{"--power", &flags.power}})
      if (!value->empty()) throw InputError(name, "a whole run, which --tokens asks about", "none", "--tokens 1.5T");
    return std::nullopt;
  }
  RunRequest run;
  run.tokens = large_number_of(flags.tokens, "--tokens");
  if (!(run.tokens >= 1 && run.tokens <= 1e18)) throw InputError("--tokens", "from 1 to 1e18 of them", flags.tokens);
  const auto read = [](const std::string& text, const char* name, Seconds& into) {
    if (!text.empty()) into = seconds_of(text, name);
  };
  run.within = above_zero(flags.within, "--within", "30 days");
  read(flags.mtbf, "--mtbf", run.between_failures);
  read(flags.checkpoint, "--checkpoint", run.checkpoint);
  read(flags.restart, "--restart", run.restart);
  constexpr Seconds century(100 * 365.25 * 86400), longest_failing = century * 1000, month(30 * 86400);
  if (run.between_failures <= Seconds(0) || run.between_failures > longest_failing)
    throw InputError("--mtbf", "a time above zero, up to 876600000 h", in_quotes(flags.mtbf));
  for (const auto& [name, time] : {std::pair{"--checkpoint", run.checkpoint}, std::pair{"--restart", run.restart}})
    if (time > month) throw InputError(name, "at most 30 days", text_of(time));
  constexpr double most = 1e6;
  if (!flags.price.empty()) run.price_per_device_hour = number_of(flags.price, "--price");
  if (run.price_per_device_hour > most) throw InputError("--price", "at most a million", in_quotes(flags.price));
  if (!flags.power.empty()) run.watts = number_of(flags.power, "--power");
  if (!flags.power.empty() && !(run.watts > 0 && run.watts <= most))
    throw InputError("--power", "watts above zero, up to a million", in_quotes(flags.power));
  return run;
}

namespace {

Layout offloading_of(const std::string& text) {
  try {
    return with_field({}, "offload", text);
  } catch (const InputError& e) {
    throw InputError("--offload", "optimizer, parameters, activations, or such words with '+' between them",
                     in_quotes(text), e.hint);
  }
}

}  // namespace

LayoutSpace space_of(const LayoutFlags& flags) {
  constexpr std::int64_t most_samples = 1'000'000'000;
  LayoutSpace space;
  space.tensor = numbers_of(flags.tensor, "--tensor", 1, most_devices);
  // Degrees that were asked for are tried, even beyond one machine.
  if (!space.tensor.empty()) space.most_tensor = space.tensor.back();
  space.pipeline = numbers_of(flags.pipeline, "--pipeline", 1, most_devices);
  space.context = numbers_of(flags.context, "--context", 1, most_devices);
  for (const std::size_t i : choices_of(flags.cp_comm, "--cp-comm", {"p2p", "allgather", "a2a"}))
    space.context_exchange.push_back(static_cast<ContextExchange>(i));
  space.expert = numbers_of(flags.expert, "--expert", 1, most_devices);
  for (const std::size_t i : choices_of(flags.ep_comm, "--ep-comm", {"alltoall", "deepep"}))
    space.expert_exchange.push_back(static_cast<ExpertExchange>(i));
  for (const std::size_t i : choices_of(flags.overlap_expert, "--overlap-ep", {"off", "on"}))
    space.overlap_expert.push_back(static_cast<int>(i));
  for (const std::size_t i : choices_of(flags.expert_tensor, "--expert-tensor", {"tp", "1"}))
    space.whole_experts.push_back(static_cast<int>(i));
  space.micro_batch = numbers_of(flags.micro_batch, "--micro-batch", 1, most_samples);
  space.chunks = numbers_of(flags.chunks, "--chunks", 1, most_devices);
  space.schedules = members_of(flags.schedule, "--schedule", pipeline_schedules());
  space.schemes = members_of(flags.scheme, "--scheme", tensor_schemes());
  for (const std::int64_t stage : numbers_of(flags.zero, "--zero", 0, 3)) space.zero.push_back(static_cast<int>(stage));
  if (!flags.offload.empty()) {
    space.offloaded = offloading_of(flags.offload).offloaded;
    if (space.offloading().offloads(Offloaded::parameters) && !space.zero.empty() && space.zero != std::vector{3})
      throw InputError("--offload", "--zero 3 beside parameters, which it divides", in_quotes(flags.zero),
                       "--offload optimizer goes with any");
  }
  constexpr std::size_t some_blocks = 5;
  for (const std::size_t i :
       choices_of(flags.recompute, "--recompute", {"none", "selective", "full", "op", "modules", "blocks"}))
    if (i == some_blocks) space.some_blocks = true;
    else space.recomputation.push_back(static_cast<Recomputation>(i));
  if (space.some_blocks && space.offloading().offloads(Offloaded::activations))
    throw InputError("--recompute", "all blocks or none beside --offload activations", "blocks",
                     "where activations leave, more of them may take less time");
  for (const std::size_t i : choices_of(flags.sequence_parallel, "--sequence-parallel", {"off", "on"}))
    space.sequence_parallel.push_back(static_cast<int>(i));
  for (const std::size_t i : choices_of(flags.overlap_tensor, "--overlap-tp", {"off", "on", "products"}))
    space.overlap_tensor.push_back(static_cast<TensorOverlap>(i));
  space.framework = launch_framework_of(flags.framework, "--framework");
  return space;
}

Bytes memory_cap_of(const LayoutFlags& flags, Bytes card) {
  if (flags.memory.empty() || flags.memory.back() != '%') return memory_of(flags.memory, "--memory");
  const double share = share_of(flags.memory, "--memory");
  if (!(share > 0 && share <= 1)) throw InputError("--memory", "a share from 0 to 100%", in_quotes(flags.memory));
  if (card <= Bytes(0))
    throw InputError("--memory", "the memory of a device, of which this is a share", "a cluster that does not tell it",
                     "--device-memory '80 GB' says it");
  return card * share;
}

std::vector<std::int64_t> device_counts_of(const LayoutFlags& flags) {
  if (flags.over.empty()) return {};
  if (!flags.unit_frontier)
    throw InputError("--over", "--unit-frontier beside it", "a search over layouts",
                     "--objective devices searches parts of a cluster");
  const SweepAxis axis = sweep_axis_of(flags.over, {});
  if (axis.quantity != SweepQuantity::workers)
    throw InputError("--over", "an axis of workers, such as workers=4,8,16", in_quotes(flags.over));
  std::vector<std::int64_t> counts;
  for (const double value : axis.values) counts.push_back(static_cast<std::int64_t>(value));
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

LayoutSearchOptions unit_options_of(const LayoutFlags& flags) {
  LayoutFlags asked = flags;
  // The fewest devices that fit, of any step, where none is asked for.
  if (asked.objective == "devices" && asked.target_step.empty()) asked.objective = "step";
  LayoutSearchOptions options = search_options_of(asked);
  if (flags.objective == "devices") options.objective = Objective::fewest_devices;
  if (options.objective == Objective::cheapest)
    throw InputError("--objective", "step, memory or devices", "'cost'", "--unit-frontier knows no price");
  return options;
}

LayoutSearchOptions search_options_of(const LayoutFlags& flags) {
  LayoutSearchOptions options;
  options.frontier = flags.frontier;
  const std::vector<std::string> objectives = {"step", "memory", "devices", "cost"};
  if (!flags.objective.empty()) {
    const auto found = std::find(objectives.begin(), objectives.end(), flags.objective);
    if (found == objectives.end())
      throw InputError("--objective", "one of " + listed(objectives), in_quotes(flags.objective),
                       did_you_mean(flags.objective, objectives));
    options.objective = static_cast<Objective>(found - objectives.begin());
  }
  options.target_step = above_zero(flags.target_step, "--target-step", "20 s");
  options.time_budget = above_zero(flags.time_budget, "--time-budget", "2 s");
  if (!flags.price.empty()) {
    options.price_per_device_hour = number_of(flags.price, "--price");
    if (!(options.price_per_device_hour > 0)) throw InputError("--price", "a positive price", in_quotes(flags.price));
  }
  if (options.objective == Objective::cheapest && flags.price.empty())
    throw InputError("--price", "the price of a device-hour, which --objective cost is about", "nothing");
  if (!flags.within.empty()) {
    if (!flags.target_step.empty())
      throw InputError("--target-step", "either a longest step, or --within of a run", "both");
    if (flags.objective.empty()) options.objective = Objective::fewest_devices;
  }
  if (options.objective == Objective::fewest_devices && flags.target_step.empty() && flags.within.empty())
    throw InputError("--target-step", "the step that the fewest devices have to reach, or --within of a run",
                     "nothing");
  return options;
}

}  // namespace stepcast::cli
