// The C interface: what is asked of recordings alone, without a cluster.
#include <stepcast/base/text.hpp>
#include <stepcast/baseline/explanation.hpp>
#include <stepcast/baseline/self_check.hpp>
#include <stepcast/baseline/step_difference.hpp>
#include <stepcast/c/handles.hpp>
#include <stepcast/c/settings.hpp>
#include <stepcast/documents/documents.hpp>
#include <stepcast/extraction/profile_of.hpp>
#include <stepcast/report/report.hpp>

#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace stepcast {
namespace {

constexpr std::string_view reading_keys[] = {"strict", "kernels"};
constexpr std::string_view explanation_keys[] = {"strict", "kernels", "parameters"};

Documents recordings_of(const stepcast_source* given, std::size_t count, const CSettings& settings, const char* name) {
  const std::vector<Source> sources = c_sources(given, count, name);
  const std::string kernels = settings.text("kernels");
  const ReadOptions reading{.strict = settings.yes("strict", false), .progress = {}};
  return documents_of(sources, reading, {"kernels", std::as_bytes(std::span(kernels)), {}});
}

Trace one_trace(const stepcast_source* given, const CSettings& settings, const char* name) {
  Documents documents = recordings_of(given, 1, settings, name);
  if (documents.traces.size() != 1)
    throw InputError(name, "one trace", documents.profile ? "a profile" : "several", "give one rank of each run");
  return std::move(documents.traces.front());
}

}  // namespace
}  // namespace stepcast

using namespace stepcast;

stepcast_status stepcast_explanation_json(const stepcast_source* sources, size_t count, const char* const* settings,
                                          stepcast_text** json, stepcast_error* error) {
  return c_made(json, "json", error, [&]() -> Answer<stepcast_text> {
    const CSettings said(settings, explanation_keys);
    const std::string parameters = said.text("parameters");
    const double number = parameters.empty() ? 0 : large_number_of(parameters, "parameters");
    const Explanation explanation =
        explanation_of(recordings_of(sources, count, said, "sources"), profile_options_of("", 0, number, "model"));
    return c_text_of([&](std::ostream& out) { report_named("json")->explanation(out, explanation); });
  });
}

stepcast_status stepcast_lateness_json(const stepcast_source* sources, size_t count, const char* const* settings,
                                       stepcast_text** json, stepcast_error* error) {
  return c_made(json, "json", error, [&]() -> Answer<stepcast_text> {
    const CSettings said(settings, reading_keys);
    const SelfCheck check = lateness_of(recordings_of(sources, count, said, "sources"));
    return c_text_of([&](std::ostream& out) { report_named("json")->lateness(out, check); });
  });
}

stepcast_status stepcast_difference_json(const stepcast_source* before, const stepcast_source* after,
                                         const char* const* settings, stepcast_text** json, stepcast_error* error) {
  return c_made(json, "json", error, [&]() -> Answer<stepcast_text> {
    const CSettings said(settings, reading_keys);
    const Trace first = one_trace(before, said, "before"), second = one_trace(after, said, "after");
    const StepDifference difference = difference_of(first, second);
    return c_text_of([&](std::ostream& out) { report_named("json")->difference(out, difference); });
  });
}
