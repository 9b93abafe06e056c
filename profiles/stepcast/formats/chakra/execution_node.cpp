// Nodes of execution traces: flat (1.0.1) and nested (1.0.2 and later), collectives by attribute and by argument.
#include <stepcast/base/decimal.hpp>
#include <stepcast/formats/chakra/execution_node.hpp>

#include <simdjson.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

namespace stepcast {
namespace {

using simdjson::SUCCESS;
using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::object;

constexpr int deepest_list = 8;

std::string_view text_in(const element& json) {
  std::string_view text;
  return json.get(text) == SUCCESS ? text : std::string_view();
}

/// (tensor id, storage id, offset, elements, bytes per element, device)
bool read_tensor(const array& tuple, ExecutionTensor& tensor) {
  if (tuple.size() != 6) return false;
  std::int64_t numbers[5] = {};
  std::size_t i = 0;
  for (const element part : tuple) {
    if (i < 5 && part.get(numbers[i]) != SUCCESS) return false;
    if (i == 5 && !part.is_string()) return false;
    ++i;
  }
  tensor = {numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]};
  return true;
}

void read_tensors(const element& value, std::vector<ExecutionTensor>& tensors, int depth = 0) {
  array list;
  if (value.get(list) != SUCCESS || depth > deepest_list) return;
  ExecutionTensor tensor;
  if (read_tensor(list, tensor)) {
    tensors.push_back(tensor);
    return;
  }
  for (const element part : list) read_tensors(part, tensors, depth + 1);
}

std::string type_list(const element& types) {
  array list;
  if (types.get(list) != SUCCESS || list.size() == 0) return {};
  std::string out = "[";
  for (const element type : list) {
    if (out.size() > 1) out += ',';
    out += '"';
    for (const char c : element_type_of(text_in(type)))
      if (c != '"' && c != '\\') out += c;
    out += '"';
  }
  return out + "]";
}

std::string shape_list(const element& shapes) {
  array list;
  return shapes.get(list) == SUCCESS && list.size() > 0 ? simdjson::minify(shapes) : std::string();
}

/// The parts of a node, wherever its schema puts them.
struct Parts {
  element inputs, outputs, shapes, types;
  bool has_inputs = false, has_outputs = false, has_shapes = false, has_types = false;
};

Parts parts_of(const object& node) {
  Parts p;
  object nested;
  if (node["inputs"].get(nested) == SUCCESS) {
    p.has_inputs = nested["values"].get(p.inputs) == SUCCESS;
    p.has_shapes = nested["shapes"].get(p.shapes) == SUCCESS;
    p.has_types = nested["types"].get(p.types) == SUCCESS;
    if (node["outputs"].get(nested) == SUCCESS) p.has_outputs = nested["values"].get(p.outputs) == SUCCESS;
    return p;
  }
  p.has_inputs = node["inputs"].get(p.inputs) == SUCCESS;
  p.has_shapes = node["input_shapes"].get(p.shapes) == SUCCESS;
  p.has_types = node["input_types"].get(p.types) == SUCCESS;
  p.has_outputs = node["outputs"].get(p.outputs) == SUCCESS;
  return p;
}

void take_attribute(std::string_view key, const element& value, ExecutionNode& node, ExecutionCollective& collective) {
  if (key == "rf_id") node.record_function = json_integer(value, -1);
  if (key == "seq_id") node.sequence = json_integer(value, -1);
  if (key == "fw_tid") node.forward_thread = json_integer(value, -1);
  if (key == "tid") node.thread = json_integer(value, -1);
  if (key == "collective_name") collective.name = text_in(value);
  if (key == "dtype") collective.dtype = text_in(value);
  if (key == "in_msg_nelems") collective.in_elements = json_integer(value, -1);
  if (key == "out_msg_nelems") collective.out_elements = json_integer(value, -1);
  if (key == "in_split_size") collective.in_split = text_in(value);
  if (key == "out_split_size") collective.out_split = text_in(value);
  if (key == "pg_name") collective.group = text_in(value);
  if (key == "pg_size") collective.group_size = json_integer(value, -1);
}

void take_attributes(const object& json, ExecutionNode& node, ExecutionCollective& collective) {
  array attributes;
  if (json["attrs"].get(attributes) != SUCCESS) {
    for (const auto field : json) take_attribute(field.key, field.value, node, collective);
    return;
  }
  for (const element attribute : attributes) {
    object entry;
    element value;
    std::string_view name;
    if (attribute.get(entry) == SUCCESS && entry["name"].get(name) == SUCCESS && entry["value"].get(value) == SUCCESS)
      take_attribute(name, value, node, collective);
  }
}

std::int64_t elements_in(const std::vector<ExecutionTensor>& tensors) {
  std::int64_t sum = 0;
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max() / 2;
  for (const ExecutionTensor& t : tensors)
    if (t.elements > 0) sum = t.elements > most - sum ? most : sum + t.elements;
  return sum;
}

/// Arguments of record_param_comms: [tensors,] sequence, group, rank, name, in split, out split [, start, stride,
/// size].
void take_arguments(const Parts& parts, ExecutionNode& node, ExecutionCollective& collective, OwnRank& own) {
  array values;
  if (!parts.has_inputs || parts.inputs.get(values) != SUCCESS) return;
  std::vector<element> arguments;
  for (const element value : values) {
    arguments.push_back(value);
    if (arguments.size() > 16) break;
  }
  const auto name = std::ranges::find_if(arguments, [](const element& e) { return e.is_string(); });
  const auto at = static_cast<std::size_t>(name - arguments.begin());
  if (at == arguments.size() || at < 2) return;
  const auto number_at = [&](std::size_t i) { return i < arguments.size() ? json_integer(arguments[i], -1) : -1; };
  array group;
  const bool named = arguments[at - 2].get(group) == SUCCESS && group.size() > 0;  // before that, a number
  const std::string name_of_group = named ? std::string(text_in(group.at(0))) : simdjson::minify(arguments[at - 2]);
  const std::string_view description = named && group.size() > 1 ? text_in(group.at(1)) : std::string_view();
  own.add(text_in(arguments[at]), name_of_group, description, number_at(at - 1), number_at(at + 3), number_at(at + 4));
  if (!collective.name.empty()) return;
  collective.name = text_in(arguments[at]);
  if (collective.group.empty() && named) collective.group = name_of_group;
  if (at + 2 < arguments.size()) {
    collective.in_split = simdjson::minify(arguments[at + 1]);
    collective.out_split = simdjson::minify(arguments[at + 2]);
  }
  if (at + 5 < arguments.size()) collective.group_size = number_at(at + 5);
  if (!node.inputs.empty()) collective.in_elements = elements_in(node.inputs);
  if (!node.outputs.empty()) collective.out_elements = elements_in(node.outputs);
  array types;
  if (parts.has_types && parts.types.get(types) == SUCCESS && types.size() > 0)
    collective.dtype = element_type_of(text_in(*types.begin()));
}

/// "## process_group:init ##" carries the groups as JSON in a string.
void take_groups(const Parts& parts, ExecutionTrace& to) {
  array values;
  if (!parts.has_inputs || parts.inputs.get(values) != SUCCESS || values.size() == 0) return;
  simdjson::dom::parser parser;
  array groups;
  const std::string text(text_in(*values.begin()));
  if (parser.parse(simdjson::padded_string(text)).get(groups) != SUCCESS) return;
  constexpr std::size_t most_members = std::size_t{1} << 22;  // a small file must not fill the memory with lists
  constexpr std::size_t most_groups = std::size_t{1} << 14;
  if (to.groups.size() >= most_groups) return;
  std::size_t members = 0;
  for (const ProcessGroup& known : to.groups) members += known.ranks.size();
  members = std::min(members, most_members);
  for (const element json : groups) {
    object group;
    if (json.get(group) != SUCCESS) continue;
    ProcessGroup out;
    element part;
    if (group["pg_name"].get(part) == SUCCESS) out.name = text_in(part);
    if (group["pg_desc"].get(part) == SUCCESS) out.description = text_in(part);
    array ranks;
    if (group["ranks"].get(ranks) == SUCCESS)
      for (const element rank : ranks) out.ranks.push_back(json_integer(rank, -1));
    // An empty list stands for all ranks of the run.
    element size;
    if (out.ranks.empty() && group["group_size"].get(size) == SUCCESS)
      if (const std::int64_t all = json_integer(size, 0); all > 0 && std::cmp_less_equal(all, most_members - members))
        for (; std::ssize(out.ranks) < all; ++members) out.ranks.push_back(std::ssize(out.ranks));
    to.groups.push_back(std::move(out));
  }
}

bool is_transfer(std::string_view collective) {
  return !collective.empty() && collective != "wait" && collective != "init";
}

}  // namespace

