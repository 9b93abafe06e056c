// The task graph of a pipelined step, and what its tasks are called.
//
// A pass is a task on its device, a send a task on a link behind it; a link serves sends in the order in which its
// device made them, which is also that in which they become ready. Task::index holds pass, virtual stage and
// micro-batch.
#include <stepcast/pipeline/order.hpp>
#include <stepcast/pipeline/pipeline.hpp>

#include <array>
#include <cassert>

namespace stepcast {
namespace {

constexpr std::string_view stage_word = "stage ", link_word = " -> ";

// Virtual stages are at most stages x chunks, so that the index can be taken apart without the schedule.
std::uint32_t index_of(const PipelineShape& shape, const OrderedPass& pass) {
  const std::uint32_t places = shape.stages * shape.chunks;
  return (static_cast<std::uint32_t>(pass.slot.pass) * places + pass.virtual_stage) * shape.micro_batches +
         pass.slot.micro_batch;
}

class Lowering : public PassTaker {
 public:
  Lowering(const PipelineShape& shape, std::span<const ChunkTimes> chunk, bool overlap)
      : shape_(shape), chunk_(chunk), overlap_(overlap) {}

  void expect(std::size_t passes) override {
    builder_.reserve(2 * passes + 1, 4 * passes);
    for (std::uint32_t d = 0; d < shape_.stages; ++d)
      builder_.add_resource(
          {std::string(stage_word) + std::to_string(d), ResourceClass::compute, Discipline::parallel, 0});
    links_.assign(shape_.stages, {OrderedPass::none, OrderedPass::none});
    for (auto* tasks : {&first_, &last_, &before_}) tasks->assign(shape_.stages, OrderedPass::none);
  }

  void take(const OrderedPass& pass) override {
    assert(pass.virtual_stage < chunk_.size());
    const bool forward = pass.slot.pass == PipelinePass::forward;
    const ChunkTimes& times = chunk_[pass.virtual_stage];
    Task task;
    task.work = picoseconds_of(time_of(pass.slot.pass, times) - saved(pass, times));
    task.resource = pass.device;
    task.index = index_of(shape_, pass);
    task.kind = forward ? TaskKind::forward : TaskKind::backward;
    const std::uint32_t here = builder_.add_task(task);
    if (before_[pass.device] != OrderedPass::none) builder_.add_arc(before_[pass.device], here);
    if (pass.input != OrderedPass::none) builder_.add_arc(result_[pass.input], here);
    std::uint32_t result = here;
    if (pass.output != OrderedPass::to_none) {
      task.work = picoseconds_of(forward ? times.send_forward : times.send_backward);
      task.resource = link(pass);
      task.priority = static_cast<std::int32_t>(pass.position);
      task.kind = TaskKind::transfer;
      result = builder_.add_task(task);
      builder_.add_arc(here, result);
    }
    result_.push_back(result);
    before_[pass.device] = overlap_ ? here : result;
    if (first_[pass.device] == OrderedPass::none) first_[pass.device] = here;
    last_[pass.device] = here;
  }

  TaskGraph graph() {
    // The next step waits for the end of this one, which takes no time itself.
    const std::uint32_t end = builder_.add_task({0, 0, 0, 0, TaskKind::other, 0, 1});
    for (std::uint32_t d = 0; d < shape_.stages; ++d) {
      builder_.add_arc(last_[d], end);
      builder_.add_arc(end, first_[d], 1);
    }
    TaskGraph graph = builder_.build();
    graph.marker = end;
    graph.barrier = true;
    return graph;
  }

 private:
  static Seconds time_of(PipelinePass pass, const ChunkTimes& times) {
    switch (pass) {
      case PipelinePass::forward:
        return times.forward;
      case PipelinePass::backward:
        return times.input_gradient + times.weight_gradient;
      case PipelinePass::input_gradient:
        return times.input_gradient;
      case PipelinePass::weight_gradient:
        break;
    }
    return times.weight_gradient;
  }

  static Seconds saved(const OrderedPass& pass, const ChunkTimes& times) {
    if (!pass.beside) return {};
    return pass.slot.pass == PipelinePass::forward ? times.beside_forward : times.beside_backward;
  }

  std::uint32_t link(const OrderedPass& pass) {
    std::uint32_t& resource = links_[pass.device][pass.output];
    if (resource == OrderedPass::none)
      resource = builder_.add_resource({std::string(stage_word) + std::to_string(pass.device) + std::string(link_word) +
                                            std::to_string(pass.receiver),
                                        ResourceClass::communication, Discipline::fifo, 0});
    return resource;
  }

  PipelineShape shape_;
  std::span<const ChunkTimes> chunk_;
  bool overlap_;
  TaskGraphBuilder builder_;
  std::vector<std::array<std::uint32_t, 2>> links_;   // of each device: to the next one, to the one before
  std::vector<std::uint32_t> first_, last_, before_;  // of each device: its passes; what its next pass waits for
  std::vector<std::uint32_t> result_;                 // of each pass: the task at whose end its result has come
};

}  // namespace

Answer<TaskGraph> lowered(const PipelineSchedule& schedule, const PipelineShape& shape,
                          std::span<const ChunkTimes> chunk, bool overlap) {
  Lowering lowering(shape, chunk, overlap);
  if (std::string why = order_passes(schedule, shape, lowering); !why.empty()) return Inapplicable{std::move(why)};
  return lowering.graph();
}

PipelineTask pipeline_task(const TaskGraph& graph, const PipelineShape& shape, std::uint32_t task) {
  PipelineTask out;
  const Task& t = graph.tasks[task];
  if (task == graph.marker) {
    out.end = true;
    return out;
  }
  const std::uint32_t places = shape.stages * shape.chunks, place = t.index / shape.micro_batches;
  out.virtual_stage = place % places;
  out.slot.pass = static_cast<PipelinePass>(place / places);
  out.slot.micro_batch = t.index % shape.micro_batches;
  out.transfer = t.kind == TaskKind::transfer;
  out.from = out.to = t.resource;
  if (out.transfer) {
    const std::string& name = graph.resources[t.resource].name;
    const std::size_t arrow = name.find(link_word);
    out.from = static_cast<std::uint32_t>(std::stoul(name.substr(stage_word.size(), arrow - stage_word.size())));
    out.to = static_cast<std::uint32_t>(std::stoul(name.substr(arrow + link_word.size())));
  }
  // Chunks lie a whole row of devices apart; where that does not lead to this device, it holds the other copy's.
  out.slot.chunk = out.virtual_stage % shape.stages == out.from ? out.virtual_stage / shape.stages : 1;
  return out;
}

std::string pipeline_task_name(const TaskGraph& graph, const PipelineShape& shape, std::uint32_t task) {
  const PipelineTask t = pipeline_task(graph, shape, task);
  if (t.end) return "end of step";
  static constexpr std::array<std::string_view, 4> letters{"F", "B", "I", "W"};
  std::string name = t.transfer ? "send " : "";
  name += letters[static_cast<std::size_t>(t.slot.pass)];
  name += std::to_string(t.slot.micro_batch);
  if (shape.chunks > 1) name += " chunk " + std::to_string(t.slot.chunk);
  return name;
}

}  // namespace stepcast
