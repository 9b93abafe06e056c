// The search over layouts against looking at every one: the best, the frontier, the counts, at any number of threads;
// bounds against predictions; messages of spaces in which nothing is left.
#include "helpers/layout_machines.hpp"
#include "helpers/random_layouts.hpp"

#include <stepcast/base/text.hpp>
#include <stepcast/launch/launch_settings.hpp>
#include <stepcast/search/batches.hpp>
#include <stepcast/search/bounds.hpp>
#include <stepcast/search/families.hpp>
#include <stepcast/search/layout_search.hpp>
#include <stepcast/search/preference.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>

using namespace stepcast;
using namespace stepcast::test;

namespace {

// A space with everything that the search is asked about it.
struct Question {
  Workload workload;
  Cluster cluster;
  LayoutSpace space;
  LayoutSearchOptions options;
};

Question random_question(Draw& draw) {
  Question q;
  q.workload = random_workload(draw, random_device(draw));
  q.cluster = random_machines(draw);
  q.space = random_space(draw);
  q.options.layout.global_batch =
      static_cast<double>(q.cluster.workers() * (draw.coin() ? 1 : 3) * (1 << draw.whole(0, 3)));
  q.options.layout.memory.framework = Bytes(draw.coin() ? 0 : 1e7);
  q.options.best = static_cast<std::uint32_t>(draw.whole(1, 6));
  q.options.threads = 1;
  return q;
}

struct Known {
  LayoutPlan plan;
  std::int64_t devices = 1;
  Seconds iteration;
  Bytes memory;
  std::uint64_t order = 0;
};

// Every layout of the space in its order.
std::vector<LayoutPlan> layouts_of(const LayoutSpace& space, const Workload& workload, const Cluster& cluster,
                                   double global_batch) {
  const LayoutFamilies families(space, workload, cluster, global_batch);
  std::vector<LayoutPlan> all;
  all.reserve(families.size());
  for (const LayoutFamily& f : families.families())
    for (const LayoutSwitches& s : families.switches(f))
      all.push_back({layout_of(f, s), families.gradients()[s.gradients]});
  return all;
}

// Every layout of the space that works, on all devices.
std::vector<Known> everything(const Question& q) {
  LayoutEvaluator evaluator(q.workload, q.cluster, q.options.layout);
  std::vector<Known> all;
  std::uint64_t order = 0;
  for (const LayoutPlan& plan : layouts_of(q.space, q.workload, q.cluster, q.options.layout.global_batch)) {
    const auto quick = evaluator.quick(plan);
    LayoutPlan usual = plan;
    usual.layout.stages_by_time = false;
    // Units that are dealt out by time as the program deals them out are no layout of their own.
    const auto own = evaluator.quick(usual);
    const bool another = plan.layout.stages_by_time && quick && own && own->iteration == quick->iteration &&
                         own->memory == quick->memory;
    if (quick && !another) all.push_back({plan, q.cluster.workers(), quick->iteration, quick->memory, order});
    ++order;
  }
  return all;
}

Bytes median_memory(std::vector<Known> all) {
  if (all.empty()) return Bytes(1);
  std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2), all.end(),
                   [](const Known& a, const Known& b) { return a.memory < b.memory; });
  return all[all.size() / 2].memory;
}

// The first of all layouts that may be taken, by `key`.
template <class Key>
std::vector<Known> best_of(std::vector<Known> all, const LayoutSearchOptions& options, Key key) {
  const LayoutOptions& layout = options.layout;
  std::erase_if(all, [&](const Known& k) {
    return (layout.memory_cap > Bytes(0) && k.memory > layout.memory_cap) ||
           (options.target_step > Seconds(0) && k.iteration > options.target_step);
  });
  std::sort(all.begin(), all.end(), [&](const Known& a, const Known& b) { return key(a) < key(b); });
  if (all.size() > options.best) all.resize(options.best);
  return all;
}

std::vector<Known> frontier_of_all(std::vector<Known> all, Bytes cap) {
  std::erase_if(all, [&](const Known& k) { return cap > Bytes(0) && k.memory > cap; });
  std::sort(all.begin(), all.end(), [](const Known& a, const Known& b) {
    return std::tie(a.memory, a.iteration, a.order) < std::tie(b.memory, b.iteration, b.order);
  });
  Seconds fastest(std::numeric_limits<double>::infinity());
  std::erase_if(all, [&](const Known& k) {
    if (k.iteration >= fastest) return true;
    fastest = k.iteration;
    return false;
  });
  return all;
}

void check_best(const LayoutSearchResult& found, const std::vector<Known>& expected) {
  REQUIRE(found.best.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(text_of(found.best[i].plan) == text_of(expected[i].plan));
    CHECK(found.best[i].iteration == expected[i].iteration);
    CHECK(found.best[i].memory.total() == expected[i].memory);
    CHECK(found.best[i].devices == expected[i].devices);
  }
}

void check_counts(const LayoutSearchResult& r) {
  CHECK(r.evaluated + r.bounded + r.too_large + r.unsuitable + r.open == r.total);
}

