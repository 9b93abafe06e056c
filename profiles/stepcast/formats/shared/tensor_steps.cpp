// A step lasts from one communication of the tensor that begins it to the next.
#include <stepcast/base/error.hpp>
#include <stepcast/formats/shared/tensor_steps.hpp>

#include <algorithm>
#include <limits>

namespace stepcast {

void TensorSteps::add_to(TraceDraft& draft) {
  std::map<std::size_t, std::size_t> tensors_of_count;
  for (auto& [tensor, starts] : starts_) {
    std::ranges::sort(starts);
    ++tensors_of_count[starts.size()];
  }
  std::size_t usual = 0;
  for (const auto& [count, tensors] : tensors_of_count)
    if (count > 1 && tensors >= tensors_of_count[usual]) usual = count;
  ReadReport& report = draft.trace().report;
  if (usual < 2) {
    report.missing.push_back("steps: no tensor is communicated twice");
    return;
  }
  const std::vector<std::int64_t>* first = nullptr;
  StringId name = 0;
  for (const auto& [tensor, starts] : starts_) {
    if (starts.size() != usual || (first && first->front() <= starts.front())) continue;
    first = &starts;
    name = tensor;
  }
  for (std::size_t i = 0; i + 1 < usual; ++i)
    add_step(draft, static_cast<std::int64_t>(i), (*first)[i], (*first)[i + 1]);
  report.missing.push_back("step annotations");
  report.assumed.push_back("a step lasts from one communication of " + std::string(draft.text_of(name)) +
                           " to the next");
}

void say_left_out(ReadReport& report) {
  if (report.events_left_out > 0)
    report.assumed.push_back("the first " + std::to_string(most_timeline_events) + " slices stand for the whole run");
}

void require_events(const TraceDraft& draft, std::string_view source, std::string_view expected,
                    std::string_view found) {
  if (draft.size() == 0) throw InputError(std::string(source), std::string(expected), std::string(found));
}

void add_step(TraceDraft& draft, std::int64_t number, std::int64_t start_ns, std::int64_t end_ns) {
  Event step;
  step.kind = EventKind::annotation;
  step.name = draft.text("ProfilerStep#" + std::to_string(number));
  step.start_ns = start_ns;
  step.duration_ns = end_ns - start_ns;
  step.track = draft.track(-1, -1, false, "steps");
  draft.add(step);
}

}  // namespace stepcast
