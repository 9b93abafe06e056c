// Described models: published counts of parameters, operations and kept activations; the text; random texts.
#include <stepcast/roofline/model_shape.hpp>
#include <stepcast/roofline/named_models.hpp>
#include <stepcast/roofline/unit_roofline.hpp>

#include <doctest/doctest.h>

#include "helpers/roofline_device.hpp"

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <utility>

using namespace stepcast;

namespace {

std::string refusal(const std::string& text) {
  try {
    return "accepted as " + model_shape_of(text).name;
  } catch (const InputError& e) { return e.what(); }
}

std::string gpt(int hidden, int layers, int heads, int seq, int vocab, const std::string& more = "") {
  return "gpt:hidden=" + std::to_string(hidden) + ",layers=" + std::to_string(layers) +
         ",heads=" + std::to_string(heads) + ",seq=" + std::to_string(seq) + ",vocab=" + std::to_string(vocab) + more;
}

const UnitShape& block_of(const ModelShape& model) { return model.units[1]; }

}  // namespace

TEST_CASE("transformers have the published numbers of parameters, exactly") {
  const struct {
    const char* text;
    double parameters;
  } models[] = {
      // Counted from the checkpoints' tensors (transformers: GPT2LMHeadModel, LlamaForCausalLM, MixtralForCausalLM).
      {"gpt:hidden=768,layers=12,heads=12,seq=1024,vocab=50257", 124439808},
      {"gpt:hidden=1024,layers=24,heads=16,seq=1024,vocab=50257", 354823168},
      {"gpt:hidden=1280,layers=36,heads=20,seq=1024,vocab=50257", 774030080},
      {"gpt:hidden=1600,layers=48,heads=25,seq=1024,vocab=50257", 1557611200},
      {"llama:hidden=4096,layers=32,heads=32,seq=4096", 6738415616},
      {"llama:hidden=5120,layers=40,heads=40,seq=4096", 13015864320},
      {"llama:hidden=8192,layers=80,heads=64,kv_heads=8,ffn=28672,seq=4096", 68976648192},
      {"llama:hidden=4096,layers=32,heads=32,kv_heads=8,ffn=14336,vocab=128256,seq=8192", 8030261248},
      {"llama:hidden=4096,layers=32,heads=32,kv_heads=8,ffn=14336,experts=8,topk=2,seq=4096", 46702792704},
      // DeepseekV2ForCausalLM, and DeepseekV3ForCausalLM without the biases of its router and without multi-token
      // prediction: 671 billion.
      {"deepseek-v2-lite", 15706484224},
      {"deepseek-v2", 235741434880},
      {"deepseek-v3", 671026404352},
      // With the pre-training heads, vocabulary padded to a multiple of 8 (NVIDIA DeepLearningExamples).
      {"bert:hidden=768,layers=12,heads=12,seq=128", 110111042},
      {"bert:hidden=1024,layers=24,heads=16,seq=512", 336232258},
  };
  for (const auto& m : models) {
    CAPTURE(m.text);
    CHECK(model_shape_of(m.text).parameters() == m.parameters);
  }
}

TEST_CASE("GPTs of Narayanan et al. 2021, table 1: parameters by their formula and as printed, operations") {
  const struct {
    int heads, hidden, layers;
    double billions;
  } rows[] = {{24, 2304, 24, 1.7},      {32, 3072, 30, 3.6},      {32, 4096, 36, 7.5},    {48, 6144, 40, 18.4},
              {64, 8192, 48, 39.1},     {80, 10240, 60, 76.1},    {96, 12288, 80, 145.6}, {128, 16384, 96, 310.1},
              {128, 20480, 105, 529.6}, {160, 25600, 128, 1008.0}};
  for (const auto& r : rows) {
    CAPTURE(r.billions);
    const ModelShape model = model_shape_of(gpt(r.hidden, r.layers, r.heads, 2048, 51200));
    const double h = r.hidden, l = r.layers, s = 2048, v = 51200;
    // Their formula leaves out the last norm.
    const double formula = 12 * l * h * h * (1 + 13 / (12 * h) + (v + s) / (12 * l * h));
    CHECK(model.parameters() - 2 * h == doctest::Approx(formula).epsilon(1e-13));
    CHECK(std::abs(model.parameters() / 1e9 - r.billions) <= 0.0501);
    CHECK(model.operations() ==
          doctest::Approx(72 * s * l * h * h * (1 + s / (6 * h) + v / (12 * l * h))).epsilon(1e-13));
  }
  // GPT-3 (Brown et al. 2020, table 2.1): "175.0B" with a vocabulary of 50257.
  CHECK(model_shape_of(gpt(12288, 96, 96, 2048, 50257)).parameters() == doctest::Approx(174.6e9).epsilon(0.003));
}

TEST_CASE("a block keeps what Korthikanti et al. 2022 count: s h (34 + 5 a s / h), and its parts") {
  for (const auto& [hidden, layers, heads] :
       {std::array{6144, 48, 64}, std::array{12288, 96, 96}, std::array{20480, 105, 128}}) {
    const ModelShape model = model_shape_of(gpt(hidden, layers, heads, 2048, 51200));
    const KeptActivations& kept = block_of(model).kept;
    const double s = 2048, h = hidden, a = heads;
    CHECK((kept.divided + kept.sequence).value() == s * h * 34 + 5 * a * s * s);
    CHECK(kept.sequence.value() == s * h * 10);  // table 2, row 2: repeated on every device
    CHECK(kept.attention.value() == 5 * a * s * s);
    CHECK(kept.input.value() == 2 * s * h);  // row 6: full recomputation
    // Section 4.3: dropout behind the embedding; the head's norm and product, logits of 4 bytes.
    CHECK(model.units[0].kept.sequence.value() == s * h);
    const KeptActivations& head = model.units[2].kept;
    CHECK((head.divided + head.sequence).value() == 4 * s * h * (1 + 51200 / h));
  }
}

TEST_CASE("flash attention keeps no scores, moves none, and does its product again backward") {
  const ModelShape standard = model_shape_of(gpt(4096, 4, 32, 2048, 51200));
  const ModelShape flash = model_shape_of(gpt(4096, 4, 32, 2048, 51200, ",attention=flash"));
  CHECK(flash.operations() == standard.operations());
  CHECK(block_of(flash).kept.attention.value() == 0);
  const double statistics = 4.0 * 32 * 2048;
  CHECK((block_of(standard).kept.divided - block_of(flash).kept.divided).value() ==
        block_of(standard).kept.attention.value() - statistics);
  double moved = 0;
  for (const OperatorShape& o : block_of(flash).operators)
    if (o.attention) moved += o.product.operand_elements() + o.traffic.value();
  CHECK(moved == 4 * 2048.0 * 4096);  // queries, keys, values and the result
  const ModelShape causal = model_shape_of(gpt(4096, 4, 32, 2048, 51200, ",attention=flash,causal=yes"));
  CHECK(flash.operations() - causal.operations() == 4 * 3 * 2.0 * 2048 * 2048 * 4096);  // half of 4 s s h, three times
}