void check_same(const LayoutSearchResult& a, const LayoutSearchResult& b) {
  REQUIRE(a.best.size() == b.best.size());
  for (std::size_t i = 0; i < a.best.size(); ++i) {
    CHECK(text_of(a.best[i].plan) == text_of(b.best[i].plan));
    CHECK(a.best[i].iteration == b.best[i].iteration);
  }
  REQUIRE(a.frontier.size() == b.frontier.size());
  for (std::size_t i = 0; i < a.frontier.size(); ++i) CHECK(a.frontier[i].iteration == b.frontier[i].iteration);
  CHECK(std::tie(a.total, a.evaluated, a.bounded, a.too_large, a.unsuitable) ==
        std::tie(b.total, b.evaluated, b.bounded, b.too_large, b.unsuitable));
  CHECK(a.nothing == b.nothing);
}

}  // namespace

TEST_CASE("the search finds what looking at every layout finds, with or without a cap, on any number of threads") {
  Draw draw(21);
  std::uint64_t total = 0, evaluated = 0;
  for (int i = 0; i < 60; ++i) {
    Question q = random_question(draw);
    const std::vector<Known> all = everything(q);
    if (draw.coin()) q.options.layout.memory_cap = median_memory(all);
    CAPTURE(i);
    const auto found = best_layouts(q.workload, q.cluster, q.space, q.options);
    REQUIRE(found);
    CHECK(found->proved);
    CHECK(found->gap == 0);
    CHECK(found->total == layouts_of(q.space, q.workload, q.cluster, q.options.layout.global_batch).size());
    check_counts(*found);
    check_best(*found,
               best_of(all, q.options, [](const Known& k) { return std::tie(k.iteration, k.memory, k.order); }));
    for (const unsigned threads : {2u, 3u}) {
      q.options.threads = threads;
      check_same(*found, *best_layouts(q.workload, q.cluster, q.space, q.options));
    }
    total += found->total;
    evaluated += found->evaluated;
  }
  MESSAGE(evaluated << " of " << total << " layouts evaluated");
}

TEST_CASE("of layouts of one kind the search returns the best, as looking at every layout does") {
  Draw draw(77);
  std::size_t dropped = 0;
  for (int i = 0; i < 40; ++i) {
    Question q = random_question(draw);
    q.options.one_of_kind = true;
    const auto key = [](const Known& k) { return std::tie(k.iteration, k.memory, k.order); };
    std::vector<Known> all = everything(q), kinds;
    std::sort(all.begin(), all.end(), [&](const Known& a, const Known& b) { return key(a) < key(b); });
    for (const Known& k : all)
      if (std::ranges::none_of(kinds, [&](const Known& b) { return of_one_kind(b.plan.layout, k.plan.layout); }))
        kinds.push_back(k);
    CAPTURE(i);
    const auto found = best_layouts(q.workload, q.cluster, q.space, q.options);
    REQUIRE(found);
    check_counts(*found);
    check_best(*found, best_of(kinds, q.options, key));
    q.options.threads = 2;
    check_same(*found, *best_layouts(q.workload, q.cluster, q.space, q.options));
    dropped += all.size() - kinds.size();
  }
  CHECK(dropped > 40);
}

TEST_CASE("with the option the frontier is that of the whole space, else what was met on the way") {
  Draw draw(22);
  for (int i = 0; i < 40; ++i) {
    Question q = random_question(draw);
    const std::vector<Known> all = everything(q);
    if (draw.coin()) q.options.layout.memory_cap = median_memory(all);
    q.options.frontier = true;
    q.options.threads = static_cast<unsigned>(draw.whole(1, 3));
    CAPTURE(i);
    const auto found = best_layouts(q.workload, q.cluster, q.space, q.options);
    REQUIRE(found);
    check_counts(*found);
    const std::vector<Known> expected = frontier_of_all(all, q.options.layout.memory_cap);
    REQUIRE(found->frontier.size() == expected.size());
    for (std::size_t p = 0; p < expected.size(); ++p) {
      CHECK(text_of(found->frontier[p].plan) == text_of(expected[p].plan));
      CHECK(found->frontier[p].iteration == expected[p].iteration);
      CHECK(found->frontier[p].memory == expected[p].memory);
    }
    check_best(*found,
               best_of(all, q.options, [](const Known& k) { return std::tie(k.iteration, k.memory, k.order); }));

    q.options.frontier = false;
    const auto met = best_layouts(q.workload, q.cluster, q.space, q.options);
    if (expected.empty()) continue;
    CHECK(met->frontier.back().iteration == expected.back().iteration);
    for (const FrontierPoint& p : met->frontier)  // attained, so that nothing is beyond the frontier
      CHECK(std::any_of(expected.begin(), expected.end(),
                        [&](const Known& k) { return k.memory <= p.memory && k.iteration <= p.iteration; }));
  }
}

