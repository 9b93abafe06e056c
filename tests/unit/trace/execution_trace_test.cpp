// Execution traces: every schema, damage, and joining with the profiler's trace of the same run.
#include <stepcast/base/error.hpp>
#include <stepcast/base/operator_order.hpp>
#include <stepcast/documents/reading.hpp>
#include <stepcast/trace/execution_trace.hpp>
#include <stepcast/trace/trace_draft.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "helpers/shared_data.hpp"

using namespace stepcast;

namespace {

Reading reading(const std::string& text, bool strict = false) {
  ReadOptions options;
  options.strict = strict;
  return reading_of({"et.json", std::as_bytes(std::span(text))}, options);
}
ExecutionTrace execution_of(const std::string& text) {
  Reading r = reading(text);
  REQUIRE(r.executions.size() == 1);
  return std::move(r.executions.front());
}
bool says(const std::vector<std::string>& lines, const std::string& part) {
  return std::ranges::any_of(lines, [&](const std::string& l) { return l.find(part) != std::string::npos; });
}

/// One operator as both schemas write it.
struct Node {
  int id, parent, rf_id, tid;
  std::string name;
  std::string inputs = "[]", shapes = "[]", types = "[]", outputs = "[]";
  std::string attributes = {};  ///< nested schema only
};

std::string flat(const Node& n) {
  return R"({"name":")" + n.name + R"(","id":)" + std::to_string(n.id) + R"(,"rf_id":)" + std::to_string(n.rf_id) +
         R"(,"parent":)" + std::to_string(n.parent) + R"(,"seq_id":-1,"scope":0,"tid":)" + std::to_string(n.tid) +
         R"(,"fw_tid":0,"op_schema":"","inputs":)" + n.inputs + R"(,"input_shapes":)" + n.shapes +
         R"(,"input_types":)" + n.types + R"(,"outputs":)" + n.outputs + R"(,"output_shapes":[],"output_types":[]})";
}
std::string nested(const Node& n) {
  return R"({"id":)" + std::to_string(n.id) + R"(,"name":")" + n.name + R"(","ctrl_deps":)" + std::to_string(n.parent) +
         R"(,"inputs":{"values":)" + n.inputs + R"(,"shapes":)" + n.shapes + R"(,"types":)" + n.types +
         R"(},"outputs":{"values":)" + n.outputs +
         R"(,"shapes":[],"types":[]},"attrs":[{"name":"rf_id","type":"uint64","value":)" + std::to_string(n.rf_id) +
         R"(},{"name":"seq_id","type":"int64","value":-1},{"name":"fw_tid","type":"uint64","value":0},)" +
         R"({"name":"tid","type":"uint64","value":)" + std::to_string(n.tid) +
         R"(},{"name":"op_schema","type":"string","value":""})" + n.attributes + "]}";
}

std::string file(const std::string& schema, const std::vector<Node>& nodes) {
  std::string text = R"({"schema":")" + schema + R"(","pid":17,"time":"","start_ts":1,"nodes":[)";
  for (std::size_t i = 0; i < nodes.size(); ++i)
    text += (i > 0 ? ",\n" : "") + (schema == "1.0.1" ? flat(nodes[i]) : nested(nodes[i]));
  return text + R"(],"finish_ts":2})";
}

const std::string x = R"([5,6,0,24,4,"cuda:0"])", y = R"([7,8,0,64,4,"cuda:0"])", z = R"([9,10,0,12,4,"cuda:0"])";

/// y = mm(x) inside linear; z = relu(view(y)); all-reduce of z; children before parents.
std::vector<Node> small_step() {
  return {
      {3, 1, 0, 1, "[pytorch|profiler|execution_trace|thread]"},
      {5, 4, 2, 1, "aten::mm", "[" + x + "]", "[[8,3]]", R"J(["Tensor(float)"])J", "[" + y + "]"},
      {4, 3, 1, 1, "aten::linear", "[" + x + "]", "[[8,3]]", R"J(["Tensor(float)"])J", "[" + y + "]"},
      {6, 3, 3, 1, "aten::view", "[" + y + ",[4]]", "[[64],[[]]]", R"J(["Tensor(float)","GenericList[Int]"])J",
       R"([[71,8,0,64,4,"cuda:0"]])"},
      {8, 3, 4, 1, "aten::relu", R"([[71,8,0,64,4,"cuda:0"]])", "[[64]]", R"J(["Tensor(c10::Half)"])J", "[" + z + "]"},
      {9, 3, 5, 1, "record_param_comms", "[[" + z + R"(],33,["0","default_pg"],3,"allreduce",[],[],0,1,8])",
       "[[[12]],[],[[],[]],[],[],[],[],[],[],[]]",
       R"J(["GenericList[Tensor(float)]","Int","Tuple[String,String]","Int","String","","","Int","Int","Int"])J",
       "[[" + z + "]]"},
      {2, 1, 0, 0, "[pytorch|profiler|execution_trace|process]"}};
}

/// The profiler's view of small_step: ids as given, one operator every 10 ns.
Trace profiled(std::int64_t process, const std::vector<std::pair<std::string, std::int64_t>>& operators,
               bool record_functions) {
  TraceDraft draft("trace.json");
  std::int64_t at = 100;
  for (const auto& [name, id] : operators) {
    Event e;
    e.kind = EventKind::host_op;
    e.name = draft.text(name);
    e.track = draft.track(process, 1, false);
    e.start_ns = at += 10;
    e.duration_ns = 5;
    e.record_function = record_functions ? static_cast<std::int32_t>(id) : -1;
    e.external_id = record_functions ? 1000 + id : id;
    draft.add(e);
  }
  draft.trace().report.missing = {"input shapes", "sizes of collectives"};
  return draft.finish();
}

const std::vector<std::pair<std::string, std::int64_t>> as_recorded = {
    {"aten::linear", 1}, {"aten::mm", 2}, {"aten::view", 3}, {"aten::relu", 4}, {"record_param_comms", 5}};

std::string arrows(const Trace& trace) {
  std::string out;
  for (const Dependency& d : trace.dependencies) {
    CHECK(d.kind == DependencyKind::data);
    out += std::string(trace.text(trace.events[d.before].name)) + ">" +
           std::string(trace.text(trace.events[d.after].name)) + " ";
  }
  return out;
}

}  // namespace

