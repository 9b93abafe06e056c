// A prepared profile and cluster, asked for plans by several threads, each with scratch space of its own.
#include <stepcast/base/helping_threads.hpp>
#include <stepcast/base/spec_reader.hpp>
#include <stepcast/prediction/hot_loop.hpp>
#include <stepcast/prediction/model.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <exception>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace stepcast {
namespace {

// The first option without a value, in words; empty if all have one.
std::string option_left_open(std::string_view owner, std::span<const OptionSpec> options, const OptionValues& values) {
  for (std::size_t i = 0; i < options.size(); ++i)
    if (std::isnan(values[i]))
      return "option '" + std::string(options[i].name) + "' of '" + std::string(owner) +
             "' is left open: tune it first, or give it a value";
  return {};
}
std::string option_left_open(const PlanSpec& plan) {
  std::string open = option_left_open(plan.strategy->name, plan.strategy->options, plan.options);
  for (const ModifierSpec& m : plan.modifiers)
    if (open.empty()) open = option_left_open(m.modifier->name, m.modifier->options, m.options);
  return open;
}

// Calls `work` with the runs [from, to) that make up [0, n), on several threads; rethrows what one of them throws.
template <class Work>
void in_runs(std::size_t n, unsigned threads, const Work& work) {
  constexpr std::size_t run = 256;
  const std::size_t runs = (n + run - 1) / run;
  std::atomic<std::size_t> next{0};
  std::vector<std::exception_ptr> thrown(
      std::max<std::size_t>(1, std::min<std::size_t>(threads_or_all(threads), runs)));
  const auto helper = [&](std::exception_ptr& failure) {
    try {
      work([&](std::size_t& from, std::size_t& to) {
        const std::size_t r = next.fetch_add(1);
        from = std::min(n, r * run), to = std::min(n, from + run);
        return r < runs;
      });
    } catch (...) { failure = std::current_exception(); }
  };
  {
    const auto help = [&](std::size_t i) { helper(thrown[i]); };
    const std::vector<std::jthread> others = helping_threads(thrown.size(), help);
    help(0);
  }
  for (const std::exception_ptr& failure : thrown)
    if (failure) std::rethrow_exception(failure);
}

}  // namespace

struct Model::Prepared : PreparedJob {
  using PreparedJob::PreparedJob;
};

struct Model::Scratch::State {
  HotLoop loop;
};

Model::Scratch::Scratch() : state_(std::make_unique<State>()) {}
Model::Scratch::Scratch(Scratch&&) noexcept = default;
Model::Scratch& Model::Scratch::operator=(Scratch&&) noexcept = default;
Model::Scratch::~Scratch() = default;

Model::Model(Profile profile, Cluster cluster)
    : Model(std::make_shared<const Prepared>(
          std::make_shared<const PreparedProfile>(updating_all(checked(std::move(profile), "profile"))),
          checked(std::move(cluster), "cluster"))) {}
Model::Model(std::shared_ptr<const Prepared> prepared) : prepared_(std::move(prepared)) {}

const Profile& Model::profile() const { return prepared_->given->profile; }
const Cluster& Model::cluster() const { return prepared_->cluster; }

Answer<Seconds> Model::iteration(const PlanSpec& plan, Scratch& scratch) const {
  if (std::string open = option_left_open(plan); !open.empty()) return Inapplicable{std::move(open)};
  return scratch.state_->loop.iteration(*prepared_, plan);
}

void Model::iterations(std::span<const PlanSpec> plans, std::span<double> seconds, unsigned threads) const {
  in_runs(plans.size(), threads, [&](const auto& next_run) {
    Scratch scratch;
    for (std::size_t from = 0, to = 0; next_run(from, to);)
      for (std::size_t i = from; i < to; ++i) {
        const Answer<Seconds> time = iteration(plans[i], scratch);
        seconds[i] = time ? time->value() : std::nan("");
      }
  });
}

void Model::iterations(const PlanSpec& plan, std::size_t option, std::span<const double> values,
                       std::span<double> seconds, unsigned threads) const {
  if (option >= plan.strategy->options.size())
    throw InputError("option", "a number below " + std::to_string(plan.strategy->options.size()),
                     std::to_string(option));
  in_runs(values.size(), threads, [&](const auto& next_run) {
    Scratch scratch;
    PlanSpec varied = plan;
    for (std::size_t from = 0, to = 0; next_run(from, to);)
      for (std::size_t i = from; i < to; ++i) {
        seconds[i] = std::nan("");
        if (!is_value_of(plan.strategy->options[option], values[i])) continue;
        varied.options[option] = values[i];
        if (const Answer<Seconds> time = iteration(varied, scratch)) seconds[i] = time->value();
      }
  });
}

Answer<Prediction> Model::prediction(const PlanSpec& plan) const {
  return predicted(profile(), prepared_->cluster, plan);
}

Ranking Model::recommendation(const RecommendOptions& options) const {
  return recommended(profile(), prepared_->cluster, options);
}

Model Model::on(Cluster cluster) const {
  return Model(std::make_shared<const Prepared>(prepared_->given, checked(std::move(cluster), "cluster")));
}

}  // namespace stepcast