TEST_CASE("least memory under a target, fewest devices and the cheapest part of a cluster") {
  Draw draw(23);
  for (int i = 0; i < 25; ++i) {
    Question q = random_question(draw);
    const std::vector<Known> all = everything(q);
    if (all.empty()) continue;
    std::vector<double> times;
    for (const Known& k : all) times.push_back(k.iteration.value());
    std::sort(times.begin(), times.end());
    CAPTURE(i);

    q.options.objective = Objective::least_memory;
    q.options.target_step = Seconds(times[times.size() / 3]);
    check_best(*best_layouts(q.workload, q.cluster, q.space, q.options),
               best_of(all, q.options, [](const Known& k) { return std::tie(k.memory, k.iteration, k.order); }));

    // Every part of the cluster that a job may ask for.
    std::vector<Known> parts;
    std::uint64_t order = 0;
    for (std::int64_t n = 1; n <= q.cluster.workers(); ++n) {
      const bool whole = n % q.cluster.devices_per_node == 0;
      if (!whole && (n > q.cluster.devices_per_node || q.cluster.devices_per_node % n != 0)) continue;
      Question part = q;
      part.cluster = *resized(q.cluster, n);
      for (Known k : everything(part)) k.order += order, parts.push_back(k);
      order += layouts_of(q.space, q.workload, part.cluster, q.options.layout.global_batch).size();
    }
    q.options.objective = Objective::fewest_devices;
    q.options.target_step = Seconds(times[times.size() / 2]);
    const auto fewest = best_layouts(q.workload, q.cluster, q.space, q.options);
    check_best(*fewest,
               best_of(parts, q.options, [](const Known& k) { return std::tie(k.devices, k.iteration, k.order); }));
    check_counts(*fewest);

    q.options.objective = Objective::cheapest;
    q.options.target_step = draw.coin() ? Seconds(0) : q.options.target_step;
    q.options.price_per_device_hour = 2.5;
    const auto cheapest = best_layouts(q.workload, q.cluster, q.space, q.options);
    const auto cost = [](const Known& k) { return 2.5 / 3600 * static_cast<double>(k.devices) * k.iteration.value(); };
    check_best(*cheapest,
               best_of(parts, q.options, [&](const Known& k) { return std::make_tuple(cost(k), k.memory, k.order); }));
    check_counts(*cheapest);
    CHECK(cheapest->cost_per_step == doctest::Approx(2.5 / 3600 * static_cast<double>(cheapest->best[0].devices) *
                                                     cheapest->best[0].iteration.value()));
  }
}

TEST_CASE("of layouts that take no longer than a target the simplest is that of looking at every one") {
  Draw draw(28);
  std::size_t others = 0;
  for (int i = 0; i < 40; ++i) {
    Question q = random_question(draw);
    const std::vector<Known> all = everything(q);
    if (all.empty()) continue;
    CAPTURE(i);
    const auto fastest = std::min_element(all.begin(), all.end(),
                                          [](const Known& a, const Known& b) { return a.iteration < b.iteration; });
    q.options.objective = Objective::simplest;
    q.options.target_step = fastest->iteration * 1.1;
    if (draw.coin()) {  // a memory that is tight for some of them
      q.cluster.device_memory = fastest->memory * (draw.whole(8, 16) / 10.0);
      q.options.layout.memory_cap = Bytes(1e18);
    }
    const LayoutPreference preference(q.workload, q.cluster, q.space.framework);
    const auto key = [&](const Known& k) {
      const Answer<Layout> layout = resolved(k.plan.layout, q.cluster.workers(), q.options.layout.global_batch);
      const std::int64_t micro_batches = stepcast::micro_batches(*layout, q.options.layout.global_batch);
      return std::make_tuple(
          preference.burden({*layout, k.plan.gradients}, micro_batches) + preference.burden_of(k.memory),
          preference.after_burden(k.iteration, k.memory, q.options.target_step), k.order);
    };
    const auto found = best_layouts(q.workload, q.cluster, q.space, q.options);
    check_best(*found, best_of(all, q.options, key));
    check_counts(*found);
    others += found->best.front().iteration > fastest->iteration ? 1 : 0;
  }
  CHECK(others > 5);  // it is not just the fastest
}

namespace {

// What it takes to set up layouts of a model on sixteen devices of 100 GB.
struct Burdens {
  explicit Burdens(const char* model, const char* framework = "")
      : workload(workload_of(model_shape_of(model), layout_device(DataType::f16))),
        cluster(cluster_of_flags(16, 8, "100GbE")),
        framework(framework) {
    cluster.device_memory = Bytes(100e9);
  }
  [[nodiscard]] double operator()(const char* layout) const {
    LayoutPlan p = layout_plan_of("layout(" + std::string(layout) + ")/ddp");
    p.layout = *resolved(p.layout, 16, 64);
    return LayoutPreference(workload, cluster, framework).burden(p, micro_batches(p.layout, 64));
  }
  Workload workload;
  Cluster cluster;
  std::string framework;
};
constexpr const char* small_model = "gpt:hidden=512,layers=16,heads=8,seq=512";
constexpr const char* large_model = "llama:hidden=8192,layers=16,heads=64,seq=4096,vocab=32000";

}  // namespace