TEST_CASE("fused attention takes the device's shares, forward and backward; nothing else does") {
  Device device = test::roofline_device();
  device.issue = Seconds(0);
  const auto times_of = [&](const std::string& attention) {
    const ModelShape shape = model_shape_of(gpt(4096, 4, 32, 8192, 51200, attention));
    UnitTimes times;
    for (const OperatorShape& o : block_of(shape).operators) times.add(device, shape.dtype, o, work_of(o, 1));
    return times;
  };
  const double products = 2 * 2.0 * 8192 * 8192 * 4096;  // scores and context
  const auto of_products = [&](double share) { return products / (share * 312e12); };
  const UnitTimes before = times_of(",attention=flash"), standard = times_of("");
  device.attention_forward = 0.5, device.attention_backward = 0.25;
  const UnitTimes after = times_of(",attention=flash");
  CHECK(after.attention.matrix.value() == doctest::Approx(of_products(0.5)));
  CHECK((after.forward.matrix - before.forward.matrix).value() ==
        doctest::Approx((after.attention.matrix - before.attention.matrix).value()));
  // Backward: both gradients of both products, and the scores once more.
  const double slower = after.input_gradient.matrix.value() - before.input_gradient.matrix.value();
  CHECK(slower > 0);
  CHECK(slower < 2.5 * of_products(0.25));
  device.attention_backward = 0.125;
  CHECK((times_of(",attention=flash").input_gradient.matrix - after.input_gradient.matrix).value() ==
        doctest::Approx(2.5 * of_products(0.25)));
  CHECK(after.weight_gradient.matrix == before.weight_gradient.matrix);
  CHECK(after.forward.kernels == before.forward.kernels);
  CHECK(times_of("").forward.matrix == standard.forward.matrix);
  // A kernel by its name has shares of its own, where they are known.
  device.attention_kernels[std::size_t(AttentionKernel::flash2)] = {0.25, 0.2};
  const UnitTimes named = times_of(",attention=flash2"), unknown = times_of(",attention=cudnn");
  CHECK(named.attention.matrix.value() == doctest::Approx(of_products(0.25)));
  CHECK((named.input_gradient.matrix - after.input_gradient.matrix).value() ==
        doctest::Approx(2.5 * (of_products(0.2) - of_products(0.25))));
  CHECK(unknown.attention.matrix == after.attention.matrix);
  CHECK(attention_kernel(model_shape_of(gpt(64, 1, 1, 64, 64, ",attention=flash3"))) == AttentionKernel::flash3);
  CHECK_FALSE(attention_kernel(model_shape_of(gpt(64, 1, 1, 64, 64, ",attention=flash"))).has_value());
}

TEST_CASE("PyTorch's kernels: fewer passes over the logits, one kernel for all experts, more traffic where eager") {
  const std::string dense = "llama:hidden=1024,layers=2,heads=8,seq=2048,vocab=64000,attention=flash,causal=yes";
  const std::string mixture = dense + ",experts=8,topk=2,ffn=1024";
  const Device device = test::roofline_device();
  const auto times = [&](const std::string& text, std::size_t unit) {
    UnitTimes sum;
    const ModelShape model = model_shape_of(text);
    for (const OperatorShape& o : model.units[unit].operators) sum.add(device, model.dtype, o, work_of(o, 1));
    return sum;
  };
  const auto memory = [&](const std::string& kernels, std::size_t unit) {
    const UnitTimes t = times(dense + ",kernels=" + kernels, unit);
    return t.forward.memory + t.input_gradient.memory + t.weight_gradient.memory;
  };
  CHECK(model_shape_of(dense).kernels == KernelSet::megatron);
  CHECK(model_shape_of(dense + ",kernels=megatron").name == model_shape_of(dense).name);
  CHECK(model_shape_of(dense + ",kernels=eager").name.find("kernels=eager") != std::string::npos);
  CHECK_FALSE(model_shape_of(dense).kernels_given);
  for (const char* given : {",kernels=megatron", ", kernels = eager"})
    CHECK(model_shape_of(dense + given).kernels_given);
  // The head: 4 + 4 bytes an element of the logits compiled, 24 + 26 eager.
  CHECK(memory("compiled", 2) < memory("eager", 2) * 0.25);
  CHECK(memory("eager", 2) < memory("megatron", 2));
  // Blocks: compiled as Megatron-LM's, eager half as much again and more.
  CHECK(memory("compiled", 1) == memory("megatron", 1));
  CHECK(memory("eager", 1) > 1.5 * memory("compiled", 1));
  // The same operations in narrower products, so no shorter.
  CHECK(times(dense, 1).forward.matrix <= times(dense + ",kernels=compiled", 1).forward.matrix);
  const auto grouped = [](const ModelShape& m) {
    return std::ranges::count_if(m.units[1].operators, [](const OperatorShape& o) { return o.grouped; });
  };
  CHECK(grouped(model_shape_of(mixture)) == 0);
  CHECK(grouped(model_shape_of(mixture + ",kernels=compiled")) == 2);
  // Eager blocks keep what multiplies the up projection; compiled heads keep logits in two bytes.
  const ModelShape eager = model_shape_of(dense + ",kernels=eager"),
                   compiled = model_shape_of(dense + ",kernels=compiled");
  CHECK(eager.units[1].kept.divided > compiled.units[1].kept.divided);
  CHECK(compiled.units[2].kept.divided * 2 == eager.units[2].kept.divided);
}

