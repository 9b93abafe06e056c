// PipeDream: the layer graph that its profiler writes (graph.txt), and what one step over it costs.
//
//   node4 -- Conv2d(64, 64, kernel_size=(3, 3)) -- forward_compute_time=5.872, backward_compute_time=11.246,
//       activation_size=822083584.000, parameter_size=147712.000        (one line)
//           node3 -- node4                                               (edges, indented by a tab)
//
// Times are milliseconds, sizes bytes. A node may have several activations: [6291456.0; 131072.0]. Layers are brought
// into topological order, nodes that are free at the same time by their number; a module's weight and bias share one
// size. The time of the node Input is what the step waited for its batch (main.py: data_time). Not modelled: branches
// that run at the same time. Written by msr-fiddle/pipedream, graph/graph.py.
#include <stepcast/base/error.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/formats/shared/format.hpp>
#include <stepcast/formats/shared/layer_table.hpp>

#include <functional>
#include <queue>
#include <unordered_map>

namespace stepcast::format::pipedream {
namespace {

constexpr std::string_view dashes = " -- ", stage_mark = " -- stage_id=";

bool recognises(std::string_view head) {
  if (head.empty() || head.front() == '{' || head.front() == '[') return false;
  const std::size_t at = head.find("forward_compute_time=");
  if (at == std::string_view::npos || head.find("parameter_size=") == std::string_view::npos) return false;
  return head.substr(0, at).find(dashes) != std::string_view::npos;
}

struct Node {
  std::string id;
  std::uint64_t number = 0;  ///< 12 for "node12"
  TabledLayer layer;
  std::vector<std::uint32_t> successors;
  std::size_t predecessors = 0;
  bool input = false;  ///< not a layer
};

class LayerGraph {
 public:
  LayerGraph(const Source& source, const ReadOptions& options) : name_(source.name), text_(source, options) {}

  Profile read() {
    std::vector<TextLine> edges;
    for (const TextLine& line : text_.lines()) {
      if (line.text.front() == '\t' || line.text.front() == ' ') edges.push_back(line);
      else add_node(line);
    }
    if (edges.empty() && nodes_.size() > 1) table_.missing.push_back("edges: nodes are taken in the order of the file");
    for (const TextLine& edge : edges) add_edge(edge);
    for (const std::uint32_t node : edges.empty() ? file_order() : topological_order()) {
      if (nodes_[node].input) table_.input += nodes_[node].layer.forward;
      else table_.layers.push_back(std::move(nodes_[node].layer));
    }
    if (table_.input.value() > 0) table_.assumed.push_back("the time of node Input is waiting for the batch");
    table_.source = name_;
    table_.recognised = "PipeDream layer graph";
    table_.missing.push_back("weights and biases apart: a node has one size for both");
    if (!text_.damage().empty()) table_.missing.push_back("the end of the file: " + text_.damage());
    if (branches_ > 0)
      table_.assumed.push_back(counted(branches_, "node") +
                               " with several successors: branches run one after the other");
    table_.assumed.push_back("gradients are ready in the reverse of the topological order, 4 bytes an element");
    return profile_of_table(std::move(table_));
  }

 private:
  void add_node(const TextLine& line) {
    const std::string where = text_.where(line);
    std::string_view text = line.text;
    // What the optimizer writes (gpus=4.txt) tells the stage of each node behind its costs.
    if (const std::size_t stage = text.rfind(stage_mark); stage != std::string_view::npos) text = text.substr(0, stage);
    const std::size_t first = text.find(dashes), last = text.rfind(dashes);
    if (first == std::string_view::npos || first == last)
      throw InputError(where, "'node -- description -- costs' or an indented edge", "'" + begin_of(text) + "'");
    Node node;
    node.id = trimmed(text.substr(0, first));
    const std::size_t digit = node.id.find_first_of("0123456789");
    if (digit != std::string::npos) node.number = std::strtoull(node.id.c_str() + digit, nullptr, 10);
    const std::string_view description = trimmed(text.substr(first + dashes.size(), last - first - dashes.size()));
    node.layer.name = node.id + " " + std::string(trimmed(description.substr(0, description.find('('))));
    node.input = description.starts_with("Input") && description.find_first_not_of("0123456789", 5) == description.npos;
    read_costs(text.substr(last + dashes.size()), where, node);
    node.input &= node.layer.tensors.empty() && node.layer.backward.value() == 0;
    const auto number = static_cast<std::uint32_t>(nodes_.size());
    if (!by_id_.emplace(node.id, number).second) throw InputError(where, "every node once", "a second " + node.id);
    nodes_.push_back(std::move(node));
  }

