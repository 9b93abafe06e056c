// Profile blocks: recognised on models written as text and on real traces, depth that grows and shrinks.
#include "helpers/shared_data.hpp"

#include <stepcast/profile/blocks.hpp>
#include <stepcast/profile/profile.hpp>
#include <stepcast/trace/trace.hpp>
#include <stepcast/whatif/whatif.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>
#include <sstream>
#include <string>

using namespace stepcast;

namespace {

/// Layers by name, each with one parameter: "embed:2000x64 ln_0:64 fc_0:64x64 ...".
Profile model_of(const std::string& text) {
  Profile p;
  p.model = "text";
  std::istringstream in(text);
  for (std::string word; in >> word;) {
    const std::size_t colon = word.find(':');
    Layer layer;
    layer.name = word.substr(0, colon);
    layer.forward.host = milliseconds(1);
    layer.backward.host = milliseconds(2);
    Tensor t;
    t.name = layer.name + ".weight";
    double elements = 1;
    std::istringstream extents(word.substr(colon + 1));
    for (std::string extent; std::getline(extents, extent, 'x');) {
      t.shape.push_back(std::stoll(extent));
      elements *= double(t.shape.back());
    }
    t.size = Bytes(4 * elements);
    t.layer = std::uint32_t(p.layers.size());
    p.layers.push_back(layer);
    p.tensors.insert(p.tensors.begin(), t);
  }
  for (std::size_t l = p.layers.size(); l-- > 0;) p.backward_order.push_back(std::uint32_t(l));
  p.optimizer.host = milliseconds(4);
  return checked(std::move(p), "text");
}

std::string text_of_blocks(const ProfileBlocks& b) {
  return std::to_string(b.before) + "+" + std::to_string(b.repetitions) + "x" + std::to_string(b.layers) + "+" +
         std::to_string(b.after);
}
std::string blocks(const std::string& text) { return text_of_blocks(blocks_of(model_of(text))); }

std::string transformer(int layers) {
  std::string text = "embed:900x8 ";
  for (int l = 0; l < layers; ++l) {
    const std::string at = "h." + std::to_string(l) + ".";
    text += at + "ln1:8 " + at + "qkv:24x8 " + at + "proj:8x8 " + at + "ln2:8 " + at + "fc1:32x8 " + at + "fc2:8x32 ";
  }
  return text + "ln_f:8 head:900x8";
}

}  // namespace

TEST_CASE("blocks: the repeated part of models written as text") {
  CHECK(blocks(transformer(4)) == "1+4x6+2");
  CHECK(blocks(transformer(1)) == "0+1x9+0");
  CHECK(blocks("a:1") == "0+1x1+0");
  CHECK(blocks("a_0:4 a_1:4 a_2:4") == "0+3x1+0");
  CHECK(blocks("x:2 a_0:4 b_0:5 a_1:4 b_1:5 y:3") == "1+2x2+1");
  CHECK(blocks("a_0:4 b_0:5 c:6") == "0+1x3+0");
  SUBCASE("names that differ in more than numbers, or other shapes, are other layers") {
    CHECK(blocks("left:4 right:4") == "0+1x2+0");
    CHECK(blocks("a_0:4 a_1:5") == "0+1x2+0");
    CHECK(blocks("a_0:4x2 a_1:2x4") == "0+1x2+0");
  }
  SUBCASE("of several repeated parts the one with the most time") {
    CHECK(blocks("a_0:4 a_1:4 x:1 b_0:7 b_1:7 b_2:7") == "3+3x1+0");
  }
  SUBCASE("a block inside a block: the outer one when it covers more") {
    CHECK(blocks("a_0:4 a_1:4 b_0:5 a_2:4 a_3:4 b_1:5 a_4:4 a_5:4 b_2:5") == "0+3x3+0");
  }
  SUBCASE("a cut last block: blocks begin where the names of modules say, else with the first layer") {
    CHECK(blocks("n_0:8 a_0:9 n_1:8 a_1:9 n_2:8 head:3") == "0+2x2+2");
    CHECK(blocks("norm.0:8 h.0.a:9 h.0.norm:8 h.1.a:9 h.1.norm:8 head:3") == "1+2x2+1");
  }
}

TEST_CASE("blocks: time decides, not the number of layers") {
  Profile p = model_of("a_0:4 a_1:4 x:1 b_0:7 b_1:7 b_2:7");
  p.layers[0].forward.host = p.layers[1].forward.host = milliseconds(50);
  CHECK(text_of_blocks(blocks_of(p)) == "0+2x1+4");
}

