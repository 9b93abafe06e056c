// Nsight Systems: the SQLite export of a report (nsys export --type sqlite), plain or gzip.
//
//   CUPTI_ACTIVITY_KIND_RUNTIME   start end globalTid correlationId nameId
//   CUPTI_ACTIVITY_KIND_KERNEL    start end deviceId contextId streamId correlationId globalPid demangledName
//   NVTX_EVENTS                   start end eventType text textId globalTid
//   StringIds                     id value
//
// Integer nanoseconds since the start of the session. A table exists only where the report has such events, a column
// only where the version writes it; there are no indices. A process is globalTid >> 24 (24 bits of pid, above them the
// machine), a thread its low 24 bits. Several processes give several traces. The gzip form needs the plain bytes in
// memory; a plain file is read where it lies. Written by nsys; the schema is the appendix of its user guide.
#include <stepcast/base/error.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/encodings/json_text.hpp>
#include <stepcast/encodings/sqlite_tables.hpp>
#include <stepcast/formats/nsys/nsys_process.hpp>
#include <stepcast/formats/shared/format.hpp>
#include <stepcast/trace/steps.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

namespace stepcast::format::nsys {
namespace {

constexpr std::int64_t latest_ns = std::int64_t{1} << 60;  ///< 36 years; sums of two stay in range
constexpr std::int64_t thread_mask = 0xffffff;

bool recognises(std::string_view head) { return head.starts_with(std::string_view("SQLite format 3\0", 16)); }

std::string_view copy_direction(std::int64_t kind) {
  constexpr std::array<std::string_view, 14> names = {"",     "HtoD",     "DtoH",     "HtoA",    "AtoH",
                                                      "AtoA", "AtoD",     "DtoA",     "DtoD",    "HtoH",
                                                      "PtoP", "UVM HtoD", "UVM DtoH", "UVM DtoD"};
  return kind > 0 && kind < static_cast<std::int64_t>(names.size()) ? names[static_cast<std::size_t>(kind)] : "";
}

std::string_view memory_kind(std::int64_t kind) {
  constexpr std::array<std::string_view, 5> names = {"Pageable", "Pinned", "Device", "Array", "Managed"};
  return kind >= 0 && kind < static_cast<std::int64_t>(names.size()) ? names[static_cast<std::size_t>(kind)]
                                                                     : "Unknown";
}

class NsysReader {
 public:
  NsysReader(const Source& source, const ReadOptions& options)
      : source_(source), options_(options), database_(source.name, source.bytes) {}

  Reading read() {
    require_report();
    read_origin();
    read_strings();
    read_calls();
    for (const char* table : {"KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE"}) read_device_work(table);
    read_event_ids("CUPTI_ACTIVITY_KIND_CUDA_EVENT", &NsysProcess::add_record);
    read_event_ids("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", &NsysProcess::add_synchronization);
    read_ranges();
    read_thread_names();
    read_overhead();
    read_ranks();
    return result();
  }

 private:
  void require_report() const {
    refuse_relatives();
    for (const std::string& table : database_.tables())
      if (table.starts_with("CUPTI_ACTIVITY_KIND_") || table == "NVTX_EVENTS") return;
    std::string found = "an SQLite database with the tables ";
    for (std::size_t i = 0; i < std::min<std::size_t>(5, database_.tables().size()); ++i)
      found += (i > 0 ? ", " : "") + database_.tables()[i].substr(0, 40);
    if (database_.tables().empty()) found = "an SQLite database without tables";
    throw InputError(source_.name, "an Nsight Systems export with CUDA or NVTX events", found,
                     "record with nsys profile --trace=cuda,nvtx and export with --type sqlite");
  }

  /// Databases of other profilers, of which some have tables of the same names with other columns.
  void refuse_relatives() const {
    if (database_.has("StringTable") && !database_.has("StringIds"))
      throw InputError(source_.name, "an Nsight Systems export", "the database of nvprof or the Visual Profiler",
                       "record with nsys profile --trace=cuda,nvtx and export with --type sqlite");
    for (const std::string& table : database_.tables())
      if (table.starts_with("rocpd_"))
        throw InputError(source_.name, "an Nsight Systems export", "the rocpd database of rocprofv3",
                         "trace with rocprofv3 --output-format json");
  }

  // ---- one table each ----

