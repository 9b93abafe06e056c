// Chakra export: selection, pieces of host time, dependencies, nodes.
#include <stepcast/anatomy/traced_collectives.hpp>
#include <stepcast/base/error.hpp>
#include <stepcast/documents/chakra_export.hpp>
#include <stepcast/formats/chakra/chakra.hpp>
#include <stepcast/trace/steps.hpp>
#include <stepcast/trace/trace_index.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>

namespace stepcast {
namespace {

using chakra_et::NodeType;

/// A node to be: an event, or a piece of the self time of one.
struct Piece {
  std::uint32_t event = no_index;
  std::int64_t start_ns = 0, duration_ns = 0;
  bool communication = false;
  std::vector<std::uint32_t> after;  ///< other pieces, until `numbered` in order of position

  [[nodiscard]] std::int64_t end_ns() const { return start_ns + duration_ns; }
};

struct Window {
  std::int64_t start_ns = std::numeric_limits<std::int64_t>::min(), end_ns = std::numeric_limits<std::int64_t>::max();
  [[nodiscard]] bool holds(std::int64_t time) const { return time >= start_ns && time < end_ns; }
};

Window window_of(const Trace& trace, std::int64_t step) {
  if (step < 0) return {};
  const std::vector<Step> steps = steps_of(trace);
  for (const Step& s : steps)
    if (s.number == step) return {s.start_ns, s.end_ns};
  std::string found = "no annotated step";
  if (steps.size() == 1) found = "step " + std::to_string(steps.front().number) + " alone";
  if (steps.size() > 1)
    found = std::to_string(steps.size()) + " steps, " + std::to_string(steps.front().number) + " to " +
            std::to_string(steps.back().number);
  throw InputError(trace.source, "step " + std::to_string(step), found);
}

bool is_host_event(EventKind kind) {
  return kind == EventKind::host_op || kind == EventKind::runtime_call || kind == EventKind::annotation;
}

std::optional<NodeType> communication_type(std::string_view operation) {
  if (operation == "send") return NodeType::send;
  if (operation == "recv") return NodeType::receive;
  for (const std::string_view name : chakra_et::collective_names)
    if (name == operation) return NodeType::collective;
  return std::nullopt;
}

class ChakraExporter {
 public:
  ChakraExporter(const Trace& trace, std::int64_t step)
      : trace_(trace), window_(window_of(trace, step)), index_(trace), collectives_(collectives_of(index_)) {}

  ChakraExport write() {
    choose_collectives();
    add_device_work();
    add_host_pieces();
    if (pieces_.empty()) throw InputError(trace_.source, "events with a duration", "none");
    order_pieces();
    connect();
    encode();
    return std::move(out_);
  }

 private:
  static constexpr std::uint32_t none = no_index;

  void choose_collectives() {
    collective_of_.assign(trace_.events.size(), none);
    for (std::uint32_t i = 0; i < collectives_.size(); ++i)
      if (collectives_[i].event != no_index) collective_of_[collectives_[i].event] = i;
  }

  [[nodiscard]] bool is_collective(std::uint32_t event) const { return collective_of_[event] != none; }

  // Device work belongs to the step that launched it.
  void add_device_work() {
    for (std::uint32_t i = 0; i < trace_.events.size(); ++i) {
      const Event& e = trace_.events[i];
      if (!is_device_work(e.kind)) continue;
      const std::uint32_t launcher = index_.launcher[i];
      if (!window_.holds(launcher == no_index ? e.start_ns : trace_.events[launcher].start_ns)) continue;
      pieces_.push_back({i, e.start_ns, e.duration_ns, is_collective(i), {}});
      ends_.emplace_back(e.end_ns(), i);
    }
    std::ranges::sort(ends_);
  }