std::string_view element_type_of(std::string_view type) {
  constexpr std::string_view tensor = "Tensor(";
  if (const std::size_t at = type.find(tensor); at != std::string_view::npos) {
    const std::string_view word = type.substr(at + tensor.size());
    const std::string_view element_type = word.substr(0, word.find(')'));
    return element_type.starts_with("nullptr") ? std::string_view() : element_type;
  }
  return type == "Int" || type == "Double" || type == "Bool" ? std::string_view("Scalar") : std::string_view();
}

std::int64_t json_integer(const element& json, std::int64_t absent) {
  std::int64_t value = absent;
  if (json.get(value) == SUCCESS) return value;
  std::string_view text;
  if (json.get(text) == SUCCESS && read_integer(text, value) == Parsed::fine) return value;
  return absent;
}

bool read_execution_node(const element& json, ExecutionTrace& to, OwnRank& own, std::int64_t& parent) {
  object fields;
  element id, up;
  std::string_view name;
  if (json.get(fields) != SUCCESS || fields["id"].get(id) != SUCCESS || fields["name"].get(name) != SUCCESS)
    return false;
  ExecutionNode node;
  node.id = json_integer(id, -1);
  node.name = name;
  if (fields["parent"].get(up) == SUCCESS || fields["ctrl_deps"].get(up) == SUCCESS) {
    array list;
    if (up.get(list) == SUCCESS && list.size() > 0) up = *list.begin();
    parent = json_integer(up, -1);
  }
  ExecutionCollective collective;
  take_attributes(fields, node, collective);
  (void)restore_counts(collective.name, collective.group_size, collective.in_elements, collective.out_elements);
  const Parts parts = parts_of(fields);
  if (parts.has_inputs) read_tensors(parts.inputs, node.inputs);
  if (parts.has_outputs) read_tensors(parts.outputs, node.outputs);
  if (parts.has_shapes) node.input_shapes = shape_list(parts.shapes);
  if (parts.has_types) node.input_types = type_list(parts.types);
  if (node.name == "record_param_comms") take_arguments(parts, node, collective, own);
  if (node.name == "## process_group:init ##") take_groups(parts, to);
  if (is_transfer(collective.name)) {
    node.collective = static_cast<std::uint32_t>(to.collectives.size());
    to.collectives.push_back(std::move(collective));
  }
  to.nodes.push_back(std::move(node));
  return true;
}

}  // namespace stepcast