  void read_origin() {
    std::string product, schema;
    for (const char* table : {"EXPORT_META_DATA", "META_DATA_EXPORT"}) {  // older and newer versions
      SqliteRows meta(database_, table, {"name", "value"});
      while (meta.next()) {
        if (meta.text(0) == "EXPORT_PRODUCT_VERSION") product = " " + std::string(meta.text(1).substr(0, 40));
        if (meta.text(0) == "EXPORT_SCHEMA_VERSION") schema = ", schema " + std::string(meta.text(1).substr(0, 40));
      }
      note_damage(meta, table);
    }
    producer_ = "Nsight Systems" + product + " (SQLite export" + schema + ")";
    SqliteRows start(database_, "TARGET_INFO_SESSION_START_TIME", {"utcEpochNs"});
    if (start.next()) base_ns_ = start.integer(0, 0);
    if (base_ns_ < 0 || base_ns_ > 4 * latest_ns) base_ns_ = 0;
  }

  void read_strings() {
    SqliteRows rows(database_, "StringIds", {"id", "value"});
    while (rows.next()) {
      std::string text(rows.text(1));
      repair_utf8(text.data(), text.size());
      strings_.try_emplace(rows.integer(0), std::move(text));
    }
    note_damage(rows, "StringIds");
  }

  [[nodiscard]] std::string_view string_of(std::int64_t id) const {
    const auto found = strings_.find(id);
    return found == strings_.end() ? std::string_view() : std::string_view(found->second);
  }

  void read_calls() {
    SqliteRows rows(database_, "CUPTI_ACTIVITY_KIND_RUNTIME", {"start", "end", "globalTid", "correlationId", "nameId"});
    while (rows.next()) {
      if (!has_times(rows)) continue;
      const std::string_view name = string_of(rows.integer(4));
      process(rows.integer(2))
          .add_call(rows.integer(2) & thread_mask, time(rows, 0), time(rows, 1), rows.integer(3),
                    name.empty() ? "unnamed call" : name);
    }
    note_damage(rows, "CUPTI_ACTIVITY_KIND_RUNTIME");
  }

  void read_device_work(std::string_view kind) {
    const std::string table = "CUPTI_ACTIVITY_KIND_" + std::string(kind);
    SqliteRows rows(database_, table,
                    {"start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid", "demangledName",
                     "shortName", "copyKind", "srcKind", "dstKind", "graphId"});
    while (rows.next()) {
      if (!has_times(rows)) continue;
      // CUPTI gives a kernel whose times it could not collect the same ones for both, long before all others.
      if (rows.integer(1) < rows.integer(0) || (kind == "KERNEL" && rows.integer(1) == rows.integer(0))) {
        ++without_times_;
        continue;
      }
      NsysProcess::DeviceRecord record{time(rows, 0),      time(rows, 1),   rows.integer(2),  rows.integer(3),
                                       rows.integer(4, 0), rows.integer(5), EventKind::kernel};
      if (kind == "MEMCPY") record.kind = EventKind::copy;
      if (kind == "MEMSET") record.kind = EventKind::fill;
      const std::int64_t owner = rows.has(6) ? rows.integer(6) : only_process_;
      process(owner).add_device_work(record, device_name_of(rows, kind));
    }
    note_damage(rows, table);
  }

  std::string device_name_of(const SqliteRows& rows, std::string_view kind) {
    if (kind == "MEMSET") return "Memset (Device)";
    if (kind == "GRAPH_TRACE") return "CUDA graph " + std::to_string(rows.integer(12));
    if (kind == "MEMCPY") {
      const std::string_view direction = copy_direction(rows.integer(9));
      if (direction.empty()) return "Memcpy";
      if (!rows.has(10)) return "Memcpy " + std::string(direction);
      return "Memcpy " + std::string(direction) + " (" + std::string(memory_kind(rows.integer(10))) + " -> " +
             std::string(memory_kind(rows.integer(11))) + ")";
    }
    std::string_view name = string_of(rows.integer(7));
    if (name.empty()) name = string_of(rows.integer(8));
    unnamed_ += name.empty();
    return name.empty() ? "unnamed kernel" : std::string(name);
  }

  void read_event_ids(const char* table, void (NsysProcess::*add)(const NsysProcess::EventRecord&)) {
    SqliteRows rows(database_, table, {"deviceId", "contextId", "streamId", "correlationId", "globalPid", "eventId"});
    while (rows.next()) {
      const std::int64_t owner = rows.has(4) ? rows.integer(4) : only_process_;
      (process(owner).*add)({rows.integer(0), rows.integer(1), rows.integer(2), rows.integer(3), rows.integer(5)});
      ++events_;
    }
    note_damage(rows, table);
  }

