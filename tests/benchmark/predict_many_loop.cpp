// The C++ side of predict_many.py: the loop of an autotuner over thousands of distinct plans of the 161-tensor
// ResNet-50, on one thread, by Model::iterations.
//
//     predict_many_loop FOLDER
//
// It writes profile.json into the folder, and for each row of the comparison ROW.plans, the texts of its plans, one a
// line; where they differ in one option alone also ROW.values, that option's values as doubles. Then it says one line
// "ROW STRATEGY OPTION" a row ("- -" for mixtures), and an empty one. For each row whose name it is told on standard
// input it evaluates the plans, says the seconds of CPU that this took, and leaves the step times in ROW.seconds.
//
// Plans follow in random order, and each one has another step time than the one before, so that it groups otherwise.
#include "resnet50_profile.hpp"

#include <stepcast/prediction/model.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iostream>
#include <limits>
#include <random>
#include <set>
#include <span>
#include <string>
#include <vector>

using namespace stepcast;

namespace {

constexpr std::size_t many = 20'000;

struct Row {
  std::string name;
  std::vector<std::string> strategies;  ///< each plan is one of them
  std::vector<PlanSpec> plans{};
  [[nodiscard]] bool one_option() const { return strategies.size() == 1; }  ///< its first one, the size of buckets
};

double drawn(const OptionSpec& option, std::mt19937& random) {
  const bool whole = option.tune_low == 0 && option.tune_high == 0;
  const double low = whole ? option.low : option.tune_low, high = whole ? option.high : option.tune_high;
  const double value = low > 0 ? std::exp(std::uniform_real_distribution<double>(std::log(low), std::log(high))(random))
                               : std::uniform_real_distribution<double>(low, high)(random);
  const bool fraction = option.kind == OptionKind::number || option.kind == OptionKind::duration;
  return std::clamp(fraction ? value : std::round(value), low, high);
}

void draw(Row& row, const Model& model) {
  std::mt19937 random(1);
  std::set<std::string> texts;
  Model::Scratch scratch;
  double before = 0;
  while (row.plans.size() < many) {
    PlanSpec plan = plan_spec_of(row.strategies[random() % row.strategies.size()]);
    const auto options = plan.strategy->options;
    for (std::size_t o = 0; o < (row.one_option() ? 1 : options.size()); ++o)
      if (options[o].tuned) plan.options[o] = drawn(options[o], random);
    const Answer<Seconds> time = model.iteration(plan, scratch);
    if (!time || time->value() == before || !texts.insert(text_of(plan)).second) continue;
    before = time->value();
    row.plans.push_back(plan);
  }
}

/// Strategies of exact training by collectives that have anything to draw.
std::vector<std::string> all_strategies(const Model& model) {
  std::vector<std::string> names;
  Model::Scratch scratch;
  for (const Strategy& s : strategies()) {
    const PlanSpec plan{&s, standard_options(s)};
    const bool tuned = std::ranges::any_of(s.options, &OptionSpec::tuned);
    if (tuned && s.fidelity == Fidelity::exact && !needs_servers(plan) && model.iteration(plan, scratch))
      names.emplace_back(s.name);
  }
  return names;
}

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void write_doubles(const std::string& path, std::span<const double> values) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size_bytes()));
}

void write_plans(const Row& row, const std::string& folder) {
  std::ofstream texts(folder + "/" + row.name + ".plans");
  std::vector<double> values;
  for (const PlanSpec& plan : row.plans) {
    texts << text_of(plan) << '\n';
    values.push_back(plan.options[0]);
  }
  if (row.one_option()) write_doubles(folder + "/" + row.name + ".values", values);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "predict_many_loop FOLDER\n"), 2;
  const std::string folder = argv[1];
  const Model model(resnet50(true), cluster_of_flags(64, 8, "25GbE"));
  std::ofstream(folder + "/profile.json") << json_of(model.profile());
  std::vector<Row> rows{
      {"ddp", {"ddp"}}, {"dear", {"dear"}}, {"fused", {"ddp", "dear"}}, {"all", all_strategies(model)}};
  for (Row& row : rows) {
    draw(row, model);
    write_plans(row, folder);
    const PlanSpec& plan = row.plans.front();
    if (row.one_option())
      std::cout << row.name << ' ' << plan.strategy->name << ' ' << plan.strategy->options[0].name << '\n';
    else std::cout << row.name << " - -\n";
  }
  std::cout << std::endl;
  std::vector<double> seconds(many);
  for (std::string name; std::getline(std::cin, name);) {
    const auto row = std::ranges::find(rows, name, &Row::name);
    if (row == rows.end()) return 2;
    const double begin = cpu_seconds();
    model.iterations(row->plans, seconds);
    const double taken = cpu_seconds() - begin;
    write_doubles(folder + "/" + name + ".seconds", seconds);
    std::cout << std::to_string(taken) << std::endl;
  }
  return 0;
}