TEST_CASE("flat and nested nodes say the same; children may come before their parents") {
  const ExecutionTrace a = execution_of(file("1.0.1", small_step())),
                       b = execution_of(file("1.0.3-chakra.0.0.4", small_step()));
  REQUIRE(a.nodes.size() == 7);
  REQUIRE(b.nodes.size() == 7);
  for (std::size_t i = 0; i < a.nodes.size(); ++i) {
    CHECK(a.nodes[i].name == b.nodes[i].name);
    CHECK(a.nodes[i].parent == b.nodes[i].parent);
    CHECK(a.nodes[i].record_function == b.nodes[i].record_function);
    CHECK(a.nodes[i].input_shapes == b.nodes[i].input_shapes);
    CHECK(a.nodes[i].inputs.size() == b.nodes[i].inputs.size());
  }
  CHECK(a.nodes[1].parent == 2);
  CHECK(a.nodes[2].parent == 0);
  CHECK(a.nodes[1].input_shapes == "[[8,3]]");
  CHECK(a.nodes[3].input_types == R"(["float",""])");
  REQUIRE(a.nodes[1].outputs.size() == 1);
  CHECK(a.nodes[1].outputs[0].storage == 8);
  CHECK(a.nodes[1].outputs[0].elements == 64);
  CHECK(a.process == 17);
  CHECK(a.rank == 3);
  REQUIRE(a.collectives.size() == 1);
  CHECK(a.collectives[0].name == "allreduce");
  CHECK(a.collectives[0].dtype == "float");
  CHECK(a.collectives[0].in_elements == 12);
  CHECK(a.collectives[0].group_size == 8);
  CHECK(a.collectives[0].group == "0");
  CHECK(b.report.assumed.empty());
}