TEST_CASE("of equals: dimensions, memory that is tight, switches, groups and parts weigh in this order") {
  const Burdens small(small_model), large(large_model);
  // Each is less than the next.
  const std::vector<std::pair<const Burdens*, std::vector<const char*>>> orders = {
      // Context parallelism of short sequences is worse than any number of other dimensions.
      {&small, {"tp=2, sp=on, pp=4, chunks=4, mb=1, zero=2, recompute=full", "cp=2, mb=1"}},
      // So are sharded parameters of a small model, and of a large one they are a switch.
      {&small, {"tp=2, pp=2, mb=1", "zero=3, mb=1"}},
      {&large, {"zero=1, mb=1", "zero=2, mb=1", "zero=3, mb=1", "tp=2, zero=1, mb=1"}},
      // One dimension more outweighs switches.
      {&small, {"mb=1", "zero=1, mb=1", "zero=2, mb=1", "zero=2, mb=1, recompute=full", "tp=2, mb=1"}},
      {&small, {"tp=8, mb=1", "tp=2, pp=2, mb=1"}},
      // Parts of a stage, a schedule of its own and recomputation are switches; all blocks are simpler than some.
      {&small, {"pp=2, mb=1", "pp=2, chunks=2, mb=1", "pp=2, chunks=2, mb=1, recompute=full"}},
      {&small, {"pp=2, mb=1", "pp=2, schedule=zb_h1, mb=1"}},
      // So is a number of stages by which sixteen blocks do not divide: twelve, not eight or sixteen.
      {&small, {"pp=4, chunks=2, mb=1", "pp=4, chunks=3, mb=1"}},
      {&small, {"pp=4, chunks=4, mb=1", "pp=4, chunks=3, mb=1"}},
      {&small, {"mb=1, recompute=full", "mb=1, recompute=full, recompute_blocks=2"}},
      // A switch outweighs the largest groups and the most parts.
      {&small, {"pp=2, chunks=8, mb=1", "pp=2, chunks=2, mb=1, zero=1"}},
      {&small, {"tp=8, mb=1", "tp=2, mb=1, zero=1"}},
      // Smaller groups, fewer parts.
      {&small, {"tp=2, mb=1", "tp=4, mb=1", "tp=8, mb=1"}},
      {&small, {"pp=2, chunks=2, mb=1", "pp=2, chunks=4, mb=1", "pp=2, chunks=8, mb=1"}},
  };
  for (const auto& [burden, layouts] : orders)
    for (std::size_t i = 1; i < layouts.size(); ++i) {
      CAPTURE(layouts[i - 1]);
      CAPTURE(layouts[i]);
      CHECK((*burden)(layouts[i - 1]) < (*burden)(layouts[i]));
    }
}

TEST_CASE("of equals: ZeRO-2 by Megatron-LM is another wrapper, which is more than recomputation of modules") {
  constexpr const char* mixture =
      "llama:hidden=2048,layers=16,heads=32,seq=4096,vocab=32000,ffn=768,experts=64,topk=8,attention=flash";
  const Burdens megatron(mixture);
  CHECK(megatron("ep=16, mb=1, zero=1, recompute=layernorm+moe_act") < megatron("ep=16, mb=1, zero=2"));
  const Burdens titan("llama:hidden=2048,layers=16,heads=32,seq=4096,kernels=compiled", "torchtitan");
  CHECK(titan("zero=2, mb=1") - titan("zero=1, mb=1") == doctest::Approx(1));
  // Of a large model fully_shard as it is comes first.
  const Burdens large("llama:hidden=8192,layers=16,heads=64,seq=4096,vocab=32000,kernels=compiled", "torchtitan");
  CHECK(large("zero=3, mb=1") < large("zero=1, mb=1"));
  CHECK(large("zero=1, mb=1") == large("zero=2, mb=1"));
}

TEST_CASE("a memory that is tight weighs more than a switch and less than a dimension") {
  const Burdens burdens(small_model);
  const LayoutPreference preference(burdens.workload, burdens.cluster, {});
  const auto burden = [&](const char* layout) { return burdens(layout); };
  const double tight = preference.burden_of(Bytes(86e9));
  CHECK(preference.burden_of(Bytes(84e9)) == 0);
  CHECK(tight > burden("zero=2, mb=1") - burden("mb=1"));
  CHECK(tight < burden("pp=2, mb=1") - burden("mb=1"));
  Cluster cluster = burdens.cluster;
  cluster.device_memory = Bytes(0);
  CHECK(LayoutPreference(burdens.workload, cluster, {}).burden_of(Bytes(86e9)) == 0);
}

TEST_CASE("a framework that has to run them leaves out what it does not, and nothing else") {
  Draw draw(29);
  const Workload workload =
      workload_of(model_shape_of("gpt:hidden=512,layers=12,heads=8,seq=512"), random_device(draw));
  const Cluster cluster = cluster_of_flags(16, 8, "100GbE");
  LayoutSearchOptions options;
  options.layout.global_batch = 64;
  options.best = 1;
  for (const std::string& framework : launch_frameworks()) {
    CAPTURE(framework);
    LayoutSpace space;
    space.framework = framework;
    Question q{workload, cluster, space, options};
    q.options.layout.memory.autocast = memory_options_of(framework).autocast;  // what it holds
    std::vector<Known> runs = everything(q);
    std::erase_if(runs, [&](const Known& k) {
      const std::int64_t count = stepcast::micro_batches(k.plan.layout, options.layout.global_batch);
      return !why_not_launched(workload, k.plan, count, framework).empty();
    });
    const auto found = best_layouts(workload, cluster, space, options);
    check_best(*found, best_of(runs, options, [](const Known& k) { return std::tie(k.iteration, k.memory, k.order); }));
    check_counts(*found);
    CHECK(found->space.ends_with("that " + framework + " runs"));
  }
}