TEST_CASE("blocks: parts add up to all layers, and every block has the letters of the first, on random models") {
  std::mt19937 random(7);
  for (int trial = 0; trial < 300; ++trial) {
    std::string text;
    const int n = 1 + int(random() % 40);
    for (int l = 0; l < n; ++l)
      text += "l_" + std::to_string(l) + ":" + std::to_string(1 + random() % 3) + (random() % 8 == 0 ? "x2 " : " ");
    const Profile p = model_of(text);
    const ProfileBlocks b = blocks_of(p);
    REQUIRE(b.before + b.repetitions * b.layers + b.after == p.layers.size());
    for (std::uint32_t r = 1; r < b.repetitions; ++r)
      for (std::uint32_t l = 0; l < b.layers; ++l) {
        const auto shape = [&](std::uint32_t layer) { return p.tensors[p.layers.size() - 1 - layer].shape; };
        REQUIRE(shape(b.before + l) == shape(b.before + r * b.layers + l));
      }
  }
}

TEST_CASE("depth: more and fewer blocks, costs and gradients in proportion") {
  const Profile p = model_of(transformer(4));
  const double block_bytes = 4 * (8 + 24 * 8 + 64 + 8 + 32 * 8 + 8 * 32);
  for (const std::uint32_t depth : {1u, 2u, 3u, 4u, 5u, 7u, 100u}) {
    CAPTURE(depth);
    const Answer<Profile> answer = with_blocks(p, depth);
    REQUIRE(answer);
    const Profile changed = checked(*answer, "changed");
    CHECK(changed.layers.size() == 3 + 6 * depth);
    CHECK(changed.gradient_size().value() ==
          doctest::Approx(p.gradient_size().value() + (double(depth) - 4) * block_bytes));
    CHECK(compute_time(changed).value() - changed.optimizer.host.value() ==
          doctest::Approx(0.003 * double(changed.layers.size())));
    if (depth > 1) CHECK(text_of_blocks(blocks_of(changed)) == "1+" + std::to_string(depth) + "x6+2");
    // Gradients still become ready from the last layer to the first, and each name occurs once.
    CHECK(std::is_sorted(changed.backward_order.rbegin(), changed.backward_order.rend()));
    std::set<std::string> names;
    for (const Tensor& t : changed.tensors) CHECK(names.insert(t.name).second);
    CHECK(changed.tensors.front().name == "head.weight");
    CHECK(changed.tensors.back().name == "embed.weight");
  }
  CHECK(json_of(*with_blocks(p, 4)) == json_of(p));
  CHECK(with_blocks(p, 6)->layers[3 + 6 * 6 - 3].name == "h.5.fc2");
}

TEST_CASE("depth: questions without an answer") {
  CHECK_FALSE(with_blocks(model_of("a:1 b:2"), 2));
  CHECK_FALSE(with_blocks(model_of(transformer(4)), 0));
  CHECK_FALSE(with_blocks(model_of(transformer(4)), 4000000000u));
}

TEST_CASE("what-if: another depth is the profile with so many blocks, its measured steps in proportion") {
  Profile p = model_of(transformer(4));
  p.step_times = {lone_step_time(p), lone_step_time(p) * 1.5};
  for (const std::uint32_t blocks : {1u, 3u, 12u}) {
    const Answer<Profile> changed = profile_after(scenario_of("depth(blocks=" + std::to_string(blocks) + ")"), p);
    REQUIRE(changed);
    CHECK(changed->layers.size() == with_blocks(p, blocks)->layers.size());
    REQUIRE(changed->step_times.size() == 2);
    CHECK(changed->step_times[0].value() == doctest::Approx(lone_step_time(*changed).value()));
    CHECK(changed->step_times[1].value() == doctest::Approx(1.5 * lone_step_time(*changed).value()));
  }
  CHECK(json_of(*profile_after(scenario_of("depth(blocks=4)"), p)) == json_of(p));
  // There and back: the same costs, whatever the copies are called.
  const Answer<Profile> back = profile_after(scenario_of("depth(blocks=9)+depth(blocks=4)"), p);
  REQUIRE(back);
  CHECK(lone_step_time(*back).value() == doctest::Approx(lone_step_time(p).value()));
  CHECK(back->gradient_size() == p.gradient_size());
  CHECK(text_of(scenario_of("depth(blocks=48)")) == "depth(blocks=48)");
  const auto reason = [](const std::string& text, const Profile& of) {
    return profile_after(scenario_of(text), of).reason();
  };
  CHECK(reason("depth(blocks=2.5)", p).find("whole numbers") != std::string::npos);
  CHECK(reason("depth(blocks=2)", model_of("a:1 b:2")).find("repeats") != std::string::npos);
  CHECK_THROWS_AS((void)scenario_of("depth"), InputError);
}

TEST_CASE("blocks of real profiles") {
  const std::filesystem::path root(STEPCAST_SOURCE_DIR);
  const auto of_file = [](const std::filesystem::path& path) {
    return text_of_blocks(blocks_of(profile_of_json(test::text_of_file(path), path.filename().string())));
  };
  // Query, key, value, output, norm, dense, activation, dense, norm: 9 a block (BERT-Base: 12 blocks, BERT-Large: 24).
  CHECK(of_file(root / "validation/profiles/bert-base-64-2080ti.json") == "4+12x9+6");
  CHECK(of_file(root / "validation/profiles/bert-large-32-2080ti.json") == "4+24x9+6");
}
