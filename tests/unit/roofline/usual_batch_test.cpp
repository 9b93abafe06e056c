// The batch of questions that do not say one: what was published for models of a size, shared out by the devices.
#include <stepcast/roofline/usual_batch.hpp>

#include <doctest/doctest.h>

using namespace stepcast;

TEST_CASE("the usual batch has the tokens that were published for models of the size") {
  CHECK(usual_global_batch(model_shape_of("gpt2"), 8) == 512);          // Radford et al. 2019: 512 samples
  CHECK(usual_global_batch(model_shape_of("gpt2-xl"), 8) == 1024);      // 1 M tokens
  CHECK(usual_global_batch(model_shape_of("llama2-70b"), 64) == 1024);  // 4 M tokens of 4,096
  CHECK(usual_global_batch(model_shape_of("llama3-8b"), 64) == 512);
  CHECK(usual_global_batch(model_shape_of("llama3-405b"), 16384) == 2048);  // 16 M tokens
  CHECK(usual_global_batch(model_shape_of("resnet50:"), 16) == 512);        // 32 images a device
}

TEST_CASE("the devices, or their largest part that has samples enough, divide the usual batch") {
  const ModelShape llama = model_shape_of("llama3-8b");
  for (std::int64_t devices = 1; devices <= 512; ++devices)
    CHECK(static_cast<std::int64_t>(usual_global_batch(llama, devices)) % devices == 0);
  CHECK(usual_global_batch(llama, 24) == 504);
  CHECK(usual_global_batch(llama, 4480) == 448);
  CHECK(usual_global_batch(llama, 1031) == 512);  // a prime number: nothing of it divides
  CHECK(usual_global_batch(model_shape_of("llama3-8b:seq=131072"), 64) == 32);
  CHECK(usual_global_batch(model_shape_of("llama3-8b:seq=8388608"), 64) == 1);
}

TEST_CASE("the usual batch is said with its tokens") {
  CHECK(usual_batch_text(model_shape_of("llama3-8b"), 512) ==
        "global batch 512 (4.2 M tokens a step): usual for models of this size");
  CHECK(usual_batch_text(model_shape_of("resnet50:"), 512) ==
        "global batch 512: usual for models of images, 32 a device");
}
