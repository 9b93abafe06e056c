// Tasks are selected by what the trace says of their events, and the graph is rewritten edit by edit.
#include <stepcast/anatomy/step_anatomy.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/profile/profile_whatif.hpp>
#include <stepcast/replay/calibration.hpp>
#include <stepcast/replay/edits/recorded_transfers.hpp>
#include <stepcast/replay/edits/task_edits.hpp>
#include <stepcast/schedule/graph_whatif.hpp>
#include <stepcast/schedule/schedule.hpp>

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <utility>

namespace stepcast {
namespace {

using replaying::StepGraph;
using replaying::TaskRole;
using Part = TaskRole::Part;
using Kind = TaskSelection::Kind;

std::optional<Kind> kind_of(Part part) {
  switch (part) {
    case Part::host:
      return Kind::host;
    case Part::device:
      return Kind::device;
    case Part::transfer:
      return Kind::transfer;
    case Part::gap:
    case Part::hand_over:
      return Kind::gap;
    case Part::latency:
      return Kind::latency;
    case Part::turn_around:
      return Kind::turn_around;
    case Part::point:
    case Part::inserted:
      break;
  }
  return {};
}

/// Phase and layer of the operators of a step.
class Places {
 public:
  Places(const Trace& trace, const Step& step)
      : index_(trace), operators_(step_operators(index_, window(step))), anatomy_(anatomy_of(index_, window(step))) {
    for (const AnatomyOperator& o : anatomy_.forward) layer_of_[o.event] = o.layer;
    for (const AnatomyGradient& g : anatomy_.gradients) layer_of_[g.event] = g.layer;
  }

  [[nodiscard]] bool has_backward() const { return operators_.first_backward != no_index; }
  [[nodiscard]] std::optional<TaskSelection::When> phase(std::uint32_t event) const {
    const StepOperator* o = operator_of(event);
    if (o == nullptr) return {};
    return static_cast<TaskSelection::When>(o->phase);
  }
  [[nodiscard]] std::optional<std::uint32_t> layer(std::uint32_t event) const {
    const StepOperator* o = operator_of(event);
    if (o == nullptr) return {};
    if (const auto own = layer_of_.find(o->event); own != layer_of_.end()) return own->second;
    if (o->forward == no_index) return {};
    const auto forward = layer_of_.find(operators_.list[o->forward].event);
    return forward == layer_of_.end() ? std::nullopt : std::optional(forward->second);
  }
  [[nodiscard]] std::size_t layers() const { return anatomy_.layers.size(); }

 private:
  static StepWindow window(const Step& step) { return {step.start_ns, step.end_ns}; }
  [[nodiscard]] const StepOperator* operator_of(std::uint32_t event) const {
    if (event != no_index && index_.operator_of[event] == no_index) event = index_.launcher[event];
    if (event == no_index) return nullptr;
    const std::uint32_t position = operators_.position_of(index_, event);
    return position == no_index ? nullptr : &operators_.list[position];
  }

  TraceIndex index_;
  StepOperators operators_;
  StepAnatomy anatomy_;
  std::unordered_map<std::uint32_t, std::uint32_t> layer_of_;  // by event of an operator
};

/// The graph of a step while it is edited.
class Editing {
 public:
  Editing(const Trace& trace, const replaying::Calibration& calibration, StepGraph& built)
      : trace_(trace), calibration_(calibration), step_(calibration.step()), built_(built) {}

