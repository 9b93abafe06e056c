// Compressors: what they send, by which exchange, and how that meets the plans of different strategies.
#include "helpers/plan_cases.hpp"
#include "helpers/random_plan.hpp"
#include "helpers/traffic.hpp"

#include <stepcast/modifiers/shared/compression.hpp>
#include <stepcast/schedule/plan_flaw.hpp>

#include <algorithm>
#include <cmath>

using namespace stepcast;
using namespace stepcast::test;

namespace {

/// Matrices and lists of one layer, 4 bytes an element.
Profile profile_of_shapes(const std::vector<std::vector<std::int64_t>>& shapes) {
  Profile p;
  p.layers.push_back({"all", {Seconds(1e-3), {}}, {Seconds(1e-3), {}}});
  p.backward_order = {0};
  for (const auto& shape : shapes) {
    double elements = 1;
    for (const std::int64_t n : shape) elements *= static_cast<double>(n);
    p.tensors.push_back({"t" + std::to_string(p.tensors.size()), shape, DataType::f32, Bytes(4 * elements), 0});
  }
  p.step_times = {compute_time(p)};
  return p;
}

// ResNet-18 on CIFAR as epfml/powersgd has it: 21 matrices, 9,610 elements in lists.
Profile resnet18_cifar() {
  std::vector<std::vector<std::int64_t>> shapes{{64, 3, 3, 3}, {10, 512}, {9610}};
  for (int i = 0; i < 4; ++i) shapes.push_back({64, 64, 3, 3});
  for (const std::int64_t c : {128, 256, 512}) {
    shapes.push_back({c, c / 2, 3, 3});
    for (int i = 0; i < 3; ++i) shapes.push_back({c, c, 3, 3});
    shapes.push_back({c, c / 2, 1, 1});
  }
  return profile_of_shapes(shapes);
}

// Three layers of 650 units, vocabulary of 28,869, tied.
Profile lstm() {
  std::vector<std::vector<std::int64_t>> shapes{{28869, 650}, {28869}};
  for (int i = 0; i < 6; ++i) shapes.push_back({2600, 650}), shapes.push_back({2600});
  return profile_of_shapes(shapes);
}

double bytes_sent(const std::string& plan, const Profile& profile, const Cluster& cluster) {
  double sum = 0;
  for (const Transfer& t : plan_of(plan, profile, cluster).transfers) sum += t.size.value();
  return sum;
}

std::string refusal(const std::string& text, const Profile& profile, const Cluster& cluster) {
  const PlanSpec spec = plan_spec_of(text);
  const auto cost = communication_cost(cluster, spec.collective);
  REQUIRE(bool(cost));
  const auto plan = comm_plan_of(spec, profile, cluster, *cost);
  return plan ? "" : plan.reason();
}

const Profile one_matrix = profile_of_shapes({{1000, 500}});
constexpr BytesPerSecond gigabyte(1e9);

/// Time beyond compute; codecs cost nothing.
double exposed(const std::string& modifier, std::int64_t workers, BytesPerSecond rate = gigabyte) {
  return time_of("bsp" + modifier, one_matrix, plain_cluster(workers, rate)).value() - 2e-3;
}

}  // namespace

TEST_CASE("PowerSGD sends exactly the published numbers of elements") {
  const Cluster two = plain_cluster(2, gigabyte);
  struct Row {
    Profile profile;
    double parameters;
    std::vector<std::pair<double, double>> sent_and_factor;  // rank 1, 2, 4
  };
  for (const Row& row : {Row{resnet18_cifar(), 11173962, {{45935, 243}, {82260, 136}, {154910, 72}}},
                         Row{lstm(), 28949319, {{93488, 310}, {142507, 203}, {240545, 120}}}}) {
    CHECK(row.profile.gradient_size().value() / 4 == row.parameters);
    for (std::size_t i = 0; i < 3; ++i) {
      const std::string plan = "ddp+powersgd(rank=" + std::to_string(1 << i) + ")";
      const double sent = bytes_sent(plan, row.profile, two) / 4;
      CHECK(sent == doctest::Approx(row.sent_and_factor[i].first).epsilon(1e-12));
      CHECK(std::round(row.parameters / sent) == row.sent_and_factor[i].second);
    }
  }
}

