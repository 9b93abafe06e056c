// Tensor schemes: their volumes are those of the papers, and the collectives that they ask for add up to them.
#include <stepcast/layout/tensor_scheme.hpp>

#include <doctest/doctest.h>

#include <string>

using namespace stepcast;
using doctest::Approx;

namespace {

constexpr double sequence = 512, hidden = 3072;

TensorGrid grid_of(const char* scheme, std::int64_t devices, std::int64_t depth = 1) {
  const Answer<TensorGrid> grid = tensor_scheme(scheme)->grid(devices, depth);
  REQUIRE_MESSAGE(grid, scheme);
  return *grid;
}
double elements(const char* scheme, const TensorGrid& grid, double batch) {
  return tensor_scheme(scheme)->elements_per_layer(grid, batch, sequence, hidden);
}
/// A transformer block with an MLP of 4 h, one byte an element.
TensorWork block(double batch) {
  return {.activation = Bytes(batch * sequence * hidden), .weights = Bytes(12 * hidden * hidden), .weight_ratio = 12};
}
/// Elements that one device of `members` sends in a ring: (m-1)/m of the buffer, an all-reduce twice that. All-to-alls
/// and broadcasts along a pipelined ring are as much as an all-gather.
Bytes ring_volume(const TensorTransfer& transfer) {
  const double members = static_cast<double>(transfer.members);
  const double half = (members - 1) / members;
  const double volume = transfer.operation == Operation::all_reduce ? 2 * half
                        : transfer.operation == Operation::send     ? 1
                                                                    : half;
  return transfer.size * (transfer.count * volume);
}
double summed(const std::vector<TensorTransfer>& transfers) {
  Bytes sum;
  for (const TensorTransfer& t : transfers) sum += ring_volume(t);
  return sum.value();
}

}  // namespace

TEST_CASE("Tensor volumes on 64 devices are those of the published formulas") {
  // Elements sent per device and transformer layer, forward and backward, ring, no recomputation: the volume formulas
  // of Megatron-LM, Optimus, Tesseract and 3-D evaluated by hand at s = 512, h = 3072.
  struct Row {
    const char* scheme;
    std::int64_t depth;
    double at_32, at_1;
  };
  const Row rows[] = {{"1d", 1, 3.963617e+08, 1.238630e+07},
                      {"2d", 1, 1.527644e+08, 4.077158e+07},
                      {"2.5d", 4, 1.238630e+08, 7.586611e+07},
                      {"3d", 1, 8.611430e+07, 1.297613e+07}};
  for (const Row& row : rows) {
    CAPTURE(row.scheme);
    const TensorGrid grid = grid_of(row.scheme, 64, row.depth);
    CHECK(elements(row.scheme, grid, 32) == Approx(row.at_32).epsilon(1e-6));
    CHECK(elements(row.scheme, grid, 1) == Approx(row.at_1).epsilon(1e-6));
  }
}

TEST_CASE("Large activations favour grids, small ones the 1-D scheme") {
  const TensorGrid one = grid_of("1d", 64), two = grid_of("2d", 64), deep = grid_of("2.5d", 64, 4),
                   three = grid_of("3d", 64);
  CHECK(elements("1d", one, 32) > elements("2d", two, 32));
  CHECK(elements("2d", two, 32) > elements("2.5d", deep, 32));
  CHECK(elements("2.5d", deep, 32) > elements("3d", three, 32));
  CHECK(elements("1d", one, 1) < elements("3d", three, 1));
  CHECK(elements("3d", three, 1) < elements("2d", two, 1));
  CHECK(elements("2d", two, 1) < elements("2.5d", deep, 1));
}

