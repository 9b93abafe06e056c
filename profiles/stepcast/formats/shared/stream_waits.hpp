#pragma once
// StreamWaits: which device work a wait was for, from the ids of the events that were recorded and waited for.
//
// A record marks the work that its stream has been given so far; a stream that waits for the record starts nothing
// behind the wait before that work has ended; a host call that waits returns no earlier. What counts is the order in
// which the host made the calls. A wait is inherited: work behind a wait, or a record behind it, carries it on, so that
// an arrow from work to work (or to the waiting call) is drawn for each wait that had anything to wait for. Not
// modelled: the implicit order of the legacy default stream, events of other processes.
#include <stepcast/trace/trace.hpp>

#include <cstdint>
#include <vector>

namespace stepcast {

struct StreamCall {
  enum class Kind : std::uint8_t {
    work,         ///< `event` is device work on `stream`
    record,       ///< `marker` is recorded on `stream`
    stream_wait,  ///< `stream` waits for `marker`
    host_waits_for_event,
    host_waits_for_stream,
    host_waits_for_device,  ///< for all streams
  };
  Kind kind = Kind::work;
  std::int64_t host_ns = 0;        ///< when the host made the call
  std::int64_t device_ns = 0;      ///< start of the work: orders the work of one launch
  std::uint32_t stream = 0;        ///< any small numbers
  std::int64_t marker = -1;        ///< id of the event
  std::uint32_t event = no_index;  ///< the device work, or the host call that waits
};

struct StreamWaits {
  std::vector<Dependency> dependencies;  ///< stream_wait and host_wait
  std::size_t unresolved = 0;            ///< waits for markers of which no record is known
};

[[nodiscard]] StreamWaits stream_waits(std::vector<StreamCall> calls);

}  // namespace stepcast
