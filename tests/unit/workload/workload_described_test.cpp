// Described workloads: what a unit costs under a split, against published forms and laws.
#include <stepcast/roofline/unit_roofline.hpp>
#include <stepcast/workload/workload.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "helpers/roofline_device.hpp"

using namespace stepcast;

namespace {

Workload workload(const std::string& model) { return workload_of(model_shape_of(model), test::roofline_device()); }

Split split_of(std::int64_t tensor, double micro_batch = 1, bool sequence_parallel = false) {
  Split split;
  split.micro_batch = micro_batch;
  split.grid = {tensor, tensor, 1};
  split.sequence_parallel = sequence_parallel;
  return split;
}

UnitCost cost(const Workload& w, std::uint32_t kind, const Split& split) {
  const Answer<UnitCost> answer = unit_cost(w, kind, split);
  REQUIRE_MESSAGE(bool(answer), (answer ? "" : answer.reason()));
  return *answer;
}

std::string refusal(const Workload& w, const Split& split) {
  const Answer<UnitCost> answer = unit_cost(w, 1, split);
  return answer ? "accepted" : answer.reason();
}

constexpr std::uint32_t embedding = 0, block = 1, head = 2;
const char* const gpt3 = "gpt:hidden=12288,layers=96,heads=96,seq=2048";

}  // namespace

TEST_CASE("kept activations are the forms of Korthikanti et al. 2022, table 2") {
  const struct {
    int hidden, layers, heads;
  } models[] = {{6144, 48, 64}, {12288, 96, 96}, {20480, 105, 128}, {25600, 128, 160}};
  for (const auto& m : models)
    for (const double b : {1.0, 4.0})
      for (const std::int64_t t : {1, 2, 8, 16}) {
        CAPTURE(m.hidden);
        CAPTURE(t);
        const Workload w = workload("gpt:hidden=" + std::to_string(m.hidden) + ",layers=" + std::to_string(m.layers) +
                                    ",heads=" + std::to_string(m.heads) + ",seq=2048");
        const double s = 2048, h = m.hidden, a = m.heads, sbh = s * b * h, n = double(t);
        const UnitCost tensor = cost(w, block, split_of(t, b)), sequence = cost(w, block, split_of(t, b, true));
        const auto is = [](Bytes bytes, double expected) {
          return bytes.value() == doctest::Approx(expected).epsilon(1e-12);
        };
        CHECK(is(tensor.kept[0], sbh * (10 + 24 / n + 5 * a * s / (h * n))));
        CHECK(is(sequence.kept[0], sbh / n * (34 + 5 * a * s / h)));
        CHECK(is(tensor.kept[1], sbh * (10 + 24 / n)));
        CHECK(is(sequence.kept[1], sbh * 34 / n));
        CHECK(is(tensor.kept[2], 2 * sbh));
        CHECK(is(sequence.kept[2], 2 * sbh / n));
        // At work there are also the gradients on both sides of the softmax, and the one that comes in.
        CHECK(is(tensor.working - tensor.kept[0], b * 4 * a * s * s / n + 2 * sbh));
      }
}

TEST_CASE("autograd has a gradient beside those that are added up, as each program keeps it") {
  // Weights of h x 3h, h x h, h x 4h and 4h x h: with four devices fc1 and fc2 are of one shape on each.
  const double h = 1024, v = 51200;
  const std::string gpt = "gpt:hidden=1024,layers=4,heads=8,seq=512,vocab=51200,dtype=bf16";
  const auto of = [&](const std::string& words, std::uint32_t kind, std::int64_t t) {
    return cost(workload(gpt + words), kind, split_of(t));
  };
  CHECK(of("", block, 1).standing_gradient.value() == 2 * 12 * h * h);
  CHECK(of("", block, 2).standing_gradient.value() == 2 * 12 * h * h / 2);
  CHECK(of("", block, 4).standing_gradient.value() == 2 * (3 + 1 + 4) * h * h / 4);
  CHECK(of("", block, 1).gradient_at_work == Bytes(0));
  CHECK(of("", head, 2).gradient_at_work.value() == 2 * v * h / 2);
  CHECK(of("", head, 2).standing_gradient == Bytes(0));
  CHECK(of(",accumulation=apart", block, 2).gradient_at_work.value() == 2 * 4 * h * h / 2);
  CHECK(of(",accumulation=apart", block, 2).standing_gradient == Bytes(0));
  // What a cast weight's gradient is cast to stands beside it.
  CHECK(of(",kernels=eager", block, 1).gradient_at_work.value() == (2 + 4) * 4 * h * h);
  CHECK(of(",kernels=eager,gradients=bf16", block, 1).gradient_at_work == Bytes(0));
  // Whole experts are not divided by the tensor group.
  const Workload mixture = workload(
      "llama:hidden=1024,layers=4,heads=8,seq=512,vocab=32000,ffn=4096,experts=8,topk=2,attention=flash,dtype=bf16");
  Split divided = split_of(4, 1, true), whole = divided;
  divided.expert = whole.expert = 8, whole.whole_experts = true;
  const Bytes more = cost(mixture, block, whole).standing_gradient - cost(mixture, block, divided).standing_gradient;
  CHECK(more.value() == 2 * (2 + 1) * h * 4096 * (1 - 0.25));
}