TEST_CASE("random-k takes the time of a dense ring of its share, and all of it is the plan itself") {
  for (const std::int64_t workers : {2, 8, 64})
    for (const char* k : {"0.01", "0.25", "1"})
      CHECK(exposed("+randomk(fraction=" + std::string(k) + ", speed=1e12)", workers) ==
            doctest::Approx(std::stod(k) * exposed("", workers)).epsilon(1e-6));
  CHECK(time_of("ddp+randomk(fraction=1, speed=1e12)", resnet18_cifar(), plain_cluster(4, gigabyte)).value() ==
        doctest::Approx(time_of("ddp", resnet18_cifar(), plain_cluster(4, gigabyte)).value()).epsilon(1e-9));
}

TEST_CASE("top-k sends less than a dense ring only below 1/P") {
  for (const std::int64_t workers : {4, 8, 32}) {
    const double bound = 1.0 / static_cast<double>(workers);
    const auto sparse = [&](double k) {
      return exposed("+topk(fraction=" + std::to_string(k) + ", speed=1e12)", workers);
    };
    CHECK(sparse(0.99 * bound) < exposed("", workers));
    CHECK(sparse(1.01 * bound) > exposed("", workers));
  }
}

TEST_CASE("gathered messages grow with the workers, summed ones saturate") {
  for (const char* name : {"topk", "dgc", "threshold", "signsgd", "signum", "efsign", "onebit", "qsgd", "terngrad",
                           "natural", "int8", "sketchml"}) {
    CAPTURE(name);
    const std::string modifier = "+" + std::string(name) + "(speed=1e12)";
    const double two = exposed(modifier, 2);
    for (const std::int64_t workers : {5, 17, 65})
      CHECK(exposed(modifier, workers) == doctest::Approx(two * static_cast<double>(workers - 1)).epsilon(1e-4));
  }
  for (const char* name : {"fp16(memory=1e15)", "randomk(speed=1e12)", "powersgd(speed=1e12)", "acpsgd(speed=1e12)",
                           "onebit_adam(speed=1e12)"}) {
    CAPTURE(name);
    CHECK(exposed("+" + std::string(name), 1000) < 2 * exposed("+" + std::string(name), 2));
  }
}

TEST_CASE("the difference between two links depends on the volume only") {
  const BytesPerSecond slow(1.25e8), fast(1.25e9);
  for (const char* name : {"randomk", "topk", "powersgd", "onebit_adam", "qsgd"})
    for (const char* speed : {"0.5", "1", "1e12"}) {
      const std::string modifier = "+" + std::string(name) + "(speed=" + speed + ")";
      const std::string free = "+" + std::string(name) + "(speed=1e12)";
      CHECK(exposed(modifier, 8, slow) - exposed(modifier, 8, fast) ==
            doctest::Approx(exposed(free, 8, slow) - exposed(free, 8, fast)).epsilon(1e-6));
    }
}

