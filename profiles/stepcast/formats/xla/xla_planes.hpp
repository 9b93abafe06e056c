#pragma once
// Room formats/xla: the parts of the readers of TensorFlow's and JAX's profiles.
//
//   plane /device:GPU:0 -> line "Stream #13" -> events -> kernels of one trace
//
// It may include base, encodings, trace and formats/shared.
//
// XlaPlanes: what TensorFlow's and JAX's profiler records, and the traces that it means: one for each device that
// worked.
//
// A plane is a host or a device, a line in it a thread, a stream, or a view of the same device time from higher up
// (modules, name scopes, steps). Only one line may count as work: the streams where there are streams (GPU), else the
// line "XLA Ops" (TPU), in which a loop encloses its body; all other lines become device annotations. Host lines go to
// the devices on which they launch work, others to the first device. Not modelled: the HLO graph, counters, memory, the
// cores and channels beside a device's own (SparseCores, Megascale), whose planes are left out and said to be.
//
// xla_planes.cpp takes planes in; xla_placing.cpp says which device each event belongs to.
#include <stepcast/encodings/string_table.hpp>
#include <stepcast/formats/xla/hlo_text.hpp>
#include <stepcast/trace/trace.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace stepcast {

struct XlaEvent {
  std::int64_t start_ns = 0, duration_ns = 0;
  std::int64_t correlation = -1;  ///< joins runtime calls and kernels
  std::int64_t step = -1;         ///< the number in a step annotation
  std::uint32_t line = 0;
  StringId name = 0;
  StringId operation = 0;  ///< HLO instruction ("all-reduce.5"), where that is not the name
  StringId text = 0;       ///< the text of the instruction ("%all-reduce = f32[5,1024]{...} all-reduce(...)")
};

class XlaPlanes {
 public:
  [[nodiscard]] StringId text(std::string_view text) { return strings_.id_of(text); }
  [[nodiscard]] StringId json_text(std::string_view raw) { return strings_.id_of_json(raw); }
  /// The line with these ids; made on first use. Names may come later.
  [[nodiscard]] std::uint32_t line(std::int64_t plane, std::int64_t line);
  void name_plane(std::int64_t plane, std::string_view name) { planes_[plane].name = name; }
  void name_line(std::uint32_t line, std::string_view name) { lines_[line].name = name; }
  void describe_plane(std::int64_t plane, std::string_view device, std::int64_t memory_bytes);
  void add(const XlaEvent&);
  [[nodiscard]] std::uint64_t left_out() const { return left_out_; }
  [[nodiscard]] std::size_t size() const { return events_.size(); }

  /// The traces, each with this report completed. Throws InputError when there are no events. The planes are spent.
  [[nodiscard]] std::vector<Trace> traces(std::string_view source, const ReadReport&);

 private:
  enum class LineKind : std::uint8_t { host, stream, operations, asynchronous, steps, view, unknown };
  struct Plane {
    std::string name, device;
    std::int64_t memory_bytes = -1;
    std::int64_t ordinal = -1;  ///< the number of a device
    bool on_device = false, has_streams = false, has_operations = false;
    bool apart = false;  ///< neither a device of the model nor the host: cores and channels beside them
  };
  struct Line {
    std::int64_t plane = 0, id = 0;
    std::string name;
    LineKind kind = LineKind::host;
    bool works = false;                 ///< its events occupy the device
    std::int64_t stream = -1;           ///< number of a stream
    std::vector<std::int64_t> devices;  ///< for a host line, the planes on which it launches
  };
  class Placing;

  void classify_lines();
  void assign_host_lines();
  [[nodiscard]] std::vector<std::int64_t> working_devices() const;
  /// What the text of the event says, or its name; each text is read once, because events repeat it.
  [[nodiscard]] const HloInstruction& instruction_of(const XlaEvent&);

  StringTable strings_;
  std::map<std::int64_t, Plane> planes_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::uint32_t> line_of_;
  std::vector<Line> lines_;
  std::vector<XlaEvent> events_;
  std::unordered_map<StringId, HloInstruction> instructions_;  ///< the instructions read so far, by their text
  std::uint64_t left_out_ = 0, python_frames_ = 0;
};

}  // namespace stepcast