TEST_CASE("what a search did not try is named, a dimension that divisibility empties among it") {
  Draw draw(30);
  const Workload workload =
      workload_of(model_shape_of("gpt:hidden=512,layers=12,heads=8,seq=512"), random_device(draw));
  const Cluster cluster = cluster_of_flags(24, 8, "100GbE");
  LayoutSearchOptions options;
  options.layout.global_batch = 100;
  const auto found = best_layouts(workload, cluster, {}, options);
  REQUIRE(found);
  // 24 devices have data degrees 1, 2, 3, 4, 6, 8, 12, 24; 1, 2 and 4 divide 100.
  CHECK(found->not_tried.front() == "5 of 8 data degrees (3, 6, 8, 12, 24), by which a batch of 100 does not divide");
  CHECK(found->space.find("dp 1 to 4") != std::string::npos);
  options.layout.global_batch = 96;
  CHECK_FALSE(best_layouts(workload, cluster, {}, options)->not_tried.front().starts_with("5 of 8"));
}

TEST_CASE("a range of batches is searched where most data degrees divide, for the most samples a second") {
  Draw draw(31);
  const Workload workload =
      workload_of(model_shape_of("gpt:hidden=512,layers=12,heads=8,seq=512"), random_device(draw));
  const Cluster cluster = cluster_of_flags(24, 8, "100GbE");
  const std::set<std::int64_t> degrees = data_degrees(workload, cluster, {});
  CHECK(degrees == std::set<std::int64_t>{1, 2, 3, 4, 6, 8, 12, 24});
  CHECK(promising_batches(degrees, {90, 110}, 3) == std::vector<std::int64_t>{96, 108, 102});
  LayoutSearchOptions options;
  const std::vector<std::int64_t> batches = {100, 96, 97};
  double most = 0;
  std::int64_t at = 0;
  for (const std::int64_t batch : batches) {
    options.layout.global_batch = static_cast<double>(batch);
    const auto found = best_layouts(workload, cluster, {}, options);
    const double rate = found && !found->best.empty() ? found->best.front().throughput_samples_per_s : 0;
    if (rate > most) most = rate, at = batch;
  }
  const auto best = best_batch(workload, cluster, {}, options, batches, 0);
  REQUIRE(best);
  CHECK(best->global_batch == at);
  CHECK(best->best.throughput_samples_per_s == most);
  CHECK_FALSE(best_batch(workload, cluster, {}, options, batches, most));
  // A later one has to train by more than is resolved.
  const auto first = best_batch(workload, cluster, {}, options, batches, 0, 100);
  REQUIRE(first);
  CHECK(first->global_batch == batches.front());
}

TEST_CASE(
    "products are taken apart where PyTorch compiles them, or where that is asked for, with sequence parallelism") {
  Draw draw(33);
  const Device device = random_device(draw);
  const Cluster cluster = cluster_of_flags(8, 8, "100GbE");
  const auto overlaps = [&](const std::string& kernels, const LayoutSpace& space) {
    std::set<std::pair<TensorOverlap, bool>> found;
    const Workload workload =
        workload_of(model_shape_of("llama:hidden=512,layers=4,heads=8,seq=512,attention=flash" + kernels), device);
    for (const LayoutPlan& p : layouts_of(space, workload, cluster, 32))
      if (p.layout.tensor > 1) found.emplace(p.layout.overlap_tensor, p.layout.sequence_parallel);
    return found;
  };
  using Found = std::set<std::pair<TensorOverlap, bool>>;
  constexpr TensorOverlap nothing = TensorOverlap::nothing, sums = TensorOverlap::sums,
                          products = TensorOverlap::products;
  LayoutSpace asked;
  asked.pipeline = {1};  // zb_h1 hides nothing
  CHECK(overlaps("", asked) == Found{{nothing, false}, {nothing, true}, {sums, false}, {sums, true}});
  CHECK(overlaps(",kernels=eager", asked) == Found{{nothing, false}, {nothing, true}});
  CHECK(overlaps(",kernels=compiled", asked) == Found{{nothing, false}, {nothing, true}, {products, true}});
  asked.overlap_tensor = {sums, products};
  CHECK(overlaps("", asked) == Found{{sums, false}, {sums, true}, {products, true}});
  asked.overlap_tensor = {products};
  CHECK(overlaps("", asked) == Found{{products, true}});
  CHECK(overlaps(",kernels=compiled", asked) == Found{{products, true}});
  // Tensor groups between machines have no products to take apart, and stay.
  const Cluster small = cluster_of_flags(8, 2, "100GbE");
  asked.overlap_tensor = {}, asked.tensor = {4}, asked.most_tensor = 4;
  const Workload compiled =
      workload_of(model_shape_of("llama:hidden=512,layers=4,heads=8,seq=512,attention=flash,kernels=compiled"), device);
  const std::vector<LayoutPlan> across = layouts_of(asked, compiled, small, 32);
  CHECK(std::ranges::any_of(across, [](const LayoutPlan& p) { return p.layout.sequence_parallel; }));
  CHECK(std::ranges::none_of(across, [](const LayoutPlan& p) { return p.layout.overlap_tensor != nothing; }));
}

