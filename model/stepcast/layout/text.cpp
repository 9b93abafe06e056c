// The text form of a layout before a plan:
//
//   layout plan = [ "layout" [ "(" field { "," field } ")" ] "/" ] plan
//               | ( "fsdp" | "hsdp" | "zero1" | "zero2" | "zero3" ) [ "(" field { "," field } ")" ] [ "/" plan ]
//   field       = "tp=8" | "order=tp-dp-pp" | "stages=3+4+4+3" | "sp=on" | "units=tp4+16*tp1-zero3-full" | ...
//
// A dimension that `order` leaves out stays right of its left neighbour in the standard order. What is written as the
// default ("scheme=1d") reads as nothing, so that a value has one text. What frameworks call sharded data parallelism
// stands for a layout of that ZeRO stage, and for DDP's buckets where no plan follows: "fsdp" is "layout(zero=3)/ddp",
// "hsdp" is "layout(zero=3, shard=machine)/ddp".
#include <stepcast/base/spec_reader.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/layout/layout.hpp>
#include <stepcast/layout/tensor_scheme.hpp>
#include <stepcast/pipeline/pipeline.hpp>
#include <stepcast/plan/text.hpp>

#include <algorithm>
#include <array>
#include <cctype>

namespace stepcast {
namespace {

constexpr std::string_view keyword = "layout", machine = "machine";
constexpr std::int64_t most = 1'000'000'000;
using Names = std::vector<std::string>;

std::string quoted(std::string_view s) { return "'" + std::string(s) + "'"; }

/// The parts of "3+4+4+3" between `separator`s, with where they stand.
template <class Each>
void for_each_part(std::string_view value, SpecPlace place, char separator, const Each& each) {
  const std::size_t start = place.at;
  for (std::size_t at = 0; at <= value.size();) {
    const std::size_t end = std::min(value.find(separator, at), value.size());
    const std::string_view part = trimmed(value.substr(at, end - at));
    place.at = start + (part.empty() ? at : static_cast<std::size_t>(part.data() - value.data()));
    each(part, place);
    at = end + 1;
  }
}

/// The standard order with the dimensions that are named first to last; those left out follow their left neighbour.
std::array<Dimension, dimension_count> order_of(std::string_view value, const SpecPlace& place) {
  static constexpr auto standard = Layout{}.order;
  const Names names = {"tp", "cp", "dp", "pp"};
  std::vector<Dimension> order;
  for_each_part(value, place, '-', [&](std::string_view part, const SpecPlace& here) {
    const auto d = static_cast<Dimension>(choice_of(part, here, names));
    if (std::find(order.begin(), order.end(), d) != order.end())
      throw InputError(here.column(), "each dimension once", quoted(part) + " again");
    order.push_back(d);
  });
  for (std::size_t i = 0; i < dimension_count; ++i) {
    if (std::find(order.begin(), order.end(), standard[i]) != order.end()) continue;
    const auto left = i == 0 ? order.end() : std::find(order.begin(), order.end(), standard[i - 1]);
    order.insert(left == order.end() ? order.begin() : left + 1, standard[i]);
  }
  std::array<Dimension, dimension_count> out{};
  std::copy(order.begin(), order.end(), out.begin());
  return out;
}

bool on(std::string_view value, const SpecPlace& place) { return choice_of(value, place, Names{"off", "on"}) == 1; }
std::string on_text(bool value) { return value ? "on" : "off"; }

/// A field of the text: how it is read into a layout and written from one (empty: as the default).
struct Field {
  std::string_view name, summary;
  void (*read)(Layout&, std::string_view value, const SpecPlace&);
  std::string (*text)(const Layout&);
  bool is_number = false;
};

template <std::int64_t Layout::*member, std::int64_t standard, std::int64_t low = 1>
constexpr Field count(std::string_view name, std::string_view summary) {
  return {name, summary,
          [](Layout& l, std::string_view value, const SpecPlace& place) {
            l.*member = integer_of(value, place.where(), low, most);
          },
          [](const Layout& l) { return l.*member == standard ? std::string() : std::to_string(l.*member); }, true};
}
template <bool Layout::*member, bool standard>
constexpr Field toggle(std::string_view name, std::string_view summary) {
  return {name, summary,
          [](Layout& l, std::string_view value, const SpecPlace& place) { l.*member = on(value, place); },
          [](const Layout& l) { return l.*member == standard ? std::string() : on_text(l.*member); }};
}

/// A count of neighbouring ranks, or those of a machine.
template <std::int64_t Layout::*member>
constexpr Field group(std::string_view name, std::string_view summary) {
  return {name, summary,
          [](Layout& l, std::string_view value, const SpecPlace& place) {
            const Names words{std::string(machine)};
            const bool is_count = !value.empty() && std::isdigit(static_cast<unsigned char>(value.front())) != 0;
            if (!is_count && value != machine)
              throw InputError(place.where(), "a whole number of ranks, or 'machine' for those that share one",
                               in_quotes_or_nothing(value), did_you_mean(value, words));
            l.*member = is_count ? integer_of(value, place.where(), 1, most) : shard_of_machine;
          },
          [](const Layout& l) {
            return l.*member == 0                  ? std::string()
                   : l.*member == shard_of_machine ? std::string(machine)
                                                   : std::to_string(l.*member);
          },
          true};
}

constexpr std::string_view standard_schedule(const Layout& l) { return l.chunks > 1 ? "interleaved" : "1f1b"; }

std::string order_text(const Layout& l) {
  if (l.order == Layout{}.order) return {};
  std::string all, used;
  for (const Dimension d : l.order) {
    const bool shown = d != Dimension::context || l.context > 1;
    all += (all.empty() ? "" : "-") + std::string(name_of(d));
    if (shown) used += (used.empty() ? "" : "-") + std::string(name_of(d));
  }
  return order_of(used, {}) == l.order ? used : all;
}

/// "zero3-full" after "16*": what each of some units chooses, every word once.
UnitChoice choice_of_units(std::string_view text, const SpecPlace& place) {
  UnitChoice choice;
  std::array<bool, 3> said{};
  for_each_part(text, place, '-', [&](std::string_view word, const SpecPlace& here) {
    const auto once = [&](std::size_t i) {
      if (said[i]) throw InputError(here.column(), "tensor degree, ZeRO stage and recomputation once", quoted(word));
      said[i] = true;
    };
    if (word.starts_with("tp") && word.size() > 2) {
      once(0);
      choice.tensor = integer_of(word.substr(2), here.where(), 1, most);
    } else if (word.starts_with("zero") && word.size() > 4) {
      once(1);
      choice.zero = static_cast<int>(integer_of(word.substr(4), here.where(), 0, 3));
    } else if (word == "selective" || word == "full") {
      once(2);
      choice.recomputation = word == "full" ? Recomputation::full : Recomputation::selective;
    } else {
      throw InputError(here.column(), "words such as tp2, zero3, selective, full with '-' between them", quoted(word));
    }
  });
  return choice;
}

/// Neighbours that choose the same are one.
std::vector<UnitChoice> choices_of(std::string_view value, const SpecPlace& place) {
  std::vector<UnitChoice> all;
  for_each_part(value, place, '+', [&](std::string_view part, const SpecPlace& here) {
    const std::size_t star = part.find('*');
    SpecPlace behind = here;
    std::string_view words = part;
    std::uint32_t units = 1;
    if (star != std::string_view::npos) {
      units = static_cast<std::uint32_t>(integer_of(trimmed(part.substr(0, star)), here.where(), 1, most));
      words = trimmed(part.substr(star + 1));
      behind.at += words.empty() ? star : static_cast<std::size_t>(words.data() - part.data());
    }
    UnitChoice choice = choice_of_units(words, behind);
    choice.units = units;
    const bool same = !all.empty() && text_of(all.back()) == text_of(choice);
    if (same && std::uint64_t{all.back().units} + units > static_cast<std::uint64_t>(most))
      throw InputError(here.column(), "at most " + std::to_string(most) + " units", "more");
    if (same) all.back().units += units;
    else all.push_back(choice);
  });
  return all;
}

std::string choices_text(const Layout& l) {
  std::string out;
  for (const UnitChoice& c : l.unit_choices)
    out += (out.empty() ? "" : "+") + (c.units > 1 ? std::to_string(c.units) + "*" : "") + text_of(c);
  return out;
}

/// What values of an enumeration are called, from the first to `last`.
template <class Value>
Names words_up_to(Value last) {
  Names words;
  for (std::size_t i = 0; i <= static_cast<std::size_t>(last); ++i) words.emplace_back(name_of(static_cast<Value>(i)));
  return words;
}

/// "full", or modules with '+' between them.
void read_recomputation(Layout& l, std::string_view value, const SpecPlace& place) {
  Names words = words_up_to(Recomputation::operators);
  const std::size_t whole = words.size();
  for (std::size_t m = 0; m < recomputed_module_count; ++m)
    words.emplace_back(name_of(static_cast<RecomputedModule>(m)));
  l.recomputation = Recomputation::none;
  l.recomputed_modules = 0;
  std::size_t parts = 0;
  for_each_part(value, place, '+', [&](std::string_view part, const SpecPlace& here) {
    const std::size_t word = choice_of(part, here, words);
    if ((word < whole && parts > 0) || (parts > 0 && l.recomputation != Recomputation::modules))
      throw InputError(here.column(), "modules alone between '+'", quoted(value));
    ++parts;
    l.recomputation = word < whole ? static_cast<Recomputation>(word) : Recomputation::modules;
    if (word < whole) return;
    const auto bit = static_cast<std::uint8_t>(1u << (word - whole));
    if ((l.recomputed_modules & bit) != 0) throw InputError(here.column(), "each module once", quoted(part) + " again");
    l.recomputed_modules |= bit;
  });
}

/// "optimizer+activations"; parameters are not without the optimizer.
void read_offload(Layout& l, std::string_view value, const SpecPlace& place) {
  const Names words = words_up_to(Offloaded::activations);
  const auto bit = [](Offloaded o) { return static_cast<std::uint8_t>(1u << static_cast<unsigned>(o)); };
  l.offloaded = 0;
  std::uint8_t said = 0;
  for_each_part(value, place, '+', [&](std::string_view part, const SpecPlace& here) {
    const auto o = static_cast<Offloaded>(choice_of(part, here, words));
    if ((said & bit(o)) != 0) throw InputError(here.column(), "each word once", quoted(part) + " again");
    said |= bit(o);
    l.offloaded |= bit(o);
    if (o == Offloaded::parameters) l.offloaded |= bit(Offloaded::optimizer);
  });
}

constexpr std::array<Field, 34> fields{{
    count<&Layout::tensor, 1>("tp", "tensor parallelism: devices that divide each layer; 1"),
    count<&Layout::context, 1>("cp", "context parallelism: devices that divide the sequence; 1"),
    {"cp_comm", "how they exchange keys and values: p2p (a ring beside attention), allgather, a2a (of heads); p2p",
     [](Layout& l, std::string_view value, const SpecPlace& place) {
       l.context_exchange =
           static_cast<ContextExchange>(choice_of(value, place, words_up_to(ContextExchange::all_to_all)));
     },
     [](const Layout& l) {
       return l.context_exchange == ContextExchange::ring ? std::string() : std::string(name_of(l.context_exchange));
     }},
    count<&Layout::data, 0>("dp", "data-parallel replicas; what is left of the devices"),
    count<&Layout::pipeline, 1>("pp", "pipeline stages; 1"),
    count<&Layout::expert, 1>("ep", "expert parallelism: devices over which the experts are spread; 1"),
    count<&Layout::expert_tensor, 0>(
        "etp", "devices that divide each expert: tp, or 1 (with sp=on: whole ones, spread over tp as well); tp"),
    {"ep_comm",
     "how tokens get to their experts: alltoall (a copy for each), deepep (one for each machine, as DeepEP's); "
     "alltoall",
     [](Layout& l, std::string_view value, const SpecPlace& place) {
       l.expert_exchange =
           static_cast<ExpertExchange>(choice_of(value, place, words_up_to(ExpertExchange::deduplicated)));
     },
     [](const Layout& l) {
       return l.expert_exchange == ExpertExchange::all_to_all ? std::string() : std::string(name_of(l.expert_exchange));
     }},
    count<&Layout::chunks, 1>("chunks", "parts of the model that each stage holds (interleaving); 1"),
    count<&Layout::micro_batch, 0>("mb", "samples of a micro-batch; the traced batch, or what is fastest and fits"),
    {"schedule", "order of a pipeline's passes (list schedules); 1f1b, with chunks interleaved",
     [](Layout& l, std::string_view value, const SpecPlace& place) {
       l.schedule = &pipeline_schedules()[choice_of(value, place, names_of(pipeline_schedules()))];
     },
     [](const Layout& l) {
       return !l.schedule || l.schedule->name == standard_schedule(l) ? std::string() : std::string(l.schedule->name);
     }},
    {"zero", "ZeRO stage: 1 divides the optimizer state, 2 gradients too, 3 parameters too (FSDP); 0",
     [](Layout& l, std::string_view value, const SpecPlace& place) {
       l.zero = static_cast<int>(integer_of(value, place.where(), 0, 3));
     },
     [](const Layout& l) { return l.zero == 0 ? std::string() : std::to_string(l.zero); }, true},
    group<&Layout::shard>(
        "shard",
        "neighbouring data-parallel ranks over which ZeRO divides, replicated across these groups (HSDP, MiCS): 8, or "
        "machine for those that share one; all"),
    group<&Layout::backward_shard>(
        "hpz",
        "zero=3: neighbouring data-parallel ranks that divide a second copy of the parameters, which backward passes "
        "gather (ZeRO++'s hpZ, FSDP2's reshard_after_forward=8); cp divides it as well: 8, or machine for those that "
        "share one; none"),
    toggle<&Layout::quantized_weights, false>("qwz",
                                              "zero=3: parameters travel in 8 bits (ZeRO++'s qwZ): on, off; off"),
    toggle<&Layout::quantized_gradients, false>(
        "qgz",
        "zero=3: gradients travel in 4 bits, summed within machines and then across them (ZeRO++'s qgZ): on, off; "
        "off"),
    count<&Layout::units_in_flight, 2>("in_flight", "zero=3: gathered units that are held at a time; 2"),
    {"recompute",
     "activations that the backward pass computes again: none, selective, full, op (every second "
     "product, as torchtitan's selective), or modules as Megatron-LM names them, such as "
     "layernorm+moe_act+mla_up_proj; "
     "none",
     read_recomputation,
     [](const Layout& l) { return l.recomputation == Recomputation::none ? std::string() : recomputation_text(l); }},
    count<&Layout::recomputed_blocks, 0>(
        "recompute_blocks", "of recompute=full: only the first so many blocks of each stage (of each chunk); all"),
    count<&Layout::recomputed_together, 1>(
        "recompute_group",
        "of recompute=full: so many neighbouring blocks keep one input and are done again together; 1"),
    {"offload",
     "what is in the host's memory: optimizer (which the host updates), parameters (with zero=3: gradients and "
     "optimizer as well, as FSDP does), activations, or such words with '+' between them; nothing",
     read_offload, offload_text},
    count<&Layout::offloaded_blocks, 0>(
        "offload_blocks", "of offload=activations: only the first so many blocks of each stage (of each chunk); all"),
    toggle<&Layout::sequence_parallel, false>("sp", "sequence parallelism beside 1-D tensor parallelism: on, off; off"),
    {"overlap_tp",
     "on: sums of input gradients run beside weight gradients; products (with sp=on): the other gathers and sums as "
     "well, part by part beside the products that they belong to (--tp-comm-overlap, async tensor parallelism); off",
     [](Layout& l, std::string_view value, const SpecPlace& place) {
       l.overlap_tensor = static_cast<TensorOverlap>(choice_of(value, place, words_up_to(TensorOverlap::products)));
     },
     [](const Layout& l) {
       return l.overlap_tensor == TensorOverlap::nothing ? std::string() : std::string(name_of(l.overlap_tensor));
     }},
    toggle<&Layout::overlap_expert, false>(
        "overlap_ep",
        "tokens travel to and from experts beside another micro-batch's compute, a forward pass with a backward pass "
        "(--overlap-moe-expert-parallel-comm): on, off; off"),
    toggle<&Layout::overlap_pipeline, true>("overlap_pp", "sends between stages run beside compute: on, off; on"),
    toggle<&Layout::overlap_gradients, true>("overlap_dp",
                                             "gradients travel during the last backward pass: on, off; on"),
    toggle<&Layout::overlap_gather, true>(
        "overlap_gather",
        "zero=1 and 2: updated parameters are gathered beside the next step's first forward pass (Megatron-LM's "
        "--overlap-param-gather, fully_shard), or all behind the update (DeepSpeed): on, off; on"),
    toggle<&Layout::whole_tensors, false>(
        "whole_tensors",
        "zero=1: each rank updates whole tensors and broadcasts them, and whole gradients are summed "
        "(ZeroRedundancyOptimizer): on, off; off"),
    {"scheme", "how products are divided (list schemes); 1d",
     [](Layout& l, std::string_view value, const SpecPlace& place) {
       l.scheme = &tensor_schemes()[choice_of(value, place, names_of(tensor_schemes()))];
     },
     [](const Layout& l) { return !l.scheme || l.scheme->name == "1d" ? std::string() : std::string(l.scheme->name); }},
    count<&Layout::depth, 1>("depth", "of scheme 2.5d; 1"),
    {"order", "dimensions from neighbouring ranks outwards; tp-cp-dp-pp",
     [](Layout& l, std::string_view value, const SpecPlace& place) { l.order = order_of(value, place); }, order_text},
    {"stages",
     "units of each stage (of each chunk), such as 3+4+4+3, or by_time; as the program deals them out unless told "
     "(Megatron-LM: equal blocks), by time where it has to be told",
     [](Layout& l, std::string_view value, const SpecPlace& place) {
       l.stage_units.clear();
       l.stages_by_time = value == "by_time";
       if (l.stages_by_time) return;
       if (value.find_first_not_of("0123456789+") != std::string_view::npos)
         throw InputError(place.where(), "numbers of units such as 3+4+4+3, or by_time", in_quotes(value));
       for_each_part(value, place, '+', [&](std::string_view part, const SpecPlace& here) {
         l.stage_units.push_back(static_cast<std::uint32_t>(integer_of(part, here.where(), 1, most)));
       });
     },
     stages_text},
    {"units", "what each unit chooses, in forward order, such as tp4+16*tp1-zero3-full+tp2; all as tp, zero, recompute",
     [](Layout& l, std::string_view value, const SpecPlace& place) { l.unit_choices = choices_of(value, place); },
     choices_text},
}};

/// What frameworks call a ZeRO stage.
struct ShardedName {
  std::string_view word;
  int zero;
  std::int64_t shard = 0;
};
constexpr ShardedName sharded_names[] = {{"fsdp", 3},  {"fsdp2", 3}, {"hsdp", 3, shard_of_machine},
                                         {"zero1", 1}, {"zero2", 2}, {"zero3", 3}};

const ShardedName* sharded_name_of(std::string_view text) {
  const std::string_view word = SpecReader("plan", text).word();
  const auto* found = std::ranges::find(sharded_names, word, &ShardedName::word);
  return found == std::end(sharded_names) ? nullptr : found;
}

/// Reads what stands before the slash; `end` is where the plan begins, or npos where such a name stands alone.
Layout layout_of(std::string_view text, std::size_t& end) {
  SpecReader in("plan", text);
  Layout layout;
  const ShardedName* sharded = sharded_name_of(text);
  if (sharded != nullptr) layout.zero = sharded->zero, layout.shard = sharded->shard;
  const auto read = [&](std::size_t i, std::string_view value, const SpecPlace& place) {
    fields[i].read(layout, value, place);
  };
  in.options(in.word(), names_of(fields), read, ",)/");
  const bool ends = sharded != nullptr && in.peek() == '\0';
  if (!ends && !in.take('/')) in.refuse(in.skip(), "'/' and a plan after the layout, such as '/ddp'");
  end = ends ? std::string_view::npos : in.skip();
  // What names the default is the default.
  if (layout.scheme && layout.scheme->name == "1d") layout.scheme = nullptr;
  if (layout.schedule && layout.schedule->name == standard_schedule(layout)) layout.schedule = nullptr;
  return layout;
}

}  // namespace

std::string text_of(const UnitChoice& c) {
  std::string text = "tp" + std::to_string(c.tensor);
  if (c.zero > 0) text += "-zero" + std::to_string(c.zero);
  if (c.recomputation != Recomputation::none) text += "-" + std::string(name_of(c.recomputation));
  return text;
}

std::string stages_text(const Layout& l) {
  if (l.stages_by_time) return "by_time";
  std::string out;
  for (const std::uint32_t units : l.stage_units) out += (out.empty() ? "" : "+") + std::to_string(units);
  return out;
}

std::string offload_text(const Layout& l) {
  std::string text;
  for (std::size_t i = 0; i < offloaded_count; ++i) {
    const auto o = static_cast<Offloaded>(i);
    const bool implied = o == Offloaded::optimizer && l.offloads(Offloaded::parameters);
    if (l.offloads(o) && !implied) text += (text.empty() ? "" : "+") + std::string(name_of(o));
  }
  return text;
}

bool has_layout(std::string_view text) {
  text = trimmed(text);
  if (sharded_name_of(text) != nullptr) return true;
  if (!text.starts_with(keyword)) return false;
  const std::string_view rest = trimmed(text.substr(keyword.size()));
  return rest.empty() || rest.front() == '(' || rest.front() == '/';
}

LayoutPlan layout_plan_of(std::string_view text) {
  LayoutPlan plan;
  std::size_t start = 0;
  if (has_layout(text)) plan.layout = layout_of(text, start);
  plan.gradients = start == std::string_view::npos ? plan_spec_of("ddp") : plan_spec_from(text, start);
  return plan;
}

std::vector<LayoutField> layout_fields() {
  std::vector<LayoutField> out;
  for (const Field& f : fields) out.push_back({f.name, f.summary, f.is_number});
  return out;
}

Layout with_field(Layout layout, std::string_view name, std::string_view value) {
  const auto field = std::ranges::find(fields, name, &Field::name);
  if (field == fields.end()) {
    Names known;
    for (const Field& f : fields) known.emplace_back(f.name);
    throw InputError("layout", "an option of 'layout' (" + listed(known) + ")", in_quotes(name));
  }
  field->read(layout, value, {"layout", field->name, 0});
  return layout;
}

std::string text_of(const Layout& layout) {
  std::string inner;
  for (const Field& f : fields)
    if (const std::string value = f.text(layout); !value.empty())
      inner += (inner.empty() ? "" : ", ") + std::string(f.name) + "=" + value;
  return inner.empty() ? std::string(keyword) : std::string(keyword) + "(" + inner + ")";
}

std::string text_of(const LayoutPlan& plan) { return text_of(plan.layout) + "/" + text_of(plan.gradients); }

}  // namespace stepcast