TEST_CASE("parameters of the devices of a tensor group add up to the model, but for what all of them hold") {
  const Workload w = workload(gpt3);
  CHECK(w.parameters() == w.shape->parameters());
  CHECK(w.units.size() == 98);
  for (const std::int64_t t : {1, 2, 8, 32}) {
    const UnitCost c = cost(w, block, split_of(t));
    const UnitKind& kind = w.kinds[block];
    CHECK(c.parameters == kind.divided_parameters / double(t) + kind.other_parameters);
    CHECK(kind.other_parameters == 6 * 12288);  // two norms, and the biases behind the two sums
    CHECK(cost(w, head, split_of(t)).tied_parameters == 51200.0 * 12288 / double(t));
  }
}

TEST_CASE("the transfers of a block in 1-D are its scheme's, with and without sequence parallelism") {
  const Workload w = workload(gpt3);
  const TensorScheme* scheme = tensor_scheme("1d");
  REQUIRE(scheme != nullptr);
  for (const bool sequence_parallel : {false, true}) {
    Split split = split_of(8, 2, sequence_parallel);
    split.scheme = scheme;
    const UnitCost c = cost(w, block, split);
    TensorWork work;
    work.activation = Bytes(2 * 2048.0 * 12288 * 2);
    work.reductions = 2;
    work.sequence_parallel = sequence_parallel;
    CHECK(c.forward_tensor == scheme->forward(split.grid, work));
    CHECK(c.backward_tensor == scheme->backward(split.grid, work));
    split.scheme = nullptr;
    CHECK(cost(w, block, split).forward_tensor == c.forward_tensor);
  }
  CHECK(cost(w, block, split_of(1)).forward_tensor.empty());
}

TEST_CASE("the ends of a divided model: one sum behind the embedding, one before the logits, losses added up") {
  const Workload w = workload(gpt3);
  const Bytes activation(2048.0 * 12288 * 2), losses(4 * 2048.0);
  const auto reduce = Operation::all_reduce, gather = Operation::all_gather, scatter = Operation::reduce_scatter;
  using Transfers = std::vector<TensorTransfer>;
  CHECK(cost(w, embedding, split_of(8)).forward_tensor == Transfers{{reduce, 8, activation, 1}});
  CHECK(cost(w, embedding, split_of(8)).backward_tensor.empty());
  CHECK(cost(w, head, split_of(8)).forward_tensor == Transfers{{reduce, 8, losses, 3}});
  CHECK(cost(w, head, split_of(8)).backward_tensor == Transfers{{reduce, 8, activation, 1}});
  CHECK(cost(w, embedding, split_of(8, 1, true)).forward_tensor == Transfers{{scatter, 8, activation, 1}});
  CHECK(cost(w, embedding, split_of(8, 1, true)).backward_tensor == Transfers{{gather, 8, activation, 1}});
  CHECK(cost(w, head, split_of(8, 1, true)).forward_tensor ==
        Transfers{{reduce, 8, losses, 3}, {gather, 8, activation, 1}});
  CHECK(cost(w, head, split_of(8, 1, true)).backward_tensor == Transfers{{scatter, 8, activation, 1}});
}

