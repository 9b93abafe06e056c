// Profiles of described models: what a roofline says, in the form that traces give.
#include <stepcast/extraction/profile_of.hpp>
#include <stepcast/roofline/model_shape.hpp>

#include <doctest/doctest.h>

#include <string>

#include "helpers/roofline_device.hpp"

using namespace stepcast;

namespace {

Profile profile_of(const std::string& model, double samples) {
  return described_profile(model_shape_of(model), test::roofline_device(), samples);
}

Seconds sum_of_device(const Profile& p) {
  Seconds sum;
  for (const Layer& l : p.layers) sum += l.forward.device + l.backward.device;
  return sum;
}

}  // namespace

TEST_CASE("a described profile has one layer a unit, and the model's gradients as they become ready") {
  const Profile p = profile_of("gpt:hidden=768,layers=12,heads=12,seq=1024,vocab=50257", 4);
  REQUIRE(p.layers.size() == 14);
  CHECK(p.layers[0].name == "embedding");
  CHECK(p.layers[1].name == "block.0");
  CHECK(p.layers[13].name == "head");
  CHECK(p.gradient_size().value() == 2 * 124439808.0);  // tied: the head has no copy
  CHECK(p.tensors.front().name == "head.final_norm.bias");
  CHECK(p.tensors[2].name == "block.11.down.bias");
  CHECK(p.tensors.back().name == "embedding.tokens.weight");
  CHECK(p.tensors.back().shape == std::vector<std::int64_t>{50257, 768});
  CHECK(p.batch_samples == 4);
  CHECK(p.device == "roofline");
  CHECK(p.step_times.empty());
  CHECK(p.measured_step().value() == 0);
}

TEST_CASE("it says that nothing was measured, and what the device's numbers are") {
  const Profile p = profile_of("resnet50:", 32);
  CHECK(p.provenance == "described as resnet50:, on the roofline of roofline");
  REQUIRE(p.assumed.size() == 3);
  CHECK(p.assumed[0] == "nothing of this model was measured: all times are those of the roofline of " + p.device);
  CHECK(p.assumed[1] == "optimizer: SGD with momentum in one fused kernel");
  CHECK(p.assumed[2] == "roofline: round numbers");
}

TEST_CASE("convolutional networks have the published numbers of tensors") {
  CHECK(profile_of("resnet50:", 1).tensors.size() == 161);
  CHECK(profile_of("resnet101:", 1).tensors.size() == 314);
  CHECK(profile_of("vgg16_bn:", 1).tensors.size() == 58);
  CHECK(profile_of("alexnet:", 1).tensors.size() == 16);
  CHECK(profile_of("resnet50:", 1).gradient_size().value() == 4 * 25557032.0);
  CHECK(profile_of("resnet50:dtype=f16", 1).gradient_size().value() == 2 * 25557032.0);
}

TEST_CASE("device time is products and memory; it grows with the batch, and less than in proportion") {
  for (const std::string model : {"resnet50:", "vgg16:", "llama:hidden=512,layers=3,heads=8,seq=128"}) {
    CAPTURE(model);
    const Profile small = profile_of(model, 8), large = profile_of(model, 64);
    for (const Layer& l : large.layers) {
      CHECK(l.forward.device.value() ==
            doctest::Approx((l.forward.part[KernelClass::gemm] + l.forward.part[KernelClass::memory]).value())
                .epsilon(1e-12));
      CHECK(l.backward.device > Seconds(0));
      CHECK(l.kept >= Bytes(0));
    }
    CHECK(sum_of_device(large) > sum_of_device(small));
    CHECK(sum_of_device(large) <= sum_of_device(small) * 8);
    CHECK(large.activation_memory == small.activation_memory * 8);
    CHECK(compute_time(large) >= sum_of_device(large));
    // The host issues as many kernels whatever the batch.
    CHECK(large.layers[1].forward.host == small.layers[1].forward.host);
  }
}

TEST_CASE("a described profile reads back, and is refused for no samples") {
  const Profile p = profile_of("bert:hidden=128,layers=2,heads=2,seq=64", 3);
  CHECK(json_of(profile_of_json(json_of(p), "p.json")) == json_of(p));
  CHECK_THROWS_AS((void)profile_of("resnet18:", 0), InputError);
  CHECK_THROWS_AS((void)profile_of("resnet18:", -1), InputError);
}

TEST_CASE("a described profile keeps by how much its device errs, and says so in a file") {
  Device device = test::roofline_device();
  device.relative_error = 0.25;
  const Profile p = described_profile(model_shape_of("gpt:hidden=768,layers=12,heads=12,seq=1024"), device, 4);
  CHECK(p.described);
  CHECK(p.device_error == 0.25);
  const Profile read = profile_of_json(json_of(p), "saved.json");
  CHECK(read.described);
  CHECK(read.device_error == 0.25);
  CHECK(read.layers[1].input_shape == std::vector<std::int64_t>{4, 1024, 768});
  std::string text = json_of(p);
  const std::string said = "\"described\": true";
  text.replace(text.find(said), said.size(), "\"described\": false");
  CHECK_THROWS_WITH_AS((void)profile_of_json(text, "saved.json"), doctest::Contains("device_error"), InputError);
  text = json_of(p);
  const std::string error = "\"device_error\": 0.25";
  text.replace(text.find(error), error.size(), "\"device_error\": -1");
  CHECK_THROWS_AS((void)profile_of_json(text, "saved.json"), InputError);
}