TEST_CASE("attributes of collectives come before their arguments; groups are read") {
  std::vector<Node> nodes = small_step();
  nodes[5].attributes = R"(,{"name":"collective_name","type":"string","value":"allreduce"},
    {"name":"dtype","type":"string","value":"BFloat16"},{"name":"in_msg_nelems","type":"uint64","value":99},
    {"name":"out_msg_nelems","type":"uint64","value":98},{"name":"in_split_size","type":"string","value":"[]"},
    {"name":"pg_name","type":"string","value":"7"},{"name":"pg_size","type":"uint64","value":4})";
  nodes.push_back({20, 3, 9, 1, "## process_group:init ##",
                   R"(["[{\"pg_name\": \"0\", \"pg_desc\": \"default_pg\", \"ranks\": [], \"group_size\": 3}]"])",
                   "[[]]", R"(["String"])"});
  const ExecutionTrace e = execution_of(file("1.1.0-chakra.0.0.4", nodes));
  REQUIRE(e.collectives.size() == 1);
  CHECK(e.collectives[0].dtype == "BFloat16");
  CHECK(e.collectives[0].in_elements == 99);
  CHECK(e.collectives[0].out_elements == 98);
  CHECK(e.collectives[0].group == "7");
  CHECK(e.collectives[0].group_size == 4);
  REQUIRE(e.groups.size() == 1);
  CHECK(e.groups[0].description == "default_pg");
  CHECK(e.groups[0].ranks == std::vector<std::int64_t>{0, 1, 2});
}

TEST_CASE("the root's rank of a broadcast is not taken for the writer's, and waiting is no transfer") {
  std::vector<Node> nodes = small_step();
  nodes[5].inputs = "[[" + z + R"(],33,["0","default_pg"],3,"broadcast",[],[],0,1,8])";
  CHECK(execution_of(file("1.0.1", nodes)).rank == -1);
  nodes[5].inputs = R"([141,0,2,"wait",[],[]])";
  CHECK(execution_of(file("1.0.1", nodes)).collectives.empty());
}

TEST_CASE("later schemas are read and said to be unknown; damage is counted, refused when strict") {
  const std::string later = file("1.7.0-chakra.0.0.9", small_step());
  CHECK(says(execution_of(later).report.assumed, "schema 1.7.0-chakra.0.0.9 is not a known one"));

  const std::string whole = file("1.1.1-chakra.0.0.4", small_step());
  const std::size_t fourth = whole.find("aten::view");
  const std::string cut = whole.substr(0, fourth + 40);
  const ExecutionTrace e = execution_of(cut);
  CHECK(e.nodes.size() == 3);
  CHECK(says(e.report.repaired, "ends behind node 3"));
  CHECK_THROWS_AS((void)reading(cut, true), InputError);

  std::string bad = whole;
  bad[bad.find("aten::view") + 6] = '\xff';
  CHECK(says(execution_of(bad).report.repaired, "1 bytes replaced that are not UTF-8"));

  std::vector<Node> nodes = small_step();
  std::string without_id = file("1.0.1", nodes);
  for (std::size_t at; (at = without_id.find("\"rf_id\"")) != std::string::npos;)
    without_id.replace(at, 7, "\"rf_xx\"");
  CHECK(says(execution_of(without_id).report.missing, "7 record-function ids"));
}

TEST_CASE("every prefix and many mutations of an execution trace are read or refused") {
  const std::string whole = file("1.0.1", small_step());
  int read = 0;
  const auto attempt = [&](const std::string& text) {
    try {
      (void)reading(text);
      ++read;
    } catch (const InputError& error) { CHECK(std::string(error.what()).size() > 10); }
  };
  for (std::size_t n = 1; n < whole.size(); n += 7) attempt(whole.substr(0, n));
  for (std::size_t i = 0; i < whole.size(); i += 3) {
    std::string text = whole;
    text[i] = "[]{}\",:0-\x01\xff"[i % 11];
    attempt(text);
  }
  CHECK(read > 100);
}

