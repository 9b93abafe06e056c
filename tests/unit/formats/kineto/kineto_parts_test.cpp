// Files that hold one recording between them give what the whole gives; those of two ranks are told apart.
#include "helpers/shared_data.hpp"

#include <stepcast/base/error.hpp>
#include <stepcast/documents/reading.hpp>
#include <stepcast/encodings/inflate.hpp>
#include <stepcast/extraction/profile_of.hpp>
#include <stepcast/formats/kineto/split_recording.hpp>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <random>
#include <string>
#include <vector>

using namespace stepcast;
using Json = nlohmann::json;

namespace {

std::string plain_text(const test::File& file) {
  PlainText plain(file.source().bytes);
  std::string text;
  for (std::string piece(1u << 20, '\0');;) {
    const std::size_t got = plain.read(piece);
    text.append(piece, 0, got);
    if (got < piece.size()) return text;
  }
}

Source source(const std::string& text) { return {"trace.json", std::as_bytes(std::span(text)), {}}; }

/// Two files with the header of `whole` and the events for which `first` is true or false.
template <class First>
std::vector<std::string> split(const Json& whole, const First& first) {
  Json parts[2] = {whole, whole};
  for (Json& part : parts) part["traceEvents"] = Json::array();
  const Json& events = whole["traceEvents"];
  for (std::size_t i = 0; i < events.size(); ++i) parts[first(i) ? 0 : 1]["traceEvents"].push_back(events[i]);
  return {parts[0].dump(), parts[1].dump()};
}

std::string profile_text(const Trace& trace) {
  try {
    return json_of(profile_of(trace));
  } catch (const InputError& refusal) { return refusal.what(); }
}

void check_parts(const std::vector<std::string>& parts, const std::string& expected) {
  const Source sources[] = {source(parts[0]), source(parts[1])};
  CHECK(are_parts_of_one_recording(trace_of(sources[0]), trace_of(sources[1])));
  CHECK(profile_text(kineto_trace_of(sources)) == expected);
}

}  // namespace

TEST_CASE("a trace whose events are split over two files, by time or at random, gives the profile of the whole") {
  const auto folder = test::shared_folder("traces");
  if (!folder) return;
  for (const std::string name :
       {"luatil__torch-profile/trace_04.json.gz", "luatil__torch-profile/trace_05.json.gz",
        "pytorch__torchrec/resnet18__85866.1698107929560561434.pt.trace.json.gz",
        "Quentin-Anthony__torch-profiling-tutorial/dc3b0e7228dd_851.1752215573993169006.pt.trace.json.gz"}) {
    CAPTURE(name);
    const std::string text = plain_text(test::File(*folder / name));
    const Json whole = Json::parse(text);
    const std::string expected = profile_text(trace_of(source(text)));
    const std::size_t half = whole["traceEvents"].size() / 2;
    check_parts(split(whole, [half](std::size_t i) { return i < half; }), expected);
    std::mt19937 random(7);
    check_parts(split(whole, [&random](std::size_t) { return random() % 2 == 0; }), expected);
  }
}

TEST_CASE("ranks of one run are no parts of one another; two recordings of one process are") {
  const auto folder = test::shared_folder("traces");
  if (!folder) return;
  const auto trace = [&](const std::string& name) { return trace_of(test::File(*folder / name).source()); };
  const auto kept = [](Trace t) {  // without what the file says of its rank
    t.rank = t.world_size = -1;
    return t;
  };
  const Trace first = trace("pytorch__torchrec/resnet18__85866.1698107929560561434.pt.trace.json.gz"),
              second = trace("pytorch__torchrec/resnet18__85867.1698107929568240321.pt.trace.json.gz");
  CHECK_FALSE(are_parts_of_one_recording(first, second));
  CHECK_FALSE(are_parts_of_one_recording(kept(first), kept(second)));
  CHECK_FALSE(are_parts_of_one_recording(first, first));
  const Reading dlrm = reading_of(test::File(*folder / "facebookresearch__param/dlrm_kineto.tar.gz").source());
  for (std::size_t i = 1; i < dlrm.traces.size(); ++i)
    CHECK_FALSE(are_parts_of_one_recording(kept(dlrm.traces[0]), kept(dlrm.traces[i])));
  const std::string process = "Quentin-Anthony__torch-profiling-tutorial/dc3b0e7228dd_851.17522155";
  CHECK(are_parts_of_one_recording(trace(process + "73993169006.pt.trace.json.gz"),
                                   trace(process + "74025896717.pt.trace.json.gz")));
}