  void add_host_pieces() {
    std::vector<std::vector<std::uint32_t>> by_track(trace_.tracks.size());
    for (std::uint32_t i = 0; i < trace_.events.size(); ++i) {
      const Event& e = trace_.events[i];
      if ((is_host_event(e.kind) || is_collective(i)) && !is_device_work(e.kind) && window_.holds(e.start_ns))
        by_track[e.track].push_back(i);
    }
    for (const std::vector<std::uint32_t>& events : by_track) add_thread(events);
  }

  // The open events of a thread, innermost last; `cursor` is the time up to which all is given away.
  void add_thread(const std::vector<std::uint32_t>& events) {
    std::vector<std::uint32_t> open;
    std::int64_t cursor = std::numeric_limits<std::int64_t>::min();
    const auto close_until = [&](std::int64_t time) {
      while (!open.empty() && trace_.events[open.back()].end_ns() <= time) {
        give(open.back(), cursor, trace_.events[open.back()].end_ns());
        open.pop_back();
      }
    };
    std::int64_t collective_end = std::numeric_limits<std::int64_t>::min();
    for (const std::uint32_t i : events) {
      const Event& e = trace_.events[i];
      if (e.end_ns() <= collective_end && !is_collective(i)) continue;  // part of the collective around it
      close_until(e.start_ns);
      if (!open.empty()) give(open.back(), cursor, e.start_ns);
      if (is_collective(i)) {
        pieces_.push_back({i, e.start_ns, e.duration_ns, true, {}});
        collective_end = std::max(collective_end, e.end_ns());
        cursor = std::max(cursor, e.end_ns());
        continue;
      }
      cursor = std::max(cursor, e.start_ns);
      open.push_back(i);
      if (e.duration_ns == 0) pieces_.push_back({i, cursor, 0, false, {}});
    }
    close_until(std::numeric_limits<std::int64_t>::max());
  }

  // The time from `cursor` to `end` to an event; what a blocking call waited for the device is left out.
  void give(std::uint32_t event, std::int64_t& cursor, std::int64_t end) {
    if (end <= cursor) return;
    std::int64_t start = cursor;
    cursor = end;
    if (index_.facts(event).role == naming::Role::blocking_call) {
      const std::uint32_t awaited = last_device_work_ended_by(end);
      if (awaited != no_index && trace_.events[awaited].end_ns() > start) {
        pieces_.push_back({event, start, 0, false, {}});  // what it launches itself comes before the wait
        out_.waiting_ns += trace_.events[awaited].end_ns() - start;
        start = trace_.events[awaited].end_ns();
        awaited_.emplace_back(static_cast<std::uint32_t>(pieces_.size()), awaited);
      }
    }
    pieces_.push_back({event, start, end - start, false, {}});
  }

  [[nodiscard]] std::uint32_t last_device_work_ended_by(std::int64_t time) const {
    const auto behind = std::ranges::upper_bound(ends_, std::pair(time, no_index));
    return behind == ends_.begin() ? no_index : std::prev(behind)->second;
  }

  // Sorts the pieces by start, the host before the device, and notes where each event's first and last piece are.
  void order_pieces() {
    std::vector<std::uint32_t> order(pieces_.size()), place(pieces_.size());
    for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    const auto key = [&](std::uint32_t i) {
      return std::tuple(pieces_[i].start_ns, is_device_work(trace_.events[pieces_[i].event].kind), pieces_[i].event);
    };
    std::ranges::stable_sort(order, [&](std::uint32_t a, std::uint32_t b) { return key(a) < key(b); });
    std::vector<Piece> sorted;
    for (const std::uint32_t i : order) {
      place[i] = static_cast<std::uint32_t>(sorted.size());
      sorted.push_back(std::move(pieces_[i]));
    }
    pieces_ = std::move(sorted);
    for (auto& [piece, event] : awaited_) piece = place[piece];
    first_.assign(trace_.events.size(), none);
    last_.assign(trace_.events.size(), none);
    for (std::uint32_t i = 0; i < pieces_.size(); ++i) {
      if (first_[pieces_[i].event] == none) first_[pieces_[i].event] = i;
      last_[pieces_[i].event] = i;
    }
  }

