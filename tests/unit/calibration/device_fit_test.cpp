// A device fitted to steps: what made the steps is found again, odd rows do not bend it, and the published bars hold on
// measured steps of others.
#include "helpers/shared_data.hpp"

#include <stepcast/calibration/device_fit.hpp>
#include <stepcast/cluster/cluster.hpp>
#include <stepcast/prediction/prediction.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

using namespace stepcast;

namespace {

Device data_sheet() {
  Device d;
  d.name = "sheet";
  d.memory_bandwidth = BytesPerSecond(2.0e12);
  d.matrix_rate[static_cast<std::size_t>(DataType::f16)] = 300e12;
  d.matrix_efficiency = 0.9;
  d.half_output = 1e6;
  d.half_k = 64;
  d.kernel_floor = microseconds(5);
  d.issue = microseconds(20);
  d.provenance = {"test"};
  return d;
}

Device real_device() {
  Device d = data_sheet();
  d.matrix_efficiency = 0.7;
  d.half_output = 4e6;
  d.memory_bandwidth = BytesPerSecond(1.5e12);
  d.issue = microseconds(60);
  return d;
}

constexpr std::string_view table =
    "# GPUs,global batch,micro batch,hidden size,attention heads,# layers,sequence length,tensor parallelism,"
    "data parallelism,pipeline parallelism,iteration time (ms)\n"
    "2,16,8,1024,16,24,1024,1,1,2,372.160408\n"
    "8,32,4,1024,16,24,1024,2,2,2,219.732754\n";

const StepDefaults defaults{.plan = layout_plan_of("layout(overlap_pp=off, overlap_dp=off)/bsp")};

std::vector<MeasuredStep> synthetic_steps(const Device& device, const Cluster& cluster) {
  std::string csv = "model,plan,global batch,devices,step_s\n";
  for (const char* model : {"gpt:hidden=1024,layers=8,heads=16,seq=1024", "gpt:hidden=4096,layers=4,heads=32,seq=1024"})
    for (const int tensor : {1, 2, 4})
      for (const int micro_batch : {1, 2, 8})
        csv += "\"" + std::string(model) + "\",\"layout(tp=" + std::to_string(tensor) +
               ", mb=" + std::to_string(micro_batch) + ")/bsp\",32,4,1\n";
  std::vector<MeasuredStep> steps = measured_steps_of_csv(csv, "made", defaults);
  for (MeasuredStep& step : steps) {
    const Answer<Seconds> time = predicted_step(device, cluster, step);
    REQUIRE(time);
    step.time = *time;
  }
  return steps;
}

}  // namespace

TEST_CASE("measured steps are read by the words of their columns") {
  const std::vector<MeasuredStep> steps = measured_steps_of_csv(table, "steps.csv", defaults);
  REQUIRE(steps.size() == 2);
  CHECK(steps[0].model == "gpt:hidden=1024,layers=24,heads=16,seq=1024");
  CHECK(steps[0].devices == 2);
  CHECK(steps[0].global_batch == 16);
  CHECK(steps[0].time.value() == doctest::Approx(0.372160408));
  CHECK(steps[0].source == "steps.csv:2");
  CHECK(steps[0].plan.layout.micro_batch == 8);
  CHECK(steps[0].plan.layout.pipeline == 2);
  CHECK_FALSE(steps[0].plan.layout.overlap_gradients);
  CHECK(steps[0].plan.layout.stage_units.empty());  // as programs deal them out
  CHECK(steps[1].plan.layout.tensor == 2);
  CHECK(steps[1].plan.layout.data == 2);
}

TEST_CASE("tables of steps say what is wrong with them, and where") {
  const auto message = [](std::string_view csv) -> std::string {
    try {
      static_cast<void>(measured_steps_of_csv(csv, "t.csv", defaults));
    } catch (const InputError& error) { return error.what(); }
    return "";
  };
  CHECK(message("model,global batch,devices,time\n").find("its unit") != std::string::npos);
  CHECK(message("global batch,devices,step_s\n").find("'model'") != std::string::npos);
  const std::string head = "model,global batch,devices,step_s\n", model = "\"gpt:hidden=64,layers=2,heads=2,seq=8\"";
  CHECK(message(head + model + ",8,4\n").find("t.csv:2") != std::string::npos);
  CHECK(message(head + model + ",8,4,-1\n").find("above zero") != std::string::npos);
  CHECK(message(head + model + ",x,4,1\n").find("column global batch") != std::string::npos);
  CHECK(message(head).find("header only") != std::string::npos);
}

