// StreamWaits: the calls replayed in host order, with what every stream and every marker stands for at that time.
#include <stepcast/formats/shared/stream_waits.hpp>

#include <algorithm>
#include <tuple>
#include <unordered_map>

namespace stepcast {
namespace {

/// The last work of a stream that something waits for; later work of the same stream includes earlier work.
struct Mark {
  std::uint32_t stream = 0;
  std::uint32_t order = 0;  ///< position among the calls
  std::uint32_t event = no_index;
};
using Marks = std::vector<Mark>;  ///< one for each stream at most

void include(Marks& marks, const Mark& mark) {
  for (Mark& known : marks) {
    if (known.stream != mark.stream) continue;
    if (known.order < mark.order) known = mark;
    return;
  }
  marks.push_back(mark);
}

struct Stream {
  Mark last;             ///< event == no_index: nothing yet
  Marks pending;         ///< what the next work has to wait for
  Marks passed;          ///< what earlier work of the stream has waited for already
  bool awaited = false;  ///< the host has waited for `last`: to wait for the whole device adds nothing
};

class Replay {
 public:
  StreamWaits result(std::vector<StreamCall> calls) {
    std::ranges::stable_sort(calls, {}, [](const StreamCall& c) { return std::tuple(c.host_ns, c.device_ns); });
    for (std::uint32_t i = 0; i < calls.size(); ++i) take(calls[i], i);
    return std::move(out_);
  }

 private:
  Stream& stream(std::uint32_t number) {
    if (number >= streams_.size()) streams_.resize(number + 1);
    return streams_[number];
  }

  void take(const StreamCall& call, std::uint32_t order) {
    using Kind = StreamCall::Kind;
    switch (call.kind) {
      case Kind::work:
        work(call, order);
        break;
      case Kind::record:
        markers_[call.marker] = reached(stream(call.stream));
        break;
      case Kind::stream_wait:
        if (const Marks* marks = marks_of(call.marker))
          for (const Mark& mark : *marks)
            if (mark.stream != call.stream) include(stream(call.stream).pending, mark);
        break;
      case Kind::host_waits_for_event:
        if (const Marks* marks = marks_of(call.marker))
          for (const Mark& mark : *marks) host_waits(mark, call.event);
        break;
      case Kind::host_waits_for_stream:
        for (const Mark& mark : reached(stream(call.stream))) host_waits(mark, call.event);
        break;
      case Kind::host_waits_for_device:
        for (Stream& s : streams_)
          if (s.last.event != no_index && !s.awaited) host_waits(s.last, call.event);
        break;
    }
  }

  void work(const StreamCall& call, std::uint32_t order) {
    Stream& s = stream(call.stream);
    for (const Mark& mark : s.pending) {
      const bool known = std::ranges::any_of(
          s.passed, [&](const Mark& p) { return p.stream == mark.stream && p.order >= mark.order; });
      if (!known) out_.dependencies.push_back({mark.event, call.event, DependencyKind::stream_wait});
      include(s.passed, mark);
    }
    s.pending.clear();
    s.last = {call.stream, order, call.event};
    s.awaited = false;
  }

  static Marks reached(const Stream& s) {
    Marks marks = s.pending;
    if (s.last.event != no_index) include(marks, s.last);
    return marks;
  }

  const Marks* marks_of(std::int64_t marker) {
    const auto found = markers_.find(marker);
    if (found != markers_.end()) return &found->second;
    ++out_.unresolved;
    return nullptr;
  }

  void host_waits(const Mark& mark, std::uint32_t call) {
    Stream& s = stream(mark.stream);
    if (s.last.order == mark.order) s.awaited = true;
    out_.dependencies.push_back({mark.event, call, DependencyKind::host_wait});
  }

  std::vector<Stream> streams_;
  std::unordered_map<std::int64_t, Marks> markers_;
  StreamWaits out_;
};

}  // namespace

StreamWaits stream_waits(std::vector<StreamCall> calls) { return Replay().result(std::move(calls)); }

}  // namespace stepcast
