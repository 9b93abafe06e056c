// Tables of layers: small ones written by hand in every shape, every error, and what others have published.
#include "helpers/shared_data.hpp"

#include <stepcast/base/error.hpp>
#include <stepcast/documents/reading.hpp>
#include <stepcast/formats/shared/joined_tables.hpp>
#include <stepcast/formats/shared/layer_table.hpp>
#include <stepcast/roofline/shipped_models.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <regex>
#include <span>
#include <string>

using namespace stepcast;

namespace {

Reading reading(const std::string& text, bool strict = false, const std::string& name = "table.csv") {
  ReadOptions options;
  options.strict = strict;
  return reading_of({name, std::as_bytes(std::span(text))}, options);
}
Profile read(const std::string& text, const std::string& name = "table.csv") {
  return std::move(reading(text, false, name).profiles.at(0));
}
std::string refusal(const std::string& text, bool strict = false) {
  try {
    (void)reading(text, strict);
  } catch (const InputError& error) { return error.what(); }
  return "read";
}
bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }
bool says(const std::vector<std::string>& remarks, std::string_view words) {
  return std::ranges::any_of(remarks, [&](const std::string& remark) { return contains(remark, words); });
}
double forward_ms(const Profile& p) {
  double sum = 0;
  for (const Layer& layer : p.layers) sum += layer.forward.device.value();
  return sum * 1e3;
}
double backward_ms(const Profile& p) {
  double sum = 0;
  for (const Layer& layer : p.layers) sum += layer.backward.device.value();
  return sum * 1e3;
}
double bytes_of_model(const std::string& name) {
  double sum = 0;
  for (const Tensor& tensor : shipped_model(name)->parameters) sum += tensor.size.value();
  return sum;
}

}  // namespace

TEST_CASE("layer CSV: units in the header, quotes, comments, remarks about the run") {
  const Profile p = read(
      "# model: tiny\n# batch: 32\n# device: V100\n# optimizer: 2 ms\n\n"
      "name,Forward Time [ms],bwd_us,size (MiB),note\r\n"
      "\"conv, 7x7 \"\"same\"\"\", 0.5 ,900,1.5,x\r\n\r\n"
      "fc,1.25,2000,40,\n");
  REQUIRE(p.layers.size() == 2);
  CHECK(p.model == "tiny");
  CHECK(p.device == "V100");
  CHECK(p.batch_samples == 32);
  CHECK(p.optimizer.device.value() == doctest::Approx(2e-3));
  CHECK(p.layers[0].name == "conv, 7x7 \"same\"");
  CHECK(p.layers[0].forward.device.value() == doctest::Approx(0.5e-3));
  CHECK(p.layers[0].backward.device.value() == doctest::Approx(0.9e-3));
  CHECK(p.backward_order == std::vector<std::uint32_t>{1, 0});
  REQUIRE(p.tensors.size() == 2);
  CHECK(p.tensors[0].name == "fc");
  CHECK(p.tensors[0].size == mebibytes(40));
  CHECK(p.tensors[1].size == mebibytes(1.5));
  CHECK(says(p.assumed, "forward order"));
}

TEST_CASE("layer CSV: units in the cells, other separators, element counts with a type") {
  for (const char separator : {',', ';', '\t'}) {
    std::string text = "layer|fwd|bwd|numel|dtype\na|0.3 ms|600 us|1000|bfloat16\nb|1 ms|2 ms|10|f32\n";
    std::ranges::replace(text, '|', separator);
    const Profile p = read(text);
    REQUIRE(p.layers.size() == 2);
    CHECK(forward_ms(p) == doctest::Approx(1.3));
    CHECK(backward_ms(p) == doctest::Approx(2.6));
    CHECK(p.tensors[1].size == Bytes(2000));
    CHECK(p.tensors[1].dtype == DataType::bf16);
    CHECK(p.tensors[0].size == Bytes(40));
  }
}