TEST_CASE("a plan and its step are one text, and a table may leave out what is known") {
  CHECK(is_measured_step("layout(tp=2)/ddp=12.3 s"));
  CHECK(is_measured_step("fsdp=1 s"));
  CHECK(is_measured_step("layout(tp=2)/ddp"));  // a plan whose step was forgotten
  CHECK_FALSE(is_measured_step("steps.csv"));
  CHECK_FALSE(is_measured_step("tables/layout/steps"));
  StepDefaults known{.plan = layout_plan_of("ddp"),
                     .model = "gpt:hidden=64,layers=2,heads=2,seq=8",
                     .devices = 16,
                     .global_batch = 32};
  const MeasuredStep step = measured_step_of("layout(tp=2, mb=4)/ddp(bucket=5 MiB) = 12.3 ms", "--measured", known);
  CHECK(step.model == known.model);
  CHECK(step.devices == 16);
  CHECK(step.global_batch == 32);
  CHECK(step.time.value() == doctest::Approx(0.0123));
  CHECK(text_of(step.plan) == "layout(tp=2, mb=4)/ddp(bucket=5 MiB)");
  CHECK(measured_step_of("layout(tp=2, dp=2, pp=2)/ddp=1 s", "", known).devices == 8);
  known.global_batch = 0, known.batch_of_device = 4;
  CHECK(measured_step_of("layout(dp=8)/ddp=1 s", "", known).global_batch == 32);
  CHECK(measured_step_of("ddp=1 s", "", known).global_batch == 64);
  known.batch_of_device = 0;
  CHECK_THROWS_WITH_AS((void)measured_step_of("ddp=1 s", "", known), doctest::Contains("--global-batch"), InputError);

  known.global_batch = 32;
  const std::vector<MeasuredStep> rows = measured_steps_of_csv(
      "layout,step,devices\n\"layout(zero=3, mb=1)/ddp\",12.3 s,16\nfsdp,400 ms,8\n", "t.csv", known);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].time == Seconds(12.3));
  CHECK(rows[1].devices == 8);
  CHECK(rows[1].global_batch == 32);
  CHECK(rows[1].source == "t.csv:3");
  CHECK_THROWS_WITH_AS((void)measured_steps_of_csv("layout,step\nfspd,1 s\n", "t.csv", known),
                       doctest::Contains("t.csv:2 column layout"), InputError);
  CHECK_THROWS_WITH_AS((void)measured_steps_of_csv("layout,step\nfsdp,1\n", "t.csv", known),
                       doctest::Contains("t.csv:2 column step"), InputError);
}