  /// False when it would lead back in time.
  bool depend(std::uint32_t after, std::uint32_t before) {
    if (before == none || after == none || before >= after) return false;
    pieces_[after].after.push_back(before);
    return true;
  }

  void connect() {
    std::vector<std::uint32_t> previous(trace_.tracks.size(), none);
    std::uint32_t latest_host = none;  // of all host pieces so far the one that ended last, and no later than now
    order_.assign(pieces_.size(), none);
    std::vector<std::uint32_t> ended;  // host pieces by start; ends are looked up among the latest of each track
    for (std::uint32_t i = 0; i < pieces_.size(); ++i) {
      const Event& e = trace_.events[pieces_[i].event];
      const std::uint32_t before = previous[e.track];
      const bool overlaps = before != none && pieces_[before].end_ns() > pieces_[i].start_ns;
      if (!overlaps) order_[i] = before;
      if (!overlaps) depend(i, before);
      if (is_device_work(e.kind)) {
        const std::uint32_t launcher = index_.launcher[pieces_[i].event];
        if (launcher != no_index && !depend(i, last_before(launcher, i))) ++early_;
      } else if (before == none || pieces_[before].end_ns() < pieces_[i].start_ns) {
        latest_host = none;
        for (std::uint32_t track = 0; track < previous.size(); ++track) {
          const std::uint32_t other = ended_on(track, pieces_[i].start_ns, previous);
          if (track == e.track || other == none) continue;
          if (latest_host == none || pieces_[other].end_ns() > pieces_[latest_host].end_ns()) latest_host = other;
        }
        if (latest_host != none && (before == none || pieces_[latest_host].end_ns() > pieces_[before].end_ns()))
          depend(i, latest_host);
      }
      if (!overlaps || pieces_[i].end_ns() > pieces_[before].end_ns()) previous[e.track] = i;
    }
    for (const auto& [piece, event] : awaited_) depend(piece, last_[event]);
    for (const Dependency& d : trace_.dependencies) {
      if (last_[d.before] == none || first_[d.after] == none) continue;
      // A wait shows where the waiting call goes on: at its last piece.
      depend(d.kind == DependencyKind::host_wait ? last_[d.after] : first_[d.after], last_[d.before]);
    }
  }

  /// The last piece of a host track that ended by `time`, following its chain back.
  [[nodiscard]] std::uint32_t ended_on(std::uint32_t track, std::int64_t time,
                                       const std::vector<std::uint32_t>& previous) const {
    if (trace_.tracks[track].on_device) return none;
    std::uint32_t piece = previous[track];
    while (piece != none && pieces_[piece].end_ns() > time) piece = order_[piece];
    return piece;
  }

  /// The last piece of a launching event that begins before piece `i` (an operator goes on after its launch).
  [[nodiscard]] std::uint32_t last_before(std::uint32_t event, std::uint32_t i) const {
    if (first_[event] == none || first_[event] >= i) return none;
    return last_[event] < i ? last_[event] : first_[event];
  }

  void encode() {
    chakra_et::Metadata metadata;
    metadata.version = "0.0.4";
    const auto say = [&](const char* name, std::int64_t value) {
      if (value >= 0) metadata.attributes[name].number = value;
    };
    metadata.attributes["producer"].text = "stepcast";
    metadata.attributes["source"].text = trace_.source;
    say("rank", trace_.rank);
    say("world_size", trace_.world_size);
    say("host_waiting_ns", out_.waiting_ns);
    out_.bytes = chakra_et::bytes_of(metadata);
    number_groups();
    write_groups();
    const std::int64_t origin = std::ranges::min(pieces_, {}, &Piece::start_ns).start_ns;
    for (std::uint32_t i = 0; i < pieces_.size(); ++i) out_.bytes += chakra_et::bytes_of(node_of(i, origin));
    out_.nodes = pieces_.size();
    const auto remark = [&](std::size_t count, const char* what) {
      if (count > 0) out_.remarks.push_back(std::to_string(count) + " " + what);
    };
    remark(unsized_, "collectives have no size in the trace: comm_size is 0");
    remark(shared_,
           "all-gathers are sized by the shapes of their operators: comm_size is a rank's share of that, or all of it "
           "where nothing says how many ranks there are");
    remark(unknown_, "collectives of unknown kind are written as computation with an attribute unknown_collective");
    remark(early_, "pieces of device work begin before their launch: the launch is no dependency of theirs");
  }