TEST_CASE("volumes of signs and bits") {
  Cluster servers = plain_cluster(4, gigabyte);
  servers.servers = 4;
  const double d = 500'000;
  for (const char* base : {"bsp_ps(partition=1 GiB)", "byteps", "wfbp_ps", "bytescheduler_ps"}) {
    CAPTURE(base);
    const Traffic bits = traffic(plan_of(std::string(base) + "+twobit", one_matrix, servers));
    const Traffic dense = traffic(plan_of(base, one_matrix, servers));
    CHECK(bits.up.value() == doctest::Approx(dense.up.value() / 16));
    CHECK(bits.down.value() == doctest::Approx(dense.down.value()));
  }
  CHECK(traffic(plan_of("bsp_ps+twobit", one_matrix, servers)).up.value() == doctest::Approx(d / 4));
  // A majority comes back as it was sent, a sum of sparse gradients is as long as all of them, and never above dense.
  CHECK(traffic(plan_of("bsp_ps+signsgd(values=packed)", one_matrix, servers)).down.value() == doctest::Approx(d / 8));
  CHECK(traffic(plan_of("bsp_ps+topk(fraction=0.01)", one_matrix, servers)).down.value() ==
        doctest::Approx(4 * 8 * 0.01 * d));
  CHECK(traffic(plan_of("bsp_ps+topk(fraction=0.5)", one_matrix, servers)).down.value() == doctest::Approx(4 * d));
  // 1-bit Adam against half precision over 152,000 steps, the first 23,000 of them dense.
  const double warm = 23. / 152, half = exposed("+fp16(memory=1e15)", 4);
  const double run = warm * half + (1 - warm) * exposed("+onebit_adam(speed=1e12)", 4);
  CHECK(half / run == doctest::Approx(4.9).epsilon(0.01));
  CHECK(half / exposed("+onebit_adam(speed=1e12)", 4) == doctest::Approx(16).epsilon(1e-3));
}

namespace {

struct OperatorCost {
  double sent = 0;  ///< bytes of one worker
  Operation last;   ///< the exchange that the decoder waits for
  Seconds decode;   ///< of all that arrives
};

OperatorCost operator_cost(const std::string& modifier, double workers) {
  const CommPlan plan =
      plan_of("bsp+" + modifier, one_matrix, plain_cluster(static_cast<std::int64_t>(workers), gigabyte));
  OperatorCost cost{.last = plan.transfers[0].operation};
  // What is gathered from all after it was scattered is the same message again.
  const bool scattered = std::any_of(plan.transfers.begin(), plan.transfers.end(),
                                     [](const Transfer& t) { return t.operation == Operation::all_to_all; });
  for (const Transfer& t : plan.transfers)
    if (t.operation != Operation::all_to_all)
      cost.sent += t.size.value() / (t.operation == Operation::all_gather && !scattered ? workers : 1);
  for (const Codec& c : plan.codecs)
    if (c.name == "decode") cost.decode += c.time;
  return cost;
}

}  // namespace

TEST_CASE("every operator: bytes a worker sends, by which exchange, and what decoding costs more workers") {
  constexpr double d = 500'000;
  constexpr auto summed = Operation::all_reduce, gathered = Operation::all_gather;
  struct Row {
    const char* modifier;
    double sent;
    Operation last;
    double decodings;  ///< of 8 workers over those of 2
  };
  for (const Row& row : {Row{"fp16", 2 * d, summed, 1},
                         {"topk(fraction=0.02)", 8 * 0.02 * d, gathered, 4},
                         {"topk(fraction=0.02, index=int64)", 12 * 0.02 * d, gathered, 4},
                         {"dgc", 8 * 0.001 * d, gathered, 4},
                         {"dgc(epoch=0)", 8 * 0.25 * d, gathered, 4},
                         {"dgc(epoch=1)", 8 * 0.0625 * d, gathered, 4},
                         {"dgc(epoch=2)", 8 * 0.0156 * d, gathered, 4},
                         {"dgc(epoch=3)", 8 * 0.004 * d, gathered, 4},
                         {"randomk(fraction=0.02)", 4 * 0.02 * d, summed, 1},
                         {"threshold(kept=0.02)", 8 * 0.02 * d, gathered, 4},
                         {"signsgd", d, gathered, 4},
                         {"signsgd(values=packed)", d / 8, gathered, 4},
                         {"signum", d, gathered, 4},
                         {"signum(values=packed)", d / 8, gathered, 4},
                         {"efsign", d + 4, gathered, 4},
                         {"efsign(values=packed)", d / 8 + 4, gathered, 4},
                         {"onebit", d + 8, gathered, 4},
                         {"onebit(values=packed)", d / 8 + 8, gathered, 4},
                         {"qsgd(levels=127)", d, gathered, 4},
                         {"qsgd(levels=128)", 2 * d, gathered, 4},
                         {"qsgd(levels=7, values=packed)", d * 4 / 8 + 4 * d / 128, gathered, 4},
                         {"qsgd(levels=8, values=packed)", d * 5 / 8 + 4 * d / 128, gathered, 4},
                         {"terngrad", d + 4, gathered, 4},
                         {"terngrad(values=packed)", d / 4 + 4, gathered, 4},
                         {"natural", d, gathered, 4},
                         {"int8", d + 4, gathered, 4},
                         {"sketchml", d + 4 * 64, gathered, 4},
                         {"sketchml(buckets=1024)", 2 * d + 4 * 1024, gathered, 4},
                         {"sketched_sgd(fraction=0.01, rows=3, columns=0.1)", 4 * (3 * 0.1 + 0.01) * d, summed, 1},
                         {"powersgd(rank=4)", 4 * 4 * 1500, summed, 1},
                         {"acpsgd(rank=4)", 4 * 4 * 1500 / 2., summed, 1},
                         {"onebit_adam", d / 8 + 4, gathered, 1},
                         {"onebit_lamb", d / 8 + 4, gathered, 1},
                         {"doublesqueeze", d / 8 + 4, gathered, 1},
                         {"doublesqueeze(operator=topk, fraction=0.02)", 8 * 0.02 * d, gathered, 1},
                         {"zero_one_adam", d / 8 + 4, gathered, 1}}) {
    CAPTURE(row.modifier);
    const OperatorCost two = operator_cost(row.modifier, 2), eight = operator_cost(row.modifier, 8);
    CHECK(two.sent == doctest::Approx(row.sent).epsilon(1e-9));
    CHECK(eight.sent == doctest::Approx(row.sent).epsilon(1e-9));
    CHECK(two.last == row.last);
    CHECK(eight.decode / two.decode == doctest::Approx(row.decodings).epsilon(1e-9));
  }
}