TEST_CASE("PyTorch's kernels, eager and compiled: bytes of a small block by hand") {
  // 8 tokens of 16 elements, 2 heads of 8 of which one has keys and values, MLPs of 24, 32 words; 2 bytes an element.
  const std::string small =
      "llama:hidden=16,layers=1,heads=2,kv_heads=1,ffn=24,seq=8,vocab=32,attention=flash,kernels=";
  constexpr double token = 8 * 2;  // bytes of an element of every token
  const ModelShape eager = model_shape_of(small + "eager"), compiled = model_shape_of(small + "compiled");
  struct Count {
    std::size_t unit;
    const char* name;
    double forward, backward;  ///< bytes
    double kernels;            ///< forward
  };
  const auto check = [](const ModelShape& model, const Count& count) {
    CAPTURE(count.name);
    const auto& operators = model.units[count.unit].operators;
    const auto found = std::ranges::find(operators, std::string(count.name), &OperatorShape::name);
    REQUIRE(found != operators.end());
    CHECK(found->traffic.value() == doctest::Approx(count.forward));
    CHECK(found->traffic.value() * found->backward == doctest::Approx(count.backward));
    const auto parts = std::ranges::count_if(found->parts, [](double share) { return share > 0; });
    CHECK(found->kernels * static_cast<double>(parts) == count.kernels);
  };
  // Norm: x read, y written. Backward y' and x read for the sums of a row and again for x', which is written: 5; y' and
  // x once more for the weight's gradient.
  for (const char* name : {"attention norm", "mlp norm"}) check(eager, {1, name, 2 * 16 * token, 7 * 16 * token, 1});
  // Sum: x and branch read, y written; backward x' of the two paths, of both forward's readers of the sum, once, and of
  // the three (two) products that share an input twice (once): each time two are read and one written.
  check(eager, {1, "attention residual", 3 * 16 * token, (3 + 2 * 3) * 16 * token, 1});
  check(eager, {1, "mlp residual", 3 * 16 * token, (3 + 3) * 16 * token, 1});
  // Gate: g read and s(g) written; s(g) and u read and the product p written. Backward p' and u to s', p' and s(g) to
  // u', s' and g to g': each time two read and one written.
  check(eager, {1, "gated activation", (2 + 3) * 24 * token, 3 * 3 * 24 * token, 2});
  // Loss: logits read in 2 bytes and written in 4; read twice and their logarithms written; these read. Backward zeros
  // written; read for their sum; again, with the logarithms, for a gradient that is written; this read, and written in
  // 2 bytes.
  constexpr double logits = 8 * 32;
  check(eager, {2, "cross entropy", ((2 + 4) + 3 * 4 + 4) * logits, (4 + 4 + 3 * 4 + (4 + 2)) * logits, 3});
  // Compiled: norms, sums and gates are those of Megatron-LM: of a norm y' and x are read for the sums and again for
  // x', which is written; backward a sum moves 6 elements; the gate is one kernel that reads g and u and writes p,
  // backward p', g and u to g' and u'. Logits are read twice, backward read once and written.
  for (const char* name : {"attention norm", "mlp norm"}) check(compiled, {1, name, 2 * 16 * token, 5 * 16 * token, 1});
  for (const char* name : {"attention residual", "mlp residual"})
    check(compiled, {1, name, 3 * 16 * token, 2 * 3 * 16 * token, 1});
  check(compiled, {1, "gated activation", 3 * 24 * token, 5 * 24 * token, 1});
  check(compiled, {2, "cross entropy", 2 * 2 * logits, 2 * 2 * logits, 2});
  // Blocks may be compiled and the loss not: its copies are held, and two more are worked with.
  const ModelShape of_blocks = model_shape_of(small + "compiled,loss=eager");
  check(of_blocks, {1, "gated activation", 3 * 24 * token, 5 * 24 * token, 1});
  check(of_blocks, {2, "cross entropy", ((2 + 4) + 3 * 4 + 4) * logits, (4 + 4 + 3 * 4 + (4 + 2)) * logits, 3});
  CHECK(of_blocks.units[2].kept.divided.value() == doctest::Approx(4 * logits));
  CHECK(of_blocks.units[2].transient.value() == doctest::Approx(8 * logits));
  CHECK(compiled.units[2].kept.divided.value() == doctest::Approx(2 * logits));
  CHECK(compiled.units[2].transient.value() == doctest::Approx(2 * logits));
  // In parts of the sequence: of logits and their gradient one part is there, beside copies of the head's input (16
  // elements a token) and its gradient in four bytes; the loss's kernels are launched for each part.
  const ModelShape in_parts = model_shape_of(small + "compiled,loss=eager,loss_chunks=4");
  CHECK(in_parts.units[2].kept.divided == Bytes(0));
  CHECK(in_parts.units[2].transient.value() == doctest::Approx((4 + 8) * logits / 4));
  CHECK((in_parts.units[2].kept.sequence - of_blocks.units[2].kept.sequence).value() ==
        doctest::Approx(16 * token + 4 * 16 * 8));
  CHECK(in_parts.operations() == of_blocks.operations());
  check(in_parts, {2, "cross entropy", ((2 + 4) + 3 * 4 + 4) * logits, (4 + 4 + 3 * 4 + (4 + 2)) * logits, 3 * 4});
  // Rotary positions of queries (16) and the key (8): eager x times cosines 2, one half turned in sign 1, both put
  // together 2, times sines 2, the sum 3, of each of the two five kernels; compiled x read and written.
  const auto rotary = [](const ModelShape& m) -> const OperatorShape& {
    return *std::ranges::find(m.units[1].operators, std::string("rotary positions"), &OperatorShape::name);
  };
  CHECK(rotary(eager).traffic.value() == doctest::Approx((2 + 1 + 2 + 2 + 3) * (16 + 8) * token));
  CHECK(rotary(eager).kernels == 2 * 5);
  CHECK(rotary(compiled).traffic.value() == doctest::Approx(2 * (16 + 8) * token));
  CHECK(rotary(compiled).kernels == 2);
  // Queries, keys and values are three products, gate and up projection two, and their traffic is the products' own.
  for (const ModelShape* m : {&eager, &compiled})
    for (const auto& [name, kernels] : {std::pair{"qkv", 3.0}, {"projection", 1.0}, {"mlp up", 2.0}, {"mlp down", 1.0}})
      check(*m, {1, name, 0, 0, kernels});
}