TEST_CASE("chunks are all that leave each a unit, zb_h1 is tried, and waiting is not where overlap costs nothing") {
  Draw draw(32);
  const Workload workload =
      workload_of(model_shape_of("gpt:hidden=512,layers=10,heads=8,seq=512"), random_device(draw));
  Cluster cluster = cluster_of_flags(8, 8, "100GbE");
  const auto all = [&] { return layouts_of({}, workload, cluster, 32); };
  const auto any = [&](auto test) {
    const std::vector<LayoutPlan> layouts = all();
    return std::any_of(layouts.begin(), layouts.end(), [&](const LayoutPlan& p) { return test(p.layout); });
  };
  // 10 blocks, embedding and head over 4 stages: up to 3 chunks, though 10 divides by neither 4 nor 12.
  CHECK(any([](const Layout& l) { return l.pipeline == 4 && l.chunks == 3; }));
  CHECK_FALSE(any([](const Layout& l) { return l.pipeline == 4 && l.chunks == 4; }));
  CHECK(any([](const Layout& l) { return l.schedule->name == "zb_h1"; }));
  const auto hides = [&](TensorOverlap overlap) {
    return any([&](const Layout& l) { return l.overlap_tensor == overlap; });
  };
  CHECK(hides(TensorOverlap::sums));
  CHECK_FALSE(hides(TensorOverlap::products));
  CHECK_FALSE(
      any([](const Layout& l) { return l.overlap_tensor != TensorOverlap::nothing && l.schedule->name == "zb_h1"; }));
  CHECK_FALSE(any([](const Layout& l) { return !l.overlap_gradients || !l.overlap_pipeline; }));
  // What transfers take from compute is less than waiting for them; that they go slower may be more.
  cluster.contention.compute_under_communication = 1.2;
  CHECK_FALSE(any([](const Layout& l) { return !l.overlap_gradients || !l.overlap_pipeline; }));
  cluster.contention.network_under_compute = 1.2;
  CHECK(any([](const Layout& l) { return !l.overlap_gradients; }));
}

TEST_CASE("bounds are never above what they bound") {
  Draw draw(24);
  std::uint64_t checked = 0;
  double tightness = 0;
  for (int i = 0; i < 150; ++i) {
    const Question q = random_question(draw);
    LayoutEvaluator evaluator(q.workload, q.cluster, q.options.layout);
    const LayoutFamilies families(q.space, q.workload, q.cluster, q.options.layout.global_batch);
    LayoutTables tables(q.workload, q.cluster, q.options.layout);
    LayoutBounds bounds(families, tables);
    for (const LayoutFamily& family : families.families()) {
      if (draw.whole(0, 3) != 0) continue;
      const Answer<LayoutBound> all = bounds.of(family);
      for (const LayoutSwitches& switches : families.switches(family)) {
        const LayoutPlan plan{layout_of(family, switches), families.gradients()[switches.gradients]};
        const auto quick = evaluator.quick(plan);
        if (!quick) continue;
        CAPTURE(text_of(plan));
        CAPTURE(q.workload.name);
        CAPTURE(i);
        REQUIRE(all);
        const LayoutBound sums = bounds.by_sums(family, switches);
        CHECK(sums.iteration.value() <= quick->iteration.value());
        CHECK(sums.memory.value() <= quick->memory.value());
        const LayoutBound early = bounds.of(family, switches);
        CHECK(early.iteration.value() <= quick->iteration.value());
        CHECK(early.memory.value() <= quick->memory.value());
        const Answer<LayoutBound> own = bounds.with_gradients(family, switches);
        REQUIRE(own);
        CHECK(all->iteration.value() <= quick->iteration.value());
        CHECK(all->memory.value() <= quick->memory.value());
        CHECK(own->iteration.value() <= quick->iteration.value());
        CHECK(own->memory.value() <= quick->memory.value());
        tightness += own->iteration / quick->iteration;
        ++checked;
      }
    }
  }
  CHECK(checked > 3000);
  MESSAGE("bounds of " << checked << " layouts are on average " << tightness / static_cast<double>(checked)
                       << " of the step");
}

// Every layout of the space, and with any number of blocks of each stage done again, that fits.
std::vector<Known> everything_with_blocks(const Question& q) {
  LayoutEvaluator evaluator(q.workload, q.cluster, q.options.layout);
  std::vector<Known> all;
  for (const LayoutPlan& plan : layouts_of(q.space, q.workload, q.cluster, q.options.layout.global_batch)) {
    const auto with_blocks = [&](std::int64_t blocks) {
      LayoutPlan some = plan;
      if (blocks > 0) some.layout.recomputation = Recomputation::full;
      some.layout.recomputed_blocks = blocks;
      return some;
    };
    for (std::int64_t blocks = 0; blocks <= 12; ++blocks) {
      if (blocks > 0 && !evaluator.quick(with_blocks(blocks + 1))) break;  // of no stage more: these are all
      const LayoutPlan some = with_blocks(blocks);
      if (const auto quick = evaluator.quick(some); quick && quick->memory <= q.options.layout.memory_cap)
        all.push_back({some, q.cluster.workers(), quick->iteration, quick->memory, 0});
    }
  }
  return all;
}