TEST_CASE("one compressor may follow a cast, and no other") {
  const Cluster four = plain_cluster(4, gigabyte);
  const auto sent = [&](const std::string& plan) { return bytes_sent(plan, one_matrix, four); };
  CHECK(sent("bsp+fp16+fp16") == doctest::Approx(1e6));
  CHECK(sent("bsp+fp16+randomk(fraction=0.1)") == doctest::Approx(sent("bsp+randomk(fraction=0.1)") / 2));
  CHECK(sent("bsp+fp16+powersgd") == doctest::Approx(sent("bsp+powersgd") / 2));
  CHECK(sent("bsp+fp16+topk(fraction=0.1)") == doctest::Approx(sent("bsp+topk(fraction=0.1)") * 6 / 8));
  for (const char* plan : {"bsp+topk+fp16", "bsp+powersgd+topk", "ddp+randomk+randomk"})
    CHECK(refusal(plan, one_matrix, four).find("encoded already") != std::string::npos);
  CHECK(refusal("bsp+twobit", one_matrix, four) != "");
  CHECK(refusal("dear+topk", one_matrix, four) != "");
  CHECK(refusal("wfbp_ps+powersgd", one_matrix, four) != "");
  CHECK(refusal("bsp+topk@double_tree", one_matrix, four).find("all_gather") != std::string::npos);
  const Profile sizes_only = profile_of_gradients({{Seconds(1e-3), Bytes(4e6)}}, Seconds(1e-3));
  CHECK(refusal("ddp+powersgd", sizes_only, four).find("shapes") != std::string::npos);
}

TEST_CASE("PowerSGD keeps the order of DDP's buckets, and a list goes beside the factors") {
  const Profile p = profile_of_shapes({{1000, 500}, {1000}, {2000, 500}, {2000}});
  const CommPlan plan = plan_of("ddp(bucket=1 MB, first=1 MB)+powersgd(rank=2)", p, plain_cluster(2, gigabyte));
  REQUIRE(plan.transfers.size() >= 5);
  CHECK(plan.channels[0].discipline == Discipline::fifo);
  // Two columns of 500 follow two of 1,000, beside nothing or 1,000 elements that stay.
  CHECK(plan.transfers[0].size.value() == 4 * 2 * 500);
  CHECK(traffic(plan).up.value() == doctest::Approx(4 * (2 * (1500 + 2500) + 3000)));
  // A split all-reduce gathers the second factors only.
  const CommPlan split = plan_of("dear(bucket=0 B)+powersgd(rank=2)", p, plain_cluster(2, gigabyte));
  CHECK(split.transfers[1].operation == Operation::all_gather);
  CHECK(split.transfers[1].size.value() == 4 * 2 * (500 + 500));
}