TEST_CASE("linear layers in 8 bits: twice the rate, casts beside them, half the bytes of what they keep") {
  Device device = test::roofline_device();
  device.matrix_rate[std::size_t(DataType::f8)] = 2 * device.matrix_rate[std::size_t(DataType::bf16)];
  const std::string text = "llama:hidden=4096,layers=2,heads=32,seq=8192,attention=flash,causal=yes";
  const ModelShape whole = model_shape_of(text), eight = model_shape_of(text + ",linear=f8");
  CHECK(!linear_type(whole));
  CHECK(linear_type(eight) == DataType::f8);
  CHECK(eight.operations() == whole.operations());
  const auto times_of = [&](const ModelShape& shape, std::size_t unit) {
    UnitTimes times;
    for (const OperatorShape& o : shape.units[unit].operators) times.add(device, shape.dtype, o, work_of(o, 1));
    return times;
  };
  const UnitTimes before = times_of(whole, 1), after = times_of(eight, 1);
  CHECK((after.forward.matrix - after.attention.matrix).value() ==
        doctest::Approx((before.forward.matrix - before.attention.matrix).value() / 2));
  CHECK(after.attention.matrix == before.attention.matrix);
  CHECK(after.weight_gradient.matrix.value() == doctest::Approx(before.weight_gradient.matrix.value() / 2));
  // Inputs of four products, 4096, 4096, 4096 and 11008 elements a token: 2 bytes read, twice one written.
  const double inputs = 8192 * (3 * 4096.0 + 11008);
  CHECK((after.forward.memory - before.forward.memory).value() ==
        doctest::Approx(memory_time(device, Bytes(4 * inputs)).value()));
  // Their outputs' gradients, 3 x 4096, 4096, 2 x 11008 and 4096 elements.
  CHECK((after.input_gradient.memory - before.input_gradient.memory).value() ==
        doctest::Approx(memory_time(device, Bytes(4 * 8192 * (5 * 4096.0 + 2 * 11008))).value()));
  CHECK(times_of(eight, 2).forward.matrix == times_of(whole, 2).forward.matrix);  // logits
  // In four bits Transformer Engine reads twice; a sixteenth of a byte of each element is its scale's.
  device.matrix_rate[std::size_t(DataType::f4)] = 4 * device.matrix_rate[std::size_t(DataType::bf16)];
  const ModelShape four = model_shape_of(text + ",linear=f4");
  CHECK(linear_type(four) == DataType::f4);
  CHECK(times_of(four, 1).weight_gradient.matrix.value() == doctest::Approx(before.weight_gradient.matrix.value() / 4));
  CHECK((times_of(four, 1).forward.memory - before.forward.memory).value() ==
        doctest::Approx(memory_time(device, Bytes((4 + 2 * 0.5625) * inputs)).value()));
  // No step in four bits stands behind the error of a device, unless one corrected it.
  device.relative_error = 0.1;
  CHECK(known_error(device, eight) == 0.1);
  CHECK(known_error(device, four) == 0);
  CHECK(described_profile(four, device, 1).device_error == 0);
  device.corrected_by = 1;
  CHECK(known_error(device, four) == 0.1);
  CHECK_THROWS_WITH_AS(model_shape_of(text + ",dtype=f4"), doctest::Contains("dtype"), InputError);
  CHECK_THROWS_WITH_AS(model_shape_of(text + ",dtype=f16,linear=f4"), doctest::Contains("dtype=bf16"), InputError);
  // PyTorch reads twice and writes once; backward it turns a copy of the input, and of the gradient one more.
  const double gradients = 8192 * (5 * 4096.0 + 2 * 11008);
  const UnitTimes plain = times_of(model_shape_of(text + ",kernels=compiled"), 1),
                  torch = times_of(model_shape_of(text + ",kernels=compiled,linear=f8"), 1);
  CHECK((torch.forward.memory - plain.forward.memory).value() ==
        doctest::Approx(memory_time(device, Bytes(5 * inputs)).value()));
  CHECK((torch.input_gradient.memory - plain.input_gradient.memory).value() ==
        doctest::Approx(memory_time(device, Bytes(7 * gradients + 2 * inputs)).value()));
  // A byte less of each input, but the context, which attention keeps in two bytes beside it.
  const KeptActivations &kept = block_of(eight).kept, &was = block_of(whole).kept;
  CHECK((was.sequence - kept.sequence).value() == 8192 * 2 * 4096.0);
  CHECK((was.divided - kept.divided).value() == 8192 * (11008 - 4096.0));
  CHECK(refusal(text + ",linear=f32").find("f8, f4, or dtype = bf16") != std::string::npos);
  CHECK(refusal("gpt:hidden=64,layers=1,heads=1,seq=8,linear=bf16").find("f8, f4, or dtype = f16") !=
        std::string::npos);
}

TEST_CASE("a window leaves out pairs of tokens, but in the layers that see all") {
  const std::string text = "llama:hidden=1024,layers=4,heads=8,seq=4096,attention=flash,causal=yes";
  const auto pairs = [](const std::string& described) {  // of one head
    const ModelShape model = model_shape_of(described);
    for (const OperatorShape& o : block_of(model).operators)
      if (o.name == "flash scores") return o.product.batch / 8 * 4096 * 4096;
    return 0.0;
  };
  CHECK(pairs(text) == 4096.0 * 4096 / 2);
  CHECK(pairs(text + ",window=4096") == 4096.0 * 4096 / 2);
  // The first w queries meet w / 2 keys on average, the others w.
  CHECK(pairs(text + ",window=1024") == doctest::Approx(1024.0 * 512 + 3072.0 * 1024));
  CHECK(pairs(text + ",window=1024,full_every=4") ==
        doctest::Approx((3 * pairs(text + ",window=1024") + pairs(text)) / 4));
  // Documents of a quarter: each a triangle, of which there are four.
  CHECK(pairs(text + ",documents=1024") == doctest::Approx(4 * 1024.0 * 1024 / 2));
  CHECK(pairs(text + ",documents=4096") == pairs(text));
  CHECK(pairs(text + ",documents=1024,window=256") == doctest::Approx(4 * (256.0 * 128 + 768.0 * 256)));
  CHECK(pairs(text + ",documents=1024,window=2048") == pairs(text + ",documents=1024"));
  CHECK(refusal(text + ",documents=5000").find("4096") != std::string::npos);
  CHECK(refusal("gpt:hidden=64,layers=1,heads=1,seq=8,documents=4").find("attention=flash beside it") !=
        std::string::npos);
  CHECK(refusal("gpt:hidden=64,layers=1,heads=1,seq=8,window=4").find("attention=flash beside it") !=
        std::string::npos);
  CHECK(refusal(text + ",full_every=2").find("window=... beside it") != std::string::npos);
  CHECK(refusal(text + ",window=8,full_every=1").find("leave window= out") != std::string::npos);
}

