#pragma once
// Measured steps of a question: what a described model's own steps correct of its device (calibration/device_fit.hpp).
//
//   question = with_measured_steps(question, {measured_step_of("layout(zero=3)/ddp=12.3 s", "--measured", defaults)});
//
// Every answer is then by the corrected device, with the interval that so many steps leave, and `correction` says what
// changed. Not modelled: steps of traced jobs, whose trace is measured itself.
#include <stepcast/calibration/device_fit.hpp>
#include <stepcast/question/question.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

/// What steps leave open that are told with a question: its model, its devices and its batch. `model` is the
/// description; `batch_said`: somebody said the profile's batch. Without any batch a step has to say its own.
[[nodiscard]] StepDefaults step_defaults_of(const Question&, std::string model, bool batch_said);
/// Throws InputError where there is no described model, and as `corrected_device` does. Unchanged without steps.
[[nodiscard]] Question with_measured_steps(Question, std::vector<MeasuredStep>);

}  // namespace stepcast
