// Traced workloads: laws of their costs, what the shapes of parameters say of their division, and real traces.
#include "helpers/shared_data.hpp"

#include <stepcast/documents/reading.hpp>
#include <stepcast/extraction/profile_of.hpp>
#include <stepcast/workload/traced_layers.hpp>
#include <stepcast/workload/workload.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>
#include <string>

using namespace stepcast;

namespace {

constexpr double batch = 4, rows = 32, hidden = 64;

/// Layers as "name:24x8": a weight each; costs in proportion to its size. With `shapes`, layers know their inputs.
class TextModel {
 public:
  explicit TextModel(const std::string& text, bool device = true, bool shapes = true) {
    p_.model = "text";
    if (device) p_.device = "accelerator";
    p_.batch_samples = batch;
    std::istringstream in(text);
    for (std::string word; in >> word;) add(word, shapes);
    for (std::size_t l = p_.layers.size(); l-- > 0;) p_.backward_order.push_back(std::uint32_t(l));
    p_.optimizer = pass(2, 1, 0, 1);
    p_.other = pass(1, 0.5, 0, 0.5);
  }
  Profile profile() const { return checked(p_, "text"); }
  Profile& edit() { return p_; }
  PassCost pass(double host_ms, double device_ms, double gemm_ms, double memory_ms) const {
    if (!p_.has_device()) return {milliseconds(host_ms + device_ms), {}};
    return {milliseconds(host_ms), milliseconds(device_ms), milliseconds(gemm_ms), milliseconds(memory_ms)};
  }

 private:
  void add(const std::string& word, bool shapes) {
    const std::size_t colon = word.find(':');
    Layer layer;
    layer.name = word.substr(0, colon);
    Tensor t;
    t.name = layer.name + ".weight";
    std::istringstream extents(word.substr(colon + 1));
    double elements = 1;
    for (std::string extent; std::getline(extents, extent, 'x'); elements *= double(t.shape.back()))
      t.shape.push_back(std::stoll(extent));
    t.size = Bytes(4 * elements);
    t.layer = std::uint32_t(p_.layers.size());
    const double gemm = t.shape.size() == 2 ? elements * 1e-4 : 0;
    layer.forward = pass(0.1, gemm + 0.3, gemm, 0.2);
    layer.backward = pass(0.2, 2 * gemm + 0.6, 2 * gemm, 0.4);
    layer.kept = Bytes(4096);
    if (shapes) {
      layer.input_shape = {std::int64_t(batch), std::int64_t(rows), t.shape.back()};
      if (layer.name.find("embed") != std::string::npos) {
        layer.input_shape = {std::int64_t(batch), std::int64_t(rows)};
        layer.input_dtype = DataType::i64;
      }
    }
    p_.layers.push_back(layer);
    p_.tensors.insert(p_.tensors.begin(), t);
  }
  Profile p_;
};

std::string transformer(int layers) {
  std::string text = "embed:900x64 ";
  for (int l = 0; l < layers; ++l) {
    const std::string at = "h." + std::to_string(l) + ".";
    text += at + "ln1:64 " + at + "qkv:192x64 " + at + "proj:64x64 " + at + "ln2:64 " + at + "fc1:256x64 " + at +
            "fc2:64x256 ";
  }
  return text + "ln_f:64 head:900x64";
}

Workload workload(const Profile& p, const Device* device = nullptr) {
  const Answer<Workload> w = workload_of(p, device);
  REQUIRE(w);
  return *w;
}
UnitCost cost(const Workload& w, std::uint32_t kind, const Split& split) {
  const Answer<UnitCost> c = unit_cost(w, kind, split);
  REQUIRE_MESSAGE(c, (c ? "" : c.reason()));
  return *c;
}
Split split_of(double micro_batch, std::int64_t tensor = 1) {
  Split s;
  s.micro_batch = micro_batch;
  s.grid = {tensor, tensor, 1};
  return s;
}
std::uint32_t block_of(const Workload& w) {
  for (std::uint32_t k = 0; k < w.kinds.size(); ++k)
    if (std::count(w.units.begin(), w.units.end(), k) > 1) return k;
  FAIL("no block");
  return 0;
}
/// Of all units in a row, forward and backward.
Seconds compute(const Workload& w, const Split& split) {
  Seconds sum;
  for (const std::uint32_t unit : w.units) {
    const UnitCost c = cost(w, unit, split);
    sum += c.forward + c.input_gradient + c.weight_gradient;
  }
  return sum;
}
Device roofline() {
  Device d;
  d.name = "roofline";
  d.memory_bandwidth = BytesPerSecond(1e15);
  d.matrix_rate.fill(1e12);
  return d;
}
/// Divisions of the layers that have a product: c(olumns), r(ows), n(one).
std::string divisions(const std::string& text, bool shapes = true) {
  const Profile p = TextModel(text, true, shapes).profile();
  std::string out;
  for (const TracedLayer& layer : traced_shapes(p, blocks_of(p), batch, nullptr).layers)
    if (layer.has_product)
      out += layer.division == Division::columns ? 'c' : layer.division == Division::rows ? 'r' : 'n';
  return out;
}

/// Each layer in `parts` equal slices, the gradients with the first, as compiled graphs are.
Profile sliced(const Profile& whole, std::uint32_t parts) {
  Profile p = whole;
  p.layers.clear();
  p.backward_order.clear();
  for (const Layer& layer : whole.layers)
    for (std::uint32_t k = 0; k < parts; ++k) {
      Layer part = layer;
      part.name += "/" + std::to_string(k);
      part.slice = k > 0;
      part.forward = layer.forward / parts;
      part.backward = layer.backward / parts;
      part.kept = layer.kept / double(parts);
      if (k > 0) part.input_shape.clear();
      p.layers.push_back(part);
    }
  for (const std::uint32_t l : whole.backward_order)
    for (std::uint32_t k = parts; k-- > 0;) p.backward_order.push_back(l * parts + k);
  for (Tensor& tensor : p.tensors) tensor.layer *= parts;
  return checked(p, "sliced");
}

}  // namespace

