// Recorded refusals: their words.
#include <stepcast/baseline/recorded_refusals.hpp>

namespace stepcast::recorded_refusal {

InputError beside_step(std::string_view where, std::string_view option) {
  return {std::string(where), "the step as it was recorded", std::string(option) + " beside it",
          "which scales the host's work of the model of layers"};
}

InputError without_check(std::string_view where) {
  return {std::string(where), "the self-check, which rebuilds the recorded step", "none"};
}

InputError of_changed_job(std::string_view where) {
  return {std::string(where), "the job as it was recorded", "one that is changed",
          "'stepcast whatif --recorded' edits the tasks of its step"};
}

InputError of_layouts(std::string_view where) {
  return {std::string(where), "plans that divide the batch only", "layouts, which divide the model of layers"};
}

InputError of_placement(std::string_view where) {
  return {std::string(where), "plans over equal devices", "a placement"};
}

InputError of_own_plan(std::string_view where) {
  return {std::string(where), "plans by their names", "a plan of one's own, which is of the model of layers"};
}

InputError of_timeline(std::string_view where) {
  return {std::string(where), "a plan by the model of layers", "the recorded step with other messages",
          "'stepcast predict TRACE --recorded --timeline' draws it, from the trace itself"};
}

}  // namespace stepcast::recorded_refusal
