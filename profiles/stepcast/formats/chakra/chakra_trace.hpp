#pragma once
// ChakraTrace: from the nodes of a Chakra execution trace, read in any order, to a trace.
//
// A node becomes one event: on a host thread, on a device stream (is_cpu_op is false), or, for communication without a
// stream, on a track of its own. Where no node says when it started, the times are laid out: every node starts once
// its dependencies have ended and its thread or stream is free (list scheduling in the order of the file). Data
// dependencies decide, as in the reference feeder; control dependencies (often the call stack) only where there are no
// data dependencies at all. Durations are whole microseconds unless an attribute duration_ns says them exactly. Not
// modelled: num_ops and tensor_size of nodes that were never measured.
#include <stepcast/encodings/source.hpp>
#include <stepcast/formats/chakra/chakra.hpp>
#include <stepcast/trace/trace.hpp>
#include <stepcast/trace/trace_draft.hpp>

#include <array>
#include <string>
#include <unordered_map>
#include <vector>

namespace stepcast {

class ChakraTrace {
 public:
  ChakraTrace(std::string_view source, const ReadOptions&);
  void add(const chakra_et::Node&, chakra_et::Schema);
  /// Says what was repaired; throws InputError when strict.
  void repaired(const std::string& what);
  [[nodiscard]] std::size_t size() const { return nodes_.size(); }
  /// The finished trace; this is spent. Throws InputError when there was no node.
  [[nodiscard]] Trace finish(const chakra_et::Metadata&, std::string_view format, std::string_view producer,
                             std::uint64_t bytes);

 private:
  struct NodeFacts {
    std::uint64_t id = 0;
    std::uint32_t event = no_index;
    std::uint32_t first_data = 0, first_control = 0;  ///< in data_ids_, control_ids_; they end where the next begin
    bool launches = false;                            ///< on a host thread
  };

  [[nodiscard]] std::int64_t duration_of(const chakra_et::Node&);
  void place(const chakra_et::Node&, Event&);
  [[nodiscard]] std::uint32_t collective_of(const chakra_et::Node&, chakra_et::Schema);
  void add_groups(const chakra_et::Node&);
  void resolve(DependencyKind, const std::vector<std::uint64_t>& ids, std::uint32_t NodeFacts::*first);
  void link_launches();
  void lay_out();
  void report(const chakra_et::Metadata&);

  bool strict_;
  TraceDraft draft_;
  std::vector<NodeFacts> nodes_;
  std::unordered_map<std::uint64_t, std::uint32_t> by_id_;
  std::vector<std::uint64_t> data_ids_, control_ids_;
  std::size_t with_start_ = 0, with_duration_ = 0, zero_ = 0, exact_ = 0, no_place_ = 0, unknown_collectives_ = 0,
              unsized_ = 0, communication_ = 0, unresolved_ = 0, duplicates_ = 0, too_long_ = 0;
};

}  // namespace stepcast