TEST_CASE("layer CSV: SwitchML's order, spaces behind the commas and no end of the last line") {
  const Profile p = read("layer_index, numel, forward_pass_ns, backward_pass_ns\n0,524288,5000,6000\n1, 10, 7000, 8000",
                         "models/example.csv");
  CHECK(p.model == "example");
  CHECK(says(p.recognised, "SwitchML"));
  CHECK(forward_ms(p) == doctest::Approx(0.012));
  CHECK(backward_ms(p) == doctest::Approx(0.014));
  CHECK(p.tensors[1].size == Bytes(524288 * 4));
  CHECK(says(p.assumed, "4 bytes an element"));
}

TEST_CASE("layer CSV: rows in the order in which gradients are ready") {
  const Profile p = read("# order: backward\nname,fwd_ms,bwd_ms,bytes\nlast,1,2,8\nfirst,3,4,16\n");
  CHECK(p.layers[0].name == "first");
  CHECK(p.tensors[0].name == "last");
  CHECK(gradient_ready_times(p)[0].value() == doctest::Approx(6e-3));
  CHECK(contains(refusal("# order: any\nname,fwd_ms,bwd_ms,bytes\na,1,2,8\n"), "table.csv:1: expected order"));
}

TEST_CASE("layer CSV: a weight and a bias that share one time count it once") {
  const std::string head = "layer,tensor,fwd_ms,bwd_ms,bytes\n";
  const Profile p = read(head + "fc,fc.weight,1,2,4000\nfc,fc.bias,1,2,40\nout,out.weight,3,,8\n");
  REQUIRE(p.layers.size() == 2);
  CHECK(forward_ms(p) == doctest::Approx(4));
  CHECK(backward_ms(p) == doctest::Approx(2));
  REQUIRE(p.tensors.size() == 3);
  CHECK(p.tensors[1].name == "fc.weight");
  CHECK(p.tensors[2].name == "fc.bias");
  CHECK(says(p.assumed, "its time counted once"));
  CHECK(says(p.cautions, "a time of 1 layer is missing and counted as 0"));
  CHECK(contains(refusal(head + "fc,w,1,2,4\nfc,b,1,3,4\n"), "table.csv:3"));
  CHECK(contains(refusal(head + "fc,w,1,null,4\n", true), "table.csv:2"));
}

TEST_CASE("layer CSV: two blocks in one file") {
  const std::string text = "name,fwd_ms,bwd_ms,bytes\na,1,2,4\nname,fwd_ms,bwd_ms,bytes\nb,5,6,8\n";
  CHECK(read(text).layers.size() == 1);
  CHECK(says(read(text).assumed, "second one from line 3"));
  CHECK(contains(refusal(text, true), "table.csv:3"));
}

TEST_CASE("layer CSV: every error names its line") {
  const std::string head = "name,fwd_ms,bwd_ms,bytes\n";
  CHECK(contains(refusal(head), "expected rows below the header"));
  CHECK(contains(refusal(head + "a,1,2\n"), "table.csv:2: expected 4 cells as in the header, found 3"));
  CHECK(contains(refusal(head + "a,1,2,4\nb,-1,2,4\n"), "table.csv:3: expected a time >= 0, found '-1'"));
  CHECK(contains(refusal(head + "a,1,many,4\n"), "'many'"));
  CHECK(contains(refusal(head + "a,nan,2,4\n"), "table.csv:2: expected a time >= 0, found 'nan'"));
  CHECK(contains(refusal(head + "a,1,2,4\nb,1,NaN,4\n"), "table.csv:3: expected a time >= 0, found 'NaN'"));
  CHECK(contains(refusal("# batch: 0\n" + head + "a,1,2,4\n"), "table.csv:1: expected a positive number of samples"));
  CHECK(contains(refusal(head + "a,1,2,4 MiB\n"), "a size"));
  CHECK(contains(refusal("name,fwd,bwd,bytes\na,1,2,4\n"), "a time with its unit"));
  CHECK(contains(refusal("name,fwd_ms,forward_us,bwd_ms,bytes\na,1,1,2,4\n"), "fwd_ms and forward_us"));
  CHECK(contains(refusal("name,fwd_ms,bwd_ms,numel,dtype\na,1,2,4,floaty\n"), "'floaty'"));
  CHECK(contains(refusal(head + "a,1,2,0\n"), "nothing to communicate"));
}

