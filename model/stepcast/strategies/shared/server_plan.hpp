#pragma once
// Server plan: the pipeline of one partition over parameter servers, as transfers of a CommPlan.
//
//   local reduce-scatter (pcie) -> push (up) -> sum (srv) -> pull (dn) -> local all-gather (pcie)
//
// Stages are serial resources of one worker machine, chained per partition, so that partitions overlap like items in a
// pipeline. Local stages exist where a machine has several devices or a
// copy to the host takes time (Cluster::server_staging_rate), remote ones where there are several machines; a sum
// that never is the bottleneck takes no stage. Co-located servers use both directions of the card for either stage:
// push and pull share the channel "net". With extra server machines fewer than workers, BytePS gives every worker
// machine server work too (`extra_duty`): its share of the other machines' pushes comes in on dn, and goes back out on
// up. Not modelled: unequal worker machines; the servers' own queue discipline.
//
// A partition lives on one server. Where keys are hashed, all worker machines send it through that server's card at the
// same time as through their own, and the server with the most bytes may set the pace; otherwise the separate servers
// share the bytes evenly.
#include <stepcast/strategies/shared/plan_writing.hpp>

#include <optional>

namespace stepcast {

/// What a partition carries.
struct Payload {
  std::uint32_t first_tensor = 0, tensors = 0;
  Bytes size;
  std::int32_t priority = 0;
  std::uint64_t key = 0;  ///< where keys are hashed: decides which server holds it
};

/// The key that BytePS gives a partition: the tensor's number in the order of declaration << 16 plus the number of the
/// partition; its server: the DJB2 hash of the key's decimal digits (bytedance/byteps common/global.cc, from version
/// 0.2). With a power of two of servers that is the sum of the digits, so partitions clump.
[[nodiscard]] constexpr std::uint64_t byteps_key(std::uint64_t tensor, std::uint64_t part) {
  return (tensor << 16) + part;
}
[[nodiscard]] std::uint64_t byteps_server(std::uint64_t key, std::uint64_t servers);
/// The number of every tensor: BytePS declares them in alphabetical order of their names.
[[nodiscard]] std::pmr::vector<std::uint64_t> declared_numbers(const Profile&,
                                                               Memory = std::pmr::get_default_resource());

/// The option `keys` of strategies that can spread keys either way.
enum class Keys : std::uint8_t { hashed, even };
inline constexpr OptionSpec keys_option{.name = "keys",
                                        .kind = OptionKind::choice,
                                        .standard = static_cast<double>(Keys::hashed),
                                        .low = 0,
                                        .high = 1,
                                        .summary = "how partitions are spread over separate servers: as BytePS does",
                                        .choices = {"hashed", "even"}};

class ServerPlan {
 public:
  struct Queues {
    Discipline up = Discipline::fifo;
    Bytes credit{0};
    Discipline down = Discipline::fifo;
  };
  ServerPlan(const StrategyInput&, UpdatePlace, Queues, bool balanced = false);
  /// First-in first-out queues; hashed keys need `Payload::key`.
  ServerPlan(const StrategyInput&, UpdatePlace, Keys keys = Keys::even);

  /// Up to the sum on the servers, after `ready`; returns the last transfer.
  Node pushed(Node ready, const Payload&);
  /// From `summed` of `lag` iterations ago to the device; returns the last transfer.
  Node pulled(Node summed, const Payload&, std::uint32_t lag = 0);
  /// Both.
  Node exchanged(Node ready, const Payload& p) { return pulled(pushed(ready, p), p); }

  void wait(Node for_node, Node waiting, std::uint32_t lag = 0) { plan_.edges.push_back({for_node, waiting, lag}); }
  /// A moment without duration that others can wait for: joins many edges into one.
  Node moment();
  CommPlan take() { return std::move(plan_); }

 private:
  Node stage(Node after, Operation operation, std::uint8_t channel, const Payload&, Bytes size, bool carries,
             std::uint32_t lag = 0);
  std::uint8_t channel(std::string_view name, Discipline discipline = Discipline::fifo, Bytes credit = Bytes(0));

  Node both(Node first, Node second);

  CommPlan plan_;
  bool local_, remote_, sums_;
  double own_ = 1, extra_ = 0;               ///< parts of a payload on the worker's card: as a worker, as a server
  std::pmr::vector<std::uint8_t> in_, out_;  ///< channels of the servers' cards, where keys are hashed
  std::optional<Node> last_push_;
  std::uint8_t pcie_ = 0, up_ = 0, down_ = 0, sum_ = 0, moment_ = 0;
};

/// Partitions of all tensors, pushed by the index of their layer (input first) under `credit`, pulled first-in
/// first-out; a layer's update and forward pass wait for its own partitions only: ByteScheduler-PS, P3.
[[nodiscard]] Answer<CommPlan> scheduled_over_servers(const StrategyInput&, Bytes partition, Bytes credit);

/// The option that most plans over servers have: how large a message may be, by default as in BytePS.
constexpr OptionSpec partition_option(std::string_view summary) {
  return {.name = "partition",
          .kind = OptionKind::size,
          .standard = 4'096'000,
          .low = 1024,
          .high = 0x1p40,
          .summary = summary,
          .tuned = true,
          .tune_low = 0x1p18,
          .tune_high = 0x1p26};
}

/// Calls `use` with the size of every partition of at most `partition` bytes.
template <class Use>
void for_each_part(Bytes size, Bytes partition, const Use& use) {
  do {
    use(size < partition ? size : partition);
    size -= partition;
  } while (size > Bytes(0));
}
/// How many partitions the tensors (or, `fused`, their concatenation) are cut into.
[[nodiscard]] double number_of_parts(const Profile&, Bytes partition, bool fused = false);

}  // namespace stepcast
