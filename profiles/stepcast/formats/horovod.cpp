// Horovod: the timeline that rank 0 writes of the life of every tensor, as a Chrome trace in which tensors are
// processes.
//
//   NEGOTIATE_ALLREDUCE          until every rank has said that its gradient is ready; a tick for each, named by rank
//   ALLREDUCE                    the operation, and inside it one after the other its activities:
//     WAIT_FOR_DATA, QUEUE, ...  waiting
//     MEMCPY_IN_FUSION_BUFFER    work around the transfer
//     NCCL_ALLREDUCE             the transfer itself
//
// B and E marks, E without a name; times in microseconds of a steady clock, or since a start that is given in absolute
// time. Tensors that travel together in a fusion buffer each carry the marks of the one transfer: it is counted once,
// at the first of them. Old versions write the type and shape of the tensor where the operation ends, new ones no
// sizes. The array is often left open. Written by horovod/common/timeline.cc; see docs/timeline.rst there.
#include <stepcast/base/decimal.hpp>
#include <stepcast/base/error.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/formats/shared/chrome_events.hpp>
#include <stepcast/formats/shared/chrome_writer.hpp>
#include <stepcast/formats/shared/format.hpp>
#include <stepcast/formats/shared/tensor_steps.hpp>
#include <stepcast/trace/event_names.hpp>
#include <stepcast/trace/trace_draft.hpp>

#include <algorithm>
#include <charconv>
#include <optional>

namespace stepcast::format::horovod {
namespace {

bool recognises(std::string_view head) { return chrome_writer_of(head) == ChromeWriter::horovod; }

// "NCCL_ALLREDUCE" -> "allreduce"; empty for an activity that moves nothing between workers.
std::string transfer_of(std::string_view activity) {
  for (const std::string_view backend : {"NCCL_", "MPI_", "GLOO_", "CCL_", "DDL_", "MLSL_", "ADASUM_", "HCCL_"}) {
    if (!activity.starts_with(backend)) continue;
    if (activity.ends_with("BCAST")) return "broadcast";
    return naming::collective_operation(activity.substr(backend.size()));
  }
  return "";
}

bool is_waiting(std::string_view activity) {
  return activity.starts_with("WAIT_") || activity.starts_with("INIT_") || activity == "QUEUE";
}

// "[64, 3, 7, 7]" -> 9408; nothing for text that is no shape.
std::optional<std::int64_t> elements_of_shape(std::string_view shape) {
  if (shape.size() < 2 || shape.front() != '[' || shape.back() != ']') return std::nullopt;
  std::int64_t product = 1;
  for (const char *at = shape.data() + 1, *end = shape.data() + shape.size() - 1; at < end;) {
    std::int64_t dimension = 0;
    const auto [next, error] = std::from_chars(at, end, dimension);
    if (error != std::errc() || dimension < 0 || __builtin_mul_overflow(product, dimension, &product))
      return std::nullopt;
    at = next;
    while (at < end && (*at == ',' || *at == ' ')) ++at;
  }
  return product;
}

class HorovodReader {
 public:
  HorovodReader(const Source& source, const ReadOptions& options)
      : source_(source), options_(options), repairs_(source, options), times_(source), draft_(source.name) {}

  Trace read() {
    const ChromeWalk walk =
        walk_chrome_trace(source_, options_, repairs_, {[this](const ChromeEvent& e) { add(e); }, {}});
    if (walk.events == 0)
      throw InputError(source_.name, "a Horovod timeline with tensors", "an array without events",
                       "so Horovod leaves the file when a job ends before its first collective, and on every rank but "
                       "0: give the file of rank 0 of a run that trained");
    if (draft_.size() == 0)
      throw InputError(source_.name, "a Horovod timeline with tensors", "metadata only",
                       "the job ended before its first collective, or the timeline was stopped before it");
    size_collectives();
    report(walk);
    steps_.add_to(draft_);
    return draft_.finish();
  }