TEST_CASE("on an ideal device a block takes its operations, and its backward pass twice that") {
  Device ideal = test::roofline_device();
  ideal.matrix_efficiency = 1;
  ideal.half_m = ideal.half_n = ideal.half_k = 0;
  ideal.memory_bandwidth = BytesPerSecond(1e30);
  ideal.kernel_floor = ideal.issue = Seconds(0);
  const ModelShape shape = model_shape_of(gpt3);
  const Workload w = workload_of(shape, ideal);
  for (const std::int64_t t : {1, 8}) {
    double operations = 0;
    for (std::uint32_t kind = 0; kind < w.kinds.size(); ++kind) {
      const UnitCost c = cost(w, kind, split_of(t, 2));
      const double repetitions = double(w.kinds[kind].shape->repetitions);
      operations += repetitions * (c.forward + c.input_gradient + c.weight_gradient).value() * 312e12 * double(t);
    }
    CHECK(operations == doctest::Approx(2 * shape.operations()).epsilon(1e-9));
    const UnitCost c = cost(w, block, split_of(t));
    CHECK((c.input_gradient + c.weight_gradient).value() == doctest::Approx(2 * c.forward.value()));
    const double s = 2048, h = 12288;
    CHECK(c.attention.value() == doctest::Approx(4 * s * s * h / 312e12 / double(t)));
    CHECK(c.weight_gradient.value() == doctest::Approx(24 * s * h * h / 312e12 / double(t)));
  }
}

TEST_CASE("a small model is launch-bound: its time is the host's, however fast the device") {
  Device device = test::roofline_device();
  const ModelShape shape = model_shape_of("gpt:hidden=64,layers=2,heads=4,seq=16,vocab=100");
  const UnitCost slow = cost(workload_of(shape, device), block, split_of(1));
  device.memory_bandwidth *= 10;
  CHECK(cost(workload_of(shape, device), block, split_of(1)).forward == slow.forward);
  device.issue *= 2;
  CHECK(cost(workload_of(shape, device), block, split_of(1)).forward == slow.forward * 2);
  // 6 products, 2 norms, bias, softmax, dropout, layout, activation, 2 residuals
  CHECK(slow.forward.value() == doctest::Approx(15 * 6e-6));
}

TEST_CASE("Megatron's fused softmax serves four pairs of sample and head at a time; else it is six kernels") {
  const Workload w = workload("gpt:hidden=128,layers=1,heads=4,seq=16");
  const auto kernels = [&](const Split& split) { return cost(w, block, split).forward.value() / 6e-6; };
  CHECK(kernels(split_of(1)) == doctest::Approx(15));
  CHECK(kernels(split_of(2)) == doctest::Approx(20));
  CHECK(kernels(split_of(2, 2)) == doctest::Approx(15));
  // A described profile launches the same kernels.
  const Device device = test::roofline_device();
  const Layer layer = described_profile(model_shape_of("gpt:hidden=130,layers=1,heads=5,seq=16"), device, 1).layers[1];
  CHECK(layer.forward.host / device.issue == doctest::Approx(20));
}

TEST_CASE("full recomputation is of blocks; embedding and head keep what they need") {
  const Workload w = workload(gpt3);
  CHECK(cost(w, block, split_of(8)).checkpointed);
  for (const std::uint32_t kind : {embedding, head}) {
    const UnitCost c = cost(w, kind, split_of(8));
    CHECK(!c.checkpointed);
    CHECK(c.kept[2] == c.kept[0]);
  }
}

TEST_CASE("more samples take longer but less each; more devices take less but no less than their share") {
  std::mt19937 random(11);
  const auto any = [&](std::initializer_list<int> values) {
    return *(values.begin() + std::ptrdiff_t(random() % values.size()));
  };
  for (int round = 0; round < 200; ++round) {
    const int heads = any({32, 64, 96}), hidden = heads * any({64, 80, 128}), seq = any({128, 512, 2048});
    std::string text = std::string(any({0, 1}) ? "gpt" : "llama") + ":hidden=" + std::to_string(hidden) +
                       ",layers=2,heads=" + std::to_string(heads) + ",seq=" + std::to_string(seq);
    if (any({0, 1}) != 0) text += ",attention=flash";
    if (any({0, 1}) != 0) text += ",experts=8,topk=" + std::to_string(any({1, 2, 8}));
    CAPTURE(text);
    const Workload w = workload(text);
    const double b = any({1, 2, 8});
    for (const std::uint32_t kind : {embedding, block, head}) {
      const UnitCost one = cost(w, kind, split_of(1, b)), two = cost(w, kind, split_of(1, 2 * b));
      const auto time = [](const UnitCost& c) { return (c.forward + c.input_gradient + c.weight_gradient).value(); };
      CHECK(time(two) >= time(one) * (1 - 1e-12));
      CHECK(time(two) <= 2 * time(one) * (1 + 1e-12));
      CHECK(two.kept[0] == one.kept[0] * 2);
      CHECK(two.parameters == one.parameters);
      for (const bool sequence : {false, true})
        for (const std::int64_t t : {2, 8}) {
          const UnitCost divided = cost(w, kind, split_of(t, b, sequence));
          CHECK(time(divided) <= time(one) * (1 + 1e-12));
          CHECK(time(divided) * double(t) >= time(one) * (1 - 1e-12));
          for (std::size_t r = 0; r < 3; ++r) CHECK(divided.kept[r] <= one.kept[r]);
          CHECK(divided.kept[1] <= divided.kept[0]);
          CHECK(divided.attention <= divided.forward);
        }
    }
  }
}