namespace {
std::string node(int id, const std::string& what, double forward, double backward, const std::string& activations,
                 double parameters) {
  return "node" + std::to_string(id) + " -- " + what + " -- forward_compute_time=" + std::to_string(forward) +
         ", backward_compute_time=" + std::to_string(backward) + ", activation_size=" + activations +
         ", parameter_size=" + std::to_string(parameters) + "\n";
}
}  // namespace

TEST_CASE("PipeDream: branches in topological order, the input apart") {
  const std::string text = node(5, "Add", 0.5, 0.25, "[8.0; 8.0]", 0) + node(1, "Input0", 7, 0, "4.0", 0) +
                           node(10, "Linear(4 -- 4)", 3, 6, "4.0", 64) +
                           node(2, "Conv2d(3, 4, k=(3, 3))", 1, 2, "4", 32) +
                           "\tnode1 -- node2\n\tnode2 -- node10\n\tnode2 -- node5\n\tnode10 -- node5\n";
  const Profile p = read(text, "profiles/net/graph.txt");
  REQUIRE(p.layers.size() == 3);
  CHECK(p.model == "net");
  CHECK(p.layers[0].name == "node2 Conv2d");
  CHECK(p.layers[1].name == "node10 Linear");
  CHECK(p.layers[2].name == "node5 Add");
  CHECK(p.input.value() == doctest::Approx(7e-3));
  CHECK(forward_ms(p) == doctest::Approx(4.5));
  CHECK(p.activation_memory == Bytes(28));
  REQUIRE(p.tensors.size() == 2);
  CHECK(p.tensors[0].size == Bytes(64));
  CHECK(says(p.assumed, "1 node with several successors"));
}

TEST_CASE("PipeDream: a graph that was divided into stages costs what it did before") {
  const auto staged = [](std::string line, int stage) {
    line.insert(line.size() - 1, " -- stage_id=" + std::to_string(stage));
    return line;
  };
  const Profile p = read(staged(node(1, "Conv2d()", 1, 2, "4", 32), 0) +
                         staged(node(2, "Linear(4 -- 4)", 3, 4, "[4; 4]", 16), 1) + "\tnode1 -- node2\n");
  REQUIRE(p.layers.size() == 2);
  CHECK(p.layers[1].name == "node2 Linear");
  CHECK(forward_ms(p) == doctest::Approx(4));
  CHECK(p.gradient_size() == Bytes(48));
}

TEST_CASE("PipeDream: every error names its line") {
  const std::string good = node(1, "Conv2d()", 1, 2, "4", 32);
  CHECK(contains(refusal(good + "\tnode1 -- node9\n"), "table.csv:2: expected a node of the file, found 'node9'"));
  CHECK(contains(refusal(good + good), "a second node1"));
  CHECK(contains(refusal(good + "node2 -- Conv2d\n"), "table.csv:2"));
  CHECK(contains(refusal(good + "node2 -- Add -- forward_compute_time=1\n"), "activation_size and parameter_size"));
  CHECK(contains(refusal(good + node(2, "Add", -1, 0, "4", 0)), "a time in ms >= 0"));
  CHECK(contains(refusal(good + node(2, "Add", 1, 0, "[4", 0)), "in brackets"));
  CHECK(contains(refusal(good + node(2, "Add", 1, 0, "4", 0) + "\tnode1 -- node2\n\tnode2 -- node1\n"), "cycle"));
}

