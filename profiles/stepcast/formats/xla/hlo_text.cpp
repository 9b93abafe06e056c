// HloText: brackets are counted, nothing else of the grammar is needed.
#include <stepcast/base/words.hpp>
#include <stepcast/formats/xla/hlo_text.hpp>
#include <stepcast/trace/event_names.hpp>

#include <algorithm>
#include <cctype>
#include <charconv>

namespace stepcast {
namespace {

/// The length of the bracket at the beginning of the text, both ends included; npos where it stays open.
std::size_t bracket_length(std::string_view text) {
  std::size_t depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '(' || text[i] == '{' || text[i] == '[') ++depth;
    if ((text[i] == ')' || text[i] == '}' || text[i] == ']') && --depth == 0) return i + 1;
  }
  return std::string_view::npos;
}

/// The second element of "(a, b, ...)"; empty where there is none.
std::string_view second_element(std::string_view tuple) {
  std::size_t depth = 0, commas = 0, from = 0;
  for (std::size_t i = 0; i < tuple.size(); ++i) {
    const char c = tuple[i];
    if (c == '(' || c == '{' || c == '[') ++depth;
    const bool ends = depth == 1 && (c == ',' || i + 1 == tuple.size());
    if (ends && ++commas == 2) return tuple.substr(from, i - from);
    if (ends) from = i + 1;
    if ((c == ')' || c == '}' || c == ']') && depth > 0) --depth;
  }
  return {};
}

struct Sum {
  std::string_view type;
  std::int64_t elements = -1;
};

/// The elements of all shapes in the text, "f32[5,1024]{1,0}", if they are of one type.
Sum sum_of_shapes(std::string_view text) {
  Sum sum;
  for (std::size_t open = text.find('['); open != std::string_view::npos; open = text.find('[', open + 1)) {
    std::size_t first = open;
    while (first > 0 && std::isalnum(static_cast<unsigned char>(text[first - 1]))) --first;
    const std::string_view type = text.substr(first, open - first);
    if (type.empty() || (!sum.type.empty() && type != sum.type)) return {};
    std::int64_t product = 1;
    const char* at = text.data() + open + 1;
    for (const char* const end = text.data() + text.size(); at < end && *at != ']';) {
      std::int64_t dimension = 0;
      const auto [next, error] = std::from_chars(at, end, dimension);
      if (error != std::errc() || dimension < 0 || __builtin_mul_overflow(product, dimension, &product)) return {};
      at = next < end && *next == ',' ? next + 1 : next;
    }
    sum.type = type;
    if (__builtin_add_overflow(std::max<std::int64_t>(sum.elements, 0), product, &sum.elements)) return {};
  }
  return sum;
}

/// "all-gather-start.2.remat" -> "all-gather-start".
std::string_view without_number(std::string_view name) { return name.substr(0, name.find('.')); }

}  // namespace

HloInstruction hlo_instruction(std::string_view text) {
  HloInstruction out;
  const std::size_t equals = text.find(" = ");
  if (equals == std::string_view::npos) return out;
  out.name = text.substr(0, equals);
  if (out.name.starts_with('%')) out.name.remove_prefix(1);
  std::string_view rest = text.substr(equals + 3);
  const std::size_t type_end = rest.starts_with('(') ? bracket_length(rest) : rest.find(' ');
  if (type_end == std::string_view::npos) return out;
  out.result = rest.substr(0, type_end);
  rest = trimmed(rest.substr(type_end));
  const std::size_t open = rest.find('(');
  if (open == std::string_view::npos) return out;
  out.opcode = rest.substr(0, open);
  // Profilers cut long texts off: operands that are not all there are none.
  if (const std::size_t length = bracket_length(rest.substr(open)); length != std::string_view::npos)
    out.operands = rest.substr(open, length);
  return out;
}

HloPart hlo_part(std::string_view name, const HloInstruction& instruction) {
  for (const std::string_view said : {without_number(name), instruction.opcode}) {
    if (said.ends_with("-start")) return HloPart::start;
    if (said.ends_with("-done")) return HloPart::done;
  }
  return HloPart::whole;
}

std::string hlo_collective(std::string_view name) {
  if (name.starts_with('%')) name.remove_prefix(1);
  if (name.starts_with("nccl") || name.starts_with("rccl")) return naming::collective_operation(name);
  if (without_number(name) == "async-collective-start") return "collective";
  if (!starts_with_any(name, {"all-reduce", "reduce-scatter", "all-gather", "all-to-all", "ragged-all-to-all",
                              "collective-permute", "collective-broadcast"}))
    return "";
  if (name.find("-done") != std::string_view::npos) return "";
  return naming::collective_operation(name);
}

std::string tensorflow_collective(std::string_view name) {
  if (const std::size_t colon = name.rfind(':'); colon != std::string_view::npos) name.remove_prefix(colon + 1);
  if (name.starts_with("CollectiveReduceScatter")) return "reducescatter";
  if (name == "NcclAllReduce" || name.starts_with("CollectiveReduce")) return "allreduce";
  if (name.starts_with("CollectiveGather")) return "allgather";
  if (name.starts_with("CollectiveBcast") || name.starts_with("NcclBroadcast")) return "broadcast";
  if (name.starts_with("CollectiveAllToAll")) return "alltoall";
  return "";
}

HloElements hlo_elements(const HloInstruction& instruction) {
  // What a start gives is its operands, then the result, then room for marks; only all-reduce-start gives the result.
  std::string_view result = instruction.result;
  if (instruction.opcode.ends_with("-start") && instruction.opcode != "all-reduce-start" && result.starts_with('('))
    result = second_element(result);
  const Sum out = sum_of_shapes(result), in = sum_of_shapes(instruction.operands);
  HloElements elements;
  elements.type = out.type;
  elements.out = out.elements;
  if (in.type == out.type) elements.in = in.elements;
  return elements;
}

}  // namespace stepcast