  void read_costs(std::string_view costs, const std::string& where, Node& node) {
    unsigned seen = 0;
    for (const std::string& cost : cells_of(costs, ',')) {
      const std::size_t equals = cost.find('=');
      const std::string_view key = std::string_view(cost).substr(0, equals);
      const std::string_view value = equals == std::string::npos ? "" : std::string_view(cost).substr(equals + 1);
      if (key == "forward_compute_time") node.layer.forward = milliseconds(amount_of(value, where, "time in ms"));
      else if (key == "backward_compute_time")
        node.layer.backward = milliseconds(amount_of(value, where, "time in ms"));
      else if (key == "activation_size") table_.activations += sum_of(value, where);
      else if (key == "parameter_size") add_tensor(Bytes(amount_of(value, where, "size in bytes")), node.layer);
      else continue;
      seen += 1;
    }
    if (seen != 4) {
      const std::string expected = "forward_compute_time, backward_compute_time, activation_size and parameter_size";
      throw InputError(where, expected, "'" + begin_of(costs) + "'");
    }
  }

  static Bytes sum_of(std::string_view list, const std::string& where) {
    if (!list.starts_with('[')) return Bytes(amount_of(list, where, "size in bytes"));
    if (!list.ends_with(']')) throw InputError(where, "activation sizes in brackets", "'" + std::string(list) + "'");
    Bytes sum;
    for (const std::string& size : cells_of(list.substr(1, list.size() - 2), ';'))
      sum += Bytes(amount_of(size, where, "size in bytes"));
    return sum;
  }

  static void add_tensor(Bytes size, TabledLayer& layer) {
    if (size.value() == 0) return;
    Tensor tensor;
    tensor.name = layer.name;
    tensor.size = size;
    layer.tensors.push_back(std::move(tensor));
  }

  void add_edge(const TextLine& line) {
    const std::string_view edge = trimmed(line.text);
    const std::size_t at = edge.find(dashes);
    if (at == std::string_view::npos)
      throw InputError(text_.where(line), "an edge 'node -- node'", "'" + begin_of(edge) + "'");
    const std::uint32_t from = node_named(trimmed(edge.substr(0, at)), line);
    const std::uint32_t to = node_named(trimmed(edge.substr(at + dashes.size())), line);
    branches_ += nodes_[from].successors.size() == 1;
    nodes_[from].successors.push_back(to);
    ++nodes_[to].predecessors;
  }

  std::uint32_t node_named(std::string_view id, const TextLine& line) const {
    const auto found = by_id_.find(std::string(id));
    if (found == by_id_.end()) throw InputError(text_.where(line), "a node of the file", "'" + std::string(id) + "'");
    return found->second;
  }

  std::vector<std::uint32_t> file_order() const {
    std::vector<std::uint32_t> order(nodes_.size());
    for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    return order;
  }

  // Kahn's algorithm; of the nodes that are free the one with the smallest number comes first.
  std::vector<std::uint32_t> topological_order() const {
    std::vector<std::size_t> open;
    using Entry = std::pair<std::uint64_t, std::uint32_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> free;
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
      open.push_back(nodes_[i].predecessors);
      if (open[i] == 0) free.emplace(nodes_[i].number, i);
    }
    std::vector<std::uint32_t> order;
    while (!free.empty()) {
      const std::uint32_t node = free.top().second;
      free.pop();
      order.push_back(node);
      for (const std::uint32_t next : nodes_[node].successors)
        if (--open[next] == 0) free.emplace(nodes_[next].number, next);
    }
    if (order.size() < nodes_.size())
      throw InputError(name_, "a graph without cycles",
                       "a cycle among " + std::to_string(nodes_.size() - order.size()) + " nodes");
    return order;
  }

  static std::string begin_of(std::string_view text) { return std::string(trimmed(text).substr(0, 40)); }

  std::string name_;
  TableText text_;
  LayerTable table_;
  std::vector<Node> nodes_;
  std::unordered_map<std::string, std::uint32_t> by_id_;
  std::size_t branches_ = 0;
};

Reading read(const Source& source, const ReadOptions& options) {
  Reading reading;
  reading.profiles.push_back(LayerGraph(source, options).read());
  return reading;
}

}  // namespace

Format record() {
  return {"pipedream", "Layer graph of PipeDream's profiler (graph.txt)", "msr-fiddle/pipedream graph/graph.py",
          recognises, read};
}

}  // namespace stepcast::format::pipedream