TEST_CASE("a few measured steps correct a device, first of all the level that products sustain") {
  const Cluster cluster = cluster_of_flags(4, 4, "100 Gb/s");
  Device sheet = data_sheet(), real = data_sheet();
  sheet.relative_error = 0.26;
  real.matrix_efficiency = 0.5;
  std::vector<MeasuredStep> steps = synthetic_steps(real, cluster);
  // A large model, which products bound.
  const std::vector<MeasuredStep> one{steps[9]};
  const DeviceCorrection corrected = corrected_device(sheet, cluster, one);
  CHECK(corrected.before[0] < -0.2);
  CHECK(std::abs(corrected.after[0]) < 0.04);
  CHECK(corrected.device.matrix_efficiency == doctest::Approx(0.5).epsilon(0.12));
  CHECK(corrected.device.issue.value() == doctest::Approx(sheet.issue.value()).epsilon(0.1));
  REQUIRE_FALSE(corrected.changed.empty());
  CHECK(corrected.changed.front().name == "matrix efficiency");
  // Others of the same device are nearer than they were.
  for (const std::size_t i : {10, 11, 12, 15}) {
    const double before = std::abs(std::log(*predicted_step(sheet, cluster, steps[i]) / steps[i].time));
    const double after = std::abs(std::log(*predicted_step(corrected.device, cluster, steps[i]) / steps[i].time));
    CHECK(after < 0.3 * before);
  }

  SUBCASE("a device of which no step was measured is far from its roofline on one side, until one is") {
    sheet.relative_error = 0;
    const DeviceCorrection first = corrected_device(sheet, cluster, one);
    CHECK(first.device.relative_error > 0.086);
    CHECK(first.device.relative_error < unmeasured_spread);
    const std::vector<std::string> told = words_of(first);
    CHECK(std::ranges::any_of(told, [](const std::string& line) {
      return line.find("less to") != std::string::npos &&
             line.find("no step having been measured") != std::string::npos;
    }));
  }
  SUBCASE("what is not known shrinks with the number of steps, and nothing is known better than one row from another") {
    double before = sheet.relative_error;
    for (const std::size_t count : {1, 2, 3, 8}) {
      const double now =
          corrected_device(sheet, cluster,
                           {steps.begin() + 9, steps.begin() + 9 + std::min<std::ptrdiff_t>(std::ptrdiff_t(count), 9)})
              .device.relative_error;
      CHECK(now < before);
      CHECK(now > 0.086);
      before = now;
    }
    sheet.relative_error = 0.04;  // known better than by such steps
    CHECK(corrected_device(sheet, cluster, one).device.relative_error >= 0.04);
  }
  SUBCASE("steps that contradict one another leave more open than before, and are told") {
    double narrower = corrected_device(sheet, cluster, {steps[9], steps[10]}).device.relative_error;
    for (const double factor : {1.25, 1.6, 2.0}) {
      MeasuredStep odd = steps[10];
      odd.time = odd.time * factor;
      const DeviceCorrection contradicted = corrected_device(sheet, cluster, {steps[9], odd});
      CHECK(contradicted.device.relative_error > narrower);
      narrower = contradicted.device.relative_error;
    }
    CHECK(narrower > sheet.relative_error);
    MeasuredStep again = steps[9];
    again.time = again.time * 2;
    const DeviceCorrection repeats = corrected_device(sheet, cluster, {steps[9], again});
    CHECK(repeats.device.relative_error > sheet.relative_error);
    const std::vector<std::string> told = words_of(repeats);
    CHECK(std::ranges::any_of(
        told, [](const std::string& line) { return line.find("contradict one another") != std::string::npos; }));
    CHECK(words_of(corrected_device(sheet, cluster, {steps[9], steps[10]})).back().starts_with("80 % interval"));
  }
  SUBCASE("repeats of a step count once, however many they are") {
    std::vector<MeasuredStep> repeats(100, steps[9]);
    const DeviceCorrection many = corrected_device(sheet, cluster, repeats);
    CHECK(many.device.matrix_efficiency == doctest::Approx(corrected.device.matrix_efficiency).epsilon(1e-4));
    CHECK(many.device.relative_error == doctest::Approx(corrected.device.relative_error).epsilon(1e-3));
    CHECK(many.after.size() == 100);
  }
  SUBCASE("a measured step that does not fit is corrected by, and doubted") {
    Cluster small = cluster;
    small.device_memory = Bytes(1e9);
    const DeviceCorrection doubted = corrected_device(sheet, small, one);
    REQUIRE(doubted.doubts.size() == 1);
    CHECK(doubted.doubts[0].find("it was measured, and by this model needs") != std::string::npos);
    CHECK(std::ranges::any_of(words_of(doubted),
                              [&](const std::string& line) { return line == "CAUTION: " + doubted.doubts[0]; }));
    CHECK(corrected.doubts.empty());
  }
  SUBCASE("steps that agree with the device leave it alone") {
    steps[9].time = *predicted_step(sheet, cluster, steps[9]);
    const DeviceCorrection none = corrected_device(sheet, cluster, {steps[9]});
    CHECK(none.changed.empty());
    CHECK(none.device.matrix_efficiency == doctest::Approx(sheet.matrix_efficiency));
  }
  SUBCASE("a step beyond the peak of the devices is refused, and one that none makes is told") {
    MeasuredStep odd = steps[9];
    odd.time = odd.time * 1e-3;
    CHECK_THROWS_WITH_AS((void)corrected_device(sheet, cluster, {odd}), doctest::Contains("at the peak of 4 devices"),
                         InputError);
    odd.time = odd.time * 1e6;
    const std::vector<std::string> told = words_of(corrected_device(sheet, cluster, {odd}));
    CHECK(told.back().starts_with("CAUTION"));
    const auto is_outside = [](const std::string& line) {
      return line.find("lies far outside that interval before") != std::string::npos;
    };
    CHECK(std::ranges::any_of(told, is_outside));
    CHECK(std::ranges::none_of(words_of(corrected), is_outside));
    odd = steps[9];
    odd.plan = layout_plan_of("layout(tp=3)/ddp");
    CHECK_THROWS_WITH_AS((void)corrected_device(sheet, cluster, {odd}), doctest::Contains("does not make 4 devices"),
                         InputError);
  }
}