TEST_CASE("ring attention: the same operations in blocks, keys and values sent all around but once") {
  const Workload w = workload("llama:hidden=4096,layers=2,heads=32,kv_heads=8,seq=8192,attention=flash");
  const UnitCost whole = cost(w, block, split_of(2, 2));
  Split split = split_of(2, 2);
  split.context = 4;
  const UnitCost part = cost(w, block, split);
  CHECK(part.forward.value() * 4 == doctest::Approx(whole.forward.value()).epsilon(0.1));
  CHECK(part.forward.value() * 4 >= whole.forward.value());
  // Three times the result so far is scaled and written again: read and written in 4-byte numbers, the new one read.
  const double merged = 3 * (4 + 4 + 2) * (2.0 * 8192 / 4) * w.hidden / 2 / w.device->memory_bandwidth.value();
  CHECK(part.forward.value() * 4 - whole.forward.value() >= 4 * merged * 0.999);
  CHECK(part.kept[0] == whole.kept[0] / 4);
  CHECK(part.boundary == whole.boundary / 4);
  // k and v of 2 samples, a quarter of the sequence, half of the 8 heads of 128
  const Bytes block_of_keys(2.0 * 2 * (8192 / 4) * (8 * 128 / 2) * 2);
  CHECK(part.context_forward == std::vector<TensorTransfer>{{Operation::send, 4, block_of_keys, 3}});
  // Backward the gradients follow one step behind: alone at first are the keys and values, at last the gradients.
  CHECK(part.context_backward == std::vector<TensorTransfer>{{Operation::send, 4, block_of_keys, 2},
                                                             {Operation::send, 4, block_of_keys * 2, 2}});
  CHECK(part.attention_backward > part.attention * 2);
  CHECK(part.attention_backward < part.input_gradient);
  CHECK(cost(w, embedding, split).context_forward.empty());
  CHECK(cost(w, embedding, split).context_backward.empty());
}

TEST_CASE("gathered keys and exchanged heads: the same operations in one kernel, each exchange before it") {
  const Workload w = workload("llama:hidden=4096,layers=2,heads=32,kv_heads=8,seq=8192,attention=flash");
  Split split = split_of(2, 2);
  const UnitCost whole = cost(w, block, split);
  split.context = 4;
  const UnitCost ring = cost(w, block, split);
  // Of 2 samples and a quarter of the sequence half of 32 heads of 128, and of 8.
  const Bytes queries(2.0 * (8192 / 4) * (32 * 128 / 2) * 2), keys(queries / 4);
  split.context_exchange = ContextExchange::all_gather;
  const UnitCost gathered = cost(w, block, split);
  CHECK(gathered.context_forward.empty());
  CHECK(gathered.context_first_forward == std::vector<TensorTransfer>{{Operation::all_gather, 4, keys * 2 * 4, 1}});
  CHECK(gathered.context_first_backward ==
        std::vector<TensorTransfer>{{Operation::all_gather, 4, keys * 2 * 4, 1},
                                    {Operation::reduce_scatter, 4, keys * 2 * 4, 1}});
  split.context_exchange = ContextExchange::all_to_all;
  const UnitCost exchanged = cost(w, block, split);
  CHECK(exchanged.context_first_forward ==
        std::vector<TensorTransfer>{{Operation::all_to_all, 4, queries, 2}, {Operation::all_to_all, 4, keys, 2}});
  CHECK(exchanged.context_first_backward == exchanged.context_first_forward);
  CHECK(gathered.working == exchanged.working + keys * 2 * 4 * 2);  // with their gradients
  for (const UnitCost& c : {gathered, exchanged}) {
    CHECK(c.forward.value() * 4 == doctest::Approx(whole.forward.value()).epsilon(0.05));
    CHECK(c.forward < ring.forward);  // which merges its blocks
    CHECK(c.kept == ring.kept);
  }
  CHECK(cost(w, embedding, split).context_first_forward.empty());
  split.grid = {4, 4, 1};
  CHECK(refusal(w, split) == "8 heads of keys do not divide by tensor x context degree (cp_comm=a2a) 16");
}

