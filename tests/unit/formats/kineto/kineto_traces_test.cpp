// The Kineto reader over windows of any size and over all real traces that are at hand.

#include "helpers/kineto_text.hpp"
#include "helpers/shared_data.hpp"

#include <stepcast/base/error.hpp>
#include <stepcast/documents/reading.hpp>
#include <stepcast/extraction/profile_of.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

using namespace stepcast;
using namespace stepcast::test;

TEST_CASE("any window size gives the same trace, on one line or many") {
  std::string lines, nested;
  for (int i = 0; i < 300; ++i) {
    const std::string event = op("op \\\"},{\\\" " + std::to_string(i % 7), std::to_string(i * 10 % 977), "3",
                                 R"("External id": )" + std::to_string(i) + R"(, "list": [{"a": 1}, {"b": 2}])");
    lines += (i ? ",\n  " : "\n  ") + event;
  }
  const std::string expected = text_of(read(file_of(lines)));
  CHECK(std::count(expected.begin(), expected.end(), '\n') == 300);
  for (const std::size_t window : {1u, 64u, 300u, 1000u, 4096u, 100000u}) {
    CAPTURE(window);
    CHECK(text_of(read_in_windows(file_of(lines), {window, 1u << 16, false})) == expected);
  }
  CHECK(text_of(read_in_windows(file_of(lines), {1u << 20, 1u << 24, true})) == expected);
}

namespace {

// Files of the folder that are neither too large for a test of everything nor another kind of file.
template <class Use>
std::size_t for_each_kineto_file(std::uintmax_t largest, Use use) {
  std::size_t files = 0;
  for (const char* folder : {"traces", "lab/traces"}) {
    const auto path = test::shared_folder(folder);
    if (!path) continue;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(*path)) {
      if (!entry.path().filename().string().ends_with(".json.gz") || entry.file_size() > largest) continue;
      const test::File file(entry.path());
      if (!kineto_recognises(file.source())) continue;
      ++files;
      use(file, std::filesystem::relative(entry.path(), *path).string());
    }
  }
  return files;
}

}  // namespace

TEST_CASE("real traces: every Kineto file is read, invariants hold, windows do not matter") {
  std::size_t files = 0;
  for_each_kineto_file(1u << 19, [&](const test::File& file, const std::string& name) {
    CAPTURE(name);
    const Trace trace = trace_of(file.source(), {.strict = true, .progress = {}});
    ++files;
    CHECK(std::is_sorted(trace.events.begin(), trace.events.end(), precedes));
    CHECK(trace.report.repaired.empty());
    CHECK(trace.report.events_unclassified == 0);
    if (files % 8 == 0) {
      const std::string text = plain_text_of(file.source());
      const std::string fast = text_of(read_in_windows(text, {1u << 14, 1u << 24, false}));
      CHECK((fast == text_of(read_in_windows(text, {1u << 20, 1u << 24, true}))));
      CHECK(std::count(fast.begin(), fast.end(), '\n') >= static_cast<std::int64_t>(trace.events.size()));
    }
  });
  MESSAGE(files << " real traces read");
}

TEST_CASE("real traces: as many entries as their description counts") {
  const auto folder = test::shared_folder("traces");
  if (!folder) return;
  // Rows of the table of files: | file | source | ... | events | ...
  std::map<std::string, std::string> described;
  std::istringstream lines(test::text_of_file(*folder / "README.md"));
  for (std::string line; std::getline(lines, line);) {
    std::vector<std::string> cells;
    std::istringstream fields(line);
    for (std::string cell; std::getline(fields, cell, '|');) cells.push_back(cell);
    if (cells.size() > 9) described[cells[1].substr(1, cells[1].size() - 2)] = cells[8].substr(1, cells[8].size() - 2);
  }
  std::size_t checked = 0;
  for_each_kineto_file(1u << 22, [&](const test::File& file, const std::string& name) {
    const auto row = described.find(name);
    if (row == described.end()) return;
    CAPTURE(name);
    CHECK(std::to_string(trace_of(file.source()).report.events_seen) == row->second);
    ++checked;
  });
  MESSAGE(checked << " files have as many entries as described");
  CHECK(checked > 40);
}

std::string profile_text(Trace trace) {
  trace.source = "trace.json";
  try {
    return json_of(profile_of(trace));
  } catch (const InputError& refusal) { return refusal.what(); }
}