TEST_CASE("an optimizer says what it keeps of a parameter, and what its update multiplies") {
  const std::string text = "llama:hidden=1024,layers=4,heads=8,seq=64,vocab=1000,ffn=4096,gradients=bf16,optimizer=";
  const auto state = [&](const char* optimizer) { return update_of(model_shape_of(text + optimizer)).bytes_of_state; };
  CHECK(state("adam") == 16);  // weight and gradient of 2 bytes, copy and two moments of 4
  CHECK(state("adam8bit") == doctest::Approx(10.03).epsilon(1e-3));
  CHECK(state("adafactor") == 8);
  CHECK(state("lion") == 12);
  CHECK(state("sgd") == 12);
  const ModelShape muon = model_shape_of(text + "muon");
  const double matrices = 4 * (4 * 1024.0 * 1024 + 3 * 1024.0 * 4096);
  CHECK(state("muon") == doctest::Approx(12 + 4 * (muon.parameters() - matrices) / muon.parameters()));
  double operations = 0;
  for (const MatrixProduct& p : update_of(muon).products) operations += p.operations();
  const double h = 1024, f = 4096;
  const auto of_matrix = [](double r, double c) { return 5 * (4 * r * r * c + 2 * r * r * r); };
  CHECK(operations ==
        doctest::Approx(4 * (of_matrix(h, 3 * h) + of_matrix(h, h) + of_matrix(h, 2 * f) + of_matrix(h, f))));
  const Device device = test::roofline_device();
  const UpdateShape adam = update_of(model_shape_of(text + "adam")), of_muon = update_of(muon);
  CHECK(adam.time(device, DataType::bf16).matrix == Seconds(0));
  CHECK(of_muon.time(device, DataType::bf16).matrix > Seconds(0));
  CHECK(of_muon.time(device, DataType::bf16).memory < adam.time(device, DataType::bf16).memory);
  CHECK(refusal(text + "adamw").find("did you mean 'adam'") != std::string::npos);
}

TEST_CASE("gradients of bf16 are added up in 4 bytes, unless the description says otherwise") {
  const auto state = [](const char* more) {
    return update_of(model_shape_of(gpt(4096, 4, 32, 2048, 51200, more))).bytes_of_state;
  };
  CHECK(state("") == 16);             // f16: weight, gradient, copy, two moments
  CHECK(state(",dtype=bf16") == 18);  // Megatron-LM: main gradients in f32
  CHECK(state(",dtype=bf16,gradients=bf16") == 16);
  CHECK(state(",dtype=f32") == 16);
  CHECK(state(",dtype=bf16,kernels=deepspeed") == 16);
  // One that is given stays where a framework may bring kernels with another default.
  CHECK(model_shape_of(gpt(64, 2, 2, 8, 512, ",dtype=bf16,kernels=eager,gradients=f32")).name ==
        model_shape_of(gpt(64, 2, 2, 8, 512, ",dtype=bf16,kernels=eager")).name);
  const std::string given = model_shape_of(gpt(64, 2, 2, 8, 512, ",dtype=bf16,gradients=f32")).name;
  CHECK(model_shape_of(given + ",kernels=deepspeed").gradient_dtype == DataType::f32);
}

TEST_CASE("a mixture keeps what goes into its router and its products, and no results of experts") {
  // Megatron-Core 0.12 and later: of a token the residual stream before both norms, the inputs of queries and of the
  // router, two copies for the experts' first product, its result of 2 x 96, and 96 for the second.
  const UnitShape block = model_shape_of(
                              "llama:hidden=64,layers=2,heads=4,seq=16,ffn=96,experts=4,topk=2,"
                              "attention=flash,dtype=bf16")
                              .units[1];
  CHECK(block.kept.sequence.value() == 16 * (2 * (2 + 1 + 1 + 2) * 64 + 4 * 4));
  CHECK(block.kept.divided.value() == 16 * (4 * 4 + 2 * (4 * 64 + 2 * 3 * 96)));
}

TEST_CASE("first dense layers, shared experts and latent attention compute what was published") {
  // DeepSeek-V3 (arXiv 2412.19437): 37 billion of 671 billion parameters are activated for each token; a token takes
  // six operations for each of them but for the embedding's, attention aside.
  const ModelShape v3 = model_shape_of("deepseek-v3");
  double products = 0;
  for (const UnitShape& unit : v3.units)
    for (const OperatorShape& o : unit.operators)
      if (o.weighted && o.product.m > 0) products += double(unit.repetitions) * o.product.operations();
  const double activated = products / (2 * double(v3.sequence)) + 129280.0 * 7168;
  CHECK(activated == doctest::Approx(37.5e9).epsilon(0.02));
  REQUIRE(v3.units.size() == 4);
  CHECK(v3.units[1].repetitions == 3);
  CHECK(v3.units[2].repetitions == 58);
  CHECK(v3.units[1].expert_parameters == 0);
  CHECK(v3.units[2].expert_parameters == 256 * 3 * 7168.0 * 2048);
  CHECK(v3.units[1].expert_exchanges == 0);
  // 21 of 236 billion, and 2.4 of 15.7.
  for (const auto& [name, billions] : {std::pair{"deepseek-v2", 21.4}, {"deepseek-v2-lite", 2.66}}) {
    const ModelShape m = model_shape_of(name);
    double sum = 0;
    for (const UnitShape& unit : m.units)
      for (const OperatorShape& o : unit.operators)
        if (o.weighted && o.product.m > 0) sum += double(unit.repetitions) * o.product.operations();
    CHECK((sum / (2 * double(m.sequence)) + 102400.0 * double(m.hidden)) / 1e9 ==
          doctest::Approx(billions).epsilon(0.03));
  }
  // Parameters of operators and tensors agree.
  for (const UnitShape& unit : v3.units) {
    double of_operators = 0, of_tensors = 0;
    for (const OperatorShape& o : unit.operators)
      if (o.weighted && o.product.m > 0) of_operators += o.product.batch * o.product.n * o.product.k;
    for (const ParameterShape& p : unit.parameters)
      if (p.shape.size() > 1 && p.name != "tokens.weight") of_tensors += p.elements();
    CHECK(of_operators == of_tensors);
  }
  const std::string base = "llama:hidden=64,layers=4,heads=4,seq=16,experts=4,topk=2";
  CHECK(model_shape_of(base + ",shared=0,dense=0").name == model_shape_of(base).name);
  CHECK(refusal(base + ",dense=4").find("fewer than layers = 4") != std::string::npos);
  CHECK(refusal(base + ",dense_ffn=128").find("dense=... beside it") != std::string::npos);
  CHECK(refusal(base + ",q_rank=8").find("kv_rank=... beside it") != std::string::npos);
  CHECK(refusal(base + ",kv_rank=8,kv_heads=2").find("as many as heads") != std::string::npos);
  CHECK(refusal("llama:hidden=64,layers=4,heads=4,seq=16,shared=1").find("experts=... beside it") != std::string::npos);
  CHECK(refusal("gpt:hidden=64,layers=4,heads=4,seq=16,kv_rank=8").find("llama's blocks") != std::string::npos);
}