TEST_CASE("encoding that does not overlap follows the backward pass") {
  const Profile p = profile_of_gradients(
      {{Seconds(1e-3), Bytes(4e6)}, {Seconds(1e-3), Bytes(4e6)}, {Seconds(1e-3), Bytes(4e6)}}, Seconds(3e-3));
  const Cluster two = plain_cluster(2, gigabyte);
  // What is free hides no worse under the pass. (What is not may: a decoder that comes in first delays an encoder.)
  for (const char* plan : {"wfbp+topk(speed=1e12, overlap=", "ddp+natural(speed=1e12, overlap=",
                           "wfbp+onebit_adam(speed=1e12, overlap=", "dear+fp16(memory=1e15, overlap="}) {
    CAPTURE(plan);
    const Seconds under = time_of(std::string(plan) + "yes)", p, two),
                  after = time_of(std::string(plan) + "no)", p, two);
    CHECK(under.value() <= after.value() * (1 + 1e-9));
  }
  // Nothing to hide behind: three messages of 40 kB after 6 ms, whatever encoding costs.
  CHECK(time_of("wfbp+randomk(speed=1e12, overlap=no)", p, two).value() == doctest::Approx(6e-3 + 3 * 40e-6));
}

TEST_CASE("devices encode at the pace of their memory, hosts at their own") {
  Profile device;
  const auto seconds = [&](const char* name) {
    device.device = name;
    return CodecClock(device, 1)(Pace{9, 2}, 1e9).value();
  };
  CHECK(seconds("Tesla V100-SXM2-16GB") == doctest::Approx(9));
  CHECK(seconds("NVIDIA A100-SXM4-80GB") == doctest::Approx(9 * 900 / 2039.));
  CHECK(seconds("NVIDIA GeForce RTX 2080 Ti") == doctest::Approx(9 * 900 / 616.));
  CHECK(seconds("something new") == doctest::Approx(9));
  CHECK(seconds("") == doctest::Approx(2));
  CHECK(CodecClock(device, 4)(Pace{9, 2}, 1e9).value() == doctest::Approx(0.5));
}

TEST_CASE("dense beats gathered messages at 10 Gb/s, and is beaten by top-k at 1 Gb/s") {
  Profile p = profile_of_shapes({{25'559'000}});
  p.device = "Tesla V100";
  p.layers[0].forward = p.layers[0].backward = {{}, Seconds(0.1563)};
  const auto time = [&](const std::string& plan, double gbit) {
    return time_of(plan, p, plain_cluster(8, gigabits_per_second(gbit), Seconds(10e-6))).value();
  };
  for (const Modifier& m : modifiers()) {
    const std::string plan = "bsp+" + std::string(m.name);
    if (m.name == "topk" || m.name == "natural" || m.name == "dgc" || m.name == "qsgd" || m.name == "terngrad" ||
        m.name == "signsgd" || m.name == "signum" || m.name == "efsign" || m.name == "onebit")
      CHECK_MESSAGE(time(plan, 10) > time("bsp", 10), plan);
  }
  CHECK(time("bsp+randomk", 10) < time("bsp", 10));
  CHECK(time("bsp+topk", 1) < time("bsp", 1));
}