TEST_CASE("recomputation by operators: every second product and all that memory bounds, attention never") {
  // Without small kernels, so that products are operations and passes of memory are bytes.
  const auto costs_of = [](const std::string& model) {
    Device device = test::roofline_device();
    device.kernel_floor = device.issue = Seconds(0);
    device.half_m = device.half_n = device.half_k = device.half_output = 0;
    return cost(workload_of(model_shape_of(model), device), block, split_of(1));
  };
  const auto again = std::size_t(Recomputation::operators);
  const double h = 4096, kv = 1024, f = 14336, s = 8192;
  const UnitCost llama = costs_of("llama:hidden=4096,layers=2,heads=32,kv_heads=8,ffn=14336,seq=8192,attention=flash");
  CHECK(llama.operators < llama.forward - llama.attention);
  // Kept are the input, queries, values, attention's result and its statistics, gate and the MLP's result.
  CHECK(llama.kept[again].value() == doctest::Approx(2 * s * (2 * h + 2 * h + kv + f) + 4 * 32 * s));
  const UnitCost wide = costs_of("llama:hidden=4096,layers=2,heads=32,kv_heads=8,ffn=28672,seq=8192,attention=flash");
  const Device device = test::roofline_device();
  // Twice as wide: of three products more one is done again, the wider activation wholly.
  const double product = 2 * s * h * f / (device.matrix_rate[std::size_t(DataType::bf16)] * device.matrix_efficiency);
  CHECK((wide.operators - llama.operators).value() ==
        doctest::Approx(product + 2 * s * 3 * f / device.memory_bandwidth.value()));
  CHECK((wide.kept[again] - llama.kept[again]).value() == 2 * s * f);
  for (const UnitCost& c : {llama, wide}) {
    CHECK(c.kept[again] < c.kept[std::size_t(Recomputation::none)]);
    CHECK(c.kept[again] > c.kept[std::size_t(Recomputation::full)]);
  }
  // The first and the last unit are not wrapped.
  const Workload w = workload("llama:hidden=4096,layers=2,heads=32,seq=8192,attention=flash");
  CHECK(cost(w, head, split_of(1)).operators == Seconds(0));
  CHECK(cost(w, head, split_of(1)).kept[again] == cost(w, head, split_of(1)).kept[0]);
}

TEST_CASE("experts over a group: each device holds its share and gets all tokens for it") {
  const Workload w = workload("gpt:hidden=2048,layers=2,heads=16,seq=1024,experts=16,topk=2");
  const UnitCost whole = cost(w, block, split_of(1, 4));
  Split split = split_of(1, 4);
  split.expert = 8;
  const UnitCost part = cost(w, block, split);
  CHECK(part.expert_parameters == whole.expert_parameters / 8);
  CHECK(whole.parameters - part.parameters == whole.expert_parameters * 7 / 8);
  // The same operations in fewer, larger products.
  CHECK(part.forward <= whole.forward);
  CHECK(part.forward.value() > whole.forward.value() * 0.8);
  REQUIRE(part.expert_transfers.size() == 1);
  CHECK(part.expert_transfers[0] == TensorTransfer{Operation::all_to_all, 8, Bytes(4 * 1024.0 * 2048 * 2 * 2), 2});
  CHECK(whole.expert_transfers.empty());
}

