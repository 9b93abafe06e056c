// The text form of a layout before a plan:
//
//   layout plan = [ "layout" [ "(" field { "," field } ")" ] "/" ] plan
//   field       = "tp=8" | "order=tp-dp-pp" | "stages=3+4+4+3" | "sp=on" | ...
//
// A dimension that `order` leaves out stays right of its left neighbour in the standard order. What is written as the
// default ("scheme=1d") reads as nothing, so that a text has one value and a value one text.
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/layout/layout.hpp>
#include <stepcast/layout/tensor_scheme.hpp>
#include <stepcast/pipeline/pipeline.hpp>
#include <stepcast/plan/text.hpp>

#include <algorithm>
#include <array>

namespace stepcast {
namespace {

constexpr std::string_view keyword = "layout";
constexpr std::int64_t most = 1'000'000'000;
using Names = std::vector<std::string>;

std::string listed(const Names& names) {
  std::string out;
  for (const std::string& n : names) out += (out.empty() ? "" : ", ") + n;
  return out;
}
std::string quoted(std::string_view s) { return "'" + std::string(s) + "'"; }

/// Where in the plan a value stands, for refusals.
struct Place {
  std::string_view field;
  std::size_t at = 0;
  [[nodiscard]] std::string column() const { return "plan, column " + std::to_string(at + 1); }
  [[nodiscard]] std::string option() const { return column() + ", option " + quoted(field); }
  [[noreturn]] void refuse(std::string_view found, const Names& known) const {
    const std::string near = suggestion_for(found, known);
    throw InputError(column(), "one of " + listed(known) + " for option " + quoted(field), quoted(found),
                     near.empty() ? "" : "did you mean " + quoted(near) + "?");
  }
};

std::size_t choice_of(std::string_view value, const Place& place, const Names& names) {
  const auto found = std::find(names.begin(), names.end(), value);
  if (found == names.end()) place.refuse(value, names);
  return static_cast<std::size_t>(found - names.begin());
}

template <class Family>
Names names_of(const Family& family) {
  Names names;
  for (const auto& member : family) names.emplace_back(member.name);
  return names;
}

/// The parts of "3+4+4+3" between `separator`s, with where they stand.
template <class Each>
void for_each_part(std::string_view value, std::size_t at, char separator, const Each& each) {
  while (true) {
    const std::size_t end = std::min(value.find(separator), value.size());
    const std::string_view part = value.substr(0, end);
    each(trimmed(part), at + (trimmed(part).empty() ? 0 : part.find(trimmed(part).front())));
    if (end == value.size()) return;
    value.remove_prefix(end + 1);
    at += end + 1;
  }
}

/// The standard order with the dimensions that are named first to last; those left out follow their left neighbour.
std::array<Dimension, dimension_count> order_of(std::string_view value, const Place& place) {
  static constexpr auto standard = Layout{}.order;
  const Names names = {"tp", "cp", "dp", "pp"};
  std::vector<Dimension> order;
  for_each_part(value, place.at, '-', [&](std::string_view part, std::size_t at) {
    const auto d = static_cast<Dimension>(choice_of(part, {place.field, at}, names));
    if (std::find(order.begin(), order.end(), d) != order.end())
      throw InputError(Place{place.field, at}.column(), "each dimension once", quoted(part) + " again");
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

bool on(std::string_view value, const Place& place) { return choice_of(value, place, {"off", "on"}) == 1; }
std::string on_text(bool value) { return value ? "on" : "off"; }

/// A field of the text: how it is read into a layout and written from one (empty: as the default).
struct Field {
  std::string_view name, summary;
  void (*read)(Layout&, std::string_view value, const Place&);
  std::string (*text)(const Layout&);
  bool is_number = false;
};

template <std::int64_t Layout::*member, std::int64_t standard, std::int64_t low = 1>
constexpr Field count(std::string_view name, std::string_view summary) {
  return {name, summary,
          [](Layout& l, std::string_view value, const Place& place) {
            l.*member = integer_of(value, place.option(), low, most);
          },
          [](const Layout& l) { return l.*member == standard ? std::string() : std::to_string(l.*member); }, true};
}
template <bool Layout::*member, bool standard>
constexpr Field toggle(std::string_view name, std::string_view summary) {
  return {name, summary, [](Layout& l, std::string_view value, const Place& place) { l.*member = on(value, place); },
          [](const Layout& l) { return l.*member == standard ? std::string() : on_text(l.*member); }};
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
  return order_of(used, {"order", 0}) == l.order ? used : all;
}

std::string stages_text(const Layout& l) {
  std::string out;
  for (const std::uint32_t units : l.stage_units) out += (out.empty() ? "" : "+") + std::to_string(units);
  return out;
}

constexpr std::array<Field, 19> fields{{
    count<&Layout::tensor, 1>("tp", "tensor parallelism: devices that divide each layer; 1"),
    count<&Layout::context, 1>("cp", "context parallelism: devices that divide the sequence; 1"),
    count<&Layout::data, 0>("dp", "data-parallel replicas; what is left of the devices"),
    count<&Layout::pipeline, 1>("pp", "pipeline stages; 1"),
    count<&Layout::expert, 1>("ep", "expert parallelism: devices that divide the experts; divides dp; 1"),
    count<&Layout::chunks, 1>("chunks", "parts of the model that each stage holds (interleaving); 1"),
    count<&Layout::micro_batch, 0>("mb", "samples of a micro-batch; the traced batch, or 1"),
    {"schedule", "order of a pipeline's passes (list schedules); 1f1b, with chunks interleaved",
     [](Layout& l, std::string_view value, const Place& place) {
       l.schedule = &pipeline_schedules()[choice_of(value, place, names_of(pipeline_schedules()))];
     },
     [](const Layout& l) {
       return !l.schedule || l.schedule->name == standard_schedule(l) ? std::string() : std::string(l.schedule->name);
     }},
    {"zero", "ZeRO stage: 1 divides the optimizer state, 2 gradients too, 3 parameters too (FSDP); 0",
     [](Layout& l, std::string_view value, const Place& place) {
       l.zero = static_cast<int>(integer_of(value, place.option(), 0, 3));
     },
     [](const Layout& l) { return l.zero == 0 ? std::string() : std::to_string(l.zero); }, true},
    count<&Layout::units_in_flight, 2>("in_flight", "zero=3: gathered units that are held at a time; 2"),
    {"recompute", "activations that the backward pass computes again: none, selective, full; none",
     [](Layout& l, std::string_view value, const Place& place) {
       l.recomputation = static_cast<Recomputation>(choice_of(value, place, {"none", "selective", "full"}));
     },
     [](const Layout& l) {
       return l.recomputation == Recomputation::none ? std::string() : std::string(name_of(l.recomputation));
     }},
    toggle<&Layout::sequence_parallel, false>("sp", "sequence parallelism beside 1-D tensor parallelism: on, off; off"),
    toggle<&Layout::overlap_tensor, false>("overlap_tp",
                                           "sums of input gradients run beside weight gradients: on, off; off"),
    toggle<&Layout::overlap_pipeline, true>("overlap_pp", "sends between stages run beside compute: on, off; on"),
    toggle<&Layout::overlap_gradients, true>("overlap_dp",
                                             "gradients travel during the last backward pass: on, off; on"),
    {"scheme", "how products are divided (list schemes); 1d",
     [](Layout& l, std::string_view value, const Place& place) {
       l.scheme = &tensor_schemes()[choice_of(value, place, names_of(tensor_schemes()))];
     },
     [](const Layout& l) { return !l.scheme || l.scheme->name == "1d" ? std::string() : std::string(l.scheme->name); }},
    count<&Layout::depth, 1>("depth", "of scheme 2.5d; 1"),
    {"order", "dimensions from neighbouring ranks outwards; tp-cp-dp-pp",
     [](Layout& l, std::string_view value, const Place& place) { l.order = order_of(value, place); }, order_text},
    {"stages", "units of each stage (of each chunk), such as 3+4+4+3; balanced by time",
     [](Layout& l, std::string_view value, const Place& place) {
       l.stage_units.clear();
       for_each_part(value, place.at, '+', [&](std::string_view part, std::size_t at) {
         const Place here{place.field, at};
         l.stage_units.push_back(static_cast<std::uint32_t>(integer_of(part, here.option(), 1, most)));
       });
     },
     stages_text},
}};

Names field_names() {
  Names names;
  for (const Field& f : fields) names.emplace_back(f.name);
  return names;
}

/// Reads what stands before the slash; every refusal names the column.
class LayoutReader {
 public:
  explicit LayoutReader(std::string_view text) : text_(text) {}

  /// The layout; `end` is where the plan begins.
  Layout read(std::size_t& end) {
    skip();
    at_ += keyword.size();
    Layout layout;
    if (skip(); peek() == '(') read_fields(layout);
    if (skip(); peek() != '/') refuse(at_, "'/' and a plan after the layout, such as '/ddp'", found());
    end = at_ + 1;
    // What names the default is the default.
    if (layout.scheme && layout.scheme->name == "1d") layout.scheme = nullptr;
    if (layout.schedule && layout.schedule->name == standard_schedule(layout)) layout.schedule = nullptr;
    return layout;
  }

 private:
  [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  std::size_t skip() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
    return at_;
  }
  [[nodiscard]] std::string found() const {
    return at_ < text_.size() ? quoted(text_.substr(at_, 1)) : "the end of the text";
  }
  [[noreturn]] static void refuse(std::size_t at, std::string expected, std::string what, std::string hint = {}) {
    throw InputError(Place{{}, at}.column(), std::move(expected), std::move(what), std::move(hint));
  }
  std::string_view until(std::string_view stops) {
    const std::size_t start = skip();
    at_ = std::min(text_.find_first_of(stops, start), text_.size());
    return trimmed(text_.substr(start, at_ - start));
  }

  void read_fields(Layout& layout) {
    ++at_;  // "("
    if (skip(); peek() == ')') {
      ++at_;
      return;
    }
    std::array<bool, fields.size()> given{};
    while (true) {
      const std::size_t start = skip();
      const std::string_view name = until("=,()/");
      const std::size_t i = index_of(name, start);
      if (given[i]) refuse(start, "each option once", quoted(name) + " again");
      given[i] = true;
      if (peek() != '=') refuse(at_, "'='", found());
      ++at_;
      const std::size_t value_at = skip();
      const std::string_view value = until(",)/");
      fields[i].read(layout, value, {fields[i].name, value_at});
      const char c = peek();
      if (c != ',' && c != ')') refuse(at_, "',' or ')'", found());
      ++at_;
      if (c == ')') return;
    }
  }

  [[nodiscard]] std::size_t index_of(std::string_view name, std::size_t at) const {
    std::size_t i = 0;
    while (i < fields.size() && fields[i].name != name) ++i;
    if (i < fields.size()) return i;
    const std::string near = suggestion_for(name, field_names());
    refuse(at, "an option of 'layout' (" + listed(field_names()) + ")", name.empty() ? found() : quoted(name),
           near.empty() ? "" : "did you mean " + quoted(near) + "?");
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

bool has_layout(std::string_view text) {
  text = trimmed(text);
  if (!text.starts_with(keyword)) return false;
  const std::string_view rest = trimmed(text.substr(keyword.size()));
  return rest.empty() || rest.front() == '(' || rest.front() == '/';
}

LayoutPlan layout_plan_of(std::string_view text) {
  LayoutPlan plan;
  std::size_t start = 0;
  if (has_layout(text)) plan.layout = LayoutReader(text).read(start);
  plan.gradients = plan_spec_from(text, start);
  return plan;
}

std::vector<LayoutField> layout_fields() {
  std::vector<LayoutField> out;
  for (const Field& f : fields) out.push_back({f.name, f.summary, f.is_number});
  return out;
}

Layout with_field(Layout layout, std::string_view name, std::string_view value) {
  const auto field = std::ranges::find(fields, name, &Field::name);
  if (field == fields.end())
    throw InputError("layout", "an option of 'layout' (" + listed(field_names()) + ")", quoted(name));
  field->read(layout, value, {field->name, 0});
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