TEST_CASE("traced workload: no stage ends within a compiled graph") {
  const Answer<Workload> none = workload_of(sliced(TextModel("graph:64x64").profile(), 16));
  REQUIRE(!none);
  CHECK(none.reason().find("compiled graph") != std::string::npos);
  const Profile blocks = TextModel("a:64x32 b:32x64 c:64x16").profile();  // compiled block by block
  const Workload whole = *workload_of(blocks), parts = *workload_of(sliced(blocks, 16));
  REQUIRE(parts.units == whole.units);
  for (std::uint32_t kind = 0; kind < whole.kinds.size(); ++kind) {
    const UnitCost a = *unit_cost(whole, kind, Split{}), b = *unit_cost(parts, kind, Split{});
    CHECK(b.forward.value() == doctest::Approx(a.forward.value()));
    CHECK(b.input_gradient.value() == doctest::Approx(a.input_gradient.value()));
    CHECK(b.parameters == a.parameters);
  }
}

TEST_CASE("traced workload: units in forward order, blocks of one kind") {
  const Profile p = TextModel(transformer(4)).profile();
  const Workload w = workload(p);
  CHECK(w.kinds.size() == 3);
  CHECK(w.units == std::vector<std::uint32_t>{0, 1, 1, 1, 1, 2});
  CHECK(w.hidden == hidden);
  CHECK(w.sequence == rows);
  CHECK(w.parameters() == doctest::Approx(p.gradient_size().value() / 4));
  CHECK(w.activations_known);
  CHECK_FALSE(workload_of(TextModel("a:4").profile()));
}

TEST_CASE("traced workload: a split of one device gives back the traced times") {
  for (const bool device : {true, false}) {
    CAPTURE(device);
    TextModel model(transformer(4), device);
    SUBCASE("device-bound") {}
    SUBCASE("host-bound") {
      for (Layer& layer : model.edit().layers) layer.forward.host = layer.backward.host = milliseconds(50);
    }
    SUBCASE("with the curve of a device") {}
    const Profile p = model.profile();
    const Device curve = roofline();
    for (const Device* d : {static_cast<const Device*>(nullptr), &curve}) {
      const Workload w = workload(p, d);
      Seconds host, on_device;
      for (const Layer& layer : p.layers) {
        host += layer.forward.host + layer.backward.host;
        on_device += layer.forward.device + layer.backward.device;
      }
      CHECK(compute(w, split_of(batch)).value() == doctest::Approx(std::max(host, on_device).value()).epsilon(1e-12));
      CHECK((compute(w, split_of(batch)) + w.update + w.step_overhead).value() ==
            doctest::Approx(lone_step_time(p).value()).epsilon(1e-12));
      const UnitCost block = cost(w, block_of(w), split_of(batch));
      const PassCost& forward = w.kinds[block_of(w)].forward;
      CHECK(block.forward == (host > on_device ? forward.host : forward.device));
      CHECK(block.forward_tensor.empty());
    }
  }
}

