// Fuzzes the readers of everything but traces: profiles, clusters, devices, unequal devices, benchmark logs, tables and
// the text of plans and of models. The first byte chooses the reader; whatever follows is either read or refused by an
// InputError. What was read is written and read again: it must be the same.
#include <stepcast/base/text.hpp>
#include <stepcast/calibration/benchmark_logs.hpp>
#include <stepcast/calibration/links_of_steps.hpp>
#include <stepcast/cluster/cluster.hpp>
#include <stepcast/cluster/fit.hpp>
#include <stepcast/placement/placement.hpp>
#include <stepcast/plan/strategy.hpp>
#include <stepcast/profile/profile.hpp>
#include <stepcast/roofline/device.hpp>
#include <stepcast/roofline/model_shape.hpp>

#include <cstdint>
#include <cstdlib>
#include <string_view>

using namespace stepcast;

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void read_document(char reader, std::string_view text) {
  switch (reader) {
    case 'p': {
      const std::string once = json_of(profile_of_json(text, "fuzz"));
      require(json_of(profile_of_json(once, "written")) == once);
      return;
    }
    case 'c': {
      const std::string once = json_of(cluster_of_json(text, "fuzz"));
      require(json_of(cluster_of_json(once, "written")) == once);
      return;
    }
    case 'v': {
      const std::string once = json_of(device_of_json(text, "fuzz"));
      require(json_of(device_of_json(once, "written")) == once);
      return;
    }
    case 'm': {
      const ModelShape once = model_shape_of(text);
      require(flaw_of(once).empty() && model_shape_of(once.name).name == once.name);
      return;
    }
    case 'n':
    case 't': {
      const auto measured = reader == 'n' ? collectives_of_nccl_tests(text, "fuzz") : collectives_of_csv(text, "fuzz");
      for (const MeasuredCollective& m : measured)
        if (m.sizes.size() >= 2) (void)piecewise_fit(m.sizes, m.times);
      return;
    }
    case 'j':
      for (const JobStep& step : job_steps_of_csv(text, "fuzz", plan_spec_of("ddp")))
        require(step.time > Seconds(0) && step.workers >= 1 && !step.profile.empty());
      return;
    case 'x':
      (void)link_clusters(unequal_cluster_of_json(text, "fuzz"));
      return;
    case 's': {
      const std::string once = text_of(plan_spec_of(text));
      require(text_of(plan_spec_of(once)) == once);
      return;
    }
    case 'u':
      require(bytes_of(text, "fuzz") >= Bytes(0));
      return;
    case 'd':
      require(seconds_of(text, "fuzz") >= Seconds(0));
      return;
    default:
      require(bandwidth_of(text, "fuzz") > BytesPerSecond(0));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  try {
    read_document(static_cast<char>(data[0]), {reinterpret_cast<const char*>(data) + 1, size - 1});
  } catch (const InputError&) {}
  return 0;
}