TEST_CASE("The collectives of a unit add up to the volume of its scheme") {
  struct Case {
    const char* scheme;
    std::int64_t devices, depth;
  };
  for (const Case& c : {Case{"1d", 8, 1}, Case{"1d", 3, 1}, Case{"2d", 4, 1}, Case{"2d", 64, 1}, Case{"2.5d", 8, 2},
                        Case{"2.5d", 64, 4}, Case{"2.5d", 36, 1}, Case{"3d", 8, 1}, Case{"3d", 64, 1}})
    for (const double batch : {1.0, 32.0}) {
      CAPTURE(c.scheme);
      CAPTURE(c.devices);
      const TensorScheme& scheme = *tensor_scheme(c.scheme);
      const TensorGrid grid = grid_of(c.scheme, c.devices, c.depth);
      TensorWork work = block(batch);
      const double forward = summed(scheme.forward(grid, work)), backward = summed(scheme.backward(grid, work));
      const double published = scheme.elements_per_layer(grid, batch, sequence, hidden);
      CHECK(forward + backward == Approx(published).epsilon(1e-12));
      // Recomputation runs the forward collectives again.
      work.recomputed = true;
      CHECK(summed(scheme.backward(grid, work)) == Approx(backward + forward).epsilon(1e-12));
    }
}

TEST_CASE("Sequence parallelism moves what the sums move") {
  const TensorScheme& scheme = *tensor_scheme("1d");
  const TensorGrid grid = grid_of("1d", 8);
  TensorWork work = block(4);
  const double sums = summed(scheme.forward(grid, work));
  work.sequence_parallel = true;
  const std::vector<TensorTransfer> halves = scheme.forward(grid, work);
  CHECK(summed(halves) == Approx(sums).epsilon(1e-12));
  for (const TensorTransfer& t : halves) CHECK(t.operation != Operation::all_reduce);
}

TEST_CASE("One device sends nothing and holds everything") {
  for (const TensorScheme& scheme : tensor_schemes()) {
    CAPTURE(std::string(scheme.name));
    const Answer<TensorGrid> grid = scheme.grid(1, 1);
    REQUIRE(grid);
    CHECK(scheme.elements_per_layer(*grid, 32, sequence, hidden) == 0);
    CHECK(scheme.forward(*grid, block(32)).empty());
    CHECK(scheme.backward(*grid, block(32)).empty());
    CHECK(scheme.parameter_share(*grid) == 1);
    CHECK(scheme.activation_share(*grid) == 1);
  }
}

TEST_CASE("A depth of one reduces 2.5-D to 2-D") {
  const TensorGrid flat = grid_of("2.5d", 64, 1), two = grid_of("2d", 64);
  const TensorScheme &a = *tensor_scheme("2.5d"), &b = *tensor_scheme("2d");
  CHECK(a.elements_per_layer(flat, 32, sequence, hidden) == b.elements_per_layer(two, 32, sequence, hidden));
  CHECK(a.forward(flat, block(32)) == b.forward(two, block(32)));
  CHECK(a.backward(flat, block(32)) == b.backward(two, block(32)));
  CHECK(a.parameter_share(flat) == b.parameter_share(two));
}

TEST_CASE("Every scheme divides the operations of its products evenly") {
  const MatrixProduct product{2, 4096, 12288, 3072};
  for (const TensorScheme& scheme : tensor_schemes()) {
    const std::int64_t depth = scheme.name == "2.5d" ? 4 : 1;
    const Answer<TensorGrid> grid = scheme.grid(64, depth);
    REQUIRE(grid);
    for (const Division division : {Division::columns, Division::rows, Division::heads}) {
      CAPTURE(std::string(scheme.name));
      CHECK(scheme.local_product(*grid, product, division).operations() ==
            Approx(product.operations() / 64).epsilon(1e-12));
    }
    CHECK(scheme.local_product(*grid, product, Division::none).operations() == product.operations());
  }
}

TEST_CASE("Grids that do not exist are refused with the numbers") {
  const auto refused = [](const char* scheme, std::int64_t devices, std::int64_t depth, const char* word) {
    const Answer<TensorGrid> grid = tensor_scheme(scheme)->grid(devices, depth);
    REQUIRE_MESSAGE(!grid, scheme);
    CHECK_MESSAGE(grid.reason().find(word) != std::string::npos, grid.reason());
  };
  refused("1d", 8, 2, "2.5d");
  refused("2d", 8, 1, "square");
  refused("2d", 16, 2, "2.5d");
  refused("2.5d", 8, 1, "depth");
  refused("2.5d", 8, 3, "3 layers");
  refused("2.5d", 32, 8, "exceeds");
  refused("3d", 16, 1, "cube");
}