TEST_CASE("full recomputation of the fewest blocks that fit is the best of all numbers of blocks") {
  Draw draw(2611);
  int won = 0, found_any = 0;
  for (int i = 0; i < 60; ++i) {
    Question q = random_question(draw);
    q.space.recomputation.clear();
    q.space.gradients.clear();
    if (q.space.offloaded >= 4) q.space.offloaded = 0;  // of activations no blocks are tried (a test of its own)
    q.options.layout.memory_cap = median_memory(everything(q));
    const Answer<LayoutSearchResult> found = best_layouts(q.workload, q.cluster, q.space, q.options);
    if (!found) continue;
    check_counts(*found);
    CHECK(found->proved);
    const std::vector<Known> all = everything_with_blocks(q);
    REQUIRE(found->best.empty() == all.empty());
    if (all.empty()) continue;
    ++found_any;
    const LayoutPrediction& best = found->best.front();
    Seconds fastest = all.front().iteration;
    for (const Known& k : all) fastest = std::min(fastest, k.iteration);
    CAPTURE(i);
    CAPTURE(text_of(best.plan));
    CHECK(best.iteration.value() == doctest::Approx(fastest.value()).epsilon(1e-9));
    CHECK(best.memory.total() <= q.options.layout.memory_cap);
    won += best.plan.layout.recomputed_blocks > 0;
  }
  CHECK(found_any > 30);
  CHECK(won > 3);
  MESSAGE("of " << found_any << " spaces " << won << " are best with some blocks done again");
}

TEST_CASE("bounds of some blocks are never above any number of blocks that fits") {
  Draw draw(2612);
  int checked = 0;
  for (int i = 0; i < 60; ++i) {
    Question q = random_question(draw);
    q.space.some_blocks = true;
    q.options.layout.memory_cap = median_memory(everything(q));
    LayoutEvaluator evaluator(q.workload, q.cluster, q.options.layout);
    const LayoutFamilies families(q.space, q.workload, q.cluster, q.options.layout.global_batch);
    LayoutTables tables(q.workload, q.cluster, q.options.layout);
    LayoutBounds bounds(families, tables);
    for (const LayoutFamily& family : families.families()) {
      if (draw.whole(0, 5) != 0 || !bounds.of(family)) continue;
      for (const LayoutSwitches& switches : families.switches(family)) {
        if (!switches.some_blocks) continue;
        const PlanSpec& gradients = families.gradients()[switches.gradients];
        const std::int64_t most = bounds.blocks_of(family, switches).most;
        for (std::uint32_t blocks = 1; blocks <= most; ++blocks) {
          const LayoutPlan plan{layout_of(family, switches, blocks), gradients};
          const auto quick = evaluator.quick(plan);
          if (!quick || quick->memory > q.options.layout.memory_cap) continue;
          CAPTURE(text_of(plan));
          const LayoutBound early = bounds.of(family, switches);
          const Answer<LayoutBound> own = bounds.with_gradients(family, switches);
          REQUIRE(own);
          CHECK(early.iteration.value() <= quick->iteration.value());
          CHECK(own->iteration.value() <= quick->iteration.value());
          CHECK(early.memory.value() <= q.options.layout.memory_cap.value());
          CHECK(own->memory.value() <= q.options.layout.memory_cap.value());
          ++checked;
        }
      }
    }
  }
  CHECK(checked > 300);
}

TEST_CASE("quick and full predictions agree") {
  Draw draw(25);
  for (int i = 0; i < 20; ++i) {
    const Question q = random_question(draw);
    const std::vector<LayoutPlan> plans = layouts_of(q.space, q.workload, q.cluster, q.options.layout.global_batch);
    LayoutEvaluator evaluator(q.workload, q.cluster, q.options.layout);
    for (std::size_t p = 0; p < plans.size(); p += 7) {
      const auto quick = evaluator.quick(plans[p]);
      const auto full = predicted(q.workload, q.cluster, plans[p], q.options.layout);
      CAPTURE(text_of(plans[p]));
      REQUIRE(static_cast<bool>(quick) == static_cast<bool>(full));
      if (!quick) continue;
      CHECK(quick->iteration == full->iteration);
      CHECK(quick->memory == full->memory.total());
    }
  }
}

TEST_CASE("what fits nowhere names how many devices would hold it") {
  Device device = test::layout_device(DataType::bf16);
  const Workload workload =
      workload_of(model_shape_of("llama:hidden=1024,layers=8,heads=8,seq=512,dtype=bf16,gradients=f32"), device);
  const Cluster cluster = cluster_of_flags(8, 4, "25GbE");
  LayoutSearchOptions options;
  options.layout.global_batch = 64;
  LayoutSearchOptions least = options;
  least.objective = Objective::least_memory;
  const auto found = best_layouts(workload, cluster, {}, least);
  REQUIRE(found);
  REQUIRE_FALSE(found->best.empty());
  const Bytes smallest = found->best.front().memory.total();
  const auto nothing = [&](Bytes cap) {
    options.layout.memory_cap = cap;
    const auto none = best_layouts(workload, cluster, {}, options);
    REQUIRE(none);
    CHECK(none->best.empty());
    return none->nothing;
  };
  CHECK(nothing(0.95 * smallest).find("; 16 devices hold it: layout(") != std::string::npos);
  CHECK(nothing(0.9 * smallest).find(" devices hold it: layout(") != std::string::npos);
  CHECK(nothing(Bytes(1000)).find("; not even 512 devices hold it") != std::string::npos);
}

