// What a device fit shows: the device's numbers, how far every row that calibrated is off, with and without itself, and
// the errors of the rows that did not.
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/report/device_fit_report.hpp>
#include <stepcast/report/text/table.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <ostream>

namespace stepcast {
namespace {

using Json = nlohmann::ordered_json;

double mean_absolute(std::span<const double> errors) {
  double sum = 0;
  for (const double e : errors) sum += std::abs(e);
  return errors.empty() ? 0 : sum / double(errors.size());
}

std::string model_text(const MeasuredStep& step) {
  return step.model + " " + text_of(step.plan) + " batch " + fixed(step.global_batch, 0);
}

void write_row(TextTable& table, const MeasuredStep& step, double error, const std::string& left_out) {
  table.add_row({step.source.substr(step.source.rfind('/') + 1), text_of(step.time), percent(error, true), left_out});
}

/// Where products reach a half of their efficiency, as far as the device says it.
std::string halves(const Device& d) {
  std::string all;
  if (d.half_output > 0) add_to_list(all, fixed(d.half_output, 0) + " results");
  if (d.half_m > 0) add_to_list(all, fixed(d.half_m, 0) + " rows");
  if (d.half_n > 0) add_to_list(all, fixed(d.half_n, 0) + " columns");
  if (d.half_k > 0) add_to_list(all, "sums of " + fixed(d.half_k, 0));
  return all.empty() ? "no size" : all;
}

void write_device(std::ostream& out, const Device& d) {
  write_labelled(out, "device", d.name);
  write_labelled(out, "products", percent(d.matrix_efficiency) + " of the peak, half of that at " + halves(d));
  if (d.attention_forward > 0)
    write_labelled(
        out, "attention",
        percent(d.attention_forward) + " of the peak in fused kernels, backward " + percent(d.attention_backward));
  const double gigabytes = d.memory_bandwidth.value() / 1e9;
  write_labelled(out, "memory", fixed(gigabytes, gigabytes < 10 ? 3 : 0) + " GB/s");
  write_labelled(out, "kernels", "at least " + text_of(d.kernel_floor) + ", the host needs " + text_of(d.issue));
  write_labelled(out, "error", percent(d.relative_error) + " rms");
}

/// The rows that are farthest off.
void write_worst(std::ostream& out, const DeviceFitReport& report) {
  std::vector<std::size_t> order(report.held_out.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::abs(report.held_out_errors[a]) > std::abs(report.held_out_errors[b]);
  });
  order.resize(std::min<std::size_t>(order.size(), 10));
  for (const std::size_t i : order)
    write_labelled(out, percent(report.held_out_errors[i], true), model_text(report.held_out[i]));
}

Json row_json(const MeasuredStep& step, double error) {
  return {{"source", step.source},
          {"model", step.model},
          {"plan", text_of(step.plan)},
          {"devices", step.devices},
          {"global_batch", step.global_batch},
          {"measured_s", step.time.value()},
          {"predicted_s", step.time.value() * (1 + error)},
          {"error", error}};
}

}  // namespace

void write_device_fit_text(std::ostream& out, const DeviceFitReport& report) {
  const DeviceFit& fit = report.fit;
  write_device(out, fit.device);
  for (const std::string& note : fit.notes) write_labelled(out, "note", note);
  out << '\n';
  using enum TextTable::Align;
  TextTable table({{"calibration row", flexible}, {"measured", right}, {"residual", right}, {"left out", right}});
  for (std::size_t i = 0; i < report.rows.size(); ++i)
    write_row(table, report.rows[i], fit.residuals[i], fit.left_out.empty() ? "-" : percent(fit.left_out[i], true));
  table.add_row({"mean of absolute values", "", percent(mean_absolute(fit.residuals)),
                 fit.left_out.empty() ? "-" : percent(mean_absolute(fit.left_out))});
  table.write(out);
  if (report.held_out.empty()) return;
  out << '\n';
  write_labelled(out, "held out",
                 std::to_string(report.held_out.size()) + " rows, mean error " +
                     percent(mean_absolute(report.held_out_errors)) + "; the worst:");
  write_worst(out, report);
}

void write_device_fit_json(std::ostream& out, const DeviceFitReport& report) {
  const DeviceFit& fit = report.fit;
  Json rows = Json::array(), held_out = Json::array();
  for (std::size_t i = 0; i < report.rows.size(); ++i) {
    rows.push_back(row_json(report.rows[i], fit.residuals[i]));
    rows.back()["left_out_error"] = fit.left_out.empty() ? Json(nullptr) : Json(fit.left_out[i]);
  }
  for (std::size_t i = 0; i < report.held_out.size(); ++i)
    held_out.push_back(row_json(report.held_out[i], report.held_out_errors[i]));
  const Json json{
      {"schema", "stepcast.device_fit/1"},
      {"device", Json::parse(json_of(fit.device))},
      {"mean_absolute_residual", mean_absolute(fit.residuals)},
      {"mean_absolute_left_out", fit.left_out.empty() ? Json(nullptr) : Json(mean_absolute(fit.left_out))},
      {"mean_absolute_held_out", report.held_out.empty() ? Json(nullptr) : Json(mean_absolute(report.held_out_errors))},
      {"notes", fit.notes},
      {"calibration", std::move(rows)},
      {"held_out", std::move(held_out)}};
  out << json.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

}  // namespace stepcast