TEST_CASE("every compressor with every strategy gives a plan without flaw, or a reason") {
  Draw draw(2210);
  int planned = 0;
  for (const Modifier& m : modifiers())
    for (const Strategy& s : strategies())
      for (int round = 0; round < 2; ++round) {
        Profile profile = random_profile(draw, {.device = draw.coin()});
        for (Tensor& t : profile.tensors)
          if (t.shape[0] % 8 == 0) t.shape = {8, t.shape[0] / 8};
        const Cluster cluster = random_cluster(draw);
        const PlanSpec spec{&s, standard_options(s), {}, {{&m, standard_options(m.options)}}};
        CAPTURE(text_of(spec));
        const auto cost = communication_cost(cluster);
        REQUIRE(bool(cost));
        const Answer<CommPlan> plan = comm_plan_of(spec, profile, cluster, *cost);
        if (!plan) {
          CHECK(!plan.reason().empty());
          continue;
        }
        ++planned;
        CHECK(flaw_of(*plan, profile) == "");
      }
  CHECK(planned > 300);
}

TEST_CASE("two hundred thousand messages are encoded one by one") {
  const Profile p = profile_of_shapes({{100'000, 5000}, {20'000, 5000}});
  Cluster servers = plain_cluster(4, gigabyte);
  servers.servers = 4;
  const auto cost = communication_cost(servers);
  REQUIRE(bool(cost));
  const PlanSpec spec = plan_spec_of("bsp_ps(partition=24000 B)+topk");
  const auto plan = comm_plan_of(spec, p, servers, *cost);
  REQUIRE(bool(plan));
  CHECK(plan->transfers.size() >= 200'000);
}

TEST_CASE("gTop-k takes 2 log2 P rounds of values and indices, the half of which ends in a merge") {
  // 5,000 of 500,000 elements, 8 bytes each: 40 kB over 1 GB/s are 40 us a round, and 10 us of latency.
  const auto step = [&](std::int64_t workers, const char* options) {
    Cluster c = plain_cluster(workers, gigabyte, microseconds(10));
    return 1e6 *
           (time_of("bsp+gtopk(fraction=0.01, speed=" + std::string(options) + ")", one_matrix, c).value() - 2e-3);
  };
  CHECK(step(2, "1e12") == doctest::Approx(2 * 50).epsilon(1e-6));
  CHECK(step(8, "1e12") == doctest::Approx(6 * 50).epsilon(1e-6));
  CHECK(step(5, "1e12") == doctest::Approx(6 * 50).epsilon(1e-6));  // three rounds as well
  CHECK(step(64, "1e12") == doctest::Approx(12 * 50).epsilon(1e-6));
  // A host: 20.3 ns to look at an element, 2.7 to take or add one that is kept; three merges add 5,000 and look at
  // 10,000.
  const double codec = 20.3e-3 * 500'000 + 2.7e-3 * 5'000 + 3 * (2.7e-3 * 5'000 + 20.3e-3 * 10'000) + 2.7e-3 * 5'000;
  CHECK(step(8, "1") == doctest::Approx(6 * 50 + codec).epsilon(1e-6));
  // Top-k's all-gather is the cheaper one for few workers, and loses to the tree for many.
  for (const std::int64_t workers : {4, 64}) {
    const auto exchange = [&](const char* name) {
      return exposed("+" + std::string(name) + "(fraction=0.01, speed=1e12)", workers);
    };
    CHECK((exchange("gtopk") < exchange("topk")) == (workers == 64));
  }
  Cluster servers = plain_cluster(4, gigabyte);
  servers.servers = 4;
  CHECK(refusal("wfbp_ps+gtopk", one_matrix, servers).find("tree") != std::string::npos);
  CHECK(refusal("dear+gtopk", one_matrix, servers) != "");
  CHECK(refusal("ddp+gtopk", one_matrix, servers) == "");
}

TEST_CASE("0/1 Adam is 1-bit Adam every k-th step, with local steps in between") {
  const Cluster four = plain_cluster(4, gigabyte);
  const auto step = [&](const std::string& modifier) { return time_of("bsp+" + modifier, one_matrix, four).value(); };
  const double adam = step("onebit_adam") - 2e-3;
  CHECK(step("onebit_lamb") - 2e-3 == doctest::Approx(adam));
  CHECK(step("zero_one_adam(period=1)") - 2e-3 == doctest::Approx(adam));
  CHECK(step("zero_one_adam") - 2e-3 == doctest::Approx(adam / 16).epsilon(1e-6));
  CHECK(step("zero_one_adam(period=4)") - 2e-3 == doctest::Approx(adam / 4).epsilon(1e-6));
}

TEST_CASE("DC-DGD sends differences through any compressor: encoded once, decoded neighbour by neighbour") {
  const Cluster eight = plain_cluster(8, gigabyte, microseconds(10));
  const auto step = [&](const std::string& plan) { return 1e6 * time_of(plan, one_matrix, eight).value() - 2e3; };
  // Three neighbours, 500,000 elements.
  CHECK(step("dc_dgd(degree=3)") == doctest::Approx(3 * (10 + 2000)));
  CHECK(step("dc_dgd(degree=3, share=0.25)") == doctest::Approx(3 * (10 + 500)));
  // Half precision in a memory of 1 GB/s: 3 MB are read and written to encode, and to decode each of three, of which
  // the first is there after 1 ms.
  CHECK(step("dc_dgd(degree=3)+fp16(memory=1e9)") == doctest::Approx(3000 + (10 + 1000) + 3 * 3000).epsilon(1e-6));
  CHECK(step("dc_dgd(degree=3)+topk(fraction=0.01, speed=1e12)") == doctest::Approx(3 * (10 + 40)).epsilon(1e-6));
  // A host's top-k: 20.3 ns an element, 2.7 one that is kept; only the last decoding is not under a message.
  CHECK(step("dc_dgd(degree=3)+topk(fraction=0.01)") ==
        doctest::Approx(20.3e-3 * 5e5 + 2.7e-3 * 5e3 + 3 * (10 + 40) + 2.7e-3 * 5e3).epsilon(1e-6));
  for (const char* name : {"dgc", "randomk", "threshold", "signsgd", "signum", "efsign", "onebit", "qsgd", "terngrad",
                           "natural", "int8", "sketchml"}) {
    CAPTURE(name);
    CHECK(step("dc_dgd+" + std::string(name) + "(speed=1e12)") < step("dc_dgd"));
    const CommPlan plan = plan_of("dc_dgd(degree=4)+" + std::string(name), one_matrix, eight);
    CHECK(std::count_if(plan.codecs.begin(), plan.codecs.end(), [](const Codec& c) { return c.name == "encode"; }) ==
          1);
    CHECK(std::count_if(plan.codecs.begin(), plan.codecs.end(), [](const Codec& c) { return c.name == "decode"; }) ==
          4);
  }
  for (const char* name : {"powersgd", "onebit_adam", "gtopk", "sketched_sgd"})
    CHECK(refusal("dc_dgd+" + std::string(name), one_matrix, eight).find("among all workers") != std::string::npos);
  CHECK(refusal("dc_dgd+twobit", one_matrix, eight).find("servers") != std::string::npos);
  CHECK(refusal("dc_dgd(share=0.25)+topk", one_matrix, eight) != "");
  for (const char* plan : {"overlay+topk", "d_psgd+topk", "ad_psgd+fp16"})
    CHECK(refusal(plan, one_matrix, eight).find("models") != std::string::npos);
}

TEST_CASE("DoubleSqueeze pulls what was compressed again, where top-k pulls all that was pushed") {
  Cluster servers = plain_cluster(4, gigabyte);
  servers.servers = 4;
  const double d = 500'000;
  for (const auto& [plan, bytes] : {std::pair{"bsp_ps+doublesqueeze", d / 8 + 4},
                                    std::pair{"bsp_ps+doublesqueeze(operator=topk, fraction=0.02)", 8 * 0.02 * d}}) {
    CHECK(traffic(plan_of(plan, one_matrix, servers)).up.value() == doctest::Approx(bytes));
    CHECK(traffic(plan_of(plan, one_matrix, servers)).down.value() == doctest::Approx(bytes));
  }
  CHECK(refusal("bsp_ps+doublesqueeze(fraction=0.02)", one_matrix, servers).find("operator=topk") != std::string::npos);
}