  chakra_et::Node node_of(std::uint32_t i, std::int64_t origin) {
    Piece& piece = pieces_[i];
    const Event& e = trace_.events[piece.event];
    const Track& track = trace_.tracks[e.track];
    const bool on_device = is_device_work(e.kind);
    chakra_et::Node node;
    node.id = i + 1;
    node.name = e.kind == EventKind::annotation && !piece.communication ? "in " : "";
    node.name += trace_.text(e.name).empty() ? "unnamed" : trace_.text(e.name);
    node.type = NodeType::compute;
    const std::int64_t start = piece.start_ns - origin;
    node.start_us = static_cast<std::uint64_t>(start / 1000);
    node.duration_us = static_cast<std::uint64_t>((piece.duration_ns + 500) / 1000);
    std::ranges::sort(piece.after);
    const auto repeated = std::ranges::unique(piece.after);
    piece.after.erase(repeated.begin(), repeated.end());
    for (const std::uint32_t before : piece.after) node.data.push_back(before + 1);
    if (order_[i] != none) node.control.push_back(order_[i] + 1);
    node.attributes["is_cpu_op"].number = !on_device;
    node.attributes["start_ns"].number = start;
    node.attributes["duration_ns"].number = piece.duration_ns;
    node.attributes[on_device ? "stream" : "tid"].number = track.thread;
    if (e.record_function >= 0) node.attributes["rf_id"].number = e.record_function;
    if (e.sequence >= 0) node.attributes["seq_id"].number = e.sequence;
    if (e.forward_thread >= 0) node.attributes["fw_tid"].number = e.forward_thread;
    node.shapes = trace_.text(e.shapes);
    node.types = trace_.text(e.types);
    if (piece.communication) describe(collectives_[collective_of_[piece.event]], on_device, track, node);
    std::int64_t& sum = piece.communication ? out_.communication_ns : on_device ? out_.device_ns : out_.host_ns;
    sum += piece.duration_ns;
    return node;
  }

  void describe(const TracedCollective& collective, bool on_device, const Track& track, chakra_et::Node& node) {
    ++out_.communication_nodes;
    const std::optional<NodeType> type = communication_type(collective.operation);
    if (!type) {
      ++unknown_;
      node.attributes["unknown_collective"].number = 1;
      return;
    }
    node.type = *type;
    // The feeder takes communication of the host for an error; whose thread it was is still told.
    node.attributes["is_cpu_op"].number = 0;
    if (!on_device) node.attributes["host_thread"].number = track.thread;
    if (*type == NodeType::collective) {
      const auto* const name = std::ranges::find(chakra_et::collective_names, collective.operation);
      node.attributes["comm_type"].number = name - std::begin(chakra_et::collective_names);
    }
    constexpr std::int64_t most = std::int64_t{1} << 60;  // more is no size
    const double size = collective.size.value();
    std::int64_t in = size < double(most) ? static_cast<std::int64_t>(size) : 0, out = in;
    const CollectiveArguments* arguments = collective.arguments;
    if (collective.operation == "allgather" && collective.source == BytesSource::shapes) {
      // Shapes say what comes out.
      const std::int64_t ranks = collective.group_size > 0 ? collective.group_size : trace_.world_size;
      if (ranks > 0) in = out / ranks;
      ++shared_;
    }
    if (arguments != nullptr) {
      const Answer<DataType> dtype = data_type_of(trace_.text(arguments->dtype));
      if (dtype && arguments->in_elements >= 0 &&
          std::max(arguments->in_elements, arguments->out_elements) < most / 16) {
        const auto element = static_cast<std::int64_t>(size_of(*dtype));
        in = arguments->in_elements * element;
        out = arguments->out_elements >= 0 ? arguments->out_elements * element : in;
        node.attributes["comm_dtype"].text = trace_.text(arguments->dtype);
      }
      if (arguments->source_rank >= 0) node.attributes["comm_src"].number = arguments->source_rank;
      if (arguments->destination_rank >= 0) node.attributes["comm_dst"].number = arguments->destination_rank;
      if (const std::string group(trace_.text(arguments->group)); !group.empty()) {
        node.attributes["pg_name"].text = std::to_string(group_numbers_.at(group));
        node.attributes["pg_desc"].text = group;
      }
    }
    if (in == 0 && collective.operation != "barrier") ++unsized_;
    node.attributes["comm_size"].number = in;
    if (out != in) node.attributes["comm_out_size"].number = out;
    if (collective.group_size > 0) node.attributes["comm_group_size"].number = collective.group_size;
  }