TEST_CASE("whole experts beside divided layers: the same work on the same parameters, without sums of their own") {
  const std::string text = "llama:hidden=2048,layers=2,heads=16,seq=1024,experts=16,topk=2,attention=flash";
  const Workload w = workload(text);
  Split divided = split_of(4, 4, true), whole = divided;
  divided.expert = 2;
  whole.expert = 8, whole.whole_experts = true;
  const UnitCost d = cost(w, block, divided), o = cost(w, block, whole);
  CHECK(o.expert_parameters == doctest::Approx(d.expert_parameters));
  CHECK(o.parameters == doctest::Approx(d.parameters));
  for (std::size_t r = 0; r < 3; ++r) CHECK(o.kept[r] == d.kept[r]);
  // Wider products of as many operations: never slower.
  CHECK(o.forward <= d.forward * (1 + 1e-12));
  CHECK(o.forward.value() > d.forward.value() * 0.7);
  REQUIRE(o.expert_transfers.size() == 1);
  CHECK(o.expert_transfers[0].members == 8);
  CHECK(o.expert_transfers[0].size == d.expert_transfers[0].size);
  // Attention alone is gathered and summed; shared experts keep their own.
  const auto count = [](const UnitCost& c, Operation operation) {
    double sum = 0;
    for (const TensorTransfer& t : c.forward_tensor) sum += t.operation == operation ? t.count : 0;
    return sum;
  };
  CHECK(count(d, Operation::all_gather) == 2);
  CHECK(count(o, Operation::all_gather) == 1);
  CHECK(count(o, Operation::reduce_scatter) == 1);
  const Workload shared = workload(text + ",shared=1");
  CHECK(count(cost(shared, block, whole), Operation::all_gather) == 2);
  CHECK(count(cost(shared, block, whole), Operation::reduce_scatter) == 2);
  whole.expert = 1;
  CHECK(refusal(workload(gpt3), whole).find("no experts to keep whole") != std::string::npos);
}

TEST_CASE("every expert's product is a launch of its own: few experts on a device are few launches") {
  const Workload w = workload("llama:hidden=64,layers=1,heads=2,seq=64,experts=64,topk=2,attention=flash");
  Split split = split_of(1);
  const Seconds all = cost(w, block, split).forward;
  split.expert = 64;
  const Seconds one = cost(w, block, split).forward;
  // A model that small is bound by the host: up and down products of 63 experts are not launched.
  CHECK((all - one).value() == doctest::Approx((2 * 63 * w.device->issue).value()));
}

TEST_CASE("a grid divides what 1-D repeats") {
  const Workload w = workload(gpt3);
  const TensorScheme* scheme = tensor_scheme("2d");
  REQUIRE(scheme != nullptr);
  Split split = split_of(16);
  split.scheme = scheme;
  split.grid = *scheme->grid(16, 1);
  const UnitCost grid = cost(w, block, split), line = cost(w, block, split_of(16));
  const UnitKind& kind = w.kinds[block];
  CHECK(grid.kept[0].value() == doctest::Approx((kind.kept.divided + kind.kept.sequence).value() / 16));
  CHECK(grid.kept[0] < line.kept[0]);
  CHECK(grid.boundary == kind.boundary / 16);
  CHECK(!grid.forward_tensor.empty());
  CHECK(!grid.backward_tensor.empty());
  CHECK(std::isfinite(grid.forward.value()));
}

TEST_CASE("splits that do not work say why") {
  const Workload w = workload("llama:hidden=4096,layers=2,heads=32,kv_heads=8,seq=1000,attention=flash");
  CHECK(refusal(w, split_of(3)) == "32 heads do not divide by tensor degree 3");
  CHECK(refusal(w, split_of(16)) == "8 heads of keys do not divide by tensor degree 16");
  CHECK(refusal(w, split_of(8)) == "accepted");
  Split context = split_of(1);
  context.context = 16;
  CHECK(refusal(w, context) == "1000 tokens do not divide by context degree 16");
  Split sequence = split_of(8, 1, true);
  sequence.context = 2;
  CHECK(refusal(w, sequence) == "1000 tokens do not divide by tensor x context degree 16");
  Split halves = split_of(1);
  halves.context = 2;
  CHECK(refusal(w, halves) == "accepted");
  const Workload unfused = workload("llama:hidden=4096,layers=2,heads=32,kv_heads=8,seq=1000");
  CHECK(refusal(unfused, split_of(1)) == "accepted");
  CHECK(refusal(unfused, halves) ==
        "context parallelism divides the tokens of fused attention only, in every framework: attention=flash in the "
        "model");
  Split expert = split_of(1);
  expert.expert = 2;
  CHECK(refusal(w, expert) == "the model has no experts to spread");
  const Workload experts = workload("gpt:hidden=64,layers=1,heads=2,seq=8,experts=6");
  expert.expert = 4;
  CHECK(refusal(experts, expert) == "6 experts do not divide by expert degree 4");
  const Workload images = workload("resnet50:");
  CHECK(refusal(images, split_of(1)) == "accepted");
  CHECK(refusal(images, split_of(2)) == "tensor parallelism divides matrix products of transformers, not convolutions");
}

