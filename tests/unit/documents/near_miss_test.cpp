// Tables as people and spreadsheets make them, which are nearly what a reader expects: read as they are meant, or
// refused by name. Never other numbers.
#include "helpers/timelines.hpp"

#include <stepcast/documents/reading.hpp>

#include <doctest/doctest.h>

#include <span>
#include <string>

using namespace stepcast;
using test::mentions;

namespace {

Profile table(const std::string& text) {
  return std::move(reading_of({"table.csv", std::as_bytes(std::span(text))}).profiles.at(0));
}
Seconds forward(const Profile& p) {
  Seconds sum;
  for (const Layer& layer : p.layers) sum += layer.forward.device;
  return sum;
}
bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }
std::string refusal(const std::string& text) { return test::refusal_of(text); }

}  // namespace

TEST_CASE("layer CSV: microseconds by their sign are not seconds") {
  for (const std::string unit : {"\xc2\xb5s", "\xce\xbcs", "\xb5s"}) {
    CAPTURE(unit);
    const Profile p = table("name,forward (" + unit + "),backward_" + unit + ",bytes\na,100,200,4000\n");
    CHECK(forward(p).value() == doctest::Approx(100e-6));
    CHECK(p.layers[0].backward.device.value() == doctest::Approx(200e-6));
  }
  CHECK(forward(table("sep=;\nname;fwd_ms;bwd_ms;bytes\na;1;2;4\n")).value() == doctest::Approx(1e-3));
  CHECK(forward(table("name,forward\xc2\xa0(ms),bwd_ms,bytes\na,1,2,4\n")).value() == doctest::Approx(1e-3));
  // A sign that is no unit leaves no "s" behind either.
  CHECK(contains(refusal("name,forward (\xf0\x9f\x90\x8cs),bwd_ms,bytes\na,1,2,4\n"), "a table without the columns"));
}

TEST_CASE("layer CSV: titles as people write them") {
  const auto time = [](const std::string& title) {
    return forward(table("name," + title + ",bwd_ms,bytes\na,3,2,4000\n")).value();
  };
  for (const char* title : {"forward (ms)", "Fwd [ms]", "forward time in ms", "mean_forward_ms", "fwd_avg_ms",
                            "Forward latency (ms)", "forward_pass_ms", "FP (ms)"}) {
    CAPTURE(title);
    CHECK(time(title) == doctest::Approx(3e-3));
  }
  CHECK(time("forward_us") == doctest::Approx(3e-6));
  CHECK(time("Forward Time (s)") == doctest::Approx(3));
  const auto size = [](const std::string& title) {
    return table("name,fwd_ms,bwd_ms," + title + "\na,1,2,1000\n").gradient_size();
  };
  for (const char* title : {"size in bytes", "grad_bytes", "tensor_bytes", "Parameter Size (B)"}) {
    CAPTURE(title);
    CHECK(size(title) == Bytes(1000));
  }
  for (const char* title : {"numel", "num_elements", "#params", "n_params"}) CHECK(size(title) == Bytes(4000));
  CHECK(size("weights [kB]") == Bytes(1e6));
  // Neither millions nor the spread of a time is taken for what it is not.
  CHECK(contains(refusal("name,fwd_ms,bwd_ms,params (M)\na,1,2,4\n"), "a table without the columns"));
  CHECK(contains(refusal("name,fwd_std_ms,bwd_ms,bytes\na,1,2,4\n"), "a table without the columns"));
}

TEST_CASE("layer CSV: a size in bytes goes before a count of elements, in any order") {
  CHECK(table("name,fwd_ms,bwd_ms,bytes,numel\na,1,2,4000,1000\n").gradient_size() == Bytes(4000));
  CHECK(table("name,fwd_ms,bwd_ms,numel,bytes\na,1,2,1000,4000\n").gradient_size() == Bytes(4000));
  CHECK(table("name,fwd_ms,bwd_ms,bytes,numel,dtype\na,1,2,,1000,f16\n").gradient_size() == Bytes(2000));
}

TEST_CASE("layer CSV: an index, the kind of the layer and its operator beside the name") {
  const std::string header = "layer_index,name,type,op,fwd_ms,bwd_ms,param_memory_bytes\n";
  const Profile p = table(header + "0,conv,Conv2d,x,1,2,8\n1,conv,Conv2d,x,1,2,8\n2,fc,Linear,y,1,2,4\n");
  REQUIRE(p.layers.size() == 3);  // the first two are different layers of one name
  CHECK(p.layers[2].name == "fc");
  const Profile shared = table(header + "0,fc.weight,,x,1,2,8\n0,fc.bias,,x,1,2,4\n");
  CHECK(forward(shared).value() == doctest::Approx(1e-3));
  CHECK(shared.gradient_size() == Bytes(12));
  CHECK(table("name,fwd_ms,bwd_ms,numel,type\na,1,2,10,float16\n").gradient_size() == Bytes(20));
  CHECK(contains(refusal("name,fwd_ms,bwd_ms,numel,type\na,1,2,10,float16\nb,1,2,10,flt16\n"), "a data type"));
}