TEST_CASE("PipeDream: published graphs keep their totals") {
  const auto folder = test::shared_folder("traces/msr-fiddle__pipedream");
  if (!folder) return;
  for (const auto& entry : std::filesystem::directory_iterator(*folder)) {
    const test::File file(entry.path());
    CAPTURE(entry.path().filename().string());
    const Profile p = std::move(reading_of(file.source()).profiles.at(0));
    const std::string text = test::text_of_file(entry.path());
    const auto total = [&](const std::string& key) {
      double sum = 0;
      const std::regex pattern(key + "=([0-9.]+)");
      for (std::sregex_iterator at(text.begin(), text.end(), pattern), end; at != end; ++at) sum += std::stod((*at)[1]);
      return sum;
    };
    CHECK(forward_ms(p) + p.input.value() * 1e3 == doctest::Approx(total("forward_compute_time")));
    CHECK(backward_ms(p) == doctest::Approx(total("backward_compute_time")));
    CHECK(p.gradient_size().value() == total("parameter_size"));
    for (const char* model : {"resnet18", "resnet50", "resnet101"})
      if (p.model == model) CHECK(p.gradient_size().value() == bytes_of_model(model));
  }
}

namespace {
const std::string operators =
    "OperatorID,OperatorName,Operator_input,Operator_output,Operator_cudatime,Operator_cudatimenooverlap,InputSize,"
    "OutputSize,gpuid,stage,tpflag\n"
    "1,aten::conv2d,[4; 6; 8],[14],105,100,[12; 27; 3],[9],0,forward,1\n"
    "2,aten::relu_,[14],[14],10,10,[9],[9],0,forward,0\n"
    "3,aten::linear,[14; 20],[30],50,50,[9; 81],[9],0,forward,1\n"
    "4,bw: AddmmBackward0,[22],[31],70,70,[81],[81],0,backward,1\n"
    "5,bw: ReluBackward0,[31; 9],[33],5,5,[9; 9],[9],0,backward,0\n"
    "6,bw: ConvolutionBackward0,[33; 4; 6],[34],200,200,[9; 12; 27],[27],0,backward,1\n"
    "7,aten::_foreach_add_,[6; 8],[],30,30,[27; 3],[],0,optimizer,0\n";
const std::string tensors =
    "Index,TensorID,TensorShape,TensorNumElement,TensorEachByte,TensorType,TensorStorgeid,gpuid\n"
    "0,4,\"[1, 12]\",12,4,input,5,0\n1,6,\"[3, 9]\",27,4,weight,7,0\n2,8,[3],3,4,bias=None,9,0\n"
    "3,20,\"[9, 9]\",81,2,weight,21,0\n4,6,\"[3, 9]\",27,4,weight,7,0\n";
}  // namespace

TEST_CASE("TrioSim: operators and tensors make layers, in either order") {
  for (const std::string& text : {operators + tensors, tensors + operators}) {
    const Profile p = read(text);
    REQUIRE(p.layers.size() == 2);
    CHECK(p.layers[0].name == "1 aten::conv2d");
    CHECK(p.layers[0].forward.device.value() == doctest::Approx(110e-6));
    CHECK(p.layers[0].backward.device.value() == doctest::Approx(205e-6));
    CHECK(p.layers[1].backward.device.value() == doctest::Approx(70e-6));
    CHECK(p.optimizer.device.value() == doctest::Approx(30e-6));
    CHECK(p.backward_order == std::vector<std::uint32_t>{1, 0});
    REQUIRE(p.tensors.size() == 3);
    CHECK(p.tensors[0].size == Bytes(162));
    CHECK(p.gradient_size() == Bytes(162 + 108 + 12));
  }
}

TEST_CASE("TrioSim: half a pair, and every error") {
  CHECK(contains(refusal(tensors), "the tensor table alone, which holds no times"));
  CHECK(contains(refusal(operators), "the operator table alone"));
  CHECK(contains(refusal(operators + tensors + operators), "a second header"));
  const auto changed = [](std::string text, const std::string& from, const std::string& to) {
    return text.replace(text.find(from), from.size(), to);
  };
  CHECK(contains(refusal(changed(operators, ",optimizer,", ",sideward,") + tensors), "table.csv:8"));
  CHECK(contains(refusal(changed(operators, "[14],105,100,", "[14],105,-1,") + tensors), "table.csv:2"));
  CHECK(contains(refusal(changed(operators, "[4; 6; 8]", "4; 6; 8") + tensors), "a list in brackets"));
  CHECK(contains(refusal(changed(operators, ",0,forward,1", ",0,forward") + tensors), "11 cells"));
  CHECK(contains(refusal(changed(operators, ",stage,", ",phase,") + tensors), "a column stage"));
  const std::string no_parameters = tensors.substr(0, tensors.find("1,6,"));
  CHECK(contains(refusal(operators + no_parameters), "parameters in at least one layer"));
  const Profile two_gpus = read(changed(operators, "[9],[9],0,forward,0", "[9],[9],1,forward,0") + tensors);
  CHECK(says(two_gpus.assumed, "1 operator of others left out"));
}