  Answer<AppliedEdit> apply(const TaskEdit& edit) {
    if (edit.primitive == TaskEdit::Primitive::network) return on_network(edit);
    if (std::string why = unknown_place(edit.selection); !why.empty()) return refused(edit, why);
    std::vector<std::uint32_t> tasks;
    for (const std::uint32_t t : selected_tasks(built_.graph, [](const Task& task) { return task.work > 0; }))
      if (matches(t, edit.selection)) tasks.push_back(t);
    if (tasks.empty()) return refused(edit, "it matches no task of step " + std::to_string(step_.number));
    AppliedEdit applied{edit, tasks.size(), work_of(tasks), {}};
    const Seconds more = edit.primitive == TaskEdit::Primitive::scale ? applied.work_before * (edit.by - 1)
                         : edit.primitive == TaskEdit::Primitive::insert
                             ? edit.takes * static_cast<double>(tasks.size())
                             : Seconds(0);
    if (is_too_long(more)) return refused(edit, too_long);
    switch (edit.primitive) {
      case TaskEdit::Primitive::scale:
        built_.graph = with_work_scaled(std::move(built_.graph), tasks, edit.by);
        applied.work_after = work_of(tasks);
        break;
      case TaskEdit::Primitive::remove:
        if (!removable(built_.graph, tasks)) return refused(edit, "the end of the step would go with it");
        remove(tasks);
        break;
      case TaskEdit::Primitive::insert:
        insert(tasks, edit.takes);
        applied.work_after = applied.work_before + edit.takes * static_cast<double>(tasks.size());
        break;
      case TaskEdit::Primitive::network:
        break;
    }
    return applied;
  }

 private:
  /// The tasks of every collective, each by what of it is sent.
  Answer<AppliedEdit> on_network(const TaskEdit& edit) {
    const RecordedTransfers transfers(TraceIndex(trace_), calibration_.steps);
    AppliedEdit applied{edit, 0, {}, {}};
    for (std::uint32_t t = 0; t < built_.graph.tasks.size(); ++t) {
      const Part part = built_.roles[t].part;
      Task& task = built_.graph.tasks[t];
      if ((part != Part::transfer && part != Part::device) || task.work == 0) continue;
      const std::optional<double> left = transfers.left(task.index, edit.by);
      if (!left) continue;
      const Seconds before = seconds_of(task.work);
      if (is_too_long(before * (*left - 1))) return refused(edit, too_long);
      ++applied.tasks;
      applied.work_before += before;
      task.work = picoseconds_of(before * *left);
      applied.work_after += seconds_of(task.work);
    }
    if (applied.tasks == 0) return refused(edit, "no collective was recorded in step " + std::to_string(step_.number));
    return applied;
  }

  static constexpr const char* too_long = "a step of it could take more than a day";
  /// With so much more work: picoseconds are counted in 64 bits.
  [[nodiscard]] bool is_too_long(Seconds more) {
    constexpr Seconds day(86400);
    if (all_work_ == Seconds(0))
      for (const Task& task : built_.graph.tasks) all_work_ += seconds_of(task.work);
    all_work_ += more;
    return !(all_work_ < day);
  }

  static Inapplicable refused(const TaskEdit& edit, const std::string& why) {
    return Inapplicable{"'" + text_of(edit) + "': " + why};
  }

  [[nodiscard]] Seconds work_of(const std::vector<std::uint32_t>& tasks) const {
    Seconds sum;
    for (const std::uint32_t t : tasks) sum += seconds_of(built_.graph.tasks[t].work);
    return sum;
  }

  /// Why phases or layers cannot be told apart; empty: they can, or nobody asks.
  std::string unknown_place(const TaskSelection& wanted) {
    if (!wanted.phase && !wanted.first_layer) return {};
    if (!places_) places_ = std::make_unique<Places>(trace_, step_);
    if (!places_->has_backward()) return "phases and layers are told by a backward pass, and the step has none";
    if (wanted.first_layer && *wanted.first_layer >= places_->layers())
      return "the step has " + counted(static_cast<std::int64_t>(places_->layers()), "layer");
    return {};
  }

  /// "thread 7", "stream 20": as in timelines.
  [[nodiscard]] std::string row_of(std::uint32_t resource) const {
    const std::uint32_t number = built_.tracks[resource];
    if (number == no_index) return built_.graph.resources[resource].name;
    return replaying::row_name(trace_, number);
  }