  void read_ranges() {
    constexpr std::int64_t push_pop = 59, start_end = 60, text_push_pop = 70, text_start_end = 71;
    SqliteRows rows(database_, "NVTX_EVENTS", {"start", "end", "globalTid", "eventType", "text", "textId"});
    std::size_t unclosed = 0;
    while (rows.next()) {
      const std::int64_t type = rows.integer(3, push_pop);
      const bool nested = type == push_pop || type == text_push_pop;
      if (!nested && type != start_end && type != text_start_end) {
        ++events_;
        continue;
      }
      // Versions that write no NULL leave the end at its default.
      if (!rows.is_integer(1) || rows.integer(1) < rows.integer(0)) {
        ++unclosed;
        ++events_;
        continue;
      }
      if (!has_times(rows)) continue;
      const std::string_view text = rows.text(4).empty() ? string_of(rows.integer(5)) : rows.text(4);
      process(rows.integer(2))
          .add_range(rows.integer(2) & thread_mask, time(rows, 0), time(rows, 1), text.empty() ? "unnamed range" : text,
                     nested);
    }
    note_damage(rows, "NVTX_EVENTS");
    if (unclosed > 0) repaired_.push_back(std::to_string(unclosed) + " NVTX ranges left out: they never end");
  }

  void read_thread_names() {
    SqliteRows rows(database_, "ThreadNames", {"globalTid", "nameId"});
    while (rows.next())
      if (const auto p = processes_.find(rows.integer(0) >> 24); p != processes_.end())
        p->second->name_thread(rows.integer(0) & thread_mask, string_of(rows.integer(1)));
  }

  void read_overhead() {
    SqliteRows rows(database_, "PROFILER_OVERHEAD", {"start", "end", "globalTid", "nameId"});
    while (rows.next()) {
      if (!has_times(rows)) continue;
      if (const auto p = processes_.find(rows.integer(2) >> 24); p != processes_.end())
        p->second->add_overhead(rows.integer(2) & thread_mask, time(rows, 0), time(rows, 1),
                                string_of(rows.integer(3)));
    }
    note_damage(rows, "PROFILER_OVERHEAD");
    SqliteRows diagnostics(database_, "DIAGNOSTIC_EVENT", {"severity", "text"});
    constexpr std::int64_t warning = 2;
    constexpr std::size_t most = 3;
    while (diagnostics.next() && warnings_.size() < most) {
      if (diagnostics.integer(0) < warning) continue;
      std::string text(diagnostics.text(1).substr(0, 200));
      repair_utf8(text.data(), text.size());
      std::ranges::replace(text, '\n', ' ');
      warnings_.push_back("what the profiler warned of: " + text);
    }
  }

  void read_ranks() {
    SqliteRows rows(database_, "MPI_RANKS", {"globalTid", "rank"});
    while (rows.next())
      if (const auto p = processes_.find(rows.integer(0) >> 24); p != processes_.end() && rows.integer(1) >= 0)
        p->second->trace().rank = rows.integer(1);
  }

  struct Gpu {
    std::string name;
    std::int64_t memory = -1;
  };
  /// Device records carry the CUDA ordinal, which a process may be shown differently from others
  /// (CUDA_VISIBLE_DEVICES); older versions list the boards in that order.
  void read_gpus() {
    SqliteRows rows(database_, "TARGET_INFO_GPU", {"cuDevice", "id", "name", "totalMemory"});
    while (rows.next()) {
      const Gpu gpu{std::string(rows.text(2).substr(0, 100)), rows.integer(3)};
      boards_.try_emplace(rows.integer(1), gpu);
      ordinals_.try_emplace(rows.is_integer(0) ? rows.integer(0) : rows.integer(1), gpu);
    }
    SqliteRows devices(database_, "TARGET_INFO_CUDA_DEVICE", {"pid", "cudaId", "gpuId"});
    while (devices.next())
      if (devices.is_integer(2)) seen_as_.try_emplace({devices.integer(0), devices.integer(1)}, devices.integer(2));
  }
  [[nodiscard]] const Gpu* gpu_of(const NsysProcess& p) const {
    const auto seen = seen_as_.find({p.pid(), p.device()});
    const auto& gpus = seen == seen_as_.end() ? ordinals_ : boards_;
    const auto found = gpus.find(seen == seen_as_.end() ? p.device() : seen->second);
    return found == gpus.end() ? nullptr : &found->second;
  }

  // ---- what all tables share ----

  /// Start and end in the first two columns.
  bool has_times(const SqliteRows& rows) {
    ++events_;
    const std::int64_t start = rows.integer(0, latest_ns + 1), end = rows.integer(1, latest_ns + 1);
    const bool fine = start >= -latest_ns && start <= latest_ns && end >= -latest_ns && end <= latest_ns &&
                      end - start <= longest_slice_ns;
    without_times_ += !fine;
    return fine;
  }
  [[nodiscard]] std::int64_t time(const SqliteRows& rows, std::size_t column) const {
    return rows.integer(column) + base_ns_;
  }

  NsysProcess& process(std::int64_t global_id) {
    constexpr std::int64_t process_mask = 0xffffff;
    const std::int64_t key = global_id < 0 ? only_process_ >> 24 : global_id >> 24;
    std::unique_ptr<NsysProcess>& found = processes_[key];
    if (!found) found = std::make_unique<NsysProcess>(source_.name, key & process_mask);
    if (only_process_ == 0) only_process_ = key << 24;
    return *found;
  }

