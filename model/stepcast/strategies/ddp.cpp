// PyTorch DDP: gradient buckets of fixed content, all-reduced strictly in bucket order. Li et al. 2020.
//
//   compute |  F1 F2 F3 F4  B4 B3 B2 B1             | U | F1 ...
//   net     |                  [ first ]  [ 2 ][ 3 ]|
//
// Tensors are appended in the order in which their gradients became ready (DDP rebuilds its buckets after the first
// iteration); a bucket closes when its size is >= its limit, so the tensor that crosses the limit stays in. Unless
// `bucket_cap_mb` is given, the first bucket's limit is 1 MiB and every later one's 25 MiB; where it is given, PyTorch
// 2.15 gives it to all of them (distributed.py, first_bucket_bytes_cap), older versions to all but the first. One
// bucket list per data type, each with a first bucket of its own. A bucket is sent when all its gradients are ready and
// all earlier buckets have been issued.
//
//   time: the recurrence of WFBP over buckets in bucket order. Buckets <= 2 + max(0, M - 1 MiB) / 25 MiB. Limits of 0
//   give WFBP, limits >= M BSP.
// Every tensor pays for its way into a bucket and out of it (Tensor::packing).
// Not modelled: `gradient_as_bucket_view`, which saves the way out; rebuilding in the first iterations.
#include <stepcast/strategies/shared/plan_writing.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <numeric>

namespace stepcast::strategy::ddp {
namespace {

constexpr double standard_bucket = 25 * 0x1p20, standard_first = 0x1p20;

constexpr OptionSpec options[] = {{.name = "bucket",
                                   .kind = OptionKind::size,
                                   .standard = standard_bucket,
                                   .low = 0,
                                   .high = 0x1p40,
                                   .summary = "limit of a bucket (bucket_cap_mb)",
                                   .tuned = true,
                                   .tune_low = 0x1p18,
                                   .tune_high = 0x1p30},
                                  {.name = "first",
                                   .kind = OptionKind::size,
                                   .standard = 0,
                                   .low = 0,
                                   .high = 0x1p40,
                                   .summary = "limit of the first bucket; 0: 1 MiB beside the standard bucket, else "
                                              "as `bucket` (before PyTorch 2.15 always 1 MiB)"}};
consteval std::size_t named(std::string_view name) { return option(options, name); }

Bytes first_limit(const OptionValues& v) {
  if (v[named("first")] > 0) return Bytes(v[named("first")]);
  return Bytes(v[named("bucket")] == standard_bucket ? standard_first : v[named("bucket")]);
}

bool one_data_type(const Profile& profile) {
  return std::all_of(profile.tensors.begin(), profile.tensors.end(),
                     [&](const Tensor& t) { return t.dtype == profile.tensors.front().dtype; });
}

/// A bucket of one data type among several; its tensors need not be neighbours.
struct MixedBucket {
  Group group;             ///< first and count in the plan's order
  std::uint32_t last = 0;  ///< the tensor that is ready last
  bool closed = false;
};

// Buckets per data type, sent in the order in which they close; those still open at the end follow in the order of
// their first gradient.
CommPlan plan_of_mixed_types(const StrategyInput& in, Bytes first, Bytes limit) {
  const Profile& profile = in.profile;
  constexpr std::size_t types = 16, none = SIZE_MAX;
  std::array<std::size_t, types> open, lists{};
  open.fill(none);
  std::pmr::vector<MixedBucket> buckets(in.memory);
  std::pmr::vector<std::size_t> bucket_of(profile.tensors.size(), in.memory);
  for (std::uint32_t t = 0; t < profile.tensors.size(); ++t) {
    const auto type = static_cast<std::size_t>(profile.tensors[t].dtype);
    if (open[type] == none) {
      open[type] = buckets.size();
      buckets.push_back({{t, 0, Bytes(0)}, t, false});
      ++lists[type];
    }
    MixedBucket& bucket = buckets[bucket_of[t] = open[type]];
    ++bucket.group.count;
    bucket.group.size += profile.tensors[t].size;
    bucket.last = t;
    bucket.closed = bucket.group.size >= (lists[type] == 1 ? first : limit);
    if (bucket.closed) open[type] = none;
  }
  const auto turn = [&](const MixedBucket& b) { return std::pair(!b.closed, b.closed ? b.last : b.group.first); };
  std::pmr::vector<std::uint32_t> order(profile.tensors.size(), in.memory);
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::pair(turn(buckets[bucket_of[a]]), a) < std::pair(turn(buckets[bucket_of[b]]), b);
  });
  std::sort(buckets.begin(), buckets.end(),
            [&](const MixedBucket& a, const MixedBucket& b) { return turn(a) < turn(b); });
  Grouping groups(in.memory);
  for (std::uint32_t at = 0; const MixedBucket& b : buckets) {
    groups.push_back({at, b.group.count, b.group.size});
    at += b.group.count;
  }
  CommPlan plan = all_reduced(in, groups, Discipline::in_order);
  for (std::size_t b = 0; b < buckets.size(); ++b) plan.edges[2 * b].from = gradient(profile, buckets[b].last);
  plan.order.assign(order.begin(), order.end());
  plan.packing = Packing::all;
  return plan;
}

Answer<CommPlan> plan(const StrategyInput& in) {
  const Bytes limit(in.options[named("bucket")]), first = first_limit(in.options);
  if (!one_data_type(in.profile)) return plan_of_mixed_types(in, first, limit);
  CommPlan plan = all_reduced(in, closed_at(in.profile, first, limit, in.memory), Discipline::in_order);
  plan.packing = Packing::all;
  return plan;
}

std::string settings(const OptionValues& v) {
  if (v[named("bucket")] == standard_bucket && first_limit(v) == Bytes(standard_first))
    return "DistributedDataParallel(model)";
  char text[80];
  std::snprintf(text, sizeof text, "DistributedDataParallel(model, bucket_cap_mb=%.4g)", v[named("bucket")] / 0x1p20);
  return text;
}

}  // namespace

extern constinit const Strategy record{
    .name = "ddp",
    .title = "PyTorch DDP buckets",
    .summary = "buckets of fixed size in the order of readiness, all-reduced in bucket order",
    .reference = "Li et al., VLDB 2020; PyTorch reducer.cpp",
    .fidelity = Fidelity::exact,
    .needs = {},
    .options = options,
    .phases = 1,
    .plan = plan,
    .settings = settings,
    .same_on_all_links = true,
};

}  // namespace stepcast::strategy::ddp