TEST_CASE("rows that fill the space are the same whatever their times") {
  std::vector<MeasuredStep> steps = synthetic_steps(real_device(), cluster_of_flags(4, 4, "100 Gb/s"));
  const std::vector<std::size_t> chosen = spread_rows(steps, 6);
  REQUIRE(chosen.size() == 6);
  for (std::size_t i = 1; i < chosen.size(); ++i) CHECK(chosen[i - 1] < chosen[i]);
  for (MeasuredStep& step : steps) step.time = Seconds(1 + double(&step - steps.data()));
  CHECK(spread_rows(steps, 6) == chosen);
  CHECK(spread_rows(steps, 1000).size() == steps.size());
}

TEST_CASE("the device that made the steps is found again") {
  const Cluster cluster = cluster_of_flags(4, 4, "100 Gb/s");
  const Device real = real_device();
  std::vector<MeasuredStep> steps = synthetic_steps(real, cluster);
  const Answer<DeviceFit> fit = device_of_steps(data_sheet(), cluster, steps, true);
  REQUIRE(fit);
  for (const double r : fit->residuals) CHECK(std::abs(r) < 0.02);
  REQUIRE(fit->left_out.size() == steps.size());
  CHECK(fit->device.issue.value() == doctest::Approx(real.issue.value()).epsilon(0.05));
  CHECK(fit->device.relative_error < 0.03);

  SUBCASE("one odd row stays alone") {
    steps[5].time *= 2;
    const Answer<DeviceFit> bent = device_of_steps(data_sheet(), cluster, steps);
    REQUIRE(bent);
    double sum = 0;
    for (std::size_t i = 0; i < steps.size(); ++i) sum += i == 5 ? 0 : std::abs(bent->residuals[i]);
    CHECK(sum / double(steps.size() - 1) < 0.05);
    CHECK(bent->residuals[5] < -0.4);
  }
}