TEST_CASE("layer CSV: layers and tensors of one name get names of their own") {
  const Profile p = table("name,tensor,fwd_ms,bwd_ms,bytes\na,,1,2,4\nb,w,1,2,8\na,,3,4,16\nc,w,1,2,32\n");
  REQUIRE(p.layers.size() == 4);
  CHECK(p.layers[2].name == "a (2)");
  REQUIRE(p.tensors.size() == 4);
  CHECK(p.tensors[1].name == "a (2)");
  CHECK(p.tensors[1].size == Bytes(16));
  CHECK(p.tensors[2].name == "w (2)");
}

TEST_CASE("layer CSV: rows of several steps or workers are refused, of one are read") {
  const std::string header = "step,name,fwd_ms,bwd_ms,bytes\n", one = "7,a,1,2,4\n7,b,1,2,4\n";
  CHECK(table(header + one).layers.size() == 2);
  const std::string message = refusal(header + one + "8,a,1,2,4\n");
  CHECK(contains(message, ":4: expected the layers of one step of one worker, found '7' and '8' in column step"));
}

TEST_CASE("layer CSV: a last row that sums up is no layer") {
  const std::string rows = "name,fwd_ms,bwd_ms,bytes\na,1,2,4\nb,3,4,12\n";
  for (const std::string last : {"Total,4,6,16\n", "SUM,4,6,16\n", "mean,2,3,8\n", "Overall,5,6,16\n"}) {
    CAPTURE(last);
    const Profile p = table(rows + last);
    CHECK(p.layers.size() == 2);
    CHECK(p.gradient_size() == Bytes(16));
    CHECK(mentions(p.assumed, "sums up the others"));
  }
  CHECK(table(rows + "sum,9,9,9\n").layers.size() == 3);  // an operator of that name
}

TEST_CASE("layer CSV: decimal commas are refused, and why") {
  CHECK(contains(refusal("name;fwd_ms;bwd_ms;bytes\na;0,31;2;4\n"), "found '0,31'; numbers use a point"));
}

TEST_CASE("tables that were cut lose their last line, of which a number may be cut") {
  // A stored block of gzip, without its trailer.
  const auto cut = [](const std::string& text) {
    const auto size = static_cast<unsigned>(text.size());
    const auto byte = [](unsigned value) { return static_cast<char>(value & 0xffu); };
    return std::string("\x1f\x8b\x08\0\0\0\0\0\0\xff\x01", 11) + byte(size) + byte(size >> 8) + byte(~size) +
           byte(~size >> 8) + text;
  };
  const Profile p = table(cut("name,fwd_ms,bwd_ms,bytes\na,1,2,4\nb,1,2,4"));
  CHECK(p.layers.size() == 1);
  CHECK(mentions(p.missing, "the end of the file"));
  const std::string operations = cut("rank,step,optype,start_ts,duration\n0,1,gc,0,1\n0,1,gc,0,1.2");
  CHECK(test::traces_in(operations).at(0).operations.size() == 1);
}

TEST_CASE("tables that say too little are told what to say") {
  CHECK(contains(refusal("name,fwd_ms,bwd_ms,weights_M\na,1,2,4\n"), "name them forward_ms, backward_ms and bytes"));
  CHECK(contains(refusal("rank,step,optype,begin,duration\n0,1,gc,2,3\n"), "a table of operations"));
}

TEST_CASE("files of other kinds are refused by what they are") {
  const std::pair<std::string, std::string> files[] = {
      {"\x1f\x8b\x08", "gzip without content"},
      {"BZh91AY&SY\x01\x02", "bzip2 -d"},
      {"BZh", "not JSON"},
      {"\x04\x22\x4d\x18xyz", "lz4 -d"},
      {"7z\xbc\xaf\x27\x1c", "a 7z archive"},
      {"PK\x03\x04 [Content_Types].xml", "a spreadsheet"},
      {"\x89HDF\r\n\x1a\n", "--type sqlite"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull"},
      {R"({"pp_size": 8, "vpp_size": 1, "micro_batches": 16})", "the parallel layout of a run"},
      {R"({"traceEvents": [{"ph": "X", "name": "Comm.g0.PUSH", "pid": "host0.rank0", "ts": 1, "dur": 2}]})",
       "Kineto does not write"},
      {"name,fwd_ms,bwd_ms,bytes\ra,1,2,4\r", "old Macs"},
      {"a,b,c\n1,2,3\n", "a table whose columns stepcast does not know"},
      {"Time (%),Total Time (ns),Instances\n", "nsys stats"},
      {"\n-------- DeepSpeed Flops Profiler --------\n", "DeepSpeed's flops profiler"},
      {"# nThread 1 nGpus 8 minBytes 8\n", "stepcast calibrate"},
      {"-------  --------\n   Name   Self CPU %   # of Calls\n", "export_chrome_trace"},
      {std::string("\x18\0\0\0\0\0\0\0xxxx\x1a\rbrain.Event:2", 28), "TensorBoard"},
      {"\x1b[32mstep 1\x1b[0m", "something that is not JSON, beginning \" [32mstep 1"},
      {"hello \xe9 world, 1234567 \xc3\xa9", "beginning \"hello ? world, 1234567\""},
      {"\n<!DOCTYPE html>\n<html>", "a web page"},
      {std::string("\x01\x02\x03\0\x04", 5), "binary data"},
      {std::string("\x01,a,b,op_type\0\x04", 15), "binary data"}};
  for (const auto& [text, message] : files) {
    CAPTURE(message);
    CHECK(contains(refusal(text), message));
  }
}