TEST_CASE("a described workload says what was not measured") {
  const Workload w = workload(gpt3);
  REQUIRE(w.assumed.size() == 2);
  CHECK(w.assumed[0].find("nothing of this model was measured") != std::string::npos);
  CHECK(w.assumed[1] == "optimizer: Adam in mixed precision, 16 bytes a parameter");
  CHECK(w.bytes_of_state == 16);
  CHECK(w.update.value() == doctest::Approx((28 + 2) * w.parameters() / 1.5e12));
  CHECK(workload("resnet50:").bytes_of_state == 12);
  CHECK(workload("resnet50:dtype=f16").bytes_of_state == 12);
  CHECK(workload("llama:hidden=64,layers=1,heads=2,seq=8,dtype=f32").bytes_of_state == 16);
}

TEST_CASE("PyTorch puts gathered tokens together where there are several samples, and takes them apart to scatter") {
  Device device = test::roofline_device();
  device.half_m = device.half_n = device.half_k = 0;
  device.issue = device.kernel_floor = Seconds(0);
  const auto of = [&](const std::string& kernels) {
    return workload_of(
        model_shape_of("llama:hidden=1024,layers=4,heads=8,seq=512,attention=flash,dtype=f16,kernels=" + kernels),
        device);
  };
  const Workload pytorch = of("compiled"), megatron = of("megatron");
  const auto beyond = [&](const Workload& w, std::uint32_t kind, Seconds UnitCost::*time) {
    // Everything else is twice as long for twice the samples.
    return (cost(w, kind, split_of(2, 2, true)).*time - 2 * (cost(w, kind, split_of(2, 1, true)).*time)).value();
  };
  // Forward the inputs of attention and of the MLP are gathered, backward the gradients of their results: twice two
  // samples of 512 x 1024 halves are read and written.
  const double copy = memory_time(device, Bytes(2. * 2 * 512 * 1024 * 2)).value();
  CHECK(beyond(pytorch, block, &UnitCost::forward) == doctest::Approx(2 * copy));
  CHECK(beyond(pytorch, block, &UnitCost::operators) == doctest::Approx(2 * copy));
  CHECK(beyond(pytorch, block, &UnitCost::input_gradient) == doctest::Approx(2 * copy));
  CHECK(beyond(megatron, block, &UnitCost::forward) == doctest::Approx(0).epsilon(1e-9 * copy));
  // Before a scatter one sample is taken apart, too: what the embedding's device does of half the tokens, and a copy.
  const Seconds divided = cost(pytorch, embedding, split_of(2, 1, true)).forward;
  const Seconds repeated = cost(pytorch, embedding, split_of(2, 1, false)).forward;
  CHECK(divided.value() == doctest::Approx(0.5 * repeated.value() + 0.5 * copy));
}

TEST_CASE("PyTorch's queries, keys and values are three products, each of its own width") {
  Device device = test::roofline_device();
  device.half_m = device.half_k = 0, device.half_n = 100;
  device.issue = device.kernel_floor = Seconds(0);
  const auto qkv_of = [&](const char* kernels) {
    const ModelShape shape = model_shape_of(
        std::string("llama:hidden=1024,layers=1,heads=8,kv_heads=2,seq=512,attention=flash,dtype=f16,kernels=") +
        kernels);
    const auto& operators = shape.units[1].operators;
    const auto found = std::ranges::find(operators, "qkv", &OperatorShape::name);
    REQUIRE(found != operators.end());
    UnitTimes times;
    times.add(device, DataType::f16, *found, work_of(*found, 1));
    return times;
  };
  const auto alone = [&](double n) {
    return matrix_time(device, DataType::f16, {.m = 512, .n = n, .k = 1024}).value();
  };
  CHECK(qkv_of("megatron").forward.matrix.value() == doctest::Approx(alone(1024 + 256 + 256)));
  CHECK(qkv_of("compiled").forward.matrix.value() == doctest::Approx(alone(1024) + 2 * alone(256)));
  CHECK(qkv_of("compiled").forward.kernels == 3);
  CHECK(qkv_of("compiled").weight_gradient.kernels == 3);
}
