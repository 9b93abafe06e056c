// Rows of a sweep as CSV (RFC 4180, lines end in \n) and as JSON lines.
#include <stepcast/base/printable.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/report/sweep_report.hpp>
#include <stepcast/sweep/sweep.hpp>

#include <array>
#include <cmath>
#include <cstdio>
#include <ostream>

namespace stepcast {
namespace {

/// Nothing for what is no number.
std::string number(double value) { return std::isfinite(value) ? exact_text_of(value) : std::string(); }
/// Nothing for a quantity whose zero means "unknown".
std::string known_or_empty(double value) { return value > 0 ? number(value) : std::string(); }

std::string csv_field(const std::string& given) {
  const std::string text = printable(given);
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') (out += '\\') += c;
    else if (static_cast<unsigned char>(c) >= 0x20) out += c;
    else {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(c));
      out += code;
    }
  }
  return out + '"';
}

struct Figure {
  const char* column;
  std::string text;  ///< of a number; empty: not known
};

/// What a row says of its prediction, in the order of the columns; all empty without one.
std::array<Figure, 12> figures_of(const SweepRow& row) {
  const double nothing = std::nan("");
  const Prediction* p = row.prediction ? &*row.prediction : nullptr;
  const auto seconds = [&](Seconds Prediction::*part) { return number(p ? (p->*part).value() : nothing); };
  const auto share = [&](Seconds Breakdown::*part) { return number(p ? (p->breakdown.*part).value() : nothing); };
  return {{{"iteration_s", seconds(&Prediction::iteration)},
           {"interval_low_s", seconds(&Prediction::interval_low)},
           {"interval_high_s", seconds(&Prediction::interval_high)},
           {"compute_s", share(&Breakdown::compute)},
           {"exposed_s", share(&Breakdown::exposed_communication)},
           {"hidden_s", share(&Breakdown::hidden_communication)},
           {"codec_s", share(&Breakdown::codec)},
           {"input_stall_s", share(&Breakdown::input_stall)},
           {"idle_s", share(&Breakdown::idle)},
           {"throughput_samples_per_s", p ? known_or_empty(p->throughput_samples_per_s) : std::string()},
           {"memory_bytes", p ? known_or_empty(p->memory.value()) : std::string()},
           {"messages", p ? std::to_string(p->messages) : std::string()}}};
}

/// A choice is told by its name.
std::string axis_text(const SweepAxis& axis, double value) {
  const bool choice = axis.option && axis.option->kind == OptionKind::choice;
  return choice ? value_text(axis, value) : number(value);
}

/// What is known of a kept range, in the order of the columns; empty: not known.
std::array<Figure, 8> figures_of(const KeptRange& range) {
  const auto if_known = [](bool known, const std::string& text) { return known ? text : std::string(); };
  const auto yes_or_no = [](bool yes) { return std::string(yes ? "true" : "false"); };
  return {{{"low", if_known(range.any, number(range.low))},
           {"high", if_known(range.any, number(range.high))},
           {"low_is_end", if_known(range.any, yes_or_no(range.to_first))},
           {"high_is_end", if_known(range.any, yes_or_no(range.to_last))},
           {"low_step_s", if_known(range.any, number(range.low_step.value()))},
           {"high_step_s", if_known(range.any, number(range.high_step.value()))},
           {"best", if_known(range.runs, number(range.best))},
           {"best_step_s", if_known(range.runs, number(range.best_step.value()))}}};
}

void write_axis_value(std::ostream& out, const SweepAxis& axis, double value) {
  const std::string text = axis_text(axis, value);
  const bool choice = axis.option && axis.option->kind == OptionKind::choice;
  out << ", " << json_text(column_of(axis)) << ": " << (choice ? json_text(text) : text);
}

}  // namespace

void write_sweep_csv(std::ostream& out, const SweepQuestion& question, std::span<const SweepRow> rows, bool header) {
  if (header) {
    for (const SweepAxis& axis : question.axes) out << csv_field(column_of(axis)) << ',';
    out << "plan,";
    for (const Figure& f : figures_of(SweepRow{})) out << f.column << ',';
    out << "bound,best,inapplicable\n";
  }
  for (const SweepRow& row : rows) {
    for (std::size_t i = 0; i < row.values.size(); ++i)
      out << csv_field(axis_text(question.axes[i], row.values[i])) << ',';
    out << csv_field(row.plan) << ',';
    for (const Figure& f : figures_of(row)) out << f.text << ',';
    out << csv_field(row.prediction ? row.prediction->bound : std::string()) << ',' << (row.best ? 1 : 0) << ','
        << csv_field(row.inapplicable) << '\n';
  }
}

void write_sweep_json_lines(std::ostream& out, const SweepQuestion& question, std::span<const SweepRow> rows) {
  for (const SweepRow& row : rows) {
    out << "{\"schema\": \"stepcast.sweep/1\", \"point\": " << row.point;
    for (std::size_t i = 0; i < row.values.size(); ++i) write_axis_value(out, question.axes[i], row.values[i]);
    out << ", \"plan\": " << json_text(row.plan);
    for (const Figure& f : figures_of(row)) out << ", \"" << f.column << "\": " << (f.text.empty() ? "null" : f.text);
    out << ", \"bound\": " << (row.prediction ? json_text(row.prediction->bound) : "null")
        << ", \"best\": " << (row.best ? "true" : "false")
        << ", \"inapplicable\": " << (row.prediction ? "null" : json_text(row.inapplicable)) << "}\n";
  }
}

void write_kept_csv(std::ostream& out, const SweepQuestion& question, std::span<const KeptRange> ranges) {
  for (std::size_t i = 1; i < question.axes.size(); ++i) out << csv_field(column_of(question.axes[i])) << ',';
  out << "plan,axis";
  for (const Figure& f : figures_of(KeptRange{})) out << ',' << f.column;
  out << ",inapplicable\n";
  for (const KeptRange& range : ranges) {
    for (std::size_t i = 0; i < range.others.size(); ++i)
      out << csv_field(axis_text(question.axes[i + 1], range.others[i])) << ',';
    out << csv_field(range.plan) << ',' << csv_field(column_of(question.axes.front()));
    for (const Figure& f : figures_of(range)) out << ',' << f.text;
    out << ',' << csv_field(range.inapplicable) << '\n';
  }
}

void write_kept_json_lines(std::ostream& out, const SweepQuestion& question, std::span<const KeptRange> ranges) {
  for (const KeptRange& range : ranges) {
    out << "{\"schema\": \"stepcast.sweep_kept/1\", \"plan\": " << json_text(range.plan)
        << ", \"axis\": " << json_text(column_of(question.axes.front()));
    for (std::size_t i = 0; i < range.others.size(); ++i) write_axis_value(out, question.axes[i + 1], range.others[i]);
    for (const Figure& f : figures_of(range)) out << ", \"" << f.column << "\": " << (f.text.empty() ? "null" : f.text);
    out << ", \"inapplicable\": " << (range.runs ? "null" : json_text(range.inapplicable)) << "}\n";
  }
}

}  // namespace stepcast