TEST_CASE("public models have their published numbers of parameters, by name and with other values beside it") {
  for (const NamedModel& m : named_models()) {
    CAPTURE(m.name);
    const ModelShape shape = model_shape_of(m.name);
    CHECK(shape.parameters() == doctest::Approx(m.parameters).epsilon(1e-3));
    CHECK(describes_model(m.name));
    CHECK(describes_model(std::string(m.name) + ":layers=2"));
    CHECK(named_model(m.name) == &m);
    CHECK(model_shape_of(shape.name).name == shape.name);
  }
  CHECK(model_shape_of("Llama3-8B:seq=4096").sequence == 4096);
  CHECK(model_shape_of("meta-llama/Llama-3.1-8B:seq=4096").name == model_shape_of("llama3-8b:seq=4096").name);
  CHECK(named_model("Qwen/Qwen3-30B-A3B") == named_model("qwen3-30b-a3b"));
  CHECK(named_model("Llama-3.2-1B") == named_model("llama3.2-1b"));
  CHECK(named_model("llama-4") == nullptr);
  CHECK(model_shape_of("llama3-8b").sequence == 8192);
  CHECK(refusal("llama3-8b:heads=48").find("divides hidden = 4096") != std::string::npos);
  CHECK(refusal("llama3-8c").find("did you mean 'llama3-8b'?") != std::string::npos);
  CHECK_FALSE(describes_model("llama3-8c"));
}

TEST_CASE("grouped keys and values, gated MLPs and experts change what they should") {
  const ModelShape full = model_shape_of("llama:hidden=4096,layers=1,heads=32,seq=1024");
  const ModelShape grouped = model_shape_of("llama:hidden=4096,layers=1,heads=32,kv_heads=8,seq=1024");
  CHECK(full.parameters() - grouped.parameters() == 2.0 * 4096 * (4096 - 1024));
  CHECK((full.units[1].kept.divided - grouped.units[1].kept.divided).value() == 2 * 2.0 * 1024 * (4096 - 1024));

  // Heads of twice the size: q, k, v and the projection are twice as wide, and so is what attention computes and keeps.
  const ModelShape wide = model_shape_of("llama:hidden=4096,layers=1,heads=32,head=256,seq=1024");
  CHECK(wide.head_size == 256);
  CHECK(wide.parameters() - full.parameters() == 4.0 * 4096 * 4096);
  const double pairs = 2 * 3 * 2.0 * 32 * 1024 * 1024 * 128;  // scores and context, forward and backward
  CHECK(wide.operations() - full.operations() == doctest::Approx(2 * 3 * 1024 * 4.0 * 4096 * 4096 + pairs));
  CHECK((wide.units[1].kept.divided - full.units[1].kept.divided).value() == 2 * 4.0 * 1024 * 4096);
  CHECK(model_shape_of("llama:hidden=4096,layers=1,heads=24,head=128,seq=1024").head_size == 128);
  // An embedding that is the weight of the logits is held once.
  const ModelShape tied = model_shape_of("llama:hidden=4096,layers=1,heads=32,seq=1024,tied=yes");
  CHECK(full.parameters() - tied.parameters() == 32000.0 * 4096);
  CHECK(tied.units[2].tied_parameters == 32000.0 * 4096);
  CHECK(tied.operations() == full.operations());

  const std::string base = "gpt:hidden=1024,layers=2,heads=16,seq=512";
  const ModelShape dense = model_shape_of(base), mixture = model_shape_of(base + ",experts=16,topk=2");
  const double mlp = 8.0 * 1024 * 1024 + 5 * 1024, router = 16 * 1024;
  CHECK(mixture.parameters() - dense.parameters() == 2 * (15 * mlp + router));
  CHECK(block_of(mixture).expert_parameters == 16 * mlp);
  // Each token goes to two experts: one MLP's products more.
  CHECK(mixture.operations() - dense.operations() == 2 * 3 * 2.0 * 512 * (8.0 * 1024 * 1024 + router));
  CHECK(block_of(mixture).expert_exchanges == 2);
}

TEST_CASE("convolutional networks have torchvision's parameters and multiply-adds") {
  const struct {
    const char* name;
    double parameters, giga_multiply_adds;
  } networks[] = {{"resnet18", 11689512, 1.81},   {"resnet34", 21797672, 3.66},   {"resnet50", 25557032, 4.09},
                  {"resnet101", 44549160, 7.80},  {"resnet152", 60192808, 11.51}, {"vgg11", 132863336, 7.61},
                  {"vgg13", 133047848, 11.31},    {"vgg16", 138357544, 15.47},    {"vgg19", 143667240, 19.63},
                  {"vgg11_bn", 132868840, 7.61},  {"vgg13_bn", 133053736, 11.31}, {"vgg16_bn", 138365992, 15.47},
                  {"vgg19_bn", 143678248, 19.63}, {"alexnet", 61100840, 0.71}};
  for (const auto& n : networks) {
    CAPTURE(n.name);
    const ModelShape model = model_shape_of(std::string(n.name) + ":");
    CHECK(model.parameters() == n.parameters);
    CHECK(model.operations() / 6e9 == doctest::Approx(n.giga_multiply_adds).epsilon(0.01));
    CHECK(flaw_of(model).empty());
  }
  // A smaller image, fewer classes.
  CHECK(model_shape_of("resnet50:image=32,classes=10").parameters() == 25557032 - 990 * 2049);
  CHECK(model_shape_of("vgg16:image=32").parameters() == 138357544);
}

TEST_CASE("convolutions' backward pass takes a few times the forward pass, as measured") {
  // On an H100, batch 128, 4-byte numbers, summed over all convolutions: 3.72 times for ResNet-50, 2.21 for VGG-13
  // (sarchlab/triosim, sample_trace/trace2-h100-bs128, MIT). Another device: what shall hold is the order.
  const Device* device = shipped_device("NVIDIA A100-SXM4-80GB");
  REQUIRE(device != nullptr);
  for (const std::string name : {"resnet50:", "vgg13:"}) {
    CAPTURE(name);
    const ModelShape model = model_shape_of(name);
    UnitTimes times;
    for (const UnitShape& unit : model.units)
      for (const OperatorShape& o : unit.operators)
        if (o.convolution)
          for (std::int64_t i = 0; i < unit.repetitions; ++i) times.add(*device, model.dtype, o, work_of(o, 128));
    const double ratio = (times.input_gradient.matrix + times.weight_gradient.matrix) / times.forward.matrix;
    CHECK(ratio > 1.8);
    CHECK(ratio < 4);
  }
}

