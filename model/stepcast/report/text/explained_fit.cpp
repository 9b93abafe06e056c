// A table of numbers, then one of errors by band.
#include <stepcast/base/statistics.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/report/explained_fit_report.hpp>
#include <stepcast/report/text/table.hpp>

#include <array>
#include <cmath>
#include <ostream>

namespace stepcast {
namespace {

void write_numbers(std::ostream& out, const NcclTuning& found) {
  struct Row {
    const char *name, *what;
    double NcclTuning::*number;
  };
  constexpr Row rows[] = {{"launch", "on the constant part of latencies", &NcclTuning::launch},
                          {"simple_hop", "on a hop of the ring by Simple", &NcclTuning::simple_hop},
                          {"ll", "bandwidth by LL inside a machine", &NcclTuning::ll},
                          {"ll_between", "the same between machines", &NcclTuning::ll_between},
                          {"ll128", "bandwidth by LL128", &NcclTuning::ll128},
                          {"tree", "bandwidth of trees", &NcclTuning::tree},
                          {"nvls", "bandwidth of sums in the switch, 0: none", &NcclTuning::nvls},
                          {"all_to_all", "bandwidth of an all-to-all", &NcclTuning::all_to_all},
                          {"send", "bandwidth of a pair", &NcclTuning::send},
                          {"pair", "bandwidth of rings of two devices", &NcclTuning::pair}};
  TextTable table({{"number", TextTable::Align::left},
                   {"fitted", TextTable::Align::right},
                   {"start", TextTable::Align::right},
                   {"what it scales", TextTable::Align::flexible}});
  const NcclTuning start;
  for (const Row& row : rows)
    table.add_row({row.name, fixed(found.*row.number, 2), fixed(start.*row.number, 2), row.what});
  table.add_row({"peer", text_of(found.peer), text_of(start.peer), "a peer elsewhere, of an all-to-all"});
  out << '\n';
  table.write(out);
}

void write_errors(std::ostream& out, const Calibration& calibration) {
  std::vector<TextTable::Column> columns{{"forms over measured, %", TextTable::Align::flexible}};
  for (const std::string_view band : size_band_names) columns.push_back({std::string(band), TextTable::Align::right});
  TextTable table(columns);
  for (const Calibration::Entry& entry : calibration.entries) {
    std::array<std::vector<double>, size_band_count> errors;
    for (std::size_t i = 0; i < entry.by_links.size(); ++i)
      errors[size_band_of(entry.measured.sizes[i])].push_back(entry.by_links[i] / entry.measured.times[i] - 1);
    std::vector<std::string> row{entry.measured.operation + " on " + std::to_string(entry.measured.workers)};
    for (const std::vector<double>& band : errors)
      row.push_back(band.empty()
                        ? "-"
                        : fixed(100 * quantile(band, 0), 0, true) + " to " + fixed(100 * quantile(band, 1), 0, true));
    table.add_row(std::move(row));
  }
  out << '\n';
  table.write(out);
}

}  // namespace

void write_explained_fit_text(std::ostream& out, const Calibration& calibration) {
  if (calibration.cluster.all_reduce != "nccl") {
    write_labelled(out, "explained",
                   "its two links above are all that " + calibration.cluster.all_reduce +
                       " has; --collective nccl fits shares of protocols and algorithms");
    return;
  }
  write_numbers(out, calibration.cluster.nccl);
  write_errors(out, calibration);
  write_labelled(out, "note",
                 "what the forms miss on a measured count is in the cluster's tables, which answer there "
                 "and are carried on to other counts");
}

}  // namespace stepcast