TEST_CASE("traced workload: a host that waits is at most as much slower as the recurrence of the step says") {
  TextModel model(transformer(4));
  model.edit().host_waits_for_device = true;
  for (const double host_ms : {0.01, 1.0, 30.0}) {
    for (Layer& layer : model.edit().layers) layer.forward.host = milliseconds(host_ms);
    const Profile p = model.profile();
    const double modelled = compute(workload(p), split_of(batch)).value();
    CHECK(modelled == doctest::Approx((forward_time(p) + backward_time(p)).value()).epsilon(0.03));
  }
}

TEST_CASE("traced workload: device time grows with the micro-batch, host issue does not") {
  TextModel model(transformer(4));
  const Workload w = workload(model.profile());
  CHECK(compute(w, split_of(2 * batch)).value() == doctest::Approx(2 * compute(w, split_of(batch)).value()));
  CHECK(compute(w, split_of(batch / 2)).value() == doctest::Approx(compute(w, split_of(batch)).value() / 2));
  for (Layer& layer : model.edit().layers) layer.forward.host = layer.backward.host = milliseconds(50);
  const Workload bound = workload(model.profile());
  CHECK(compute(bound, split_of(batch / 2)) == compute(bound, split_of(batch)));
  const Workload on_host = workload(TextModel(transformer(4), false).profile());
  CHECK(compute(on_host, split_of(2 * batch)).value() ==
        doctest::Approx(2 * compute(on_host, split_of(batch)).value()));
}

TEST_CASE("traced workload: smaller tiles are slower where the device's curve says so") {
  Device curve = roofline();
  curve.half_m = curve.half_n = curve.half_k = 64;
  const Profile p = TextModel(transformer(4)).profile();
  const Workload plain = workload(p), curved = workload(p, &curve);
  for (const std::int64_t tensor : {2, 4, 8})
    CHECK(compute(curved, split_of(batch, tensor)) > compute(plain, split_of(batch, tensor)));
  CHECK(compute(curved, split_of(1)) > compute(plain, split_of(1)));
  CHECK(compute(curved, split_of(batch)).value() == doctest::Approx(compute(plain, split_of(batch)).value()));
}

TEST_CASE("traced workload: tensor parallelism divides products, not norms, and sums twice a block") {
  const Profile p = TextModel(transformer(4)).profile();
  const Workload w = workload(p);
  const std::uint32_t kind = block_of(w);
  const UnitCost whole = cost(w, kind, split_of(batch));
  UnitCost before = whole;
  for (const std::int64_t t : {2, 4, 8}) {
    const UnitCost c = cost(w, kind, split_of(batch, t));
    CHECK(c.forward < before.forward);
    CHECK(c.forward.value() > whole.forward.value() / double(t));
    // 2 norms are whole on each device; 12 h^2 weights are not.
    CHECK(c.parameters == doctest::Approx(2 * hidden + 12 * hidden * hidden / double(t)));
    REQUIRE(c.forward_tensor.size() == 1);
    CHECK(c.forward_tensor[0] == TensorTransfer{Operation::all_reduce, t, Bytes(batch * rows * hidden * 4), 2});
    CHECK(c.backward_tensor == c.forward_tensor);
    CHECK(c.kept[0] < before.kept[0]);
    CHECK(c.boundary == whole.boundary);
    Split sequence = split_of(batch, t);
    sequence.sequence_parallel = true;
    const UnitCost parallel = cost(w, kind, sequence);
    CHECK(parallel.forward.value() == doctest::Approx(whole.forward.value() / double(t)));
    CHECK(parallel.kept[0].value() == doctest::Approx(whole.kept[0].value() / double(t)));
    CHECK(parallel.forward_tensor.size() == 2);
    before = c;
  }
  CHECK(whole.boundary == Bytes(batch * rows * hidden * 4));
  CHECK(whole.kept[2] == whole.boundary);
  CHECK_FALSE(unit_cost(w, kind, split_of(batch, 3)));
}

