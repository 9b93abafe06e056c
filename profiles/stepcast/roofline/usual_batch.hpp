#pragma once
// Usual batch: the samples of a step that models of a size are trained with, for questions that do not say.
//
// Language models by the tokens of a step that were published: 2^19 below 1 billion parameters (GPT-2: 512 samples of
// 1,024; GPT-3 to 0.76 billion: 0.5 M), 2^20 below 6 billion (GPT-3 of 1.3 and 2.7 billion), 2^22 below 200 billion
// (Llama 2, 7 to 70 billion: 4 M; GPT-3 of 175 billion: 3.2 M), 2^24 above (Llama 3, 405 billion: 16 M). Models of
// images by their devices: 32 samples on each (Goyal et al. 2017). Then the nearest number that the devices divide: one
// sample a device at least, so that every plan can share it out, data parallelism alone among them; of models beyond 20
// billion, which devices share anyway, a number that some of the devices divide. Example: Llama 3 8B
// with 8,192 tokens a sample trains 512 samples a step on 64 devices, 504 on 24, and 1,024 on 1,024, which is more than
// usual and is said to be. Not modelled: batches that grow during training, and what a batch costs in convergence.
//
// Sources: Radford et al. 2019, section 2.3; Brown et al. 2020 (arXiv 2005.14165), table 2.1; Touvron et al. 2023
// (arXiv 2307.09288), section 2.2; Grattafiori et al. 2024 (arXiv 2407.21783), section 3.4.1; Goyal et al. 2017 (arXiv
// 1706.02677), section 5.1.
#include <stepcast/roofline/model_shape.hpp>

#include <cstdint>
#include <string>

namespace [[gnu::visibility("default")]] stepcast {

/// Samples a step on all of `devices`.
[[nodiscard]] double usual_global_batch(const ModelShape&, std::int64_t devices);
/// "usual for models of this size", or "one sample a device, where 512 are usual for models of this size".
[[nodiscard]] std::string why_usual(const ModelShape&, double samples);
/// "4.2 M tokens"
[[nodiscard]] std::string batch_in_tokens(double tokens);
/// "global batch 512 (4.2 M tokens a step): usual for models of this size".
[[nodiscard]] std::string usual_batch_text(const ModelShape&, double samples);

}  // namespace stepcast
