// Roles of collectives: what each kind of evidence says, and what public traces of known jobs hold.
#include <stepcast/anatomy/collective_roles.hpp>
#include <stepcast/documents/reading.hpp>
#include <stepcast/extraction/profile_of.hpp>
#include <stepcast/profile/profile.hpp>

#include "helpers/hand_trace.hpp"
#include "helpers/shared_data.hpp"

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast {
namespace {

/// A step of two layers, of which the second is an operator of the user's, with collectives put into it.
class StepWithCollectives {
 public:
  StepWithCollectives() {
    hand_.op(0, "aten::addmm", 100, 150);
    hand_.op(0, "RowParallel", 200, 250);
    hand_.op(0, "autograd::engine::evaluate_function: RowParallelBackward", 300, 390);
    hand_.op(0, "RowParallelBackward", 301, 389);
    gradient(400);
    hand_.op(0, "autograd::engine::evaluate_function: AddmmBackward0", 500, 590);
    hand_.op(0, "AddmmBackward0", 501, 589);
    gradient(600);
    hand_.annotation(0, "Optimizer.step#Adam.step", 800, 900);
  }

  /// A call of 4 us with so many elements of four bytes, in a process group with that description.
  StepWithCollectives& call(std::string_view name, double begin, std::int64_t elements, std::string_view group = {}) {
    hand_.op(0, "c10d::" + std::string(name), begin, begin + 4);
    called_.push_back({std::string(name), std::string(group), elements, std::int64_t(begin * 1000)});
    return *this;
  }
  /// The same within an annotation.
  StepWithCollectives& within(std::string_view annotation, std::string_view name, double begin, std::int64_t elements) {
    hand_.annotation(0, annotation, begin - 1, begin + 8);
    return call(name, begin, elements);
  }
  StepWithCollectives& kernel_that_nobody_launched(std::string_view name, double begin) {
    hand_.add(EventKind::kernel, hand_.device(20), name, begin, begin + 4);
    return *this;
  }

  /// "gradient_bucket metrics": in the order of time.
  [[nodiscard]] std::string roles() const {
    Trace trace = hand_.trace();
    const auto id = [&](std::string_view text) {
      trace.strings.emplace_back(text);
      return StringId(trace.strings.size() - 1);
    };
    for (const Call& c : called_)
      for (Event& e : trace.events)
        if (e.start_ns == c.start_ns && trace.text(e.name) == "c10d::" + c.name) {
          CollectiveArguments arguments;
          arguments.name = id(c.name), arguments.dtype = id("Float"), arguments.group_description = id(c.group);
          arguments.in_elements = arguments.out_elements = c.elements;
          e.collective = std::uint32_t(trace.collectives.size());
          trace.collectives.push_back(arguments);
        }
    const TraceIndex index(trace);
    const StepWindow window{0, 1'000'000};
    std::string out;
    for (const CollectiveRole role :
         roles_of(collectives_in(index, std::span(&window, 1)).front(), index, anatomy_of(index, window), {}))
      out += (out.empty() ? "" : " ") + std::string(name_of(role));
    return out;
  }

 private:
  void gradient(double begin) {
    hand_.op(0, "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", begin, begin + 50);
    hand_.op(0, "torch::autograd::AccumulateGrad", begin + 1, begin + 5);
  }

  struct Call {
    std::string name, group;
    std::int64_t elements = 0, start_ns = 0;
  };
  test::HandTrace hand_;
  std::vector<Call> called_;
};

using With = StepWithCollectives;
constexpr std::int64_t large = 1'000'000;

TEST_CASE("role: DDP's buffers and buckets, the update's parameters, a norm") {
  CHECK(With()
            .within("DistributedDataParallel.forward", "broadcast_", 50, 100)
            .call("allreduce_", 420, large)
            .call("allreduce_", 620, 1)  // a small bucket is no metric
            .call("allreduce_", 700, 1)
            .call("_allgather_base_", 850, 1)
            .call("_allgather_base_", 910, large)
            .roles() == "buffers gradient_bucket gradient_bucket metrics gather_after_update gather_after_update");
  CHECK(With().call("broadcast_", 50, large).roles() == "unknown");
  CHECK(With().call("broadcast_", 850, large).roles() == "gather_after_update");
}

TEST_CASE("role: FSDP's gathers by the pass they are issued in, its scatters, and its sums over replicas") {
  CHECK(With()
            .within("FSDP::pre_forward (0)", "_allgather_base_", 50, large)
            .within("FullyShardedDataParallel._pre_forward", "_allgather_base_", 160, large)
            .within("FSDP::pre_backward (1)", "_allgather_base_", 320, large)
            .within("FSDP::post_backward_reduce (1)", "_reduce_scatter_base_", 460, large)
            .within("FSDP::post_backward_reduce (1)", "allreduce_", 480, large)
            .within("FSDP::post_backward_reduce (0)", "_reduce_scatter_base_", 680, large)
            .roles() ==
        "parameter_gather_forward parameter_gather_forward parameter_gather_backward gradient_scatter gradient_bucket "
        "gradient_scatter");
}

TEST_CASE("role: within a layer is what its operator and its backward node issue") {
  CHECK(With().call("allreduce_", 210, large).call("allreduce_", 350, large).roles() == "within_layer within_layer");
  CHECK(With().call("_allgather_base_", 210, large).call("_reduce_scatter_base_", 350, large).roles() ==
        "within_layer within_layer");
  // What the forward pass sums up between its operators is activations, as DTensor does.
  CHECK(With().call("allreduce_", 170, large).call("allreduce_", 350, large).roles() == "within_layer within_layer");
  CHECK(With().call("allreduce_", 170, 4).call("allreduce_", 350, large).roles() == "metrics unknown");
  // A hook runs in a backward node, too: without anything in the forward pass nobody knows.
  CHECK(With().call("allreduce_", 350, large).roles() == "unknown");
  // One in each node, for each of the two gradients.
  CHECK(With().call("allreduce_", 350, large).call("allreduce_", 520, large).roles() ==
        "gradient_bucket gradient_bucket");
  CHECK(With().call("send", 210, large).call("recv_", 350, large).roles() == "within_layer within_layer");
}

TEST_CASE("role: pipelines send between the operators, experts exchange everywhere") {
  CHECK(With().call("recv_", 50, large).call("send", 260, large).call("send", 700, large).roles() ==
        "pipeline pipeline pipeline");
  CHECK(With().call("alltoall_base_", 50, large).call("alltoall_base_", 350, large).roles() == "all_to_all all_to_all");
  CHECK(With().call("alltoall_base_", 210, large, "mesh_cp").roles() == "within_layer");
}

TEST_CASE("role: groups say what the place leaves open") {
  CHECK(With().call("_allgather_base_", 170, large).roles() == "unknown");
  CHECK(With().call("_allgather_base_", 170, large, "mesh_dp_shard_cp").roles() == "parameter_gather_forward");
  CHECK(With().call("_allgather_base_", 450, large, "DATA_PARALLEL_GROUP").roles() == "parameter_gather_backward");
  CHECK(With().call("_allgather_base_", 170, large, "TENSOR_MODEL_PARALLEL_GROUP").roles() == "within_layer");
}

TEST_CASE("role: behind the backward pass large sums are gradients, and the update scatters them") {
  CHECK(With()
            .call("allreduce_", 700, large)
            .call("_allgather_base_", 710, large)
            .call("_reduce_scatter_base_", 810, 64)
            .call("allreduce_", 830, large)
            .call("allreduce_", 950, 1)
            .roles() == "gradient_bucket unknown gradient_scatter unknown metrics");
}

TEST_CASE("role: barriers, metrics, and what was launched before the recording began") {
  CHECK(With().call("barrier", 50, 1).within("## RecMetricModule:compute ##", "allgather_", 950, large).roles() ==
        "barrier metrics");
  // A part of the model may be called so, too: what takes all gradients with it is their exchange.
  CHECK(With().within("MetricHead", "allreduce_", 420, large).call("allreduce_", 620, 1).roles() ==
        "gradient_bucket gradient_bucket");
  CHECK(With()
            .kernel_that_nobody_launched("ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)", 20)
            .kernel_that_nobody_launched("ncclDevKernel_AllGather_RING_LL(args)", 320)
            .roles() == "unknown unknown");
}

TEST_CASE("observed: roles are told apart, and time that they share counts once") {
  TracedCollective gather;
  gather.operation = "allgather";
  gather.duration = microseconds(10);
  gather.role = CollectiveRole::parameter_gather_forward;
  TracedCollective other = gather;
  other.start_ns = 4'000;
  other.role = CollectiveRole::parameter_gather_backward;
  const std::vector<std::vector<TracedCollective>> steps = {{gather, other}};
  const std::vector<ObservedCollective> seen = observed_collectives(steps);
  REQUIRE(seen.size() == 2);
  CHECK(seen[0].role == CollectiveRole::parameter_gather_forward);
  CHECK(seen[1].role == CollectiveRole::parameter_gather_backward);
  CHECK((seen[0].duration + seen[1].duration).value() == doctest::Approx(14e-6));
}

/// "allreduce gradient_bucket 5, ..." of the profile of a trace.
std::string roles_in(const std::filesystem::path& path) {
  const Profile profile = profile_of(trace_of(test::File(path).source()));
  std::string out;
  for (const ObservedCollective& c : profile.collectives)
    out += (out.empty() ? "" : ", ") + c.operation + " " + std::string(name_of(c.role)) + " " + std::to_string(c.count);
  return out;
}

TEST_CASE("role: shipped examples of DDP, FSDP2 on gloo, and a pipeline") {
  const auto example = [](const char* name) {
    return roles_in(std::filesystem::path(STEPCAST_SOURCE_DIR) / "profiles/examples" /
                    (std::string(name) + "-rank0.pt.trace.json.gz"));
  };
  CHECK(example("gpt-cpu-ddp") == "allreduce gradient_bucket 1");
  CHECK(example("gpt-cpu-fsdp2") ==
        "allgather parameter_gather_forward 9, allgather parameter_gather_backward 9, allreduce gradient_scatter 9");
  CHECK(example("gpt-cpu-1f1b") == "recv pipeline 4, send pipeline 4");
}

TEST_CASE("role: public traces of jobs whose code is known") {
  const auto folder = test::shared_folder("traces");
  if (!folder) return;
  const std::map<std::string, std::string> known = {
      {"facebookresearch__HolisticTraceAnalysis/nccl_parser_config__nccl_data.json.gz",
       "allreduce gradient_bucket 5, broadcast buffers 2"},
      {"facebookresearch__HolisticTraceAnalysis/trace_diff__control__control.json.gz",
       "allreduce gradient_bucket 3, alltoall all_to_all 7"},
      {"KellerJordan__modded-nanogpt/"
       "2025-10-31_AdamSyncGradientHook__modded-nanogpt-current-gpu-rank-00-chrome-trace.json.gz",
       "allgather gather_after_update 7, reducescatter gradient_scatter 7"},
  };
  for (const auto& [name, roles] : known) {
    CAPTURE(name);
    CHECK(roles_in(*folder / name) == roles);
  }
}

TEST_CASE("role: tensor parallelism of the laboratory is in its layers, PowerSGD's factors are gradients") {
  const auto folder = test::shared_folder("lab/traces");
  if (!folder) return;
  CHECK(roles_in(*folder / "tfm4x256_w2_tp_1000mbit_rank0.json.gz") == "allreduce within_layer 16");
  CHECK(roles_in(*folder / "resnet18_w2_psgd1_1000mbit_rank0.json.gz") ==
        "allreduce gradient_bucket 6, allreduce gradient_bucket 3, broadcast buffers 2");
}

}  // namespace
}  // namespace stepcast