TEST_CASE("traced workload: grids divide what 1-D repeats") {
  const Workload w = workload(TextModel(transformer(4)).profile());
  Split grid = split_of(batch, 4);
  grid.scheme = tensor_scheme("2d");
  REQUIRE(grid.scheme != nullptr);
  grid.grid = *grid.scheme->grid(4, 1);
  const UnitCost whole = cost(w, block_of(w), split_of(batch)), c = cost(w, block_of(w), grid);
  CHECK(c.forward.value() == doctest::Approx(whole.forward.value() / 4));
  CHECK(c.boundary.value() == doctest::Approx(whole.boundary.value() / 4));
  CHECK_FALSE(c.forward_tensor.empty());
}

TEST_CASE("traced workload: context parallelism divides the rows, keys and values go around") {
  const Workload w = workload(TextModel(transformer(4)).profile());
  Split ring = split_of(batch);
  ring.context = 4;
  const UnitCost whole = cost(w, block_of(w), split_of(batch)), c = cost(w, block_of(w), ring);
  CHECK(c.forward.value() == doctest::Approx(whole.forward.value() / 4));
  CHECK(c.parameters == whole.parameters);
  const Bytes keys(2 * hidden * rows * batch * 4 / 4);
  CHECK(c.context_forward == std::vector<TensorTransfer>{{Operation::send, 4, keys, 3}});
  CHECK(c.context_backward ==
        std::vector<TensorTransfer>{{Operation::send, 4, keys, 2}, {Operation::send, 4, keys * 2, 2}});
}

TEST_CASE("traced layers: columns and rows alternate as the shapes say") {
  CHECK(divisions(transformer(2)) == "crcrcrcrc");
  // The lone layer behind the blocks is narrower than four times the model: whole on every device.
  const auto repeated = [](const std::string& block) {
    std::string text;
    for (int l = 0; l < 3; ++l) {
      std::istringstream words(block);
      for (std::string word; words >> word;) text += "h." + std::to_string(l) + "." + word + " ";
    }
    return text + "top:10x64";
  };
  CHECK(divisions(repeated("n:64 q:64x64 k:64x64 v:64x64 o:64x64 n2:64 up:256x64 down:64x256")) ==
        "cccrcrcccrcrcccrcrn");
  CHECK(divisions(repeated("n:64 q:64x64 k:16x64 v:16x64 o:64x64 n2:64 gate:172x64 up:172x64 down:64x172")) ==
        "cccrccrcccrccrcccrccrn");
  SUBCASE("weights kept as k x n") {
    CHECK(divisions(repeated("n:64 qkv:64x192 proj:64x64 n2:64 fc:64x256 out:256x64"), false) == "crcrcrcrcrcrn");
  }
  SUBCASE("no columns to sum up: they are gathered") {
    const Workload w = workload(TextModel("a.0:64x64 a.1:64x64 a.2:64x64").profile());
    const UnitCost c = cost(w, block_of(w), split_of(batch, 2));
    REQUIRE(c.forward_tensor.size() == 1);
    CHECK(c.forward_tensor[0].operation == Operation::all_gather);
  }
}

