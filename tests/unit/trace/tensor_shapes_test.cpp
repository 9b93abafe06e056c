// Shapes of arguments as profilers write them; what is no extent is no shape.
#include <stepcast/trace/tensor_shapes.hpp>

#include <doctest/doctest.h>

#include <vector>

namespace stepcast {

TEST_CASE("tensor shapes: lists of extents, and none where an extent is negative or a list lies deeper") {
  using Shapes = std::vector<TensorShape>;
  CHECK(shapes_of("[[64, 3, 7, 7], [], [64]]") == Shapes{{64, 3, 7, 7}, {}, {64}});
  CHECK(shapes_of("[[-7], [2, 3], [4, -1]]") == Shapes{{}, {2, 3}, {}});
  CHECK(shapes_of("[[[2, 3], [4]], [5]]") == Shapes{{}, {5}});
  CHECK(elements_of_arguments("[[2, 3], [4]]") == std::vector<double>{6, 4});
  CHECK(elements_of_arguments("[[-2, 3], [4]]").empty());
}

}  // namespace stepcast