TEST_CASE("real traces: the order of the entries does not matter") {
  std::size_t files = 0;
  for_each_kineto_file(1u << 17, [&](const test::File& file, const std::string& name) {
    CAPTURE(name);
    const std::string text = plain_text_of(file.source());
    const std::size_t begin = text.find('[', text[0] == '[' ? 0 : text.find("\"traceEvents\""));
    const std::size_t size = bracketed_size(std::string_view(text).substr(begin));
    REQUIRE(size > 0);
    std::vector<std::string_view> entries;
    for (std::size_t at = text.find('{', begin); at < begin + size;) {
      const std::size_t length = bracketed_size(std::string_view(text).substr(at));
      entries.push_back(std::string_view(text).substr(at, length));
      at = std::min(text.find('{', at + length), begin + size);
    }
    std::mt19937 random(7);
    std::shuffle(entries.begin(), entries.end(), random);
    std::string shuffled = text.substr(0, begin + 1);
    for (const std::string_view entry : entries) {
      shuffled += entry;
      shuffled += ',';
    }
    shuffled.back() = ']';
    shuffled += text.substr(begin + size);
    const Trace as_written = trace_of(file.source()), any_order = read(shuffled);
    CHECK(as_written.report.repaired == any_order.report.repaired);
    CHECK(as_written.report.missing == any_order.report.missing);
    CHECK(sorted_lines(text_of(as_written)) == sorted_lines(text_of(any_order)));
    CHECK(as_written.dependencies.size() == any_order.dependencies.size());
    CHECK(as_written.forward_backward.size() == any_order.forward_backward.size());
    CHECK(profile_text(as_written) == profile_text(any_order));
    ++files;
  });
  MESSAGE(files << " real traces shuffled");
}

TEST_CASE("real traces: counts of a few that were counted by other means") {
  const auto folder = test::shared_folder("traces");
  if (!folder) return;
  struct Case {
    const char *path, *device;
    std::int64_t seen, kept, python, steps, collectives, arrows, device_work, matched, rank, world;
  };
  // Counted with a general JSON parser in Python.
  const Case cases[] = {
      {"facebookresearch__HolisticTraceAnalysis/nccl_parser_config__nccl_data.json.gz", "NVIDIA A100-PG509-200", 40573,
       26933, 0, 3, 48, 543, 3774, 3774, 0, 2},
      {"facebookresearch__HolisticTraceAnalysis/df_index_resolver__df_index_resolver.json.gz", "Tesla V100-SXM2-32GB",
       216092, 123379, 0, 5, 0, 0, 22290, 22290, 1, 2},
      {"pytorch__kineto/resnet50_num_workers_0__worker0.pt.trace.json.gz", "", 82276, 63166, 0, 6, 0, 0, 9927, 9162, -1,
       -1},
      {"pytorch__kineto/resnet50_num_workers_0__worker0.1623143089861.pt.trace.json.gz", "Tesla V100-DGXS-32GB", 75718,
       44666, 0, 6, 0, 0, 9096, 9096, -1, -1},
      {"KellerJordan__modded-nanogpt/"
       "2025-10-31_AdamSyncGradientHook__modded-nanogpt-current-gpu-rank-00-chrome-trace.v2.json.gz",
       "NVIDIA H100 80GB HBM3", 37830, 25237, 0, 6, 128, 5, 5586, 4607, 0, 8},
      {"AMD-AGI__TraceLens/ddp_resnet18_no_pool__train_resnet18.json.gz", "AMD Instinct MI300X", 29746, 14153, 6649, 0,
       0, 355, 2375, 2375, -1, -1},
      {"facebookresearch__HolisticTraceAnalysis/cpu_only__rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz", "", 30, 16, 0,
       1, 0, 0, 0, 0, 34, 300},
  };
  for (const Case& c : cases) {
    CAPTURE(c.path);
    const Trace trace = trace_of(test::File(*folder / c.path).source());
    const auto count = [&](auto holds) { return std::count_if(trace.events.begin(), trace.events.end(), holds); };
    std::set<std::int64_t> launches;
    for (const Event& e : trace.events)
      if (e.kind == EventKind::runtime_call && e.correlation > 0) launches.insert(e.correlation);
    CHECK(static_cast<std::int64_t>(trace.report.events_seen) == c.seen);
    CHECK(static_cast<std::int64_t>(trace.events.size()) == c.kept);
    CHECK(static_cast<std::int64_t>(trace.report.python_frames) == c.python);
    CHECK(count([&](const Event& e) {
            return e.kind == EventKind::annotation && trace.text(e.name).starts_with("ProfilerStep#");
          }) == c.steps);
    CHECK(static_cast<std::int64_t>(trace.collectives.size()) == c.collectives);
    CHECK(static_cast<std::int64_t>(trace.forward_backward.size()) == c.arrows);
    CHECK(count([](const Event& e) { return is_device_work(e.kind); }) == c.device_work);
    CHECK(count([&](const Event& e) { return is_device_work(e.kind) && launches.contains(e.correlation); }) ==
          c.matched);
    CHECK(trace.rank == c.rank);
    CHECK(trace.world_size == c.world);
    CHECK(trace.device_name == c.device);
  }
}