 private:
  // A transfer that several tensors share.
  struct Transfer {
    std::uint64_t tensors = 1, sized = 0;
    std::int64_t elements = 0;
    StringId dtype = 0;
  };
  // What is known of a tensor while its marks go by.
  struct Tensor {
    std::uint32_t track = no_index;
    StringId name = 0;
    std::vector<std::uint32_t> transfers;  ///< of the operation that is open
    std::uint64_t begun = 0;               ///< number of the mark with which that operation began
    StringId last_ready = 0;               ///< tick of the rank that was ready last
    std::int64_t last_ready_ns = 0;
  };

  void add(const ChromeEvent& event) {
    switch (event.kind()) {
      case 'M':
        return add_metadata(event);
      case 'B':
        return begin(event);
      case 'E':
        return end(event);
      case 'X':
        return add_tick(event);
      case 'i':
      case 'I':
        return add_cycle(event);
      default:
        ++others_;
    }
  }

  Tensor& tensor_of(const ChromeEvent& event, std::int64_t& id) {
    if (!read_id(event.process, id)) id = -1;
    Tensor& tensor = tensors_[id];
    if (tensor.track == no_index) {
      tensor.track = draft_.track(id, 0, false);
      tensor.name = draft_.text("tensor " + std::to_string(id));
    }
    return tensor;
  }

  void add_metadata(const ChromeEvent& event) {
    const std::string_view start = content_of_member(event.arguments, "start_time_since_epoch_in_micros");
    if (std::int64_t base = 0;
        base_ns_ == 0 && read_microseconds(start, base) == Parsed::fine && base > 0 && base < std::int64_t{1} << 61)
      base_ns_ = base;
    const std::string_view name = content_of_member(event.arguments, "name");
    if (name.empty()) return;
    std::int64_t id = -1;
    Tensor& tensor = tensor_of(event, id);
    tensor.name = draft_.json_text(name);
    draft_.trace().tracks[tensor.track].label = tensor.name;
  }

  bool start_of(const ChromeEvent& event, std::int64_t& ns) {
    if (!times_.start(event, ns)) return false;
    ns += base_ns_;
    return true;
  }

  void begin(const ChromeEvent& event) {
    std::int64_t start = 0, id = -1;
    if (!start_of(event, start)) return;
    Tensor& tensor = tensor_of(event, id);
    const std::string_view raw = content_of(event.name);
    const StringId name = draft_.json_text(raw);
    OpenSlices::Slice& slice = open_.begin(static_cast<std::uint64_t>(id), name, start);
    if (is_full()) return;
    const std::string operation = transfer_of(draft_.text_of(name));
    ++begun_;
    if (slice.depth == 0) {
      tensor.transfers.clear();
      tensor.begun = begun_;
      if (contains_any(draft_.text_of(name), {"ALLREDUCE", "ADASUM"})) communicated(tensor, start, name);
    } else if (!operation.empty()) {
      slice.user = transfer(tensor, name, operation);
      tensor.transfers.push_back(slice.user);
    } else if (!is_waiting(draft_.text_of(name))) {
      fusing_ = 0;
    }
  }

  // The negotiation, if there is one, is when a gradient was ready; else the operation.
  void communicated(Tensor& tensor, std::int64_t start, StringId name) {
    const bool negotiation = draft_.text_of(name).starts_with("NEGOTIATE_");
    negotiated_ |= negotiation;
    if (negotiation || !negotiated_) steps_.communicated(tensor.name, start);
  }

  // Marks of one transfer that follow each other belong to tensors in one fusion buffer. What the thread that
  // negotiates writes between them (negotiations, operations that begin and wait) does not part them; work and ends do,
  // and a tensor whose operation begins when the transfer has begun is not in it.
  std::uint32_t transfer(const Tensor& tensor, StringId name, const std::string& operation) {
    if (fusing_ == name && tensor.begun < fusing_since_) {
      ++transfers_.back().tensors;
    } else {
      fusing_ = name;
      fusing_since_ = begun_;
      transfers_.emplace_back();
      CollectiveArguments arguments;
      arguments.name = draft_.text(operation);
      draft_.trace().collectives.push_back(arguments);
    }
    return static_cast<std::uint32_t>(transfers_.size() - 1);
  }