TEST_CASE("memory-bound operators move what their measured times say, at one bandwidth") {
  // ResNet-50 on an H100, batch 128, 4-byte numbers: summed times in us of all ReLUs forward and backward and of all
  // residual sums (sarchlab/triosim, sample_trace/trace2-h100-bs128/resnet50/trace.csv, MIT).
  const struct {
    const char* name;
    double forward_us, backward_us;
  } measured[] = {{"relu", 3170, 4704}, {"residual", 2792, 0}};
  const ModelShape model = model_shape_of("resnet50:");
  for (const auto& m : measured) {
    CAPTURE(m.name);
    double forward = 0, backward = 0;
    for (const UnitShape& u : model.units)
      for (const OperatorShape& o : u.operators)
        if (o.name == m.name) {
          forward += 128 * double(u.repetitions) * o.traffic.value();
          backward += 128 * double(u.repetitions) * o.traffic.value() * o.backward;
        }
    // 3.35 TB/s by the data sheet; streaming kernels reach a little more than 90 % of it.
    CHECK(forward / m.forward_us / 1e6 == doctest::Approx(3.08).epsilon(0.03));
    if (m.backward_us > 0) CHECK(backward / m.backward_us / 1e6 == doctest::Approx(3.08).epsilon(0.03));
  }
}

TEST_CASE("a description is told from the name of a shipped model and from a path") {
  CHECK(describes_model("gpt:hidden=1"));
  CHECK(describes_model("resnet50:"));
  CHECK(describes_model("gtp:hidden=1"));  // misspelt: to be refused with a suggestion
  CHECK(!describes_model("resnet50"));
  CHECK(!describes_model("bert_base"));
  CHECK(!describes_model("folder/model:1.json"));
  CHECK(!describes_model("C:\\model.json"));
  CHECK(!describes_model(":"));
  CHECK(!describes_model(""));
}

TEST_CASE("a description is normalised: spaces and defaults disappear, and it reads back") {
  CHECK(model_shape_of(" gpt : hidden = 768, layers=12 ,heads=12,seq=1024, vocab=51200,dtype=half ").name ==
        "gpt:hidden=768,layers=12,heads=12,seq=1024");
  CHECK(model_shape_of("gpt:seq=1024,heads=12,layers=12,hidden=768,dropout=0,dtype=bfloat16").name ==
        "gpt:hidden=768,layers=12,heads=12,seq=1024,dropout=0,dtype=bf16");
  CHECK(model_shape_of("resnet50:image=224").name == "resnet50:");
}

TEST_CASE("what is no description is refused with column and suggestion") {
  CHECK(refusal("gpt") ==
        "model, column 1: expected a family and a colon, such as "
        "'gpt:hidden=768,layers=12,heads=12,seq=1024', or a public model, found 'gpt'");
  CHECK(refusal("gtp:hidden=1") == "model, column 1: expected a family of models, found 'gtp'; did you mean 'gpt'?");
  CHECK(refusal("gpt:hiden=768,layers=1,heads=1,seq=1") ==
        "model, column 5: expected a known key, found 'hiden'; did you mean 'hidden'?");
  CHECK(refusal("gpt:hidden=768,layers=12,heads=12") ==
        "model, column 34: expected 'seq=...', found the end of the text; 'gpt' needs it");
  CHECK(refusal("gpt:hidden=768,layers=12,heads=12,seq=1024,sequence=3").find("column 44") != std::string::npos);
  CHECK(refusal("gpt:hidden=768,layers=12,heads=7,seq=1024") ==
        "model, column 32 (heads): expected a number of heads that divides hidden = 768, found 7; 6 does; head=... "
        "gives heads a size of their own");
  CHECK(refusal("gpt:hidden=768,layers=12,heads=12,seq=1024,kv_heads=5") ==
        "model, column 53 (kv_heads): expected a divisor of heads = 12, found 5");
  CHECK(refusal("gpt:hidden=0,layers=12,heads=12,seq=1024") ==
        "model, column 12 (hidden): expected a whole number from 1 to 1048576, found '0'");
  CHECK(refusal("gpt:hidden=768,hidden=3") == "model, column 16: expected each key once, found 'hidden' twice");
  CHECK(refusal("gpt:hidden=768,,") == "model, column 16: expected 'key=value', found nothing");
  CHECK(refusal("gpt:hidden=") == "model, column 12: expected a value for 'hidden', found nothing");
  CHECK(refusal("gpt:hidden=8,layers=1,heads=1,seq=1,attention=flesh") ==
        "model, column 47 (attention): expected standard, flash, flash1, flash2, flash3, cudnn, found 'flesh'; did you "
        "mean "
        "'flash'?");
  CHECK(refusal("gpt:hidden=8,layers=1,heads=1,seq=1,causal=yes").find("attention=flash beside it") !=
        std::string::npos);
  CHECK(refusal("bert:hidden=8,layers=1,heads=1,seq=1,attention=flash,causal=yes").find("encoder") !=
        std::string::npos);
  CHECK(refusal("gpt:hidden=8,layers=1,heads=1,seq=1,topk=2").find("experts=... beside it") != std::string::npos);
  CHECK(refusal("gpt:hidden=8,layers=1,heads=1,seq=1,experts=2,topk=3").find("from 1 to experts = 2") !=
        std::string::npos);
  CHECK(refusal("gpt:hidden=8,layers=1,heads=1,seq=1,dtype=i32").find("floating-point") != std::string::npos);
  CHECK(refusal("gpt:hidden=8,layers=1,heads=1,seq=1,dropout=1").find("less than 1") != std::string::npos);
  CHECK(refusal("alexnet:image=20") ==
        "model, column 15 (image): expected a whole number from 63 to 16384, found '20'");
}

