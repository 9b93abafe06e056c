// Plans of one's own: what is sent, when it may start, and who waits for it.
#include "bindings.hpp"
#include "packed.hpp"

#include <stepcast/base/words.hpp>
#include <stepcast/schedule/plan_flaw.hpp>

#include <array>
#include <cmath>
#include <string_view>

namespace stepcast::python {
namespace {

/// The value of a word among `words`, which stand in the order of an enumeration.
template <class Enum, std::size_t n>
Enum one_of(const std::array<std::string_view, n>& words, const std::string& word, const char* where) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < n; ++i) {
    if (words[i] == word) return static_cast<Enum>(i);
    names.emplace_back(words[i]);
  }
  throw InputError(where, listed(names), in_quotes(word), did_you_mean(word, names));
}

constexpr std::array<std::string_view, 3> update_places = {"after_backward", "before_forward", "on_server"};
constexpr std::array<std::string_view, 4> disciplines = {"fifo", "in_order", "priority", "parallel"};
constexpr std::array<std::string_view, 5> nodes = {"forward_entry", "forward", "backward", "update", "transfer"};

Operation operation_of(const std::string& word) {
  static const auto words = [] {
    std::array<std::string_view, operation_count> out;
    for (std::size_t i = 0; i < operation_count; ++i) out[i] = name_of(static_cast<Operation>(i));
    return out;
  }();
  return one_of<Operation>(words, word, "operation");
}

void push_channel(OwnPlan& own, std::string name, Discipline discipline, Bytes credit) {
  own.channel_names.push_back(std::make_shared<const std::string>(std::move(name)));
  own.plan.channels.push_back({*own.channel_names.back(), discipline, credit});
}

template <class T>
T within(std::int64_t value, std::int64_t end, const char* where) {
  if (value < 0 || value >= end)
    throw InputError(where, "a number from 0 to below " + std::to_string(end), std::to_string(value));
  return static_cast<T>(value);
}

OwnPlanPtr empty_plan(const py::object& name, const ProfilePtr& profile, const std::string& update,
                      std::int64_t period) {
  auto own = std::make_shared<OwnPlan>(OwnPlan{text_of_python(name, "name"), profile, {}});
  own->plan.update = one_of<UpdatePlace>(update_places, update, "update");
  constexpr std::int64_t longest = 4096;  // iterations, each of which is written down
  if (period < 1 || period > longest)
    throw InputError("period", "a number from 1 to " + std::to_string(longest), std::to_string(period));
  own->plan.period = static_cast<std::uint32_t>(period);
  return own;
}

std::size_t add_channel(OwnPlan& own, const std::string& name, const std::string& discipline, double credit) {
  constexpr std::size_t most = 256;
  if (own.plan.channels.size() >= most) throw InputError("channel", "at most 256 channels", "another one");
  if (!(credit >= 0)) throw InputError("credit", "a size", std::to_string(credit));
  push_channel(own, name, one_of<Discipline>(disciplines, discipline, "discipline"), Bytes(credit));
  return own.plan.channels.size() - 1;
}

Seconds time_of(double seconds, const char* where) {
  constexpr double longest = 1e6;
  if (!(seconds >= 0) || !(seconds <= longest))
    throw InputError(where, "a time in seconds from 0 to 1e6", std::to_string(seconds));
  return Seconds(seconds);
}

std::size_t add_transfer(OwnPlan& own, const std::string& operation, std::int64_t first, std::int64_t count,
                         std::int64_t channel, std::int32_t priority, std::optional<double> size, bool carries_gradient,
                         double delay, double overhead) {
  const Profile& profile = own.profile->profile;
  const auto tensors = static_cast<std::int64_t>(profile.tensors.size());
  if (own.plan.channels.empty()) own.plan.channels.push_back({"net"});
  Transfer t;
  t.operation = operation_of(operation);
  t.first_tensor = within<std::uint32_t>(first, tensors, "tensors");
  t.tensors = within<std::uint32_t>(count - 1, tensors - first, "number of tensors") + 1;
  t.channel = within<std::uint8_t>(channel, static_cast<std::int64_t>(own.plan.channels.size()), "channel");
  t.priority = priority;
  t.carries_gradient = carries_gradient;
  t.delay = time_of(delay, "delay");
  if (delay > 0 && own.plan.channels[t.channel].discipline != Discipline::parallel)
    throw InputError("delay", "0, since only timers, on a channel that is 'parallel', last so long",
                     std::to_string(delay), "say overhead for what a message costs beside its bytes");
  t.overhead = time_of(overhead, "overhead");
  Bytes run;
  for (std::uint32_t i = 0; i < t.tensors; ++i) run += profile.tensors[t.first_tensor + i].size;
  if (size && (!(*size >= 0) || !std::isfinite(*size))) throw InputError("size", "a size", std::to_string(*size));
  t.size = size ? Bytes(*size) : run;
  own.plan.transfers.push_back(t);
  return own.plan.transfers.size() - 1;
}

