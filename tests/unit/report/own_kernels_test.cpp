// What frameworks take and hold by their own kernels, beside an answer by Megatron-LM's, against asking for them.
#include <stepcast/baseline/self_check.hpp>
#include <stepcast/cluster/device_match.hpp>
#include <stepcast/report/layout_report.hpp>
#include <stepcast/workload/workload.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

using namespace stepcast;

namespace {

PreparedQuestion question_of(const std::string& model) {
  Question q;
  q.shape = model_shape_of(model);
  q.device = device_named("h100-sxm5-80gb");
  q.profile = described_profile(*q.shape, *q.device, 1);
  q.cluster = with_device(cluster_of_flags(8, 8, "400 Gb/s"), q.device);
  q.global_batch = 64;
  return PreparedQuestion(q);
}

}  // namespace

TEST_CASE("by its own kernels a framework takes what it takes when it is asked for") {
  for (const char* model : {"llama3-8b", "llama3-8b:kernels=megatron", "llama3-8b:kernels=compiled"}) {
    const PreparedQuestion question = question_of(model);
    const Answer<Prediction> p = question.answer(plan_of("layout(zero=3, mb=1)/ddp"));
    REQUIRE(p);
    const std::vector<OwnKernels> own = by_own_kernels(question, *p->layout, "");
    CHECK(own.empty() == (std::string(model) != "llama3-8b"));
    CHECK(by_own_kernels(question, *p->layout, "pytorch").empty());
    for (const OwnKernels& by : own) {
      CAPTURE(by.framework);
      CHECK(by.framework != "megatron");
      CHECK(by.framework != "horovod");  // which divides nothing
      LayoutOptions options = question.layout_options();
      options.memory = memory_options_of(by.framework);
      options.memory_cap = Bytes(1e15);
      const Answer<LayoutPrediction> asked =
          predicted(workload_of(model_shape_of(model_run_by(model, by.framework)), *question.workload()->device),
                    question.cluster(), p->layout->plan, options);
      REQUIRE(asked);
      CHECK(by.iteration == asked->iteration);
      CHECK(by.memory == asked->memory.total());
    }
    if (own.empty()) continue;
    CHECK(own.size() == 3);
    // The settings of a framework that does not fit by its own kernels are not given.
    const LayoutReport report = layout_report_of(question, SelfCheck{}, *p->layout);
    for (const LaunchSettings& s : report.settings) {
      const auto by = std::ranges::find(own,
                                        s.framework == "DeepSpeed"    ? "deepspeed"
                                        : s.framework == "torchtitan" ? "torchtitan"
                                                                      : "pytorch",
                                        &OwnKernels::framework);
      if (s.framework == "Megatron-LM") CHECK_FALSE(s.text.empty());
      else if (by->memory > question.cluster().device_memory) CHECK(s.text.empty());
    }
    REQUIRE(report.by_pytorch);
    CHECK(report.by_pytorch->framework == "pytorch");
  }
}
