// Reading a Kineto file by several threads, in windows of any size, in part, and in parts.
#include <stepcast/base/error.hpp>
#include <stepcast/documents/reading.hpp>
#include <stepcast/formats/kineto/kineto_windows.hpp>
#include <stepcast/formats/kineto/split_recording.hpp>
#include <stepcast/trace/steps.hpp>

#include "helpers/shared_data.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>

using namespace stepcast;

namespace {

// All that a trace says, numbers of strings and tracks included.
std::string dump_of(const Trace& trace) {
  std::ostringstream out;
  for (const Event& e : trace.events)
    out << int(e.kind) << ' ' << e.name << ' ' << e.start_ns << ' ' << e.duration_ns << ' ' << e.track << ' '
        << e.correlation << ' ' << e.external_id << ' ' << e.sequence << ' ' << e.forward_thread << ' '
        << e.record_function << ' ' << e.shapes << ' ' << e.types << ' ' << e.collective << '\n';
  for (const Track& t : trace.tracks)
    out << t.process << '/' << t.thread << ' ' << t.on_device << ' ' << t.label << '\n';
  for (const std::string& text : trace.strings) out << text << '\n';
  for (const CollectiveArguments& c : trace.collectives)
    out << c.name << ' ' << c.dtype << ' ' << c.group << ' ' << c.in_elements << ' ' << c.out_elements << '\n';
  for (const ForwardBackwardLink& l : trace.forward_backward) out << l.forward << " -> " << l.backward << '\n';
  for (const Dependency& d : trace.dependencies) out << d.before << " => " << d.after << '\n';
  for (const auto* lines : {&trace.report.missing, &trace.report.assumed, &trace.report.repaired})
    for (const std::string& line : *lines) out << line << '\n';
  out << trace.report.producer << ' ' << trace.report.events_seen << ' ' << trace.report.events_left_out;
  return out.str();
}

Trace read_in_windows(const std::string& text, WindowSizes sizes, std::size_t most_events) {
  const std::size_t begin = text.find('[', text.find("\"traceEvents\"")) + 1;
  PlainText plain(std::as_bytes(std::span(text).subspan(begin)));
  JsonText json(plain, true);
  TraceBuilder builder("test", false, 0, most_events);
  (void)read_events(json, builder, "test", {}, sizes);
  return builder.finish({}, text.size());
}

std::string slice(const char* category, const std::string& name, std::int64_t start, std::int64_t duration,
                  const std::string& arguments, bool on_device = false) {
  return R"({"ph": "X", "cat": ")" + std::string(category) + R"(", "name": ")" + name + R"(", "pid": )" +
         (on_device ? "0" : "7") + R"(, "tid": )" + (on_device ? "40" : "8") + R"(, "ts": )" + std::to_string(start) +
         R"(, "dur": )" + std::to_string(duration) + R"(, "args": {)" + arguments + "}}";
}

// Steps of ten operators with a launch and a late kernel each; hosts first, as Kineto writes them.
struct Recording {
  std::vector<std::string> host, device;
  [[nodiscard]] std::string text() const { return text_of(host, device); }
  [[nodiscard]] static std::string text_of(const std::vector<std::string>& a, const std::vector<std::string>& b) {
    std::string events;
    for (const auto* list : {&a, &b})
      for (const std::string& event : *list) events += (events.empty() ? "\n  " : ",\n  ") + event;
    return R"({"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8},)"
           R"( "traceEvents": [)" +
           events + "\n]}";
  }
};
Recording recording_of(int steps) {
  Recording out;
  for (int s = 0; s < steps; ++s) {
    const std::int64_t start = 1000 * s;
    out.host.push_back(slice("user_annotation", "ProfilerStep#" + std::to_string(s), start, 990, ""));
    for (int i = 0; i < 10; ++i) {
      const std::string id = std::to_string(10 * s + i + 1);
      out.host.push_back(slice("cpu_op", "aten::op" + std::to_string(i), start + 90 * i + 5, 50,
                               R"("External id": )" + id + R"(, "Input Dims": [[)" + std::to_string(i) + ", 4]]"));
      out.host.push_back(slice("cuda_runtime", "cudaLaunchKernel", start + 90 * i + 20, 10, R"("correlation": )" + id));
      out.device.push_back(slice("kernel", "kernel of " + std::to_string(i % 3), start + 90 * i + 300, 60,
                                 R"("correlation": )" + id, true));
    }
  }
  return out;
}

}  // namespace