TEST_CASE("TrioSim: two files of a pair become one text, other files do not") {
  const auto source = [](const std::string& text) { return Source{"x", std::as_bytes(std::span(text))}; };
  const std::array<Source, 2> pair{source(tensors), source(operators)};
  const auto text = joined_tables(pair);
  REQUIRE(text);
  CHECK(read(*text).layers.size() == 2);
  const std::array<Source, 2> same{source(tensors), source(tensors)};
  CHECK_FALSE(joined_tables(same));
  CHECK_FALSE(joined_tables(std::span(pair).first(1)));
}

TEST_CASE("TrioSim: published tables give the models' parameters and the tables' times") {
  const auto folder = test::shared_folder("traces/sarchlab__triosim");
  if (!folder) return;
  for (const auto& [model, bytes, step_ms] :
       {std::tuple{"resnet50", bytes_of_model("resnet50"), 70.72}, std::tuple{"vgg13", 133'047'848.0 * 4, 94.04}}) {
    const test::File trace(*folder / (std::string(model) + "__trace.csv.gz"));
    const test::File tensor(*folder / (std::string(model) + "__tensor.csv.gz"));
    const std::array<Source, 2> pair{trace.source(), tensor.source()};
    const auto text = joined_tables(pair);
    REQUIRE(text);
    const Profile p = read(*text);
    CHECK(p.gradient_size().value() == bytes);
    CHECK(compute_time(p).value() * 1e3 == doctest::Approx(step_ms).epsilon(1e-3));
  }
}

namespace {
const std::string gaps_head =
    "first line is for explaination; sec line: # of batches; 3rd line:# of layers; first col: time wait for previous "
    "layer; second colparam size in bytes\n";
}

TEST_CASE("backward gaps: layers end where a gap begins, batches are averaged") {
  const Profile p = read(gaps_head + "2\n3\n100,40\n0,400\n50.5,8\n300,40\n0,400\n49.5,8\n", "logs/vgg16.bk.log");
  CHECK(p.model == "vgg16");
  REQUIRE(p.layers.size() == 2);
  CHECK(backward_ms(p) == doctest::Approx(0.25));
  CHECK(forward_ms(p) == doctest::Approx(0.125));
  REQUIRE(p.tensors.size() == 3);
  CHECK(p.tensors[0].size == Bytes(40));
  CHECK(p.tensors[1].size == Bytes(400));
  CHECK(p.tensors[0].layer == p.tensors[1].layer);
  CHECK(says(p.assumed, "half of its backward pass"));
}

TEST_CASE("backward gaps: every error") {
  CHECK(contains(refusal(gaps_head + "1\n2\n"), "fewer than four lines"));
  CHECK(contains(refusal(gaps_head + "1\n2\n5,4\n"), "1 rows for 1 batches of 2 gradients"));
  CHECK(contains(refusal(gaps_head + "1\n0\n5,4\n"), "table.csv:3"));
  CHECK(contains(refusal(gaps_head + "1\n1\n5\n"), "table.csv:4"));
  CHECK(contains(refusal(gaps_head + "1\n1\n-5,4\n"), "a time in us >= 0"));
  CHECK(contains(refusal(gaps_head + "2\n1\n5,4\n5,8\n"), "the size of the first batch"));
  const std::string cut = gaps_head + "2\n2\n5,4\n6,4\n7,4\n";
  CHECK(says(read(cut).missing, "incomplete batches"));
  CHECK(contains(refusal(cut, true), "4 rows"));
}