  [[nodiscard]] bool matches(std::uint32_t t, const TaskSelection& wanted) const {
    const TaskRole& role = built_.roles[t];
    const Task& task = built_.graph.tasks[t];
    const std::optional<Kind> kind = kind_of(role.part);
    if (!kind || (wanted.kind ? *kind != *wanted.kind : *kind > Kind::transfer)) return false;
    if (!wanted.row.empty() && !fits(row_of(task.resource), wanted.row)) return false;
    if (!wanted.name.empty()) {
      const bool own = role.name != 0 && fits(trace_.text(role.name), wanted.name);
      const bool around = role.part == Part::host && role.around != 0 && fits(trace_.text(role.around), wanted.name);
      if (!own && !around) return false;
    }
    if (wanted.phase && places_->phase(task.index) != wanted.phase) return false;
    if (!wanted.first_layer) return true;
    const std::optional<std::uint32_t> layer = places_->layer(task.index);
    return layer && *layer >= *wanted.first_layer && *layer <= *wanted.last_layer;
  }

  void remove(const std::vector<std::uint32_t>& tasks) {
    built_.graph = without_tasks(built_.graph, tasks);
    std::vector<TaskRole> roles;
    std::uint32_t begin = built_.begin;
    std::size_t gone = 0;
    for (std::uint32_t t = 0; t < built_.roles.size(); ++t) {
      if (gone < tasks.size() && tasks[gone] == t) {
        if (t < built_.begin) --begin;
        ++gone;
      } else {
        roles.push_back(built_.roles[t]);
      }
    }
    built_.roles = std::move(roles);
    built_.begin = begin;
  }

  void insert(const std::vector<std::uint32_t>& tasks, Seconds takes) {
    for (const std::uint32_t t : tasks) {
      Task task = built_.graph.tasks[t];
      TaskRole role = built_.roles[t];
      task.work = picoseconds_of(takes);
      role.part = Part::inserted;
      built_.graph = with_task_after(built_.graph, t, task);
      built_.roles.push_back(role);
    }
  }

  const Trace& trace_;
  const replaying::Calibration& calibration_;
  const Step& step_;
  StepGraph& built_;
  Seconds all_work_;  ///< of all tasks, edits included; 0: not added up yet
  std::unique_ptr<Places> places_;
};

/// The calibration step after the edits.
struct Edited {
  std::unique_ptr<replaying::Calibration> calibration;
  StepGraph graph;  ///< after the edits
  Seconds rebuilt;
  std::vector<AppliedEdit> edits;
};
Answer<Edited> edited(const Trace& trace, std::span<const TaskEdit> edits) {
  Answer<std::unique_ptr<replaying::Calibration>> calibration = replaying::calibration_of(trace);
  if (!calibration) return Inapplicable{calibration.reason()};
  Edited out{std::move(*calibration), {}, {}, {}};
  out.graph = out.calibration->taken_apart;
  out.rebuilt = schedule(out.graph.graph).iteration_time();
  Editing editing(trace, *out.calibration, out.graph);
  for (const TaskEdit& edit : edits) {
    Answer<AppliedEdit> applied = editing.apply(edit);
    if (!applied) return Inapplicable{applied.reason()};
    out.edits.push_back(std::move(*applied));
  }
  return out;
}

}  // namespace

Answer<EditedReplay> replay_after(const Trace& trace, std::span<const TaskEdit> edits) {
  Answer<Edited> after = edited(trace, edits);
  if (!after) return Inapplicable{after.reason()};
  const replaying::Calibration& calibration = *after->calibration;
  EditedReplay out;
  out.source = trace.source;
  out.step = calibration.step().number;
  out.recorded = step_durations(trace, calibration.steps)[calibration.number];
  out.rebuilt = after->rebuilt;
  out.edited = schedule(after->graph.graph).iteration_time();
  out.edits = std::move(after->edits);
  return out;
}

Answer<ReplayTimeline> replay_timeline_after(const Trace& trace, std::span<const TaskEdit> edits) {
  const Answer<Edited> after = edited(trace, edits);
  if (!after) return Inapplicable{after.reason()};
  return replaying::timeline_of(trace, *after->calibration, after->graph);
}

}  // namespace stepcast
