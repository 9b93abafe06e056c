// A placement stage by stage, beside what one would do without it.
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/report/placement_report.hpp>
#include <stepcast/report/text/phrases.hpp>
#include <stepcast/report/text/table.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <numeric>
#include <ostream>
#include <utility>

namespace stepcast {
namespace {

using Json = nlohmann::ordered_json;

/// "12 units on A, then ..." is the table's business; this is what a line of it says of compression.
std::string ratio_text(double ratio) { return ratio > 1 ? "1 of " + fixed(ratio, 1) : "all"; }

}  // namespace

void write_placement_text(std::ostream& out, const PlacementReport& report) {
  const auto& [placement, options, micro_batch, naive, no_naive] = report.choice;
  write_labelled(out, "model", report.workload.name + ", " + counted(std::ssize(report.workload.units), "unit"));
  write_labelled(out, "devices",
                 (report.cluster.name.empty() ? "" : report.cluster.name + ": ") +
                     counted(std::ssize(report.cluster.devices), "device") + ", " +
                     std::to_string(placement.device.size()) + " of them used");
  write_labelled(out, "batch",
                 std::to_string(report.global_batch) + " samples a step, " + std::to_string(options.micro_batches) +
                     " micro-batches of " + std::to_string(micro_batch));
  write_assumed(out, report.workload.assumed, "--json says all");
  out << '\n';
  write_labelled(out, "plan", text_of(plan_of(report.choice)));
  write_labelled(out, "step",
                 text_of(placement.iteration) + " (" +
                     std::string(options.schedule ? options.schedule->name : "gpipe") +
                     "; by the formula that places the cuts " + text_of(placement.closed_form) + ")");
  write_labelled(out, "gain",
                 naive ? fixed(naive->iteration / placement.iteration, 2) +
                             "x over all devices in their order with equal parts (" + text_of(naive->iteration) + ")"
                       : "all devices in their order with equal parts do not work: " + no_naive);
  const bool compressed = std::ranges::any_of(placement.ratio, [](double r) { return r > 1; });
  for (const std::string& note : placement.notes) write_labelled(out, "note", note);
  if (compressed)
    write_labelled(out, "note", "activations that are sparsified change training; by how much is not predicted");
  out << '\n';
  using Align = TextTable::Align;
  TextTable table({{"stage", Align::right},
                   {"device", Align::flexible},
                   {"units", Align::right},
                   {"compute", Align::right},
                   {"send", Align::right},
                   {"values sent"}});
  for (std::size_t s = 0; s < placement.device.size(); ++s) {
    const bool last = s + 1 == placement.device.size();
    table.add_row({std::to_string(s), report.cluster.devices[placement.device[s]].name,
                   std::to_string(placement.units[s]), text_of(placement.compute[s]),
                   last ? "" : text_of(placement.send[s]), last ? "" : ratio_text(placement.ratio[s])});
  }
  table.write(out);
  out << "(compute and send: one micro-batch, there and back)\n";
}

void write_placement_json(std::ostream& out, const PlacementReport& report) {
  const Placement& p = report.choice.placement;
  Json json = {
      {"schema", "stepcast.placement/1"},
      {"model", report.workload.name},
      {"devices", report.cluster.name},
      {"plan", text_of(plan_of(report.choice))},
      {"global_batch_samples", report.global_batch},
      {"micro_batch_samples", report.choice.micro_batch},
      {"micro_batches", report.choice.options.micro_batches},
      {"iteration_s", p.iteration.value()},
      {"closed_form_s", p.closed_form.value()},
      {"naive_iteration_s", report.choice.naive ? Json(report.choice.naive->iteration.value()) : Json(nullptr)},
      {"stages", Json::array()},
      {"notes", p.notes},
      {"assumed", report.workload.assumed}};
  for (std::size_t s = 0; s < p.device.size(); ++s) {
    const bool last = s + 1 == p.device.size();
    json["stages"].push_back({{"device", report.cluster.devices[p.device[s]].name},
                              {"units", p.units[s]},
                              {"compute_s", p.compute[s].value()},
                              {"send_s", last ? Json(nullptr) : Json(p.send[s].value())},
                              {"compression", last ? Json(nullptr) : Json(p.ratio[s])}});
  }
  out << json.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

}  // namespace stepcast