TEST_CASE("joining by record-function id fills shapes, types, collectives and data dependencies") {
  const ExecutionTrace e = execution_of(file("1.0.3-chakra.0.0.4", small_step()));
  const Trace t = joined(profiled(99, as_recorded, true), e);
  CHECK(t.text(t.events[1].shapes) == "[[8,3]]");
  CHECK(t.text(t.events[3].types) == R"(["c10::Half"])");
  REQUIRE(t.events[4].collective < t.collectives.size());
  const CollectiveArguments& c = t.collectives[t.events[4].collective];
  CHECK(c.in_elements == 12);
  CHECK(c.from_execution_trace);
  CHECK(t.rank == 3);
  // linear encloses mm, which wrote y; the view passes it on to relu.
  CHECK(arrows(t) == "aten::mm>aten::view aten::mm>aten::relu aten::relu>record_param_comms ");
  CHECK(says(t.report.assumed, "5 of 5 operators by record-function id, 3 data dependencies, 1 sizes of collectives"));
  CHECK(t.report.missing.empty());
}

TEST_CASE("what the profiler's trace says itself stays") {
  Trace trace = profiled(17, as_recorded, false);
  trace.strings.push_back("[[1]]");
  trace.events[1].shapes = static_cast<StringId>(trace.strings.size() - 1);
  trace.collectives.push_back({});
  trace.collectives[0].in_elements = 5;
  trace.events[4].collective = 0;
  const Trace t = joined(std::move(trace), execution_of(file("1.0.1", small_step())));
  CHECK(t.text(t.events[1].shapes) == "[[1]]");
  CHECK(t.collectives[0].in_elements == 5);
  CHECK_FALSE(t.collectives[0].from_execution_trace);
  CHECK(t.collectives[0].group_size == 8);
  CHECK(says(t.report.assumed, "by external id"));
}

TEST_CASE("where the ids count apart, the order of operators joins files of one process only") {
  const ExecutionTrace e = execution_of(file("1.0.1", small_step()));
  auto shifted = as_recorded;
  shifted.insert(shifted.begin() + 2, {"ProfilerStep#3", 0});
  for (std::size_t i = 0; i < shifted.size(); ++i) shifted[i].second = 235 + static_cast<std::int64_t>(i);
  const Trace t = joined(profiled(17, shifted, false), e);
  CHECK(t.text(t.events[4].shapes) == "[[64]]");
  CHECK(t.events[2].shapes == 0);
  CHECK(says(t.report.assumed, "5 of 5 operators by the order of operators on each thread"));

  CHECK_THROWS_WITH_AS((void)joined(profiled(18, shifted, false), e), doctest::Contains("another process (17)"),
                       InputError);
  CHECK_THROWS_AS((void)joined(profiled(17, {{"other", 1}, {"names", 2}}, false), e), InputError);
}

