#pragma once
// Room trace: the timed events of one rank, with their names, shapes and steps.
//
//   host     |-- ProfilerStep#3 -------------------------|
//              |- aten::conv2d -|   |- aten::relu -|
//                  |cudaLaunchKernel|
//   stream             |-- kernel --|                       joined with its launch by the correlation
//
// It may include base, encodings and profile.
//
// Trace: the timed events of one rank, as a framework's profiler wrote them, in flat arrays.
//
// A trace is what a reader (format.hpp) makes of a file: host operators, runtime calls, device kernels, annotations and
// the links between them. Invariants: events are sorted by (start_ns, longer first, file order); every duration is >=
// 0; all times are integer nanoseconds on one clock; every index is in range. A trace holds what was recorded and what
// the reader had to assume, nothing derived: layers, steps and costs are the business of profile_of.hpp. Clocks of
// different ranks differ; ranks.hpp brings them together. Not modelled: Python frames (counted, then dropped), hardware
// counters, what an allocator reserves beyond what it gave out.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

/// Index into `Trace::strings`; 0 is the empty string.
using StringId = std::uint32_t;
/// "None" for every 32-bit index.
inline constexpr std::uint32_t no_index = 0xffffffffu;

enum class EventKind : std::uint8_t {
  host_op,            ///< framework operator on a host thread (cpu_op, Operator)
  runtime_call,       ///< driver or runtime API call on a host thread (cudaLaunchKernel, hipLaunchKernel, ...)
  annotation,         ///< user annotation on a host thread (ProfilerStep#N, record_function)
  kernel,             ///< device kernel, collectives included
  copy,               ///< device memory copy
  fill,               ///< device memory set
  device_annotation,  ///< the twin of an annotation on a device stream; not work
  synchronization,    ///< device-side synchronisation record (cuda_sync)
  python,             ///< Python frame; dropped by the readers unless asked for
  other,              ///< recognised as an event, not as anything above
};
[[nodiscard]] std::string_view name_of(EventKind);
/// Kernels, copies and fills: work that occupies a device stream.
[[nodiscard]] constexpr bool is_device_work(EventKind k) {
  return k == EventKind::kernel || k == EventKind::copy || k == EventKind::fill;
}

/// One host thread or one device stream.
struct Track {
  std::int64_t process = 0;  ///< pid as written; for device tracks the device index
  std::int64_t thread = 0;   ///< tid as written; for device tracks the stream
  bool on_device = false;
  StringId label = 0;  ///< textual pid/tid or thread_name metadata, if any
};

/// One duration event. Fields that the file did not hold are -1 (numbers), 0 (strings) or `no_index`.
struct Event {
  std::int64_t start_ns = 0;
  std::int64_t duration_ns = 0;
  std::int64_t correlation = -1;      ///< joins a runtime call with the device work that it launched
  std::int64_t external_id = -1;      ///< joins an operator with its runtime calls and device work
  std::int64_t sequence = -1;         ///< autograd sequence number: forward operator <-> backward node
  std::int32_t forward_thread = -1;   ///< "Fwd thread id": > 0 marks backward nodes
  std::int32_t record_function = -1;  ///< "Record function id": joins with PyTorch execution traces
  StringId name = 0;
  std::uint32_t track = 0;
  StringId shapes = 0;                  ///< raw JSON text of "Input Dims" / "Input dims", e.g. [[64,3,7,7],[]]
  StringId types = 0;                   ///< raw JSON text of "Input type"
  std::uint32_t collective = no_index;  ///< index into Trace::collectives
  EventKind kind = EventKind::other;

  [[nodiscard]] std::int64_t end_ns() const { return start_ns + duration_ns; }
};

/// What an event's arguments say of a collective; counts are elements as recorded, never bytes.
struct CollectiveArguments {
  StringId name = 0;   ///< "allreduce", "_allgather_base", ...
  StringId dtype = 0;  ///< "Float", "BFloat16", ...
  StringId group = 0;  ///< process group name
  std::int64_t in_elements = -1;
  std::int64_t out_elements = -1;
  std::int64_t group_size = -1;
  std::int64_t sequence = -1;
  StringId in_split = 0, out_split = 0;  ///< raw text of "In split size" / "Out split size", e.g. [4, 4]
  StringId ranks = 0;                    ///< raw text of "Process Group Ranks", cut after 30 by the writer
  StringId group_description = 0;
  std::int64_t source_rank = -1, destination_rank = -1;
  bool from_execution_trace = false;  ///< the counts came with the execution trace of the run (execution_trace.hpp)
};