TEST_CASE("fused attention is found where rows have it, and measured extents of products stay") {
  const Cluster cluster = cluster_of_flags(4, 4, "100 Gb/s");
  Device start = data_sheet();
  start.half_m = 150, start.half_n = 100, start.half_k = 180, start.half_output = 0;
  start.attention_forward = 0.5, start.attention_backward = 0.4;
  Device real = start;
  real.matrix_efficiency = 0.7, real.attention_forward = 0.3, real.attention_backward = 0.24;
  std::string csv = "model,plan,global batch,devices,step_s\n";
  for (const int sequence : {512, 2048, 8192, 32768})
    for (const int hidden : {1024, 4096})
      csv += "\"gpt:hidden=" + std::to_string(hidden) +
             ",layers=4,heads=16,attention=flash,seq=" + std::to_string(sequence) + "\",layout(mb=1)/bsp,4,4,1\n";
  std::vector<MeasuredStep> steps = measured_steps_of_csv(csv, "made", defaults);
  for (MeasuredStep& step : steps) step.time = *predicted_step(real, cluster, step);
  const Answer<DeviceFit> fit = device_of_steps(start, cluster, steps);
  REQUIRE(fit);
  CHECK(fit->device.attention_forward == doctest::Approx(0.3).epsilon(0.03));
  CHECK(fit->device.attention_backward == doctest::Approx(0.24).epsilon(0.03));
  CHECK(fit->device.matrix_efficiency == doctest::Approx(0.7).epsilon(0.05));
  CHECK(fit->device.half_k == start.half_k);
  CHECK(fit->device.half_output == 0);

  SUBCASE("without such a row nothing of it is made up") {
    const Answer<DeviceFit> none = device_of_steps(data_sheet(), cluster, synthetic_steps(real_device(), cluster));
    REQUIRE(none);
    CHECK(none->device.attention_forward == 0);
  }
}

TEST_CASE("fewer steps than free numbers make no device") {
  const Cluster cluster = cluster_of_flags(4, 4, "100 Gb/s");
  std::vector<MeasuredStep> steps = synthetic_steps(real_device(), cluster);
  steps.resize(3);
  const Answer<DeviceFit> fit = device_of_steps(data_sheet(), cluster, steps);
  REQUIRE_FALSE(fit);
  CHECK(fit.reason().find("3 measured steps") != std::string::npos);
}

TEST_CASE(
    "forty measured steps on one machine predict the others, and those on many machines, within published errors") {
  const auto folder = test::shared_folder("data/vtrain-a100");
  if (!folder) return;
  const auto steps_of = [&](const char* file, const char* plan) {
    return measured_steps_of_csv(test::text_of_file(*folder / file), file, {.plan = layout_plan_of(plan)});
  };
  const auto one = steps_of("iteration_times_one_node.csv", "layout(overlap_pp=off, overlap_dp=off)/bsp");
  const auto many =
      steps_of("iteration_times_multi_node.csv", "layout(overlap_pp=off, overlap_dp=off, recompute=full)/bsp");
  const Cluster* cluster = shipped_cluster("32x8-a100-800gbib");
  REQUIRE(cluster != nullptr);
  Device start = data_sheet();
  start.memory_bandwidth = BytesPerSecond(2.039e12);
  start.matrix_rate[static_cast<std::size_t>(DataType::f16)] = 312e12;

  std::vector<MeasuredStep> rows, held_out;
  const std::vector<std::size_t> chosen = spread_rows(one, 40);
  for (std::size_t i = 0; i < one.size(); ++i)
    (std::binary_search(chosen.begin(), chosen.end(), i) ? rows : held_out).push_back(one[i]);
  REQUIRE(rows.size() == 40);
  const Answer<DeviceFit> fit = device_of_steps(start, *cluster, rows);
  REQUIRE(fit);
  const auto mean_error = [&](const std::vector<MeasuredStep>& steps) {
    double sum = 0;
    for (const MeasuredStep& step : steps) {
      const Answer<Seconds> time = predicted_step(fit->device, *cluster, step);
      REQUIRE(time);
      sum += std::abs(*time / step.time - 1);
    }
    return sum / double(steps.size());
  };
  // vTrain's own errors over all such rows are 8.37 % and 14.73 %.
  CHECK(mean_error(held_out) < 0.065);
  CHECK(mean_error(many) < 0.105);

  SUBCASE("the shipped device is this fit") {
    const Device* shipped = shipped_device("NVIDIA A100-SXM4-80GB, Megatron-DeepSpeed");
    REQUIRE(shipped != nullptr);
    CHECK(shipped->matrix_efficiency == doctest::Approx(fit->device.matrix_efficiency).epsilon(0.02));
    CHECK(shipped->memory_bandwidth.value() == doctest::Approx(fit->device.memory_bandwidth.value()).epsilon(0.02));
    CHECK(shipped->issue.value() == doctest::Approx(fit->device.issue.value()).epsilon(0.02));
  }
}