TEST_CASE("the rank of a process is not its place in a group of some ranks") {
  // [sequence, group, place or root, collective, splits, splits, first, stride, size]
  const auto rank_of = [](const std::vector<std::string>& calls, const std::string& groups = "") {
    std::vector<Node> nodes;
    if (!groups.empty()) nodes.push_back({4, 3, 0, 1, "## process_group:init ##", "[\"" + groups + "\"]"});
    for (const std::string& call : calls)
      nodes.push_back({static_cast<int>(5 + nodes.size()), 3, 1, 1, "record_param_comms", "[1," + call + "]"});
    return execution_of(file("1.0.3-chakra.0.0.4", nodes)).rank;
  };
  const std::string tensor = R"(["7","tp"],1,"allreduce",[],[],)", all = R"(["0","default_pg"],5,"allreduce",[],[],)";
  CHECK(rank_of({tensor + "4,1,2"}) == 5);
  CHECK(rank_of({tensor + "1,4,2"}) == 5);
  CHECK(rank_of({tensor + "-1,-1,2"}, R"([{\"pg_name\": \"7\", \"ranks\": [3, 6]}])") == 6);
  CHECK(rank_of({tensor + "-1,-1,2", all + "-1,-1,8"}) == 5);
  CHECK(rank_of({R"(["0","default_pg"],0,"broadcast",[],[],0,1,8)"}) == -1);
  CHECK(rank_of({R"(93891384002768,2,"allreduce",[],[])"}) == 2);  // 1.0.1: nothing tells of other groups
  CHECK(rank_of({R"(93891384002768,2,"allreduce",[],[])", R"(94398426290464,1,"allreduce",[],[])"}) == -1);
}

TEST_CASE("an in-place operator writes what it is given") {
  const std::string xs = "[[8,3]]", f = R"J(["Tensor(float)"])J";
  const ExecutionTrace e =
      execution_of(file("1.0.1", {{4, 3, 1, 1, "aten::add_", "[" + x + "]", xs, f, "[" + x + "]"},
                                  {5, 3, 2, 1, "aten::_foreach_mul_", "[" + x + "]", xs, f, "[]"},
                                  {6, 3, 3, 1, "aten::sum", "[" + x + "]", xs, f, "[" + z + "]"}}));
  const Trace t = joined(profiled(17, {{"aten::add_", 1}, {"aten::_foreach_mul_", 2}, {"aten::sum", 3}}, true), e);
  CHECK(arrows(t) == "aten::add_>aten::_foreach_mul_ aten::_foreach_mul_>aten::sum ");
}

TEST_CASE("several ranks are matched by rank and process; an execution trace alone holds no times") {
  std::vector<ExecutionTrace> executions(2, execution_of(file("1.0.1", small_step())));
  executions[0].rank = 1;
  executions[1].rank = 0;
  executions[1].process = executions[0].process = 17;
  std::vector<Trace> traces{profiled(17, as_recorded, true), profiled(17, as_recorded, true)};
  traces[0].rank = 0;
  traces[1].rank = 1;
  executions[0].collectives[0].in_elements = 111;
  const std::vector<Trace> out = joined(traces, executions);
  REQUIRE(out.size() == 2);
  CHECK(out[0].collectives.at(0).in_elements == 12);
  CHECK(out[1].collectives.at(0).in_elements == 111);
  traces[1].rank = 5;
  CHECK_THROWS_WITH_AS((void)joined(traces, executions), doctest::Contains("no such trace among the 2"), InputError);
  CHECK_THROWS_WITH_AS((void)joined(std::vector<Trace>{}, executions), doctest::Contains("holds no times"), InputError);
}

TEST_CASE("two listings of the same calls are matched across gaps on either side") {
  const std::vector<std::uint32_t> a = {1, 2, 3, 4, 5, 6, 7, 8, 9}, longer = {0, 1, 2, 3, 50, 51, 4, 5, 6, 8, 9};
  const OrderMatch match = order_match(a, longer);
  REQUIRE(match.size() == 8);
  for (const auto& [i, j] : match) CHECK(a[i] == longer[j]);
  CHECK(order_match(a, {}).empty());
  // One step in a recording of three: all of it is found, in one of them.
  std::vector<std::uint32_t> steps;
  for (int n = 0; n < 3; ++n)
    for (std::uint32_t i = 0; i < 40; ++i) steps.push_back(i);
  const OrderMatch one = order_match(std::span(steps).subspan(0, 40), steps);
  CHECK(one.size() == 40);
  CHECK(one.front().second % 40 == 0);
}

