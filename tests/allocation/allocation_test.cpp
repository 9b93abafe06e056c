// Allocation: the loop of Model::iteration takes no memory once its buffers have grown. A program of its own, because
// it replaces operator new.
#include <stepcast/prediction/model.hpp>
#include <stepcast/roofline/shipped_models.hpp>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <new>

namespace {
std::atomic<long> allocations{0};

void* counted(std::size_t bytes) {
  ++allocations;
  if (void* p = std::malloc(bytes > 0 ? bytes : 1)) return p;
  throw std::bad_alloc();
}
}  // namespace

void* operator new(std::size_t bytes) { return counted(bytes); }
void* operator new[](std::size_t bytes) { return counted(bytes); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }

using namespace stepcast;

namespace {

Profile resnet50() {
  const ModelDescription& model = *shipped_model("resnet50");
  Profile p;
  p.model = model.name;
  p.device = "device";
  const auto n = static_cast<std::uint32_t>(model.parameters.size());
  for (std::uint32_t l = 0; l < n; ++l) {
    PassCost cost;
    cost.host = microseconds(20), cost.device = microseconds(60 + l % 7);
    p.layers.push_back({model.parameters[l].name, cost, cost});
  }
  for (std::uint32_t l = n; l-- > 0;) {
    p.backward_order.push_back(l);
    p.tensors.push_back(model.parameters[l]);
    p.tensors.back().layer = l;
  }
  return p;
}

// The plan with its first option at point i of its range, in no particular order.
void vary(PlanSpec& plan, int i) {
  if (plan.strategy->options.empty() || !plan.strategy->options[0].tuned) return;
  const OptionSpec& option = plan.strategy->options[0];
  const double place = i * 0.6180339887498949, share = place - std::floor(place);
  plan.options[0] = option.tune_low * std::pow(option.tune_high / option.tune_low, share);
}

// Allocations of evaluations of plans that were seen before, in another order; -1 where the plan cannot run.
long allocations_of(const Model& model, const Model& other, PlanSpec plan, Model::Scratch& scratch) {
  constexpr int plans = 40;
  if (!model.iteration(plan, scratch)) return -1;
  const auto evaluate = [&](const Model& m, int from, int to) {
    for (int i = from; i < to; ++i) {
      vary(plan, i);
      if (!m.iteration(plan, scratch)) std::abort();
    }
  };
  // The largest plan and the smallest one are among the first.
  if (!plan.strategy->options.empty() && plan.strategy->options[0].tuned) {
    const OptionSpec& option = plan.strategy->options[0];
    for (const double edge : {option.tune_low, option.tune_high}) {
      plan.options[0] = edge;
      if (!model.iteration(plan, scratch)) std::abort();
    }
  }
  // Queues may be longest for plans in between, so that all are seen once; then nothing grows, whatever their order.
  evaluate(model, 0, 2 * plans);
  evaluate(other, 0, 2 * plans);
  const long before = allocations;
  evaluate(model, plans, 2 * plans);
  evaluate(other, 0, plans);
  return allocations - before;
}

}  // namespace

int main() {
  Cluster cluster = cluster_of_flags(64, 8, "25GbE");
  cluster.servers = 4;
  const Model model(resnet50(), cluster);
  cluster.network.bandwidth *= 2;
  const Model other = model.on(cluster);
  Model::Scratch scratch;
  int failures = 0, checked = 0;
  for (const Strategy& s : strategies()) {
    const long found = allocations_of(model, other, {&s, standard_options(s)}, scratch);
    if (found < 0) continue;
    ++checked;
    if (found > 0) {
      ++failures;
      std::printf("FAILED: %.*s allocates %ld times in 80 plans\n", static_cast<int>(s.name.size()), s.name.data(),
                  found);
    }
  }
  std::printf("%d strategies, %d of them allocate\n", checked, failures);
  // Modifiers rewrite plans in storage of their own: told, not checked.
  for (const Modifier& m : modifiers()) {
    const Strategy& base = *strategy_named(m.usual_base.empty() ? "ddp" : m.usual_base);
    const PlanSpec plan{&base, standard_options(base), {}, {{&m, standard_options(m.options)}}};
    const long found = allocations_of(model, other, plan, scratch);
    if (found > 0)
      std::printf("%.*s: %.1f allocations a plan\n", static_cast<int>(m.name.size()), m.name.data(),
                  static_cast<double>(found) / 80);
  }
  return failures > 0 || checked < 15;
}
