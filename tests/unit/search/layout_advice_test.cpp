// Advice on layouts: how far the winner holds on other networks, against looking at every layout there.
#include "helpers/layout_machines.hpp"

#include <stepcast/base/statistics.hpp>
#include <stepcast/prediction/recommend.hpp>
#include <stepcast/search/layout_advice.hpp>
#include <stepcast/search/preference.hpp>

#include <doctest/doctest.h>

#include <algorithm>

using namespace stepcast;

TEST_CASE("on other networks the winner holds unless a layout of the whole space is faster by more than is resolved") {
  int better = 0, holds = 0;
  for (const char* network : {"1GbE", "10GbE", "25GbE", "400 Gb/s"})
    for (const char* model :
         {"gpt:hidden=1024,layers=8,heads=8,seq=512", "gpt:hidden=2048,layers=4,heads=16,seq=256"}) {
      Device device = test::layout_device(DataType::f16);
      device.relative_error = 0.09;
      const Workload workload = workload_of(model_shape_of(model), device);
      const Cluster cluster = cluster_of_flags(8, 4, network);
      LayoutAdviceOptions options;
      options.search.layout.global_batch = 64;
      const Answer<LayoutAdvice> advice = layout_advice(workload, cluster, {}, options);
      REQUIRE(advice);
      REQUIRE(advice->networks.size() == 2);
      for (const BandwidthCheck& check : advice->networks) {
        CAPTURE(network);
        CAPTURE(check.factor);
        REQUIRE(check.whole_space);
        const Answer<LayoutSearchResult> there =
            best_layouts(workload, with_bandwidth_scaled(cluster, check.factor), {}, options.search);
        REQUIRE(there);
        const double resolved = std::max(indifference, resolution_of(workload));
        if (there->best.front().iteration < check.own * (1 - resolved)) {
          // Listed layouts are tuned, which what is searched there is not.
          CHECK_FALSE(check.better.empty());
          CHECK(check.best <= there->best.front().iteration);
          ++better;
        } else if (check.better.empty()) {
          CHECK(check.best >= check.own * (1 - resolved));
          ++holds;
        }
      }
    }
  CHECK(better > 0);
  CHECK(holds > 0);
}