TEST_CASE("traced workload: what cannot be known is said") {
  const auto said = [](const Workload& w, const std::string& part) {
    return std::any_of(w.assumed.begin(), w.assumed.end(),
                       [&](const std::string& line) { return line.find(part) != std::string::npos; });
  };
  const Profile p = TextModel(transformer(4), true, false).profile();
  const Workload w = workload(p);
  CHECK(w.sequence == 0);
  CHECK(said(w, "transfers between stages are not counted"));
  CHECK_FALSE(unit_cost(w, block_of(w), split_of(batch, 2)));
  SUBCASE("the rows from the time of the products at a device's rate") {
    // 1e-4 ms an element of the weight: 2 operations an element and row.
    Device d = roofline();
    d.matrix_rate.fill(2.0 * batch * 32 / 1e-7);
    const Workload estimated = workload(p, &d);
    CHECK(estimated.sequence == doctest::Approx(32));
    CHECK(said(estimated, "about 32 rows"));
    CHECK(unit_cost(estimated, block_of(estimated), split_of(batch, 2)));
  }
  SUBCASE("convolutions") {
    const Workload convolutions = workload(TextModel("c.0:8x8x3x3 c.1:8x8x3x3 fc:10x8", true, false).profile());
    CHECK_FALSE(unit_cost(convolutions, 0, split_of(batch, 2)));
    CHECK(unit_cost(convolutions, 0, split_of(batch)));
  }
  SUBCASE("experts") {
    Split experts = split_of(batch);
    experts.expert = 2;
    CHECK_FALSE(unit_cost(w, 0, experts));
  }
  SUBCASE("batch") {
    TextModel model(transformer(2));
    model.edit().batch_samples = 0;
    const Workload one = workload(model.profile());
    CHECK(one.traced_batch == 1);
    CHECK(said(one, "one sample"));
  }
}

TEST_CASE("traced workload: the published profile of BERT-Base divides into its layers") {
  const std::filesystem::path path =
      std::filesystem::path(STEPCAST_SOURCE_DIR) / "validation/profiles/bert-base-64-2080ti.json";
  const Profile p = profile_of_json(test::text_of_file(path), "bert-base");
  const Workload w = workload(p);
  CHECK(w.hidden == 768);
  CHECK(std::count(w.units.begin(), w.units.end(), block_of(w)) == 12);
  const UnitKind& block = w.kinds[block_of(w)];
  CHECK(block.tensor_reductions == 2);
  CHECK(block.divided_parameters == 12 * 768 * 768 + 3 * 768 + 3072);
  CHECK(w.parameters() == doctest::Approx(110111042));
}

TEST_CASE("traced workload: a transformer that was traced with shapes") {
  const std::filesystem::path path =
      std::filesystem::path(STEPCAST_SOURCE_DIR) / "profiles/examples/transformer-cpu-1-worker.pt.trace.json.gz";
  const test::File file(path);
  const Profile p = profile_of(trace_of(file.source()));
  const Workload w = workload(p);
  CHECK(w.hidden == 256);
  CHECK(w.sequence == 64);
  CHECK(std::count(w.units.begin(), w.units.end(), block_of(w)) == 4);
  CHECK(cost(w, block_of(w), split_of(p.batch_samples)).boundary == Bytes(p.batch_samples * 64 * 256 * 4));
  CHECK(w.activations_known);
  CHECK((compute(w, split_of(p.batch_samples)) + w.update + w.step_overhead).value() ==
        doctest::Approx(lone_step_time(p).value()).epsilon(1e-9));
}

TEST_CASE("lab: compute of a block under a measured split over two devices") {
  const auto lab = test::shared_folder("lab/traces");
  if (!lab) return;
  const auto profile = [&](const std::string& name) {
    const test::File file(*lab / name);
    return profile_of(trace_of(file.source()));
  };
  const Profile alone = profile("tfm4x256_w1_solo_rank0.json.gz");
  const Profile divided = profile("tfm4x256_w2_tp_1000mbit_rank0.json.gz");
  const auto blocks_of_run = [](const Profile& p) {
    const ProfileBlocks b = blocks_of(p);
    Seconds sum;
    for (std::uint32_t l = b.before; l < b.before + b.repetitions * b.layers; ++l)
      sum += p.layers[l].forward.host + p.layers[l].backward.host;
    CHECK(b.repetitions == 4);
    return sum;
  };
  const Workload w = workload(alone);
  const UnitCost c = cost(w, block_of(w), split_of(alone.batch_samples, 2));
  const double predicted = 4 * (c.forward + c.input_gradient + c.weight_gradient).value();
  const double measured = blocks_of_run(divided).value();
  MESSAGE("blocks " << blocks_of_run(alone).value() * 1e3 << " ms alone, " << measured * 1e3 << " ms on one of two, "
                    << predicted * 1e3 << " ms predicted");
  CHECK(predicted == doctest::Approx(measured).epsilon(0.05));
}