TEST_CASE("the trace is the same however many threads read it and wherever windows are cut") {
  const std::string text = recording_of(60).text();
  for (const std::size_t most : {std::size_t{1} << 20, std::size_t{400}}) {
    const std::string expected = dump_of(read_in_windows(text, {1u << 20, 1u << 24, true, 1}, most));
    for (const std::size_t threads : {1u, 2u, 5u})
      for (const std::size_t window : {1u, 700u, 4096u, 1u << 18}) {
        CAPTURE(threads);
        CAPTURE(window);
        CHECK(dump_of(read_in_windows(text, {window, 1u << 24, false, threads}, most)) == expected);
      }
  }
}

TEST_CASE("damage is treated alike by any number of threads") {
  std::string text = recording_of(40).text();
  std::size_t at = 0;
  for (int i = 0; (at = text.find("aten::op7", at + 1)) != std::string::npos; ++i)
    text[at + 4] = "\"\x01\xff:{"[i % 5];  // a stray quote, a control character, a byte that is no text
  const std::string expected = dump_of(read_in_windows(text, {1u << 12, 1u << 24, false, 1}, 1u << 20));
  for (const std::size_t threads : {2u, 5u})
    for (const std::size_t window : {300u, 5000u, 1u << 16})
      CHECK(dump_of(read_in_windows(text, {window, 1u << 24, false, threads}, 1u << 20)) == expected);
}

TEST_CASE("a recording that is too long keeps whole steps from its beginning, with their device work") {
  const std::string text = recording_of(100).text();
  const Trace trace = read_in_windows(text, {1u << 12, 1u << 24, false, 2}, 1000);
  CHECK(trace.events.size() <= 1000);
  CHECK(trace.report.events_left_out == 3100 - trace.events.size());
  const std::vector<Step> steps = steps_of(trace);
  REQUIRE(steps.size() >= 5);
  CHECK(steps.front().number == 0);
  // Every kept step has its ten kernels, those that ran after it included.
  CHECK(std::ranges::count(trace.events, EventKind::kernel, &Event::kind) == 10 * std::ssize(steps));
  CHECK(trace.events.size() == 31 * steps.size());
  const auto says = [](const std::string& line) { return line.find("to bound memory") != std::string::npos; };
  CHECK(std::ranges::any_of(trace.report.assumed, says));
}

TEST_CASE("a recording in two files is that in one") {
  const Recording recording = recording_of(12);
  const std::string whole = recording.text();
  const auto source = [](const std::string& text) { return Source{"part", std::as_bytes(std::span(text))}; };
  const Source all[] = {source(whole)};
  const std::string expected = dump_of(kineto_trace_of(all));
  const std::string host = Recording::text_of(recording.host, {}), device = Recording::text_of({}, recording.device);
  const Source parts[] = {source(host), source(device)};
  CHECK(dump_of(kineto_trace_of(parts)) == expected);
  CHECK(are_parts_of_one_recording(trace_of(parts[0]), trace_of(parts[1])));
  CHECK_FALSE(are_parts_of_one_recording(trace_of(parts[0]), trace_of(all[0])));
}

TEST_CASE("public traces: threads do not matter, and steps that are kept are as long as they were") {
  const auto folder = test::shared_folder("traces");
  if (!folder) return;
  std::size_t files = 0, thinned = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(*folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".json.gz") || entry.file_size() > (1u << 20)) continue;
    const test::File file(entry.path());
    CAPTURE(name);
    try {
      const Trace one = trace_of(file.source(), {.threads = 1}), three = trace_of(file.source(), {.threads = 3});
      if (one.report.format != "kineto") continue;
      ++files;
      CHECK((dump_of(one) == dump_of(three)));
      const Trace few = trace_of(file.source(), {.most_events = std::max<std::size_t>(one.events.size() * 9 / 10, 1)});
      const std::vector<Step> all_steps = steps_of(one), steps = steps_of(few);
      if (few.report.events_left_out == 0 || steps.size() < 5) continue;
      // The steps that are kept are as long as they were, where that can still be told: device periods need the
      // next step, and kernels of the last one may run behind the end of the stretch without a launch on record.
      const std::vector<Seconds> all_times = step_durations(one, all_steps), times = step_durations(few, steps);
      for (std::size_t i = 0; i + 1 < steps.size(); ++i) {
        CHECK(steps[i].number == all_steps[i].number);
        if (times[i].value() > 0) CHECK(times[i].value() == doctest::Approx(all_times[i].value()).epsilon(0.01));
      }
      ++thinned;
    } catch (const InputError&) {}
  }
  MESSAGE(files << " traces read by one thread and by three, " << thinned << " of them in part");
}