  void end(const ChromeEvent& event) {
    std::int64_t time = 0, id = -1;
    if (!start_of(event, time)) return;
    Tensor& tensor = tensor_of(event, id);
    OpenSlices::Slice slice;
    const bool known = open_.end(static_cast<std::uint64_t>(id), 0, time, slice);
    if (!known || !draft_.text_of(slice.name).starts_with("NEGOTIATE_")) fusing_ = 0;
    if (!known) return;
    if (is_full()) {
      ++draft_.trace().report.events_left_out;
      return;
    }
    Event out;
    out.start_ns = slice.start_ns;
    out.duration_ns = time - slice.start_ns;
    out.name = slice.name;
    out.track = tensor.track;
    const std::string name = draft_.text_of(slice.name);
    const bool whole_operation = slice.depth == 0 && !name.starts_with("NEGOTIATE_");
    if (whole_operation && tensor.transfers.empty() && !naming::collective_operation(name).empty()) {
      slice.user = transfer(tensor, slice.name, naming::collective_operation(name));
      tensor.transfers.push_back(slice.user);
      fusing_ = 0;
    }
    if (whole_operation) add_size(tensor, event);
    out.kind = slice.depth == 0 || is_waiting(name) ? EventKind::annotation : EventKind::host_op;
    if (slice.user != no_index) {
      const bool first = carried_.size() <= slice.user || !carried_[slice.user];
      carried_.resize(std::max<std::size_t>(carried_.size(), slice.user + 1), false);
      carried_[slice.user] = true;
      out.kind = first ? EventKind::host_op : EventKind::annotation;
      if (first) out.collective = slice.user;
    }
    keep(out);
    if (slice.depth == 0 && tensor.last_ready != 0) {
      Event tick;
      tick.kind = EventKind::annotation;
      tick.start_ns = tensor.last_ready_ns;
      tick.name = tensor.last_ready;
      tick.track = tensor.track;
      keep(tick);
      tensor.last_ready = 0;
    }
  }

  void add_size(const Tensor& tensor, const ChromeEvent& event) {
    const auto elements = elements_of_shape(content_of_member(event.arguments, "shape"));
    const std::string_view type = content_of_member(event.arguments, "dtype");
    if (!elements || type.empty()) return;
    for (const std::uint32_t i : tensor.transfers) {
      ++transfers_[i].sized;
      transfers_[i].elements += *elements;
      transfers_[i].dtype = draft_.json_text(type);
    }
  }

  // A zero-length slice during the negotiation, named by the rank that has become ready.
  void add_tick(const ChromeEvent& event) {
    std::int64_t rank = -1, start = 0, id = -1;
    if (!read_id(event.name, rank) || rank < 0 || !start_of(event, start)) {
      ++others_;
      return;
    }
    highest_rank_ = std::max(highest_rank_, rank);
    Tensor& tensor = tensor_of(event, id);
    if (rank != recent_rank_) {
      recent_rank_ = rank;
      recent_tick_ = draft_.text("rank " + std::to_string(rank) + " is ready, the last");
    }
    tensor.last_ready = recent_tick_;
    tensor.last_ready_ns = start;
  }

  void add_cycle(const ChromeEvent& event) {
    Event out;
    if (!start_of(event, out.start_ns)) return;
    out.kind = EventKind::annotation;
    out.name = draft_.json_text(content_of(event.name));
    if (cycles_ == no_index) cycles_ = draft_.track(-1, 0, false, "cycles");
    out.track = cycles_;
    keep(out);
  }

