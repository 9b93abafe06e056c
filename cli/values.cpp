// What kind of value each flag takes, for completion.
#include "values.hpp"

#include <stepcast/base/words.hpp>
#include <stepcast/cluster/cluster.hpp>
#include <stepcast/cluster/collective.hpp>
#include <stepcast/launch/launch_settings.hpp>
#include <stepcast/layout/tensor_scheme.hpp>
#include <stepcast/pipeline/pipeline.hpp>
#include <stepcast/plan/strategy.hpp>
#include <stepcast/roofline/description.hpp>
#include <stepcast/roofline/device.hpp>
#include <stepcast/roofline/named_models.hpp>
#include <stepcast/roofline/shipped_models.hpp>
#include <stepcast/validation/validation.hpp>
#include <stepcast/whatif/whatif.hpp>

#include <span>

namespace stepcast::cli {
namespace {

using Words = std::vector<std::string>;

template <class Records>
Words names_in(const Records& records) {
  Words names;
  for (const auto& record : records) names.emplace_back(record.name);
  return names;
}

Words clusters() { return names_in(shipped_clusters()); }
Words devices() { return shipped_device_names(); }
Words plans() { return names_in(strategies()); }
Words scenarios() { return names_in(whatifs()); }
Words schedules() { return names_in(pipeline_schedules()); }
Words schemes() { return names_in(tensor_schemes()); }
Words models() {
  Words names = names_in(shipped_models());
  for (const NamedModel& model : named_models()) names.emplace_back(model.name);
  for (const std::string& family : model_families()) names.push_back(family + ":");
  return names;
}
Words algorithms() {
  Words names = names_in(collective_algorithms());
  names.emplace_back("table");
  return names;
}

constexpr ValueKind file{.name = "FILE", .files = true}, number{"N"}, size{"SIZE"}, rate{"RATE"}, time{"TIME"},
    factor{"FACTOR"}, share{"SHARE"}, link{"RATE"}, degrees{"N,..."}, name{"NAME"}, range{"FIRST..LAST"};
constexpr ValueKind cluster{.name = "CLUSTER", .words = clusters, .files = true};
constexpr ValueKind device{.name = "DEVICE", .words = devices, .files = true};
constexpr ValueKind plan{.name = "PLAN", .words = plans};

constexpr ValueKind one_of(Words (*words)()) { return {.name = "WORD", .words = words, .open = false}; }
constexpr ValueKind some_of(Words (*words)()) {
  return {.name = "WORD,...", .words = words, .several = true, .open = false};
}

struct Named {
  std::string_view flag;  ///< long name without hyphens in front, or the name of an argument
  ValueKind kind;
};

std::span<const Named> table() {
  static const Named all[] = {
      // arguments
      {"TRACE", file},
      {"BEFORE", file},
      {"AFTER", file},
      {"FILE", file},
      {"MEASURED", file},
      {"SUITE", one_of(shipped_suite_names)},
      {"TOPIC", one_of(list_topics)},
      {"SHELL", one_of(+[] {
         return Words{"bash", "zsh", "fish"};
       })},
      // what was traced, and what is written
      {"model", {.name = "MODEL", .words = models}},
      {"device", device},
      {"batch", number},
      {"parameters", number},
      {"kernels", file},
      {"output", file},
      {"timeline", file},
      {"html", file},
      {"plot", file},
      {"format", one_of(+[] { return Words{"chakra"}; })},
      {"step", number},
      {"threads", number},
      // the cluster
      {"cluster", cluster},
      {"workers", number},
      {"per-node", number},
      {"network", link},
      {"level", {.name = "NAME:UNITS[ x RATE]"}},
      {"inside", link},
      {"servers", {.name = "N[ x RATE]"}},
      {"device-memory", size},
      {"collective", {.name = "ALGORITHM", .words = algorithms, .open = false}},
      {"nccl-algo",
       {.name = "ALGORITHM,...",
        .words =
            +[] {
              return Words{"Ring", "Tree", "NVLS", "NVLSTree", "CollnetChain"};
            },
        .several = true}},
      {"nccl-proto",
       {.name = "PROTOCOL,...",
        .words =
            +[] {
              return Words{"LL", "LL128", "Simple"};
            },
        .several = true}},
      {"operation",
       one_of(+[] { return Words{"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send"}; })},
      {"slow-worker", factor},
      {"late-worker", time},
      {"degraded-link", {.name = "[N x ]SHARE|RATE"}},
      {"jitter", {.name = "SPREAD"}},
      {"background", {.name = "[LEVEL=]SHARE"}},
      {"beside", {.name = "[LEVEL=]PLAN", .words = plans}},
      {"beside-model", {.name = "MODEL", .words = models, .files = true}},
      {"beside-batch", number},
      {"connection", {.name = "[N x ]RATE"}},
      {"iterations", number},
      {"loss", share},
      {"stalls", share},
      {"rto", time},
      {"switch",
       {.name = "PROGRAM[:SHARE]",
        .words =
            +[] {
              return Words{"switchml", "atp", "sa_atp:"};
            }}},
      {"overlay", file},
      {"faster-compute", factor},
      // what feeds it
      {"input", file},
      {"cache-policy", one_of(+[] {
         return Words{"lru", "never-evict", "partitioned"};
       })},
      {"dataset", size},
      {"samples", number},
      {"storage", rate},
      {"prep", rate},
      {"loader-workers", number},
      {"loader", one_of(+[] {
         return Words{"serial", "pipelined"};
       })},
      {"cache", share},
      // plans and changes
      {"plan", plan},
      {"allow", some_of(+[] {
         return Words{"lossy", "stale", "periodic"};
       })},
      {"search", one_of(+[] {
         return Words{"grid", "bayesian"};
       })},
      {"what", {.name = "SCENARIO", .words = scenarios}},
      {"other-batch", file},
      {"other-samples", number},
      {"other-step", time},
      {"over",
       {.name = "AXIS",
        .words = +[] { return Words{"bandwidth=", "latency=", "workers=", "batch=", "compute=", "background="}; }}},
      {"keep", {.name = "SHARE|TIME"}},
      {"points", range},
      // layouts
      {"global-batch", number},
      {"measured", {.name = "PLAN=STEP", .words = plans, .files = true}},
      {"objective", one_of(+[] {
         return Words{"step", "memory", "devices", "cost"};
       })},
      {"framework", one_of(launch_frameworks)},
      {"target-step", time},
      {"price", number},
      {"tokens", {.name = "TOKENS"}},
      {"within", time},
      {"mtbf", time},
      {"checkpoint", time},
      {"restart", time},
      {"power", number},
      {"memory", size},
      {"time-budget", time},
      {"tensor", degrees},
      {"pipeline", degrees},
      {"context", degrees},
      {"cp-comm", some_of(+[] {
         return Words{"p2p", "allgather", "a2a"};
       })},
      {"expert", degrees},
      {"ep-comm", some_of(+[] {
         return Words{"alltoall", "deepep"};
       })},
      {"overlap-ep", some_of(+[] {
         return Words{"off", "on"};
       })},
      {"expert-tensor", some_of(+[] {
         return Words{"tp", "1"};
       })},
      {"micro-batch", degrees},
      {"chunks", degrees},
      {"schedule", some_of(schedules)},
      {"scheme", some_of(schemes)},
      {"recompute", some_of(+[] { return Words{"none", "selective", "full", "op", "modules", "blocks"}; })},
      {"zero", some_of(+[] {
         return Words{"0", "1", "2", "3"};
       })},
      {"offload", one_of(+[] {
         return Words{"optimizer", "parameters", "activations", "optimizer+activations", "parameters+activations"};
       })},
      {"sequence-parallel", some_of(+[] {
         return Words{"off", "on"};
       })},
      {"overlap-tp", some_of(+[] {
         return Words{"off", "on", "products"};
       })},
      {"devices", file},
      {"adatopk", number},
      // calibrate, validate
      {"steps", file},
      {"trace", file},
      {"start", device},
      {"rows", number},
      {"name", name},
      {"cases", file},
      {"root", {.name = "FOLDER", .files = true}}};
  return all;
}

}  // namespace

std::string ValueKind::shown() const {
  constexpr std::size_t longest = 24;
  if (open || !words) return std::string(name);
  std::string joined;
  for (const std::string& word : words()) joined += (joined.empty() ? "" : "|") + word;
  if (joined.size() > longest || joined.empty()) return std::string(name);
  return joined + (several ? ",..." : "");
}

const ValueKind* kind_of(const CLI::Option& option) {
  if (option.get_expected_max() == 0) return nullptr;
  const std::string name = option.get_positional()       ? option.get_name(true, false)
                           : option.get_lnames().empty() ? std::string()
                                                         : option.get_lnames().front();
  for (const Named& named : table())
    if (named.flag == name) return &named.kind;
  return nullptr;
}

void name_values(CLI::App& verb) {
  for (CLI::Option* option : verb.get_options())
    if (const ValueKind* kind = kind_of(*option)) option->type_name(kind->shown());
}

}  // namespace stepcast::cli
