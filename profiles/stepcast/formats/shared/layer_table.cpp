// Layer tables: lines, cells, and from rows to a profile.
#include <stepcast/base/error.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/encodings/csv.hpp>
#include <stepcast/encodings/inflate.hpp>
#include <stepcast/formats/shared/layer_table.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_map>
#include <utility>

namespace stepcast {
namespace {

constexpr std::size_t largest_table = std::size_t{64} << 20;

/// "sep=;" tells a spreadsheet what separates; the header shows it as well.
bool is_separator_line(std::string_view line) { return line.size() == 5 && line.starts_with("sep="); }

PassCost device_cost(Seconds time) {
  PassCost cost;
  cost.device = time;
  return cost;
}

/// "conv" and "conv" become "conv" and "conv (2)".
template <class Named>
void make_unique(std::vector<Named>& all) {
  std::unordered_map<std::string, int> seen;
  for (const Named& one : all) seen.try_emplace(one.name, 0);
  for (Named& one : all) {
    const std::string name = one.name;
    int count = ++seen[name];
    if (count == 1) continue;
    do one.name = name + " (" + std::to_string(count) + ")";
    while (!seen.try_emplace(one.name, 1).second && ++count > 0);
    seen[name] = count;
  }
}

}  // namespace

Profile profile_of_table(LayerTable table) {
  if (table.layers.empty()) throw InputError(table.source, "at least one layer", "none");
  Profile profile;
  profile.model = table.model.empty() ? model_name_of(table.source) : table.model;
  profile.device = table.device.empty() ? "unnamed device" : table.device;
  if (table.device.empty()) table.missing.push_back("the device's name");
  for (const TabledLayer& layer : table.layers)
    profile.layers.push_back({layer.name, device_cost(layer.forward), device_cost(layer.backward)});
  make_unique(profile.layers);
  profile.backward_order = table.backward_order;
  if (profile.backward_order.empty()) {
    profile.backward_order.resize(table.layers.size());
    std::iota(profile.backward_order.rbegin(), profile.backward_order.rend(), 0u);
  }
  for (const std::uint32_t layer : profile.backward_order) {
    for (Tensor tensor : table.layers.at(layer).tensors) {
      tensor.layer = layer;
      // A tensor that bears its layer's name bears the unique one.
      const std::string& name = table.layers[layer].name;
      if (tensor.name.empty() || tensor.name == name) tensor.name = profile.layers[layer].name;
      profile.tensors.push_back(std::move(tensor));
    }
  }
  make_unique(profile.tensors);
  profile.optimizer = device_cost(table.optimizer);
  profile.other = device_cost(table.other);
  profile.input = table.input;
  if (table.optimizer.value() == 0) table.missing.push_back("the optimizer's time: none is counted");
  profile.activation_memory = table.activations;
  profile.batch_samples = table.batch_samples;
  if (table.batch_samples == 0) table.missing.push_back("samples per step");
  profile.provenance = table.source + ": " + table.recognised;
  profile.recognised = {table.recognised + ": " + counted(profile.layers.size(), "layer") + ", " +
                        counted(profile.tensors.size(), "gradient")};
  profile.missing = std::move(table.missing);
  profile.assumed = std::move(table.assumed);
  profile.cautions = std::move(table.cautions);
  profile.assumed.push_back("all times are of the device; the table does not tell what the host needs to launch them");
  if (profile.tensors.empty())
    throw InputError(table.source, "parameters in at least one layer", "no layer with any, so nothing to communicate");
  return checked(std::move(profile), table.source);
}

TableText::TableText(const Source& source, const ReadOptions& options) : name_(source.name) {
  PlainText plain(source.bytes);
  text_.resize(std::size_t{1} << 16);
  std::size_t size = 0;
  for (;;) {
    const std::size_t got = plain.read(std::span(text_).subspan(size));
    size += got;
    if (size < text_.size()) break;
    if (size >= largest_table) throw InputError(name_, "a table of at most 64 MiB", "a longer text");
    text_.resize(2 * size);
  }
  text_.resize(size);
  damage_ = plain.damage();
  // Where a file was cut, its last number may have been.
  if (!damage_.empty()) text_.resize(text_.rfind('\n') + 1);
  if (options.strict && !damage_.empty()) throw InputError(name_, "an intact file", damage_);
  std::string_view rest = text_;
  if (rest.starts_with("\xEF\xBB\xBF")) rest.remove_prefix(3);  // byte order mark of spreadsheets
  for (std::size_t number = 1; !rest.empty(); ++number) {
    const std::size_t end = std::min(rest.find_first_of("\n"), rest.size());
    std::string_view line = rest.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const std::string_view content = trimmed(line);
    if (content.empty()) continue;
    if (is_separator_line(content)) continue;
    if (content.front() == '#') comments_.push_back({number, trimmed(content.substr(1))});
    else lines_.push_back({number, line});
  }
}

std::string_view first_line_of(std::string_view head) {
  if (head.starts_with("\xEF\xBB\xBF")) head.remove_prefix(3);
  while (!head.empty()) {
    const std::size_t end = std::min(head.find('\n'), head.size());
    const std::string_view line = trimmed(head.substr(0, end));
    if (!line.empty() && line.front() != '#' && !is_separator_line(line)) return line;
    head.remove_prefix(std::min(end + 1, head.size()));
  }
  return {};
}

std::string model_name_of(std::string_view path) {
  std::string_view folder;
  if (const std::size_t slash = path.rfind('/'); slash != std::string_view::npos) {
    folder = path.substr(0, slash);
    folder.remove_prefix(folder.rfind('/') + 1);  // npos + 1 = 0
    path.remove_prefix(slash + 1);
  }
  for (const std::string_view ending : {".gz", ".csv", ".tsv", ".txt", ".log", ".bk"})
    if (path.ends_with(ending)) path.remove_suffix(ending.size());
  // Files of one name in a folder of the model's name, or that folder's name in front of them.
  for (const std::string_view common : {"graph", "trace", "tensor"}) {
    if (path == common) return std::string(folder.empty() ? path : folder);
    if (path.ends_with(std::string("__").append(common))) path.remove_suffix(common.size() + 2);
  }
  if (const std::size_t at = path.rfind("__"); at != std::string_view::npos) path.remove_prefix(at + 2);
  return std::string(path);
}

double amount_of(std::string_view cell, const std::string& where, std::string_view what) {
  const std::string expected = "a " + std::string(what) + " >= 0";
  double value = 0;
  try {
    value = number_of(cell, where);
  } catch (const InputError&) {
    throw InputError(where, expected, in_quotes(cell),
                     cell.find(',') == std::string_view::npos ? "" : "numbers use a point, and no commas");
  }
  if (!(value >= 0) || std::isinf(value)) throw InputError(where, expected, in_quotes(cell));
  return value;
}

bool is_null(std::string_view cell) {
  const std::string word = words_of_header(cell);
  return cell.empty() || cell == "-" || word == "null" || word == "none" || word == "na" || word == "n a";
}

}  // namespace stepcast
