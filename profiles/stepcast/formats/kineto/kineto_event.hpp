#pragma once
// KinetoEvent: one entry of traceEvents as the raw JSON text of the fields that matter, and the walk that finds them.
//
// Nothing is copied or converted: every field is a view into the window that is being walked, valid while the sink
// looks at it. Not modelled: arguments that no later stage asks for (grid, block, registers, occupancy).
#include <stepcast/encodings/json_text.hpp>

#include <cstddef>
#include <memory>
#include <string_view>

namespace stepcast {

/// What most entries have.
struct KinetoFields {
  using Text = std::string_view;  ///< raw JSON of a value, quotes included; empty: absent
  Text phase, category, name, process, thread, start, duration, id;
  Text correlation, external_id, sequence, forward_thread, record_function, device, stream, shapes, types;
  Text label;  ///< args.name of metadata
};

struct KinetoEvent : KinetoFields {
  /// Arguments that few events have; empty without being cleared unless `has_rare`.
  struct Rare {
    Text collective, dtype, in_elements, out_elements, in_split, out_split, collective_sequence;
    Text group, group_description, group_size, ranks, first_rank, rank_stride, rank, source_rank, destination_rank;
    Text sync_kind, waited_stream, waited_record;  ///< for cuda_sync: which stream, which record of an event
    Text bytes, memory_of;                         ///< an allocation, and the kind of device
    Text event_rank;                               ///< "rank": of the whole event, in merged files
  };
  Rare rare;
  bool has_rare = false;

  [[nodiscard]] Text* rare_field(Text Rare::*field) {
    has_rare = true;
    return &(rare.*field);
  }
  /// Empty again, for the next entry; what is rare is seldom worth clearing.
  void clear() {
    static_cast<KinetoFields&>(*this) = KinetoFields();
    if (has_rare) rare = Rare();
    has_rare = false;
  }
};

/// Receives the events of a walk.
class KinetoSink {
 public:
  virtual ~KinetoSink() = default;
  virtual void add(const KinetoEvent&) = 0;
};

enum class WalkEnd {
  window,   ///< every event up to the end of the window was read
  closed,   ///< the array ended inside the window; `next` is behind its bracket
  broken,   ///< the event at `next` cannot be read
  invalid,  ///< nothing was read: not UTF-8, control characters in a string, or a string without an end
};
struct Walk {
  WalkEnd end;
  std::size_t next;  ///< offset into the window
};

/// The parser with its memory; reused from window to window.
class KinetoWalker {
 public:
  KinetoWalker();
  ~KinetoWalker();
  KinetoWalker(const KinetoWalker&) = delete;
  KinetoWalker& operator=(const KinetoWalker&) = delete;
  /// Walks the events in `window`, separated by commas; the window is copied first.
  Walk walk(std::string_view window, KinetoSink& sink);

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace stepcast
