// An outside program: from a trace to the best plan, with the installed headers alone.
#include <stepcast/cluster.hpp>
#include <stepcast/format.hpp>
#include <stepcast/profile_of.hpp>
#include <stepcast/recommend.hpp>
#include <stepcast/replay.hpp>
#include <stepcast/report.hpp>
#include <stepcast/text.hpp>

#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

int main(int, char** argv) {
  std::ifstream file(argv[1], std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  const stepcast::Trace trace = stepcast::trace_of({argv[1], std::as_bytes(std::span(bytes))});
  const stepcast::Profile profile = stepcast::profile_of(trace);
  const stepcast::Cluster cluster = stepcast::cluster_of_flags(16, 4, "10GbE");
  const stepcast::Ranking ranking = stepcast::recommended(profile, cluster);
  const stepcast::Prediction& best = ranking.exact.front().prediction;
  std::cout << text_of(best.plan) << " " << stepcast::text_of(best.iteration) << '\n';
  return best.iteration <= ranking.baseline.iteration ? 0 : 1;
}