  void note_damage(const SqliteRows& rows, std::string_view table) {
    if (options_.progress) options_.progress(std::min(0.95, ++tables_read_ / 12.0));
    if (rows.damage().empty()) return;
    const std::string what = "table " + std::string(table) + " is damaged behind its row " +
                             std::to_string(rows.count()) + " (" + rows.damage() + ")";
    if (options_.strict) throw InputError(source_.name, "an undamaged SQLite file", what);
    repaired_.push_back(what + ": the rest is left out");
  }

  Reading result() {
    read_gpus();
    std::set<std::int64_t> devices;
    std::size_t with_work = 0;
    for (const auto& [key, p] : processes_) {
      if (p->device_events() == 0) continue;
      ++with_work;
      devices.insert(p->device());
    }
    idle_ = with_work > 0 ? processes_.size() - with_work : 0;
    const bool a_device_each = with_work > 1 && devices.size() == with_work;
    Reading reading;
    for (auto& [key, p] : processes_) {
      if (p->device_events() == 0 && with_work > 0) continue;
      describe(*p);
      if (a_device_each && p->trace().rank < 0) {
        p->trace().rank = p->device();
        p->trace().report.assumed.push_back("rank " + std::to_string(p->device()) + ": the process uses device " +
                                            std::to_string(p->device()) + " and every process its own");
      }
      if (with_work > 1) p->trace().source += " (process " + std::to_string(p->pid()) + ")";
      const bool works = p->device_events() > 0;
      Trace trace = p->finish();
      if (options_.strict && !trace.report.repaired.empty())
        throw InputError(source_.name, "an undamaged report", trace.report.repaired.front());
      if (works || !steps_of(trace).empty()) reading.traces.push_back(std::move(trace));
    }
    if (reading.traces.empty())
      throw InputError(source_.name, "CUDA kernels, or NVTX ranges of training steps",
                       std::to_string(events_) + " events, but neither", "record with nsys profile --trace=cuda,nvtx");
    if (options_.progress) options_.progress(1);
    return reading;
  }

  void describe(NsysProcess& p) {
    Trace& trace = p.trace();
    if (const Gpu* gpu = gpu_of(p)) {
      trace.device_name = gpu->name;
      trace.device_memory_bytes = gpu->memory;
      trace.machine_devices = std::ssize(boards_);
    }
    if (p.device_events() > 0 && trace.device_name.empty()) trace.report.missing.push_back("the name of the device");
    if (unnamed_ > 0)
      trace.report.missing.push_back("the names of " + counted(std::int64_t(unnamed_), "kernel") +
                                     ", and so which are collectives");
    if (trace.rank < 0) trace.report.missing.push_back("rank and number of ranks");
    trace.base_ns = base_ns_;
    trace.report.format = "nsys";
    trace.report.producer = producer_;
    trace.report.bytes = database_.size();
    trace.report.events_seen = events_;
    trace.report.repaired = repaired_;
    trace.report.missing.insert(trace.report.missing.end(), warnings_.begin(), warnings_.end());
    if (idle_ > 0)
      trace.report.assumed.push_back(counted(std::int64_t(idle_), "process that puts", "processes that put") +
                                     " no work on a device: left out");
    if (without_times_ > 0)
      trace.report.repaired.push_back(std::to_string(without_times_) + " events dropped: no usable start and end");
  }

  const Source& source_;
  const ReadOptions& options_;
  SqliteDatabase database_;
  std::unordered_map<std::int64_t, std::string> strings_;
  std::map<std::int64_t, std::unique_ptr<NsysProcess>> processes_;
  std::int64_t only_process_ = 0;  ///< global id of the first process, for tables of versions that name none
  std::int64_t base_ns_ = 0;
  std::string producer_;
  std::vector<std::string> repaired_, warnings_;
  std::unordered_map<std::int64_t, Gpu> boards_, ordinals_;                ///< by number of the board, by CUDA ordinal
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> seen_as_;  ///< process and CUDA ordinal -> board
  std::uint64_t events_ = 0, without_times_ = 0, unnamed_ = 0;
  std::size_t idle_ = 0;  ///< processes without device work beside others with some
  int tables_read_ = 0;
};

Reading read(const Source& source, const ReadOptions& options) { return NsysReader(source, options).read(); }

}  // namespace

Format record() {
  return {"nsys", "Nsight Systems report exported to SQLite (*.sqlite[.gz])",
          "nsys export --type sqlite; Nsight Systems user guide, SQLite schema reference", recognises, read};
}

}  // namespace stepcast::format::nsys
