// Rows of files become tables, of which some are fitted and the others predicted.
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/calibration/benchmark_logs.hpp>
#include <stepcast/calibration/calibration.hpp>
#include <stepcast/encodings/csv.hpp>
#include <stepcast/validation/forecasts.hpp>

#include <algorithm>
#include <map>
#include <set>

namespace stepcast {
namespace {

/// The head of a CSV and the rows whose columns have the values that count; without sizes and times of zero.
std::string rows_of(std::string_view csv, const MeasuredRows& rows) {
  std::string kept;
  std::vector<std::string> names;
  char separator = ',';
  while (!csv.empty()) {
    const std::string_view line = csv.substr(0, csv.find('\n'));
    csv.remove_prefix(std::min(csv.size(), line.size() + 1));
    if (names.empty()) {
      separator = separator_of(line);
      names = cells_of(line, separator);
      kept = std::string(line) + '\n';
      continue;
    }
    const std::vector<std::string> cells = cells_of(line, separator);
    const auto counts = [&](const auto& condition) {
      const auto column =
          static_cast<std::size_t>(std::find(names.begin(), names.end(), condition.first) - names.begin());
      if (column >= cells.size())
        throw InputError(rows.file, "a column " + in_quotes(condition.first), "none of that name");
      return std::find(condition.second.begin(), condition.second.end(), cells[column]) != condition.second.end();
    };
    const auto empty = [&](std::string_view name) {
      const auto column = static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
      return column < cells.size() && (cells[column].empty() || stepcast::number_of(cells[column], rows.file) == 0);
    };
    if (cells.size() == names.size() && std::all_of(rows.where.begin(), rows.where.end(), counts) &&
        !empty("size_bytes") && !empty("time_us_out_of_place") && !empty("gpus"))
      kept += std::string(line) + '\n';
  }
  return kept;
}

struct AbsentRows {
  std::string path;
};

using Files = std::function<std::optional<std::string>(const std::string&)>;

std::vector<MeasuredCollective> tables_in(const std::vector<MeasuredRows>& all, const Files& file) {
  std::vector<MeasuredCollective> tables;
  for (const MeasuredRows& rows : all) {
    const std::optional<std::string> text = file ? file(rows.file) : std::nullopt;
    if (!text) throw AbsentRows{rows.file};
    for (MeasuredCollective& table : rows.where.empty() ? collectives_of_nccl_tests(*text, rows.file)
                                                        : collectives_of_csv(rows_of(*text, rows), rows.file))
      if (table.workers > 1 && table.sizes.size() > 1) tables.push_back(std::move(table));
  }
  return tables;
}

/// The sizes of even places, or those of odd ones.
MeasuredCollective every_second(const MeasuredCollective& table, std::size_t from) {
  MeasuredCollective half = table;
  half.sizes.clear();
  half.times.clear();
  for (std::size_t i = from; i < table.sizes.size(); i += 2) {
    half.sizes.push_back(table.sizes[i]);
    half.times.push_back(table.times[i]);
  }
  return half;
}

}  // namespace

std::optional<std::string> add_forecast(ValidationSuite& suite, const CollectiveForecast& forecast, const Files& file) {
  std::vector<MeasuredCollective> fit, predict;
  try {
    fit = tables_in(forecast.fit, file);
    predict = tables_in(forecast.predict, file);
  } catch (const AbsentRows& absent) { return absent.path; }
  const auto shape = suite.clusters.find(forecast.cluster);
  if (shape == suite.clusters.end())
    throw InputError("forecast " + forecast.machine, "a cluster of the suite", in_quotes(forecast.cluster));
  Calibration whole = calibrated(shape->second, fit);  // several logs of one table as one
  if (forecast.sizes_out) {
    std::vector<MeasuredCollective> first;
    for (const Calibration::Entry& entry : whole.entries) {
      first.push_back(every_second(entry.measured, 0));
      predict.push_back(every_second(entry.measured, 1));
      if (first.back().sizes.size() < 2) first.pop_back(), predict.pop_back();
    }
    whole = calibrated(shape->second, first);
  } else {
    const Calibration others = calibrated(shape->second, predict);
    predict.clear();
    for (const Calibration::Entry& entry : others.entries) predict.push_back(entry.measured);
  }
  const std::string name = forecast.kind + "/" + forecast.machine;
  suite.clusters[name] = whole.cluster;
  std::set<std::string> known;
  for (const ValidationCase& c : suite.cases) known.insert(c.id);
  for (const MeasuredCollective& table : predict) {
    for (std::size_t i = 0; i < table.sizes.size(); ++i) {
      ValidationCase c = forecast.common;
      c.id = name + "/" + table.operation + "/" + std::to_string(table.workers) + "/" + text_of(table.sizes[i]);
      while (!known.insert(c.id).second) c.id += " again";
      c.subject = Subject::operation;
      c.method = table.operation;
      c.inputs.cluster = name;
      c.inputs.workers = table.workers;
      c.inputs.operation = *operation_of(table.operation);
      c.inputs.size = table.sizes[i];
      c.inputs.kind = forecast.kind;
      c.inputs.machine = forecast.machine;
      c.measured = table.times[i].value();
      suite.cases.push_back(std::move(c));
    }
  }
  return std::nullopt;
}

}  // namespace stepcast