TEST_CASE("the public execution traces: as many nodes as they hold, and their partners join") {
  const auto folder = test::shared_folder("traces");
  if (!folder) return;
  const std::map<std::string, std::vector<std::size_t>> nodes = {
      {"astra-sim__tutorials/pytorch_et_0.json.gz", {4801}},
      {"astra-sim__tutorials/pytorch_et_1.json.gz", {4797}},
      {"facebookresearch__HolisticTraceAnalysis/execution_trace__benchmark_simple_add_et.json.gz", {38}},
      {"facebookresearch__param/1.0.3-chakra.0.0.4__resnet_1gpu_et.json.gz", {14391}},
      {"facebookresearch__param/1.1.0-chakra.0.0.4__resnet_2gpu_et.json.gz", {14392}},
      {"facebookresearch__param/dlrm_pytorch_et.tar.gz", std::vector<std::size_t>(8, 1675)},
      {"facebookresearch__param/hf_GPT2_et.json.tar.gz", {27156}},
      {"facebookresearch__param/linear_et.json.gz", {931}},
      {"facebookresearch__param/resnet_1gpu_et.json.tar.gz", {14392}},
      {"facebookresearch__param/resnet_et.json.gz", {14392}},
      {"facebookresearch__param/pt2_et.json.tar.gz", {20}},
      {"sarchlab__triosim/graph__graph_vgg13-iter41.json.gz", {903}}};
  const auto read = [&](const std::string& name) { return reading_of(test::File(*folder / name).source()); };
  for (const auto& [name, counts] : nodes) {
    CAPTURE(name);
    const Reading r = read(name);
    REQUIRE(r.executions.size() == counts.size());
    for (std::size_t i = 0; i < counts.size(); ++i) {
      CHECK(r.executions[i].nodes.size() == counts[i]);
      CHECK(r.executions[i].report.assumed.empty());
      CHECK(r.executions[i].report.repaired.empty());
    }
  }
  const auto join = [&](const std::string& execution, const std::string& trace) {
    return joined(read(trace).traces, read(execution).executions);
  };
  const std::string hta = "facebookresearch__HolisticTraceAnalysis/execution_trace__benchmark_simple_add_";
  CHECK(says(join(hta + "et.json.gz", hta + "trace.json.gz")[0].report.assumed, "36 of 36 operators by external id"));
  const std::string vgg = "sarchlab__triosim/";
  CHECK(says(join(vgg + "graph__graph_vgg13-iter41.json.gz", vgg + "profiler__profiler_vgg13-iter41.json.gz")[0]
                 .report.assumed,
             "900 of 900 operators by the order"));
  const std::string param = "facebookresearch__param/";
  const Trace linear = join(param + "linear_et.json.gz", param + "linear_kineto.json.gz")[0];
  CHECK(says(linear.report.assumed, "928 of 928 operators by the order"));
  // Two runs of the same model: the names agree, the processes do not.
  CHECK_THROWS_WITH_AS((void)join(param + "resnet_et.json.gz", param + "resnet_kineto.json.gz"),
                       doctest::Contains("another process"), InputError);

  const std::vector<Trace> dlrm = join(param + "dlrm_pytorch_et.tar.gz", param + "dlrm_kineto.tar.gz");
  REQUIRE(dlrm.size() == 8);
  std::set<std::int64_t> ranks;
  for (const Trace& t : dlrm) {
    CAPTURE(t.source);
    ranks.insert(t.rank);
    CHECK(says(t.report.assumed, "8 sizes of collectives"));
    CHECK(says(t.report.assumed, "by the order of operators on each thread"));
    std::int64_t reduced = 0;
    for (const CollectiveArguments& c : t.collectives)
      if (t.text(c.name) == "allreduce") reduced += c.in_elements;
    CHECK(reduced == 394241 + 112 + 226960);
    for (const Dependency& d : t.dependencies)
      if (d.kind == DependencyKind::data) CHECK(t.events[d.before].start_ns <= t.events[d.after].start_ns);
  }
  CHECK(ranks.size() == 8);
}
