// best_bucket TRACE WORKERS PER_NODE NETWORK OTHER_NETWORK: which bucket size is best for a training job, out of two
// thousand for each of two strategies, and what the best one gives. The same program stands beside this one in C and in
// Python.
#include <stepcast/base/error.hpp>
#include <stepcast/baseline/self_check.hpp>
#include <stepcast/cluster/cluster_description.hpp>
#include <stepcast/documents/documents.hpp>
#include <stepcast/extraction/profile_of.hpp>
#include <stepcast/prediction/model.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace {

std::string bytes_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw stepcast::InputError(path, "a file", "none that can be read");
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The position of the least number; NaN, of plans that cannot run, is none. `seconds.size()` when there is none.
std::size_t least_of(std::span<const double> seconds) {
  std::size_t best = seconds.size();
  for (std::size_t i = 0; i < seconds.size(); ++i)
    if (!std::isnan(seconds[i]) && (best == seconds.size() || seconds[i] < seconds[best])) best = i;
  return best;
}

std::size_t option_of(const stepcast::PlanSpec& plan, std::string_view name) {
  const auto options = plan.strategy->options;
  const auto has_name = [&](const stepcast::OptionSpec& option) { return option.name == name; };
  return static_cast<std::size_t>(std::find_if(options.begin(), options.end(), has_name) - options.begin());
}

int best_bucket(const std::string& trace, stepcast::ClusterDescription cluster, const std::string& other_network) {
  // What a step costs, and whether the model can rebuild the steps that it was told.
  const std::string bytes = bytes_of_file(trace);
  const stepcast::Source source{trace, std::as_bytes(std::span(bytes))};
  const stepcast::Documents documents = stepcast::documents_of({&source, 1});
  const std::string caution = stepcast::self_check_of(documents).caution();
  if (!caution.empty()) std::cout << "caution: " << caution << '\n';
  const stepcast::Model model(stepcast::profile_of(documents, {}), stepcast::cluster_of(cluster, {}, ""));

  std::vector<double> buckets(2000), seconds(buckets.size());
  for (std::size_t i = 0; i < buckets.size(); ++i) buckets[i] = 32768.0 * static_cast<double>(i + 1);
  stepcast::PlanSpec best;
  double least = 0;
  for (const char* strategy : {"ddp", "dear"}) {
    stepcast::PlanSpec plan = stepcast::plan_spec_of(strategy);
    const std::size_t bucket = option_of(plan, "bucket");
    model.iterations(plan, bucket, buckets, seconds);
    const std::size_t at = least_of(seconds);
    if (at == seconds.size()) continue;  // cannot run on this cluster
    plan.options[bucket] = buckets[at];
    std::cout << strategy << ": of " << buckets.size() << " bucket sizes " << buckets[at] << " bytes is the best, "
              << seconds[at] << " s\n";
    if (!best.strategy || seconds[at] < least) best = plan, least = seconds[at];
  }
  if (!best.strategy) return 1;

  const stepcast::Answer<stepcast::Prediction> answer = model.prediction(best);
  std::cout << "best: " << best.strategy->name << ", step " << answer->iteration.value() << " s (80 % interval "
            << answer->interval_low.value() << " to " << answer->interval_high.value() << "), of which "
            << answer->breakdown.exposed_communication.value() << " s wait for " << answer->messages << " messages\n";

  // The same on another network: what a network does not change is not computed again.
  cluster.network = other_network;
  const stepcast::Model elsewhere = model.on(stepcast::cluster_of(cluster, {}, ""));
  stepcast::Model::Scratch scratch;  // of this thread, for any number of plans
  if (const stepcast::Answer<stepcast::Seconds> step = elsewhere.iteration(best, scratch))
    std::cout << "on " << other_network << ": " << step->value() << " s\n";
  return 0;
}

}  // namespace

int main(int count, char** words) {
  if (count != 6) {
    std::cerr << "usage: best_bucket TRACE WORKERS PER_NODE NETWORK OTHER_NETWORK\n";
    return 2;
  }
  std::cout << std::setprecision(15);
  try {
    return best_bucket(words[1], {.workers = words[2], .per_node = words[3], .network = words[4]}, words[5]);
  } catch (const stepcast::InputError& error) {
    std::cerr << error.what() << '\n';
    return 2;
  }
}
