// The text form of task edits:
//
//   edits = edit { "+" edit }                 edit: a spec (spec_reader.hpp) named scale, remove, insert or network
#include <stepcast/base/spec_reader.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/replay/edits/task_edits.hpp>

#include <array>

namespace stepcast {
namespace {

using Names = std::vector<std::string>;

const Names primitives{"scale", "remove", "insert", "network"};
const Names kinds{"host", "device", "transfer", "gap", "latency", "turn_around"};
const Names phases{"before", "forward", "backward", "after"};
constexpr SpecNames edit_names{.name = "scale, remove, insert or network, such as 'scale(name=*gemm*, by=0.5)'",
                               .member = "an edit",
                               .list = "there are scale, remove, insert and network"};

enum Option : std::uint8_t { name, row, kind, phase, layer, by, takes };
const Names options{"name", "row", "kind", "phase", "layer", "by", "takes"};

std::uint32_t layer_of(std::string_view text, const SpecPlace& place) {
  return static_cast<std::uint32_t>(integer_of(text, place.where(), 0, 1'000'000));
}

void read(TaskEdit& edit, std::size_t option, std::string_view value, const SpecPlace& place) {
  TaskSelection& wanted = edit.selection;
  switch (static_cast<Option>(option)) {
    case name:
      wanted.name = value;
      return;
    case row:
      wanted.row = value;
      return;
    case kind:
      wanted.kind = static_cast<TaskSelection::Kind>(choice_of(value, place, kinds));
      return;
    case phase:
      wanted.phase = static_cast<TaskSelection::When>(choice_of(value, place, phases));
      return;
    case layer: {
      const std::size_t dots = value.find("..");
      wanted.first_layer = layer_of(trimmed(value.substr(0, dots)), place);
      wanted.last_layer =
          dots == std::string_view::npos ? *wanted.first_layer : layer_of(trimmed(value.substr(dots + 2)), place);
      if (*wanted.last_layer < *wanted.first_layer)
        throw InputError(place.where(), "layers from the first to the last, such as 0..3",
                         "'" + std::string(value) + "'");
      return;
    }
    case by:
      edit.by = number_of(value, place.where());
      if (!(edit.by >= 0 && edit.by <= 1000))
        throw InputError(place.where(), "a factor from 0 to 1000", "'" + std::string(value) + "'");
      return;
    case takes:
      edit.takes = seconds_of(value, place.where());
      if (!(edit.takes > Seconds(0) && edit.takes <= Seconds(3600)))
        throw InputError(place.where(), "a time up to an hour", "'" + std::string(value) + "'");
      return;
  }
}

bool needs_quotes(std::string_view value) {
  return value.empty() || value.find_first_of(",)(\"") != std::string_view::npos || value != trimmed(value);
}

}  // namespace

std::vector<TaskEdit> task_edits_of(std::string_view text) {
  SpecReader in("edit", text);
  std::vector<TaskEdit> edits;
  do {
    const std::size_t at = in.skip();
    TaskEdit edit;
    edit.primitive = static_cast<TaskEdit::Primitive>(in.name(edit_names, primitives));
    const std::string& owner = primitives[static_cast<std::size_t>(edit.primitive)];
    const std::vector<bool> given = in.options(
        owner, options,
        [&](std::size_t option, std::string_view value, const SpecPlace& place) { read(edit, option, value, place); });
    const auto says = [&](Option o) { return o < given.size() && given[o]; };
    const bool network = edit.primitive == TaskEdit::Primitive::network;
    const bool scales = edit.primitive == TaskEdit::Primitive::scale || network;
    const bool inserts = edit.primitive == TaskEdit::Primitive::insert;
    if (network && edit.selection != TaskSelection{})
      in.refuse(at, "'network' of all collectives, which takes by= alone", "a choice of tasks");
    if (!network && edit.selection == TaskSelection{})
      in.refuse(at, "which tasks: name=, row=, kind=, phase= or layer=", "'" + owner + "' of all tasks");
    if (network && !(edit.by > 0)) in.refuse(at, "a bandwidth above zero", "by=0 in 'network'");
    if (says(by) != scales)
      in.refuse(at, scales ? "a factor, such as by=0.5" : "by= in scale and network alone",
                scales ? "none" : "by= in '" + owner + "'");
    if (says(takes) != inserts)
      in.refuse(at, inserts ? "a time, such as takes=50 us" : "takes= in insert alone",
                inserts ? "none" : "takes= in '" + owner + "'");
    edits.push_back(std::move(edit));
  } while (in.take('+'));
  in.require_end("the end of the edits, '(' or '+'");
  return edits;
}

std::string text_of(const TaskEdit& edit) {
  std::string inner;
  const auto add = [&](Option option, const std::string& value) {
    inner += (inner.empty() ? "" : ", ") + options[option] + "=" + (needs_quotes(value) ? "\"" + value + "\"" : value);
  };
  const TaskSelection& s = edit.selection;
  if (!s.name.empty()) add(name, s.name);
  if (!s.row.empty()) add(row, s.row);
  if (s.kind) add(kind, kinds[static_cast<std::size_t>(*s.kind)]);
  if (s.phase) add(phase, phases[static_cast<std::size_t>(*s.phase)]);
  if (s.first_layer)
    add(layer, *s.first_layer == *s.last_layer ? std::to_string(*s.first_layer)
                                               : std::to_string(*s.first_layer) + ".." + std::to_string(*s.last_layer));
  if (edit.primitive == TaskEdit::Primitive::scale || edit.primitive == TaskEdit::Primitive::network)
    add(by, exact_text_of(edit.by));
  if (edit.primitive == TaskEdit::Primitive::insert) add(takes, exact_text_of(edit.takes));
  return primitives[static_cast<std::size_t>(edit.primitive)] + "(" + inner + ")";
}

}  // namespace stepcast
