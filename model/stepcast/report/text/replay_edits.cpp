// A step after edits of its tasks: three step times, and what each edit touched.
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/report/replay_edits_report.hpp>
#include <stepcast/report/text/table.hpp>

#include <nlohmann/json.hpp>

#include <ostream>

namespace stepcast {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

void write_replay_edits_text(std::ostream& out, std::span<const EditedReplay> replays) {
  for (const EditedReplay& r : replays) {
    if (&r != &replays.front()) out << '\n';
    write_labelled(out, "trace", r.source + ", step " + std::to_string(r.step));
    if (r.recorded > Seconds(0)) write_labelled(out, "recorded", text_of(r.recorded));
    write_labelled(
        out, "rebuilt",
        text_of(r.rebuilt) + (r.recorded > Seconds(0) ? " (" + percent(r.rebuilt / r.recorded - 1, true) + ")" : ""));
    write_labelled(out, "after",
                   text_of(r.edited) + ", " + fixed(r.rebuilt / r.edited, 3) + "x as fast as rebuilt (" +
                       percent(r.edited / r.rebuilt - 1, true) + ")");
    out << '\n';
    using Align = TextTable::Align;
    TextTable table(
        {{"edit", Align::flexible}, {"tasks", Align::right}, {"their work", Align::right}, {"after", Align::right}});
    for (const AppliedEdit& e : r.edits)
      table.add_row({text_of(e.edit), std::to_string(e.tasks), text_of(e.work_before), text_of(e.work_after)});
    table.write(out);
  }
}

void write_replay_edits_json(std::ostream& out, std::span<const EditedReplay> replays) {
  Json json = {{"schema", "stepcast.replay_edits/1"}, {"traces", Json::array()}};
  for (const EditedReplay& r : replays) {
    Json edits = Json::array();
    for (const AppliedEdit& e : r.edits)
      edits.push_back({{"edit", text_of(e.edit)},
                       {"tasks", e.tasks},
                       {"work_before_s", e.work_before.value()},
                       {"work_after_s", e.work_after.value()}});
    json["traces"].push_back({{"source", r.source},
                              {"step", r.step},
                              {"recorded_s", r.recorded > Seconds(0) ? Json(r.recorded.value()) : Json(nullptr)},
                              {"rebuilt_s", r.rebuilt.value()},
                              {"edited_s", r.edited.value()},
                              {"edits", std::move(edits)}});
  }
  out << json.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

}  // namespace stepcast