  // ASTRA-sim knows process groups by number, and all ranks as group 0.
  void number_groups() {
    std::int64_t next = 1;
    const auto is_number = [](std::string_view text) {
      return !text.empty() && text.size() < 10 && text.find_first_not_of("0123456789") == text.npos;
    };
    for (const CollectiveArguments& arguments : trace_.collectives) {
      const std::string name(trace_.text(arguments.group));
      if (!is_number(name)) continue;
      group_numbers_[name] = std::stoll(name);
      next = std::max(next, group_numbers_[name] + 1);
    }
    for (const CollectiveArguments& arguments : trace_.collectives) {
      const std::string name(trace_.text(arguments.group));
      const bool all = name == "default_pg" || (trace_.world_size > 0 && arguments.group_size == trace_.world_size);
      if (group_numbers_.try_emplace(name, all ? 0 : next).second && !all) ++next;
    }
  }

  // Groups of fewer than all ranks are described as PyTorch's execution traces do, for a reader that simulates them.
  void write_groups() {
    nlohmann::json groups = nlohmann::json::array();
    for (const ProcessGroup& group : trace_.groups) {
      const auto number = group_numbers_.find(group.name);
      if (number == group_numbers_.end() || number->second == 0 || group.ranks.empty()) continue;
      groups.push_back({{"pg_name", std::to_string(number->second)}, {"pg_desc", group.name}, {"ranks", group.ranks}});
    }
    if (groups.empty()) return;
    chakra_et::Node node;
    node.name = "## process_group:init ##";
    node.type = NodeType::metadata;
    node.values = "['" + groups.dump() + "']";
    node.attributes["is_cpu_op"].number = 1;
    out_.bytes += chakra_et::bytes_of(node);
  }

  const Trace& trace_;
  Window window_;
  TraceIndex index_;
  std::vector<TracedCollective> collectives_;
  std::vector<std::uint32_t> collective_of_;                      ///< by event: index into collectives_
  std::vector<std::pair<std::int64_t, std::uint32_t>> ends_;      ///< of device work, sorted
  std::vector<std::pair<std::uint32_t, std::uint32_t>> awaited_;  ///< piece of a blocking call, device event
  std::vector<Piece> pieces_;
  std::vector<std::uint32_t> first_, last_;  ///< by event: its pieces
  std::vector<std::uint32_t> order_;         ///< by piece: the one before it on its track
  std::map<std::string, std::int64_t> group_numbers_;
  std::size_t unsized_ = 0, shared_ = 0, unknown_ = 0, early_ = 0;
  ChakraExport out_;
};

}  // namespace

ChakraExport chakra_export_of(const Trace& trace, std::int64_t step) { return ChakraExporter(trace, step).write(); }

}  // namespace stepcast
