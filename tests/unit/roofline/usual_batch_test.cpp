// The batch of questions that do not say one: what was published for models of a size, shared out by the devices.
#include <stepcast/roofline/usual_batch.hpp>

#include <doctest/doctest.h>

using namespace stepcast;

TEST_CASE("the usual batch has the tokens that were published for models of the size") {
  CHECK(usual_global_batch(model_shape_of("gpt2"), 8) == 512);          // Radford et al. 2019: 512 samples
  CHECK(usual_global_batch(model_shape_of("gpt2-xl"), 8) == 1024);      // 1 M tokens
  CHECK(usual_global_batch(model_shape_of("llama2-70b"), 64) == 1024);  // 4 M tokens of 4,096
  CHECK(usual_global_batch(model_shape_of("llama3-8b"), 64) == 512);
  CHECK(usual_global_batch(model_shape_of("llama3-405b"), 1024) == 2048);  // 16 M tokens
  CHECK(usual_global_batch(model_shape_of("resnet50:"), 16) == 512);       // 32 images a device
}

TEST_CASE("every device has a part of the usual batch, one sample at least") {
  const ModelShape llama = model_shape_of("llama3-8b");
  for (std::int64_t devices = 1; devices <= 2048; ++devices) {
    const auto samples = static_cast<std::int64_t>(usual_global_batch(llama, devices));
    CHECK(samples % devices == 0);
    CHECK(samples >= devices);
  }
  CHECK(usual_global_batch(model_shape_of("llama3-405b"), 16384) == 2048);  // which layouts divide
  CHECK(usual_global_batch(model_shape_of("llama3-70b"), 4480) == 512 / 448 * 448);
  CHECK(usual_global_batch(llama, 24) == 504);
  CHECK(usual_global_batch(llama, 4480) == 4480);
  CHECK(usual_global_batch(llama, 1031) == 1031);  // a prime number
  CHECK(usual_global_batch(model_shape_of("llama3-8b:seq=131072"), 64) == 64);
  CHECK(usual_global_batch(model_shape_of("llama3-8b:seq=8388608"), 64) == 64);
}

TEST_CASE("the usual batch is said with its tokens") {
  CHECK(usual_batch_text(model_shape_of("llama3-8b"), 512) ==
        "global batch 512 (4.2 M tokens a step): usual for models of this size");
  CHECK(usual_batch_text(model_shape_of("llama3-8b"), 4480) ==
        "global batch 4480 (36.7 M tokens a step): one sample a device, where 512 are usual for models of this size");
  CHECK(usual_batch_text(model_shape_of("llama3-8b:seq=8388608"), 64) ==
        "global batch 64 (536.9 M tokens a step): one sample a device, where 1 is usual for models of this size");
  CHECK(usual_batch_text(model_shape_of("resnet50:"), 512) ==
        "global batch 512: usual for models of images, 32 a device");
}
