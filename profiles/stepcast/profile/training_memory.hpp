#pragma once
// Training memory: what a device holds while it trains: parameters, gradients, optimizer state, activations, buffers
// and a margin.
//
// One model for all plans: a worker that holds the whole model is a layout of degree one, and what a layout divides it
// divides of these parts (parallelism/layout_memory.hpp). The optimizer is Adam: two moments, and beside weights of
// less than four bytes a copy of four (Rajbhandari et al. 2020). Two gradient buckets: one is filled while the other
// travels. `margin` is what a caching allocator loses to fragmentation and what the framework itself holds. Invariant:
// the parts sum to `total`. Not modelled: the order in which an allocator serves requests; what modifiers and
// strategies keep beside the gradients (residuals, delayed weights).
#include <stepcast/base/result_fields.hpp>
#include <stepcast/profile/profile.hpp>

#include <string_view>

namespace [[gnu::visibility("default")]] stepcast {

/// The fields are listed at the end.
struct MemoryUse {
  Bytes parameters, gradients, optimizer, activations, buffers, margin;
  Bytes host{};               ///< beside it in the machine's memory, where a layout leaves state there
  std::string_view moment{};  ///< the fullest one, at which these are there; empty: all are there throughout
  [[nodiscard]] Bytes total() const { return parameters + gradients + optimizer + activations + buffers + margin; }
};

struct MemoryOptions {
  double fragmentation = 0.05;  ///< as a share of everything else (measured caching allocators lose 2 to 10 %)
  Bytes framework{1.0e9};       ///< context, libraries, workspaces
  bool autocast = false;        ///< of layouts that DistributedDataParallel runs: what it holds (`under_autocast`)
};

/// Bytes that each parameter takes; `state`: weight, gradient and optimizer together.
struct BytesPerParameter {
  double weight = 2, gradient = 2, state = 16;
  [[nodiscard]] double optimizer() const;
};
/// Where weights and gradients are held in four bytes alone: the copy of the weights that the optimizer updates is the
/// weights themselves.
[[nodiscard]] BytesPerParameter with_whole_weights(const BytesPerParameter&);
/// The type of most weights; f32 where there are none.
[[nodiscard]] DataType weight_type(const Profile&);
/// As the profile says; Adam's for weights of that type where it does not.
[[nodiscard]] BytesPerParameter bytes_per_parameter(const Profile&);

/// Elements of each part that a device holds.
struct HeldParameters {
  double weights = 0, gradients = 0, optimizer = 0;
};
[[nodiscard]] MemoryUse memory_use(const HeldParameters&, const BytesPerParameter&, Bytes activations, Bytes buffers,
                                   const MemoryOptions& = {});
/// What PyTorch's DistributedDataParallel holds under autocast of that which holds short weights and their copies in
/// `use`: weights, gradients and moments in four bytes, a cast of each weight from its forward to its backward pass,
/// and of a worker with peers all gradients once more, in their buckets. Unchanged for weights of four bytes or more.
[[nodiscard]] MemoryUse under_autocast(const MemoryUse& use, const BytesPerParameter&, bool has_peers,
                                       const MemoryOptions& = {});
/// Buckets in which the gradients of `parameters` travel.
[[nodiscard]] Bytes gradient_buckets(double parameters, double bytes_of_gradient);

/// Said where the profile does not know what the forward pass keeps.
inline constexpr std::string_view activations_not_counted = "the memory of activations is not known and not counted";
/// Whether the profile says what the forward pass keeps.
[[nodiscard]] bool knows_activations(const Profile&);
/// Of a worker that holds the whole model; activations are left out where they are not known.
[[nodiscard]] MemoryUse memory_of_worker(const Profile&, bool has_peers);

}  // namespace stepcast

namespace stepcast {

template <>
inline constexpr auto result_fields<MemoryUse> =
    std::tuple{ResultField{"total_bytes", &MemoryUse::total, "the sum"},
               ResultField{"parameters_bytes", &MemoryUse::parameters, "weights"},
               ResultField{"gradients_bytes", &MemoryUse::gradients, "as they are kept"},
               ResultField{"optimizer_bytes", &MemoryUse::optimizer, "state of the optimizer"},
               ResultField{"activations_bytes", &MemoryUse::activations, "of the micro-batches in flight"},
               ResultField{"buffers_bytes", &MemoryUse::buffers, "of communication"},
               ResultField{"margin_bytes", &MemoryUse::margin, "fragmentation and the framework itself"},
               ResultField{"host_bytes", &MemoryUse::host, "beside it in the host's memory: what is offloaded"},
               ResultField{"moment", &MemoryUse::moment,
                           "the fullest one of the step, at which these are there; empty: all are there throughout"}};

}  // namespace stepcast