  [[nodiscard]] bool is_full() const { return draft_.size() >= most_timeline_events; }
  void keep(const Event& event) {
    if (!is_full()) draft_.add(event);
    else ++draft_.trace().report.events_left_out;
  }

  void size_collectives() {
    std::vector<CollectiveArguments>& collectives = draft_.trace().collectives;
    for (std::size_t i = 0; i < collectives.size(); ++i) {
      const Transfer& transfer = transfers_[i];
      fused_ += transfer.tensors - 1;
      collectives[i].group_size = highest_rank_ + 1 > 0 ? highest_rank_ + 1 : -1;
      if (transfer.sized != transfer.tensors) {
        ++unsized_;
        continue;
      }
      collectives[i].in_elements = collectives[i].out_elements = transfer.elements;
      collectives[i].dtype = transfer.dtype;
    }
  }

  void report(const ChromeWalk& walk) {
    Trace& trace = draft_.trace();
    ReadReport& report = trace.report;
    times_.report(repairs_);
    open_.report(repairs_);
    repairs_.count(others_, "event left out", "events left out", "not of a kind that Horovod writes");
    report.repaired = repairs_.take();
    report.format = "horovod";
    report.good_for = "when each tensor was ready, negotiated and transferred; layers need a trace of the framework";
    report.producer =
        base_ns_ > 0 ? "Horovod (times since a start that is given)" : "Horovod (times of a steady clock)";
    report.bytes = walk.bytes;
    report.events_seen = walk.events;
    report.missing.push_back("computation: operators and kernels");
    if (unsized_ > 0 && unsized_ == trace.collectives.size()) {
      report.missing.push_back("sizes of the collectives");
    } else if (unsized_ > 0) {
      report.missing.push_back("sizes of " + std::to_string(unsized_) + " of " +
                               std::to_string(trace.collectives.size()) + " collectives");
    }
    open_.report(report.missing);
    if (!walk.closed) report.assumed.push_back("the array is left open, as Horovod does while it runs");
    if (base_ns_ == 0) report.assumed.push_back("times are those of a steady clock: no other machine shares it");
    if (fused_ > 0)
      report.assumed.push_back(std::to_string(fused_) +
                               " marks of transfers that tensors share in a fusion buffer are "
                               "counted once, at the first tensor");
    say_left_out(report);
    if (highest_rank_ >= 0) {
      trace.rank = 0;
      trace.world_size = highest_rank_ + 1;
      report.assumed.push_back("written by rank 0, which negotiates; ranks up to " + std::to_string(highest_rank_) +
                               " took part");
    }
    trace.base_ns = base_ns_;
  }

  const Source& source_;
  const ReadOptions& options_;
  Repairs repairs_;
  ChromeTimes times_;
  TraceDraft draft_;
  OpenSlices open_;
  TensorSteps steps_;
  std::unordered_map<std::int64_t, Tensor> tensors_;
  std::vector<Transfer> transfers_;  ///< one for each of Trace::collectives
  std::vector<bool> carried_;        ///< transfers that an event stands for already
  StringId fusing_ = 0;              ///< the transfer whose marks are going by
  std::uint64_t begun_ = 0, fusing_since_ = 0;
  std::int64_t base_ns_ = 0, highest_rank_ = -1, recent_rank_ = -1;
  StringId recent_tick_ = 0;
  std::uint32_t cycles_ = no_index;
  bool negotiated_ = false;
  std::uint64_t others_ = 0, fused_ = 0, unsized_ = 0;
};

Reading read(const Source& source, const ReadOptions& options) {
  Reading reading;
  reading.traces.push_back(HorovodReader(source, options).read());
  return reading;
}

}  // namespace

Format record() {
  return {"horovod", "Horovod timeline (HOROVOD_TIMELINE), closed or left open",
          "horovod/common/timeline.cc; Horovod docs, Analyze Performance", recognises, read};
}

}  // namespace stepcast::format::horovod