TEST_CASE("a space in which nothing is left says why") {
  Draw draw(26);
  const Workload workload = workload_of(model_shape_of("gpt:hidden=256,layers=4,heads=8,seq=128"), random_device(draw));
  Cluster cluster = cluster_of_flags(8, 4, "25GbE");
  LayoutSearchOptions options;
  options.layout.global_batch = 16;
  LayoutSpace space;
  space.tensor = {3};
  const auto none = best_layouts(workload, cluster, space, options);
  REQUIRE_FALSE(none);
  CHECK(none.reason() ==
        "no layout in the space: nothing divides 8 devices and a global batch of 16 as asked for: tp 3");

  space.tensor = {};
  options.layout.memory_cap = Bytes(2e6);
  const auto small = best_layouts(workload, cluster, space, options);
  REQUIRE(small);
  CHECK(small->best.empty());
  CHECK(small->frontier.empty());
  CHECK(small->proved);
  check_counts(*small);
  CHECK(small->evaluated == 0);
  CHECK(small->nothing.starts_with("no layout fits in 1.9 MiB of device memory: the smallest, layout("));
  CHECK(small->nothing.find("; not even 512 devices hold it") != std::string::npos);
  // What is told of the smallest is what it takes with all its micro-batches.
  for (const char* schedule : {"1f1b", "gpipe"})
    for (const double batch : {16.0, 4096.0}) {
      CAPTURE(schedule);
      CAPTURE(batch);
      LayoutSpace some = space;
      some.schedules = {pipeline_schedule(schedule)};
      LayoutSearchOptions of = options;
      of.layout.global_batch = batch;
      const auto none_fits = best_layouts(workload, cluster, some, of);
      REQUIRE(none_fits);
      const std::string& text = none_fits->nothing;
      const std::size_t from = text.find("layout("), to = text.find(", takes ");
      REQUIRE(from != std::string::npos);
      REQUIRE(to != std::string::npos);
      of.layout.memory_cap = Bytes(1e18);
      const auto p = predicted(workload, cluster, layout_plan_of(text.substr(from, to - from)), of.layout);
      REQUIRE(p);
      CHECK(text.substr(to).starts_with(", takes " + text_of(p->memory.total())));
    }

  options.layout.memory_cap = Bytes(0);
  options.target_step = microseconds(1);
  const auto slow = best_layouts(workload, cluster, space, options);
  REQUIRE(slow);
  CHECK(slow->best.empty());
  CHECK(slow->nothing.starts_with("no layout takes at most 1.000 us a step: the shortest, layout("));
}

TEST_CASE("a search that is stopped says how far it may be from the best") {
  Draw draw(27);
  const Workload workload =
      workload_of(model_shape_of("gpt:hidden=512,layers=12,heads=8,seq=512"), random_device(draw));
  const Cluster cluster = cluster_of_flags(64, 8, "100GbE");
  LayoutSearchOptions options;
  options.layout.global_batch = 512;
  options.threads = 2;
  const auto whole = best_layouts(workload, cluster, {}, options);
  REQUIRE(whole);
  REQUIRE(whole->proved);
  std::uint64_t last = 0;
  options.frontier = true;  // more to do after the best is found
  options.least_between_progress = 1;
  options.progress = [&](std::uint64_t done, std::uint64_t total, Seconds best) {
    CHECK(done > last);
    CHECK(done <= total);
    CHECK(best >= Seconds(0));
    last = done;
    return best == Seconds(0);  // the first one will do
  };
  const auto stopped = best_layouts(workload, cluster, {}, options);
  CHECK_FALSE(stopped->proved);
  CHECK(stopped->open > 0);
  check_counts(*stopped);
  REQUIRE_FALSE(stopped->best.empty());
  CHECK(stopped->gap >= 0);
  CHECK(stopped->gap <= 1);
  CHECK(stopped->best[0].iteration >= whole->best[0].iteration);
  // The gap is a promise: no layout is shorter than that.
  CHECK(stopped->best[0].iteration * (1 - stopped->gap) <= whole->best[0].iteration * (1 + 1e-12));

  options.frontier = false;
  options.progress = nullptr;
  options.time_budget = Seconds(1e-9);
  const auto nothing = best_layouts(workload, cluster, {}, options);
  CHECK_FALSE(nothing->proved);
  CHECK(nothing->best.empty());
  CHECK(nothing->gap == 1);
  CHECK(nothing->nothing == "nothing was found in the time given");
}

TEST_CASE("layout search: without attention selective recomputation is no choice of its own") {
  Device device;
  device.name = "accelerator";
  device.memory_bandwidth = BytesPerSecond(1e12);
  device.matrix_rate.fill(1e14);
  const Cluster cluster = cluster_of_flags(4, 4, "10GbE");
  const auto selective = [&](const std::string& model, const LayoutSpace& space) {
    const std::vector<LayoutPlan> all = layouts_of(space, workload_of(model_shape_of(model), device), cluster, 64);
    return std::count_if(all.begin(), all.end(),
                         [](const LayoutPlan& plan) { return plan.layout.recomputation == Recomputation::selective; });
  };
  LayoutSpace space;
  CHECK(selective("resnet50:", space) == 0);
  CHECK(selective("gpt:hidden=256,layers=4,heads=4,seq=128", space) > 0);
  space.recomputation = {Recomputation::selective};
  CHECK(selective("resnet50:", space) > 0);
}