TEST_CASE("any text is either refused or a model without a flaw that reads back") {
  const std::string seeds[] = {
      "gpt:hidden=768,layers=12,heads=12,seq=1024,vocab=50257,experts=8,topk=2",
      "llama:hidden=64,layers=2,heads=8,kv_heads=2,ffn=96,seq=16,attention=flash,causal=yes",
      "llama:hidden=64,layers=3,heads=8,seq=16,experts=4,shared=1,dense=1,dense_ffn=99,kv_rank=8",
      "llama:hidden=64,layers=3,heads=8,seq=16,attention=flash,window=4,full_every=2,documents=8,linear=f8,optimizer="
      "muon",
      "bert:hidden=12,layers=3,heads=4,seq=8,positions=16,dropout=0.25,dtype=f32",
      "resnet50:image=33,classes=7",
      "vgg11_bn:dtype=f16"};
  const std::string letters = "abghilmnoprstxy_:=,. 0123456789-+\t\"\\\x80\xff";
  std::mt19937 random(7);
  const auto any = [&](std::size_t below) { return std::size_t(random()) % below; };
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = seeds[any(std::size(seeds))];
    for (std::size_t changes = 1 + any(3); changes > 0 && !text.empty(); --changes) {
      const std::size_t at = any(text.size());
      switch (any(4)) {
        case 0:
          text[at] = letters[any(letters.size())];
          break;
        case 1:
          text.erase(at, 1 + any(4));
          break;
        case 2:
          text.insert(at, 1, letters[any(letters.size())]);
          break;
        default:
          text = text.substr(0, at) + text.substr(any(text.size()));
      }
    }
    CAPTURE(text);
    try {
      const ModelShape model = model_shape_of(text);
      ++accepted;
      REQUIRE(flaw_of(model) == "");
      REQUIRE(model.parameters() > 0);
      const ModelShape again = model_shape_of(model.name);
      REQUIRE(again.name == model.name);
      REQUIRE(again.parameters() == model.parameters());
    } catch (const InputError& e) { REQUIRE(std::string(e.what()).starts_with("model, column ")); }
  }
  CHECK(accepted > 200);
}

TEST_CASE("casts to eight bits: compiled one kernel that reads twice, eager six kernels") {
  const auto cast_of = [](const char* kernels) {
    const ModelShape m =
        model_shape_of(std::string("llama:hidden=1024,layers=2,heads=16,seq=512,linear=f8,kernels=") + kernels);
    const auto& operators = m.units[1].operators;
    return *std::ranges::find(operators, "cast for qkv", &OperatorShape::name);
  };
  const double elements = 512.0 * 1024;
  CHECK(cast_of("compiled").traffic.value() == elements * (2 + 2 + 1));
  CHECK(cast_of("compiled").kernels == 1);
  // Read, write; read; read, write four bytes; twice read and write those; read those, write one.
  CHECK(cast_of("eager").traffic.value() == elements * (4 + 2 + 6 + 8 + 8 + 5));
  CHECK(cast_of("eager").kernels == 6);
  CHECK(cast_of("megatron").traffic.value() == elements * (2 + 2 * 1));
}

TEST_CASE("what experts add beside products: a bias each, and limits in front of their gate") {
  const std::string mixture = "llama:hidden=1024,layers=2,heads=8,ffn=512,seq=512,experts=16,topk=4";
  const auto block = [&](const std::string& words) { return model_shape_of(mixture + words).units[1]; };
  const auto named = [](const UnitShape& u, std::string_view name) -> const OperatorShape* {
    for (const OperatorShape& o : u.operators)
      if (o.name == name) return &o;
    return nullptr;
  };
  const UnitShape plain = block(""), both = block(",expert_bias=yes,clamp=yes");
  CHECK(named(plain, "clamp") == nullptr);
  CHECK(named(plain, "expert bias") == nullptr);
  const OperatorShape* clamp = named(both, "clamp");
  REQUIRE(clamp != nullptr);
  CHECK(clamp->traffic == Bytes(512. * 4 * 512 * 16));  // 16 bytes an element of what the gate gives
  CHECK(clamp->module == RecomputedModule::moe_act);
  const OperatorShape* bias = named(both, "expert bias");
  REQUIRE(bias != nullptr);
  CHECK(bias->traffic == Bytes(512. * 4 * 1024 * 12));
  CHECK(work_of(*bias, 1).steps == 16);                                            // expert by expert
  CHECK(both.kept.divided - plain.kept.divided == Bytes(512. * 4 * 2 * 512 * 2));  // a copy of the gate's inputs
  // Compilers make one kernel of either with what is beside it.
  CHECK(named(block(",expert_bias=yes,clamp=yes,kernels=compiled"), "clamp") == nullptr);
  const double more = model_shape_of(mixture + ",expert_bias=yes").parameters() - model_shape_of(mixture).parameters();
  CHECK(more == 2 * 16 * (2 * 512 + 1024));
  CHECK_THROWS_WITH_AS((void)model_shape_of("llama3-8b:clamp=yes"), doctest::Contains("experts"), InputError);
  CHECK_THROWS_WITH_AS((void)model_shape_of("gpt:hidden=1024,layers=2,heads=8,seq=512,experts=8,expert_bias=yes"),
                       doctest::Contains("llama"), InputError);
}

TEST_CASE("norms of queries and keys are two kernels over all heads, whose inputs are kept") {
  const std::string base = "llama:hidden=1024,layers=2,heads=8,kv_heads=2,seq=512,attention=flash,causal=yes";
  const ModelShape plain = model_shape_of(base), normed = model_shape_of(base + ",qk_norm=yes");
  const auto find = [](const ModelShape& m) {
    return std::ranges::find(m.units[1].operators, "query and key norms", &OperatorShape::name);
  };
  CHECK(find(plain) == plain.units[1].operators.end());
  const auto norms = find(normed);
  REQUIRE(norms != normed.units[1].operators.end());
  CHECK(norms->traffic == Bytes(512. * (8 + 2) * 128 * 2 * 2));  // read and written, in numbers of two bytes
  CHECK(norms->kernels == 2);
  CHECK(std::prev(norms)->name == "qkv");
  CHECK(normed.units[1].kept.divided - plain.units[1].kept.divided == Bytes(512. * (8 + 2) * 128 * 2));
  CHECK(normed.parameters() - plain.parameters() == 2 * 2 * 128);  // a weight an element of a head, in each layer
  CHECK(model_shape_of("qwen3-8b").qk_norm);
  CHECK_FALSE(model_shape_of("llama3-8b").qk_norm);
  CHECK_THROWS_WITH_AS((void)model_shape_of("gpt:hidden=1024,layers=2,heads=8,seq=512,qk_norm=yes"),
                       doctest::Contains("llama"), InputError);
  CHECK_THROWS_WITH_AS((void)model_shape_of("llama:hidden=1024,layers=2,heads=8,seq=512,kv_rank=64,qk_norm=yes"),
                       doctest::Contains("qk_norm"), InputError);
}