using End = std::pair<std::string, std::int64_t>;
Node node_of(const OwnPlan& own, const End& end, std::int64_t phase, const char* where) {
  const auto kind = one_of<NodeKind>(nodes, end.first, where);
  const std::size_t bound = kind == NodeKind::transfer ? own.plan.transfers.size()
                            : kind == NodeKind::update ? 1
                                                       : own.profile->profile.layers.size();
  const std::string name = std::string(where) + " ('" + end.first + "', ...)";
  return {kind, within<std::uint32_t>(end.second, static_cast<std::int64_t>(bound), name.c_str()),
          within<std::uint32_t>(phase, own.plan.period, "phase")};
}

void add_edge(OwnPlan& own, const End& source, const End& target, std::int64_t lag, std::int64_t source_phase,
              std::int64_t target_phase) {
  const Node from = node_of(own, source, source_phase, "source");
  const Node to = node_of(own, target, target_phase, "target");
  if (to.kind == NodeKind::forward_entry)
    throw InputError("target", "forward, backward, update or transfer",
                     "'forward_entry', which waits for nothing else");
  own.plan.edges.push_back({from, to, within<std::uint32_t>(lag, 1 << 20, "lag")});
}

py::tuple state_of(const OwnPlan& own) {
  py::list channels;
  for (const Channel& c : own.plan.channels)
    channels.append(py::make_tuple(std::string(c.name), static_cast<int>(c.discipline), c.credit.value()));
  return py::make_tuple(own.name, own.profile, static_cast<int>(own.plan.update), own.plan.period, channels,
                        packed(own.plan.transfers), packed(own.plan.edges), own.plan.uncovered);
}
bool is_within(const OwnPlan& own, const Node& node) {
  const Profile& profile = own.profile->profile;
  const std::size_t bound = node.kind == NodeKind::transfer ? own.plan.transfers.size()
                            : node.kind == NodeKind::update ? 1
                                                            : profile.layers.size();
  return node.index < bound && node.phase < own.plan.period;
}
/// What methods refuse to add is in no pickle of theirs.
void refuse_unless_whole(const OwnPlan& own) {
  const std::size_t tensors = own.profile->profile.tensors.size();
  bool whole = own.plan.period >= 1 && own.plan.channels.size() <= 256;
  for (const Transfer& t : own.plan.transfers)
    whole = whole && t.channel < own.plan.channels.size() && t.first_tensor < tensors && t.tensors >= 1 &&
            t.tensors <= tensors - t.first_tensor;
  for (const Edge& e : own.plan.edges) whole = whole && is_within(own, e.from) && is_within(own, e.to);
  if (!whole) refuse_pickle();
}
OwnPlanPtr plan_of_state(const py::tuple& state) {
  const py::tuple& s = parts_of(state, 8);
  auto own = std::make_shared<OwnPlan>(OwnPlan{s[0].cast<std::string>(), s[1].cast<ProfilePtr>(), {}});
  own->plan.update = unpacked<UpdatePlace>(py::object(s[2]));
  own->plan.period = s[3].cast<std::uint32_t>();
  for (const py::handle channel : s[4]) {
    const auto [name, discipline, credit] = channel.cast<std::tuple<std::string, int, double>>();
    push_channel(*own, name, unpacked<Discipline>(py::int_(discipline)), Bytes(credit));
  }
  own->plan.transfers = unpacked<std::vector<Transfer>>(py::object(s[5]));
  own->plan.edges = unpacked<std::vector<Edge>>(py::object(s[6]));
  own->plan.uncovered = s[7].cast<std::string>();
  refuse_unless_whole(*own);
  return own;
}

}  // namespace

void bind_comm_plan(py::module_& module) {
  py::class_<OwnPlan, OwnPlanPtr>(module, "CommPlan",
                                  "A plan of one's own: what is sent, when it may start, and who waits for it.")
      .def(py::init(&empty_plan), py::arg("name"), py::arg("profile"), py::kw_only(),
           py::arg("update") = "after_backward", py::arg("period") = 1)
      .def_readonly("name", &OwnPlan::name)
      .def_readonly("profile", &OwnPlan::profile)
      .def_property(
          "uncovered", [](const OwnPlan& own) { return own.plan.uncovered; },
          [](OwnPlan& own, const py::object& why) { own.plan.uncovered = text_of_python(why, "uncovered"); })
      .def_property_readonly("messages", [](const OwnPlan& own) { return own.plan.transfers.size(); })
      .def("_channel", &add_channel)
      .def("channel", in_python("add_channel"))
      .def("_transfer", &add_transfer)
      .def("transfer", in_python("add_transfer"))
      .def("_edge", &add_edge)
      .def("edge", in_python("add_edge"))
      .def_property_readonly("flaw", [](const OwnPlan& own) { return flaw_of(own.plan, own.profile->profile); })
      .def("__repr__", in_python("comm_plan_repr"))
      .def(py::pickle(&state_of, &plan_of_state));
}

}  // namespace stepcast::python
