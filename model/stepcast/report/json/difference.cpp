// JSON of a difference of two recordings, schema "stepcast.difference/1".
#include <stepcast/report/difference_report.hpp>

#include <nlohmann/json.hpp>

#include <ostream>

namespace stepcast {
namespace {

using Json = nlohmann::ordered_json;

Json part_json(const ChangedPart& part, bool with_doubt) {
  Json json{{"what", part.what},
            {"before_s", part.before.value()},
            {"after_s", part.after.value()},
            {"by_s", part.by().value()}};
  if (!with_doubt) return json;
  json["doubt_s"] = part.change == Change::cannot_tell ? Json(nullptr) : Json(part.doubt.value());
  json["change"] = name_of(part.change);
  return json;
}

Json parts_json(const std::vector<ChangedPart>& parts, bool with_doubt) {
  Json json = Json::array();
  for (const ChangedPart& part : parts) json.push_back(part_json(part, with_doubt));
  return json;
}

}  // namespace

void write_difference_json(std::ostream& out, const StepDifference& d) {
  const Json json{{"schema", "stepcast.difference/1"},
                  {"before", d.before.source},
                  {"after", d.after.source},
                  {"step", part_json(d.step, true)},
                  {"parts", parts_json(d.parts, true)},
                  {"communication", parts_json(d.communication, false)},
                  {"layers", parts_json(d.layers, false)},
                  {"no_layers", d.no_layers},
                  {"cautions", d.cautions}};
  out << json.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

}  // namespace stepcast