/// Why the file says that one event waited for another; indices into Trace::events. Only what ids in the file prove:
/// launch -> device work is `Event::correlation`, order within a track needs no word, and nothing here is inferred.
enum class DependencyKind : std::uint8_t {
  stream_wait,  ///< device work before an event record -> device work behind a stream's wait for that event
  host_wait,    ///< device work -> the host call that waited for it (event or stream synchronisation)
  data,         ///< a recorded data dependency (execution traces, Chakra)
  control,      ///< a recorded control dependency
};
struct Dependency {
  std::uint32_t before = no_index, after = no_index;
  DependencyKind kind = DependencyKind::data;
};

/// What the tables of pipelined jobs say of an operation beyond its time; -1: not said.
struct OperationArguments {
  std::uint32_t event = no_index;
  std::int32_t step = -1, micro_batch = -1, chunk = -1, stage = -1, data_rank = -1, sequence = -1;
};

/// The allocator of a device or of the host gave memory out (bytes > 0) or got it back (< 0).
struct Allocation {
  std::int64_t time_ns = 0, bytes = 0;
  bool on_device = false;
};

/// A process group as the file describes it.
struct ProcessGroup {
  std::string name, description;
  std::vector<std::int64_t> ranks;  ///< complete, or empty when the file does not say
};

/// An arrow from a forward operator to the backward node that it caused: indices into Trace::events.
struct ForwardBackwardLink {
  std::uint32_t forward = no_index;
  std::uint32_t backward = no_index;
};

/// What a reader says of itself: which producer it recognised, what the file lacked, what had to be assumed, repaired.
struct ReadReport {
  std::string format;    ///< "kineto"
  std::string good_for;  ///< where it holds no training step: what such a file answers instead; may be empty
  std::string producer;  ///< "PyTorch Kineto >= 2.4 (relative ns times), CUDA runtime 12.6"
  std::vector<std::string> missing;       ///< "input shapes", "sequence numbers", ...
  std::vector<std::string> assumed;       ///< "ts are microseconds", ...
  std::vector<std::string> repaired;      ///< "truncated tail: 1 event dropped", ...
  std::uint64_t bytes = 0;                ///< plain (decompressed) bytes read
  std::uint64_t events_seen = 0;          ///< all entries of traceEvents
  std::uint64_t events_unclassified = 0;  ///< entries with a duration whose category was not known
  std::int64_t unclassified_ns = 0;       ///< their summed duration
  std::uint64_t python_frames = 0;        ///< dropped Python frames
  std::uint64_t events_left_out = 0;      ///< intact events outside the steps that were kept to bound the memory
};

class KernelTable;

struct Trace {
  std::string source;  ///< file name or other origin, for messages
  std::vector<Event> events;
  std::vector<Track> tracks;
  std::vector<std::string> strings{std::string()};
  std::vector<CollectiveArguments> collectives;
  std::vector<ForwardBackwardLink> forward_backward;
  std::vector<Dependency> dependencies;
  std::vector<OperationArguments> operations;  ///< sorted by event
  std::vector<ProcessGroup> groups;
  std::vector<Allocation> allocations;  ///< sorted by time; none for files with several ranks
  std::string device_name;              ///< first entry of deviceProperties; empty: no device or not said
  std::int64_t device_memory_bytes = -1;
  std::int64_t machine_devices = -1;  ///< that the traced process sees (entries of deviceProperties); -1: not said
  std::int64_t rank = -1;             ///< from distributedInfo, else -1
  std::int64_t world_size = -1;
  std::string backend;       ///< "nccl", "gloo", ...
  std::int64_t base_ns = 0;  ///< added to the recorded times already (baseTimeNanoseconds)
  ReadReport report;
  std::shared_ptr<const KernelTable> kernels;  ///< what kernel names mean (kernel_table.hpp); null: the shipped table

  [[nodiscard]] std::string_view text(StringId id) const { return strings[id]; }
};
/// What its device work ran on, "unknown device" where the trace does not say; empty: it has none, and the host
/// computed.
[[nodiscard]] std::string device_of(const Trace&);

}  // namespace stepcast
