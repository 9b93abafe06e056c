// Clusters: described in a few words, read, written and replaced.
#include "bindings.hpp"
#include "packed.hpp"

#include <stepcast/base/text.hpp>
#include <stepcast/cluster/cluster_description.hpp>
#include <stepcast/cluster/device_match.hpp>

#include <algorithm>
#include <optional>

namespace stepcast::python {
namespace {

using Texts = std::map<std::string, std::string>;

/// The arguments of Cluster(...) as texts; `json` is that of a file named `words["cluster"]`.
ClusterPtr described(const Texts& words, const std::optional<std::string>& json) {
  const auto said = [&](const char* key) {
    const auto found = words.find(key);
    return found == words.end() ? std::string() : found->second;
  };
  std::optional<Cluster> base;
  if (json) base = cluster_of_json(*json, said("cluster"));
  try {
    Cluster cluster = cluster_of({.cluster = said("cluster"),
                                  .workers = said("workers"),
                                  .per_node = said("per_node"),
                                  .network = said("network"),
                                  .inside = said("inside"),
                                  .servers = said("servers"),
                                  .collective = said("collective"),
                                  .device_memory = said("device_memory"),
                                  .nccl_algo = said("nccl_algo"),
                                  .nccl_proto = said("nccl_proto"),
                                  .slow_worker = said("slow_worker"),
                                  .late_worker = said("late_worker"),
                                  .degraded_link = said("degraded_link"),
                                  .jitter = said("jitter"),
                                  .aggregation = said("switch"),
                                  .loss = said("loss"),
                                  .stalls = said("stalls"),
                                  .rto = said("rto"),
                                  .background = said("background"),
                                  .connection = said("connection"),
                                  .level = {said("level")}},
                                 base, "");
    const std::optional<Device> device = shipped_device_like(cluster.device);
    return std::make_shared<Cluster>(with_device(std::move(cluster), device));
  } catch (const InputError& e) {  // fields have hyphens there, arguments underscores here
    std::string where = e.where;
    std::replace(where.begin(), where.end(), '-', '_');
    throw words.contains(where) || where == "per_node" || where == "device_memory"
        ? InputError(where, e.expected, e.found, e.hint)
        : e;
  }
}

ClusterPtr replaced(Cluster cluster, const std::string& network, const std::string& latency,
                    std::optional<std::int64_t> workers) {
  if (workers) {
    Answer<Cluster> sized = resized(std::move(cluster), *workers);
    if (!sized)
      throw InputError("workers", "a number that whole machines have", std::to_string(*workers), sized.reason());
    cluster = std::move(*sized);
  }
  const auto forget = [&](std::string_view link) {
    std::erase_if(cluster.provenance, [&](const std::string& line) { return line.starts_with(link); });
  };
  if (!network.empty()) {
    const BytesPerSecond bandwidth = bandwidth_of(network, "network");
    for (Level& level : cluster.levels) level.bandwidth *= bandwidth / cluster.network.bandwidth;
    cluster.network.bandwidth = bandwidth;
    forget("network bandwidth");
    cluster.provenance.push_back("network bandwidth: " + text_of(cluster.network.bandwidth) + " as given");
  }
  if (!latency.empty()) {
    const Seconds more = seconds_of(latency, "latency") - cluster.network.latency;
    for (std::size_t i = 1; i < cluster.levels.size(); ++i)
      cluster.levels[i].latency = std::max(Seconds(0), cluster.levels[i].latency + more);
    cluster.network.latency += more;
    forget("network latency");
    cluster.provenance.push_back("network latency: " + text_of(cluster.network.latency) + " as given");
  }
  return std::make_shared<Cluster>(checked(std::move(cluster), "cluster"));
}

}  // namespace

void bind_cluster(py::module_& module) {
  py::class_<Cluster, ClusterPtr>(module, "Cluster",
                                  "Machines, their links, and what is known of the collectives on them.")
      .def(py::init([](py::args args, py::kwargs kwargs) {
             return py::module_::import("stepcast.files").attr("cluster_of")(*args, **kwargs).cast<ClusterPtr>();
           }),
           "Cluster(cluster='', *, workers=0, per_node=0, network='', inside='', servers=0, device_memory='', "
           "collective='', slow_worker='', late_worker='', degraded_link='', jitter='', switch='', "
           "loss='', stalls='', rto='', level='', background='', connection='', nccl_algo='', nccl_proto=''): a "
           "shipped name or a "
           "JSON file, or what the flags of the same names say on the command line. network is a nominal rate.")
      .def_readonly("name", &Cluster::name)
      .def_property_readonly("workers", &Cluster::workers)
      .def_readonly("nodes", &Cluster::nodes)
      .def_readonly("per_node", &Cluster::devices_per_node)
      .def_property_readonly("network_bytes_per_s", [](const Cluster& c) { return c.network.bandwidth.value(); })
      .def_property_readonly("network_latency_s", [](const Cluster& c) { return c.network.latency.value(); })
      .def_property_readonly("inside_bytes_per_s", [](const Cluster& c) { return c.inside.bandwidth.value(); })
      .def_property_readonly("inside_latency_s", [](const Cluster& c) { return c.inside.latency.value(); })
      .def_readonly("servers", &Cluster::servers)
      .def_readonly("collective", &Cluster::all_reduce)
      .def_readonly("device", &Cluster::device)
      .def_property_readonly("device_memory_bytes", [](const Cluster& c) { return c.device_memory.value(); })
      .def_readonly("relative_error", &Cluster::relative_error)
      .def_property_readonly("provenance", [](const Cluster& c) { return tuple_of(c.provenance); })
      .def_static(
          "from_json",
          [](const py::object& text, const std::string& source) {
            return std::make_shared<Cluster>(cluster_of_json(text_of_python(text), source));
          },
          py::arg("text"), py::arg("source") = "cluster")
      .def("to_json", [](const Cluster& c) { return json_of(c) + "\n"; })
      .def("_replaced", &replaced)
      .def("replace", in_python("replaced_cluster"),
           "replace(*, network=None, latency=None, workers=None): the same cluster with another network or size. "
           "network is the rate of the link itself, as network_bytes_per_s tells it and sweeps take it; the nominal "
           "rates that Cluster(network=...) takes are higher.")
      .def("__repr__", in_python("cluster_repr"))
      .def("__eq__",
           [](const Cluster& a, const py::object& b) {
             return py::isinstance<Cluster>(b) && json_of(a) == json_of(b.cast<const Cluster&>());
           })
      .def("__hash__", [](const Cluster& c) { return py::hash(py::str(json_of(c))); })
      .def(py::pickle([](const Cluster& c) { return py::make_tuple(json_of(c)); },
                      [](const py::tuple& state) {
                        return std::make_shared<Cluster>(
                            cluster_of_json(parts_of(state, 1)[0].cast<std::string>(), "pickle"));
                      }));
  module.def("described_cluster", &described);
  module.def("exact_size", [](double b) { return exact_text_of(Bytes(b)); });
  module.def("exact_time", [](double s) { return exact_text_of(Seconds(s)); });
  module.def("exact_rate", [](double r) { return exact_text_of(BytesPerSecond(r)); });
  module.def("size_text", [](double b) { return text_of(Bytes(b)); });
  module.def("time_text", [](double s) { return text_of(Seconds(s)); });
  module.def("rate_text", [](double r) { return text_of(BytesPerSecond(r)); });
  module.def("size_of",
             [](const std::string& text, const std::string& where) { return bytes_of(text, where).value(); });
}

}  // namespace stepcast::python
